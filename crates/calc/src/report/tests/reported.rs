//! Reports on metrics that can't be read here, with the controller's status about them.

use rstest::rstest;
use serde_json::json;

use super::*;

const NOT_FOUND: &str =
    "the server could not find the requested resource (get pods.metrics.k8s.io)";
const QUEUE_NOT_FOUND: &str = "unable to get external metric shop/queue/nil: unable to fetch \
                               metrics from external metrics API: the server could not find the \
                               metric queue";
const FAILED: &str = "the HPA was unable to compute the replica count: failed to get cpu \
                      utilization: ";

/// Inputs whose CPU can't be read here, and the controller's `ScalingActive=False`.
fn failing_inputs(error: &str, message: &str) -> Inputs {
    let mut inputs = inputs(json!({}));
    inputs.readings = failed_reading(MetricsApi::Resource, error);
    let condition = scaling_inactive("FailedGetResourceMetric", &format!("{FAILED}{message}"));
    inputs.hpa.status.conditions = vec![condition];
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
    let text = report.to_string();
    assert!(!text.contains("has no metric") && !text.contains("kubectl get apiservices"), "{text}");
    assert_eq!(report.state(State::Steady), State::Steady);
    let mut inputs = inputs_with_unreadable_metric("True");
    let forbidden = "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource";
    inputs.readings = failed_reading(MetricsApi::External, forbidden);
    let report = inputs.report();
    assert_contains(&report, "You may not read queue, as the message says.");
    assert!(!report.to_string().contains("source of its own"), "{report}");
    // The controller can't read the metric either.
    let report = inputs_with_unreadable_metric("False").report();
    assert!(report.sentence.starts_with("stays at 4: queue cannot be read: "));
    assert_contains(&report, "external.metrics.k8s.io has no metric queue");
}

#[test]
fn silent_status_makes_the_decision_doubtful() {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.hpa.status.current_metrics.clear();
    let rescaled = conditions_of(&[("AbleToScale", "True", "SucceededRescale")]);
    inputs.hpa.status.conditions.extend(rescaled);
    assert_eq!(
        inputs.report().sentence,
        "would stay at 4: queue cannot be read here: the server could not find the metric queue; \
         the controller last reported SucceededRescale, and neither a value nor a failure of a \
         metric"
    );
    assert_eq!(inputs.metrics_of_controller_sources(), [0]);
    let advice = "The controller reports no failure of queue. If it reads a source of its own, use \
                  its flags here";
    assert_contains(&inputs.report(), advice);
    assert!(!inputs.report().to_string().contains("Check the names"), "{}", inputs.report());
    // kube-controller-manager has no other source, so the error is its own.
    inputs.settings = built_in_settings(&inputs.hpa);
    let sentence = inputs.report().sentence;
    let expected = "stays at 4: queue cannot be read: the server could not find the metric queue";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(!sentence.contains("neither"), "{sentence}");
    assert_contains(&inputs.report(), "external.metrics.k8s.io has no metric queue");
}

#[rstest]
#[case::no_status(vec![])]
#[case::old_failure(vec![scaling_inactive("FailedGetExternalMetric", QUEUE_NOT_FOUND)])]
#[case::other_failure(vec![scaling_inactive("InvalidSelector", "the selector is invalid")])]
fn name_of_a_metric_that_the_controller_has_just_read_is_not_doubted(
    #[case] conditions: Vec<Condition>,
) {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.hpa.status.current_metrics.clear();
    inputs.hpa.status.conditions = conditions;
    let doubt = "external.metrics.k8s.io has no metric queue";
    assert_contains(&inputs.report(), doubt);
    inputs.readings.set_controller_errors(vec![None]);
    assert_eq!(inputs.metrics_of_controller_sources(), [0]);
    assert_contains(&inputs.report(), "The controller reports no failure of queue. If it reads a");
    assert!(!inputs.report().to_string().contains(doubt), "{}", inputs.report());
}

#[rstest]
#[case::none(&[("AbleToScale", "True", "ReadyForNewScale")], "")]
#[case::window(
    &[("AbleToScale", "True", "ScaleDownStabilized")],
    "; the controller last reported ScaleDownStabilized"
)]
#[case::window_and_bound(
    &[
        ("AbleToScale", "True", "ScaleDownStabilized"),
        ("ScalingLimited", "True", "TooManyReplicas"),
    ],
    "; the controller last reported ScaleDownStabilized and TooManyReplicas"
)]
#[case::former_bound(&[("ScalingLimited", "False", "TooManyReplicas")], "")]
#[case::failed_write_at_a_bound(
    &[
        ("AbleToScale", "False", "FailedUpdateScale"),
        ("ScalingLimited", "True", "TooFewReplicas"),
    ],
    "; the controller last reported FailedUpdateScale; the controller last reported TooFewReplicas"
)]
#[case::failed_read(
    &[("AbleToScale", "False", "FailedGetScale")],
    "; the controller last reported FailedGetScale"
)]
fn reported_conditions_follow_the_values_that_cannot_be_read_here(
    #[case] conditions: &[(&str, &str, &str)],
    #[case] end: &str,
) {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.hpa.status.conditions.extend(conditions_of(conditions));
    let sentence = inputs.report().sentence;
    assert!(sentence.ends_with(&format!("find the metric queue{end}")), "{sentence}");
}

