mod advice;
mod remarks;
mod reported;
mod short;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::Scale,
    history::{History, Recommendation, ScaleEvent},
    pause::Pause,
    plan::{ScaleReadError, SelectedPods},
    readings::{MetricsApi, PodSample, ReadError, Reading},
    settings::{MetricSettings, SettingPolicy, Settings},
};

const NOW: i64 = 10_000;

fn at(ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - ago).unwrap()
}

fn pod(name: &str, phase: &str, request: Option<&str>) -> crate::Pod {
    let requests = request.map(|request| json!({ "requests": { "cpu": request } }));
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "resources": requests }] },
        "status": {
            "phase": phase,
            "startTime": at(900).to_string(),
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": at(800).to_string(),
            }],
        },
    }))
    .unwrap()
}

fn samples(values: &[(&str, i64)]) -> Reading {
    let sample = |milli| PodSample {
        value: crate::MilliValue::from_milli(milli),
        timestamp: at(10),
        window: jiff::SignedDuration::from_secs(30),
    };
    Reading::Pods(values.iter().map(|(pod, milli)| (*pod, sample(*milli))).collect())
}

/// A sample of `milli` for each of four pods.
fn equal_samples(milli: i64) -> Reading {
    samples(&["web-0", "web-1", "web-2", "web-3"].map(|pod| (pod, milli)))
}

/// Four replicas with an average CPU usage of 431m, a request of 600m each and a target of 66 %.
fn inputs(spec: Value) -> Inputs {
    let target = json!({ "type": "Utilization", "averageUtilization": 66 });
    let mut hpa = json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [
                { "type": "Resource", "resource": { "name": "cpu", "target": target } },
            ],
        },
        "status": { "conditions": [{
            "type": "AbleToScale",
            "status": "True",
            "reason": "ScaleDownStabilized",
            "message": "recent recommendations were higher than current one",
        }] },
    });
    for (name, value) in spec.as_object().unwrap() {
        hpa["spec"][name] = value.clone();
    }
    let names = ["web-0", "web-1", "web-2", "web-3"];
    Inputs {
        hpa: serde_json::from_value(hpa).unwrap(),
        scale: Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() }),
        settings: Settings::default(),
        selected: SelectedPods::new(names.map(|name| pod(name, "Running", Some("600m")))),
        readings: [(0, Ok(equal_samples(431)))].into_iter().collect(),
        history: Some(History::default()),
        now: at(0),
    }
}

fn assert_contains(report: &Report, text: &str) {
    let printed = report.to_string();
    assert!(printed.contains(text), "{text:?} is not in:\n{printed}");
}

#[test]
fn metric_threshold_of_the_next_change_is_reported() {
    let report = inputs(json!({})).report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 71% of requests, target 66%; within tolerance"
    );
    // 73 % of 600m are 438m, and the tolerance ends at 72.6 %.
    assert_contains(
        &report,
        "  scales to 5 when average cpu rises to 438m (73% of requests); now 431m",
    );
    assert_contains(&report, "ratio 1.076, within the tolerance (0.900 to 1.100); proposes 4");
    assert!(report.advice.is_empty(), "{:?}", report.advice);
}

#[test]
fn container_named_memory_does_not_change_the_unit_of_cpu() {
    let mut inputs = inputs(json!({}));
    let target = json!({ "type": "AverageValue", "averageValue": "400m" });
    let source = json!({ "name": "cpu", "container": "memory-store", "target": target });
    let spec = json!({ "type": "ContainerResource", "containerResource": source });
    inputs.hpa.spec.metrics = vec![serde_json::from_value(spec).unwrap()];
    let report = inputs.report();
    assert_contains(&report, "* cpu of container memory-store: 431m, target 400m; ");
}

#[test]
fn policies_of_a_disabled_direction_are_not_listed() {
    let behavior = json!({ "scaleDown": { "selectPolicy": "Disabled" } });
    let report = inputs(json!({ "behavior": behavior })).report();
    assert_contains(&report, "  scale-down now: at least 4 (selectPolicy Disabled)\n  bounds: ");
    assert_contains(&report, "    100 Percent in 15s, from 4: at most 8\n");
}

