//! Compares stored objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The stored history of an autoscaler. Recommendations and scale events consist of replicas and
/// times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History {
    recommendations: Vec<Value>,
    events: Vec<Value>,
    other_fields: BTreeMap<String, Value>,
}

impl History {
    /// The histories in all ConfigMaps, by the name of the autoscaler.
    pub(crate) fn by_autoscaler(objects: &[Value]) -> BTreeMap<String, Self> {
        let maps = objects.iter().filter(|object| object["kind"] == "ConfigMap");
        let entries = maps.flat_map(|map| map["data"].as_object().into_iter().flatten());
        let histories: BTreeMap<String, Self> = entries
            // The entry `shard` is the header. The keys of all others are UIDs.
            .filter(|(key, _)| *key != "shard")
            .map(|(_, text)| {
                let snapshot: BTreeMap<String, Value> =
                    serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
                let name = snapshot["hpa"].as_str().expect("a name").to_owned();
                (name, Self::from_snapshot(snapshot))
            })
            .collect();
        assert!(histories.len() >= 4, "{histories:?}");
        histories
    }

    fn from_snapshot(mut snapshot: BTreeMap<String, Value>) -> Self {
        let mut list = |name: &str| match snapshot.remove(name) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let recommendations = list("recommendations");
        let events = ["ups", "downs"].into_iter().flat_map(&mut list).collect();
        Self { recommendations, events, other_fields: snapshot }
    }

    /// Whether all scale events of an earlier history remain, and the highest recommendation is not
    /// lower than before.
    pub(crate) fn preserves(&self, before: &Self) -> bool {
        let highest =
            |history: &Self| history.recommendations.iter().filter_map(|one| one[0].as_i64()).max();
        before.events.iter().all(|event| self.events.contains(event))
            && highest(self) >= highest(before)
    }
}

/// Adds the paths of all members with their types to `paths`. UIDs in them become `UID`.
pub(crate) fn collect_shape(path: &str, value: &Value, paths: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_uid = name.len() == 36 && name.split('-').count() == 5;
                let name = if is_uid { "UID" } else { name };
                let path = format!("{path}.{name}");
                // Histories are JSON in a string.
                match member.as_str().map(serde_json::from_str::<Value>) {
                    Some(Ok(inner @ Value::Object(_))) => collect_shape(&path, &inner, paths),
                    _ => collect_shape(&path, member, paths),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_shape(&format!("{path}[]"), item, paths);
            }
        }
        Value::String(_) => _ = paths.insert(format!("{path}: string")),
        Value::Number(_) => _ = paths.insert(format!("{path}: number")),
        Value::Bool(_) => _ = paths.insert(format!("{path}: boolean")),
        Value::Null => {}
    }
}