#[test]
fn error_here_is_newer_than_the_status_of_kube_controller_manager() {
    let mut inputs = inputs_with_unreadable_metric("True");
    let settings = built_in_settings(&inputs.hpa);
    inputs.settings = settings.clone();
    let report = inputs.report();
    let start = "stays at 4: queue cannot be read: the server";
    assert!(report.sentence.starts_with(start), "{report}");
    assert!(!report.to_string().contains("use its flags"), "{report}");
    inputs.settings = settings.with_unknown_controller();
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("has 4 replicas, 4 desired: queue is at 7"), "{sentence}");
    let mut inputs = failing_inputs(NOT_FOUND, "no metrics returned from resource metrics API");
    inputs.settings = built_in_settings(&inputs.hpa);
    let report = inputs.report();
    assert_eq!(report.sentence, format!("stays at 4: cpu cannot be read: {NOT_FOUND}"));
    assert!(!report.to_string().contains("use its flags"), "{report}");
}

/// `queue`, of which the status has a value, and `rps`, of which it has none. Neither can be read
/// here.
fn inputs_with_partial_failure() -> Inputs {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.hpa.spec.metrics.push(serde_json::from_value(rps_spec()).unwrap());
    let no_api = ReadError::fetch(MetricsApi::Custom, error_texts::NO_CUSTOM_API);
    inputs.readings.insert(1, Err(no_api));
    inputs
}

#[test]
fn metric_without_a_value_in_the_status_is_named_beside_one_with_a_value() {
    let report = inputs_with_partial_failure().report();
    let sentence = &report.sentence;
    assert!(sentence.starts_with("has 4 replicas, 4 desired: queue is at 7"), "{sentence}");
    assert!(sentence.ends_with("; no value of rps"), "{sentence}");
    assert!(!report.to_string().contains("install"), "{report}");
}

#[test]
fn cause_of_the_controller_itself_precedes_the_error_of_reading_here() {
    let cause = "no metrics returned from custom metrics API";
    let mut inputs = inputs_with_partial_failure();
    inputs.readings.set_controller_errors(vec![None, Some(cause.to_owned())]);
    let end = format!(
        "; rps cannot be read: {cause}, as the controller last reported; this can't be read here: \
         {}",
        error_texts::NO_CUSTOM_API
    );
    let report = inputs.report();
    assert!(report.sentence.ends_with(&end), "{}", report.sentence);
    assert_contains(&report, "that the controller's source has these metrics");
    assert_contains(&report, "If the controller is hpa run with a source of its own, use its");
    assert!(!report.to_string().contains("install"), "{report}");
    // The debug API also has the value of the other metric.
    let queue = Reading::External(vec![crate::MilliValue::from_units(5)].into());
    inputs.readings.insert(0, Ok(queue));
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("stays at 4: queue is at 5, target 5"), "{sentence}");
    assert!(sentence.ends_with(&end), "{sentence}");
}

#[rstest]
#[case::missing_request(
    "missing request for cpu in container app of Pod web-0",
    "missing request for cpu in container app of Pod web-0",
    "Set the request in every container"
)]
#[case::prometheus(
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: \
     unable to fetch metrics: the request to Prometheus at http://p:9090 failed: refused",
    "unable to fetch metrics: the request to Prometheus at http://p:9090 failed: refused",
    "Check that Prometheus runs"
)]
#[case::late(
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: \
     unable to fetch metrics: no response from Prometheus at http://p:9090 within 5 s",
    "unable to fetch metrics: no response from Prometheus at http://p:9090 within 5 s",
    "Prometheus doesn't respond in time"
)]
#[case::credentials(
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: \
     unable to fetch metrics: Prometheus at http://p:9090: unknown response code 401: check the \
     credentials",
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 401: check the \
     credentials",
    "but refuses the credentials of the request. Check --prometheus-token-file"
)]
#[case::other_server(
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: \
     unable to fetch metrics: Prometheus at http://p:9090: unknown response code 404: check the \
     path of the URL",
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 404: check the \
     path of the URL",
    "Check the controller's --prometheus-url with its path, or servers in the rules file"
)]
#[case::refused_query(
    "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: \
     unable to fetch metrics: bad_data: parse error",
    "unable to fetch metrics: bad_data: parse error",
    "The server answers, but refuses the query of cpu"
)]
#[case::unknown_kind(
    "unable to fetch metrics from custom metrics API: unable to map kind Kafka.strimzi.io to \
     resource: no matches for kind \"Kafka\" in group \"strimzi.io\"",
    "unable to map kind Kafka.strimzi.io to resource: no matches for kind \"Kafka\" in group \
     \"strimzi.io\"",
    "Correct apiVersion and kind in spec.metrics[0].object.describedObject"
)]
#[case::container(
    "container web not found in Pod web-0",
    "container web not found in Pod web-0",
    "Correct the name of the container"
)]
fn reported_cause_precedes_the_error_of_reading_here(
    #[case] message: &str,
    #[case] cause: &str,
    #[case] advice: &str,
) {
    let report = failing_inputs(NOT_FOUND, message).report();
    let expected = format!(
        "stays at 4: cpu cannot be read: {cause}, as the controller last reported; this can't be \
         read here: {NOT_FOUND}"
    );
    assert_eq!(report.sentence, expected);
    assert_contains(&report, advice);
    assert_contains(&report, "use its flags: --metrics-config");
    assert!(!report.to_string().contains("metrics-server"), "{report}");
    assert_eq!(report.state(State::Failing), State::Failing);
}

