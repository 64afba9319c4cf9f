//! Compares stored objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The stored history of an autoscaler: replicas and milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    recommendations: Vec<Value>,
    events: Vec<Value>,
    others: BTreeMap<String, Value>,
}

impl History {
    /// The histories of all ConfigMaps, by the name of the autoscaler that they contain.
    pub(crate) fn of(objects: &[Value]) -> BTreeMap<String, Self> {
        let maps = objects.iter().filter(|object| object["kind"] == "ConfigMap");
        let entries = maps.flat_map(|map| map["data"].as_object().into_iter().flatten());
        let found: BTreeMap<String, Self> = entries
            .filter(|(key, _)| *key != "shard")
            .map(|(_, text)| {
                let snapshot: BTreeMap<String, Value> =
                    serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
                let name = snapshot["hpa"].as_str().expect("a name").to_owned();
                (name, Self::from_snapshot(snapshot))
            })
            .collect();
        assert!(found.len() >= 4, "{found:?}");
        found
    }

    fn from_snapshot(mut snapshot: BTreeMap<String, Value>) -> Self {
        let mut list = |name: &str| match snapshot.remove(name) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let recommendations = list("recommendations");
        let events = ["ups", "downs"].into_iter().flat_map(&mut list).collect();
        Self { recommendations, events, others: snapshot }
    }

    /// Whether all earlier scalings are present, and the highest recommendation is not lower than
    /// before.
    pub(crate) fn contains(&self, before: &Self) -> bool {
        let highest =
            |history: &Self| history.recommendations.iter().filter_map(|one| one[0].as_i64()).max();
        before.events.iter().all(|event| self.events.contains(event))
            && highest(self) >= highest(before)
    }
}

/// The paths of all members with their types, without names of autoscalers.
pub(crate) fn shape(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_uid = name.len() == 36 && name.split('-').count() == 5;
                let name = if is_uid { "UID" } else { name };
                let path = format!("{path}.{name}");
                // Histories are JSON in a string.
                match member.as_str().map(serde_json::from_str::<Value>) {
                    Some(Ok(inner @ Value::Object(_))) => shape(&path, &inner, found),
                    _ => shape(&path, member, found),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                shape(&format!("{path}[]"), item, found);
            }
        }
        Value::String(_) => _ = found.insert(format!("{path}: string")),
        Value::Number(_) => _ = found.insert(format!("{path}: number")),
        Value::Bool(_) => _ = found.insert(format!("{path}: boolean")),
        Value::Null => {}
    }
}
