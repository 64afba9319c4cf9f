//! Advice about problems that the report detects.

use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::query(
    "unable to fetch metrics: the request to Prometheus at http://p:9090 failed: refused",
    "The request to Prometheus fails here, as the message says. Check --prometheus-url URL, or"
)]
#[case::discovery(
    "the metrics of rules are not discovered yet: rules[0]: Prometheus reported execution",
    "The series of the rules (--metrics-config) could not be read here. The details: hpa rules"
)]
#[case::resources(
    "the metrics of rules are not discovered yet: no discovery has succeeded yet: unable to read \
     the resources of the API server: refused",
    "Check it: kubectl get --raw /api, and kubectl get --raw /apis"
)]
#[case::collectors(
    "the metrics of collectors are not discovered yet: the autoscalers are not synced yet",
    "If a collector reads queue, it has to list the autoscalers and pods first."
)]
#[case::timeout(
    "unable to fetch metrics: no response from Prometheus at http://p:9090 within 10 s",
    "Prometheus doesn't respond in time, as the message says: it is slow or overloaded, or the"
)]
#[case::slow_response(
    "unable to fetch metrics: the response of Prometheus at http://p:9090 took longer than 10 s",
    "If only the cluster reaches that server: kubectl port-forward"
)]
#[case::no_value(
    "no value: the query up has no result",
    "The query in the message, that of queue, has no result. Check the names and selectors in \
     spec.metrics[0]: hpa rules explain external queue --namespace shop --config FILE"
)]
#[case::no_value_of_a_collector(
    "no value: collector zmon returned none",
    "The collector found no value of queue. Check the names and selectors in spec.metrics[0], its \
     settings in annotations metric-config.*, and its server."
)]
#[case::nan(
    "no value: the query a / b has no usable value: the sample is not a number (NaN)",
    "The query in the message returns NaN for queue: a sample of its series is NaN, or it divides \
     0 by 0, or takes a quantile of a histogram that counted nothing in its window. A longer \
     window helps against the last two. Or, if queue is 0 then: (QUERY) >= 0 or vector(0)."
)]
#[case::infinite(
    "no value: the query a / b has no usable value: the sample is infinite",
    "The query in the message returns an infinite queue: it divides by 0"
)]
#[case::bad_query(
    "unable to fetch metrics: bad_data: parse error",
    "The server answers, but refuses the query of queue, as the message says. Correct the query in"
)]
#[case::status(
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 302",
    "The server answers, but not as Prometheus does, as the message says. Check --prometheus-url \
     URL with its path"
)]
#[case::server_error_without_its_message(
    "the metrics of rules are not discovered yet: Prometheus at http://p:9090: unknown response \
     code 500; rules[1]: another",
    "Prometheus, or a proxy before it, answers with an error of its own, as the message says. Read"
)]
#[case::server_error(
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 500: internal: \
     cannot read a block",
    "Prometheus answers with an error of its own, as the message says. Read its log."
)]
#[case::timeout_of_prometheus(
    "unable to fetch metrics: Prometheus at http://p:9090: timeout: query timed out in expression \
     evaluation",
    "Prometheus answers with an error of its own, as the message says. Read its log."
)]
#[case::timeout_without_its_message(
    "the metrics of rules are not discovered yet: Prometheus at http://p:9090: Prometheus reported \
     timeout; rules[1]: another",
    "Prometheus answers with an error of its own, as the message says. Read its log."
)]
#[case::rate_limit(
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 429: \
     too_many_requests: max queue",
    "The server answers, but limits requests (429). Raise its limits, or send fewer requests:"
)]
#[case::overloaded_victoria_metrics(
    "unable to fetch metrics: Prometheus at http://p:9090: 503: couldn't start executing the \
     request in 10.000 seconds",
    "Prometheus answers with an error of its own, as the message says. Read its log."
)]
#[case::not_ready(
    "unable to fetch metrics: Prometheus at http://p:9090: unavailable: TSDB not ready",
    "Prometheus answers, but isn't ready, as the message says: after a start, it first reads"
)]
#[case::not_ready_without_an_error(
    "unable to fetch metrics: Prometheus at http://p:9090: unknown response code 503",
    "The server isn't available (503). Prometheus answers with this status while it reads its \
     write-ahead log after a start, and a proxy before it if it can't reach Prometheus"
)]
#[case::not_ready_for_the_list_of_series(
    "the metrics of rules are not discovered yet: Prometheus at http://p:9090: unavailable: TSDB \
     not ready",
    "Prometheus answers, but isn't ready, as the message says: after a start, it first reads"
)]
#[case::credentials(
    "the metrics of rules are not discovered yet: Prometheus at http://p:9090: unknown response \
     code 403: check the credentials",
    "The server answers, but refuses the credentials of the request. Check --prometheus-token-file"
)]
#[case::bad_response(
    "unable to fetch metrics: the response is longer than 4194304 bytes",
    "The error is that of a rule or a collector, which reads queue without external.metrics.k8s.io"
)]
#[case::absent(
    "no rule of --metrics-config has queue, and reading it from a metrics API failed: the server \
     could not find the requested resource (get queue.external.metrics.k8s.io)",
    "hpa rules explain external queue --namespace shop --config FILE"
)]
#[case::other_resource(
    "rules[0] of --metrics-config describes queue, but not for pods, and reading it from a metrics \
     API failed: the server could not find the requested resource (get \
     queue.external.metrics.k8s.io)",
    "The rule in the message has queue, but for other resources: hpa rules explain external queue"
)]
#[case::unknown_kind(
    "unable to map kind Kafka.strimzi.io to resource: no matches for kind \"Kafka\" in group \
     \"strimzi.io\"",
    "Correct apiVersion and kind in spec.metrics[0].object.describedObject: the API server doesn't \
     have that kind."
)]
fn advice_about_prometheus_does_not_name_an_api(#[case] error: &str, #[case] advice: &str) {
    let mut inputs = inputs_with_unreadable_metric("False");
    inputs.readings = failed_reading(MetricsApi::External, error);
    assert_contains(&inputs.report(), advice);
    assert!(!inputs.report().to_string().contains("apiservices"));
}

