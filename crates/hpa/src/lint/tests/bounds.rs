//! Findings about bounds and tolerances.

use super::*;

/// An autoscaler of the core API with `minReplicas: 0` and an external metric, with changes.
fn scaled_to_zero(changes: &[(usize, &str, Value)]) -> Vec<Value> {
    let mut all = vec![
        (0, "/spec/minReplicas", json!(0)),
        (0, "/spec/metrics", external_metric(json!({ "name": "q" }))),
        (0, "/spec/behavior", Value::Null),
    ];
    all.extend(changes.iter().cloned());
    manifests_with(&all)
}

#[rstest]
#[case::core(&[], true)]
#[case::older_core(
    &[(0, "/apiVersion", json!("autoscaling/v1")), (0, "/spec/metrics", Value::Null)],
    false
)]
#[case::custom(&[(0, "/apiVersion", json!(hpa_calc::crd::API_VERSION))], false)]
#[case::one(&[(0, "/spec/minReplicas", json!(1))], false)]
#[case::stored(&[(0, "/metadata/uid", json!("u"))], false)]
fn zero_minimum_in_a_core_manifest_is_noted(
    #[case] changes: &[(usize, &str, Value)],
    #[case] is_noted: bool,
) {
    let findings = lint(scaled_to_zero(changes));
    let notes: Vec<_> = findings.iter().filter(|one| one.rule.id == "scale-to-zero").collect();
    assert_eq!(!notes.is_empty(), is_noted, "{findings:?}");
    for note in notes {
        assert_eq!((note.rule.severity, &*note.field), (Severity::Note, "spec.minReplicas"));
        assert!(note.message.contains("Kubernetes 1.37"), "{}", note.message);
        assert!(note.message.contains("HPAScaleToZero"), "{}", note.message);
    }
}

#[test]
fn zero_in_a_cluster_is_not_reported() {
    let served = ServedMetrics {
        groups: string_set(&["external.metrics.k8s.io"]),
        ..ServedMetrics::default()
    };
    assert_eq!(rule_ids(&find_violations(&in_cluster(scaled_to_zero(&[]), served))), [""; 0]);
}

fn entry(start: &str, end: &str, bounds: Value) -> Value {
    let mut entry = bounds;
    entry["start"] = json!(start);
    entry["end"] = json!(end);
    entry
}

/// The messages of `raised-maximum` for an autoscaler of 2 to 10 replicas with scheduled bounds.
fn raised_maximum_messages(entries: Value) -> Vec<String> {
    let annotation = annotation("bounds", &entries.to_string());
    let findings = lint(manifests_with(&[(0, "/metadata/annotations", annotation)]));
    assert!(rule_ids(&findings).iter().all(|id| *id == "raised-maximum"), "{findings:?}");
    let field = "metadata.annotations[autoscaling.hpa-rs.dev/bounds]";
    assert!(findings.iter().all(|one| one.field == field), "{findings:?}");
    findings.into_iter().map(|one| one.message).collect()
}

#[test]
fn entry_that_raises_the_maximum_is_reported() {
    let day = entry("08:00", "20:00", json!({ "minReplicas": 8 }));
    assert_eq!(raised_maximum_messages(json!([day])), [""; 0]);
    let peak = entry("12:00", "14:00", json!({ "minReplicas": 30 }));
    assert_eq!(
        raised_maximum_messages(json!([day, peak])),
        ["[1].minReplicas is 30, above spec.maxReplicas, which is 10: while both hold, \
             maxReplicas is raised to 30"]
    );
    let with_maximum = entry("12:00", "14:00", json!({ "minReplicas": 30, "maxReplicas": 40 }));
    assert_eq!(raised_maximum_messages(json!([day, with_maximum])), [""; 0]);
    let high = entry("11:00", "15:00", json!({ "maxReplicas": 40 }));
    assert_eq!(raised_maximum_messages(json!([peak, high])), [""; 0]);
}

