//! A model of selectors: parsed by splitting at commas and operators, matched by sets of values.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{
    Selector,
    selector::{LabelSelector, LabelSelectorRequirement},
};
use proptest::prelude::*;

/// One condition on the value of a label.
#[derive(Clone, Debug)]
struct Condition {
    key: String,
    predicate: Predicate,
}

#[derive(Clone, Debug)]
enum Predicate {
    OneOf(BTreeSet<String>),
    NoneOf(BTreeSet<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

impl Condition {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = value.and_then(|value| value.parse::<i64>().ok());
        match &self.predicate {
            Predicate::OneOf(values) => value.is_some_and(|value| values.contains(value)),
            Predicate::NoneOf(values) => value.is_none_or(|value| !values.contains(value)),
            Predicate::Exists => value.is_some(),
            Predicate::Missing => value.is_none(),
            Predicate::Above(limit) => number.is_some_and(|number| number > *limit),
            Predicate::Below(limit) => number.is_some_and(|number| number < *limit),
        }
    }
}

/// Whether a text is valid as the name part of a key and as a non-empty value: letters and digits,
/// and `-_.` in between.
fn is_name(text: &str) -> bool {
    let is_alphanumeric = |char: char| char.is_ascii_alphanumeric();
    text.len() <= 63
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.chars().all(|char| is_alphanumeric(char) || "-_.".contains(char))
}

fn is_key(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_lower = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
        part.starts_with(is_lower)
            && part.ends_with(is_lower)
            && part.chars().all(|char| is_lower(char) || char == '-')
    };
    match text.split_once('/') {
        None => is_name(text),
        Some((prefix, name)) => {
            is_name(name) && prefix.len() <= 253 && prefix.split('.').all(is_part)
        }
    }
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// Splits at the commas that are outside of parentheses.
fn pieces(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut pieces = vec![String::new()];
    for char in text.chars() {
        depth += i32::from(char == '(') - i32::from(char == ')');
        if char == ',' && depth == 0 {
            pieces.push(String::new());
        } else {
            pieces.last_mut().expect("a piece").push(char);
        }
    }
    pieces
}

/// `None` if the text is not a selector.
fn model(text: &str) -> Option<Vec<Condition>> {
    if text.trim().is_empty() {
        return Some(Vec::new());
    }
    pieces(text).iter().map(|piece| condition(piece.trim())).collect()
}

fn condition(piece: &str) -> Option<Condition> {
    if let Some(key) = piece.strip_prefix('!') {
        let key = key.trim().to_owned();
        return is_key(&key).then_some(Condition { key, predicate: Predicate::Missing });
    }
    let end = piece.find(|char: char| char.is_whitespace() || "=!<>()".contains(char));
    let (key, rest) = piece.split_at(end.unwrap_or(piece.len()));
    let predicate = predicate(rest.trim())?;
    is_key(key).then(|| Condition { key: key.to_owned(), predicate })
}

fn predicate(text: &str) -> Option<Predicate> {
    let one = |value: &str| {
        let value = value.trim();
        is_value(value).then(|| BTreeSet::from([value.to_owned()]))
    };
    let number = |value: &str| one(value).and_then(|_| value.trim().parse().ok());
    if text.is_empty() {
        Some(Predicate::Exists)
    } else if let Some(value) = text.strip_prefix("==").or(text.strip_prefix('=')) {
        one(value).map(Predicate::OneOf)
    } else if let Some(value) = text.strip_prefix("!=") {
        one(value).map(Predicate::NoneOf)
    } else if let Some(value) = text.strip_prefix('>') {
        number(value).map(Predicate::Above)
    } else if let Some(value) = text.strip_prefix('<') {
        number(value).map(Predicate::Below)
    } else if let Some(values) = text.strip_prefix("notin") {
        set(values).map(Predicate::NoneOf)
    } else {
        set(text.strip_prefix("in")?).map(Predicate::OneOf)
    }
}

/// The values in parentheses.
fn set(text: &str) -> Option<BTreeSet<String>> {
    let values = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    values.split(',').map(|value| is_value(value.trim()).then(|| value.trim().to_owned())).collect()
}

/// Compares a selector with its model on many sets of labels.
fn compare(selector: &Selector, model: &[Condition], text: &str) -> Result<(), TestCaseError> {
    let values = [None, Some(""), Some("a"), Some("b"), Some("in"), Some("1"), Some("10")];
    for a in values {
        for b in values {
            let pairs = [("a", a), ("b", b), ("in", a), ("a.b/c", b)];
            let labels: BTreeMap<String, String> = pairs
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())))
                .collect();
            let expected = model.iter().all(|condition| condition.holds(&labels));
            prop_assert_eq!(selector.matches(&labels), expected, "{} {:?}", text, labels);
        }
    }
    Ok(())
}

