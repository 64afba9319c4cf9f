//! Settings whose effect depends on time, in reconciles one after the other.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;
mod fallback;

use hpa_calc::{
    Conclusion, History, HorizontalPodAutoscaler, Inputs, MetricsApi, MilliValue, Plan, ReadError,
    Reading, Readings, SelectedPods, Settings,
    settings::{SettingPolicy, SettingProblem},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use self::common::{events, hpa};

const START: &str = "2026-01-05T12:00:00Z";

/// Reconciles of one autoscaler, one after the other. Each one starts from the scale, the status
/// and the history of the previous one.
struct Run {
    hpa: HorizontalPodAutoscaler,
    settings: Settings,
    history: History,
    replicas: i32,
}

impl Run {
    /// An autoscaler with 1 to 20 replicas by the External metric `m`, without stabilization, and
    /// with these annotations.
    fn new(replicas: i32, annotations: Value) -> Self {
        Self::with_spec(replicas, json!({}), annotations)
    }

    fn with_spec(replicas: i32, spec: Value, annotations: Value) -> Self {
        let mut all = json!({
            "minReplicas": 1,
            "maxReplicas": 20,
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } },
        });
        all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let (settings, history) = (Settings::default(), History::default());
        let mut run = Self { hpa: hpa(all, json!({})), settings, history, replicas };
        run.annotate(annotations);
        run
    }

    /// Replaces the annotations by valid ones.
    fn annotate(&mut self, annotations: Value) {
        assert_eq!(self.set_annotations(annotations), []);
    }

    /// Replaces the annotations. Returns their problems.
    fn set_annotations(&mut self, annotations: Value) -> Vec<SettingProblem> {
        self.hpa.metadata.annotations = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                (format!("autoscaling.hpa-rs.dev/{name}"), text)
            })
            .collect();
        let resolved = Settings::default().for_autoscaler(&self.hpa, &SettingPolicy::default());
        self.settings = resolved.settings;
        resolved.problems
    }

    /// The inputs of a reconcile at `second` after [`START`].
    fn inputs(&self, second: i64, values: &[Option<i64>]) -> Inputs {
        let start: Timestamp = START.parse().unwrap();
        let read = |value: &Option<i64>| match value {
            Some(value) => Ok(Reading::External(vec![MilliValue::from_units(*value)].into())),
            None => Err(ReadError::fetch(MetricsApi::External, "down")),
        };
        Inputs {
            hpa: self.hpa.clone(),
            scale: Ok(common::scale(self.replicas)),
            settings: self.settings.clone(),
            selected: SelectedPods::default(),
            readings: values.iter().map(read).enumerate().collect::<Readings>(),
            history: Some(self.history.clone()),
            now: start + SignedDuration::from_secs(second),
        }
    }

    fn reconcile(&mut self, second: i64, values: &[Option<i64>]) -> Conclusion {
        let Inputs { hpa, scale, settings, selected, readings, history, now } =
            self.inputs(second, values);
        let plan = Plan::new(&hpa, scale, &settings, |_| selected);
        let decision = plan.decide(readings, history.unwrap(), now);
        let conclusion = decision.conclude(Ok(()), now);
        self.history = conclusion.history.clone();
        self.hpa.status = conclusion.status.clone();
        self.replicas = conclusion.scaled_to.unwrap_or(self.replicas);
        conclusion
    }

    /// The replicas after a reconcile with one metric.
    fn replicas_at(&mut self, second: i64, value: Option<i64>) -> i32 {
        self.reconcile(second, &[value]);
        self.replicas
    }

    fn condition(&self, name: &str) -> Option<String> {
        let mut found = self.hpa.status.conditions.iter();
        let found = found.find(|condition| condition.condition_type.as_str() == name)?;
        Some(format!("{} {}: {}", found.status, found.reason, found.message))
    }
}

fn bounds_annotation(entry: &Value) -> Value {
    json!({ "bounds": [entry] })
}

#[test]
fn condition_names_invalid_settings_and_those_that_apply() {
    let mut run = Run::new(3, json!({}));
    let mut condition = |annotations: Value| {
        let problems = run.set_annotations(annotations);
        run.reconcile(0, &[Some(3)]);
        (run.condition("CustomSettings"), problems.len())
    };
    let valid = Some("True SetOnAutoscaler: sync-period=30s".to_owned());
    assert_eq!(condition(json!({ "sync-period": "30s" })), (valid, 0));
    let (invalid, count) = condition(json!({ "sync-period": "30s", "rollout": "surge" }));
    let text = "True InvalidSettings: annotation autoscaling.hpa-rs.dev/rollout must be \
        \"count-surge\" or \"ignore-surge\", ignored; sync-period=30s";
    assert_eq!((invalid.as_deref(), count), (Some(text), 1));
    let (only_invalid, _) = condition(json!({ "pause": "yes" }));
    let text = only_invalid.unwrap();
    assert!(text.starts_with("False InvalidSettings: annotation "), "{text}");
    assert_eq!(condition(json!({ "pause": "up" })), (None, 0), "it has its own condition");
    assert_eq!(condition(json!({})), (None, 0));
}