#[test]
fn stabilization_reports_the_recommendation_and_its_end() {
    let mut inputs = inputs(json!({}));
    inputs.readings =
        [(0, Ok(samples(&[("web-0", 10), ("web-1", 10), ("web-2", 10), ("web-3", 10)])))]
            .into_iter()
            .collect();
    inputs.history = Some(History {
        recommendations: vec![
            Recommendation { replicas: 4, at: at(280) },
            Recommendation { replicas: 4, at: at(100) },
            Recommendation { replicas: 1, at: at(15) },
        ],
        ..History::default()
    });
    let report = inputs.report();
    let held = report.limits.as_ref().unwrap().stabilization.held_by.unwrap();
    assert_eq!((held.replicas, held.at, held.until), (4, at(100), at(-200)));
    let end = "; stabilization holds 4 until 02:50:00Z, metrics ask for ";
    assert!(report.sentence.contains(end), "{}", report.sentence);
    assert_contains(&report, "the recommendation of 4 at 1970-01-01T02:45:00Z holds it until");
    // A window includes its start, so the replicas change just after its end.
    let change =
        report.changes.iter().find(|change| matches!(change.trigger, Trigger::Time { .. }));
    let change = change.unwrap();
    let end = at(-200) + jiff::SignedDuration::from_millis(1);
    assert_eq!((&change.trigger, change.replicas), (&Trigger::Time { at: end }, 2));
}

#[rstest]
#[case::above_the_maximum(json!({ "maxReplicas": 4 }), 16, State::Stabilizing,
    "stabilization holds 16, maxReplicas is 4, metrics ask for 2")]
#[case::minimum_binds_as_well(json!({ "minReplicas": 4 }), 4, State::AtMinimum,
    "minReplicas is 4, metrics ask for 2")]
fn bound_is_the_reason_only_if_it_limits_what_the_metrics_ask_for(
    #[case] spec: Value,
    #[case] recommended: i32,
    #[case] state: State,
    #[case] limit: &str,
) {
    let mut inputs = inputs_at(200, spec, &[("AbleToScale", "True", "ScaleDownStabilized")]);
    let recommendation = Recommendation { replicas: recommended, at: at(60) };
    inputs.history = Some(History { recommendations: vec![recommendation], ..History::default() });
    let report = inputs.report();
    let expected = format!("stays at 4: cpu is at 33% of requests, target 66%; {limit}");
    assert_eq!((&*report.sentence, report.state(State::Steady)), (&*expected, state));
    assert!(!report.advice.iter().any(|one| one.contains("maxReplicas")), "{report}");
    let raises_maximum = |change: &Change| matches!(change.trigger, Trigger::MaxReplicas { .. });
    assert!(!report.changes.iter().any(raises_maximum), "{report}");
}

#[test]
fn unknown_history_is_reported_and_does_not_stabilize() {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Ok(samples(&[("web-0", 10)])))].into_iter().collect();
    inputs.selected = SelectedPods::new([pod("web-0", "Running", Some("600m"))]);
    inputs.history = None;
    let report = inputs.report();
    assert_eq!((report.scale_to, report.history_known), (Some(2), false));
    assert_eq!(
        report.sentence,
        "would scale from 4 to 2: cpu is at 1% of requests, target 66%; minReplicas is 2, metrics \
         ask for 1; the controller last reported ScaleDownStabilized"
    );
    assert_contains(&report, "\nWhat would change it, unless the history prevents it\n");
    let idle = inputs.report_with_doubt(Some("no controller runs".to_owned()));
    assert!(idle.sentence.ends_with("metrics ask for 1; no controller runs"), "{}", idle.sentence);
    assert_contains(&report, "past recommendations are not known");
    assert_contains(&report, "It reports ScaleDownStabilized");
}

#[test]
fn listed_scale_down_is_qualified_if_the_history_is_unknown() {
    let qualified = "\nWhat would change it, unless the history prevents it\n";
    let mut inputs = inputs(json!({}));
    let report = inputs.report();
    assert!(!report.to_string().contains(qualified), "{report}");
    inputs.history = None;
    assert_contains(&inputs.report(), qualified);
    inputs.hpa.spec.behavior =
        serde_json::from_value(json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } }))
            .unwrap();
    let report = inputs.report();
    assert!(!report.to_string().contains(qualified), "{report}");
}