#[test]
fn failure_of_a_collector_names_the_annotations_and_the_event() {
    let message = "unable to fetch metrics from external metrics API: unable to fetch metrics: the \
                   request to http://queues failed: unable to resolve queues";
    let mut inputs = failing_inputs(NOT_FOUND, message);
    assert_contains(&inputs.report(), "use its flags: --metrics-config");
    let key = "metric-config.external.mails.json-path/endpoint";
    inputs.hpa.metadata.annotations.insert(key.into(), "http://queues".into());
    let report = inputs.report();
    assert_contains(
        &report,
        "annotations metric-config.*, check the server in the message and these",
    );
    assert_contains(&report, "reason=CreateNewMetricsCollector,involvedObject.name=web");
    let not_found = message.replace("unable to resolve queues", "unsuccessful response: 404 Not");
    let mut inputs = failing_inputs(NOT_FOUND, &not_found);
    inputs.hpa.metadata.annotations.insert(key.into(), "http://queues".into());
    assert_contains(&inputs.report(), "these annotations: the server answers that it doesn't have");
    for (cause, check) in [
        ("the path selects nothing", "check these annotations: the server answers, but its"),
        ("several values, but no aggregator", "the setting aggregator (avg, min, max or sum)"),
        ("the query has a syntax error at byte 9: end", "check these annotations: the query has a"),
        ("Ingress shop/shop2 not found", "check these annotations, as the message says"),
        (
            "the request to http://queues failed: unsuccessful response: 422 Unprocessable Entity",
            "check these annotations: the server answers, but rejects the request",
        ),
        (
            "the response can't be read as JSON: unexpected character at byte 0",
            "the server answers, but not with JSON",
        ),
        (
            "query 'a' did not result a valid response: the sample is not a number (NaN)",
            "The query in the message returns NaN for cpu: a sample",
        ),
    ] {
        let message = format!(
            "unable to fetch metrics from external metrics API: unable to fetch metrics: {cause}"
        );
        let mut inputs = failing_inputs(NOT_FOUND, &message);
        inputs.hpa.metadata.annotations.insert(key.into(), "http://queues".into());
        assert_contains(&inputs.report(), check);
    }
}

#[rstest]
#[case::same(NOT_FOUND)]
#[case::other_failure_of_the_api(
    "the server is currently unable to handle the request (get pods.metrics.k8s.io)"
)]
#[case::unavailable_when_it_was_discovered(error_texts::NO_KNOWN_VERSION)]
fn reported_failure_of_the_same_api_is_not_repeated(#[case] message: &str) {
    let report = failing_inputs(NOT_FOUND, message).report();
    assert_eq!(report.sentence, format!("stays at 4: cpu cannot be read: {NOT_FOUND}"));
    assert_contains(&report, "No server is registered for metrics.k8s.io: install metrics-server");
}

#[rstest]
#[case::other_port(
    "Internal error occurred: read tcp 10.0.0.1:34512->10.0.0.7:443: i/o timeout",
    "Internal error occurred: read tcp 10.0.0.1:40118->10.0.0.7:443: i/o timeout",
    "metrics.k8s.io answers with an error: see the log of the service behind it"
)]
#[case::other_connection(
    "Internal error occurred: read tcp 10.0.0.1:34512->10.0.0.7:443: i/o timeout",
    "Internal error occurred: error dialing backend: dial tcp 10.0.0.9:443: connection refused",
    "metrics.k8s.io answers with an error: see the log of the service behind it"
)]
#[case::other_time(
    "scrape of 12:00:01 failed",
    "scrape of 11:59:46 failed",
    "Check that metrics.k8s.io works: kubectl get apiservices"
)]
fn failure_of_the_api_with_another_address_or_time_has_the_advice_of_the_api(
    #[case] here: &str,
    #[case] there: &str,
    #[case] advice: &str,
) {
    let report = failing_inputs(here, there).report();
    assert_eq!(report.sentence, format!("stays at 4: cpu cannot be read: {here}"));
    assert_contains(&report, advice);
    assert!(!report.to_string().contains("use its flags"), "{report}");
}

#[test]
fn failure_of_the_api_is_reported_if_the_reader_may_not_read_it() {
    let forbidden = "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource";
    let report = failing_inputs(forbidden, NOT_FOUND).report();
    let start = format!("stays at 4: cpu cannot be read: {NOT_FOUND}, as the ");
    assert!(report.sentence.starts_with(&start), "{report}");
    assert_contains(&report, "You may not read the metrics here.");
    let report = failing_inputs(forbidden, "Internal error occurred: down").report();
    assert_contains(&report, "metrics.k8s.io answers with an error: see the log");
    let forbidden =
        |user: &str| format!("pods.metrics.k8s.io is forbidden: User \"{user}\" cannot list");
    let report = failing_inputs(&forbidden("a1"), &forbidden("a2")).report();
    assert!(report.sentence.contains("User \"a2\""), "{}", report.sentence);
}

