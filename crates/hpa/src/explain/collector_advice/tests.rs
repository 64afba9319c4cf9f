//! Tests of the advice about metrics of collectors.

use clap::Parser;
use hpa_calc::{MetricsApi, Scale, SelectedPods, Settings};
use hpa_collectors::{annotations::MetricType, registry::external_types};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::args::{Arguments, Command};

/// A source with the annotations `prefix*`. Without a prefix, that of the queue `q` without
/// annotations.
fn source(collector: &'static str, prefix: Option<&str>, server: Server) -> CollectorSource {
    let labels = json!({ "matchLabels": { "type": "sqs-queue-length" } });
    let queue = serde_json::from_value(json!({ "name": "q", "selector": labels })).unwrap();
    let subject = match prefix {
        Some(prefix) => {
            FindingSubject::MetricAnnotations { prefix: prefix.to_owned(), setting: None }
        }
        None => FindingSubject::Metric(MetricType::External, queue),
    };
    CollectorSource { collector, subject, is_per_replica: false, servers: vec![server] }
}

/// An autoscaler of the external metric `jobs`, whose label names a collector.
fn hpa_of_jobs(collector_type: &str) -> HorizontalPodAutoscaler {
    let metric = json!({ "type": "External", "external": {
        "metric": { "name": "jobs", "selector": { "matchLabels": { "type": collector_type } } },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } });
    let mut hpa = HorizontalPodAutoscaler::default();
    hpa.spec.metrics = vec![serde_json::from_value(metric).unwrap()];
    hpa
}

/// Inputs in which the only metric, an external one, can't be read.
fn failed_inputs(hpa: HorizontalPodAutoscaler, settings: Settings, failure: &str) -> Inputs {
    let error = ReadError::fetch(MetricsApi::External, failure);
    Inputs {
        hpa,
        scale: Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() }),
        settings,
        selected: SelectedPods::default(),
        readings: [(0, Err(error))].into_iter().collect(),
        history: None,
        now: Timestamp::UNIX_EPOCH,
    }
}

#[rstest]
#[case::pods(
    "pods",
    Server::Pods,
    "path",
    "/stats",
    "404: check /stats in the annotation metric-config.x.y.z/path."
)]
#[case::endpoint(
    "http",
    Server::Url(String::new()),
    "endpoint",
    "https://user:secret@h:1/a/b?token=secret",
    "404: check /a/b in the annotation metric-config.x.y.z/endpoint."
)]
#[case::start_of_the_path(
    "prometheus",
    Server::Url(String::new()),
    "prometheus-server",
    "http://p",
    "404: check the path in the annotation metric-config.x.y.z/prometheus-server."
)]
#[case::in_a_label(
    "http",
    Server::Url(String::new()),
    "other",
    "x",
    "404: check the path in the setting endpoint of the annotations metric-config.x.y.z/*."
)]
#[case::server_of_the_operator(
    "zmon", Server::Operator("zmon".to_owned()), "key", "p99",
    "of --zmon-kariosdb-endpoint, and the settings: annotations metric-config.x.y.z/*."
)]
fn advice_about_an_unknown_path_names_it_and_its_setting(
    #[case] collector: &'static str,
    #[case] server: Server,
    #[case] key: &str,
    #[case] value: &str,
    #[case] expected: &str,
) {
    let mut hpa = HorizontalPodAutoscaler::default();
    let annotation = format!("metric-config.x.y.z/{key}");
    hpa.metadata.annotations.insert(annotation, value.to_owned());
    let source = source(collector, Some("metric-config.x.y.z/"), server);
    let advise = |failure: &str| unknown_path_advice(&hpa, &source, failure);
    let request = "unable to fetch metrics: the request to http://h:1 failed: ";
    let advice = advise(&format!("{request}unsuccessful response: 404 Not Found"));
    let advice = advice.expect("advice");
    assert!(advice.starts_with("The server answers with 404"), "{advice}");
    assert!(advice.ends_with(expected) && !advice.contains("secret"), "{advice}");
    assert_eq!(advise(&format!("{request}unsuccessful response: 500 Error")), None);
}

#[rstest]
#[case::url(Server::Url(String::new()), "a URL of the autoscaler")]
#[case::pods(Server::Pods, "the target's pods")]
fn advice_says_that_only_this_machine_failed(#[case] server: Server, #[case] start: &str) {
    let (place, check) = place_and_check(&source("json-path", None, server));
    assert_eq!(place, format!("{start}, from which this machine got no value"));
    let end = "from the controller's network, or from here with kubectl port-forward";
    assert!(check.ends_with(end), "{check}");
}

