//! The settings of an autoscaler that are searched.

use serde_json::{Map, Value, json};

use super::targets::targets;
use crate::file::Variant;

/// Settings that differ from those of the scenario. `None` leaves the default of the API server or
/// of the controller.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tuning {
    /// The targets of all metrics, in percent of those of the scenario. `None` leaves them.
    pub(super) target_percent: Option<u32>,
    pub(super) min_replicas: Option<i32>,
    pub(super) max_replicas: Option<i32>,
    /// Whether `behavior` of the scenario is replaced by the rules.
    pub(super) replaces_behavior: bool,
    pub(super) up: Rules,
    pub(super) down: Rules,
}

/// The rules of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) window: Option<u32>,
    pub(super) policy: Option<Policy>,
    /// In percent.
    pub(super) tolerance: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) kind: &'static str,
    pub(super) value: u32,
    pub(super) period: u32,
}

/// One of the settings.
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
}

impl Dimension {
    pub(super) const ALL: [Self; 9] = [
        Self::Target,
        Self::MinReplicas,
        Self::MaxReplicas,
        Self::UpWindow,
        Self::UpPolicy,
        Self::UpTolerance,
        Self::DownWindow,
        Self::DownPolicy,
        Self::DownTolerance,
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

    /// The settings in a few words each.
    pub(super) fn describe(&self, base: &Variant) -> Vec<String> {
        let mut texts = Vec::new();
        if let Some(percent) = self.target_percent {
            let targets = targets(base, percent);
            texts.push(format!("target {}", targets.join(", ")));
        }
        texts.extend(self.min_replicas.map(|min| format!("minReplicas {min}")));
        texts.extend(self.max_replicas.map(|max| format!("maxReplicas {max}")));
        if self.replaces_behavior && self.behavior().is_none() {
            texts.push("no behavior".to_owned());
        }
        self.up.describe("up", &mut texts);
        self.down.describe("down", &mut texts);
        texts
    }

    /// Whether a setting differs from that of the scenario or the default.
    pub(super) fn is_set(&self, dimension: Dimension) -> bool {
        match dimension {
            Dimension::Target => self.target_percent.is_some(),
            Dimension::MinReplicas => self.min_replicas.is_some(),
            Dimension::MaxReplicas => self.max_replicas.is_some(),
            Dimension::UpWindow => self.up.window.is_some(),
            Dimension::UpPolicy => self.up.policy.is_some(),
            Dimension::UpTolerance => self.up.tolerance.is_some(),
            Dimension::DownWindow => self.down.window.is_some(),
            Dimension::DownPolicy => self.down.policy.is_some(),
            Dimension::DownTolerance => self.down.tolerance.is_some(),
        }
    }

    /// Sets one of the settings back.
    pub(super) fn reset(&mut self, dimension: Dimension) {
        match dimension {
            Dimension::Target => self.target_percent = None,
            Dimension::MinReplicas => self.min_replicas = None,
            Dimension::MaxReplicas => self.max_replicas = None,
            Dimension::UpWindow => self.up.window = None,
            Dimension::UpPolicy => self.up.policy = None,
            Dimension::UpTolerance => self.up.tolerance = None,
            Dimension::DownWindow => self.down.window = None,
            Dimension::DownPolicy => self.down.policy = None,
            Dimension::DownTolerance => self.down.tolerance = None,
        }
    }
}
