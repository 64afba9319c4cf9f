//! Findings about metrics.

use clap::Parser;
use hpa_calc::{api::MetricSourceType, validation::MAX_METRICS};
use hpa_metrics::resource::{ApiResource, ApiResources, GroupResource};
use hpa_prometheus::rules::config::DiscoveryRule;

use super::*;
use crate::args::{Arguments, Command};

const CUSTOM: &[&str] = &["custom.metrics.k8s.io"];
const EXTERNAL: &[&str] = &["external.metrics.k8s.io"];

fn metric_with_labels(labels: Value) -> Value {
    external_metric(json!({ "name": "jobs", "selector": { "matchLabels": labels } }))
}

/// The metrics of a spec: one of this type with this name.
fn named_metric(kind: &str, name: &str) -> Value {
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let source = json!({ "metric": { "name": name }, "target": target });
    json!([{ "type": kind, kind.to_lowercase(): source }])
}

/// A metric of the collector `sqs`.
fn sqs_metric() -> Value {
    let labels = json!({ "type": "sqs-queue-length", "queue-name": "jobs", "region": "eu-west-1" });
    metric_with_labels(labels)
}

/// The message of the rule `unserved-metric`.
fn unserved_message(workspace: &Workspace) -> String {
    let findings = find_violations(workspace);
    let unserved = findings.iter().find(|finding| finding.rule.id == "unserved-metric");
    unserved.unwrap_or_else(|| panic!("{findings:?}")).message.clone()
}

#[rstest]
#[case::no_api("Pods", &[], None, true)]
#[case::no_metric("Pods", CUSTOM, Some(string_set(&["services/requests"])), true)]
#[case::of_pods("Pods", CUSTOM, Some(string_set(&["pods/requests"])), false)]
#[case::no_list("Pods", CUSTOM, None, false)]
#[case::no_metric_of_objects("Object", CUSTOM, Some(string_set(&["services/other"])), true)]
#[case::of_an_object("Object", CUSTOM, Some(string_set(&["services/requests"])), false)]
#[case::no_external_api("External", CUSTOM, None, true)]
#[case::no_external_metric("External", EXTERNAL, Some(string_set(&["other"])), true)]
#[case::external("External", EXTERNAL, Some(string_set(&["requests"])), false)]
#[case::no_external_list("External", EXTERNAL, None, false)]
fn unserved_metric_is_reported(
    #[case] kind: &str,
    #[case] groups: &[&str],
    #[case] listed: Option<std::collections::BTreeSet<String>>,
    #[case] is_reported: bool,
) {
    let mut metrics = named_metric(kind, "requests");
    if kind == "Object" {
        metrics[0]["object"]["describedObject"] =
            json!({ "apiVersion": "v1", "kind": "Service", "name": "s" });
    }
    let objects = manifests_with(&[(0, "/spec/metrics", metrics)]);
    let is_external = kind == "External";
    let served = ServedMetrics {
        groups: string_set(groups),
        custom: listed.clone().filter(|_| !is_external),
        external: listed.filter(|_| is_external),
        ..ServedMetrics::default()
    };
    let findings = find_violations(&in_cluster(objects, served));
    assert_eq!(rule_ids(&findings) == ["unserved-metric"], is_reported, "{findings:?}");
}

#[rstest]
#[case::of_pods("Pods", "pods/http_requests")]
#[case::external("External", "http_requests")]
fn unserved_metric_names_similar_ones(#[case] kind: &str, #[case] listed: &str) {
    let names = Some(string_set(&[listed, "other", "services/htp_request_count"]));
    let served = ServedMetrics {
        groups: string_set(&[CUSTOM, EXTERNAL].concat()),
        custom: names.clone(),
        external: names,
        ..ServedMetrics::default()
    };
    let objects = manifests_with(&[(0, "/spec/metrics", named_metric(kind, "htp_request"))]);
    let message = unserved_message(&in_cluster(objects, served));
    let (reason, similar) = message.split_once(" (similar: http_requests").expect("similar names");
    assert!(reason.contains(".metrics.k8s.io of the cluster"), "{message}");
    assert!(similar.ends_with(')'), "the names come last: {message}");
}

