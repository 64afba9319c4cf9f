//! States and sentences by a stored status.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::api::{ConditionType, HorizontalPodAutoscaler, MetricStatus};

fn metric(name: &str, utilization: i32) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": utilization });
    json!({ "type": "Resource", "resource": { "name": name, "target": target } })
}

fn cpu_status(utilization: i32) -> MetricStatus {
    let current = json!({ "averageUtilization": utilization, "averageValue": "100m" });
    let status = json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } });
    serde_json::from_value(status).unwrap()
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": reason, "message": format!("{reason}!") })
}

/// An autoscaler on CPU, which is at 90 % of the requests with a target of 60 %. The conditions
/// `other` replace the usual ones.
fn hpa(current: i32, desired: i32, other: &[Value]) -> HorizontalPodAutoscaler {
    let mut conditions = vec![
        condition("AbleToScale", "True", "ReadyForNewScale"),
        condition("ScalingActive", "True", "ValidMetricFound"),
        condition("ScalingLimited", "False", "DesiredWithinRange"),
    ];
    for condition in other {
        conditions.retain(|usual| usual["type"] != condition["type"]);
        conditions.push(condition.clone());
    }
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9,
            "metrics": [metric("cpu", 60)] },
        "status": { "currentReplicas": current, "desiredReplicas": desired,
            "conditions": conditions, "currentMetrics": [cpu_status(90)] },
    }))
    .unwrap()
}

const MEASURED: &str = "cpu is at 90% of requests, target 60%";
const WAITS: &str = "maybe because pods of its selector are not ready or not measured";

#[rstest]
#[case::waiting(4, 4, &[], State::WaitingForPods,
    "MEASURED; stays at 4, WAITS")]
#[case::scaling(4, 6, &[condition("AbleToScale", "True", "SucceededRescale")],
    State::Scaling, "MEASURED; scaled from 4 to 6")]
#[case::not_scaled(6, 2, &[], State::Scaling, "MEASURED; has 6 replicas, 2 desired")]
#[case::at_maximum(9, 9, &[condition("ScalingLimited", "True", "TooManyReplicas")],
    State::AtMaximum, "MEASURED; maxReplicas is 9")]
#[case::at_former_maximum(7, 7, &[condition("ScalingLimited", "True", "TooManyReplicas")],
    State::AtMaximum, "MEASURED; maxReplicas was 7")]
#[case::at_minimum(2, 2, &[condition("ScalingLimited", "True", "TooFewReplicas")],
    State::AtMinimum, "MEASURED; minReplicas is 2")]
#[case::rate_limited(4, 4, &[condition("ScalingLimited", "True", "ScaleUpLimit")],
    State::RateLimited, "MEASURED; policies allow 4 for now")]
#[case::waiting_in_a_window(4, 4, &[condition("AbleToScale", "True", "ScaleDownStabilized")],
    State::WaitingForPods, "MEASURED; stays at 4, WAITS")]
#[case::stabilizing(4, 4, &[condition("AbleToScale", "True", "ScaleUpStabilized")],
    State::Stabilizing, "MEASURED; stabilization holds 4")]
#[case::paused(4, 6, &[condition("Paused", "True", "PausedByAnnotation")],
    State::Paused, "paused by annotation; MEASURED")]
#[case::off(0, 0, &[condition("ScalingActive", "False", "ScalingDisabled")],
    State::Off, "autoscaling is off because the target is at 0 replicas")]
#[case::failing(4, 4, &[condition("ScalingActive", "False", "FailedGetResourceMetric")],
    State::Failing, "paused by annotation; FailedGetResourceMetric!")]
fn state_and_sentence_follow_from_the_status(
    #[case] current: i32,
    #[case] desired: i32,
    #[case] other: &[Value],
    #[case] state: State,
    #[case] sentence: &str,
) {
    // The settings pause all cases. A pause is reported only with the condition Paused or in a
    // failing state.
    let settings = Settings::default().with(|settings| settings.pause = Pause::BOTH);
    let report = ShortReport::new(&hpa(current, desired, other), &settings);
    let sentence = sentence.replace("MEASURED", MEASURED).replace("WAITS", WAITS);
    assert_eq!((report.state, report.sentence), (state, sentence));
    assert_eq!(report.load, Some(1.5));
}

