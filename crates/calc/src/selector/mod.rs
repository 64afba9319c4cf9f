//! Label selectors: the string form that a scale reports and the object form of the API.
//!
//! The grammar, the validation and the canonical form are those of the Kubernetes API
//! (k8s.io/apimachinery/pkg/labels and meta/v1 `LabelSelector`).

mod label_selector;
mod parse;
#[cfg(test)]
mod tests;
mod validate;

use std::{collections::BTreeMap, fmt};

pub use label_selector::{LabelSelector, LabelSelectorRequirement, go_string};

/// Why a selector is not valid. The texts are those of the API's Go library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// Something stands where the grammar does not allow it.
    #[error("found '{found}'{expected}")]
    Syntax {
        /// What was found, empty at the end of the text.
        found: String,
        /// The rest of the message: what could stand there.
        expected: &'static str,
    },
    /// A requirement of a selector string is wrong.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[source] Box<SelectorError>),
    /// Keys or values that no label can have, or too many or too few values for the operator.
    #[error("{0}")]
    Invalid(String),
    /// A [`LabelSelector`]'s operator is none of `In`, `NotIn`, `Exists` and `DoesNotExist`.
    #[error("{} is not a valid label selector operator", crate::go_text::Quoted(.0))]
    Operator(String),
}

/// How a requirement relates a key to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    GreaterThan,
    LessThan,
    Exists,
    DoesNotExist,
}

/// A key, an operator and its values. The values are sorted, as they are printed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Vec<Box<str>>,
}

/// A set of labels to match a [`Selector`] against.
pub trait Labels {
    /// The value of the label `key`, if there is such a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Pairs of key and value; of equal keys the first counts.
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter().find(|(own, _)| own.as_ref() == key).map(|(_, value)| value.as_ref())
    }
}

/// No labels at all are none.
impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.label(key)
    }
}

/// A label selector that is valid and ready to match: all its requirements must hold.
///
/// `Display` gives the canonical string (Go's `labels.Selector.String`): requirements in the order of their keys,
/// values sorted. Selectors are equal, and hash alike, if their canonical strings are the same and both or neither is
/// [`Selector::nothing`], whose string is empty like that of [`Selector::everything`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Sorted by key. None for the selector that matches nothing.
    requirements: Option<Vec<Requirement>>,
}

impl Selector {
    /// Parses the string form, such as `app=web,tier in (a,b),!canary` (Go's `labels.Parse`). The empty string selects
    /// everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        Ok(Self::from_requirements(parse::parse(text)?))
    }

    /// The selector of an optional [`LabelSelector`]. `None` selects nothing, an empty one selects
    /// everything (`LabelSelectorAsSelector` in the API's Go library).
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        selector.map_or_else(|| Ok(Self::nothing()), LabelSelector::to_selector)
    }

    /// The selector without requirements: it matches every set of labels.
    pub const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// The selector that matches no set of labels. Its string is empty.
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Whether the selector matches everything because it requires nothing.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether this is [`Selector::nothing`]. Requirements that contradict each other are not detected.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// Whether `labels` meet every requirement.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.matches_by(|key| labels.label(key))
    }

    /// Like [`Selector::matches`], with a function that looks up the value of a label by its key.
    pub fn matches_by<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|one| one.matches(get(&one.key))),
            None => false,
        }
    }

    /// The pairs of key and value that every matching set of labels has: those of `=`, `==` and of `in` with a single
    /// value. None for [`Selector::nothing`], though it matches nothing at all.
    pub fn required_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.requirements.iter().flatten().filter_map(|one| {
            match (one.operator, one.values.as_slice()) {
                (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => {
                    Some((&*one.key, &**value))
                }
                _ => None,
            }
        })
    }

    fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|one, two| one.key.cmp(&two.key));
        // There are many of them, and for long; most have one requirement.
        requirements.shrink_to_fit();
        Self { requirements: Some(requirements) }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let among = |value: &str| self.values.iter().any(|one| **one == *value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(among),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => self.compare(value).is_some_and(std::cmp::Ordering::is_lt),
        }
    }

    /// How a label's number compares to the required one. None if it is no number of 64 bits.
    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let label: i64 = value?.parse().ok()?;
        let required: i64 = self.values.first()?.parse().ok()?;
        Some(label.cmp(&required))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after_key, after) = match self.operator {
            Operator::In => ("", " in (", ")"),
            Operator::NotIn => ("", " notin (", ")"),
            Operator::Equals => ("", "=", ""),
            Operator::DoubleEquals => ("", "==", ""),
            Operator::NotEquals => ("", "!=", ""),
            Operator::GreaterThan => ("", ">", ""),
            Operator::LessThan => ("", "<", ""),
            Operator::Exists => ("", "", ""),
            Operator::DoesNotExist => ("!", "", ""),
        };
        write!(f, "{before}{}{after_key}", self.key)?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(after)
    }
}