#[rstest]
#[case::no_api(&[], false, "the cluster has no API external.metrics.k8s.io")]
#[case::no_api_and_no_rule(
    &[],
    true,
    "the cluster has no API external.metrics.k8s.io, and no rule of the rules file is for it"
)]
#[case::no_metric(
    EXTERNAL,
    false,
    "the metric lag is not in external.metrics.k8s.io of the cluster"
)]
#[case::no_metric_and_no_rule(
    EXTERNAL,
    true,
    "the metric lag is not in external.metrics.k8s.io of the cluster, nor in the rules file"
)]
fn unserved_metric_names_what_was_read_and_the_flag_for_rules(
    #[case] groups: &[&str],
    #[case] has_rules: bool,
    #[case] reason: &str,
) {
    let metric = external_metric(json!({ "name": "lag" }));
    let served = ServedMetrics {
        has_rules,
        groups: string_set(groups),
        external: (!groups.is_empty()).then(|| string_set(&["other"])),
        ..ServedMetrics::default()
    };
    let objects = manifests_with(&[(0, "/spec/metrics", metric)]);
    let hint = "; if the controller runs with --metrics-config, add it here";
    let hint = if has_rules { "" } else { hint };
    assert_eq!(unserved_message(&in_cluster(objects, served)), format!("{reason}{hint}"));
}

#[test]
fn metric_with_a_value_in_the_status_is_not_reported() {
    let current = json!({ "metric": { "name": "requests" }, "current": { "averageValue": "1" } });
    let lint = |scaling_active: &str| {
        let status = json!({
            "currentMetrics": [{ "type": "External", "external": current }],
            "conditions": [{ "type": "ScalingActive", "status": scaling_active, "reason": "R" }],
        });
        let metric = external_metric(json!({ "name": "requests" }));
        let objects = manifests_with(&[(0, "/spec/metrics", metric), (0, "/status", status)]);
        let served = ServedMetrics::default();
        let findings =
            find_violations(&Workspace::from_cluster(numbered(objects), <_>::default(), served));
        rule_ids(&findings).contains(&"unserved-metric")
    };
    assert_eq!((lint("True"), lint("False")), (false, true));
}

#[test]
fn metrics_of_rules_are_added_to_those_of_the_apis() {
    let rules = || ServedMetrics {
        has_rules: true,
        groups: string_set(CUSTOM),
        custom: Some(string_set(&["pods/own"])),
        ..ServedMetrics::default()
    };
    let added = |groups, custom| {
        let mut served = ServedMetrics { groups: string_set(groups), custom, ..<_>::default() };
        served.add(rules());
        assert_eq!(served.groups, string_set(CUSTOM));
        served.custom
    };
    let both = Some(string_set(&["pods/own", "pods/other"]));
    assert_eq!(added(CUSTOM, Some(string_set(&["pods/other"]))), both);
    assert_eq!(added(&[], None), Some(string_set(&["pods/own"])));
    // The API may serve metrics that it doesn't list.
    assert_eq!(added(CUSTOM, None), None);
    let alone = rules().with_unknown_cluster();
    assert_eq!(alone.groups.len(), 3);
}

#[test]
fn unserved_metric_is_not_reported_while_series_are_unknown() {
    let metric = external_metric(json!({ "name": "lag" }));
    let rule = |name: &str| {
        let mut rule = DiscoveryRule { series_query: "up".to_owned(), ..<_>::default() };
        rule.name.as_template = name.to_owned();
        vec![rule]
    };
    let unserved = |unread_rules| {
        let mut served = ServedMetrics::default();
        let discovery_error = Some("no response".to_owned());
        served.add(ServedMetrics { unread_rules, discovery_error, ..ServedMetrics::default() });
        let objects = manifests_with(&[(0, "/spec/metrics", metric.clone())]);
        rule_ids(&find_violations(&in_cluster(objects, served))).contains(&"unserved-metric")
    };
    assert!(unserved(Vec::new()));
    assert!(!unserved(rule("lag")));
    assert!(unserved(rule("other")), "the rule can't have the metric");
}