fn compare_text(text: &str) -> Result<(), TestCaseError> {
    match (Selector::parse(text), model(text)) {
        (Ok(selector), Some(model)) => compare(&selector, &model, text),
        (parsed, model) => {
            prop_assert_eq!(parsed.is_ok(), model.is_some(), "{}: {:?}, {:?}", text, parsed, model);
            Ok(())
        }
    }
}

/// One requirement, or nearly.
fn requirement() -> impl Strategy<Value = String> {
    let key = "a|b|in|notin|a\\.b/c|-a|A_a|a/|/a|A/b|a/b/c|[a-z]{62,64}| ?";
    let value = "a|b|in|notin|1|10|-1|99999999999999999999|a-|_|";
    let values = "(a|b|in|1| |,|-|\\(|\\)){0,5}";
    prop_oneof![
        (key, " ?", "=|==|!=|>|<|===|=>", " ?", value).prop_map(
            |(key, one, operator, two, value)| format!("{key}{one}{operator}{two}{value}")
        ),
        (key, " (in|notin|inb|IN) ?", values, "\\)|\\) |", prop::bool::weighted(0.9)).prop_map(
            |(key, operator, values, end, is_open)| {
                format!("{key}{operator}{}{values}{end}", if is_open { "(" } else { "" })
            }
        ),
        ("!? ?!?", key, " ?b?").prop_map(|(not, key, end)| format!("{not}{key}{end}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn parsed_selector_equals_the_model(
        requirements in prop::collection::vec(requirement(), 0..3),
        separator in " ?, ?|\t,\n",
    ) {
        compare_text(&requirements.join(&separator))?;
    }

    #[test]
    fn any_sequence_of_tokens_is_parsed_as_by_the_model(
        text in "(a|b|1|in|notin| in | notin |=|==|!=|!|<|>|\\(|\\)|,| |\t){0,9}",
    ) {
        compare_text(&text)?;
    }

    #[test]
    fn converted_object_equals_the_model(
        labels in prop::collection::btree_map("a|b|in|a/", "a|b|1|-|", 0..3),
        expressions in prop::collection::vec(
            (
                "a|b|in|a\\.b/c|A/b",
                "In|NotIn|Exists|DoesNotExist|Gt|in",
                prop::collection::vec("a|b|in|1||a-", 0..3),
            ),
            0..3,
        ),
    ) {
        let expected = model_of_object(&labels, &expressions);
        let match_expressions = expressions
            .into_iter()
            .map(|(key, operator, values)| {
                LabelSelectorRequirement { key, operator, values, ..Default::default() }
            })
            .collect();
        let object =
            LabelSelector { match_labels: labels, match_expressions, ..Default::default() };
        match (object.to_selector(), expected) {
            (Ok(selector), Some(model)) => compare(&selector, &model, &object.to_string())?,
            (parsed, model) => {
                prop_assert_eq!(parsed.is_ok(), model.is_some(), "{} {:?}", object, parsed);
            }
        }
    }
}

fn model_of_object(
    labels: &BTreeMap<String, String>,
    expressions: &[(String, String, Vec<String>)],
) -> Option<Vec<Condition>> {
    let labels = labels.iter().map(|(key, value)| {
        let predicate = Predicate::OneOf(BTreeSet::from([value.clone()]));
        (is_key(key) && is_value(value)).then(|| Condition { key: key.clone(), predicate })
    });
    let expressions = expressions.iter().map(|(key, operator, values)| {
        let set: BTreeSet<_> = values.iter().cloned().collect();
        let predicate = match (operator.as_str(), set.is_empty()) {
            ("In", false) => Predicate::OneOf(set),
            ("NotIn", false) => Predicate::NoneOf(set),
            ("Exists", true) => Predicate::Exists,
            ("DoesNotExist", true) => Predicate::Missing,
            _ => return None,
        };
        let is_valid = is_key(key) && values.iter().all(|value| is_value(value));
        is_valid.then(|| Condition { key: key.clone(), predicate })
    });
    labels.chain(expressions).collect()
}