#[test]
fn pods_that_do_not_exist_are_named_if_the_metrics_ask_for_more() {
    let mut inputs = inputs_at(700, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.selected.pods.truncate(2);
    let values: Vec<_> = ["web-0", "web-1"].map(|pod| (pod, 700)).into();
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    inputs.scale = Ok(Scale { spec_replicas: 4, status_replicas: 2, selector: "app=web".into() });
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 116% of requests, target 66%; metrics ask for 4; 2 of 4 pods exist"
    );
    assert_eq!(report.state(State::WaitingForPods), State::WaitingForPods);
    assert_contains(
        &report,
        "The events of the ReplicaSet say why it creates no more: kubectl describe replicasets \
         --selector 'app=web' --namespace shop",
    );
    // The others exist, but don't count.
    inputs.scale = Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() });
    let report = inputs.report();
    assert!(report.sentence.ends_with("; 2 of 4 pods count"), "{}", report.sentence);
}

#[test]
fn other_autoscaler_of_the_same_pods_is_named_first() {
    let mut inputs = inputs(json!({}));
    let names = ["shop/web", "rhpa/shop/sched"].map(str::to_owned);
    inputs.selected.autoscalers = names.into();
    let report = inputs.report();
    assert_eq!(report.sentence, "isn't scaled: rhpa/shop/sched selects the same pods");
    assert_contains(&report, "Merge this one and rhpa/shop/sched into one autoscaler");
    // Seen from the custom API.
    inputs.selected.autoscalers = vec!["rhpa/shop/web".to_owned(), "shop/other".to_owned()];
    assert_eq!(inputs.report().sentence, "isn't scaled: shop/other selects the same pods");
    inputs.selected.autoscalers = vec!["rhpa/shop/web".to_owned(), "shop/web".to_owned()];
    let sentence = inputs.report().sentence;
    assert_eq!(sentence, "isn't scaled: rhpa/shop/web, shop/web select the same pods");
    inputs.selected.own_name = Some("shop/web".to_owned());
    let report = inputs.report();
    assert_eq!(report.sentence, "isn't scaled: rhpa/shop/web selects the same pods");
    assert_contains(&report, "Merge this one and rhpa/shop/web into one");
}

#[test]
fn metric_that_fails_beside_others_is_in_the_sentence() {
    let target = json!({ "type": "Utilization", "averageUtilization": 66 });
    let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    let queue = json!({ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "Value", "value": "5" },
    } });
    let mut inputs = inputs(json!({ "metrics": [cpu, queue] }));
    let error = "the server could not find the metric queue for ";
    inputs.readings.insert(1, Err(ReadError::fetch(MetricsApi::External, error)));
    let decision = inputs.decide();
    let status = decision.conclude(Ok(()), inputs.now).status;
    let mut hpa = inputs.hpa.clone();
    hpa.status = status;
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 71% of requests, target 66%; within tolerance; queue cannot be \
         read: the server could not find the metric queue"
    );
    assert_contains(&report, "\nWhat would change it, by the metrics that were read\n");
    let short = ShortReport::new(&hpa, &inputs.settings);
    assert_eq!(short.state, State::MetricMissing);
}

#[test]
fn unready_pod_whose_sample_counts_is_named() {
    let mut inputs = inputs(json!({}));
    let mut unready = pod("web-3", "Running", Some("600m"));
    unready.ready =
        Some(crate::api::ReadyCondition { status: Some(false), last_transition_time: at(60) });
    inputs.selected.pods[3] = std::sync::Arc::new(unready);
    assert_contains(
        &inputs.report(),
        "    counted (4): web-0, web-1, web-2, web-3; web-3 is not ready, but its sample \
         counts because it was ready before\n",
    );
}

