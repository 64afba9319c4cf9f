//! Findings about annotations.

use super::*;

#[rstest]
#[case::letter("paused", "Did you mean autoscaling.hpa-rs.dev/pause?")]
#[case::field("maxSampleAge", "Did you mean autoscaling.hpa-rs.dev/max-sample-age?")]
#[case::part("stabilization", "Did you mean autoscaling.hpa-rs.dev/downscale-stabilization?")]
#[case::nearest("forecasts", "Did you mean autoscaling.hpa-rs.dev/forecast?")]
#[case::unknown("owner", "Those of autoscaling.hpa-rs.dev are pause, dry-run, ")]
fn unknown_annotation_names_the_similar_one_or_all(#[case] name: &str, #[case] hint: &str) {
    let findings = lint(manifests_with(&[(0, "/metadata/annotations", annotation(name, "true"))]));
    let expected = format!("there is no such annotation: its value \"true\" is ignored. {hint}");
    assert!(findings[0].message.starts_with(&expected), "{}", findings[0].message);
}

#[rstest]
#[case::refused(json!(1), "pause", "yes")]
#[case::of_another_type(json!("many"), "pause", "yes")]
#[case::raised(json!("many"), "sync-period", "1s")]
fn values_of_annotations_of_an_invalid_autoscaler_are_reported(
    #[case] max_replicas: Value,
    #[case] name: &str,
    #[case] value: &str,
) {
    let findings = lint(manifests_with(&[
        (0, "/spec/maxReplicas", max_replicas),
        (0, "/metadata/annotations", annotation(name, value)),
    ]));
    let mut ids = rule_ids(&findings);
    ids.sort_unstable();
    assert_eq!(ids, ["invalid", "invalid-annotation"], "{findings:?}");
}

#[test]
fn setting_that_behavior_overrides_has_no_effect() {
    let rules = json!({ "scaleDown": { "stabilizationWindowSeconds": 120 } });
    let findings = lint(manifests_with(&[
        (0, "/spec/behavior", rules),
        (0, "/metadata/annotations", annotation("downscale-stabilization", "30s")),
    ]));
    let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
    let expected =
        "has no effect: spec.behavior.scaleDown.stabilizationWindowSeconds has precedence";
    assert!(messages.contains(&expected), "{messages:?}");
}

#[test]
fn convert_has_no_warning_of_settings_that_the_writer_of_the_status_ignores() {
    let fields = json!([{ "manager": "kube-controller-manager", "subresource": "status" }]);
    let written = (0, "/metadata/managedFields", fields);
    let paused = (0, "/metadata/annotations", annotation("pause", "true"));
    let objects = manifests_with(&[written.clone(), paused]);
    let findings = lint(objects.clone());
    let end = "it has an effect only if hpa-rs handles the autoscaler";
    assert!(findings[0].message.ends_with(end), "{}", findings[0].message);
    let dry_run = (0, "/metadata/annotations", annotation("dry-run", "true"));
    assert!(lint(manifests_with(&[written, dry_run])).is_empty(), "as docs/shadow-mode.md advises");
    let manifests = objects.into_iter().map(|object| Manifest::new("f.yaml", 1, object));
    assert_eq!(conversion_warnings(manifests.collect()), [""; 0]);
}

#[rstest]
#[case::setting("json-path/intervall: 30s", "json-path/intervall")]
#[case::interval("json-path/interval: soon", "json-path/interval")]
#[case::two("json-path/json-eval: ceil($.x)", "json-path/json-eval")]
#[case::timeout("json-path/request-timeout: soon", "json-path/request-timeout")]
fn mistake_in_an_annotation_of_a_collector_has_its_line(#[case] line: &str, #[case] name: &str) {
    let start = "metric-config.pods.rps.";
    let annotations = format!(
        "  annotations:\n    {start}{line}\n    {start}json-path/json-key: $.x\n    {start}\
         json-path/port: \"9090\"\n"
    );
    let metric = "  metrics:\n  - type: Pods\n    pods:\n      metric: {name: rps}\n      \
                  target: {type: AverageValue, averageValue: 5}\n";
    let text = YAML.replace("spec:\n", &format!("{annotations}spec:\n")) + metric;
    let sound = text.replace(&format!("    {start}{line}\n"), "");
    assert!(lint_yaml(&sound).is_empty(), "{:?}", lint_yaml(&sound));
    let [finding] = lint_yaml(&text).try_into().unwrap_or_else(|all| panic!("{all:?}"));
    let field = format!("metric-config metadata.annotations[{start}{name}]");
    assert!(finding.ends_with(&field), "{finding}");
    let at = finding.split(' ').next().unwrap().parse::<usize>().unwrap();
    assert!(text.lines().nth(at - 1).unwrap().contains(name), "{finding}");
}