#[test]
fn disabled_direction_is_not_limited_for_now() {
    let limited = condition("ScalingLimited", "True", "ScaleUpLimit");
    let mut hpa = hpa(4, 4, &[limited]);
    let behavior = json!({ "scaleUp": { "selectPolicy": "Disabled" } });
    hpa.spec.behavior = serde_json::from_value(behavior).unwrap();
    let report = ShortReport::new(&hpa, &Settings::default());
    let expected = format!("{MEASURED}; scale-up is disabled by behavior.scaleUp.selectPolicy");
    assert_eq!((report.state, report.sentence), (State::RateLimited, expected));
}

#[test]
fn disabled_direction_precedes_the_stabilization_that_holds() {
    let mut hpa = hpa(4, 4, &[condition("AbleToScale", "True", "ScaleDownStabilized")]);
    hpa.status.current_metrics = vec![cpu_status(20)];
    let mut report = |behavior: Value| {
        hpa.spec.behavior = serde_json::from_value(behavior).unwrap();
        let report = ShortReport::new(&hpa, &Settings::default());
        (report.state, report.sentence)
    };
    let measured = "cpu is at 20% of requests, target 60%";
    let disabled = format!("{measured}; scale-down is disabled by behavior.scaleDown.selectPolicy");
    let down = json!({ "scaleDown": { "selectPolicy": "Disabled" } });
    assert_eq!(report(down), (State::RateLimited, disabled));
    let up = json!({ "scaleUp": { "selectPolicy": "Disabled" } });
    let holds = format!("{measured}; stabilization holds 4");
    assert_eq!(report(up), (State::Stabilizing, holds));
}

#[rstest]
#[case::low_load(20, State::Stabilizing, "stabilization holds more than 9, maxReplicas is 9")]
#[case::high_load(90, State::AtMaximum, "maxReplicas is 9")]
fn maximum_is_a_problem_only_if_the_metrics_ask_for_more(
    #[case] utilization: i32,
    #[case] state: State,
    #[case] limit: &str,
) {
    let stabilized = condition("AbleToScale", "True", "ScaleDownStabilized");
    let mut hpa = hpa(9, 9, &[stabilized, condition("ScalingLimited", "True", "TooManyReplicas")]);
    hpa.status.current_metrics = vec![cpu_status(utilization)];
    let report = ShortReport::new(&hpa, &Settings::default());
    let sentence = format!("cpu is at {utilization}% of requests, target 60%; {limit}");
    assert_eq!((report.state, report.sentence), (state, sentence));
    assert_eq!(state.is_problem(), state == State::AtMaximum);
}

#[test]
fn scale_up_by_a_past_recommendation_is_not_at_the_maximum() {
    let scaled = condition("AbleToScale", "True", "SucceededRescale");
    let mut hpa = hpa(4, 9, &[scaled, condition("ScalingLimited", "True", "TooManyReplicas")]);
    assert_eq!(ShortReport::new(&hpa, &Settings::default()).state, State::AtMaximum);
    hpa.status.current_metrics = vec![cpu_status(20)];
    assert_eq!(ShortReport::new(&hpa, &Settings::default()).state, State::Scaling);
}

#[rstest]
#[case::minimum(2, "ScaleDownStabilized", State::AtMinimum)]
#[case::maximum(9, "ScaleUpStabilized", State::AtMaximum)]
#[case::between(4, "ScaleDownStabilized", State::Stabilizing)]
fn reached_bound_precedes_stabilization(
    #[case] replicas: i32,
    #[case] reason: &str,
    #[case] state: State,
) {
    let mut hpa = hpa(replicas, replicas, &[condition("AbleToScale", "True", reason)]);
    hpa.status.current_metrics = vec![cpu_status(20)];
    assert_eq!(ShortReport::new(&hpa, &Settings::default()).state, state);
}

