//! Findings about fields and values that the API server refuses or drops.

use super::*;

#[rstest]
#[case::refused(&[(0, "/spec/maxReplicas", json!(1))], "spec.maxReplicas")]
#[case::of_another_type(&[(0, "/spec/maxReplicas", json!("many"))], "spec.maxReplicas")]
#[case::bad_quantity(
    &[(0, TARGET, json!({ "type": "AverageValue", "averageValue": "5 00" }))],
    "spec.metrics[0].resource.target.averageValue"
)]
#[case::annotation_without_quotes(
    &[(0, "/metadata/annotations", json!({ "autoscaling.hpa-rs.dev/pause": true }))],
    "metadata.annotations[autoscaling.hpa-rs.dev/pause]"
)]
#[case::annotation_key(
    &[(0, "/metadata/annotations", json!({ "metric-config.external.a_b.prometheus/query": "1" }))],
    "metadata.annotations[metric-config.external.a_b.prometheus/query]"
)]
#[case::label_value(&[(0, "/metadata/labels", json!({ "a.b": "c d" }))], "metadata.labels[a.b]")]
#[case::time_out_of_range(
    &[(0, "/status", json!({ "lastScaleTime": "9999-12-31T23:59:59Z" }))],
    "status.lastScaleTime"
)]
fn invalid_autoscaler_has_errors_and_no_advice(
    #[case] changes: &[(usize, &str, Value)],
    #[case] field: &str,
) {
    let findings = lint(manifests_with(changes));
    assert_eq!(rule_ids(&findings), ["invalid"]);
    assert_eq!((findings[0].rule.severity, &*findings[0].field), (Severity::Error, field));
}

#[test]
fn null_in_a_required_field_is_an_error() {
    let findings = lint(manifests_with(&[(0, "/spec/maxReplicas", Value::Null)]));
    let errors: Vec<_> =
        findings.iter().map(|one| (one.field.as_str(), one.message.as_str())).collect();
    let required = ("spec.maxReplicas", "Required value: must be set and greater than 0");
    // The API server reports this one first.
    assert_eq!(errors.first(), Some(&required), "{errors:?}");
    assert!(errors.iter().all(|(field, _)| *field == required.0), "{errors:?}");
}

#[test]
fn owner_without_uid_is_an_error() {
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": "n" });
    let mut complete = owner.clone();
    complete["uid"] = "u".into();
    let owners = json!([complete, owner]);
    let objects = manifests_with(&[(0, "/metadata/ownerReferences", owners)]);
    let findings = lint(objects);
    let errors = findings.iter().filter(|finding| finding.rule.severity == Severity::Error);
    let fields: Vec<_> = errors.map(|finding| finding.field.as_str()).collect();
    assert_eq!(fields, ["metadata.ownerReferences[1].uid"]);
}

#[test]
fn owner_with_a_value_that_is_no_string_is_an_error() {
    let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": false, "uid": 1 });
    let changes = [(0, "/metadata/ownerReferences", json!([owner]))];
    let messages: Vec<_> =
        lint(manifests_with(&changes)).into_iter().map(|one| one.message).collect();
    assert_eq!(messages, ["must be a string, is false", "must be a string, is 1"]);
}

#[rstest]
#[case::none(json!({ "namespace": "shop" }), "shop/(no name)")]
#[case::generated(json!({ "generateName": "web-" }), "web-")]
fn autoscaler_without_a_name_has_a_text_for_it(#[case] metadata: Value, #[case] expected: &str) {
    let max = (0, "/spec/maxReplicas", json!(1));
    let findings = lint(manifests_with(&[(0, "/metadata", metadata), max]));
    assert!(!findings.is_empty(), "an error about maxReplicas");
    assert!(findings.iter().all(|one| one.autoscaler == expected), "{findings:?}");
}

/// The sorted words of a message, because the API server lists enumerated values in any order.
fn sorted_words(message: &str) -> String {
    let mut words: Vec<&str> = message.split([' ', ',']).collect();
    words.sort_unstable();
    words.join(" ")
}