#[rstest]
#[case::syntax("rps", "type: prometheus", "query", "rate(web-requests[1m])")]
#[case::legacy("prometheus-query", "query-name: rate", "rate", "rate(web-requests[1m])")]
#[case::wrong_name("prometheus-query", "query-name: rat", "rate", "rate(web_requests[1m])")]
fn mistake_in_the_query_of_a_collector_has_the_line_of_the_query(
    #[case] metric: &str,
    #[case] label: &str,
    #[case] key: &str,
    #[case] query: &str,
) {
    let start = format!("metric-config.external.{metric}.prometheus");
    let annotations =
        format!("  annotations:\n    {start}/interval: 30s\n    {start}/{key}: {query}\n");
    let metric = format!(
        "  metrics:\n  - type: External\n    external:\n      metric: {{name: {metric}, selector: \
         {{matchLabels: {{{label}}}}}}}\n      target: {{type: AverageValue, averageValue: 5}}\n"
    );
    let text = YAML.replace("spec:\n", &format!("{annotations}spec:\n")) + &metric;
    assert_eq!(lint_yaml(&text), [format!("7 metric-config metadata.annotations[{start}/{key}]")]);
}

#[test]
fn metric_without_the_annotations_that_its_collector_needs_has_its_line() {
    let metric = |name: &str| {
        let selector = "selector: {matchLabels: {type: prometheus}}";
        format!(
            "  - type: External\n    external:\n      metric: {{name: {name}, {selector}}}\n      \
             target: {{type: AverageValue, averageValue: 5}}\n"
        )
    };
    let annotation = "  annotations:\n    metric-config.external.a.prometheus/query: sum(x)\n";
    let text = YAML.replace("spec:\n", &format!("{annotation}spec:\n"))
        + "  metrics:\n"
        + &metric("a")
        + &metric("ab");
    let findings = lint_yaml(&text);
    let line = text.lines().count() - 2;
    assert_eq!(findings, [format!("{line} metric-config spec.metrics[1].external")]);
    let message = &lint_file("f.yaml", &text)[0].message;
    assert!(message.starts_with("External/ab {type=prometheus}: "), "{message}");
}

#[test]
fn metrics_of_one_name_are_distinguished_by_their_selectors() {
    let metric = |identifier: &str| {
        format!(
            "  - type: External\n    external:\n      metric: {{{identifier}}}\n      target: \
             {{type: AverageValue, averageValue: 5}}\n"
        )
    };
    let annotation = "  annotations:\n    metric-config.external.a.prometheus/query: sum(x)\n";
    let text = YAML.replace("spec:\n", &format!("{annotation}spec:\n"))
        + "  metrics:\n"
        + &metric("name: a, selector: {matchLabels: {type: prometheus}}")
        + &metric("name: b")
        + &metric("name: b, selector: {matchLabels: {type: prometheus}}");
    let mut findings = lint_yaml(&text);
    findings.retain(|finding| finding.contains(" metric-config "));
    let line = text.lines().count() - 2;
    assert_eq!(findings, [format!("{line} metric-config spec.metrics[2].external")]);
}

#[test]
fn annotation_of_an_unknown_type_has_its_line() {
    let name = "metric-config.pod.rps.json-path/json-key";
    let text = YAML.replace("spec:\n", &format!("  annotations:\n    {name}: $.x\nspec:\n"));
    let mut findings = lint_yaml(&text);
    findings.retain(|finding| finding.contains(" metric-config "));
    assert_eq!(findings, [format!("6 metric-config metadata.annotations[{name}]")]);
}