#[rstest]
#[case::used("Pods", 1)]
#[case::unused("External", 0)]
fn metrics_api_that_does_not_answer_is_a_problem_if_it_is_used(
    #[case] kind: &str,
    #[case] count: usize,
) {
    let error = "the server is currently unable to handle the request".to_owned();
    let served = ServedMetrics {
        groups: string_set(&[CUSTOM, EXTERNAL].concat()),
        api_errors: [("custom.metrics.k8s.io".to_owned(), error)].into(),
        ..ServedMetrics::default()
    };
    let objects = manifests_with(&[(0, "/spec/metrics", named_metric(kind, "m"))]);
    let workspace = in_cluster(objects, served);
    let problems = discovery_problems(&workspace, &source_arguments(&[]));
    assert_eq!(problems.len(), count, "{problems:?}");
    if let [problem] = problems.as_slice() {
        let expected = "custom.metrics.k8s.io: the server is currently unable to handle the \
                        request. Whether a metric is served is unknown and was not checked";
        assert_eq!(problem.to_string(), expected);
    }
}

/// The sources of metrics of `hpa lint -A` with these flags.
fn source_arguments(flags: &[&str]) -> SourceArguments {
    let arguments = ["hpa", "lint", "-A"].iter().chain(flags);
    let Command::Lint(arguments) = Arguments::try_parse_from(arguments).unwrap().command else {
        panic!("not hpa lint");
    };
    arguments.sources
}

#[rstest]
#[case::value(json!({ "type": "Value", "value": "5" }), true)]
#[case::average(json!({ "type": "AverageValue", "averageValue": "5" }), false)]
fn value_target_of_a_schedule_is_reported(#[case] target: Value, #[case] is_reported: bool) {
    let schedule =
        json!({ "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": "noon" });
    let metrics = json!([{ "type": "Object", "object": {
        "describedObject": schedule, "metric": { "name": "noon" }, "target": target,
    } }]);
    let findings = lint(manifests_with(&[(0, "/spec/metrics", metrics)]));
    let is_rule = |finding: &Finding| finding.rule.id == "schedule-value-target";
    assert_eq!(findings.iter().any(is_rule), is_reported, "{findings:?}");
}

#[rstest]
#[case::exists("ScalingSchedule", "noon", None)]
#[case::missing(
    "ScalingSchedule",
    "noon2",
    Some("ScalingSchedule noon2 doesn't exist in namespace shop")
)]
#[case::of_the_cluster("ClusterScalingSchedule", "night", None)]
#[case::missing_in_the_cluster(
    "ClusterScalingSchedule",
    "noon",
    Some("ClusterScalingSchedule noon doesn't exist")
)]
fn metric_of_a_schedule_is_unserved_only_if_the_schedule_is_missing(
    #[case] kind: &str,
    #[case] name: &str,
    #[case] expected: Option<&str>,
) {
    let schedule = json!({ "apiVersion": "zalando.org/v1", "kind": kind, "name": name });
    let metric = json!([{ "type": "Object", "object": {
        "describedObject": schedule,
        "metric": { "name": "x" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    let mut objects = manifests_with(&[(0, "/spec/metrics", metric)]);
    objects.push(json!({
        "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
        "metadata": { "name": "noon", "namespace": "shop" },
    }));
    objects.push(json!({
        "apiVersion": "zalando.org/v1", "kind": "ClusterScalingSchedule",
        "metadata": { "name": "night" },
    }));
    let served = ServedMetrics {
        groups: string_set(CUSTOM),
        custom: Some(string_set(&["pods/requests"])),
        ..ServedMetrics::default()
    };
    let listed = ["ScalingSchedule", "ClusterScalingSchedule"]
        .map(|kind| ("zalando.org".to_owned(), kind.to_owned()));
    let workspace = Workspace::from_cluster(numbered(objects), listed.into(), served);
    let findings = find_violations(&workspace);
    let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    assert_eq!(messages.first().copied(), expected);
    assert!(messages.len() < 2, "{messages:?}");
}

#[rstest]
#[case::no_region(
    &["--collectors", "--aws-external-metrics"],
    "type=sqs-queue-length}): the metric region: eu-west-1 is not configured (--aws-region)"
)]
#[case::other_region(
    &["--collectors", "--aws-external-metrics", "--aws-region=us-east-1"],
    "type=sqs-queue-length}): the metric region: eu-west-1 is not configured (--aws-region)"
)]
#[case::off(
    &["--collectors", "--aws-region=eu-west-1"],
    "; its collector sqs is off: add --aws-external-metrics if the controller has it"
)]
#[case::no_collectors(
    &[],
    "; if the controller runs with --collectors, add it here, with --aws-external-metrics"
)]
fn unserved_metric_has_the_reason_of_its_collector(#[case] flags: &[&str], #[case] reason: &str) {
    let metric = sqs_metric();
    let served = ServedMetrics::default();
    let mut workspace = in_cluster(manifests_with(&[(0, "/spec/metrics", metric)]), served);
    let sources = source_arguments(flags);
    workspace.in_process_sources = InProcessSources::from_flags(&sources);
    let message = unserved_message(&workspace);
    assert!(message.ends_with(reason), "{message}");
}

