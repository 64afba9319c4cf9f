//! Advice in the messages of findings.

use super::*;

#[test]
fn autoscalers_of_both_apis_are_named_with_their_api() {
    let mut other = manifests().remove(0);
    other["apiVersion"] = json!(hpa_calc::crd::API_VERSION);
    let findings = lint(manifests_and(other));
    assert_eq!(rule_ids(&findings), ["shared-target"; 2]);
    let effect = "with one controller for both APIs (--autoscaler-api=both), the autoscalers stop \
                  scaling it by metrics or overwrite each other's replicas; with two controllers, \
                  they overwrite each other's replicas. Keep one autoscaler";
    let others = [(hpa_calc::crd::API_VERSION, 3), ("autoscaling/v2", 1)];
    for (finding, (api, line)) in findings.iter().zip(others) {
        let expected = format!(
            "Deployment web is also the target of shop/web ({api}) at f.yaml:{line}: {effect}"
        );
        assert_eq!(finding.message, expected);
    }
}

#[test]
fn scaled_object_conflicts_with_an_autoscaler_of_either_api() {
    let mut objects = manifests_and(json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "scaleTargetRef": { "name": "web" } },
    }));
    let message = |objects: &[Value]| lint(objects.to_vec()).remove(0).message;
    let effect = "KEDA creates an autoscaler for it: the autoscalers stop scaling it by metrics \
                  (AmbiguousSelector) or overwrite each other's replicas";
    assert!(message(&objects).ends_with(effect));
    objects[0]["apiVersion"] = json!(hpa_calc::crd::API_VERSION);
    let text = message(&objects);
    let start =
        "KEDA creates an autoscaling/v2 autoscaler for it: with one controller for both APIs";
    assert!(text.contains(start), "{text}");
}

#[test]
fn autoscaler_in_two_versions_is_not_a_shared_target() {
    let mut other = manifests().remove(0);
    other["apiVersion"] = json!("autoscaling/v1");
    other["spec"]["metrics"] = Value::Null;
    other["spec"]["behavior"] = Value::Null;
    assert_eq!(rule_ids(&lint(manifests_and(other))), ["duplicate-object"]);
}

#[test]
fn autoscaler_of_another_workload_and_api_is_named_with_its_api() {
    let mut objects =
        manifests_and(workload("Deployment", "canary", json!({ "app": "web", "t": "c" })));
    objects.push(other_autoscaler("canary"));
    objects[3]["apiVersion"] = json!(hpa_calc::crd::API_VERSION);
    objects[3]["spec"]["metrics"] = Value::Null;
    let findings = lint(objects);
    assert_eq!(rule_ids(&findings), ["overlapping-selectors"]);
    let expected = format!(
        "Deployment canary is the target of the autoscaler shop/other ({}), so a controller of \
         both APIs (--autoscaler-api=both) scales by neither autoscaler",
        hpa_calc::crd::API_VERSION
    );
    assert!(findings[0].message.contains(&expected), "{}", findings[0].message);
}

#[rstest]
#[case::missing(
    json!({}),
    "prometheus",
    "the label that names the collector is missing, so nothing reads rps: set type: prometheus"
)]
#[case::empty(json!({ "type": "" }), "prometheus", "the label that names the collector is missing")]
#[case::misspelled(
    json!({ "type": "promethius" }),
    "promethius",
    "there is no collector \"promethius\", so nothing reads rps: set type: prometheus"
)]
#[case::unknown(
    json!({ "type": "kafka" }),
    "kafka",
    "there is no collector \"kafka\", so nothing reads rps: set it to one of prometheus, \
     prometheus-query, requests-per-second, "
)]
fn unknown_collector_type_is_reported_with_advice(
    #[case] labels: Value,
    #[case] annotated: &str,
    #[case] expected: &str,
) {
    let name = format!("metric-config.external.rps.{annotated}/query");
    let metric = json!({ "name": "rps", "selector": { "matchLabels": labels } });
    let findings = lint(manifests_with(&[
        (0, "/metadata/annotations", json!({ name: "sum(x)" })),
        (0, "/spec/metrics", external_metric(metric)),
    ]));
    assert_eq!(rule_ids(&findings), ["metric-config"], "{findings:?}");
    assert_eq!(findings[0].field, "spec.metrics[0].external.metric.selector.matchLabels.type");
    assert!(findings[0].message.starts_with(expected), "{}", findings[0].message);
}