/// Stabilization holds fewer replicas than the minimum, which a schedule sets.
#[rstest]
fn scheduled_minimum_precedes_stabilization(
    #[values("ScaleDownStabilized", "ScaleUpStabilized")] able: &str,
    #[values(20, 90)] utilization: i32,
) {
    let limited = condition("ScalingLimited", "True", "TooFewReplicas");
    let settings = condition("CustomSettings", "True", "Set");
    let mut hpa = hpa(7, 7, &[condition("AbleToScale", "True", able), limited, settings]);
    hpa.status.current_metrics = vec![cpu_status(utilization)];
    let report = ShortReport::new(&hpa, &Settings::default());
    let sentence = format!("cpu is at {utilization}% of requests, target 60%; minReplicas is 7");
    assert_eq!((report.state, report.sentence), (State::AtMinimum, sentence));
}

fn with_scale(hpa: &HorizontalPodAutoscaler, scale: &Scale) -> ShortReport {
    let surroundings = Surroundings { scale: Some(scale), ..Surroundings::default() };
    ShortReport::with_surroundings(hpa, &Settings::default(), surroundings)
}

#[test]
fn other_autoscalers_of_the_target_are_named_once() {
    let others = ["rhpa/shop/web".to_owned()];
    let surroundings = Surroundings { other_autoscalers: &others, ..Surroundings::default() };
    let report = |hpa| ShortReport::with_surroundings(&hpa, &Settings::default(), surroundings);
    let steady = report(hpa(2, 2, &[condition("ScalingLimited", "True", "TooFewReplicas")]));
    let expected = format!("{MEASURED}; minReplicas is 2; rhpa/shop/web has the same target");
    assert_eq!((&*steady.sentence, steady.is_problem(seconds_ago(0))), (&*expected, true));
    assert_eq!(steady.warnings, [Warning::SharedTarget]);
    let mut ambiguous = condition("ScalingActive", "False", "AmbiguousSelector");
    ambiguous["message"] = json!("pods are controlled by [shop/web rhpa/shop/web]");
    let named = report(hpa(2, 2, &[ambiguous.clone()]));
    assert_eq!(named.sentence, "pods are controlled by [shop/web rhpa/shop/web]");
    ambiguous["message"] = json!("pods are controlled by [shop/web rhpa/shop/web-2]");
    let longer = report(hpa(2, 2, &[ambiguous]));
    assert!(longer.sentence.ends_with("; rhpa/shop/web has the same target"));
}

#[rstest]
#[case::active(Pause::NONE, "ValidMetricFound", Some((2, 9)))]
#[case::ambiguous(Pause::NONE, "AmbiguousSelector", Some((2, 9)))]
#[case::off(Pause::NONE, "ScalingDisabled", None)]
#[case::paused(Pause::BOTH, "ValidMetricFound", None)]
fn only_an_autoscaler_that_scales_enforces_its_bounds(
    #[case] pause: Pause,
    #[case] reason: &str,
    #[case] expected: Option<(i32, i32)>,
) {
    let hpa = hpa(2, 2, &[condition("ScalingActive", "True", reason)]);
    let settings = Settings::default().with(|settings| settings.pause = pause);
    let bounds = enforced_bounds(&hpa, &settings, seconds_ago(0));
    let bounds = bounds.map(|Bounds { min_replicas, max_replicas }| (min_replicas, max_replicas));
    assert_eq!(bounds, expected);
}

#[test]
fn target_is_the_same_in_all_versions_of_its_api() {
    let key = |version: &str| {
        let mut hpa = hpa(2, 2, &[]);
        hpa.spec.scale_target_ref.api_version = version.to_owned();
        TargetKey::new(&hpa)
    };
    assert_eq!(key("apps/v1"), key("apps/v1beta1"));
    assert_ne!(key("apps/v1"), key("v1"));
}

/// Whether the state is a problem from this number of seconds after a scaling at `seconds_ago(0)`.
fn becomes_problem_after(report: &ShortReport, seconds: i64) -> bool {
    let scaled = seconds_ago(0);
    let is_problem_after =
        |seconds| report.is_problem(scaled + jiff::SignedDuration::from_secs(seconds));
    !is_problem_after(seconds - 1) && is_problem_after(seconds)
}