/// The controller's message names its rules, but no collectors.
#[test]
fn unserved_metric_names_the_flags_of_missing_collectors() {
    let metric = sqs_metric();
    let message = "the HPA was unable to compute the replica count: unable to get external metric \
                   shop/jobs/nil: unable to fetch metrics from external metrics API: no rule of \
                   --metrics-config has jobs, and reading it from a metrics API failed: no API";
    let status = json!({ "currentReplicas": 4, "desiredReplicas": 4, "conditions": [{
        "type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric",
        "message": message,
    }] });
    let objects = manifests_with(&[(0, "/spec/metrics", metric), (0, "/status", status)]);
    let message = unserved_message(&in_cluster(objects, ServedMetrics::default()));
    let end = "; the controller has no collectors: start hpa run with --collectors, with \
               --aws-external-metrics";
    assert!(message.ends_with(end), "{message}");
}

#[rstest]
#[case::no_annotations(
    metric_with_labels(json!({ "type": "prometheus" })),
    "; no collector reads it (metric External/jobs {type=prometheus}): query or query name not \
     specified on metric"
)]
#[case::of_kube_controller_manager(
    sqs_metric(),
    " is not in external.metrics.k8s.io of the cluster"
)]
fn unserved_metric_of_kube_controller_manager_names_no_flag(
    #[case] metric: Value,
    #[case] end: &str,
) {
    let written = json!([{ "manager": "kube-controller-manager", "subresource": "status" }]);
    let served = ServedMetrics {
        groups: string_set(EXTERNAL),
        external: Some(string_set(&["others"])),
        ..ServedMetrics::default()
    };
    let objects =
        manifests_with(&[(0, "/spec/metrics", metric), (0, "/metadata/managedFields", written)]);
    let message = unserved_message(&in_cluster(objects, served));
    assert!(message.ends_with(end), "{message}");
}

#[rstest]
#[case::no_flag(
    &[],
    "--prometheus-url, and --skipper-ingress-metrics or --skipper-routegroup-metrics"
)]
#[case::server(
    &["--prometheus-url=http://p"],
    "--skipper-ingress-metrics or --skipper-routegroup-metrics"
)]
#[case::ingresses(&["--skipper-ingress-metrics"], "--prometheus-url")]
fn only_flags_that_a_collector_lacks_are_named(#[case] flags: &[&str], #[case] missing: &str) {
    let sources = source_arguments(flags);
    let sources = InProcessSources::from_flags(&sources);
    assert_eq!(sources.missing_flags("skipper"), missing);
}

#[rstest]
#[case::average(json!({ "type": "AverageValue", "averageValue": "5" }), true)]
#[case::value(json!({ "type": "Value", "value": "5" }), false)]
fn average_of_an_average_is_reported(#[case] target: Value, #[case] is_reported: bool) {
    let external = json!({ "metric": { "name": "lag" }, "target": target });
    let metrics = json!([{ "type": "External", "external": external }]);
    let mut workspace =
        Workspace::from_manifests(numbered(manifests_with(&[(0, "/spec/metrics", metrics)])));
    workspace.served = Some(served_with_mistake(QueryMistake::Average));
    assert_eq!(rule_ids(&find_violations(&workspace)) == ["averaged-twice"], is_reported);
}

