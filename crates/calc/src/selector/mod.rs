//! Label selectors in both forms: the string in the status of a scale, and the object in specs.
//!
//! The grammar, the validation and the canonical form are those of the Kubernetes API
//! (k8s.io/apimachinery/pkg/labels and meta/v1 `LabelSelector`).
//!
//! ```
//! use hpa_calc::Selector;
//!
//! let selector = Selector::parse("tier in (web, api), app=shop, !canary")?;
//! assert_eq!(selector.to_string(), "app=shop,!canary,tier in (api,web)");
//! assert!(selector.matches(&[("app", "shop"), ("tier", "web")][..]));
//! assert!(!selector.matches(&[("app", "shop")][..]));
//! # Ok::<(), hpa_calc::selector::SelectorError>(())
//! ```

mod label_selector;
mod limits;
mod parse;
#[cfg(test)]
mod tests;
mod validate;

use std::{collections::BTreeMap, fmt};

pub use label_selector::{LabelSelector, LabelSelectorRequirement, go_string};
pub use limits::{
    MAX_LABEL_BYTES, MAX_LABELS, MAX_REQUIREMENTS, MAX_TEXT_BYTES, MAX_VALUES, exceed_label_limits,
};

/// The error of an invalid selector. The messages are those of the API's Go library, which has no
/// limits of size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The grammar doesn't allow a token at its position.
    #[error("found '{found}'{expected}")]
    Syntax {
        /// The token, or an empty text at the end of the selector.
        found: String,
        /// The rest of the message: the tokens that are allowed.
        expected: &'static str,
    },
    /// A requirement of a selector string is invalid.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[source] Box<SelectorError>),
    /// A key or value is invalid for a label, the operator has too many or too few values, or the
    /// value of `>` or `<` is not an integer.
    #[error("{0}")]
    Invalid(String),
    /// A [`LabelSelector`]'s operator is none of `In`, `NotIn`, `Exists` and `DoesNotExist`.
    #[error("{} is not a valid label selector operator", crate::go_text::Quoted(.0))]
    Operator(String),
    /// The selector exceeds [`MAX_REQUIREMENTS`], [`MAX_VALUES`] or [`MAX_TEXT_BYTES`].
    #[error("the selector has {size} {unit}, at most {limit} are supported")]
    TooLarge {
        /// The actual number.
        size: usize,
        /// The counted unit: requirements, values or bytes.
        unit: &'static str,
        /// The maximum number.
        limit: usize,
    },
}

/// The operator of a [`Requirement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `in`
    In,
    /// `notin`
    NotIn,
    /// `=`
    Equals,
    /// `==`
    DoubleEquals,
    /// `!=`
    NotEquals,
    /// `>`
    GreaterThan,
    /// `<`
    LessThan,
    /// The key alone.
    Exists,
    /// The key after a `!`.
    DoesNotExist,
}

/// One condition of a [`Selector`]: a key, an operator and its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    /// Sorted.
    values: Vec<Box<str>>,
}

/// A set of labels to match a [`Selector`] against.
pub trait Labels {
    /// The value of the label `key`, if it exists.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labels for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Pairs of key and value. Of several pairs with the same key, the first counts. A lookup searches
/// all pairs. [`Pod::is_selected_by`](crate::Pod::is_selected_by) is faster.
impl<K: AsRef<str>, V: AsRef<str>> Labels for [(K, V)] {
    fn label(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(candidate, _)| candidate.as_ref() == key)
            .map(|(_, value)| value.as_ref())
    }
}

/// `None` is an empty set of labels.
impl<L: Labels> Labels for Option<L> {
    fn label(&self, key: &str) -> Option<&str> {
        self.as_ref()?.label(key)
    }
}

/// A valid label selector. It matches labels that meet all of its requirements.
///
/// `Display` prints the canonical string (Go's `labels.Selector.String`), with requirements in the
/// order of their keys and sorted values. Selectors are equal if their canonical strings are. The
/// exception is [`Selector::nothing`], which has the same empty string as [`Selector::everything`]
/// but is not equal to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// Sorted by key. `None` matches nothing.
    requirements: Option<Vec<Requirement>>,
}

impl Selector {
    /// Parses the string form, such as `app=web,tier in (a,b),!canary` (Go's `labels.Parse`). The
    /// empty string matches everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        limits::check_text(text)?;
        Self::from_requirements(parse::parse(text)?)
    }

    /// The selector of an optional [`LabelSelector`]. `None` selects nothing, an empty one selects
    /// everything (`LabelSelectorAsSelector` in the API's Go library).
    pub fn from_label_selector(selector: Option<&LabelSelector>) -> Result<Self, SelectorError> {
        selector.map_or_else(|| Ok(Self::nothing()), LabelSelector::to_selector)
    }

    /// The selector without requirements, which matches all labels.
    pub const fn everything() -> Self {
        Self { requirements: Some(Vec::new()) }
    }

    /// The selector that matches no labels. Its string is empty.
    pub const fn nothing() -> Self {
        Self { requirements: None }
    }

    /// Whether the selector has no requirements. It then matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether this is [`Selector::nothing`]. Contradicting requirements are not detected.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// Whether `labels` meet all requirements.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        self.matches_by(|key| labels.label(key))
    }

    /// Like [`Selector::matches`], with a function that returns the value of a label by its key.
    pub fn matches_by<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => {
                requirements.iter().all(|requirement| requirement.matches(get(&requirement.key)))
            }
            None => false,
        }
    }

    /// The pairs of key and value that all matching labels have, from the operators `=`, `==` and
    /// `in` with a single value. There are none for [`Selector::nothing`]. An index by label can
    /// find candidates by these pairs.
    pub fn required_pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.requirements.iter().flatten().filter_map(|requirement| {
            match (requirement.operator, requirement.values.as_slice()) {
                (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => {
                    Some((&*requirement.key, &**value))
                }
                _ => None,
            }
        })
    }

    /// The requirements in the order of their keys. There are none for [`Selector::nothing`].
    pub fn requirements(&self) -> &[Requirement] {
        self.requirements.as_deref().unwrap_or_default()
    }

    fn from_requirements(mut requirements: Vec<Requirement>) -> Result<Self, SelectorError> {
        limits::check_requirements(&requirements)?;
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        // A controller keeps many selectors, most of them with one requirement.
        requirements.shrink_to_fit();
        Ok(Self { requirements: Some(requirements) })
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
    /// The label's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The sorted values. They are empty for [`Operator::Exists`] and [`Operator::DoesNotExist`].
    /// Those of a [`LabelSelector`] can have duplicates.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    fn matches(&self, value: Option<&str>) -> bool {
        let is_listed =
            |value: &str| self.values.binary_search_by(|listed| (**listed).cmp(value)).is_ok();
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => {
                value.is_some_and(is_listed)
            }
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(is_listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => self.compare(value).is_some_and(std::cmp::Ordering::is_lt),
        }
    }

    /// Compares the label's number with the required one. `None` if either is not a 64-bit integer.
    fn compare(&self, value: Option<&str>) -> Option<std::cmp::Ordering> {
        let label: i64 = value?.parse().ok()?;
        let required: i64 = self.values.first()?.parse().ok()?;
        Some(label.cmp(&required))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (prefix, infix, suffix) = match self.operator {
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
        write!(f, "{prefix}{}{infix}", self.key)?;
        for (index, value) in self.values.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(suffix)
    }
}
