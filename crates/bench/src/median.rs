//! Several measurements of the same in one.

use anyhow::Result;
use serde_json::{Map, Value};

use crate::outcome::Outcome;

/// A controller, measured in one round or more.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Measured {
    /// The median of each number by itself.
    #[serde(flatten)]
    pub(crate) median: Outcome,
    /// What it is the median of, if there was more than one round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rounds: Vec<Outcome>,
}

impl Measured {
    /// Of at least one round.
    pub(crate) fn new(rounds: Vec<Outcome>) -> Result<Self> {
        let values = rounds.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
        let median = serde_json::from_value(median(&values.iter().collect::<Vec<_>>()))?;
        Ok(Self { median, rounds: if rounds.len() > 1 { rounds } else { Vec::new() } })
    }
}

/// The median of each number in values of one shape. What is no number is that of the first value that has it.
fn median(values: &[&Value]) -> Value {
    let present: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
    match present.first() {
        None => Value::Null,
        Some(Value::Number(_)) => median_number(&present),
        Some(Value::Object(_)) => {
            let objects: Vec<&Map<String, Value>> =
                present.iter().filter_map(|value| value.as_object()).collect();
            let keys = objects.iter().flat_map(|object| object.keys());
            // What most rounds have not even asked for has a median of nothing.
            let of = |key: &String| {
                let fields: Vec<&Value> =
                    objects.iter().filter_map(|object| object.get(key)).collect();
                (fields.len() * 2 > objects.len()).then(|| (key.clone(), median(&fields)))
            };
            Value::Object(keys.filter_map(of).collect())
        }
        Some(other) => (*other).clone(),
    }
}

/// The one in the middle; of two, the lower one, so that a count stays one.
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
    fn each_number_is_the_one_in_its_middle() {
        let one = json!({ "name": "a", "inner": { "x": 0.5, "once": 7, "y": 1 }, "gone": 1, "never": null });
        let two = json!({ "name": "a", "inner": { "x": 10.25 }, "gone": null, "never": null });
        let three = json!({ "name": "a", "inner": { "x": 9.5, "y": 2 }, "gone": 4, "never": null });
        let expected =
            json!({ "name": "a", "inner": { "x": 9.5, "y": 1 }, "gone": 1, "never": null });
        assert_eq!(median(&[&one, &two, &three]), expected);
        assert_eq!(median(&[&one]), one);
        assert_eq!(median(&[&one, &three])["inner"]["x"], 0.5);
    }
}