#[rstest]
#[case::by_pod("sum(rate(requests[1m])) / count(up)", "AverageValue", "averageValue", true)]
#[case::average("avg(lag)", "AverageValue", "averageValue", true)]
#[case::sum("sum(lag)", "AverageValue", "averageValue", false)]
#[case::value("avg(lag)", "Value", "value", false)]
fn average_in_an_annotation_is_reported(
    #[case] query: &str,
    #[case] target_type: &str,
    #[case] member: &str,
    #[case] is_reported: bool,
) {
    let labels = json!({ "matchLabels": { "type": "prometheus" } });
    let metric = json!([{ "type": "External", "external": {
        "metric": { "name": "lag", "selector": labels },
        "target": { "type": target_type, member: "5" },
    } }]);
    let annotations = json!({ "metric-config.external.lag.prometheus/query": query });
    let changes = [(0, "/metadata/annotations", annotations), (0, "/spec/metrics", metric)];
    let findings = lint(manifests_with(&changes));
    assert_eq!(rule_ids(&findings) == ["averaged-twice"], is_reported, "{findings:?}");
    assert!(is_reported || findings.is_empty(), "{findings:?}");
    if let [finding] = findings.as_slice() {
        assert!(finding.message.starts_with("the query of the annotation is an average"));
    }
}

const FAILS: &str = "the controller goes by the type, so the metric always fails. Write type: ";
const IGNORED: &str = "the controller ignores the type and compares ";

#[rstest]
#[case::object_value(
    "Object",
    "AverageValue",
    "value",
    FAILS,
    "Value, or averageValue instead of value"
)]
#[case::object_average(
    "Object",
    "Value",
    "averageValue",
    FAILS,
    "AverageValue, or value instead of averageValue"
)]
#[case::object_utilization("Object", "Utilization", "value", FAILS, "Value")]
#[case::external_value(
    "External",
    "AverageValue",
    "value",
    IGNORED,
    "the sum of all series. Write type: Value, or averageValue instead of value"
)]
#[case::external_average(
    "External",
    "Value",
    "averageValue",
    IGNORED,
    "the sum divided by the replicas. Write type: AverageValue, or value instead of averageValue"
)]
#[case::pods(
    "Pods",
    "Value",
    "averageValue",
    IGNORED,
    "the average of the pods. Write type: AverageValue"
)]
#[case::resource_value(
    "Resource",
    "Value",
    "averageUtilization",
    IGNORED,
    "percent of the requests. Write type: Utilization"
)]
#[case::resource_average(
    "Resource",
    "Utilization",
    "averageValue",
    IGNORED,
    "the average of the pods. Write type: AverageValue, or averageUtilization instead of \
     averageValue"
)]
#[case::container(
    "ContainerResource",
    "AverageValue",
    "averageUtilization",
    IGNORED,
    "percent of the requests. Write type: Utilization, or averageValue instead of \
     averageUtilization"
)]
fn target_type_that_does_not_fit_is_reported_with_its_effect(
    #[case] source_type: &str,
    #[case] target_type: &str,
    #[case] member: &str,
    #[case] effect: &str,
    #[case] rest: &str,
) {
    let metric = |target_type: &str| {
        let amount = if member == "averageUtilization" { json!(50) } else { json!("5") };
        let target = json!({ "type": target_type, member: amount });
        let source = match source_type {
            "Resource" => json!({ "name": "cpu", "target": target }),
            "ContainerResource" => json!({ "name": "cpu", "container": "app", "target": target }),
            "Object" => {
                let object = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
                let metric = json!({ "name": "rps" });
                json!({ "describedObject": object, "metric": metric, "target": target })
            }
            _ => json!({ "metric": { "name": "rps" }, "target": target }),
        };
        let member = MetricSourceType::from(source_type).member().unwrap();
        json!([{ "type": source_type, member: source }])
    };
    let findings = lint(manifests_with(&[(0, "/spec/metrics", metric(target_type))]));
    let [finding] = findings.as_slice() else { panic!("{findings:?}") };
    let start = format!("the type is {target_type}, but {member} is set: ");
    assert_eq!(finding.rule.id, "target-type");
    assert!(finding.field.ends_with(".target.type"), "{finding:?}");
    assert_eq!(finding.message, format!("{start}{effect}{rest}"));

    let fitting = match member {
        "value" => "Value",
        "averageValue" => "AverageValue",
        _ => "Utilization",
    };
    let sound = lint(manifests_with(&[(0, "/spec/metrics", metric(fitting))]));
    assert!(sound.is_empty(), "{sound:?}");
}

