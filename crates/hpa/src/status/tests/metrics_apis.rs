//! Checks of the metrics APIs.

use hpa_calc::report::error_texts::ALSO_NOT_BY_API;

use super::*;

fn unavailable(group: &str, version: &str, message: &str) -> MetricsApiService {
    let (group, version) = (group.to_owned(), version.to_owned());
    MetricsApiService { group, version, ..metrics_api("False", message) }
}

fn pods_metric(name: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    json!({ "type": "Pods", "pods": { "metric": { "name": name }, "target": target } })
}

/// A value of [`pods_metric`] in the status.
fn pods_value(name: &str) -> Value {
    let current = json!({ "averageValue": "5" });
    json!({ "type": "Pods", "pods": { "metric": { "name": name }, "current": current } })
}

#[test]
fn missing_api_is_an_error_only_if_an_autoscaler_fails_without_it() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let unknown = "metrics.k8s.io is not installed, and whether the controller reads the metrics \
                   of shop/web from another source, such as Prometheus, is unknown: no status has \
                   a value";
    assert_eq!(problems(&cluster), [(Level::Skipped, unknown.to_owned())]);
    let disabled = json!([condition("ScalingActive", "False", "ScalingDisabled", "0 replicas")]);
    cluster.autoscalers.push(autoscaler("off", disabled));
    let is_of_the_api = |(level, text): &(Level, String)| {
        *level > Level::Skipped && text.contains("metrics.k8s.io")
    };
    assert!(!problems(&cluster).iter().any(is_of_the_api), "nothing is read for 0 replicas");
    let failed = |message: &str| {
        json!([condition("ScalingActive", "False", "FailedGetResourceMetric", message)])
    };
    let of_the_pods = failed("missing request for cpu in container app of Pod web-0");
    cluster.autoscalers.push(autoscaler("norequest", of_the_pods));
    let of_another_api = failed("no custom metrics API (custom.metrics.k8s.io) registered");
    cluster.autoscalers.push(autoscaler("custom", of_another_api));
    assert!(!problems(&cluster).iter().any(is_of_the_api), "the cause is another one");
    cluster.autoscalers.push(autoscaler("api", healthy_conditions()));
    let not_found = "the server could not find the requested resource (get pods.metrics.k8s.io)";
    cluster.autoscalers[0] = autoscaler("web", failed(not_found));
    let missing = "metrics.k8s.io is not installed, but needed by shop/web".to_owned();
    assert!(problems(&cluster).contains(&(Level::Error, missing)));
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("install metrics-server, or hpa adapter"), "{text}");
}

#[test]
fn api_is_not_missing_if_a_rule_of_the_controller_has_no_series() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let no_api = "no custom metrics API (custom.metrics.k8s.io) registered";
    let of_a_rule = format!(
        "rules[0] of --metrics-config describes rps, but found no series now{ALSO_NOT_BY_API}: \
         {no_api}"
    );
    for (message, is_missing) in [(no_api, true), (of_a_rule.as_str(), false)] {
        let conditions =
            json!([condition("ScalingActive", "False", "FailedGetPodsMetric", message)]);
        cluster.autoscalers[0] = autoscaler("web", conditions);
        cluster.autoscalers[0].hpa.spec.metrics =
            serde_json::from_value(json!([pods_metric("rps")])).expect("metrics");
        let text = run_checks(&cluster).text(false);
        let missing = "custom.metrics.k8s.io is not installed, but needed by shop/web";
        assert_eq!(text.contains(missing), is_missing, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

/// The Prometheus server of the controller doesn't answer.
#[test]
fn api_that_another_source_replaces_is_reported_while_that_fails() {
    let mut cluster = healthy();
    let message = "the HPA was unable to compute the replica count: unable to get metric rps: \
                   unable to fetch metrics from custom metrics API: unable to fetch metrics: \
                   connection refused";
    let failed = json!([condition("ScalingActive", "False", "FailedGetPodsMetric", message)]);
    cluster.autoscalers[0] = autoscaler("web", failed);
    cluster.autoscalers[0].hpa.spec.metrics =
        serde_json::from_value(json!([pods_metric("rps")])).expect("metrics");
    let source = "custom.metrics.k8s.io is not installed: the controller reads these metrics from \
                  another source, such as Prometheus, and got no value for shop/web";
    assert!(problems(&cluster).contains(&(Level::Warning, source.to_owned())));
    let text = run_checks(&cluster).text(false);
    assert!(text.starts_with("× 1 error, 0 warnings: "), "{text}");
}

#[test]
fn no_api_is_missing_if_the_controller_reads_another_source() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let mut with_value = autoscaler("read", healthy_conditions());
    let current = json!({ "name": "cpu", "current": { "averageUtilization": 40 } });
    let current = json!([{ "type": "Resource", "resource": current }]);
    with_value.hpa.status.current_metrics = serde_json::from_value(current).expect("metrics");
    cluster.autoscalers = vec![with_value, autoscaler("new", json!([]))];
    let text = run_checks(&cluster).text(false);
    let expected = "metrics.k8s.io is not installed: the controller reads these metrics from \
                    another source, such as Prometheus";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("install metrics-server"), "{text}");
}