#[test]
fn pods_that_do_not_exist_are_counted_and_are_normal_after_a_scaling() {
    let mut hpa = hpa(3, 3, &[]);
    let scale = Scale { spec_replicas: 3, status_replicas: 2, selector: "app=web".into() };
    hpa.status.last_scale_time = Some(seconds_ago(0));
    let report = with_scale(&hpa, &scale);
    let expected = (State::WaitingForPods, format!("{MEASURED}; 2 of 3 pods exist"));
    assert_eq!((report.state, report.sentence.clone()), expected);
    assert!(becomes_problem_after(&report, 60));
    let all = Scale { status_replicas: 3, ..scale };
    let report = with_scale(&hpa, &all);
    assert_eq!(report.sentence, format!("{MEASURED}; stays at 3, {WAITS}"));
    assert!(becomes_problem_after(&report, 300));
}

#[test]
fn last_decision_has_the_cause_that_the_status_lacks() {
    let last_decision = Some("cpu is at 90% of requests, target 60%; 6 pods match the selector");
    let surroundings = Surroundings { last_decision, ..Surroundings::default() };
    let report = |hpa| ShortReport::with_surroundings(&hpa, &Settings::default(), surroundings);
    assert_eq!(Some(&*report(hpa(4, 4, &[])).sentence), last_decision);
    let maximum = condition("ScalingLimited", "True", "TooManyReplicas");
    // A past recommendation is above the maximum.
    let expected = last_decision.map(|decision| format!("{decision}; maxReplicas is 9"));
    assert_eq!(Some(report(hpa(9, 9, &[maximum])).sentence), expected);
    // Other states follow from the status.
    let expected = format!("{MEASURED}; has 4 replicas, 6 desired");
    assert_eq!(report(hpa(4, 6, &[])).sentence, expected);
}

/// A higher maximum doesn't create the pods that a quota refuses.
#[test]
fn pods_that_do_not_exist_precede_the_maximum() {
    let mut hpa = hpa(9, 9, &[condition("ScalingLimited", "True", "TooManyReplicas")]);
    hpa.status.last_scale_time = Some(seconds_ago(10));
    assert!(ShortReport::new(&hpa, &Settings::default()).needs_scale());
    let scale = |existing| Scale {
        spec_replicas: 9,
        status_replicas: existing,
        selector: "app=web".into(),
    };
    let three = scale(3);
    let report = with_scale(&hpa, &three);
    let expected = (State::WaitingForPods, format!("{MEASURED}; 3 of 9 pods exist"));
    assert_eq!((report.state, report.sentence.clone()), expected);
    assert!(!report.is_problem(seconds_ago(0)), "they may be being created");
    for existing in [0, 9] {
        assert_eq!(with_scale(&hpa, &scale(existing)).state, State::AtMaximum);
    }
    let refused = Surroundings {
        scale: Some(&three),
        replica_failure: Some("exceeded quota: pods"),
        ..Surroundings::default()
    };
    let report = ShortReport::with_surroundings(&hpa, &Settings::default(), refused);
    let expected = format!("{MEASURED}; 3 of 9 pods exist: exceeded quota: pods");
    assert_eq!((report.sentence.as_str(), report.is_problem(seconds_ago(0))), (&*expected, true));
}

