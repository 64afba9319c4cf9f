//! `kma_store`: inserts, clock changes, garbage collections and reads of kube-metrics-adapter's
//! store.

use std::collections::BTreeMap;

use hpa_calc::Selector;
use hpa_collectors::Compat;
use hpa_metrics::resource::GroupResource;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    compare::{self, normalize},
    store::{CollectedValue, ObjectKey, Store, stored_resource},
};

/// With [`Compat::Reference`], the reads of a sequence must have the recorded results. With
/// [`Compat::Off`], only expired values may be missing.
pub(crate) fn check(line: &Value) -> Result<(), String> {
    let ttl = SignedDuration::from_secs(line["ttlSeconds"].as_i64().expect("a number"));
    let mut reference = Sequence::new(ttl, Compat::Reference);
    let mut default_mode = Sequence::new(ttl, Compat::Off);
    for (index, step) in line["steps"].as_array().expect("steps").iter().enumerate() {
        let result = reference.step(step)?;
        let default_result = default_mode.step(step)?;
        // A read that makes kube-metrics-adapter panic is not compared.
        let Some(expected) = step.get("result").filter(|result| *result != "panic") else {
            continue;
        };
        let path = format!("steps[{index}]");
        ensure_equal(&path, expected, &result)?;
        // The recording omits an `insertedAt` of zero.
        let is_fresh = |item: &Value| {
            reference.now - item["insertedAt"].as_i64().unwrap_or_default() <= ttl.as_secs()
        };
        let is_list = step["op"].as_str().is_some_and(|op| op.starts_with("list"));
        let fresh = if is_list { result } else { without_expired(&result, is_fresh) };
        // If all values of a metric have expired, the default mode doesn't know the metric
        // (`null`), while the expected result without expired values is an empty list.
        let is_none = |value: &Value| value.is_null() || *value == json!([]);
        if !is_none(&fresh) || !is_none(&default_result) {
            ensure_equal(&format!("{path} by default"), &fresh, &default_result)?;
        }
    }
    Ok(())
}

/// The result of a read without expired values.
fn without_expired(result: &Value, is_fresh: impl Fn(&Value) -> bool) -> Value {
    match result {
        Value::Array(items) => items.iter().filter(|item| is_fresh(item)).cloned().collect(),
        Value::Object(_) if !is_fresh(result) => Value::Null,
        _ => result.clone(),
    }
}

struct Sequence {
    store: Store<Value>,
    now: i64,
}

impl Sequence {
    fn new(ttl: SignedDuration, compat: Compat) -> Self {
        Self { store: Store::new(ttl, compat), now: 0 }
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::from_second(self.now).expect("a time")
    }

    /// Runs a step. Returns the result of a read, `null` for other steps.
    fn step(&mut self, step: &Value) -> Result<Value, String> {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let selector = || Selector::parse(text("selector")).map_err(|error| error.to_string());
        let (resource, group) = text("resource").split_once('.').unwrap_or((text("resource"), ""));
        let resource = GroupResource::new(group, resource);
        let namespace = (step["namespaced"] == true).then(|| text("namespace"));
        let now = self.timestamp();
        match text("op") {
            "insert" => self.insert(step)?,
            "advance" => self.now += step["seconds"].as_i64().expect("a number"),
            "gc" => self.store.remove_expired(now),
            "bySelector" => {
                let metric = text("metric");
                let found = self.store.by_selector(metric, &resource, namespace, &selector()?, now);
                return Ok(
                    found.map_or(Value::Null, |found| sorted(found.into_iter().map(to_json)))
                );
            }
            "byName" => {
                let (metric, name) = (text("metric"), text("name"));
                let selector = selector()?;
                let found = self.store.by_name(metric, &resource, namespace, name, &selector, now);
                return Ok(found.map_or(Value::Null, to_json));
            }
            "external" => {
                let found =
                    self.store.external(text("namespace"), text("metric"), &selector()?, now);
                return Ok(sorted(found.into_iter().map(to_json)));
            }
            "list" => {
                let metrics =
                    self.store.metrics().into_iter().map(|(metric, resource, namespace)| {
                        let dot = if resource.group.is_empty() { "" } else { "." };
                        let resource = format!("{}{dot}{}", resource.resource, resource.group);
                        let is_namespaced = !namespace.is_empty();
                        json!({"metric": metric, "namespaced": is_namespaced, "resource": resource})
                    });
                return Ok(sorted(metrics));
            }
            "listExternal" => {
                let metrics = self.store.external_metrics();
                return Ok(sorted(metrics.map(|(_, metric)| json!({"metric": metric}))));
            }
            other => return Err(format!("unknown operation {other}")),
        }
        Ok(Value::Null)
    }

    fn insert(&mut self, step: &Value) -> Result<(), String> {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let labels = |value: &Value| {
            let labels: Result<Option<BTreeMap<String, String>>, _> =
                Deserialize::deserialize(value);
            labels.map(Option::unwrap_or_default).map_err(|error| error.to_string())
        };
        if text("type") == "External" {
            let labels = labels(&step["labels"])?;
            let value = json!({
                "insertedAt": self.now, "labels": step["labels"], "metric": text("metric"),
                "value": step["value"],
            });
            let stored = CollectedValue { value, labels: Some(labels), at: self.timestamp() };
            self.store.insert_external(text("namespace"), text("metric"), stored);
            return Ok(());
        }
        let object = json!({
            "apiVersion": text("apiVersion"), "kind": text("kind"), "name": text("name"),
            "namespace": text("namespace"),
        });
        let value = json!({
            "insertedAt": self.now, "metric": text("metric"), "object": object,
            "selector": step["selector"], "value": step["value"],
        });
        let key = ObjectKey {
            metric: text("metric").to_owned(),
            resource: stored_resource(text("kind"), text("apiVersion")),
            namespace: text("namespace").to_owned(),
            name: text("name").to_owned(),
        };
        let labels = step.get("selector").map(labels).transpose()?;
        self.store.insert(key, CollectedValue { value, labels, at: self.timestamp() });
        Ok(())
    }
}

fn to_json(stored: &CollectedValue<Value>) -> Value {
    stored.value.clone()
}

/// Normalizes items and sorts them by their JSON. The recorded lists are sorted by other keys.
fn sorted(items: impl Iterator<Item = Value>) -> Value {
    let mut items: Vec<Value> = items
        .map(|mut item| {
            normalize(&mut item);
            item
        })
        .collect();
    items.sort_by_key(ToString::to_string);
    Value::Array(items)
}

fn ensure_equal(path: &str, expected: &Value, got: &Value) -> Result<(), String> {
    let ordered = |value: &Value| match value {
        Value::Array(items) => sorted(items.iter().cloned()),
        other => {
            let mut other = other.clone();
            normalize(&mut other);
            other
        }
    };
    compare::ensure_equal(path, &ordered(expected), &ordered(got))
}