#[test]
fn scheduled_bounds_apply_at_the_minute() {
    let entry = json!({ "start": "12:10", "end": "12:20", "minReplicas": 6, "maxReplicas": 8 });
    let mut run = Run::new(3, bounds_annotation(&entry));
    assert_eq!(run.replicas_at(599, Some(3)), 3);
    let message = run.condition("CustomSettings").unwrap();
    let next = "; 1 to 20 replicas until 2026-01-05T12:10:00Z, then 6 to 8 replicas";
    assert!(message.ends_with(next), "{message}");
    let started = run.reconcile(600, &[Some(3)]);
    assert_eq!(run.replicas, 6);
    assert_eq!(
        events(&started),
        ["Normal SuccessfulRescale: New size: 6; reason: Current number of replicas below the \
          scheduled minReplicas"]
    );
    assert_eq!(
        started.explanation.sentence(&run.hpa),
        "Current number of replicas below the scheduled minReplicas; bounds: 6 to 8 replicas until \
         2026-01-05T12:20:00Z, then 1 to 20 replicas, without the schedule 1 to 20 replicas"
    );
    assert_eq!(run.replicas_at(615, Some(12)), 8);
    let limited = run.reconcile(630, &[Some(12)]).explanation.sentence(&run.hpa);
    assert_eq!(
        limited,
        "m is at 12, target 1; maxReplicas is 8, metrics ask for 12; bounds: 6 to 8 \
         replicas until 2026-01-05T12:20:00Z, then 1 to 20 replicas, without the schedule 1 to 20 \
         replicas"
    );
    assert_eq!(run.replicas_at(1199, Some(3)), 6);
    let ended = run.reconcile(1200, &[Some(3)]);
    assert_eq!((run.replicas, ended.explanation.effects), (3, vec![]));
}

#[test]
fn replicas_above_the_scheduled_maximum_are_removed_at_once() {
    let entry = json!({ "start": "12:10", "end": "12:20", "maxReplicas": 4 });
    let mut run = Run::new(9, bounds_annotation(&entry));
    assert_eq!(run.replicas_at(599, Some(9)), 9);
    assert_eq!(run.replicas_at(600, None), 4, "without a metric");
}

#[test]
fn scheduled_zero_minimum_scales_to_zero_and_back() {
    let entry = json!({ "start": "12:10", "end": "12:20", "minReplicas": 0 });
    let mut run = Run::new(2, bounds_annotation(&entry));
    assert_eq!(run.replicas_at(0, Some(0)), 1);
    assert_eq!(run.replicas_at(600, Some(0)), 0);
    assert!(run.condition("ScaledToZero").unwrap().starts_with("True"));
    assert_eq!(run.replicas_at(1199, Some(0)), 0);
    assert_eq!(run.replicas_at(1200, Some(0)), 1, "the minimum of the spec");
}

#[test]
fn scale_up_from_zero_to_a_scheduled_minimum_names_the_schedule() {
    let entry = json!({ "start": "12:10", "end": "12:20", "minReplicas": 2 });
    let mut run = Run::with_spec(1, json!({ "minReplicas": 0 }), bounds_annotation(&entry));
    assert_eq!(run.replicas_at(0, Some(0)), 0);
    assert_eq!(
        events(&run.reconcile(600, &[Some(0)])),
        ["Normal SuccessfulRescale: New size: 2; reason: Current number of replicas below the \
          scheduled minReplicas"]
    );
}

#[test]
fn schedule_does_not_wake_a_target_that_a_user_scaled_to_zero() {
    let entry = json!({ "start": "12:00", "end": "13:00", "minReplicas": 3 });
    let mut run = Run::new(0, bounds_annotation(&entry));
    assert_eq!(run.replicas_at(0, Some(9)), 0);
    assert!(run.condition("ScalingActive").unwrap().starts_with("False ScalingDisabled"));
}

#[test]
fn pause_applies_to_scheduled_bounds() {
    let entry = json!({ "start": "12:00", "end": "13:00", "minReplicas": 6 });
    let mut annotations = bounds_annotation(&entry);
    annotations["pause"] = json!("up");
    let mut run = Run::new(3, annotations);
    assert_eq!(run.replicas_at(0, Some(3)), 3);
    assert_eq!(run.hpa.status.desired_replicas, 6);
}

#[test]
fn report_has_the_effective_bounds_and_their_next_change() {
    let entry = json!({ "start": "12:00", "end": "13:00", "minReplicas": 6 });
    let run = Run::new(6, bounds_annotation(&entry));
    let text = run.inputs(0, &[Some(3)]).report().to_string();
    let line = "  bounds: 6 to 20 replicas; 1 to 20 replicas from 2026-01-05T13:00:00Z (in \
                1:00:00), by the schedule\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("minReplicas is 6, metrics ask for 3; bounds: "), "{text}");
    assert_eq!(text.matches("\n  bounds: ").count(), 1, "{text}");
}