#[test]
fn unschedulable_pods_precede_the_maximum_and_a_steady_state() {
    let unschedulable_pods = Some(UnschedulablePods { count: 3, total: 9 });
    let surroundings = Surroundings { unschedulable_pods, ..Surroundings::default() };
    let report = |hpa: &HorizontalPodAutoscaler, surroundings| {
        ShortReport::with_surroundings(hpa, &Settings::default(), surroundings)
    };
    let mut held = hpa(9, 9, &[condition("ScalingLimited", "True", "TooManyReplicas")]);
    held.status.last_scale_time = Some(seconds_ago(0));
    let unschedulable = "3 of 9 pods can't be scheduled";
    let of_held = report(&held, surroundings);
    let expected = (State::WaitingForPods, format!("{MEASURED}; {unschedulable}"));
    assert_eq!((of_held.state, of_held.sentence.clone()), expected);
    assert!(becomes_problem_after(&of_held, 60), "nodes may be added");
    let two = Scale { spec_replicas: 9, status_replicas: 2, selector: "app=web".into() };
    let of_missing = report(&held, Surroundings { scale: Some(&two), ..surroundings });
    let expected = format!("{MEASURED}; 2 of 9 pods exist; {unschedulable}");
    assert_eq!(of_missing.sentence, expected);
    let mut steady = hpa(9, 9, &[]);
    steady.status.current_metrics.clear();
    assert_eq!(ShortReport::new(&steady, &Settings::default()).state, State::Steady);
    let of_steady = report(&steady, surroundings);
    assert_eq!((of_steady.state, &*of_steady.sentence), (State::WaitingForPods, unschedulable));
}

/// The metric is read from elsewhere, so the status doesn't show that no pod is ready.
#[rstest]
#[case::at_minimum(2, "TooFewReplicas")]
#[case::at_maximum(9, "TooManyReplicas")]
fn unready_pods_precede_the_bounds(#[case] replicas: i32, #[case] reason: &str) {
    let mut hpa = hpa(replicas, replicas, &[condition("ScalingLimited", "True", reason)]);
    hpa.status.last_scale_time = Some(seconds_ago(0));
    let decision = "queue is at 1, target 10; none of the 2 pods is ready";
    let surroundings = Surroundings {
        unready_pods: Some(2),
        last_decision: Some(decision),
        ..Surroundings::default()
    };
    let report = ShortReport::with_surroundings(&hpa, &Settings::default(), surroundings);
    assert_eq!((report.state, &*report.sentence), (State::WaitingForPods, decision));
    assert!(becomes_problem_after(&report, 300), "they may be starting");
}

#[rstest]
#[case::holds(4, 3, State::Paused, "paused for scaling down by annotation; MEASURED")]
#[case::holds_nothing(
    4,
    4,
    State::WaitingForPods,
    "paused for scaling down by annotation; MEASURED; stays at 4, WAITS"
)]
#[case::other_direction(
    4,
    6,
    State::Scaling,
    "paused for scaling down by annotation; MEASURED; has 4 replicas, 6 desired"
)]
fn pause_of_one_direction_is_a_state_while_it_prevents_scaling(
    #[case] current: i32,
    #[case] desired: i32,
    #[case] state: State,
    #[case] sentence: &str,
) {
    let hpa = hpa(current, desired, &[condition("Paused", "True", "PausedByAnnotation")]);
    let settings = Settings::default().with(|settings| {
        settings.pause = Pause { up: false, down: true };
    });
    let report = ShortReport::new(&hpa, &settings);
    assert!(report.is_problem(seconds_ago(0)), "a pause is listed even if it prevents nothing now");
    let sentence = sentence.replace("MEASURED", MEASURED).replace("WAITS", WAITS);
    assert_eq!((report.state, report.sentence), (state, sentence));
}

#[test]
fn invalid_setting_is_a_problem_with_any_controller() {
    // The condition is that of an earlier controller.
    let old = condition("CustomSettings", "True", "InvalidSettings");
    let mut hpa = hpa(9, 9, &[old]);
    hpa.metadata.annotations.insert("autoscaling.hpa-rs.dev/paused".into(), "true".into());
    let settings = built_in_settings(&hpa);
    let report = ShortReport::new(&hpa, &settings);
    assert_eq!(report.warnings, [Warning::InvalidSettings]);
    let text = "invalid settings: annotation autoscaling.hpa-rs.dev/paused is not a setting (did \
                you mean pause?), ignored";
    assert!(report.sentence.ends_with(text), "{}", report.sentence);
}

