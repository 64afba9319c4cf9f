//! Pods that the selector matches, but that the target doesn't own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::sync::Arc;

use common::{hpa, now};
use hpa_calc::{
    Conclusion, History, Inputs, MilliValue, Plan, Pod, PodSample, PodSamples, Reading, Readings,
    Scale, SelectedPods, Settings, api::ConditionType, settings::PodSelection,
};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

fn pods_metric() -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "10" });
    json!({ "type": "Pods", "pods": { "metric": { "name": "requests" }, "target": target } })
}

fn pods(names: &[&str]) -> Vec<Arc<Pod>> {
    let pod = |name: &&str| {
        let pod = json!({ "metadata": { "name": name }, "status": { "phase": "Running" } });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    names.iter().map(pod).collect()
}

fn owned_pods() -> SelectedPods {
    SelectedPods::new(pods(&["web-0", "web-1"]))
}

fn all_pods() -> SelectedPods {
    SelectedPods::new(pods(&["job", "web-0", "web-1"]))
}

fn sample(units: i64, timestamp: Timestamp) -> PodSample {
    let window = SignedDuration::from_secs(30);
    PodSample { value: MilliValue::from_units(units), timestamp, window }
}

/// A reconcile of 2 replicas that serve 10 requests each, with a Job that serves 90.
fn reconcile(
    selected: SelectedPods,
    settings: &Settings,
    history: History,
    minutes: i64,
) -> Conclusion {
    reconcile_with_status(&json!({}), selected, settings, history, minutes)
}

fn reconcile_with_status(
    status: &Value,
    selected: SelectedPods,
    settings: &Settings,
    history: History,
    minutes: i64,
) -> Conclusion {
    let hpa = hpa(json!({ "metrics": [pods_metric()] }), status.clone());
    let scale = Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() };
    let plan = Plan::new(&hpa, Ok(scale), settings, |_| selected);
    let now = now() + SignedDuration::from_mins(minutes);
    let samples = [("web-0", 10), ("web-1", 10), ("job", 90)];
    let samples = samples.map(|(pod, units)| (pod, sample(units, now)));
    let samples = PodSamples::from_iter(samples);
    let readings = plan.readings_by_name([("requests", Ok(Reading::Pods(samples)))]);
    plan.decide(readings, history, now).conclude(Ok(()), now)
}

fn owned() -> Settings {
    let mut settings = Settings::default();
    settings.pods = PodSelection::Owned;
    settings
}

#[test]
fn samples_of_other_pods_count_only_without_the_setting() {
    let all = reconcile(all_pods(), &Settings::default(), History::default(), 0);
    assert_eq!(all.scaled_to, Some(4), "the reference counts the Job, limited to twice as many");
    assert_eq!(reconcile(owned_pods(), &owned(), History::default(), 0).scaled_to, None);
}

#[rstest]
#[case::all(Settings::default(), "not selected, but counted (1): job", true)]
#[case::owned(owned(), "of other owners, not counted (1): job", false)]
fn explanation_says_whether_samples_of_other_pods_count(
    #[case] settings: Settings,
    #[case] expected: &str,
    #[case] has_advice: bool,
) {
    let samples = ["web-0", "web-1", "job"].map(|pod| (pod, sample(10, now())));
    let inputs = Inputs {
        hpa: hpa(json!({ "metrics": [pods_metric()] }), json!({})),
        scale: Ok(Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() }),
        settings,
        selected: owned_pods(),
        readings: Readings::from_iter([(0, Ok(Reading::Pods(PodSamples::from_iter(samples))))]),
        history: None,
        now: now(),
    };
    let text = inputs.report().to_string();
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.contains("They count in the average"), has_advice, "{text}");
}

#[test]
fn unknown_owners_block_decisions() {
    let error = Some("replicasets is forbidden".to_owned());
    let selected = SelectedPods { ownership_error: error, ..SelectedPods::default() };
    let conclusion = reconcile(selected, &owned(), History::default(), 0);
    assert_eq!(conclusion.scaled_to, None);
    let condition = conclusion.status.condition(&ConditionType::ScalingActive).unwrap();
    assert_eq!(condition.reason.as_str(), "FailedGetOwners");
    assert!(condition.message.ends_with("the target owns: replicasets is forbidden"));
}

// For 10 minutes, the extra pods may be those of a rollout.
#[rstest]
#[case::rollout(10, false)]
#[case::longer(11, true)]
fn extra_pods_are_reported_after_a_rollout(#[case] minutes: i64, #[case] is_reported: bool) {
    let first = reconcile(all_pods(), &Settings::default(), History::default(), 0);
    assert!(first.status.condition(&ConditionType::SelectorMatchesExtraPods).is_none());
    let second = reconcile(all_pods(), &Settings::default(), first.history, minutes);
    let condition = second.status.condition(&ConditionType::SelectorMatchesExtraPods);
    let message = "the selector app=web matches 3 pods, but Deployment/web has 2: pods of other \
        owners also count. Change the labels, or set autoscaling.hpa-rs.dev/pods=owned";
    assert_eq!(condition.map(|it| &*it.message), is_reported.then_some(message));
}

// The message advises `pods=owned`, so it is outdated once that is set.
#[test]
fn report_ends_when_only_owned_pods_count() {
    let first = reconcile(all_pods(), &Settings::default(), History::default(), 0);
    let second = reconcile(all_pods(), &Settings::default(), first.history, 11);
    let stored = serde_json::to_value(&second.status).unwrap();
    let third = reconcile_with_status(&stored, all_pods(), &owned(), second.history, 12);
    assert!(third.status.condition(&ConditionType::SelectorMatchesExtraPods).is_none());
    assert_eq!(third.history.extra_pods_since, None);
}

#[test]
fn interruption_restarts_the_time_until_the_report() {
    let first = reconcile(all_pods(), &Settings::default(), History::default(), 0);
    let second = reconcile(owned_pods(), &Settings::default(), first.history, 9);
    let third = reconcile(all_pods(), &Settings::default(), second.history, 12);
    assert!(third.status.condition(&ConditionType::SelectorMatchesExtraPods).is_none());
}