/// One autoscaler has only a metric of the API, the other also scales by CPU.
#[test]
fn missing_api_is_needed_by_autoscalers_that_also_have_other_metrics() {
    let external = json!({ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": { "type": "Value", "value": "1" },
    } });
    let external = || serde_json::from_value(external.clone()).expect("a metric");
    let no_api = "unable to get external metric shop/queue/nil: unable to fetch metrics from \
                  external metrics API: the server could not find the requested resource (get \
                  queue.external.metrics.k8s.io)";
    let failed = json!([condition("ScalingActive", "False", "FailedGetExternalMetric", no_api)]);
    let mut cluster = healthy();
    cluster.autoscalers =
        vec![autoscaler("worker", failed), autoscaler("multi", healthy_conditions())];
    cluster.autoscalers[0].hpa.spec.metrics = vec![external()];
    let multi = &mut cluster.autoscalers[1].hpa;
    multi.spec.metrics.push(external());
    let cpu = json!({ "name": "cpu", "current": { "averageUtilization": 40 } });
    let values = json!([{ "type": "Resource", "resource": cpu }, { "type": "" }]);
    multi.status.current_metrics = serde_json::from_value(values).expect("values");
    let missing = |names: &str| {
        (Level::Error, format!("external.metrics.k8s.io is not installed, but needed by {names}"))
    };
    let found = problems(&cluster);
    assert!(found.contains(&missing("shop/worker, shop/multi")), "{found:?}");
    cluster.autoscalers.remove(0);
    let found = problems(&cluster);
    assert!(found.contains(&missing("shop/multi")), "{found:?}");
}

#[test]
fn metrics_without_a_value_from_another_source_are_named() {
    let with_metrics = |name: &str, conditions: Value, current: Value| {
        let mut autoscaler = autoscaler(name, conditions);
        let metrics = json!([pods_metric("rps"), pods_metric("jobs")]);
        autoscaler.hpa.spec.metrics = serde_json::from_value(metrics).expect("metrics");
        autoscaler.hpa.status.current_metrics = serde_json::from_value(current).expect("values");
        autoscaler
    };
    let failed = format!("no rule of --metrics-config has rps{ALSO_NOT_BY_API}: no API");
    let failed = json!([condition("ScalingActive", "False", "FailedGetPodsMetric", &failed)]);
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let both = json!([pods_value("rps"), pods_value("jobs")]);
    cluster.autoscalers = vec![with_metrics("both", healthy_conditions(), both)];
    let complete = "custom.metrics.k8s.io is not installed: the controller reads these metrics";
    let text = run_checks(&cluster).text(false);
    assert!(text.contains(complete), "{text}");

    let one = json!([pods_value("rps"), { "type": "" }]);
    cluster.autoscalers.push(with_metrics("one", healthy_conditions(), one));
    cluster.autoscalers.push(with_metrics("none", failed, json!([])));
    let text = run_checks(&cluster).text(false);
    let expected = "custom.metrics.k8s.io is not installed, and no value from another source is \
                    known of shop/one (jobs), shop/none (rps)";
    assert!(text.contains(expected) && !text.contains(complete), "{text}");
}

/// The controller has a rule for the Pods metric.
#[test]
fn failed_cpu_does_not_make_the_api_of_a_metric_with_a_value_needed() {
    let mut cluster = healthy();
    let failed = json!([condition("ScalingActive", "False", "FailedGetResourceMetric", "down")]);
    cluster.autoscalers[0] = autoscaler("web", failed);
    let hpa = &mut cluster.autoscalers[0].hpa;
    hpa.spec.metrics.push(serde_json::from_value(pods_metric("rps")).expect("a metric"));
    let values = json!([{ "type": "" }, pods_value("rps")]);
    hpa.status.current_metrics = serde_json::from_value(values).expect("values");
    cluster.metrics_apis = Ok(Some(vec![
        unavailable("metrics.k8s.io", "v1beta1", "no nodes"),
        unavailable("custom.metrics.k8s.io", "v1beta1", "no pods"),
    ]));
    let found = problems(&cluster);
    let of = |group: &str, reason: &str| format!("{group}/v1beta1 is not available: {reason}");
    assert!(found.contains(&(Level::Error, of("metrics.k8s.io", "no nodes"))), "{found:?}");
    let custom = (Level::Warning, of("custom.metrics.k8s.io", "no pods"));
    assert!(found.contains(&custom), "{found:?}");
}

#[test]
fn apis_that_fail_for_one_reason_are_one_finding() {
    let refused = |api: &str| format!("no response from https://10.0.0.1/apis/{api}: refused");
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(vec![
        unavailable("metrics.k8s.io", "v1beta1", &refused("metrics.k8s.io/v1beta1")),
        unavailable("custom.metrics.k8s.io", "v1beta2", &refused("custom.metrics.k8s.io/v1beta2")),
        unavailable("external.metrics.k8s.io", "v1beta1", "no endpoints"),
    ]));
    let both = "metrics.k8s.io/v1beta1, custom.metrics.k8s.io/v1beta2 are not available: no \
                response from https://10.0.0.1: refused";
    let other = "external.metrics.k8s.io/v1beta1 is not available: no endpoints";
    let expected = [(Level::Warning, other.to_owned()), (Level::Error, both.to_owned())];
    assert_eq!(problems(&cluster), expected);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("\n    needed by shop/web\n"), "{text}");
    assert!(text.contains("\n    no autoscaler needs it\n"), "{text}");
}