#[test]
fn pods_of_other_owners_are_a_problem() {
    let extra = condition("SelectorMatchesExtraPods", "True", "PodsOfOthers");
    let mut hpa = hpa(4, 4, &[extra]);
    hpa.status.current_metrics = vec![cpu_status(60)];
    let report = ShortReport::new(&hpa, &Settings::default());
    assert_eq!(report.state, State::Steady);
    assert_eq!(report.warnings, [Warning::ExtraPods]);
    assert!(report.sentence.ends_with("; PodsOfOthers!"), "{}", report.sentence);
    assert!(report.is_problem(Timestamp::UNIX_EPOCH));
    let built_in = built_in_settings(&hpa);
    assert_eq!(ShortReport::new(&hpa, &built_in).warnings, [], "it doesn't update the condition");
}

#[test]
fn load_within_the_tolerance_is_steady() {
    let settings = Settings::default().with(|settings| settings.tolerance = 0.6);
    let report = ShortReport::new(&hpa(4, 4, &[]), &settings);
    assert_eq!((report.state, &*report.sentence), (State::Steady, MEASURED));
    let mut new = hpa(0, 0, &[]);
    new.status = <_>::default();
    assert_eq!(ShortReport::new(&new, &Settings::default()).state, State::New);
}

#[test]
fn dry_run_is_the_state_even_without_a_status() {
    let mut hpa = hpa(4, 4, &[]);
    hpa.status = <_>::default();
    let settings = Settings { dry_run: true, ..Settings::default() };
    let report = ShortReport::new(&hpa, &settings);
    let expected = (State::DryRun, "dry run by annotation; nothing is written");
    assert_eq!((report.state, &*report.sentence), expected);
}

/// An autoscaler of the custom API. The field has precedence over the annotation.
#[test]
fn field_of_a_pause_and_of_a_dry_run_is_named() {
    let mut inputs = inputs(json!({ "pause": "down", "dryRun": true }));
    inputs.hpa.metadata.annotations.insert("autoscaling.hpa-rs.dev/pause".into(), "up".into());
    resolve_settings(&mut inputs);
    let report = inputs.report();
    let start = "is paused for scaling down by spec.pause and is in dry run by spec.dryRun and ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    for field in ["spec.pause", "spec.dryRun"] {
        assert_contains(&report, &format!("Remove {field} to let the "));
    }
    let dry_run = ShortReport::new(&inputs.hpa, &inputs.settings);
    assert_eq!(dry_run.sentence, "dry run by spec.dryRun; nothing is written");
    let mut hpa = hpa(4, 3, &[condition("Paused", "True", "PausedByAnnotation")]);
    hpa.spec.unknown = inputs.hpa.spec.unknown.clone();
    let settings = Settings::default().with(|settings| settings.pause = inputs.settings.pause);
    let paused = ShortReport::new(&hpa, &settings);
    assert_eq!(paused.pause.as_deref(), Some("paused for scaling down by spec.pause"));
    let mut conditions = hpa.status.conditions.iter_mut();
    let condition = conditions.find(|one| one.condition_type == ConditionType::Paused);
    condition.unwrap().last_transition_time = Some(seconds_ago(0));
    let sentence = ShortReport::new(&hpa, &settings).sentence;
    let start = "paused for scaling down by spec.pause since 1970-01-01T02:46:40Z; ";
    assert!(sentence.starts_with(start), "{sentence}");
}

#[test]
fn pause_has_no_effect_with_the_built_in_controller() {
    let mut hpa = hpa(9, 9, &[condition("Paused", "True", "PausedByAnnotation")]);
    for name in ["pause", "dry-run"] {
        let annotation = format!("autoscaling.hpa-rs.dev/{name}");
        hpa.metadata.annotations.insert(annotation, "true".to_owned());
    }
    let settings = built_in_settings(&hpa);
    let report = ShortReport::new(&hpa, &settings);
    let expected = format!(
        "kube-controller-manager, which stored the status last, ignores the pause; \
         kube-controller-manager, which stored the status last, ignores the dry run; {MEASURED}; \
         stays at 9, {WAITS}"
    );
    assert_eq!((report.state, &*report.sentence), (State::WaitingForPods, &*expected));
    assert_eq!(report.warnings, [Warning::PauseIgnored, Warning::DryRunIgnored]);
    assert!(settings.has_ignored_settings());
    let settings = settings.with_built_in_state("no controller has renewed its lease".to_owned());
    let sentence = ShortReport::new(&hpa, &settings).sentence;
    assert!(
        sentence.contains("the pause; no controller has renewed its lease; kube-"),
        "{sentence}"
    );
    hpa.metadata.annotations.clear();
    let settings = built_in_settings(&hpa);
    let report = ShortReport::new(&hpa, &settings);
    assert_eq!((report.state, report.warnings.len()), (State::WaitingForPods, 0));
}