#[test]
fn advice_of_the_caller_about_an_api_stays_if_the_controller_reported_another_error() {
    let late = "context deadline exceeded: no response within 10s (get pods.metrics.k8s.io)";
    let inputs = failing_inputs(late, "failed listing pods: unable to fetch metrics");
    let known = "Read the log of its server: kubectl logs -n m service/adapter".to_owned();
    let advice = inputs.report_with_advice(None, &BTreeMap::from([(0, known.clone())])).advice;
    assert_eq!(advice[0], known, "{advice:?}");
}

#[test]
fn reported_absence_of_an_api_has_advice_for_its_metrics() {
    let here = "the files have no PodMetrics";
    let advice = |message: &str| {
        let mut inputs = failing_inputs(here, message);
        let mut memory = inputs.hpa.spec.metrics[0].clone();
        memory.resource.as_mut().unwrap().name = "memory".to_owned();
        inputs.hpa.spec.metrics.extend([memory, serde_json::from_value(rps_spec()).unwrap()]);
        inputs.advice_about_unserved_api()
    };
    let unserved = advice(NOT_FOUND);
    assert_eq!(unserved.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert_contains(&failing_inputs(here, NOT_FOUND).report(), &unserved[&0]);
    let start = "No server is registered for metrics.k8s.io: install metrics-server";
    assert!(unserved.values().all(|one| one.starts_with(start)), "{unserved:?}");
    assert_eq!(advice("missing request for cpu in container app of Pod web-0"), BTreeMap::new());
    let absent = format!("no rule has it{}: {NOT_FOUND}", error_texts::ALSO_NOT_BY_API);
    assert_eq!(advice(&absent), BTreeMap::new());
}

/// CPU, and a Pods metric `rps` that a rule of the controller has, but that can't be read here.
fn inputs_with_rule(cpu: Result<Reading, ReadError>, condition: Condition, rps: &Value) -> Inputs {
    let mut inputs = failing_inputs(NOT_FOUND, NOT_FOUND);
    inputs.hpa.spec.metrics.push(serde_json::from_value(rps_spec()).unwrap());
    let no_api = ReadError::fetch(MetricsApi::Custom, error_texts::NO_CUSTOM_API);
    inputs.readings = [(0, cpu), (1, Err(no_api))].into_iter().collect();
    inputs.hpa.status.conditions = vec![condition];
    inputs.hpa.status.current_metrics = serde_json::from_value(json!([{}, rps])).unwrap();
    inputs.hpa.status.current_replicas = 4;
    inputs
}

/// The controller's condition if a rule could not return `rps`.
fn rps_failure(cause: &str) -> Condition {
    let message = format!(
        "the HPA was unable to compute the replica count: unable to get metric rps: unable to \
         fetch metrics from custom metrics API: {cause}"
    );
    scaling_inactive("FailedGetPodsMetric", &message)
}

#[test]
fn failure_of_one_metric_by_its_api_does_not_blame_the_api_for_another() {
    let cpu = Err(ReadError::fetch(MetricsApi::Resource, NOT_FOUND));
    let rps = json!({ "type": "Pods", "pods": {
        "metric": { "name": "rps" }, "current": { "averageValue": "7" },
    } });
    let message = format!("{FAILED}{NOT_FOUND}");
    let failed = scaling_inactive("FailedGetResourceMetric", &message);
    let report = inputs_with_rule(cpu, failed, &rps).report();
    let expected = format!(
        "stays at 4: cpu cannot be read: {NOT_FOUND}; rps is at 7 per pod, target 10, as the \
         controller last reported; this can't be read here: {}",
        error_texts::NO_CUSTOM_API
    );
    assert_eq!(report.sentence, format!("{expected}; {}", report.doubt.as_ref().unwrap()));
    assert_contains(&report, "No server is registered for metrics.k8s.io");
    assert_contains(&report, "The controller had a value of rps in its last status.");
    assert!(!report.to_string().contains("No server is registered for custom"), "{report}");
}

#[test]
fn rule_without_series_is_named_before_the_api() {
    let cpu = Ok(equal_samples(431));
    let cause = |name: &str| {
        format!(
            "no collector reads {name}, and rules[0] of --metrics-config describes {name}, but \
             found no series now{}: {}",
            error_texts::ALSO_NOT_BY_API,
            error_texts::NO_CUSTOM_API
        )
    };
    let report = inputs_with_rule(cpu, rps_failure(&cause("rps")), &json!({})).report();
    let end = "as the controller last reported; this can't be read here";
    let expected = format!("rps cannot be read: {}, {end}", cause("it"));
    assert!(report.sentence.ends_with(&expected), "{}", report.sentence);
    assert_contains(&report, "hpa rules explain custom pods/rps --namespace shop --config FILE");
    assert_contains(&report, "use its flags: --metrics-config");
    assert!(!report.to_string().contains("install"), "{report}");
}

#[test]
fn advice_of_the_caller_about_annotations_replaces_that_about_an_absent_collector() {
    let mut inputs = inputs_with_unreadable_metric("False");
    let message = format!(
        "the HPA was unable to compute the replica count: unable to get external metric \
         shop/queue/nil: unable to fetch metrics from external metrics API: no collector reads \
         queue{}: {NOT_FOUND}",
        error_texts::ALSO_NOT_BY_API
    );
    inputs.hpa.status.conditions = vec![scaling_inactive("FailedGetExternalMetric", &message)];
    let known = BTreeMap::from([(0, "Correct the annotations.".to_owned())]);
    let advice = inputs.report_with_advice(None, &known).advice;
    assert!(advice[0].starts_with("Check the name in spec.metrics[0]"), "{advice:?}");
    let key = "metric-config.external.queue.json-path/interval";
    inputs.hpa.metadata.annotations.insert(key.into(), "soon".into());
    assert_eq!(inputs.report_with_advice(None, &known).advice, ["Correct the annotations."]);
    // The controller has no collectors.
    let active = &mut inputs.hpa.status.conditions[0];
    let without_collectors = "no rule of --metrics-config has queue";
    active.message = active.message.replace("no collector reads queue", without_collectors).into();
    assert_eq!(inputs.report_with_advice(None, &known).advice, ["Correct the annotations."]);
    let cause = reported_absence(&inputs.hpa, 0).expect("the cause");
    assert!(cause.starts_with(without_collectors), "{cause}");
    assert_eq!(reported_absence(&inputs.hpa, 1), None);
}

#[test]
fn metric_in_the_url_of_a_cause_is_not_the_one_that_failed() {
    let mut inputs = inputs_with_unreadable_metric("False");
    let jobs = external("jobs", &json!({ "type": "Value", "value": "5" }));
    inputs.hpa.spec.metrics.push(serde_json::from_value(jobs).unwrap());
    let not_found = |name: &str| {
        let error = format!("the server could not find the metric {name}");
        Err(ReadError::fetch(MetricsApi::External, error))
    };
    let queue = Ok(Reading::External(vec![crate::MilliValue::from_units(7)].into()));
    inputs.readings = [(0, queue), (1, not_found("jobs"))].into_iter().collect();
    let cause = "unable to fetch metrics: the request to http://127.0.0.1:25244/queue failed: \
                 127.0.0.1 is a loopback address (--collector-address permits it)";
    let message = format!(
        "the HPA was unable to compute the replica count: unable to get external metric \
         shop/jobs/nil: unable to fetch metrics from external metrics API: {cause}"
    );
    inputs.hpa.status.conditions = vec![scaling_inactive("FailedGetExternalMetric", &message)];
    let report = inputs.report();
    let expected = format!("jobs cannot be read: {cause}, as the controller last reported");
    assert!(report.sentence.contains(&expected), "{}", report.sentence);
    assert_contains(&report, "run the controller with --collector-address and that address");
}

#[test]
fn cause_of_a_rule_for_one_metric_does_not_blame_an_api_for_another() {
    let cpu = Err(ReadError::fetch(MetricsApi::Resource, NOT_FOUND));
    let refused = "unable to fetch metrics: the request to Prometheus at p failed: refused";
    let report = inputs_with_rule(cpu, rps_failure(refused), &json!({})).report();
    let expected = format!(
        "stays at 4: rps cannot be read: {refused}, as the controller last reported; this can't be \
         read here: {}; cpu cannot be read here: {NOT_FOUND}",
        error_texts::NO_CUSTOM_API
    );
    assert_eq!(report.sentence, expected);
    assert_contains(&report, "Check that Prometheus runs");
    assert!(!report.to_string().contains("install"), "{report}");
}

#[test]
fn name_of_a_metric_is_not_doubted_while_the_source_of_the_controller_fails() {
    let refused = "unable to fetch metrics: the request to Prometheus at p failed: refused";
    let inputs_after = |cause: &str| {
        let mut inputs = inputs_with_rule(Ok(equal_samples(431)), rps_failure(cause), &json!({}));
        let lag = external("lag", &json!({ "type": "Value", "value": "5" }));
        inputs.hpa.spec.metrics.push(serde_json::from_value(lag).unwrap());
        let absent = format!("{} lag for", error_texts::UNKNOWN_METRIC);
        inputs.readings.insert(2, Err(ReadError::fetch(MetricsApi::External, absent)));
        inputs
    };
    let inputs = inputs_after(refused);
    let report = inputs.report();
    assert_contains(&report, "Check that Prometheus runs");
    assert_contains(
        &report,
        "Whether the controller's source has lag is unknown, because that source can't be read.",
    );
    assert!(!report.to_string().contains("has no metric lag"), "{report}");
    assert_eq!(inputs.metrics_of_controller_sources(), [2]);
    // The source answers.
    let inputs = inputs_after("no value: the query sum(rps) has no result");
    assert_contains(&inputs.report(), "external.metrics.k8s.io has no metric lag");
    assert!(inputs.metrics_of_controller_sources().is_empty());
}

#[test]
fn error_here_that_metrics_share_is_printed_once() {
    let no_api = ReadError::fetch(MetricsApi::Custom, error_texts::NO_CUSTOM_API);
    let refused = "unable to fetch metrics: the request to Prometheus at p failed: refused";
    let report = inputs_with_rule(Err(no_api), rps_failure(refused), &json!({})).report();
    let expected = format!(
        "stays at 4: rps cannot be read: {refused}, as the controller last reported; cpu and rps \
         cannot be read here: {}",
        error_texts::NO_CUSTOM_API
    );
    assert_eq!(report.sentence, expected);
}

#[test]
fn series_that_the_controller_has_not_listed_yet_are_read_after_the_next_list() {
    let cause = format!(
        "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics \
         API: rules[0] of --metrics-config describes cpu, but found no series now{}: {NOT_FOUND}",
        error_texts::ALSO_NOT_BY_API
    );
    let report = inputs_that_only_fail_there(431, &cause).report();
    let first = &report.advice[0];
    let end = "The controller lists the series every --metrics-relist-interval (10m by default) \
               and at its start, so it reads new ones after the next list.";
    assert!(first.ends_with(end) && !first.contains("rules explain"), "{first}");
}

#[test]
fn metric_that_the_user_may_not_read_makes_the_report_doubtful() {
    let forbidden = "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource";
    let mut inputs = failing_inputs(forbidden, NOT_FOUND);
    inputs.hpa.status.conditions.clear();
    let report = inputs.report();
    assert!(report.sentence.starts_with("would stay at 4: cpu cannot be read here: "), "{report}");
    assert!(report.sentence.ends_with("may read the metrics that you may not read"), "{report}");
    assert_contains(&report, "You may not read cpu from metrics.k8s.io");
    assert!(!report.to_string().contains("apiservices"), "{report}");
}

#[test]
fn metric_cannot_be_read_here_if_no_status_is_stored() {
    let mut inputs = failing_inputs(NOT_FOUND, NOT_FOUND);
    inputs.hpa.status.conditions.clear();
    let expected = format!("stays at 4: cpu cannot be read here: {NOT_FOUND}");
    assert_eq!(inputs.report().sentence, expected);
    // Any controller lacks the request.
    let names = ["web-0", "web-1", "web-2", "web-3"];
    inputs.readings = [(0, Ok(equal_samples(431)))].into_iter().collect();
    inputs.selected = SelectedPods::new(names.map(|name| pod(name, "Running", None)));
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("stays at 4: cpu cannot be read: missing request"), "{sentence}");
}