#[test]
fn sentence_mentions_that_no_controller_runs_for_any_decision() {
    let idle = || Some("no controller has renewed the lease shop/hpa for 22s".to_owned());
    let mut inputs = inputs(json!({}));
    let report = inputs.report_with_doubt(idle());
    let end = "; no controller has renewed the lease shop/hpa for 22s";
    let stays = "stays at 4: cpu is at 71% of requests, target 66%; within tolerance";
    assert_eq!(report.sentence, format!("{stays}{end}"));
    assert_eq!(report.state(State::Scaling), State::Steady);
    inputs.scale = Err(ScaleReadError::read("deployments.apps \"web\" not found"));
    let report = inputs.report_with_doubt(idle());
    assert!(report.sentence.starts_with("can't decide: "), "{}", report.sentence);
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_eq!(report.state(State::Steady), State::Failing);
    let inputs = inputs_with_unreadable_metric("True");
    let sentence = inputs.report_with_doubt(idle()).sentence;
    assert!(sentence.starts_with("has ") && sentence.ends_with(end), "{sentence}");
}

/// Four replicas that each use `milli`, with an unknown history.
fn inputs_at(milli: i64, spec: Value, conditions: &[(&str, &str, &str)]) -> Inputs {
    let mut inputs = inputs(spec);
    inputs.readings = [(0, Ok(equal_samples(milli)))].into_iter().collect();
    inputs.history = None;
    let conditions = conditions
        .iter()
        .map(|(kind, status, reason)| json!({ "type": kind, "status": status, "reason": reason }));
    let conditions = conditions.map(|condition| serde_json::from_value(condition).unwrap());
    inputs.hpa.status.conditions = conditions.collect();
    inputs
}

#[rstest]
#[case::down_window(200, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")],
    "would scale from 4 to 2: ", "; a stabilization window of 300s may hold it")]
#[case::up_without_window(900, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")],
    "scales from 4 to 8: ", "metrics ask for 10")]
#[case::up_window(
    900, json!({ "behavior": { "scaleUp": { "stabilizationWindowSeconds": 60 } } }),
    &[("AbleToScale", "True", "ReadyForNewScale")],
    "would scale from 4 to 8: ", "; a stabilization window of 60s may hold it")]
#[case::reported_limit(
    200, json!({}), &[("ScalingLimited", "True", "ScaleDownLimit")],
    "would scale from 4 to 2: ", "; the controller last reported ScaleDownLimit")]
#[case::limit_of_the_other_direction(
    900, json!({}), &[("AbleToScale", "True", "ScaleDownStabilized")],
    "scales from 4 to 8: ", "metrics ask for 10")]
#[case::failing_write(
    900, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")],
    "would scale from 4 to 8: ", "; the controller last reported FailedUpdateScale")]
#[case::failing_write_before_the_window(
    200, json!({}), &[("AbleToScale", "False", "FailedUpdateScale")],
    "would scale from 4 to 2: ", "; the controller last reported FailedUpdateScale")]
#[case::recovered_metric(
    200, json!({}), &[("ScalingActive", "False", "FailedGetResourceMetric")],
    "would scale from 4 to 2: ", "; a stabilization window of 300s may hold it")]
#[case::recovered_scale(
    200, json!({}), &[("AbleToScale", "False", "FailedGetScale")],
    "would scale from 4 to 2: ", "; a stabilization window of 300s may hold it")]
#[case::recovered_metric_without_window(
    900, json!({}), &[("ScalingActive", "False", "FailedGetResourceMetric")],
    "would scale from 4 to 8: ", "; the controller last reported FailedGetResourceMetric")]
#[case::no_controller(
    900, json!({}), &[], "would scale from 4 to 8: ", "; no controller has stored a status")]
fn sentence_is_conditional_if_scaling_may_be_prevented(
    #[case] milli: i64,
    #[case] spec: Value,
    #[case] conditions: &[(&str, &str, &str)],
    #[case] start: &str,
    #[case] end: &str,
) {
    let mut inputs = inputs_at(milli, spec, conditions);
    let report = inputs.report();
    let Report { sentence, doubt, .. } = &report;
    assert!(sentence.starts_with(start) && sentence.ends_with(end), "{sentence}");
    assert_eq!(doubt.is_some(), start.starts_with("would"), "{sentence}");
    let has_failed = |write| {
        conditions.iter().any(|(_, status, reason)| {
            *status == "False" && (*reason == "FailedUpdateScale") == write
        })
    };
    let scales_up = start.ends_with("to 8: ");
    inputs.history = Some(History::default());
    // Stabilization holds a scale-down, as on the controller's first reconcile.
    let is_doubtful = has_failed(false) || has_failed(true) && scales_up;
    assert_eq!(inputs.report().doubt.is_some(), is_doubtful, "the history is known");
}