#[test]
fn settings_of_an_unknown_controller_say_what_each_controller_does() {
    let mut hpa = hpa(4, 4, &[]);
    for (name, value) in [("pause", "true"), ("dry-run", "true"), ("sync-period", "30s")] {
        let annotation = format!("autoscaling.hpa-rs.dev/{name}");
        hpa.metadata.annotations.insert(annotation, value.to_owned());
    }
    let settings = built_in_settings(&hpa);
    let report = ShortReport::new(&hpa, &settings.with_unknown_controller());
    let ignores = "kube-controller-manager, which stored the status last, ignores";
    let expected = format!(
        "hpa-rs would obey the pause; {ignores} the pause; in dry run by annotation, hpa-rs would \
         write nothing; {ignores} the annotation; {MEASURED}; stays at 4, {WAITS}; hpa-rs would \
         apply the setting sync-period; {ignores} it"
    );
    assert_eq!(report.sentence, expected);
}

#[test]
fn built_in_controller_that_has_replaced_hpa_rs_is_not_named_as_the_writer() {
    let mut hpa = hpa(4, 4, &[condition("Paused", "True", "PausedByAnnotation")]);
    hpa.metadata.annotations.insert("autoscaling.hpa-rs.dev/pause".into(), "true".into());
    let settings = built_in_settings(&hpa);
    let settings = settings.with_status_of_hpa_rs();
    let report = ShortReport::new(&hpa, &settings);
    let expected = "kube-controller-manager, which acts now, ignores the pause; ";
    assert!(report.sentence.starts_with(expected), "{}", report.sentence);
    assert_eq!(report.state, State::WaitingForPods);
    assert_eq!(report.warnings, [Warning::PauseIgnored]);
    let report = ShortReport::new(&hpa, &settings.with_unknown_controller());
    let expected = "hpa-rs would obey the pause; kube-controller-manager, which may act now, \
                    ignores the pause; ";
    assert!(report.sentence.starts_with(expected), "{}", report.sentence);
}

#[test]
fn settings_have_no_effect_with_the_built_in_controller() {
    let mut hpa = hpa(4, 4, &[]);
    let mut report = |name: &str, value: &str| {
        let annotation = format!("autoscaling.hpa-rs.dev/{name}");
        hpa.metadata.annotations.insert(annotation, value.to_owned());
        let settings = built_in_settings(&hpa);
        assert!(settings.has_ignored_settings());
        ShortReport::new(&hpa, &settings)
    };
    let one = report("sync-period", "30s");
    let end = "; the setting sync-period has no effect: kube-controller-manager, which stored the \
               status last, ignores it";
    assert!(one.sentence.ends_with(end), "{}", one.sentence);
    assert_eq!(one.warnings, [Warning::SettingsIgnored]);
    let two = report("tolerance", "0.2");
    let end = "status last, ignores them";
    assert!(
        two.sentence.contains("; the settings ") && two.sentence.ends_with(end),
        "{}",
        two.sentence
    );
    assert_eq!(two.warnings, [Warning::SettingsIgnored]);
}