#[test]
fn flags_that_were_given_are_not_advised() {
    let failed =
        |host| format!("unable to fetch metrics: the request to Prometheus at {host} failed");
    let (here, message) = (&failed("http://localhost:9090"), &failed("http://p:9090"));
    let report = failing_inputs(here, message).report();
    assert_contains(&report, "Check that Prometheus runs");
    assert!(!report.to_string().contains("use its flags"), "{report}");
}

#[rstest]
#[case::resource_api("resource", "metrics server exploded", false)]
#[case::rule_for_the_resource("resource", "unable to fetch metrics: refused", true)]
#[case::other_api("custom", "metrics server exploded", true)]
fn own_source_is_not_suspected_if_the_resource_metrics_api_failed(
    #[case] api: &str,
    #[case] cause: &str,
    #[case] is_suspected: bool,
) {
    let message = format!(
        "unable to get metrics for resource cpu: unable to fetch metrics from {api} metrics API: \
         {cause}"
    );
    let error = "the server is currently unable to handle the request (get pods.metrics.k8s.io)";
    let report = failing_inputs(error, &message).report();
    let sentence = &report.sentence;
    assert!(sentence.contains(&format!("{cause}, as the controller last reported")), "{sentence}");
    assert_eq!(report.to_string().contains("use its flags"), is_suspected, "{report}");
    let is_api_doubted = report.to_string().contains("Check that metrics.k8s.io works");
    assert_eq!(is_api_doubted, !is_suspected, "{report}");
}

