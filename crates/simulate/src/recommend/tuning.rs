//! The settings of an autoscaler that a search varies.

use std::collections::BTreeMap;

use hpa_calc::{EffectiveBehavior, api::HorizontalPodAutoscalerSpec, history::Direction};
use serde_json::{Map, Value, json};

use super::targets::{TargetLevels, targets_text};
use crate::file::{Variant, decode_autoscaler};

/// The annotation of the setting that turns forecasts on.
const FORECAST: &str = "autoscaling.hpa-rs.dev/forecast";

/// A setting that the search varies, in the order in which pruning tries to drop changes.
/// [`Candidate::describe`] relies on the order: targets and bounds first, then the rules of
/// `behavior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
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

impl Setting {
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

/// The direction in the texts of changes.
fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// A merge patch that sets some of the scaling rules of a direction.
fn rules_patch(direction: Direction, rules: &Value) -> Value {
    let field = match direction {
        Direction::Up => "scaleUp",
        Direction::Down => "scaleDown",
    };
    json!({ "spec": { "behavior": { field: rules } } })
}

/// A scaling policy: type, value, period in seconds.
pub(super) type Policy = (&'static str, u32, u32);

/// The new value of a setting.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// A merge patch of the autoscaler's manifest.
    patch: Value,
    /// The change in a few words.
    pub(super) text: String,
    /// The level of the targets (see [`TargetLevels`]), if the change is of targets.
    target_level: Option<u32>,
}

impl Change {
    fn new(patch: Value, text: String) -> Self {
        Self { patch, text, target_level: None }
    }

    /// Sets the targets of all metrics to those of a level.
    pub(super) fn targets(base: &Variant, levels: &TargetLevels, level: u32) -> Self {
        let metrics = levels.metrics(base, level);
        let text = format!("target {}", targets_text(&metrics));
        let patch = json!({ "spec": { "metrics": metrics } });
        Self { patch, text, target_level: Some(level) }
    }

    /// Sets `minReplicas` or `maxReplicas`.
    pub(super) fn bound(field: &str, replicas: i32) -> Self {
        let patch = json!({ "spec": { field: replicas } });
        Self::new(patch, format!("{field} {replicas}"))
    }

    /// Sets a stabilization window.
    pub(super) fn window(direction: Direction, seconds: u32) -> Self {
        let patch = rules_patch(direction, &json!({ "stabilizationWindowSeconds": seconds }));
        Self::new(patch, format!("scale-{} window {seconds}s", direction_name(direction)))
    }

    pub(super) fn policy(direction: Direction, (kind, value, period): Policy) -> Self {
        let policy = json!({ "type": kind, "value": value, "periodSeconds": period });
        let unit = match (kind, value) {
            ("Percent", _) => " %",
            (_, 1) => " pod",
            _ => " pods",
        };
        let text = format!("scale {} by {value}{unit} in {period}s", direction_name(direction));
        Self::new(rules_patch(direction, &json!({ "policies": [policy] })), text)
    }

    pub(super) fn tolerance(direction: Direction, percent: u32) -> Self {
        let tolerance = (f64::from(percent) / 100.0).to_string();
        let patch = rules_patch(direction, &json!({ "tolerance": tolerance }));
        Self::new(patch, format!("tolerance {percent} % {}", direction_name(direction)))
    }

    /// Turns on forecasts.
    pub(super) fn forecasts() -> Self {
        let patch = json!({ "metadata": { "annotations": { FORECAST: "scale" } } });
        Self::new(patch, "forecasts".to_owned())
    }
}

/// Changes of the scenario's settings.
#[derive(Clone, Debug, Default)]
pub(super) struct Tuning {
    /// Whether the scenario's `behavior` is removed, so that rules without a change get the
    /// defaults of the API.
    pub(super) replaces_behavior: bool,
    pub(super) changes: BTreeMap<Setting, Change>,
}

impl Tuning {
    /// The level of the targets, if they are changed.
    pub(super) fn target_level(&self) -> Option<u32> {
        self.changes.get(&Setting::Target)?.target_level
    }

    /// A copy that doesn't change the setting.
    #[must_use]
    pub(super) fn without(&self, setting: Setting) -> Self {
        let mut copy = self.clone();
        copy.changes.remove(&setting);
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
        if tuning.replaces_behavior {
            manifest.get_mut("spec")?.as_object_mut()?.remove("behavior");
        }
        for change in tuning.changes.values() {
            json_patch::merge(&mut manifest, &change.patch);
        }
        let autoscaler = decode_autoscaler(&manifest).ok()?;
        Some(Self { tuning, variant: Variant { autoscaler, manifest, ..base.clone() } })
    }

    /// A merge patch from the autoscaler of the scenario to this one.
    pub(super) fn patch(&self, base: &Variant) -> Value {
        merge_patch(&base.manifest, &self.variant.manifest).unwrap_or_else(|| json!({}))
    }

    /// Describes each change in a few words.
    pub(super) fn describe(&self, base: &Variant) -> Vec<String> {
        let changes = &self.tuning.changes;
        let text = |(_, change): (&Setting, &Change)| change.text.clone();
        let bounds = changes.range(..=Setting::MaxReplicas).map(text);
        let others = changes.range(Setting::UpWindow..).map(text);
        bounds.chain(self.removed_rules(base)).chain(others).collect()
    }