#[test]
fn object_metric_with_both_target_fields_has_no_finding() {
    let metric = json!([{ "type": "Object", "object": {
        "describedObject": { "apiVersion": "v1", "kind": "Service", "name": "web" },
        "metric": { "name": "rps" },
        "target": { "type": "AverageValue", "value": "5", "averageValue": "5" },
    } }]);
    let findings = lint(manifests_with(&[(0, "/spec/metrics", metric)]));
    assert!(findings.is_empty(), "{findings:?}");
}

#[rstest]
#[case::same_type("Value", ", so one of the targets never acts")]
#[case::other_type("AverageValue", "")]
fn larger_proposal_of_one_source_counts(#[case] second: &str, #[case] effect: &str) {
    let metric = |target: Value| {
        json!({ "type": "External", "external": {
        "metric": { "name": "queue" }, "target": target,
    } })
    };
    let field = if second == "Value" { "value" } else { "averageValue" };
    let first = metric(json!({ "type": "Value", "value": "5" }));
    let metrics = json!([first, metric(json!({ "type": second, field: "9" }))]);
    let findings = lint(manifests_with(&[(0, "/spec/metrics", metrics)]));
    let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    let start = "spec.metrics[0] has the same source: only the larger proposal of both counts";
    assert_eq!(messages, [format!("{start}{effect}")]);
}

#[test]
fn metrics_beyond_the_limit_of_the_controller_are_not_compared() {
    let metric = manifests()[0]["spec"]["metrics"][0].clone();
    let metrics = json!(vec![metric; MAX_METRICS + 10]);
    let findings = lint(manifests_with(&[(0, "/spec/metrics", metrics)]));
    assert_eq!(rule_ids(&findings), ["duplicate-metric"; MAX_METRICS - 1]);
}

#[rstest]
#[case::upper_case("CPU", "use cpu")]
#[case::capital("Memory", "use memory")]
#[case::device("nvidia.com/gpu", "use a metric of type Pods, Object or External")]
#[case::storage("ephemeral-storage", "use a metric of type Pods, Object or External")]
fn resource_without_a_resource_metric_is_reported(#[case] name: &str, #[case] advice: &str) {
    let changes = [(0, "/spec/metrics/0/resource/name", json!(name))];
    let findings = lint(manifests_with(&changes));
    // No missing request is reported: with a request, the metric would fail too.
    assert_eq!(rule_ids(&findings), ["unknown-resource"], "{findings:?}");
    assert_eq!(findings[0].field, "spec.metrics[0].resource.name");
    let message = &findings[0].message;
    assert!(message.starts_with("only cpu and memory are in metrics.k8s.io"), "{message}");
    assert!(message.ends_with(advice), "{message}");

    // The status shows that some server has the resource.
    let current = json!({ "type": "Resource", "resource": {
        "name": name, "current": { "averageUtilization": 5, "averageValue": "1" },
    } });
    let status = json!({
        "currentMetrics": [current],
        "conditions": [{ "type": "ScalingActive", "status": "True", "reason": "ValidMetricFound" }],
    });
    let mut objects = manifests_with(&changes);
    objects[0]["status"] = status;
    assert!(lint(objects.clone()).is_empty(), "{:?}", lint(objects));
}