#[test]
fn metric_readable_here_is_decided_despite_the_reported_failure() {
    let mut inputs = failing_inputs(NOT_FOUND, "missing request for cpu in container app of Pod a");
    inputs.readings = [(0, Ok(equal_samples(431)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("would stay at 4: cpu is at 71% of requests"), "{sentence}");
}

/// The controller can't store its status, or stores it in the next moment.
#[test]
fn later_decision_of_the_controller_replaces_a_reported_failure() {
    let mut inputs = inputs_that_only_fail_there(900, FORBIDDEN_THERE);
    let reported = "the controller last reported FailedGetResourceMetric";
    assert!(inputs.report().sentence.ends_with(reported));
    inputs.readings.set_controller_errors(vec![None]);
    let report = inputs.report();
    assert!(!report.to_string().contains("last reported"), "{report}");
    assert!(!report.to_string().contains("that it lacks"), "{report}");
    inputs.readings.set_controller_errors(vec![Some("forbidden".to_owned())]);
    assert!(inputs.report().sentence.ends_with(reported));
}

/// The CPU of four pods, which can be read here, and the controller's `ScalingActive=False` with
/// `cause`.
fn inputs_that_only_fail_there(milli: i64, cause: &str) -> Inputs {
    let mut inputs = failing_inputs(NOT_FOUND, cause);
    inputs.readings = [(0, Ok(equal_samples(milli)))].into_iter().collect();
    inputs
}

const FORBIDDEN_THERE: &str = "unable to get metrics for resource cpu: unable to fetch metrics \
                               from resource metrics API: pods.metrics.k8s.io is forbidden: User \
                               \"hparun\" cannot list resource \"pods\"";
const PROMETHEUS_THERE: &str = "unable to get metrics for resource cpu: unable to fetch metrics \
                                from resource metrics API: unable to fetch metrics: the request to \
                                Prometheus at http://p:9090 failed: refused";

#[rstest]
#[case::steady(431, FORBIDDEN_THERE, "would stay at 4: cpu is at 71%")]
#[case::scaling(900, FORBIDDEN_THERE, "would scale from 4 to 8: cpu is at 150%")]
#[case::prometheus(431, PROMETHEUS_THERE, "would stay at 4: cpu is at 71%")]
fn failure_of_the_controller_alone_is_in_the_first_line_and_the_first_advice(
    #[case] milli: i64,
    #[case] cause: &str,
    #[case] start: &str,
) {
    let report = inputs_that_only_fail_there(milli, cause).report();
    let end = "; the controller last reported FailedGetResourceMetric";
    let sentence = &report.sentence;
    assert!(sentence.starts_with(start) && sentence.ends_with(end), "{sentence}");
    assert_eq!(report.state(State::Failing), State::Failing);
    let root = root_cause(cause);
    let first = format!("The controller last reported FailedGetResourceMetric: {root}. ");
    assert!(report.advice[0].starts_with(&first), "{report}");
    let about = if cause == PROMETHEUS_THERE {
        "Check that Prometheus runs, and that the controller's URL of it is right"
    } else {
        "Give the user in the message, as which the controller runs, the right that it lacks"
    };
    assert!(report.advice[0].contains(about), "{report}");
}

#[test]
fn advice_has_one_full_stop_after_the_reported_cause() {
    let report = inputs_that_only_fail_there(431, "denied by a policy.").report();
    let first = "The controller last reported FailedGetResourceMetric: denied by a policy. This ";
    assert!(report.advice[0].starts_with(first), "{report}");
}

#[test]
fn failure_of_the_controller_is_no_doubt_in_a_dry_run_or_without_a_controller() {
    let mut inputs = inputs_that_only_fail_there(431, FORBIDDEN_THERE);
    let idle = inputs.report_with_doubt(Some("no controller runs".to_owned()));
    let end = "; within tolerance; no controller runs";
    let sentence = &idle.sentence;
    assert!(sentence.starts_with("stays at 4: ") && sentence.ends_with(end), "{sentence}");
    inputs.settings.dry_run = true;
    let report = inputs.report();
    assert!(report.sentence.ends_with("; within tolerance"), "{}", report.sentence);
    assert!(report.advice.iter().all(|one| !one.contains("last reported")), "{report}");
}

#[test]
fn status_of_zero_replicas_is_no_doubt_after_a_scale_up_by_hand() {
    let mut inputs = inputs_that_only_fail_there(431, "");
    inputs.hpa.status.conditions = vec![scaling_inactive("ScalingDisabled", "scaling is disabled")];
    let report = inputs.report();
    assert!(report.sentence.starts_with("stays at 4: "), "{}", report.sentence);
    assert_eq!(report.doubt, None);
}

#[test]
fn pause_is_first_if_metrics_can_not_be_read_here() {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.settings.pause = Pause::BOTH;
    inputs.hpa.status.desired_replicas = 6;
    let report = inputs.report();
    let start =
        "is paused by annotation and has 4 replicas, 6 desired: queue is at 7, target 5, as the ";
    assert!(report.sentence.starts_with(start), "{}", report.sentence);
    assert!(!report.to_string().contains("without the pause"), "{report}");
    assert_contains(&report, "Remove the annotation");
    let mut failing = failing_inputs(NOT_FOUND, NOT_FOUND);
    failing.settings.pause = Pause::BOTH;
    let report = failing.report();
    assert!(!report.to_string().contains("without the pause"), "{report}");
}

/// An External metric that fails, with an active fallback by the status.
fn inputs_with_active_fallback(message: &str) -> Inputs {
    let mut inputs = inputs_with_unreadable_metric("True");
    let annotation = json!({ "failureDurationSeconds": 60, "replicas": 6 }).to_string();
    let fallback = ("autoscaling.hpa-rs.dev/fallback".to_owned(), annotation);
    inputs.hpa.metadata.annotations = [fallback].into_iter().collect();
    resolve_settings(&mut inputs);
    inputs.history = None;
    let condition = json!({ "type": "ExternalMetricFallbackActive", "status": "True",
        "reason": "FallbackActive", "message": message,
        "lastTransitionTime": "2026-01-31T03:14:38Z" });
    inputs.hpa.status.conditions.push(serde_json::from_value(condition).unwrap());
    inputs
}

#[rstest]
#[case::reported(
    "External metric queue has kept failing since 2026-01-31T03:13:53Z, 6 replicas proposed",
    "fallback: 6 replicas, because it has kept failing since 2026-01-31T03:13:53Z"
)]
#[case::unknown("a fallback is active", "fallback: 6 replicas, because it fails")]
fn start_of_a_failure_comes_from_the_message(#[case] message: &str, #[case] expected: &str) {
    let sentence = inputs_with_active_fallback(message).report().sentence;
    assert!(sentence.contains(expected), "{sentence}");
    assert_eq!(sentence.contains("since"), expected.contains("since"), "{sentence}");
}