#[test]
fn command_about_an_external_metric_has_its_selector() {
    let mut inputs = inputs_with_unreadable_metric("False");
    let selector = json!({ "matchLabels": { "queue": "orders" } });
    let source = json!({
        "metric": { "name": "queue", "selector": selector },
        "target": { "type": "Value", "value": "5" },
    });
    set_metric(&mut inputs, json!({ "type": "External", "external": source }));
    let command = rules_explain_command(&inputs.hpa, 0, None);
    let expected = "hpa rules explain external queue --namespace shop --selector 'queue=orders' \
                    --config FILE --prometheus-url URL";
    assert_eq!(command, expected);
}

#[test]
fn command_about_an_object_metric_has_the_resource_and_the_object() {
    let mut inputs = inputs_with_unreadable_metric("False");
    let ingress =
        json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main" });
    let source = json!({
        "metric": { "name": "rps" },
        "describedObject": ingress,
        "target": { "type": "Value", "value": "5" },
    });
    set_metric(&mut inputs, json!({ "type": "Object", "object": source }));
    let expected = "hpa rules explain custom ingresses/rps --name main --namespace shop --config \
                    FILE --prometheus-url URL";
    assert_eq!(rules_explain_command(&inputs.hpa, 0, None), expected);
    for (version, kind, expected) in [
        ("v1", "Namespace", "namespaces/rps --name shop --config FILE --prometheus-url URL"),
        ("longhorn.io/v1", "Node", "nodes/rps --name main --namespace shop --config FILE "),
        ("a.io/v1", "Namespace", "namespaces/rps --name main --namespace shop --config FILE "),
    ] {
        let object = &mut inputs.hpa.spec.metrics[0].object.as_mut().unwrap().described_object;
        (object.api_version, object.kind) = (version.to_owned(), kind.to_owned());
        let command = rules_explain_command(&inputs.hpa, 0, None);
        assert!(command.starts_with(&format!("hpa rules explain custom {expected}")), "{command}");
    }
}