#[test]
fn errors_equal_those_of_the_api_server() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/hpa_admission.jsonl.gz");
    let file = std::fs::File::open(path).expect("the recorded admissions");
    let lines = std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("text");
    let mut checked = 0;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let object = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web" }, "spec": line["input"],
        });
        let mut errors: Vec<_> = lint(vec![object])
            .into_iter()
            .filter(|finding| finding.rule.severity == Severity::Error)
            .map(|finding| (finding.field, sorted_words(&finding.message)))
            .collect();
        let text = |cause: &Value, name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let words = |cause: &Value, name: &str| sorted_words(&text(cause, name));
        let causes = line["causes"].as_array().into_iter().flatten();
        let mut expected: Vec<_> =
            causes.map(|cause| (text(cause, "field"), words(cause, "message"))).collect();
        errors.sort();
        expected.sort();
        // Lint reports each mistake once.
        expected.dedup();
        assert_eq!(errors, expected, "{line}");
        checked += 1;
    }
    assert_eq!(checked, 400);
}

#[test]
fn lost_value_of_a_duplicate_key_is_named() {
    let text = format!("{YAML}  minReplicas: 3\n");
    assert_eq!(lint_yaml(&text), ["10 duplicate-key spec.minReplicas"]);
    let expected = "occurs twice: kubectl takes the value in line 12 and drops this one: 2";
    assert_eq!(lint_file("f.yaml", &text)[0].message, expected);
}

#[test]
fn older_version_is_checked_as_v2_and_reported_if_removed() {
    let metrics = "  metrics:\n  - type: Resource\n    resource:\n      name: cpu\n";
    let old = format!("{YAML}{metrics}      targetAverageUtilization: 150\n");
    let old = old.replace("autoscaling/v2", "autoscaling/v2beta1");
    let above = "spec.metrics[0].resource.target.averageUtilization";
    assert_eq!(
        lint_yaml(&old),
        ["1 removed-version apiVersion".to_owned(), format!("14 target-above-request {above}")]
    );
    let new =
        format!("{YAML}{metrics}      target: {{type: Utilization, averageUtilization: 150}}\n");
    let new = new.replace("autoscaling/v2", "autoscaling/v2beta2");
    assert_eq!(
        lint_yaml(&new),
        ["1 removed-version apiVersion".to_owned(), format!("16 target-above-request {above}")]
    );
    let v1 = new.replace("v2beta2", "v1");
    assert_eq!(lint_yaml(&v1), ["12 unknown-field spec.metrics"]);
    let v1 =
        YAML.replace("autoscaling/v2", "autoscaling/v1") + "  targetCPUUtilizationPercentage: 70\n";
    assert!(lint_yaml(&v1).is_empty(), "{:?}", lint_yaml(&v1));
}

#[test]
fn fields_of_v2beta1_in_v2_are_reported_without_their_consequences() {
    let metrics = "  metrics:\n  - type: Resource\n    resource:\n      name: cpu\n      \
                   targetAverageUtilization: 80\n  - type: Pods\n    pods:\n      metricName: \
                   q\n      targetAverageValue: 10\n  - type: Object\n    object:\n      target: \
                   {kind: Service, name: s}\n      metricName: q\n      targetValue: 5\n";
    let text = format!("{YAML}{metrics}");
    let object = "unknown-field spec.metrics[2].object";
    assert_eq!(
        lint_yaml(&text),
        [
            "16 unknown-field spec.metrics[0].resource.targetAverageUtilization".to_owned(),
            "19 unknown-field spec.metrics[1].pods.metricName".to_owned(),
            "20 unknown-field spec.metrics[1].pods.targetAverageValue".to_owned(),
            format!("23 {object}.target.kind"),
            format!("23 {object}.target.name"),
            format!("24 {object}.metricName"),
            format!("25 {object}.targetValue"),
        ]
    );
    let expected = "this is a field of autoscaling/v2beta1. In v2, write target: {type: \
                    Utilization, averageUtilization: N}";
    assert_eq!(lint_file("f.yaml", &text)[0].message, expected);
}