#[test]
fn recent_scaling_may_be_limited_by_policies() {
    let policies = json!([{ "type": "Pods", "value": 8, "periodSeconds": 60 }]);
    let spec = json!({ "behavior": { "scaleUp": { "policies": policies } } });
    let mut inputs = inputs_at(900, spec, &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.hpa.status.last_scale_time = Some(at(60));
    assert_eq!(inputs.report().doubt, None, "the period has ended");
    inputs.hpa.status.last_scale_time = Some(at(59));
    let doubt = inputs.report().doubt.unwrap();
    assert_eq!(doubt, "it last scaled 59s ago, so policies may hold it");
}

#[test]
fn policy_limit_reports_when_the_next_step_is_allowed() {
    let policies = json!([{ "type": "Pods", "value": 1, "periodSeconds": 60 }]);
    let mut inputs = inputs(json!({ "behavior": { "scaleUp": { "policies": policies } } }));
    inputs.readings =
        [(0, Ok(samples(&[("web-0", 900), ("web-1", 900), ("web-2", 900), ("web-3", 900)])))]
            .into_iter()
            .collect();
    let event = ScaleEvent { change: 1, at: at(20), outdated: false };
    inputs.history = Some(History { scale_ups: vec![event], ..History::default() });
    let report = inputs.report();
    assert_eq!((report.scale_to, report.proposed_replicas), (None, Some(10)));
    let policy = &report.limits.as_ref().unwrap().scale_up.policies[0];
    assert_eq!((policy.replicas_at_start, policy.allowed_replicas), (3, 4));
    assert_eq!(policy.next_change_at, Some(at(-40)));
    let change = &report.changes[0];
    assert_eq!((&change.trigger, change.replicas), (&Trigger::Time { at: at(-40) }, 5));
}

#[test]
fn pods_are_listed_by_class_with_the_reason() {
    let mut inputs = inputs(json!({}));
    let pods = [
        pod("web-0", "Running", Some("600m")),
        pod("web-1", "Pending", Some("600m")),
        pod("web-2", "Running", Some("600m")),
        pod("web-3", "Failed", Some("600m")),
    ];
    inputs.selected = SelectedPods::new(pods);
    inputs.readings = [(0, Ok(samples(&[("web-0", 431), ("job-7", 431)])))].into_iter().collect();
    let report = inputs.report();
    for line in [
        "    counted (1): web-0",
        "    unready (1): web-1 is pending",
        "    missing (1): web-2 has no sample",
        "    ignored (1): web-3 has failed",
        "    not selected, but counted (1): job-7",
    ] {
        assert_contains(&report, line);
    }
    assert_contains(&report, "hold the decision back: web-1, web-2.");
}

/// Four replicas; one pod was started `seconds_ago` and is pending.
fn inputs_with_pending_pod(milli: i64, seconds_ago: i64) -> Inputs {
    let mut inputs = inputs_at(milli, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    let mut pods: Vec<_> = inputs.selected.pods.iter().map(|pod| crate::Pod::clone(pod)).collect();
    pods[3].phase = "Pending".into();
    pods[3].start_time = Some(at(seconds_ago));
    inputs.selected = SelectedPods::new(pods);
    inputs
}

#[test]
fn sentence_has_the_ratio_after_missing_pods_are_counted() {
    // 83 % of the requests are 62 % if the fourth pod counts as 0.
    let report = inputs_with_pending_pod(500, 16).report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 83% of requests, target 66%; 93.9% of the target with 1 unready pod \
         counted as 0; within tolerance"
    );
    // Without a sample, the fourth pod counts with its request.
    let mut inputs = inputs_at(300, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    let values = [("web-0", 300), ("web-1", 300), ("web-2", 300)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    let expected = "cpu is at 50% of requests, target 66%; 93.9% of the target with 1 missing pod \
                    counted at its request; within tolerance";
    assert_eq!(sentence, format!("stays at 4: {expected}"));
}

/// An External metric that can't be read, and the condition `ScalingActive` of the controller.
fn inputs_with_unreadable_metric(scaling_active: &str) -> Inputs {
    let target = json!({ "type": "Value", "value": "5" });
    let source = json!({ "metric": { "name": "queue" }, "target": target });
    let metric = json!({ "type": "External", "external": source });
    let mut inputs = inputs(json!({ "metrics": [metric] }));
    let error =
        ReadError::fetch(MetricsApi::External, "the server could not find the metric queue");
    inputs.readings = [(0, Err(error))].into_iter().collect();
    let current = json!({ "metric": { "name": "queue" }, "current": { "value": "7" } });
    inputs.hpa.status = serde_json::from_value(json!({
        "currentReplicas": 4, "desiredReplicas": 4,
        "currentMetrics": [{ "type": "External", "external": current }],
        "conditions": [{
            "type": "ScalingActive", "status": scaling_active, "reason": "ValidMetricFound",
        }],
    }))
    .unwrap();
    inputs
}

#[test]
fn metric_that_only_the_controller_can_read_is_not_a_failure() {
    let report = inputs_with_unreadable_metric("True").report();
    assert_eq!(
        report.sentence,
        "has 4 replicas, 4 desired: queue is at 7, target 5, as the controller last reported; this \
         can't be read here: the server could not find the metric queue"
    );
    assert_contains(&report, "If it reads a source of its own, use its flags here");
    let alone = inputs_with_unreadable_metric("True").advice_without_own_sources();
    assert!(!alone.is_empty() && alone.values().all(|one| !one.contains("--")), "{alone:?}");
    let text = report.to_string();
    assert!(!text.contains("has no metric") && !text.contains("kubectl get apiservices"), "{text}");
    assert_eq!(report.state(State::Steady), State::Steady);
    let mut inputs = inputs_with_unreadable_metric("True");
    let forbidden = "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource";
    let error = ReadError::fetch(MetricsApi::External, forbidden);
    inputs.readings = [(0, Err(error))].into_iter().collect();
    let report = inputs.report();
    assert_contains(&report, "You may not read queue, as the message says.");
    assert!(!report.to_string().contains("source of its own"), "{report}");
    // The controller can't read the metric either.
    let report = inputs_with_unreadable_metric("False").report();
    assert!(report.sentence.starts_with("stays at 4: queue cannot be read: "));
    assert_contains(&report, "external.metrics.k8s.io has no metric queue");
}

#[test]
fn state_is_that_of_the_decision_and_not_of_the_stored_status() {
    let mut inputs = inputs(json!({}));
    // The stored status, or a rollout, looks like a scaling.
    inputs.scale.as_mut().unwrap().status_replicas = 5;
    let report = inputs.report();
    assert!(report.sentence.starts_with("stays at 4"), "{}", report.sentence);
    assert_eq!(report.state(State::Scaling), State::Steady);
    inputs.scale.as_mut().unwrap().spec_replicas = 2;
    inputs.scale.as_mut().unwrap().status_replicas = 2;
    let values = ["web-0", "web-1"].map(|name| (name, 900));
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let pods: Vec<_> =
        inputs.selected.pods.iter().take(2).map(|pod| crate::Pod::clone(pod)).collect();
    inputs.selected = SelectedPods::new(pods);
    let report = inputs.report();
    assert!(report.sentence.starts_with("scales from 2 to 4"), "{}", report.sentence);
    assert_eq!(report.state(State::Steady), State::Scaling);
}

#[test]
fn sentence_explains_that_unready_pods_reverse_the_direction() {
    let mut inputs = inputs_with_pending_pod(500, 16);
    let mut pods: Vec<_> = inputs.selected.pods.iter().map(|pod| crate::Pod::clone(pod)).collect();
    pods[2].phase = "Pending".into();
    inputs.selected = SelectedPods::new(pods);
    let sentence = inputs.report().sentence;
    let end = "62.1% of the target with 2 unready pods counted as 0; this reverses the direction, \
               so nothing changes";
    assert!(sentence.ends_with(end), "{sentence}");
}

#[test]
fn ages_of_samples_are_printed() {
    let report = inputs(json!({})).report();
    assert_contains(&report, "    samples: 10s old, measured over 30s\n");
    assert_eq!(report.metrics[0].pod_list[0].sampled_at, Some(at(10)));
    let mut inputs = inputs(json!({}));
    let value = crate::MilliValue::from_milli(431);
    let window = jiff::SignedDuration::from_secs(30);
    let sample = |ago| PodSample { value, timestamp: at(ago), window };
    let ages = [("web-0", 10), ("web-1", 400)];
    let samples = ages.map(|(pod, ago)| (pod, sample(ago))).into_iter().collect();
    inputs.readings = [(0, Ok(Reading::Pods(samples)))].into_iter().collect();
    assert_contains(&inputs.report(), "    samples: 10s to 6m old, measured over 30s\n");
}

#[test]
fn daemon_set_has_no_scale() {
    let target = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent" });
    let mut inputs = inputs(json!({ "scaleTargetRef": target }));
    inputs.scale = Err(ScaleReadError::read("the server could not find the requested resource"));
    let report = inputs.report();
    assert!(
        report.sentence.starts_with("can't decide: DaemonSet agent has no scale"),
        "{}",
        report.sentence
    );
    assert_contains(&report, "no autoscaler can scale it. Correct spec.scaleTargetRef");
}

#[test]
fn unreadable_scale_has_no_decision() {
    let mut inputs = inputs(json!({}));
    inputs.scale = Err(ScaleReadError::read("deployments \"web\" not found"));
    let report = inputs.report();
    assert!(report.sentence.starts_with("can't decide: "), "{}", report.sentence);
    assert_eq!((report.desired_replicas, report.scale_to), (None, None));
    assert_contains(&report, "Check that Deployment web exists");
}

#[test]
fn failing_metric_with_an_active_fallback_has_the_state_fallback() {
    let target = json!({ "type": "Value", "value": "300" });
    let source = json!({ "metric": { "name": "queue" }, "target": target });
    let mut inputs = inputs(json!({ "metrics": [{ "type": "External", "external": source }] }));
    let error = ReadError::fetch(MetricsApi::External, "no such server");
    inputs.readings = [(0, Err(error))].into_iter().collect();
    inputs.hpa.status.conditions = vec![
        serde_json::from_value(json!({
            "type": "ExternalMetricFallbackActive", "status": "True", "reason": "FallbackActive",
            "lastTransitionTime": at(60).to_string(),
        }))
        .unwrap(),
    ];
    let fallback = serde_json::from_value(json!({ "replicas": 4 })).unwrap();
    let metric = MetricSettings { fallback: Some(fallback), ..MetricSettings::default() };
    inputs.settings.metrics = Some([metric].into());
    inputs.history = None;
    let by_status = ShortReport::new(&inputs.hpa, &inputs.settings).state;
    let by_decision = inputs.report().state(by_status);
    assert_eq!((by_status, by_decision), (State::Fallback, State::Fallback));
}

#[test]
fn bound_and_pause_are_listed_as_possible_changes() {
    let mut inputs = inputs(json!({ "maxReplicas": 4 }));
    let values = [("web-0", 900), ("web-1", 900), ("web-2", 900), ("web-3", 900)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let report = inputs.report();
    let expected = Change { trigger: Trigger::MaxReplicas { to: 8 }, replicas: 8 };
    assert_eq!(report.changes, [expected]);
    assert_contains(&report, "Raise spec.maxReplicas");
    inputs.hpa.spec.max_replicas = 6;
    inputs.settings.pause = Pause::BOTH;
    let report = inputs.report();
    assert_eq!(report.changes, [Change { trigger: Trigger::Unpause, replicas: 6 }]);
    assert_contains(&report, "Remove the annotation");
    let start = "is paused by annotation and stays at 4: cpu is at 150% of requests, target 66%; ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
}

#[test]
fn end_of_the_pause_is_the_first_change() {
    let mut inputs = inputs(json!({}));
    inputs.settings.pause = Pause::BOTH;
    let report = inputs.report();
    let start =
        "is paused by annotation and stays at 4: cpu is at 71% of requests, target 66%; within";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert_eq!(report.changes[0], Change { trigger: Trigger::Unpause, replicas: 4 });
    assert_contains(
        &report,
        "stays at 4 without the pause, until the metrics ask for other replicas",
    );
    assert_contains(&report, "Remove the annotation");
    inputs.settings.pause = Pause { up: false, down: true };
    let report = inputs.report();
    let start = "is paused for scaling down by annotation and stays at 4: ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
}

#[test]
fn dry_run_would_scale_and_writes_nothing() {
    let mut inputs = inputs(json!({}));
    inputs.hpa.status.conditions.clear();
    inputs.settings.dry_run = true;
    let report = inputs.report();
    let start = "is in dry run by annotation and would stay at 4: cpu is at 71%";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert_eq!(report.state(State::New), State::DryRun);
    let values = [("web-0", 900), ("web-1", 900), ("web-2", 900), ("web-3", 900)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let report = inputs.report();
    let start = "is in dry run by annotation and would scale from 4 to 8: cpu is at 150%";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert!(report.sentence.ends_with("; nothing is written"), "{}", report.sentence);
    assert_contains(&report, "Remove the annotation autoscaling.hpa-rs.dev/dry-run");
    assert!(!report.to_string().contains("No controller"), "{report}");
}

#[test]
fn dry_run_and_pause_leave_the_doubt_about_an_unknown_history() {
    let conditions = [("AbleToScale", "True", "ReadyForNewScale")];
    let mut inputs = inputs_at(200, json!({}), &conditions);
    inputs.settings.dry_run = true;
    let sentence = inputs.report().sentence;
    let end = "; a stabilization window of 300s may hold it; nothing is written";
    assert!(sentence.ends_with(end), "{sentence}");
    let idle = inputs.report_with_doubt(Some("no controller runs".to_owned()));
    let end = "; no controller runs; nothing is written";
    assert!(idle.sentence.ends_with(end), "{}", idle.sentence);
    inputs.settings.dry_run = false;
    inputs.settings.pause = Pause::BOTH;
    let sentence = inputs.report().sentence;
    let end = "; without the pause, it would scale to 2, unless stabilization or a policy holds it";
    assert!(sentence.ends_with(end), "{sentence}");
    inputs.history = Some(History::default());
    let sentence = inputs.report().sentence;
    assert!(sentence.contains("; stabilization holds 4 until "), "{sentence}");
    assert!(!sentence.contains("unless"), "{sentence}");
}

#[rstest]
#[case::above_a_whole_number(300_250, "300", "scales to 5 when queue rises above 330; now 300.25")]
#[case::from_zero_replicas(0, "300", "rises above 0; now 0")]
fn thresholds_are_printed_as_quantities(
    #[case] milli: i64,
    #[case] target: &str,
    #[case] expected: &str,
) {
    let target = json!({ "type": "Value", "value": target });
    let source = json!({ "metric": { "name": "queue" }, "target": target });
    let metric = json!({ "type": "External", "external": source });
    let mut inputs = inputs(json!({ "metrics": [metric], "minReplicas": 0 }));
    let reading = Reading::External(vec![crate::MilliValue::from_milli(milli)].into());
    inputs.readings = [(0, Ok(reading))].into_iter().collect();
    if milli == 0 {
        inputs.scale.as_mut().unwrap().spec_replicas = 0;
        inputs.hpa.status.conditions = vec![
            serde_json::from_value(json!({
                "type": "ScaledToZero", "status": "True", "reason": "ScaledToZero",
            }))
            .unwrap(),
        ];
    }
    assert_contains(&inputs.report(), expected);
}

#[test]
fn report_serializes_numbers_with_units() {
    let json = serde_json::to_value(inputs(json!({})).report()).unwrap();
    assert_eq!(json["metrics"][0]["usageMilli"], 431);
    assert_eq!(json["metrics"][0]["podList"][0]["requestMilli"], 600);
    assert_eq!(json["changes"][0]["change"], "metric");
    assert_eq!(json["changes"][0]["valueMilli"], 438);
}

#[test]
fn lines_are_those_of_the_printed_report() {
    let report = inputs(json!({ "maxReplicas": 4 })).report();
    let (text, lines) = (report.to_string(), report.lines());
    assert_eq!((lines.metrics.len(), lines.changes.len()), (1, report.changes.len()));
    assert!(lines.limits[0].starts_with("largest proposal: "), "{lines:?}");
    for line in lines.metrics.iter().chain(&lines.limits).chain(&lines.changes) {
        assert!(text.contains(line.as_str()), "{line:?} is not in:\n{text}");
    }
}