/// The command must look for the same metric, and not take its name as options.
#[test]
fn metric_like_an_option_is_the_last_argument_of_the_command() {
    let mut inputs = inputs_with_unreadable_metric("False");
    set_metric(&mut inputs, external("-rf", &json!({ "type": "Value", "value": "5" })));
    let error = "no rule of --metrics-config has -rf, and reading it from a metrics API failed: \
                 the server could not find the requested resource (get \
                 -rf.external.metrics.k8s.io)";
    inputs.readings = failed_reading(MetricsApi::External, error);
    let command = "hpa rules explain external --namespace shop --config FILE --prometheus-url URL \
                   -- -rf says";
    assert_contains(&inputs.report(), command);
}

#[rstest]
#[case::no_connection(
    "unable to fetch metrics: the request to Prometheus at p:9090 failed: Connection refused",
    "The request to Prometheus fails here"
)]
#[case::no_series(
    "the metrics of rules are not discovered yet: the request to Prometheus at p:9090 failed: x",
    "The request to Prometheus fails here"
)]
#[case::refused_series(
    "the metrics of rules are not discovered yet: rules[0]: Prometheus reported bad_data",
    "The series of the rules (--metrics-config) could not be read here"
)]
#[case::refused_query("unable to fetch metrics: bad_data: parse error", "The server answers")]
fn failure_of_a_rule_here_has_advice_although_the_controller_had_a_value(
    #[case] error: &str,
    #[case] advice: &str,
) {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.readings = failed_reading(MetricsApi::External, error);
    let report = inputs.report();
    let start = "The controller had a value of queue in its last status.";
    assert_contains(&report, &format!("{start} {advice}"));
    let text = report.to_string();
    assert!(!text.contains("apiservices") && !text.contains("source of its own"), "{text}");
    // The Prometheus of an adapter is not that of the flags.
    let error = format!("an error on the server (\"{error}\") has prevented the request");
    inputs.readings = failed_reading(MetricsApi::External, &error);
    assert!(!inputs.report().to_string().contains(advice), "{error}");
}

#[rstest]
#[case::removed_group("extensions/v1beta1", "Deployment", " Use apps/v1.")]
#[case::unknown_kind("apps/v1", "Deploymint", "")]
fn target_of_a_removed_group_has_a_correction(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] correction: &str,
) {
    let mut inputs = inputs(json!({}));
    let target = &mut inputs.hpa.spec.scale_target_ref;
    (target.api_version, target.kind) = (api_version.into(), kind.into());
    inputs.scale = Err(ScaleReadError::UnknownKind("no matches for kind".to_owned()));
    let advice = inputs.report().advice.join("\n");
    let expected = format!("{api_version}, kind {kind} is not one of them.{correction}");
    assert!(advice.lines().any(|line| line.ends_with(&expected)), "{advice}");
}

#[test]
fn advice_at_the_maximum_names_the_entry_that_sets_it() {
    let mut inputs = inputs(json!({ "maxReplicas": 5 }));
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let entry = |end: &str, max: Option<i32>| {
        let entry = json!({ "start": "00:00", "end": end, "maxReplicas": max });
        serde_json::from_value::<crate::settings::ScheduledBounds>(entry).unwrap()
    };
    // It is 02:46. The first entry has ended.
    let entries = [entry("01:00", Some(9)), entry("23:00", Some(4)), entry("23:00", None)];
    inputs.settings.bounds = Some(entries.to_vec().into());
    let annotation =
        "Raise bounds[1].maxReplicas in the annotation autoscaling.hpa-rs.dev/bounds if";
    assert_contains(&inputs.report(), annotation);
    inputs.hpa.spec.unknown.insert("bounds".to_owned(), json!([]));
    assert_contains(&inputs.report(), "Raise spec.bounds[1].maxReplicas if the cluster has room");
    inputs.settings.bounds = Some(entries[2..].to_vec().into());
    assert_contains(&inputs.report(), "Raise spec.maxReplicas if the cluster has room");
}

