//! Tests of conversions of whole manifests.

use hpa_calc::settings::{SETTINGS, SettingPolicy, Settings};
use serde_json::{Value, json};

use super::{AutoscalerApi, ConvertFormat, convert, lost_comments};

const AUTOSCALER: &str = "\
# Who owns this.
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  namespace: shop
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 5 # enough
";
const CONFIG_MAP: &str = "kind:   ConfigMap\napiVersion: v1\ndata: {a: text} # kept\n";
const NAMESPACE: &str = "kind: Namespace\napiVersion: v1\n";

fn to_custom(text: &str) -> Result<String, String> {
    convert(text, AutoscalerApi::Custom, ConvertFormat::Yaml).map_err(|error| error.to_string())
}

fn parsed(text: &str) -> Value {
    crate::manifests::parse_document(text, 1).expect("YAML")
}

fn to_core(text: &str) -> Result<String, String> {
    convert(text, AutoscalerApi::Core, ConvertFormat::Yaml).map_err(|error| error.to_string())
}

fn custom_object(object: &Value) -> Result<Value, String> {
    let text = convert(&object.to_string(), AutoscalerApi::Custom, ConvertFormat::Json);
    Ok(serde_json::from_str(&text.map_err(|error| error.to_string())?).expect("JSON"))
}

fn autoscaler(api_version: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": "HorizontalPodAutoscaler",
        "metadata": { "name": "web" },
        "spec": spec,
    });
    object["spec"]["scaleTargetRef"] =
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    object
}

#[test]
fn round_trip_changes_only_the_api_version() {
    let converted = to_custom(AUTOSCALER).expect("it converts");
    assert_eq!(converted, AUTOSCALER.replace("autoscaling/v2", hpa_calc::crd::API_VERSION));
    assert_eq!(to_core(&converted).expect("core"), AUTOSCALER);
}

#[test]
fn direction_characters_are_escaped_without_changing_values() {
    for template in [AUTOSCALER, CONFIG_MAP] {
        let text =
            template.replace("spec:\n", "spec: # \u{202e}\n").replace("a: text", "a: \u{200f}x");
        let text = text.replace("name: web\n", "name: web\n  labels: {a: \"b\u{61c}\"}\n");
        let converted = to_custom(&text).expect("it converts");
        assert!(!crate::terminal::needs_escapes(&converted), "{converted}");
        let expected = text.replace("autoscaling/v2", hpa_calc::crd::API_VERSION);
        assert_eq!(parsed(&converted), parsed(&expected));
    }
    assert_eq!(to_custom("a: b\r\n").expect("it converts"), "a: b\r\n");
}

#[test]
fn other_documents_pass_through_byte_for_byte() {
    for stream in [
        CONFIG_MAP.to_owned(),
        format!("---\n{CONFIG_MAP}---\n# nothing\n---\n"),
        format!("{AUTOSCALER}--- # beside\n{CONFIG_MAP}---\n{AUTOSCALER}"),
        format!("---\n{CONFIG_MAP}---\n{AUTOSCALER}").trim_end().to_owned(),
        String::new(),
    ] {
        let expected = stream.replace("autoscaling/v2", hpa_calc::crd::API_VERSION);
        assert_eq!(to_custom(&stream).expect("it converts"), expected);
    }
}

#[test]
fn object_of_the_target_or_a_foreign_api_is_unchanged() {
    let custom = AUTOSCALER.replace("autoscaling/v2", hpa_calc::crd::API_VERSION);
    assert_eq!(to_custom(&custom).expect("it converts"), custom);
    let foreign = AUTOSCALER.replace("autoscaling/v2", "autoscaling.example.com/v2");
    assert_eq!(to_custom(&foreign).expect("foreign"), foreign);
}

#[test]
fn unknown_field_of_an_object_of_the_target_api_is_an_error() {
    let resource = json!({ "name": "cpu", "targetAverageUtilization": 50 });
    let metrics = json!([{ "type": "Resource", "resource": resource }]);
    let object = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5, "metrics": metrics }));
    let error = to_core(&object.to_string()).expect_err("a field of v2beta1");
    let end = "): spec.metrics[0].resource.targetAverageUtilization: unknown field";
    assert!(error.ends_with(end), "{error}");
}

