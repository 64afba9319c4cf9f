//! Field selectors, such as `metadata.name=web-0,metadata.namespace!=shop`.

use hpa_calc::go_text::Quoted;
use hpa_metrics::{FieldRequirement, query::MetadataField};

/// The operators, each with whether it is an equality. `==` must be before `=`, its prefix.
const OPERATORS: [(&str, bool); 3] = [("!=", false), ("==", true), ("=", true)];

/// Terms that an object must all meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    is_equal: bool,
    value: String,
}

impl Term {
    /// The field, if it is metadata of metrics.
    fn metadata_field(&self) -> Option<MetadataField> {
        match self.field.as_str() {
            "metadata.name" => Some(MetadataField::Name),
            "metadata.namespace" => Some(MetadataField::Namespace),
            _ => None,
        }
    }
}

impl FieldSelector {
    /// Selects the object with a name.
    pub fn for_name(name: &str) -> Self {
        let field = "metadata.name".to_owned();
        Self { terms: vec![Term { field, is_equal: true, value: name.to_owned() }] }
    }

    /// Parses a selector. The error has the text of apimachinery's.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms: Vec<&str> = split_terms(text).filter(|term| !term.is_empty()).collect();
        // apimachinery sorts the terms.
        terms.sort_unstable();
        let terms = terms.into_iter().map(|term| {
            let (field, is_equal, value) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            Ok(Term { field: field.to_owned(), is_equal, value: unescape(value)? })
        });
        Ok(Self { terms: terms.collect::<Result<_, String>>()? })
    }

    /// Checks that all fields are metadata of metrics. The error has the text of apimachinery's.
    pub fn check_fields(&self) -> Result<(), String> {
        match self.terms.iter().find(|term| term.metadata_field().is_none()) {
            Some(term) => Err(format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                Quoted(&term.field)
            )),
            None => Ok(()),
        }
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value in the first `=` term for a field, as in apimachinery.
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let mut terms = self.terms.iter().filter(|term| term.is_equal && term.field == field);
        terms.next().map(|term| term.value.as_str())
    }

    /// The terms about the metadata of metrics; others are left out.
    pub fn requirements(&self) -> Box<[FieldRequirement]> {
        let terms = self.terms.iter().filter_map(|term| {
            let field = term.metadata_field()?;
            Some(FieldRequirement { field, must_equal: term.is_equal, value: term.value.clone() })
        });
        terms.collect()
    }
}

/// Splits at unescaped commas.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |char| {
        let splits = char == ',' && !is_escaped;
        is_escaped = char == '\\' && !is_escaped;
        splits
    })
}

/// Splits a term at its first operator: the field, whether the operator is an equality, and the
/// escaped value. A field has no escapes.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    term.char_indices().find_map(|(index, _)| {
        let (field, rest) = term.split_at_checked(index)?;
        OPERATORS.into_iter().find_map(|(operator, is_equal)| {
            rest.strip_prefix(operator).map(|value| (field, is_equal, value))
        })
    })
}

fn unescape(text: &str) -> Result<String, String> {
    let invalid = |problem: String| format!("invalid field selector: {problem}");
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(invalid(format!("invalid escape sequence: \\{other}"))),
                None => return Err(invalid("invalid escape sequence: \\".to_owned())),
            },
            // apimachinery prints the number of the character.
            ',' | '=' => {
                let code = u32::from(char);
                return Err(invalid(format!("unescaped character in value: {code}")));
            }
            _ => value.push(char),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use hpa_metrics::ObjectKey;
    use rstest::rstest;

    use super::*;

    #[test]
    fn terms_are_conditions_on_metadata() {
        let selector = FieldSelector::parse("metadata.name==a,metadata.namespace!=b,").unwrap();
        assert_eq!(selector.exact_match("metadata.name"), Some("a"));
        assert_eq!(selector.exact_match("metadata.namespace"), None);
        let requirements = selector.requirements();
        let matches = |namespace: &str, name: &str| {
            let object = ObjectKey::new(namespace, name);
            requirements.iter().all(|requirement| requirement.matches(&object))
        };
        assert!(matches("c", "a"));
        assert!(!matches("b", "a"));
        assert!(!matches("c", "b"));
        assert_eq!(selector.check_fields(), Ok(()));
        assert!(FieldSelector::parse("").unwrap().is_empty());
    }

    #[rstest]
    #[case("a", "invalid selector: 'a'; can't understand 'a'")]
    #[case("a=b=c", "invalid field selector: unescaped character in value: 61")]
    #[case("a\\=b=c", "invalid field selector: unescaped character in value: 61")]
    #[case("a=b\\c", "invalid field selector: invalid escape sequence: \\c")]
    #[case::sorted("b,a", "invalid selector: 'b,a'; can't understand 'a'")]
    fn invalid_selectors_are_reported(#[case] text: &str, #[case] message: &str) {
        assert_eq!(FieldSelector::parse(text).unwrap_err(), message);
    }

    #[test]
    fn escaped_characters_are_part_of_the_value() {
        let selector = FieldSelector::parse(r"a=b\,c\=d\\,e=f").unwrap();
        assert_eq!(selector.exact_match("a"), Some(r"b,c=d\"));
        assert_eq!(selector.exact_match("e"), Some("f"));
        let error = selector.check_fields().unwrap_err();
        assert!(error.starts_with("\"a\" is not a known field selector"), "{error}");
    }
}