#[test]
fn only_flags_that_a_collector_lacks_are_named() {
    let words = ["hpa", "explain", "web", "--collectors", "--prometheus-url=http://p"];
    let Command::Explain(arguments) = Arguments::parse_from(words).command else {
        panic!("another command");
    };
    let sources = InProcessSources::from_flags(&arguments.sources);
    let source = source("skipper", Some("a/"), Server::Pods);
    let (hpa, error) = (HorizontalPodAutoscaler::default(), ReadError::Empty(MetricsApi::Custom));
    let advice = source_advice(&sources, &hpa, "rps", &source, &error);
    let expected = "rps needs the collector skipper (annotations a/*), which is off: add \
                    --skipper-ingress-metrics or --skipper-routegroup-metrics, as the controller \
                    needs it too.";
    assert_eq!(advice, expected);
}

#[rstest]
#[case::missing_object(
    "unable to fetch metrics: Ingress shop/shop2 not found",
    Some(
        "The collector skipper has no value of rps. Correct the cause in the message, or the \
         annotations a/*."
    )
)]
#[case::refused_address(
    "unable to fetch metrics: the request to http://169.254.169.254 failed: 169.254.169.254 is \
     a link-local address (--collector-address permits it)",
    Some(
        "The collector skipper may not read the address in the message: correct the \
         annotations a/*. If it should read that address, add --collector-address with it, as \
         the controller needs it too."
    )
)]
#[case::unreachable("unable to fetch metrics: the request to http://a failed: refused", None)]
#[case::query("unable to fetch metrics: the query to prometheus failed: refused", None)]
#[case::timeout("unable to fetch metrics: not read within 10 s", None)]
#[case::empty("", None)]
fn advice_without_a_failed_request_names_no_server(
    #[case] failure: &str,
    #[case] expected: Option<&str>,
) {
    let source = source("skipper", Some("a/"), Server::Operator(String::new()));
    let advice = advice_without_failed_request("rps", &source, failure);
    assert_eq!(advice.as_deref(), expected);
}

#[rstest]
#[case::annotated(
    "prometheus",
    Some("metric-config.x.y.prometheus/"),
    "",
    Some(
        "The annotations metric-config.x.y.prometheus/* are settings of the collector \
         prometheus. If the controller runs with --collectors, use its flags here, with \
         --prometheus-url or --additional-prometheus-server."
    )
)]
#[case::by_label(
    "sqs",
    None,
    "the server could not find the metric q for ",
    Some(
        "The metric External/q {type=sqs-queue-length} is one that the collector sqs reads. If \
         the controller runs with --collectors, use its flags here, with \
         --aws-external-metrics."
    )
)]
#[case::by_an_adapter(
    "json-path",
    Some("metric-config.x.y.json-path/"),
    "Internal error occurred: unable to fetch metrics",
    Some(
        "The annotations metric-config.x.y.json-path/* are settings of the collector json-path. \
         If the controller runs with --collectors, use its flags here. If an adapter does, the \
         log of its service has the cause: kubectl get apiservices | grep metrics.k8s.io"
    )
)]
#[case::by_label_and_an_adapter(
    "sqs",
    None,
    "an error on the server (\"\") has prevented the request from succeeding",
    Some(
        "The metric External/q {type=sqs-queue-length} is one that the collector sqs reads. If \
         the controller runs with --collectors, use its flags here, with \
         --aws-external-metrics. If an adapter does, the log of its service has the cause: kubectl \
         get apiservices | grep metrics.k8s.io"
    )
)]
#[case::of_an_api("sqs", None, "down", None)]
#[case::of_an_unavailable_api(
    "json-path",
    Some("metric-config.external.q.json-path/"),
    error_texts::API_UNAVAILABLE,
    None
)]
fn advice_without_collectors_names_the_flags_that_the_collector_needs(
    #[case] collector: &'static str,
    #[case] prefix: Option<&str>,
    #[case] failure: &str,
    #[case] expected: Option<&str>,
) {
    let source = source(collector, prefix, Server::Operator(String::new()));
    let error = ReadError::fetch(MetricsApi::External, failure);
    assert_eq!(advice_without_collectors(&source, &error, false, false).as_deref(), expected);
    let of_adapter = advice_without_collectors(&source, &error, true, false);
    let without_flags = |advice: &str| !advice.contains("--") && advice.contains("an adapter has");
    assert_eq!(of_adapter.map(|advice| without_flags(&advice)), expected.map(|_| true));
}

#[test]
fn empty_response_leads_to_the_collector_that_the_label_names() {
    let source = source("sqs", None, Server::Operator(String::new()));
    let error = ReadError::Empty(MetricsApi::External);
    let advice = advice_without_collectors(&source, &error, false, false).expect("advice");
    assert!(advice.ends_with("use its flags here, with --aws-external-metrics."), "{advice}");
    let advice = advice_without_collectors(&source, &error, false, true).expect("advice");
    let end = " The controller has no collectors, as its message shows: start hpa run with \
               --collectors, with --aws-external-metrics (in the chart, collectors.enabled).";
    assert!(advice.ends_with(end), "{advice}");
}

