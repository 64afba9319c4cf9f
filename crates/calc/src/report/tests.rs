mod advice;
mod limits;
mod one_name;
mod pause;
mod pods;
mod remarks;
mod reported;
mod short;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::Scale,
    history::{Direction, History, Recommendation},
    pause::Pause,
    plan::{ScaleReadError, SelectedPods},
    readings::{MetricsApi, PodSample, ReadError, Reading, Readings},
    settings::{MetricSettings, SettingPolicy, Settings},
};

const NOW: i64 = 10_000;

impl Inputs {
    fn report_with_doubt(&self, doubt: Option<String>) -> Report {
        self.report_with_advice(doubt, &BTreeMap::new())
    }
}

fn seconds_ago(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW - seconds).unwrap()
}

fn pod(name: &str, phase: &str, request: Option<&str>) -> crate::Pod {
    let requests = request.map(|request| json!({ "requests": { "cpu": request } }));
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "app", "resources": requests }] },
        "status": {
            "phase": phase,
            "startTime": seconds_ago(900).to_string(),
            "conditions": [{
                "type": "Ready",
                "status": "True",
                "lastTransitionTime": seconds_ago(800).to_string(),
            }],
        },
    }))
    .unwrap()
}

fn samples(values: &[(&str, i64)]) -> Reading {
    let sample = |milli| PodSample {
        value: crate::MilliValue::from_milli(milli),
        timestamp: seconds_ago(10),
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
        now: seconds_ago(0),
    }
}

/// Four replicas that each use `milli`, with an unknown history.
fn inputs_at(milli: i64, spec: Value, conditions: &[(&str, &str, &str)]) -> Inputs {
    let mut inputs = inputs(spec);
    inputs.readings = [(0, Ok(equal_samples(milli)))].into_iter().collect();
    inputs.history = None;
    inputs.hpa.status.conditions = conditions_of(conditions);
    inputs
}

/// The conditions with these types, statuses and reasons.
fn conditions_of(conditions: &[(&str, &str, &str)]) -> Vec<Condition> {
    let conditions = conditions
        .iter()
        .map(|(kind, status, reason)| json!({ "type": kind, "status": status, "reason": reason }));
    conditions.map(|condition| serde_json::from_value(condition).unwrap()).collect()
}

fn scaling_inactive(reason: &str, message: &str) -> Condition {
    let condition =
        json!({ "type": "ScalingActive", "status": "False", "reason": reason, "message": message });
    serde_json::from_value(condition).unwrap()
}

/// Four replicas; one pod was started `started_ago` seconds ago and is pending.
fn inputs_with_pending_pod(milli: i64, started_ago: i64) -> Inputs {
    let mut inputs = inputs_at(milli, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    let pod = pod_mut(&mut inputs, 3);
    (pod.phase, pod.start_time) = ("Pending".into(), Some(seconds_ago(started_ago)));
    inputs
}

fn pods_mut(inputs: &mut Inputs) -> impl Iterator<Item = &mut crate::Pod> {
    inputs.selected.pods.iter_mut().map(std::sync::Arc::make_mut)
}

fn pod_mut(inputs: &mut Inputs, index: usize) -> &mut crate::Pod {
    std::sync::Arc::make_mut(&mut inputs.selected.pods[index])
}

/// An External metric.
fn external(name: &str, target: &Value) -> Value {
    json!({ "type": "External", "external": { "metric": { "name": name }, "target": target } })
}

/// A Pods metric.
fn rps_spec() -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "10" });
    json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": target } })
}

/// Replaces the metrics by this one.
fn set_metric(inputs: &mut Inputs, spec: Value) {
    inputs.hpa.spec.metrics = vec![serde_json::from_value(spec).unwrap()];
}

/// The failure of the only metric.
fn failed_reading(api: MetricsApi, error: impl std::fmt::Display) -> Readings {
    [(0, Err(ReadError::fetch(api, error)))].into_iter().collect()
}