#[test]
fn higher_maximum_is_not_advised_if_the_controller_can_not_decide() {
    let failed = [("ScalingActive", "False", "FailedGetResourceMetric")];
    let report = inputs_at(900, json!({ "maxReplicas": 4 }), &failed).report();
    assert_contains(&report, "; the controller last reported FailedGetResourceMetric");
    assert!(!report.to_string().contains("Raise spec.maxReplicas"), "{report}");
}

#[test]
fn wrong_value_is_corrected_before_more_replicas_are_advised() {
    let mut inputs = inputs(json!({ "maxReplicas": 5 }));
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    assert_contains(&inputs.report(), "Raise spec.maxReplicas");
    let advice = [(0, "Use a rate.".to_owned())].into_iter().collect();
    assert_eq!(inputs.report_with_advice(None, &advice).advice, ["Use a rate."]);
}

#[rstest]
#[case::starting(16, false)]
#[case::slow(301, true)]
fn only_pods_that_start_slowly_have_advice(#[case] started_ago: i64, #[case] is_advised: bool) {
    let advice = inputs_with_pending_pod(500, started_ago).report().advice;
    let is_named = |advice: &String| advice.starts_with("Check why 1 of 4 pods is pending: ");
    assert_eq!(advice.iter().any(is_named), is_advised, "{advice:?}");
}

#[rstest]
#[case::fetch(ReadError::fetch(MetricsApi::Resource, "no such server"), "kubectl get apiservices")]
#[case::not_registered(
    ReadError::fetch(
        MetricsApi::Resource,
        "the server could not find the requested resource (get pods.metrics.k8s.io)"
    ),
    "No server is registered for metrics.k8s.io: install metrics-server, or hpa adapter with \
     resource rules. If"
)]
#[case::answered(
    ReadError::fetch(
        MetricsApi::Resource,
        "an error on the server (\"down\") has prevented the request from succeeding"
    ),
    "metrics.k8s.io answers with an error: see the log of the service behind it, which kubectl get \
     apiservices | grep metrics.k8s.io names"
)]
#[case::rejected(
    ReadError::fetch(
        MetricsApi::Resource,
        "the server rejected our request due to an error in our request (get pods.metrics.k8s.io)"
    ),
    "metrics.k8s.io answers, but rejects the request: check the names and selectors in \
     spec.metrics, and the log"
)]
#[case::empty(
    ReadError::Empty(MetricsApi::Resource),
    "metrics.k8s.io works but has no value of cpu for the target's pods. kubectl get apiservices | \
     grep metrics.k8s.io names the service behind it"
)]
fn unreadable_metric_has_advice(#[case] error: ReadError, #[case] advice: &str) {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Err(error))].into_iter().collect();
    let report = inputs.report();
    assert!(report.sentence.starts_with("stays at 4: cpu cannot be read"), "{}", report.sentence);
    assert_contains(&report, advice);
}