/// The controller has only rules, which don't have the metric.
#[test]
fn advice_about_a_collector_replaces_that_about_rules() {
    let by_name = |name: &str| json!({ "name": name });
    let by_label =
        |name: &str| json!({ "name": "jobs", "selector": { "matchLabels": { "type": name } } });
    let types = external_types().flat_map(|name| [by_name(name), by_label(name)]);
    for (metric, is_of_collector) in
        types.map(|metric| (metric, true)).chain([(by_name("jobs"), false)])
    {
        let name = metric["name"].as_str().unwrap().to_owned();
        let cause = format!(
            "no rule of --metrics-config has {name}{}: {}",
            error_texts::ALSO_NOT_BY_API,
            error_texts::NO_CUSTOM_API
        );
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "web", "uid": "u" },
            "spec": { "maxReplicas": 9, "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "metrics": [{ "type": "External", "external": {
                    "metric": metric, "target": { "type": "Value", "value": "1" } } }] },
            "status": { "currentReplicas": 4, "conditions": [{
                "type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric",
                "message": format!(
                    "the HPA was unable to compute the replica count: unable to get external \
                     metric shop/{name}/nil: unable to fetch metrics from external metrics API: \
                     {cause}"
                ) }] },
        }))
        .unwrap();
        assert!(lacks_collectors(&hpa, 0), "{metric}");
        let mut with_collectors = hpa.clone();
        let message = &mut with_collectors.status.conditions[0].message;
        let (unread, end) = (error_texts::NO_COLLECTOR_READS, error_texts::ALSO_NOT_BY_API);
        *message = message.replace(end, &format!(", and {unread}{name}{end}")).into();
        assert!(!lacks_collectors(&with_collectors, 0), "{metric}");
        let inputs = failed_inputs(hpa, Settings::default(), "down");
        let known = BTreeMap::from([(0, "Use the collector.".to_owned())]);
        let advice = inputs.report_with_advice(None, &known).advice;
        let is_known = advice.contains(&"Use the collector.".to_owned());
        assert_eq!(is_known, is_of_collector, "{metric}: {advice:?}");
    }
}

#[rstest]
#[case::absent("the server could not find the metric jobs for ", true)]
#[case::other_failure("down", false)]
fn metric_that_names_a_collector_but_has_no_annotations_has_advice(
    #[case] failure: &str,
    #[case] is_advised: bool,
) {
    let mut hpa = hpa_of_jobs("prometheus");
    hpa.spec.max_replicas = 9;
    let settings = Settings::default().for_kube_controller_manager(&hpa, &<_>::default());
    let inputs = failed_inputs(hpa, settings, failure);
    let mut advice = BTreeMap::new();
    add(&InProcessSources::default(), &inputs, &mut advice);
    let expected = "Correct the metric External/jobs {type=prometheus}, which has no annotations \
                    metric-config.*: query or query name not specified on metric. No collector \
                    reads the metric until then, and an adapter with collectors reports it as ";
    let is_expected = |advice: &String| advice.starts_with(expected);
    assert_eq!(advice.get(&0).map(is_expected), is_advised.then_some(true), "{advice:?}");
}

/// The annotations name the collector correctly, and the label doesn't.
#[test]
fn misspelled_type_of_a_metric_is_the_field_to_correct() {
    let mut hpa = hpa_of_jobs("prometeus");
    let annotation = "metric-config.external.jobs.prometheus/query".to_owned();
    hpa.metadata.annotations.insert(annotation, "up".to_owned());
    let source = source_of(&hpa, &hpa.spec.metrics[0], &environment_of_unknown_flags(&hpa));
    let expected = "field spec.metrics[0].external.metric.selector.matchLabels.type: there is no \
                    collector \"prometeus\", so nothing reads jobs: set type: prometheus";
    assert_eq!(cause(&hpa, 0, &source.unwrap().unwrap_err()), expected);
}