#[test]
fn invalid_setting_of_the_custom_api_has_the_message_of_lint() {
    let target = json!({ "type": "AverageValue", "averageValue": "30" });
    let fallback = json!({ "replicas": 50, "failureDurationSeconds": 1 });
    let external = json!({ "metric": { "name": "queue" }, "target": target, "fallback": fallback });
    let spec = json!({
        "maxReplicas": 5, "syncPeriodSeconds": 1,
        "metrics": [{ "type": "External", "external": external }],
    });
    let object = autoscaler(hpa_calc::crd::API_VERSION, spec);
    let error = to_core(&object.to_string()).expect_err("invalid values");
    let expected = "spec.syncPeriodSeconds: must be a number of seconds from 3 to 3600";
    assert!(error.contains(expected), "{error}");
    assert!(error.contains("spec.metrics[0].external.fallback: "), "{error}");
    assert!(!error.contains("unknown field"), "{error}");
}

#[test]
fn autoscaler_of_a_version_that_does_not_exist_is_a_warning() {
    let unknown = AUTOSCALER.replace("autoscaling/v2", "extensions/v1beta1");
    let input = format!("{AUTOSCALER}---\n{unknown}");
    let parsed = crate::manifests::Input::from_stream("f.yaml", &input);
    let warnings = crate::lint::conversion_warnings(parsed.manifests);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let expected = "\"extensions/v1beta1\" has no HorizontalPodAutoscaler: use autoscaling/v2";
    assert!(warnings[0].ends_with(expected), "{warnings:?}");
}

#[test]
fn key_that_occurs_twice_is_a_warning() {
    let input = format!("{AUTOSCALER}  maxReplicas: 7\n");
    let parsed = crate::manifests::Input::from_stream("f.yaml", &input);
    let warnings = crate::lint::conversion_warnings(parsed.manifests);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("spec.maxReplicas: occurs twice"), "{warnings:?}");
}

#[test]
fn patch_is_refused_with_the_command_that_converts_the_result() {
    let patch = AUTOSCALER.replace("scaleTargetRef", "# scaleTargetRef");
    let error = to_custom(&patch).expect_err("a patch");
    let expected = "spec.scaleTargetRef: Required value: if this is a patch, convert the result: \
                    kustomize build DIRECTORY | hpa convert -";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn status_and_empty_annotations_are_dropped() {
    let mut object = autoscaler(hpa_calc::crd::API_VERSION, json!({ "maxReplicas": 5 }));
    object["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    // Kubernetes up to 1.36 does not know this field and rejects the object.
    object["status"] = json!({ "conditions": [{ "type": "Paused", "observedGeneration": 1 }] });
    let core = to_core(&object.to_string()).expect("it converts");
    assert!(!core.contains("status") && !core.contains("annotations"), "{core}");
}

#[test]
fn server_state_of_the_target_api_is_dropped() {
    let status = "status: {currentReplicas: 2}\n";
    let read =
        AUTOSCALER.replace("metadata:\n", "metadata:\n  uid: u\n  resourceVersion: '7'\n") + status;
    let core = to_core(&read).expect("it converts");
    assert_eq!(parsed(&core), parsed(AUTOSCALER));
}

#[test]
fn fractions_are_quoted_for_the_custom_api() {
    let behavior = json!({ "scaleUp": { "tolerance": 0.05 } });
    let object = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5, "behavior": behavior }));
    let converted = custom_object(&object).expect("it converts");
    assert_eq!(converted["spec"]["behavior"]["scaleUp"]["tolerance"], "0.05");
}

#[test]
fn server_set_metadata_is_dropped() {
    let mut object = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5 }));
    object["metadata"] = json!({
        "name": "web", "uid": "u", "resourceVersion": "7", "generation": 2, "managedFields": [],
        "creationTimestamp": null, "labels": { "a": "b" },
        "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept" },
    });
    let metadata = &custom_object(&object).expect("it converts")["metadata"];
    assert_eq!(
        *metadata,
        json!({ "name": "web", "labels": { "a": "b" }, "annotations": { "note": "kept" } })
    );
}

#[test]
fn items_of_a_list_are_converted() {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "uid": "kept" } });
    let one = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5 }));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [one, pod] });
    let converted = custom_object(&list).expect("it converts");
    assert_eq!(converted["apiVersion"], "v1");
    assert_eq!(converted["items"][0]["apiVersion"], hpa_calc::crd::API_VERSION);
    assert_eq!(converted["items"][1], pod);
}

#[test]
fn v1_target_becomes_a_v2_metric() {
    let mut object = autoscaler(
        "autoscaling/v1",
        json!({ "maxReplicas": 5, "targetCPUUtilizationPercentage": 60 }),
    );
    object["metadata"]["annotations"] =
        json!({ "autoscaling.alpha.kubernetes.io/conditions": "[]" });
    object["status"] = json!({ "currentCPUUtilizationPercentage": 3 });
    let converted = custom_object(&object).expect("it converts");
    let target = json!({ "type": "Utilization", "averageUtilization": 60 });
    assert_eq!(
        converted["spec"]["metrics"],
        json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }])
    );
    assert_eq!(converted["spec"].get("targetCPUUtilizationPercentage"), None);
    assert_eq!(converted.get("status"), None);
    assert_eq!(converted["metadata"].get("annotations"), None);
}