/// The fallback proposes 6 replicas, until the controller has read the metric for a while.
#[rstest]
#[case::scales_down(1000, "would scale from 4 to 2: ", true)]
#[case::stays(5000, "would stay at 4: ", true)]
#[case::same_replicas(7500, "", false)]
fn active_fallback_of_a_metric_that_can_be_read_here_is_in_the_first_line(
    #[case] milli: i64,
    #[case] start: &str,
    #[case] has_clause: bool,
) {
    let message = "External metric queue has kept failing since 2026-01-31T03:13:53Z, 6 replicas";
    let mut inputs = inputs_with_active_fallback(message);
    let reading = Reading::External(vec![crate::MilliValue::from_milli(milli)].into());
    inputs.readings = [(0, Ok(reading))].into_iter().collect();
    let end = "the controller last reported FallbackActive: the fallback of queue proposes 6 \
               replicas until it has been read for 30s";
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with(start), "{sentence}");
    assert_eq!(sentence.ends_with(end), has_clause, "{sentence}");
    inputs.settings.dry_run = true;
    let in_dry_run = inputs.report().sentence;
    assert!(!in_dry_run.contains("FallbackActive"), "{in_dry_run}");
    inputs.settings.dry_run = false;
    // Another metric failed.
    let message = "External metric jobs has kept failing since 2026-01-31T03:13:53Z, 6 replicas";
    let active = inputs.hpa.status.conditions.last_mut().unwrap();
    active.message = message.into();
    let sentence = inputs.report().sentence;
    assert!(!sentence.contains("FallbackActive"), "{sentence}");
}