#[rstest]
#[case::of_another_resource("Service", "v1", true)]
#[case::of_the_resource("Job", "batch/v1", false)]
#[case::unknown_kind("Rollout", "example.com/v1", false)]
fn object_metric_of_another_resource_is_unserved(
    #[case] kind: &str,
    #[case] api_version: &str,
    #[case] is_reported: bool,
) {
    let resource = |group: &str, plural: &str, kind: &str| ApiResource {
        group_resource: GroupResource::new(group, plural),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
    };
    let resources = [resource("", "services", "Service"), resource("batch", "jobs", "Job")];
    let metric = json!([{ "type": "Object", "object": {
        "describedObject": { "apiVersion": api_version, "kind": kind, "name": "web" },
        "metric": { "name": "lag" }, "target": { "type": "Value", "value": "5" },
    } }]);
    let objects = manifests_with(&[(0, "/spec/metrics", metric)]);
    let mut workspace = Workspace::from_manifests(numbered(objects));
    let rules = ServedMetrics {
        has_rules: true,
        custom: Some(string_set(&["jobs.batch/lag", "services/other"])),
        resources: ApiResources::new(resources).into(),
        ..ServedMetrics::default()
    };
    workspace.served = Some(rules.with_unknown_cluster());
    let findings = find_violations(&workspace);
    assert_eq!(rule_ids(&findings) == ["unserved-metric"], is_reported, "{findings:?}");
    if is_reported {
        let expected = "the metric lag of services is not in the rules file for \
                        custom.metrics.k8s.io, but that of jobs.batch is";
        assert_eq!(findings[0].message, expected);
    }
}

#[rstest]
#[case::unknown_operator("Equals", json!(["a"]), Some("Use In, NotIn, Exists or DoesNotExist"))]
#[case::no_values("In", json!([]), Some("values set can't be empty"))]
#[case::values("Exists", json!(["a"]), Some("the metric always fails: values"))]
#[case::valid("NotIn", json!(["a"]), None)]
fn invalid_selector_of_a_metric_is_reported(
    #[case] operator: &str,
    #[case] values: Value,
    #[case] message: Option<&str>,
) {
    let expression = json!({ "key": "queue", "operator": operator, "values": values });
    let metric = json!({ "name": "q", "selector": { "matchExpressions": [expression] } });
    let target = json!({ "type": "Value", "value": "1" });
    let metric = json!({ "type": "External", "external": { "metric": metric, "target": target } });
    let findings = lint(manifests_with(&[(0, "/spec/metrics", json!([metric]))]));
    let found = findings.iter().map(|one| (one.rule.id, one.field.as_str()));
    let field = "spec.metrics[0].external.metric.selector";
    let expected = message.map(|_| ("invalid-selector", field));
    assert!(found.eq(expected), "{findings:?}");
    let messages = findings.iter().map(|one| one.message.as_str());
    assert!(messages.zip(message).all(|(text, part)| text.contains(part)), "{findings:?}");
}

#[rstest]
#[case::ingress("extensions/v1beta1", "Ingress", Some("fails: use networking.k8s.io/v1"))]
#[case::deployment("extensions/v1beta1", "Deployment", Some("fails: use apps/v1"))]
#[case::old_version_of_a_group("networking.k8s.io/v1beta1", "Ingress", None)]
#[case::core("v1", "Service", None)]
fn object_of_a_removed_group_is_reported(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] end: Option<&str>,
) {
    let object = json!({ "apiVersion": api_version, "kind": kind, "name": "web" });
    let target = json!({ "type": "Value", "value": "1" });
    let source =
        json!({ "describedObject": object, "metric": { "name": "hits" }, "target": target });
    let metric = json!({ "type": "Object", "object": source });
    let findings = lint(manifests_with(&[(0, "/spec/metrics", json!([metric]))]));
    let expected = end.map(|_| "removed-object");
    assert!(rule_ids(&findings).into_iter().eq(expected), "{findings:?}");
    let messages = findings.iter().map(|one| one.message.as_str());
    assert!(messages.zip(end).all(|(text, end)| text.ends_with(end)), "{findings:?}");
}
