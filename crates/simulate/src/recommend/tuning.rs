//! The settings of an autoscaler that a search varies.

use hpa_calc::{MilliValue, Quantity, api::MetricSpec};
use serde_json::{Map, Value, json};

use crate::file::{Variant, decode_autoscaler};

/// The annotation of the setting that turns forecasts on.
const FORECAST: &str = "autoscaling.hpa-rs.dev/forecast";

/// Changes of the scenario's settings. `None` keeps the scenario's value; but in the rules of a
/// replaced `behavior`, `None` is the default of the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tuning {
    /// The targets of all metrics, in percent of the scenario's targets.
    pub(super) target_percent: Option<u32>,
    pub(super) min_replicas: Option<i32>,
    pub(super) max_replicas: Option<i32>,
    /// Whether `up` and `down` replace the scenario's `behavior`.
    pub(super) replaces_behavior: bool,
    pub(super) up: Rules,
    pub(super) down: Rules,
    /// Whether to turn on forecasts. Otherwise, the scenario's setting is kept.
    pub(super) forecasts: bool,
}

/// The scaling rules of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// The stabilization window in seconds.
    pub(super) window: Option<u32>,
    pub(super) policy: Option<Policy>,
    /// The tolerance in percent.
    pub(super) tolerance: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) kind: &'static str,
    pub(super) value: u32,
    /// The period in seconds.
    pub(super) period: u32,
}

/// A setting that the search varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dimension {
    Target,
    MinReplicas,
    MaxReplicas,
    UpWindow,
    UpPolicy,
    UpTolerance,
    DownWindow,
    DownPolicy,
    DownTolerance,
    Forecast,
}

impl Dimension {
    /// All settings, in the order in which the search tries to reset them.
    pub(super) const ALL: [Self; 10] = [
        Self::Target,
        Self::MinReplicas,
        Self::MaxReplicas,
        Self::UpWindow,
        Self::UpPolicy,
        Self::UpTolerance,
        Self::DownWindow,
        Self::DownPolicy,
        Self::DownTolerance,
        Self::Forecast,
    ];
}

impl Rules {
    fn to_json(self) -> Option<Value> {
        let mut rules = Map::new();
        if let Some(window) = self.window {
            rules.insert("stabilizationWindowSeconds".to_owned(), window.into());
        }
        if let Some(Policy { kind, value, period }) = self.policy {
            let policy = json!({ "type": kind, "value": value, "periodSeconds": period });
            rules.insert("policies".to_owned(), json!([policy]));
        }
        if let Some(percent) = self.tolerance {
            let tolerance = format!("{}", f64::from(percent) / 100.0);
            rules.insert("tolerance".to_owned(), tolerance.into());
        }
        (!rules.is_empty()).then_some(Value::Object(rules))
    }

    fn describe(self, direction: &str, texts: &mut Vec<String>) {
        if let Some(window) = self.window {
            texts.push(format!("scale-{direction} window {window}s"));
        }
        if let Some(Policy { kind, value, period }) = self.policy {
            let unit = match (kind, value) {
                ("Percent", _) => " %",
                (_, 1) => " pod",
                _ => " pods",
            };
            texts.push(format!("scale {direction} by {value}{unit} in {period}s"));
        }
        if let Some(percent) = self.tolerance {
            texts.push(format!("tolerance {percent} % {direction}"));
        }
    }
}

impl Tuning {
    /// `spec.behavior`, or `None` without rules.
    pub(super) fn behavior(&self) -> Option<Value> {
        let mut behavior = Map::new();
        for (name, rules) in [("scaleUp", self.up), ("scaleDown", self.down)] {
            if let Some(rules) = rules.to_json() {
                behavior.insert(name.to_owned(), rules);
            }
        }
        (!behavior.is_empty()).then_some(Value::Object(behavior))
    }

    /// Describes each setting in a few words.
    pub(super) fn describe(&self, base: &Variant) -> Vec<String> {
        let mut texts = Vec::new();
        if let Some(percent) = self.target_percent {
            texts.push(format!("target {}", scaled_target_texts(base, percent).join(", ")));
        }
        texts.extend(self.min_replicas.map(|min| format!("minReplicas {min}")));
        texts.extend(self.max_replicas.map(|max| format!("maxReplicas {max}")));
        let removes_behavior = self.replaces_behavior && self.behavior().is_none();
        if removes_behavior && base.manifest.pointer("/spec/behavior").is_some() {
            texts.push("no behavior".to_owned());
        }
        self.up.describe("up", &mut texts);
        self.down.describe("down", &mut texts);
        if self.forecasts {
            texts.push("forecasts".to_owned());
        }
        texts
    }

    /// Whether the tuning changes a setting.
    pub(super) fn is_set(&self, dimension: Dimension) -> bool {
        self.without(dimension) != *self
    }