#[rstest]
#[case::counter("sum(jobs_total)", Some("of the annotation reads jobs_total without rate(): "))]
#[case::average(
    "avg(lag)",
    Some("of the annotation is an average or a quantile, and the controller ")
)]
#[case::rate("sum(rate(jobs_total[5m]))", None)]
fn mistake_in_the_query_of_a_readable_metric_has_advice(
    #[case] query: &str,
    #[case] expected: Option<&str>,
) {
    let mut hpa = hpa_of_jobs("prometheus");
    let annotation = "metric-config.external.jobs.prometheus/query".to_owned();
    hpa.metadata.annotations.insert(annotation, query.to_owned());
    let advice = mistake_advice(&hpa, &hpa.spec.metrics[0], &environment_of_unknown_flags(&hpa));
    let expected = expected.map(|part| format!("Check jobs: the query {part}"));
    match expected {
        Some(start) => assert!(advice.as_deref().unwrap().starts_with(&start), "{advice:?}"),
        None => assert_eq!(advice, None),
    }
}

#[rstest]
#[case::parse_error(
    "unable to fetch metrics: the query to prometheus failed: bad_data: parse error",
    Some(
        "The server answers, but refuses the query of jobs, as the message says: correct it \
         in the annotations metric-config.external.jobs.prometheus/*."
    )
)]
#[case::tenant_server(
    "the query to http://p failed: Prometheus reported execution: message omitted",
    Some("The server answers, but refuses the query of jobs")
)]
#[case::no_result(
    "unable to fetch metrics: query 'up' did not result a valid response: the result has no \
     samples",
    Some(
        "The query of jobs has no result now: check its names and labels, and that each range, \
         such as [5m], has at least two samples. Add `or vector(0)` only if the query has a \
         result under load, and none means 0. The query is in the annotations metric-config."
    )
)]
#[case::nan(
    "unable to fetch metrics: query 'a' did not result a valid response: the sample is not a \
     number (NaN); the query is restricted to the namespace a (--collector-namespace-label)",
    Some("The query in the message returns NaN for jobs: a sample of its series is NaN, or it ")
)]
#[case::nan_scalar(
    "unable to fetch metrics: query 'a' did not result a valid response: the scalar is not a \
     number (NaN)",
    Some(
        "The query in the message returns a scalar that is NaN for jobs: scalar() of no series, "
    )
)]
#[case::infinite(
    "unable to fetch metrics: query 'a' did not result a valid response: the sample is infinite",
    Some("The query in the message returns an infinite jobs: it divides by 0, or")
)]
#[case::range_vector(
    "unable to fetch metrics: query 'a[5m]' did not result a valid response: the result is a \
     range vector",
    Some("The query in the message returns a range vector, which has no current value of jobs: ")
)]
#[case::no_result_in_the_namespace(
    "unable to fetch metrics: query 'up{namespace=\"a\"}' did not result a valid response: the \
     result has no samples; the query is restricted to the namespace a \
     (--collector-namespace-label)",
    Some("The query of jobs has no result in the namespace to which the controller restricts it")
)]
#[case::syntax(
    "unable to fetch metrics: the query has a syntax error at byte 9: the query ends",
    Some(
        "Check the annotations metric-config.external.jobs.prometheus/* for jobs: the query has a \
         syntax error, as the message says, and is not sent to the server."
    )
)]
#[case::not_restricted(
    "unable to fetch metrics: the query can't be restricted to the namespace: info",
    Some(
        "Check the annotations metric-config.external.jobs.prometheus/* for jobs: the query can't \
         be restricted to the namespace (--collector-namespace-label), as the message says"
    )
)]
#[case::wrong_path(
    "unable to fetch metrics: none of 2 pods has a value; web-1: the path selects nothing",
    Some(
        "Check the annotations metric-config.external.jobs.prometheus/* for jobs: the server \
         answers, but its response has no number at the path"
    )
)]
#[case::failing_server(
    "the request to http://h:1 failed: unsuccessful response: 500 Error",
    Some("The server answers with an error of its own, as the message says: its log may have ")
)]
#[case::rejected_request(
    "the request to http://h:1 failed: unsuccessful response: 422 Unprocessable Entity",
    Some(
        "Check the annotations metric-config.external.jobs.prometheus/* for jobs: the server \
         answers, but rejects the request"
    )
)]
#[case::credentials(
    "the query to prometheus failed: Prometheus at http://p: unknown response code 401",
    Some(
        "Check the annotations metric-config.external.jobs.prometheus/* for jobs: the server \
         answers, but refuses the credentials of the request"
    )
)]
#[case::no_connection(
    "the query to prometheus failed: the request to Prometheus at p failed: Connection refused",
    None
)]
fn advice_depends_on_whether_the_server_answered(
    #[case] failure: &str,
    #[case] expected: Option<&str>,
) {
    let prefix = Some("metric-config.external.jobs.prometheus/");
    let source = source("prometheus", prefix, Server::Operator(String::new()));
    let advice = answer_advice("jobs", &source, failure);
    match expected {
        Some(start) => assert!(advice.as_deref().unwrap().starts_with(start), "{advice:?}"),
        None => assert_eq!(advice, None),
    }
}