#[test]
fn percentage_of_v1_is_reported_at_its_field() {
    let v1 = YAML.replace("autoscaling/v2", "autoscaling/v1");
    let field = "spec.targetCPUUtilizationPercentage";
    for (percent, rule) in [("-5", "invalid"), ("800", "target-above-request"), ("a", "invalid")] {
        let text = format!("{v1}  targetCPUUtilizationPercentage: {percent}\n");
        assert_eq!(lint_yaml(&text), [format!("12 {rule} {field}")]);
    }
    // In v2, it is unknown.
    let text = format!("{YAML}  targetCPUUtilizationPercentage: 80\n");
    assert_eq!(lint_yaml(&text), [format!("12 unknown-field {field}")]);
}

/// In v1, the API server doesn't set the defaults of v2.
#[test]
fn behavior_of_v1_needs_policies() {
    let annotation = "autoscaling.alpha.kubernetes.io/behavior";
    let yaml = |behavior: &str| {
        YAML.replace("autoscaling/v2", "autoscaling/v1").replace(
            "  name: web\nspec:\n",
            &format!("  name: web\n  annotations:\n    {annotation}: '{behavior}'\nspec:\n"),
        )
    };
    let without = yaml(r#"{"scaleDown":{"stabilizationWindowSeconds":60}}"#);
    let field = format!("metadata.annotations[{annotation}].ScaleDown.Policies");
    assert_eq!(lint_yaml(&without), [format!("6 invalid {field}")]);
    let expected = "Required value: must specify at least one Policy. autoscaling/v1 has no \
                    default policies. To add them, run hpa convert --to core f.yaml";
    assert_eq!(lint_file("f.yaml", &without)[0].message, expected);
    let policies = r#"[{"type":"Percent","value":10,"periodSeconds":60}]"#;
    let with = yaml(&format!(r#"{{"scaleDown":{{"policies":{policies}}}}}"#));
    assert!(lint_yaml(&with).is_empty(), "{:?}", lint_yaml(&with));
}

#[test]
fn metrics_and_behavior_of_v1_are_reported_at_their_annotations() {
    let prefix = "autoscaling.alpha.kubernetes.io";
    let metrics =
        r#"[{"type":"Resource","resource":{"name":"cpu","targetAverageUtilization":-5}}]"#;
    let policies = r#"[{"Type":"Pods","Value":1,"PeriodSeconds":60}]"#;
    let behavior =
        format!(r#"{{"ScaleDown":{{"StabilizationWindowSeconds":-3,"Policies":{policies}}}}}"#);
    let v1 = YAML.replace("autoscaling/v2", "autoscaling/v1").replace(
        "  name: web\nspec:\n",
        &format!(
            "  name: web\n  annotations:\n    {prefix}/metrics: '{metrics}'\n    \
             {prefix}/behavior: '{behavior}'\nspec:\n"
        ),
    );
    let path = format!("metadata.annotations[{prefix}");
    assert_eq!(
        lint_yaml(&v1),
        [
            format!("6 invalid {path}/metrics][0].resource.targetAverageUtilization"),
            format!("7 invalid {path}/behavior].ScaleDown.StabilizationWindowSeconds"),
        ]
    );
}

#[rstest]
#[case("HorizontalPodAutoscalar")]
#[case("horizontalpodautoscaler")]
#[case("HPA")]
fn misspelled_kind_is_reported(#[case] kind: &str) {
    let text = YAML.replace("HorizontalPodAutoscaler", kind);
    assert_eq!(lint_yaml(&text), ["2 unknown-kind kind"]);
}

#[rstest]
#[case("apps/v1", true)]
#[case("autoscaling/v3", true)]
#[case("v2", true)]
#[case("autoscaling.karmada.io/v1", false)]
fn unknown_version_is_reported(#[case] version: &str, #[case] is_reported: bool) {
    let findings = lint_yaml(&YAML.replace("autoscaling/v2", version));
    assert_eq!(findings == ["1 unknown-kind apiVersion"], is_reported, "{findings:?}");
}

#[test]
fn patch_has_a_single_finding() {
    let patch = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  \
                 name: web\nspec:\n  maxReplicas: 9\n";
    assert_eq!(lint_yaml(patch), ["5 invalid spec.scaleTargetRef"]);
    let directive = YAML.replace("spec:\n", "spec:\n  $patch: replace\n");
    assert_eq!(lint_yaml(&directive), ["6 invalid spec.$patch"]);
}