    /// Describes the rules of the scenario's `behavior` that change because they are removed.
    pub(super) fn removed_rules(&self, base: &Variant) -> Vec<String> {
        let (old, new) = (&base.autoscaler.spec, &self.variant.autoscaler.spec);
        if old.behavior.is_none() {
            return Vec::new();
        }
        if new.behavior.is_none() {
            return vec!["no behavior".to_owned()];
        }
        let settings = base.resolved_settings().settings;
        let old_behavior = EffectiveBehavior::new(old, &settings);
        let new_behavior = EffectiveBehavior::new(new, &settings);
        let mut removed = Vec::new();
        for (direction, [window, policy, tolerance]) in [
            (Direction::Up, [Setting::UpWindow, Setting::UpPolicy, Setting::UpTolerance]),
            (Direction::Down, [Setting::DownWindow, Setting::DownPolicy, Setting::DownTolerance]),
        ] {
            let name = direction_name(direction);
            let rules = |spec: &HorizontalPodAutoscalerSpec| {
                spec.scaling_rules(direction).cloned().unwrap_or_default()
            };
            let (old, new) = (rules(old), rules(new));
            let old_window = old_behavior.rules(direction).stabilization_window();
            let new_window = new_behavior.rules(direction).stabilization_window();
            let differences = [
                (
                    window,
                    old_window != new_window,
                    format!("default scale-{name} window {}s", new_window.as_secs()),
                ),
                (
                    policy,
                    old.policies != new.policies || old.select_policy != new.select_policy,
                    format!("default scale-{name} policies"),
                ),
                (tolerance, old.tolerance != new.tolerance, format!("default tolerance {name}")),
            ];
            for (setting, differs, text) in differences {
                if differs && !self.tuning.changes.contains_key(&setting) {
                    removed.push(text);
                }
            }
        }
        removed
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

    fn scenario(behavior: &str) -> Variant {
        let text = format!(
            "
duration: 5m
autoscaler:
  metadata: {{name: web}}
  spec:
    scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
    maxReplicas: 20
    behavior: {behavior}
workload: {{load: {{constant: 1}}}}
"
        );
        crate::ScenarioFile::parse_alone(&text).unwrap().variants.remove(0)
    }

    #[test]
    fn changes_patch_the_autoscaler_and_are_described_in_order() {
        let base = &scenario("{scaleDown: {stabilizationWindowSeconds: 60}}");
        let candidate = |changes: Vec<(Setting, Change)>| {
            let changes = changes.into_iter().collect();
            Candidate::new(base, Tuning { replaces_behavior: true, changes }).unwrap()
        };
        let without_rules = candidate(vec![
            (Setting::Forecast, Change::forecasts()),
            (Setting::MinReplicas, Change::bound("minReplicas", 3)),
        ]);
        assert_eq!(without_rules.describe(base), ["minReplicas 3", "no behavior", "forecasts"]);
        let annotations = json!({ FORECAST: "scale" });
        let spec = json!({ "behavior": null, "minReplicas": 3 });
        let patch = json!({ "metadata": { "annotations": annotations }, "spec": spec });
        assert_eq!(without_rules.patch(base), patch);
        let with_rule =
            candidate(vec![(Setting::UpPolicy, Change::policy(Direction::Up, ("Pods", 1, 60)))]);
        let settings = ["default scale-down window 300s", "scale up by 1 pod in 60s"];
        assert_eq!(with_rule.describe(base), settings);
        let policy = json!({ "type": "Pods", "value": 1, "periodSeconds": 60 });
        let behavior = json!({ "scaleDown": null, "scaleUp": { "policies": [policy] } });
        assert_eq!(with_rule.patch(base), json!({ "spec": { "behavior": behavior } }));
    }

    #[test]
    fn removed_rules_are_described_unless_they_equal_the_defaults() {
        let removed = |behavior: &str| {
            let base = &scenario(behavior);
            let changes = [(Setting::UpTolerance, Change::tolerance(Direction::Up, 2))].into();
            let tuning = Tuning { replaces_behavior: true, changes };
            Candidate::new(base, tuning).unwrap().removed_rules(base)
        };
        let defaults = "{scaleUp: {stabilizationWindowSeconds: 0, policies: [{type: Pods, \
                        value: 4, periodSeconds: 15}, {type: Percent, value: 100, periodSeconds: \
                        15}]}, scaleDown: {stabilizationWindowSeconds: 300}}";
        assert_eq!(removed(defaults), Vec::<String>::new());
        let up = "{scaleUp: {stabilizationWindowSeconds: 60, selectPolicy: Min, tolerance: '0.3'}}";
        assert_eq!(removed(up), ["default scale-up window 0s", "default scale-up policies"]);
        let down = "{scaleDown: {selectPolicy: Disabled, tolerance: '0.3'}}";
        assert_eq!(removed(down), ["default scale-down policies", "default tolerance down"]);
    }
}