#[test]
fn fields_that_an_older_version_lacks_are_errors() {
    let metrics = json!([{ "type": "Resource", "resource": { "name": "cpu",
        "target": { "type": "Utilization", "averageUtilization": 50 } } }]);
    let spec = json!({ "maxReplicas": 5, "metrics": metrics, "maxReplica": 5 });
    for version in ["autoscaling/v1", "autoscaling/v2beta1"] {
        let object = autoscaler(version, spec.clone()).to_string();
        let error = to_core(&object).expect_err("unknown fields");
        assert!(error.contains("spec.metrics"), "{error}");
        assert!(error.contains("spec.maxReplica: unknown field"), "{error}");
    }
    let error = custom_object(&autoscaler("autoscaling/v2", spec)).expect_err("unknown field");
    assert!(error.contains("spec.maxReplica: unknown field"), "{error}");
}

#[test]
fn beta_versions_are_converted() {
    let spec = json!({ "maxReplicas": 5, "metrics": [{ "type": "Resource", "resource": {
        "name": "cpu", "targetAverageUtilization": 50 } }] });
    let converted = custom_object(&autoscaler("autoscaling/v2beta1", spec)).expect("it converts");
    assert_eq!(converted["apiVersion"], hpa_calc::crd::API_VERSION);
    let target = &converted["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(target["averageUtilization"], 50);
    let spec = converted["spec"].clone();
    let converted = custom_object(&autoscaler("autoscaling/v2beta2", spec)).expect("it converts");
    assert_eq!(converted["apiVersion"], hpa_calc::crd::API_VERSION);
}

/// YAML 1.1 would read these strings as other types without quotes.
#[test]
fn strings_that_look_like_other_types_are_quoted() {
    let mut object = autoscaler("autoscaling/v1", json!({ "maxReplicas": 5 }));
    let texts =
        ["yes", "NO", "on", "y", "null", "~", "1_000", "017", "0x1f", "1e3", ".5", "-", "5.", ""];
    let annotations: serde_json::Map<_, _> =
        texts.iter().enumerate().map(|(at, text)| (format!("l{at}"), (*text).into())).collect();
    object["metadata"]["annotations"] = annotations.into();
    let text = to_custom(&object.to_string()).expect("it converts");
    let annotations = &parsed(&text)["metadata"]["annotations"];
    assert_eq!(*annotations, object["metadata"]["annotations"], "{text}");
}

#[test]
fn errors_name_document_object_and_field() {
    let wrong_type = AUTOSCALER.replace("maxReplicas: 5", "maxReplicas: five");
    let negative = AUTOSCALER.replace("maxReplicas: 5", "maxReplicas: -5");
    let error = to_custom(&format!("{NAMESPACE}---\n{wrong_type}---\n{negative}---\n{{\n"))
        .expect_err("errors");
    let lines: Vec<&str> = error.lines().collect();
    let has_line = |start: &str| lines.iter().any(|line| line.starts_with(start));
    assert!(
        has_line(
            "document 2 (HorizontalPodAutoscaler shop/web): spec.maxReplicas: must be an integer"
        ),
        "{error}"
    );
    assert!(
        has_line(
            "document 3 (HorizontalPodAutoscaler shop/web): spec.maxReplicas: Invalid value: -5"
        ),
        "{error}"
    );
    assert!(has_line("document 4: unable to read YAML"), "{error}");
}

#[test]
fn lines_of_lost_comments_are_reported() {
    let same = to_custom(AUTOSCALER).expect("it converts");
    assert_eq!(lost_comments(AUTOSCALER, &same), [0; 0]);
    let annotation = "  annotations: {autoscaling.hpa-rs.dev/sync-period: 30s}\n";
    let annotated =
        AUTOSCALER.replace("  namespace: shop\n", &format!("  namespace: shop\n{annotation}"));
    let output = to_custom(&format!("{annotated}---\n{CONFIG_MAP}")).expect("it converts");
    assert!(output.contains("# kept") && !output.contains("# enough"), "{output}");
    assert_eq!(lost_comments(&format!("{annotated}---\n{CONFIG_MAP}"), &output), [1, 10]);
}

#[test]
fn error_has_the_line_in_the_file() {
    let error = to_custom(&format!("{NAMESPACE}---\na: 1\nb: [\n")).expect_err("an error");
    assert!(error.starts_with("document 2: unable to read YAML: line 5: "), "{error}");
}

#[test]
fn json_output_of_several_objects_is_a_list() {
    let input = format!("{NAMESPACE}---\n{AUTOSCALER}");
    let text = convert(&input, AutoscalerApi::Custom, ConvertFormat::Json).expect("JSON");
    let list: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"][1]["apiVersion"], hpa_calc::crd::API_VERSION);
}

/// Converts each setting in both directions, for the autoscaler and for metrics.
#[test]
fn settings_become_fields_and_annotations_without_loss() {
    let metrics = json!([
        { "type": "Resource", "resource": { "name": "cpu",
            "target": { "type": "Utilization", "averageUtilization": 60 } } },
        { "type": "External", "external": { "metric": { "name": "queue" },
            "target": { "type": "AverageValue", "averageValue": "5" } } },
        { "type": "External", "external": { "metric": { "name": "queue" },
            "target": { "type": "AverageValue", "averageValue": "9" } } },
        { "type": "Pods", "pods": { "metric": { "name": "requests" },
            "target": { "type": "AverageValue", "averageValue": "9" } } },
    ]);
    let mut annotations = serde_json::Map::new();
    for setting in SETTINGS {
        annotations.insert(setting.annotation(), setting.example().into());
    }
    let by_metric = json!({ "cpu": "max", "requests": "p95" }).to_string();
    annotations.insert("autoscaling.hpa-rs.dev/aggregate".into(), by_metric.into());
    let fallbacks = json!({ "2": { "replicas": 3 }, "requests": { "replicas": 4 } }).to_string();
    annotations.insert("autoscaling.hpa-rs.dev/fallback".into(), fallbacks.into());
    let mut core = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5, "metrics": metrics }));
    core["metadata"]["annotations"] = annotations.clone().into();

    let custom = custom_object(&core).expect("it converts");
    assert_eq!(custom.pointer("/metadata/annotations"), None);
    assert_eq!(custom["spec"]["syncPeriodSeconds"], 30);
    assert_eq!(custom["spec"]["selectionStrategy"], "OwnerReferences");
    assert_eq!(custom["spec"]["metrics"][1]["external"]["activationValue"], "50m");
    assert_eq!(custom["spec"]["metrics"][1]["external"].get("fallback"), None);
    assert_eq!(custom["spec"]["metrics"][2]["external"]["fallback"]["replicas"], 3);
    assert_eq!(custom["spec"]["metrics"][3]["pods"]["aggregate"], "p95");

    let back =
        convert(&custom.to_string(), AutoscalerApi::Core, ConvertFormat::Json).expect("core");
    let back: Value = serde_json::from_str(&back).expect("JSON");
    assert_eq!(back["spec"], core["spec"]);
    let effective = |object: &Value| {
        let hpa = serde_json::from_value(object.clone()).expect("an autoscaler");
        let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
        assert!(resolved.problems.is_empty(), "{:?}", resolved.problems);
        let mut settings = resolved.settings;
        settings.summary = None;
        settings
    };
    assert_eq!(effective(&back), effective(&core));
    assert_eq!(effective(&custom), effective(&core));
    let annotation_count =
        |object: &Value| object["metadata"]["annotations"].as_object().map(serde_json::Map::len);
    assert_eq!(annotation_count(&back), annotation_count(&core));
}