/// A history with one recommendation.
fn history_with(replicas: i32, ago: i64) -> History {
    let recommendation = Recommendation { replicas, at: seconds_ago(ago) };
    History { recommendations: vec![recommendation], ..History::default() }
}

/// Applies the annotations and fields of the autoscaler.
fn resolve_settings(inputs: &mut Inputs) {
    let policy = SettingPolicy::default();
    inputs.settings = inputs.settings.for_autoscaler(&inputs.hpa, &policy).settings;
}

fn built_in_settings(hpa: &HorizontalPodAutoscaler) -> Settings {
    Settings::default().for_kube_controller_manager(hpa, &SettingPolicy::default())
}

/// An External metric that can't be read, and the condition `ScalingActive` of the controller.
fn inputs_with_unreadable_metric(scaling_active: &str) -> Inputs {
    let queue = external("queue", &json!({ "type": "Value", "value": "5" }));
    let mut inputs = inputs(json!({ "metrics": [queue] }));
    inputs.readings =
        failed_reading(MetricsApi::External, "the server could not find the metric queue");
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
    set_metric(&mut inputs, spec);
    let report = inputs.report();
    assert_contains(&report, "* cpu of container memory-store: 431m, target 400m; ");
}

#[test]
fn metric_that_fails_beside_others_is_in_the_sentence() {
    let target = json!({ "type": "Utilization", "averageUtilization": 66 });
    let cpu = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    let queue = external("queue", &json!({ "type": "Value", "value": "5" }));
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
    assert_contains(&report, "\nWhat would change it according to the metrics that were read\n");
    let short = ShortReport::new(&hpa, &inputs.settings);
    assert_eq!(short.state, State::MetricMissing);
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
    inputs.selected.pods.truncate(2);
    let report = inputs.report();
    assert!(report.sentence.starts_with("scales from 2 to 4"), "{}", report.sentence);
    assert_eq!(report.state(State::Steady), State::Scaling);
}

#[test]
fn ages_of_samples_are_printed() {
    let report = inputs(json!({})).report();
    assert_contains(&report, "    samples: 10s old, measured over 30s\n");
    assert_eq!(report.metrics[0].pod_list[0].sampled_at, Some(seconds_ago(10)));
    let mut inputs = inputs(json!({}));
    let value = crate::MilliValue::from_milli(431);
    let window = jiff::SignedDuration::from_secs(30);
    let sample = |ago| PodSample { value, timestamp: seconds_ago(ago), window };
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
    let queue = external("queue", &json!({ "type": "Value", "value": "300" }));
    let mut inputs = inputs(json!({ "metrics": [queue] }));
    inputs.readings = failed_reading(MetricsApi::External, "no such server");
    inputs.hpa.status.conditions = vec![
        serde_json::from_value(json!({
            "type": "ExternalMetricFallbackActive", "status": "True", "reason": "FallbackActive",
            "lastTransitionTime": seconds_ago(60).to_string(),
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

#[rstest]
#[case::above_a_whole_number(300_250, "300", "scales to 5 when queue rises above 330; now 300.25")]
#[case::from_zero_replicas(0, "300", "rises above 0; now 0")]
fn thresholds_are_printed_as_quantities(
    #[case] milli: i64,
    #[case] target: &str,
    #[case] expected: &str,
) {
    let queue = external("queue", &json!({ "type": "Value", "value": target }));
    let mut inputs = inputs(json!({ "metrics": [queue], "minReplicas": 0 }));
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

#[test]
fn changes_of_metrics_are_limited_to_the_first_ten() {
    let target = json!({ "type": "Utilization", "averageUtilization": 66 });
    let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    let mut inputs = inputs(json!({ "metrics": vec![metric; 12] }));
    inputs.readings = (0..12).map(|index| (index, Ok(equal_samples(431)))).collect();
    let report = inputs.report();
    let changed = report.changes.iter().filter_map(|change| match change.trigger {
        Trigger::Metric { metric, .. } => Some(metric),
        _ => None,
    });
    assert_eq!(changed.max(), Some(9), "{report}");
}