#[rstest]
#[case::unschedulable(&["Pending", "Pending"], true, "none of the 2 pods runs (2 Pending)")]
#[case::crashing(
    &["Running", "Pending"],
    false,
    "none of the 2 pods is ready (1 Pending, 1 not ready)"
)]
#[case::one(&["Pending"], false, "the only pod is Pending")]
fn pods_that_do_not_run_are_the_cause_of_an_empty_response(
    #[case] phases: &[&str],
    #[case] is_ready: bool,
    #[case] state: &str,
) {
    let mut inputs = inputs(json!({}));
    inputs.readings = [(0, Err(ReadError::Empty(MetricsApi::Resource)))].into_iter().collect();
    let pods = phases.iter().enumerate().map(|(index, phase)| {
        let mut pod = pod(&format!("web-{index}"), phase, Some("600m"));
        if let Some(ready) = &mut pod.ready {
            ready.status = Some(is_ready);
        }
        pod
    });
    inputs.selected = SelectedPods::new(pods);
    let report = inputs.report();
    let end = format!("no metrics returned from resource metrics API; {state}");
    assert!(report.sentence.ends_with(&end), "{}", report.sentence);
    let beginning = if phases.contains(&"Running") {
        format!(
            "There is no value of cpu, and {state}. If the containers run, see the log of \
             metrics-server. If not, the"
        )
    } else {
        format!("There is no value of cpu, because {state}. The")
    };
    let command = "kubectl describe pods --selector 'app=web' --namespace shop";
    assert_contains(&report, &format!("{beginning} events of the pods say why: {command}"));
    assert!(!report.to_string().contains("apiservices"), "{report}");
}

#[test]
fn pods_that_are_not_ready_are_the_cause_if_a_collector_has_no_value() {
    let mut inputs = inputs(json!({ "metrics": [rps_spec()] }));
    let error = "no value: collector pods has none of these pods";
    inputs.readings = failed_reading(MetricsApi::Custom, error);
    let advice = inputs.report().to_string();
    assert!(advice.contains("The collector found no value of rps."), "{advice}");
    let mut pod = pod("web-0", "Running", None);
    pod.ready.as_mut().unwrap().status = Some(false);
    inputs.selected = SelectedPods::new([pod]);
    let report = inputs.report();
    assert!(report.sentence.ends_with("; the only pod is not ready"), "{}", report.sentence);
    assert_contains(&report, "There is no value of rps, because the only pod is not ready. The ");
}

#[test]
fn metrics_api_that_has_just_failed_is_named_before_other_sources() {
    let mut inputs = inputs_with_unreadable_metric("True");
    inputs.readings = failed_reading(MetricsApi::External, "no endpoints available");
    assert_contains(
        &inputs.report(),
        "The controller had a value of queue in its last status. If it reads \
         external.metrics.k8s.io, that has failed since: kubectl get apiservices | grep \
         external.metrics.k8s.io names the service behind it. If it reads a source of its own",
    );
    let mut slow = inputs.clone();
    let error = "context deadline exceeded: no response within 10s (get queue)";
    slow.readings = failed_reading(MetricsApi::External, error);
    assert_contains(
        &slow.report(),
        "If it reads external.metrics.k8s.io, it may wait longer (use its --request-timeout here), \
         or that has failed since: kubectl get apiservices",
    );
    let check = "Check that external.metrics.k8s.io works: kubectl get apiservices | grep \
                 external.metrics.k8s.io names the service behind it.";
    // kube-controller-manager has no other source.
    inputs.settings = built_in_settings(&inputs.hpa);
    assert_eq!(inputs.report().advice, [check]);
}

#[rstest]
#[case::unknown_container(
    "other",
    "; no pod has a container other",
    "Correct the name of the container in spec.metrics[0]"
)]
#[case::no_samples(
    "app",
    " (pods might be unready)",
    "No pod has a sample of cpu of container app that counts"
)]
fn container_without_samples_has_advice(
    #[case] container: &str,
    #[case] end: &str,
    #[case] advice: &str,
) {
    let target = json!({ "type": "Utilization", "averageUtilization": 66 });
    let source = json!({ "name": "cpu", "container": container, "target": target });
    let metric = json!({ "type": "ContainerResource", "containerResource": source });
    let mut inputs = inputs(json!({ "metrics": [metric] }));
    inputs.readings = [(0, Ok(samples(&[])))].into_iter().collect();
    let report = inputs.report();
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_contains(&report, advice);
}