#[rstest]
#[case::active("True", State::Fallback, "a fallback is active: FallbackActive!")]
#[case::ended("False", State::WaitingForPods, "MEASURED; stays at 4, WAITS")]
fn active_fallback_is_a_state(#[case] status: &str, #[case] state: State, #[case] sentence: &str) {
    let active = condition("ExternalMetricFallbackActive", status, "FallbackActive");
    let hpa = hpa(4, 4, &[active]);
    let fallback = serde_json::from_value(json!({ "replicas": 4 })).unwrap();
    let metric = MetricSettings { fallback: Some(fallback), ..MetricSettings::default() };
    let settings = Settings { metrics: Some([metric].into()), ..Settings::default() };
    let report = ShortReport::new(&hpa, &settings);
    let sentence = sentence.replace("MEASURED", MEASURED).replace("WAITS", WAITS);
    assert_eq!((report.state, report.sentence), (state, sentence));
    // A controller without fallbacks doesn't remove the condition.
    let report = ShortReport::new(&hpa, &Settings::default());
    assert_eq!(report.state, State::WaitingForPods);
}

#[test]
fn metric_without_value_is_named() {
    let mut hpa = hpa(4, 4, &[]);
    hpa.spec.metrics.push(serde_json::from_value(metric("memory", 30)).unwrap());
    hpa.status.current_metrics.push(MetricStatus::default());
    let report = ShortReport::new(&hpa, &Settings::default());
    let expected = format!("no value of memory, so it only scales up; {MEASURED}");
    assert_eq!((report.state, report.sentence), (State::MetricMissing, expected));
    assert!(report.has_missing_metric);
    let limited = condition("ScalingLimited", "True", "TooManyReplicas");
    hpa.status.conditions.retain(|one| one.condition_type != ConditionType::ScalingLimited);
    hpa.status.conditions.push(serde_json::from_value(limited).unwrap());
    hpa.spec.max_replicas = 4;
    let report = ShortReport::new(&hpa, &Settings::default());
    let expected = format!("{MEASURED}; maxReplicas is 4; no value of memory");
    assert_eq!((report.state, report.sentence), (State::AtMaximum, expected));
    assert!(report.has_missing_metric);
    for (decision, end) in [
        ("cpu is at 90%; maxReplicas is 4; memory cannot be read: no samples", ""),
        ("cpu is at 90%; memory cannot be read: no samples", "; maxReplicas is 4"),
    ] {
        let surroundings =
            Surroundings { last_decision: Some(decision), ..Surroundings::default() };
        let report = ShortReport::with_surroundings(&hpa, &Settings::default(), surroundings);
        assert_eq!(report.sentence, format!("{decision}{end}"), "it names the metric once");
        assert!(report.has_missing_metric);
    }
}

#[rstest]
#[case(
    "ScalingActive",
    "FailedGetResourceMetric",
    "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
     get metrics for resource cpu: unable to fetch metrics from resource metrics API: the \
     server could not find the requested resource (get pods.metrics.k8s.io)",
    "cpu cannot be read: the server could not find the requested resource (get \
     pods.metrics.k8s.io)"
)]
#[case(
    "ScalingActive",
    "FailedGetResourceMetric",
    "the HPA was unable to compute the replica count: failed to get cpu utilization: missing \
     request for cpu in container app of Pod web-1",
    "cpu cannot be read: missing request for cpu in container app of Pod web-1"
)]
#[case(
    "ScalingActive",
    "FailedGetResourceMetric",
    "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
     get metrics for resource cpu: no metrics returned from resource metrics API",
    "cpu cannot be read: no metrics returned from resource metrics API"
)]
#[case(
    "ScalingActive",
    "FailedGetResourceMetric",
    "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
     get metrics for resource cpu: unable to fetch metrics from resource metrics API: the \
     server could not find the metric cpu for ",
    "cpu cannot be read: the server could not find the metric cpu"
)]
#[case(
    "AbleToScale",
    "FailedGetScale",
    "the HPA controller was unable to get the target's current scale: deployments.apps \
     \"web\" not found",
    "the target cannot be read: deployments.apps \"web\" not found"
)]
fn sentence_of_a_failure_is_its_root_cause(
    #[case] kind: &str,
    #[case] reason: &str,
    #[case] message: &str,
    #[case] expected: &str,
) {
    let failed = json!({ "type": kind, "status": "False", "reason": reason, "message": message });
    let report = ShortReport::new(&hpa(4, 4, &[failed]), &Settings::default());
    assert_eq!(report.sentence, expected);
}