    /// A copy that doesn't change the setting.
    #[must_use]
    pub(super) fn without(&self, dimension: Dimension) -> Self {
        let mut copy = self.clone();
        match dimension {
            Dimension::Target => copy.target_percent = None,
            Dimension::MinReplicas => copy.min_replicas = None,
            Dimension::MaxReplicas => copy.max_replicas = None,
            Dimension::UpWindow => copy.up.window = None,
            Dimension::UpPolicy => copy.up.policy = None,
            Dimension::UpTolerance => copy.up.tolerance = None,
            Dimension::DownWindow => copy.down.window = None,
            Dimension::DownPolicy => copy.down.policy = None,
            Dimension::DownTolerance => copy.down.tolerance = None,
            Dimension::Forecast => copy.forecasts = false,
        }
        copy
    }
}

/// Changed settings, and the scenario with these settings.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) tuning: Tuning,
    pub(super) variant: Variant,
}

impl Candidate {
    /// The scenario without a change.
    pub(super) fn current(base: &Variant) -> Self {
        Self { tuning: Tuning::default(), variant: base.clone() }
    }

    /// The scenario without the autoscaler's `behavior`.
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
            let metrics: Vec<Value> =
                metrics.map(|metric| with_scaled_target(metric, percent)).collect();
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
        if tuning.forecasts {
            let annotation = json!({ "metadata": { "annotations": { FORECAST: "scale" } } });
            json_patch::merge(&mut manifest, &annotation);
        }
        let autoscaler = decode_autoscaler(&manifest).ok()?;
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

/// The largest utilization that is suggested, in percent, unless the scenario's is larger.
const MAX_UTILIZATION: i64 = 95;

/// The paths of the target in a metric, one for each type.
const TARGET_PATHS: [&str; 5] = [
    "/resource/target",
    "/containerResource/target",
    "/pods/target",
    "/object/target",
    "/external/target",
];

/// A metric whose target is scaled to a percentage.
fn with_scaled_target(metric: &MetricSpec, percent: u32) -> Value {
    let mut metric = serde_json::to_value(metric).unwrap_or_default();
    for path in TARGET_PATHS {
        let Some(target) = metric.pointer_mut(path).and_then(Value::as_object_mut) else {
            continue;
        };
        scale_utilization(target, percent);
        for field in ["averageValue", "value"] {
            let quantity = target.get(field).and_then(Value::as_str);
            let quantity = quantity.and_then(|text| text.parse::<Quantity>().ok());
            if let Some(quantity) = quantity {
                target.insert(field.to_owned(), scaled_quantity(&quantity, percent).into());
            }
        }
    }
    metric
}

fn scale_utilization(target: &mut Map<String, Value>, percent: u32) {
    let Some(utilization) = target.get("averageUtilization").and_then(Value::as_i64) else {
        return;
    };
    let scaled = (utilization * i64::from(percent) + 50) / 100;
    let scaled = scaled.clamp(1, MAX_UTILIZATION.max(utilization));
    target.insert("averageUtilization".to_owned(), scaled.into());
}

/// The given percentage of a quantity, rounded to two significant digits, at least `1m`.
fn scaled_quantity(quantity: &Quantity, percent: u32) -> String {
    let milli = quantity.milli_value().as_milli();
    let scaled = i128::from(milli) * i128::from(percent) / 100;
    let mut step = 1_i128;
    while scaled / step >= 100 {
        step *= 10;
    }
    let rounded = i64::try_from((scaled + step / 2) / step * step).unwrap_or(milli).max(1);
    MilliValue::from_milli(rounded).to_string()
}

/// The targets of all metrics as texts, after scaling them to a percentage.
fn scaled_target_texts(base: &Variant, percent: u32) -> Vec<String> {
    let text = |metric: &MetricSpec| {
        let metric = with_scaled_target(metric, percent);
        let target = TARGET_PATHS.iter().find_map(|path| metric.pointer(path))?;
        if let Some(utilization) = target.get("averageUtilization") {
            return Some(format!("{utilization} %"));
        }
        let value = target.get("averageValue").or_else(|| target.get("value"))?;
        Some(value.as_str().unwrap_or_default().to_owned())
    };
    base.autoscaler.spec.metrics.iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_patch_turns_one_value_into_the_other() {
        let from = json!({ "a": 1, "b": { "c": 2, "d": [1] }, "e": 3 });
        let to = json!({ "a": 1, "b": { "d": [1, 2] }, "f": { "g": 4 } });
        let patch = merge_patch(&from, &to).unwrap();
        assert_eq!(patch, json!({ "b": { "c": null, "d": [1, 2] }, "e": null, "f": { "g": 4 } }));
        let mut patched = from.clone();
        json_patch::merge(&mut patched, &patch);
        assert_eq!(patched, to);
        assert_eq!(merge_patch(&from, &from), None);
    }

    #[test]
    fn targets_are_scaled_and_rounded() {
        let quantity =
            |text: &str, percent| scaled_quantity(&text.parse::<Quantity>().unwrap(), percent);
        assert_eq!(quantity("100", 75), "75");
        assert_eq!(quantity("500m", 70), "350m");
        assert_eq!(quantity("123", 110), "140");
        assert_eq!(quantity("1m", 10), "1m");
    }
}