#[rstest]
#[case::value("AverageValue", "value", "to Value: it is AverageValue, but value is set.")]
#[case::average("Value", "averageValue", "to AverageValue: it is Value, but averageValue is set.")]
fn advice_about_an_object_metric_names_the_wrong_type(
    #[case] target_type: &str,
    #[case] field: &str,
    #[case] advice: &str,
) {
    let metric = json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": "v1", "kind": "Service", "name": "web" },
        "metric": { "name": "rps" }, "target": { "type": target_type, field: "5" },
    } });
    let inputs = inputs(json!({ "metrics": [metric] }));
    assert_contains(&inputs.report(), &format!("Set spec.metrics[0].object.target.type {advice}"));
}

#[test]
fn advice_about_an_external_metric_does_not_mention_pods() {
    let mut inputs = inputs_with_unreadable_metric("False");
    inputs.readings = [(0, Err(ReadError::Empty(MetricsApi::External)))].into_iter().collect();
    assert_contains(
        &inputs.report(),
        "and that an adapter such as hpa adapter or KEDA has the metric. If it has a rules file, \
         this says why, with that file and its Prometheus: hpa rules explain external queue \
         --namespace shop --config FILE --prometheus-url URL\n",
    );
    let known = BTreeMap::from([(0, "A rule has it.".to_owned())]);
    assert_eq!(inputs.report_with_advice(None, &known).advice, ["A rule has it."]);
}

#[test]
fn unknown_metric_has_advice() {
    let mut inputs = inputs(json!({}));
    let error = "the server could not find the metric cpu for pods";
    inputs.readings = failed_reading(MetricsApi::Resource, error);
    assert_contains(&inputs.report(), "metrics.k8s.io has no metric cpu. Check the names");
}

#[rstest]
#[case::old(151, true)]
#[case::within_the_window(150, false)]
fn old_samples_have_advice_and_are_in_the_sentence(#[case] ago: i64, #[case] is_advised: bool) {
    let mut inputs = inputs(json!({}));
    inputs.now = seconds_ago(10 - ago);
    let advice = format!(
        "The newest sample of cpu is {ago}s old, so the decision follows an old load. Check \
         metrics-server."
    );
    let report = inputs.report();
    assert_eq!(report.advice.contains(&advice), is_advised);
    let clause = "; the newest sample of cpu is old (02:46:30Z)";
    assert_eq!(report.sentence.contains(clause), is_advised, "{}", report.sentence);
    // The clock of the controller is wrong, not that of the samples.
    inputs.readings.set_clock_lead(jiff::SignedDuration::from_secs(ago - 5));
    let text = inputs.report().to_string();
    assert!(!text.contains("newest sample") && text.contains("samples: 5s old"), "{text}");
}

/// A sample from before the start of its pod doesn't count, however long the pod has been ready.
#[test]
fn samples_older_than_ready_pods_have_advice_and_are_in_the_sentence() {
    let mut inputs = inputs(json!({}));
    inputs.now = seconds_ago(-890);
    for pod in pods_mut(&mut inputs) {
        pod.start_time = Some(seconds_ago(-825));
        pod.ready.as_mut().unwrap().last_transition_time = seconds_ago(-830);
    }
    let report = inputs.report();
    assert_contains(
        &report,
        "No pod has a sample of cpu that counts: web-0, web-1, web-2, web-3. The newest sample is \
         15m old, maybe older than the pods. Check metrics-server and the clocks of the nodes.",
    );
    let clause = "; the newest sample of cpu is old (02:46:30Z)";
    assert!(report.sentence.contains(clause), "{}", report.sentence);
    let advice = report.advice.join(" ");
    assert!(!advice.contains("recently") && !advice.contains("follows an old load"), "{advice}");
}