#[test]
fn low_maximum_that_a_minimum_raises_is_reported() {
    let night = entry("22:00", "05:00", json!({ "maxReplicas": 1 }));
    assert_eq!(
        raised_maximum_messages(json!([night])),
        ["spec.minReplicas is 2, above [0].maxReplicas, which is 1: while both hold, \
          maxReplicas is raised to 2"]
    );
    let evening = entry("20:00", "23:00", json!({ "minReplicas": 6 }));
    let night = entry("22:00", "05:00", json!({ "maxReplicas": 4 }));
    let messages = raised_maximum_messages(json!([evening, night]));
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(messages[0].contains("is 6, above [1].maxReplicas, which is 4"), "{messages:?}");
}

#[test]
fn schedule_that_fixes_the_size_is_named_as_the_cause() {
    let all_day = entry("00:00", "00:00", json!({ "minReplicas": 10 }));
    let annotation = annotation("bounds", &json!([all_day]).to_string());
    let findings = lint(manifests_with(&[(0, "/metadata/annotations", annotation)]));
    let found = findings.iter().find(|finding| finding.message.contains("never scales"));
    let found = found.expect("a finding");
    assert_eq!(found.field, "metadata.annotations[autoscaling.hpa-rs.dev/bounds]");
    let start = "by the schedule, minReplicas and maxReplicas are both 10";
    assert!(found.message.starts_with(start), "{}", found.message);
}

#[test]
fn finding_in_the_custom_api_names_the_entry() {
    let bounds = json!([entry("12:00", "14:00", json!({ "minReplicas": 30 }))]);
    let findings = lint(manifests_with(&[
        (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION)),
        (0, "/spec/bounds", bounds),
    ]));
    assert_eq!(rule_ids(&findings), ["raised-maximum"]);
    assert_eq!(findings[0].field, "spec.bounds[0]");
}

#[rstest]
#[case::default(&[], &["spec.behavior"])]
#[case::annotation(
    &[(0, "/metadata/annotations", annotation("tolerance", "200m"))],
    &["metadata.annotations[autoscaling.hpa-rs.dev/tolerance]"]
)]
#[case::one_each(
    &[(0, "/spec/behavior/scaleUp/tolerance", json!("200m"))],
    &["spec.behavior", "spec.behavior.scaleUp.tolerance"]
)]
fn wide_tolerance_of_one_setting_is_reported_once(
    #[case] changes: &[(usize, &str, Value)],
    #[case] fields: &[&str],
) {
    let mut all = vec![(0, "/spec/minReplicas", json!(10)), (0, "/spec/maxReplicas", json!(11))];
    all.extend(changes.iter().cloned());
    let findings = lint(manifests_with(&all));
    assert!(rule_ids(&findings).iter().all(|id| *id == "wide-tolerance"), "{findings:?}");
    let mut found_fields: Vec<&str> = findings.iter().map(|one| one.field.as_str()).collect();
    found_fields.sort_unstable();
    assert_eq!(found_fields, fields);
}

#[test]
fn unknown_time_zone_in_a_field_is_a_warning_not_an_error() {
    let custom = (0, "/apiVersion", json!(hpa_calc::crd::API_VERSION));
    let mut unknown = entry("08:00", "20:00", json!({ "minReplicas": 5 }));
    unknown["timeZone"] = json!("Europe/Nowhere");
    let findings = lint(manifests_with(&[custom.clone(), (0, "/spec/bounds", json!([unknown]))]));
    assert_eq!(rule_ids(&findings), ["invalid-annotation"], "{findings:?}");
    assert_eq!(
        (findings[0].rule.severity, &*findings[0].field),
        (Severity::Warning, "spec.bounds")
    );
    assert!(findings[0].message.contains("unknown time zone"), "{findings:?}");

    let invalid = entry("25:00", "20:00", json!({ "minReplicas": 5 }));
    let findings = lint(manifests_with(&[custom, (0, "/spec/bounds", json!([unknown, invalid]))]));
    assert_eq!(rule_ids(&findings), ["invalid"], "{findings:?}");
}
