//! Settings and the scenario with them.

use serde_json::{Map, Value, json};

use super::{targets::scaled, tuning::Tuning};
use crate::file::{Variant, decode_autoscaler};

/// Settings, and the scenario with them.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) tuning: Tuning,
    pub(super) variant: Variant,
}

impl Candidate {
    /// The autoscaler as it is.
    pub(super) fn current(base: &Variant) -> Self {
        Self { tuning: Tuning::default(), variant: base.clone() }
    }

    /// The autoscaler without `behavior`.
    pub(super) fn default_behavior(base: &Variant) -> Self {
        let tuning = Tuning { replaces_behavior: true, ..Tuning::default() };
        Self::new(base, tuning).unwrap_or_else(|| Self::current(base))
    }

    /// The scenario with these settings, or `None` if the API server refuses them.
    pub(super) fn new(base: &Variant, tuning: Tuning) -> Option<Self> {
        let mut manifest = base.manifest.clone();
        let spec = manifest.get_mut("spec")?.as_object_mut()?;
        if let Some(percent) = tuning.target_percent {
            let metrics = base.autoscaler.spec.metrics.iter();
            let metrics: Vec<Value> = metrics.map(|metric| scaled(metric, percent)).collect();
            spec.insert("metrics".to_owned(), metrics.into());
        }
        if let Some(min) = tuning.min_replicas {
            spec.insert("minReplicas".to_owned(), min.into());
        }
        if let Some(max) = tuning.max_replicas {
            spec.insert("maxReplicas".to_owned(), max.into());
        }
        if tuning.replaces_behavior {
            spec.remove("behavior");
            if let Some(behavior) = tuning.behavior() {
                spec.insert("behavior".to_owned(), behavior);
            }
        }
        let autoscaler = decode_autoscaler(&manifest)?;
        Some(Self { tuning, variant: Variant { autoscaler, manifest, ..base.clone() } })
    }

    /// A merge patch from the autoscaler of the scenario to this one.
    pub(super) fn patch(&self, base: &Variant) -> Value {
        merge_patch(&base.manifest, &self.variant.manifest).unwrap_or_else(|| json!({}))
    }
}

/// The JSON merge patch (RFC 7386) from one value to another, or `None` if they are equal.
fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    let (Some(old), Some(new)) = (from.as_object(), to.as_object()) else {
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in new {
        let change = match old.get(name) {
            Some(old) => merge_patch(old, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patch_leads_from_one_value_to_the_other() {
        let from = json!({ "a": 1, "b": { "c": 2, "d": [1] }, "e": 3 });
        let to = json!({ "a": 1, "b": { "d": [1, 2] }, "f": { "g": 4 } });
        let patch = merge_patch(&from, &to).unwrap();
        assert_eq!(patch, json!({ "b": { "c": null, "d": [1, 2] }, "e": null, "f": { "g": 4 } }));
        let mut patched = from.clone();
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, to);
        assert_eq!(merge_patch(&from, &from), None);
    }
}