#[rstest]
#[case::unknown_name("paused", "paused is not a setting (did you mean pause?), ignored")]
#[case::invalid_value("pause", "pause must be ")]
fn invalid_setting_has_advice_and_is_a_problem(#[case] name: &str, #[case] expected: &str) {
    let mut inputs = inputs(json!({}));
    let annotation = format!("autoscaling.hpa-rs.dev/{name}");
    inputs.hpa.metadata.annotations.insert(annotation, "yes".to_owned());
    resolve_settings(&mut inputs);
    let text = format!("invalid settings: annotation autoscaling.hpa-rs.dev/{expected}");
    assert_contains(&inputs.report(), &format!("Correct the {text}"));
    let short = ShortReport::new(&inputs.hpa, &inputs.settings);
    assert!(short.is_problem(seconds_ago(0)) && short.sentence.contains(&text), "{short:?}");
}

#[test]
fn advice_has_the_whole_text_about_an_invalid_setting() {
    let queue = external("queue", &json!({ "type": "Value", "value": "5" }));
    let mut inputs = inputs(json!({ "metrics": [queue] }));
    let annotation = "autoscaling.hpa-rs.dev/fallback".to_owned();
    inputs.hpa.metadata.annotations.insert(annotation, r#"{"replica": 5}"#.to_owned());
    resolve_settings(&mut inputs);
    let advice = inputs.report().advice.join("\n");
    assert!(advice.contains("unknown field `replica`, expected one of `"), "{advice}");
    assert!(advice.contains(", ignored."), "{advice}");
}

#[test]
fn selector_without_pods_has_advice() {
    let mut inputs = inputs(json!({}));
    inputs.selected = SelectedPods::default();
    inputs.readings = [(0, Err(ReadError::Empty(MetricsApi::Resource)))].into_iter().collect();
    assert_contains(&inputs.report(), "No pod matches the target's selector");
    assert_contains(&inputs.report(), "kubectl get pods --selector 'app=web' --namespace shop\n");
    inputs.hpa.metadata.namespace.clear();
    let report = inputs.report();
    assert_eq!(report.autoscaler, "web");
    assert_contains(&report, "kubectl get pods --selector 'app=web' --namespace NAMESPACE\n");
    inputs.hpa.metadata.namespace = "shop;id".to_owned();
    assert_contains(&inputs.report(), "--selector 'app=web' --namespace 'shop;id'\n");
}

#[test]
fn metrics_that_fail_alike_share_their_advice() {
    let mut inputs = inputs(json!({}));
    let mut memory = inputs.hpa.spec.metrics[0].clone();
    memory.resource.as_mut().unwrap().name = "memory".to_owned();
    inputs.hpa.spec.metrics.push(memory);
    let unserved = "the server could not find the requested resource (get pods.metrics.k8s.io)";
    let error = || Err(ReadError::fetch(MetricsApi::Resource, unserved));
    inputs.readings = [(0, error()), (1, error())].into_iter().collect();
    let advice = inputs.report().advice;
    let about_api = advice.iter().filter(|one| one.starts_with("No server is registered"));
    assert_eq!(about_api.count(), 1, "{advice:?}");
}

#[test]
fn pods_without_request_are_listed() {
    let mut inputs = inputs(json!({}));
    let names = ["web-0", "web-1", "web-2", "web-3"];
    let request = |name: &str| if name < "web-2" { Some("600m") } else { None };
    inputs.selected = SelectedPods::new(names.map(|name| pod(name, "Running", request(name))));
    assert_contains(&inputs.report(), "(missing in web-2, web-3)");
}

/// The characters of a command that a POSIX shell doesn't take literally.
fn unquoted(command: &str) -> String {
    let (mut text, mut is_quoted, mut chars) = (String::new(), false, command.chars());
    while let Some(character) = chars.next() {
        match character {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => _ = chars.next(),
            _ if !is_quoted => text.push(character),
            _ => {}
        }
    }
    assert!(!is_quoted, "{command}");
    text
}

/// Tenants choose the names of targets, and other people run the commands.
#[rstest]
#[case::commands("'; rm -rf /")]
#[case::substitution("$(rm)")]
#[case::backticks("`rm`")]
#[case::lines("web\nrm")]
#[case::option("--rm")]
fn name_of_the_target_in_a_command_is_one_word(#[case] name: &str) {
    let target = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name });
    let conditions = [("AbleToScale", "True", "ReadyForNewScale")];
    let mut inputs = inputs_at(700, json!({ "scaleTargetRef": target }), &conditions);
    let scale = |spec_replicas, status_replicas| {
        Ok(Scale { spec_replicas, status_replicas, selector: "app=web".into() })
    };
    let commands = [
        (Err(ScaleReadError::read("not found")), "get StatefulSet "),
        (scale(0, 0), "scale StatefulSet "),
        (scale(4, 2), "describe StatefulSet "),
    ];
    inputs.selected.pods.truncate(2);
    let values: Vec<_> = ["web-0", "web-1"].map(|pod| (pod, 700)).into();
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    for (scale, start) in commands {
        inputs.scale = scale;
        let advice = inputs.report().advice.join("\u{1e}");
        let command = advice.split("kubectl ").find(|command| command.starts_with(start));
        let command = command.unwrap_or_else(|| panic!("no {start:?} in {advice}"));
        let command = command.split('\u{1e}').next().unwrap();
        let text = unquoted(command);
        // A word that begins with `./` is no option.
        let has_effect = |word: &str| word.contains("rm") && !word.starts_with("./");
        assert!(!text.split(' ').any(has_effect) && !text.contains('\n'), "{command}");
    }
}