/// Like [`Run::new`], with a `minReplicas` of 0 and a `zero-after` of one minute.
fn run_with_zero_after(replicas: i32) -> Run {
    let spec = json!({ "minReplicas": 0 });
    Run::with_spec(replicas, spec, json!({ "zero-after": "1m" }))
}

#[test]
fn last_replica_stays_until_the_metrics_have_asked_for_zero_for_long_enough() {
    let mut run = run_with_zero_after(3);
    let held = run.reconcile(0, &[Some(0)]);
    assert_eq!((run.replicas, held.status.desired_replicas), (1, 1));
    assert!(run.condition("ScaledToZero").unwrap().starts_with("False"));
    let report = run.inputs(15, &[Some(0)]).report();
    assert_eq!(
        report.sentence,
        "stays at 1: m is at 0, target 1; the last replica stays, metrics ask for 0; \
         zero-after: to 0 replicas at 2026-01-05T12:01:00Z, if the metrics ask for it until then"
    );
    let text = report.to_string();
    assert!(text.contains("scales to 0 at 2026-01-05T12:01:00Z"), "{text}");
    let mut without_history = run.inputs(15, &[Some(0)]);
    without_history.history = None;
    let unknown = without_history.report();
    let doubt = "zero-after: to 0 replicas at 2026-01-05T12:01:15Z, if the metrics ask for it \
                 until then; maybe earlier, because the past of the metrics is not known here";
    assert!(unknown.sentence.ends_with(doubt), "{}", unknown.sentence);
    assert!(!unknown.to_string().contains("scales to 0 at"), "{unknown}");
    assert_eq!(run.replicas_at(59, Some(0)), 1);
    assert_eq!(run.replicas_at(60, Some(0)), 0);
    assert!(run.condition("ScaledToZero").unwrap().starts_with("True"));
    assert_eq!(run.replicas_at(75, Some(1)), 1, "up again at once");
}

#[test]
fn scheduled_minimum_at_the_end_of_the_delay_is_named() {
    let entry = json!({ "start": "12:01", "end": "12:03", "minReplicas": 4 });
    let mut annotations = bounds_annotation(&entry);
    annotations["zero-after"] = json!("1m");
    let mut run = Run::with_spec(3, json!({ "minReplicas": 0 }), annotations);
    run.reconcile(0, &[Some(0)]);
    let sentence = run.inputs(15, &[Some(0)]).report().sentence;
    let expected = "zero-after: to 0 replicas once the bounds allow it (minReplicas is 4 at \
                    2026-01-05T12:01:00Z), if the metrics ask for it until then";
    assert!(sentence.contains(expected), "{sentence}");
    assert_eq!(run.replicas_at(60, Some(0)), 4);
    assert_eq!(run.replicas_at(180, Some(0)), 0);
}

#[test]
fn any_other_proposal_starts_the_time_to_zero_again() {
    let mut run = run_with_zero_after(1);
    run.reconcile(0, &[Some(0)]);
    run.reconcile(30, &[Some(1)]);
    run.reconcile(45, &[Some(0)]);
    assert_eq!(run.replicas_at(104, Some(0)), 1);
    assert_eq!(run.replicas_at(105, Some(0)), 0);
}

#[test]
fn failed_reading_neither_scales_to_zero_nor_starts_the_time_again() {
    let mut run = run_with_zero_after(1);
    run.reconcile(0, &[Some(0)]);
    assert_eq!(run.replicas_at(60, None), 1);
    assert_eq!(run.replicas_at(75, Some(0)), 0);
}

#[test]
fn time_to_zero_starts_again_after_zero() {
    let mut run = run_with_zero_after(1);
    run.reconcile(0, &[Some(0)]);
    assert_eq!(run.replicas_at(60, Some(0)), 0);
    run.reconcile(75, &[Some(0)]);
    run.replicas = 2;
    assert_eq!(run.replicas_at(90, Some(0)), 1);
    assert_eq!(run.replicas_at(149, Some(0)), 1);
    assert_eq!(run.replicas_at(150, Some(0)), 0);
}

#[test]
fn zero_after_and_stabilization_run_at_the_same_time() {
    let behavior = json!({ "scaleDown": { "stabilizationWindowSeconds": 60 } });
    let spec = json!({ "minReplicas": 0, "behavior": behavior });
    let mut run = Run::with_spec(2, spec, json!({ "zero-after": "1m" }));
    let replicas: Vec<_> = (0..=5).map(|step| run.replicas_at(step * 15, Some(0))).collect();
    // The first recommendation is the current replicas.
    assert_eq!(replicas, [2, 2, 2, 2, 0, 0]);
}