#[test]
fn selector_of_a_replication_controller_is_a_map() {
    let labels = json!({ "app": "web" });
    let mut objects = manifests_and(workload("Deployment", "api", json!({ "app": "api" })));
    objects[0]["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "v1", "kind": "ReplicationController", "name": "web" });
    objects[1]["apiVersion"] = json!("v1");
    objects[1]["kind"] = json!("ReplicationController");
    objects[1]["spec"]["selector"] = labels.clone();
    assert_eq!(rule_ids(&lint(objects.clone())), [""; 0]);
    objects.push(workload("Deployment", "canary", labels));
    let findings = lint(objects);
    assert_eq!(rule_ids(&findings), ["overlapping-selectors"]);
    assert!(findings[0].message.contains("the selector app=web of"), "{}", findings[0].message);
}

/// The message about an autoscaler of 0 to 10 replicas with policies of these types in `scaleUp`.
fn stuck_scale_up_message(select_policy: &str, policy_types: &[&str]) -> String {
    let policy =
        |policy_type: &&str| json!({ "type": policy_type, "value": 4, "periodSeconds": 15 });
    let policies: Vec<Value> = policy_types.iter().map(policy).collect();
    let findings = lint(manifests_with(&[
        (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION)),
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", external_metric(json!({ "name": "q" }))),
        (0, UP, json!({ "selectPolicy": select_policy, "policies": policies })),
    ]));
    assert_eq!(rule_ids(&findings), ["stuck-scale-up"]);
    findings[0].message.clone()
}

#[test]
fn advice_about_a_stuck_scale_up_depends_on_the_policies() {
    assert!(stuck_scale_up_message("Max", &["Percent"]).ends_with("Add a policy of type Pods"));
    let message = stuck_scale_up_message("Min", &["Percent", "Pods"]);
    assert!(message.ends_with("Remove the policies of type Percent, or select Max"), "{message}");
    let message = stuck_scale_up_message("Min", &["Percent"]);
    assert!(message.ends_with("Use policies of type Pods only"), "{message}");
}

#[rstest]
#[case::cores("cpu", "500", "500 means 500 cores for each pod: did you mean 500m?")]
#[case::thousands_of_cores("cpu", "1k", "1k means 1k cores for each pod")]
#[case::bytes("memory", "400m", "400m of memory is 0.4 bytes: did you mean 400Mi?")]
#[case::no_suffix("memory", "512", "512 of memory is 512 bytes: did you mean 512Mi?")]
#[case::kilobyte("memory", "1k", "1k of memory is 1000 bytes")]
fn suggested_quantity_is_valid(#[case] resource: &str, #[case] value: &str, #[case] message: &str) {
    let target = json!({ "type": "AverageValue", "averageValue": value });
    let source = json!({ "name": resource, "target": target });
    let findings = lint(manifests_with(&[(0, "/spec/metrics/0/resource", source)]));
    assert_eq!(rule_ids(&findings), ["implausible-quantity"]);
    assert_eq!(findings[0].message, message);
}

#[test]
fn misspelled_field_is_reported_without_its_consequences() {
    let changes = [(0, "/spec/maxReplicas", Value::Null), (0, "/spec/maxReplica", json!(10))];
    let findings = lint(manifests_with(&changes));
    assert_eq!(rule_ids(&findings), ["unknown-field"], "{findings:?}");
    assert!(findings[0].message.contains("did you mean maxReplicas?"), "{findings:?}");
}