/// The average of a negative value overflows, as in the reference.
#[test]
fn negative_value_is_named() {
    let report_for = |target: Value, milli| {
        let mut inputs = inputs(json!({ "metrics": [external("queue", &target)] }));
        let value = Reading::External(vec![crate::MilliValue::from_milli(milli)].into());
        inputs.readings = [(0, Ok(value))].into_iter().collect();
        inputs.report()
    };
    let report = |milli| report_for(json!({ "type": "AverageValue", "averageValue": "30" }), milli);
    let negative = report(-50_000);
    let clause = "; -50 counts as the largest number, as in kube-controller-manager";
    assert!(negative.sentence.contains(clause), "{}", negative.sentence);
    let advice = "The value of queue is -50. A load can't be negative: correct its source, or in \
                  Prometheus clamp_min(QUERY, 0).";
    assert_eq!(negative.advice.first().map(String::as_str), Some(advice));
    assert!(!negative.advice.iter().any(|one| one.contains("Raise")), "{:?}", negative.advice);
    assert!(!report(50_000).sentence.contains("counts as"));
    let of_value = report_for(json!({ "type": "Value", "value": "30" }), -50_000);
    let clause = "; -50 counts as 0 replicas, as in kube-controller-manager";
    assert!(of_value.sentence.contains(clause), "{}", of_value.sentence);
    assert!(of_value.to_string().contains(" (counts as 0)\n"), "{of_value}");
    assert_eq!(of_value.advice.first().map(String::as_str), Some(advice));
}

#[rstest]
#[case::text_in_the_response("the value is a string, not a number", "no number at the path")]
#[case::several_values("several values, but no aggregator", "the setting aggregator")]
#[case::page("the response can't be read as JSON: unexpected character", "not with JSON")]
#[case::unknown_path("unsuccessful response: 404 Not Found", "doesn't have the path")]
fn problem_of_collector_settings_fits_the_error(#[case] error: &str, #[case] part: &str) {
    let error = format!("unable to fetch metrics: {error}");
    let problem = problem_of_collector_settings(&error).unwrap();
    assert!(problem.contains(part), "{problem}");
    assert_eq!(problem_of_collector_settings("unable to fetch metrics: refused"), None);
}