/// The API may lack the metric only here, or while its source is down.
#[rstest]
#[case::unknown_metric(None)]
#[case::empty_response(Some(ReadError::Empty(MetricsApi::External)))]
fn name_of_a_metric_with_an_active_fallback_is_not_doubted(#[case] error: Option<ReadError>) {
    let mut inputs = inputs_with_active_fallback("External metric queue has kept failing");
    // The controller stores an entry without a value.
    let current = json!({ "metric": { "name": "queue" }, "current": {} });
    let current = json!([{ "type": "External", "external": current }]);
    inputs.hpa.status.current_metrics = serde_json::from_value(current).unwrap();
    if let Some(error) = error {
        inputs.readings = [(0, Err(error))].into_iter().collect();
    }
    assert_eq!(inputs.metrics_of_controller_sources(), [0]);
    let report = inputs.report();
    assert!(report.sentence.contains("queue cannot be read here: "), "{}", report.sentence);
    assert_contains(&report, "The fallback of queue is active, and the controller's status");
    for claim in ["has no metric", "Check the names", "reports no failure"] {
        assert!(!report.to_string().contains(claim), "{report}");
    }
    // With the debug API, the cause is known.
    inputs.history = Some(History::default());
    assert!(inputs.metrics_of_controller_sources().is_empty());
}

/// An empty response for pods doesn't mean that the name is unknown.
#[test]
fn metric_by_pod_without_values_is_not_of_an_unreadable_source() {
    let mut inputs = inputs_with_active_fallback("a fallback is active");
    let target = json!({ "type": "AverageValue", "averageValue": "5" });
    let source = json!({ "metric": { "name": "queue" }, "target": target });
    let metric = json!({ "type": "Pods", "pods": source });
    set_metric(&mut inputs, metric);
    let current = json!({ "metric": { "name": "queue" }, "current": {} });
    let current = json!([{ "type": "Pods", "pods": current }]);
    inputs.hpa.status.current_metrics = serde_json::from_value(current).unwrap();
    inputs.readings = [(0, Err(ReadError::Empty(MetricsApi::Custom)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(sentence.contains("fallback: 6 replicas"), "{sentence}");
    assert!(inputs.metrics_of_controller_sources().is_empty(), "{sentence}");
}

#[test]
fn cause_of_the_controller_does_not_end_with_an_empty_selector() {
    let mut inputs = inputs_with_unreadable_metric("True");
    let forbidden = "queue.external.metrics.k8s.io is forbidden: User \"ann\" cannot list resource";
    inputs.readings = failed_reading(MetricsApi::External, forbidden);
    let start = "the HPA was unable to compute the replica count: ";
    let message = format!("{start}{QUEUE_NOT_FOUND} for ");
    inputs.hpa.status.conditions = vec![scaling_inactive("FailedGetExternalMetric", &message)];
    let sentence = inputs.report().sentence;
    let cause = "queue cannot be read: the server could not find the metric queue, as the \
                 controller last reported";
    assert!(sentence.contains(cause), "{sentence}");
}