#[rstest]
#[case::removed_version(
    &[(0, "/apiVersion", json!("autoscaling/v2beta2"))],
    "autoscaling/v2beta2 was removed in Kubernetes 1.26: run hpa convert --to core "
)]
#[case::other_namespace(
    &[(1, "/metadata/namespace", json!("bank"))],
    ") is in namespace bank, and the autoscaler is in namespace shop"
)]
#[case::old_group(
    &[(0, "/spec/scaleTargetRef/apiVersion", json!("extensions/v1beta1"))],
    "the group extensions has no Deployment that can be scaled: use apps/v1"
)]
#[case::lower_case(
    &[(0, KIND, json!("deployment"))],
    "there is no kind deployment: use Deployment"
)]
fn finding_says_what_to_write_instead(
    #[case] changes: &[(usize, &str, Value)],
    #[case] text: &str,
) {
    let findings = lint(manifests_with(changes));
    assert!(findings.iter().any(|one| one.message.contains(text)), "{findings:#?}");
}

#[test]
fn standard_input_is_piped_and_not_named_in_a_command() {
    let text = YAML.replace("autoscaling/v2", "autoscaling/v2beta2");
    let message = lint_file("-", &text).remove(0).message;
    let expected = "was removed in Kubernetes 1.26: pipe it through hpa convert --to core";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn names_of_files_in_commands_are_quoted() {
    let text = YAML.replace("autoscaling/v2", "autoscaling/v2beta2");
    for name in ["'; rm -rf x", "$(x)", "a\nb", "-x y.yaml"] {
        let message = lint_file(name, &text).remove(0).message;
        let command = format!("run hpa convert --to core {}", quote(name));
        assert!(message.ends_with(&command), "{message}");

        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("kustomization.yaml"), "resources: []").unwrap();
        let command = kustomize_command(folder.join("hpa.yaml").to_str().unwrap(), "hpa lint");
        let folder = quote(folder.to_str().unwrap());
        assert_eq!(command, format!("kustomize build {folder} | hpa lint -"));
        assert!(folder.starts_with('\''), "{folder}");
    }
}

/// An autoscaler with the external metric `lag`, a target of type `Value`, and these labels and
/// annotations.
fn workspace_with_lag(labels: Value, annotations: Value) -> Workspace {
    let metric = json!([{ "type": "External", "external": {
        "metric": { "name": "lag", "selector": { "matchLabels": labels } },
        "target": { "type": "Value", "value": "5" },
    } }]);
    let changes = [(0, "/metadata/annotations", annotations), (0, "/spec/metrics", metric)];
    Workspace::from_manifests(numbered(manifests_with(&changes)))
}

#[rstest]
#[case::counter(
    "counter-without-rate",
    "sum(lag_total)",
    "sum(rate(lag_total[5m]))",
    "reads lag_total without rate(): "
)]
#[case::quantile(
    "quantile-without-le",
    "histogram_quantile(0.9, sum(rate(lag_bucket[5m])))",
    "histogram_quantile(0.9, sum by (le) (rate(lag_bucket[5m])))",
    "has no result: sum drops the label `le` "
)]
fn mistake_in_the_query_of_an_annotation_is_reported(
    #[case] id: &str,
    #[case] query: &str,
    #[case] correct: &str,
    #[case] start: &str,
) {
    let lint = |query: &str| {
        let annotations = json!({ "metric-config.external.lag.prometheus/query": query });
        find_violations(&workspace_with_lag(json!({ "type": "prometheus" }), annotations))
    };
    let findings = lint(query);
    assert_eq!(rule_ids(&findings), [id], "{findings:?}");
    let start = format!("the query of the annotation {start}");
    assert!(findings[0].message.starts_with(&start), "{findings:?}");
    assert!(lint(correct).is_empty());
}

#[rstest]
#[case::counter(
    QueryMistake::PlainCounter,
    "counter-without-rate",
    "the query of the rule reads a series without rate(): "
)]
#[case::quantile(
    QueryMistake::QuantileWithoutLe,
    "quantile-without-le",
    "the query of the rule has no result: an aggregation drops the label `le` "
)]
fn mistake_in_the_query_of_a_rule_is_reported(
    #[case] mistake: QueryMistake,
    #[case] id: &str,
    #[case] start: &str,
) {
    let mut workspace = workspace_with_lag(json!({}), json!({}));
    workspace.served = Some(served_with_mistake(mistake));
    let findings = find_violations(&workspace);
    assert_eq!(rule_ids(&findings), [id], "{findings:?}");
    assert!(findings[0].message.starts_with(start), "{findings:?}");
}
