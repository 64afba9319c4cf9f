//! The outcomes of several rounds, and their medians.

use anyhow::Result;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The outcomes of one controller or adapter.
#[derive(Debug, Serialize)]
pub(crate) struct Rounds<T> {
    /// The median of each number.
    #[serde(flatten)]
    pub(crate) median: T,
    /// The outcome of each round, if there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rounds: Vec<T>,
}

impl<T: Serialize + DeserializeOwned> Rounds<T> {
    /// Computes the medians. `rounds` must not be empty.
    pub(crate) fn new(rounds: Vec<T>) -> Result<Self> {
        let values = rounds.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
        let median = serde_json::from_value(median(&values.iter().collect::<Vec<_>>()))?;
        Ok(Self { median, rounds: if rounds.len() > 1 { rounds } else { Vec::new() } })
    }
}

/// Returns the median of each number in values of the same structure. For a field that isn't a
/// number, takes the first value that isn't null.
fn median(values: &[&Value]) -> Value {
    let present: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    match present.first() {
        None => Value::Null,
        Some(Value::Number(_)) => median_number(&present),
        Some(Value::Object(_)) => {
            let objects: Vec<&Map<String, Value>> =
                present.iter().filter_map(|value| value.as_object()).collect();
            let keys = objects.iter().flat_map(|object| object.keys());
            // A field is left out unless most rounds have it.
            let median_of = |key: &String| {
                let fields: Vec<&Value> =
                    objects.iter().filter_map(|object| object.get(key)).collect();
                (fields.len() * 2 > objects.len()).then(|| (key.clone(), median(&fields)))
            };
            Value::Object(keys.filter_map(median_of).collect())
        }
        Some(other) => (*other).clone(),
    }
}

/// Returns the middle value, or the lower one of two middle values, so that a count stays an
/// integer.
fn median_number(values: &[&Value]) -> Value {
    let mut values = values.to_vec();
    values.sort_by(|one, other| number(one).total_cmp(&number(other)));
    values.get((values.len() - 1) / 2).map_or(Value::Null, |value| (*value).clone())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn median_is_taken_of_each_number() {
        let one = json!({
            "name": "a", "inner": { "x": 0.5, "once": 7, "y": 1 }, "gone": 1, "never": null,
        });
        let two = json!({ "name": "a", "inner": { "x": 10.25 }, "gone": null, "never": null });
        let three = json!({ "name": "a", "inner": { "x": 9.5, "y": 2 }, "gone": 4, "never": null });
        let expected =
            json!({ "name": "a", "inner": { "x": 9.5, "y": 1 }, "gone": 1, "never": null });
        assert_eq!(median(&[&one, &two, &three]), expected);
        assert_eq!(median(&[&one]), one);
        assert_eq!(median(&[&one, &three])["inner"]["x"], 0.5);
    }
}