#[test]
fn invalid_settings_stay_annotations() {
    let mut core = autoscaler("autoscaling/v2", json!({ "maxReplicas": 5 }));
    let invalid = json!({
        "autoscaling.hpa-rs.dev/sync-period": "1 minute",
        "autoscaling.hpa-rs.dev/fallback": "{\"queue\": {\"replicas\": 3}}",
    });
    core["metadata"]["annotations"] = invalid.clone();
    let custom = custom_object(&core).expect("it converts");
    assert_eq!(custom["metadata"]["annotations"], invalid);
}

#[test]
fn error_about_v1_names_the_annotation_that_has_the_metric() {
    let mut object = autoscaler("autoscaling/v1", json!({ "maxReplicas": 5 }));
    let metrics = json!([
        { "type": "Resource", "resource": { "name": "cpu", "targetAverageUtilization": -5 } },
    ]);
    let annotation = "autoscaling.alpha.kubernetes.io/metrics";
    object["metadata"]["annotations"] = json!({ annotation: metrics.to_string() });
    let error = custom_object(&object).expect_err("a negative target");
    let field =
        format!("metadata.annotations[{annotation}][0].resource.targetAverageUtilization: ");
    assert!(error.contains(&field) && !error.contains("spec.metrics"), "{error}");
}
