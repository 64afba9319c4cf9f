use rstest::rstest;

use super::{BASE, ScenarioFile, json_schema};
use crate::report::samples_note;

const SCENARIO: &str = "\
name: test
duration: 10m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 10
workload:
  load: {constant: 100}
queues:
- {name: q, metric: m, arrivals: {constant: 1}}
variants:
- name: large
  patch:
    autoscaler: {spec: {maxReplicas: 20}}
    workload: {profile: {capacity: 50}}
";

const WORKLOAD: &str = "kind: Deployment\nmetadata: {name: web}\n";
const AUTOSCALER: &str = "\
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, maxReplicas: 7}
";

fn parse(text: &str) -> Result<ScenarioFile, String> {
    let read = |file: &str| match file {
        "load.csv" => Ok("time,load\n0,5\n60,10\n120,10\n".to_owned()),
        "bad.csv" => Ok("0,5\n60\n".to_owned()),
        "web.yaml" => Ok(format!("{WORKLOAD}---\n{AUTOSCALER}---\n# nothing\n")),
        "workloads.yaml" => Ok(format!("{WORKLOAD}---\n{WORKLOAD}")),
        "two.yaml" => Ok(format!("{AUTOSCALER}---\n{WORKLOAD}---\n{AUTOSCALER}")),
        "empty.yaml" => Ok("# nothing\n".to_owned()),
        _ => Err("there is no such file".to_owned()),
    };
    ScenarioFile::parse(text, &read).map_err(|error| match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

#[test]
fn several_documents_are_rejected() {
    let error = parse(&format!("{SCENARIO}---\nkind: Deployment\n")).unwrap_err();
    assert_eq!(error, "the file has 2 documents, but a scenario must be a single one");
}

#[test]
fn manifest_of_an_autoscaler_is_no_scenario() {
    let error = parse(AUTOSCALER).unwrap_err();
    let expected = "line 1, column 1: kind: this is a HorizontalPodAutoscaler: put it, or the name \
                    of its file, under autoscaler: of a scenario";
    assert_eq!(error, expected);
    assert_eq!(parse("duration: 10m\n").unwrap_err(), "autoscaler: is required");
}

#[test]
fn file_of_the_autoscaler_may_have_other_objects() {
    let scenario =
        |file: &str| format!("autoscaler: {file}\nworkload: {{load: {{constant: 100}}}}\n");
    let scenario_file = parse(&scenario("web.yaml")).unwrap();
    assert_eq!(scenario_file.variants[0].autoscaler.spec.max_replicas, 7);
    for (file, found) in [
        ("workloads.yaml", "2 documents with 0 autoscalers"),
        ("two.yaml", "3 documents with 2 autoscalers"),
        ("empty.yaml", "0 documents with 0 autoscalers"),
    ] {
        let error = parse(&scenario(file)).unwrap_err();
        let expected =
            format!("{file}: the file has {found}, but must have exactly one autoscaler");
        assert_eq!(error, expected);
    }
}

#[test]
fn variants_patch_the_base_and_get_defaults_from_the_autoscaler() {
    let scenario_file = parse(SCENARIO).unwrap();
    let [base, large] = &scenario_file.variants[..] else { panic!("{scenario_file:?}") };
    assert_eq!((base.name.as_str(), large.name.as_str()), (BASE, "large"));
    assert_eq!((base.workload.name.as_str(), base.workload.replicas), ("web", 2));
    assert_eq!(base.scenario.queues[0].workload, "web");
    assert_eq!(base.autoscaler.spec.max_replicas, 10);
    assert_eq!(large.autoscaler.spec.max_replicas, 20);
    assert!((base.pod_capacity() - 4.0 * large.pod_capacity()).abs() < 1e-9);
    assert_eq!(large.autoscaler.spec.metrics.len(), 1, "the default metric");
}

#[rstest]
#[case::load_and_queue("load: {constant: 100}", 200.0)]
#[case::queues_only("profile: {capacity: 200}", 15.0)]
fn queues_limit_pod_capacity_only_without_load(#[case] load: &str, #[case] expected: f64) {
    let queue = |name: &str, rate: u32| {
        format!(
            "- {{name: {name}, metric: {name}, arrivals: {{constant: 1}}, drainPerPod: {rate}}}"
        )
    };
    let queues = format!("{}\n{}\n", queue("q", 5), queue("r", 10));
    let text = SCENARIO.replace("load: {constant: 100}", load);
    let text = text.replace("- {name: q, metric: m, arrivals: {constant: 1}}\n", &queues);
    let capacity = parse(&text).unwrap().variants[0].pod_capacity();
    assert!((capacity - expected).abs() < 1e-9, "{capacity}");
}

#[rstest]
#[case::syntax("duration: [", "duration: 10m", "line 4, column 11: unable to read YAML: ")]
#[case::not_finite(
    "minReplicas: 1e400",
    "minReplicas: 2",
    "line 7, column 18: 1e400 is not a finite number: put a quantity in quotes"
)]
#[case::unknown("durations: 1m", "duration: 10m", "line 2, column 1: durations: unknown field")]
#[case::wrong_type("duration: soon", "duration: 10m", "line 2, column 1: duration: ")]
#[case::unknown_load("load: {wave: 1}", "load: {constant: 100}", "line 10, column ")]
#[case::invalid_load(
    "load: {sum: [{constant: 1}, {steps: [{at: 5, value: 1}, {at: 5, value: 2}]}]}",
    "load: {constant: 100}",
    "line 10, column 3: workload.load: steps: must be in order of time"
)]
#[case::autoscaler(
    "maxReplicas: 1",
    "maxReplicas: 10",
    "line 8, column 5: autoscaler.spec.maxReplicas: Invalid value: 1"
)]
#[case::autoscaler_field(
    "maxReplica: 1",
    "maxReplicas: 10",
    "line 8, column 5: autoscaler.spec.maxReplica: unknown field"
)]
#[case::nested_field(
    "maxReplicas: 10\n    metrics:\n    - type: Resource\n      resource:\n        name: cpu\n\
     \x20       target: {type: Utilization, averageUtilisation: 60}",
    "maxReplicas: 10",
    "autoscaler.spec.metrics[0].resource.target.averageUtilisation: unknown field"
)]
#[case::variant(
    "autoscaler: {spec: {maxReplicas: 1}}",
    "autoscaler: {spec: {maxReplicas: 20}}",
    "line 16, column 25: variant large: autoscaler.spec.maxReplicas: Invalid value: 1"
)]
#[case::variant_with_an_error_at_a_field_of_the_base(
    "autoscaler: {spec: {minReplicas: 11}}",
    "autoscaler: {spec: {maxReplicas: 20}}",
    "line 8, column 5: variant large: autoscaler.spec.maxReplicas: Invalid value: 10"
)]
#[case::variant_twice("name: base", "name: large", "line 14, column 3: variants[0].name: \"base\"")]
#[case::target(
    "name: other\n  load: {constant: 1}",
    "load: {constant: 100}",
    "line 10, column 3: workload.name: is \"other\""
)]
#[case::replicas(
    "replicas: 2000000000\n  load: {constant: 1}",
    "load: {constant: 100}",
    "line 10, column 3: workload.replicas: is 2000000000, but must be at most 10000"
)]
#[case::min_replicas(
    "minReplicas: 10001\n    maxReplicas: 20000",
    "minReplicas: 2\n    maxReplicas: 10",
    "line 7, column 5: autoscaler.spec.minReplicas: is 10001, but must be at most 10000"
)]
#[case::manual_scale(
    "incidents: [{kind: manualScale, at: 1m, replicas: 2000000000}]\nqueues:",
    "queues:",
    "incidents[0].replicas: is 2000000000, but must be at most 10000"
)]
#[case::incident_after_the_end(
    "incidents: [{kind: rollout, at: 1h}]\nqueues:",
    "queues:",
    "line 11, column 29: incidents[0].at: is 3600s, but the run ends at 600s"
)]
#[case::negative_load(
    "load: {constant: -5}",
    "load: {constant: 100}",
    "line 10, column 3: workload.load: constant: must be a number of at least 0: -5"
)]
#[case::other_pods(
    "otherPods: [{at: 0, for: 1m, pods: 9000}, {at: 0, for: 1m, pods: 9000}]\nqueues:",
    "queues:",
    "otherPods: has 18000 pods, but may have at most 10000 in all entries"
)]
#[case::duration(
    "duration: 1000000h",
    "duration: 10m",
    "line 2, column 1: duration: must be at most 366d"
)]
#[case::start(
    "start: 2100-01-01T00:00:00Z\nduration: 10m",
    "duration: 10m",
    "line 2, column 1: start: must be in the years 2000 to 2099"
)]
#[case::csv("load: {samples: {file: x.csv}}", "load: {constant: 100}", "x.csv: there is no")]
#[case::csv_line("load: {samples: {file: bad.csv}}", "load: {constant: 100}", "bad.csv: line 2")]
fn error_names_field_or_place(#[case] new: &str, #[case] old: &str, #[case] expected: &str) {
    let error = parse(&SCENARIO.replacen(old, new, 1)).expect_err("an error");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn number_of_variants_is_limited() {
    let variants =
        |count: usize| (0..count).map(|index| format!("- {{name: v{index}, patch: {{}}}}\n"));
    let with_variants = |count: usize| {
        let (base, _) = SCENARIO.split_once("- name: large").unwrap();
        parse(&(base.to_owned() + &variants(count).collect::<String>()))
    };
    assert_eq!(with_variants(100).unwrap().variants.len(), 101);
    let error = with_variants(101).unwrap_err();
    assert!(error.ends_with("variants: has 101 variants, but may have at most 100"), "{error}");
}

#[test]
fn samples_are_read_from_a_file() {
    let text = SCENARIO.replace("{constant: 100}", "{samples: {file: load.csv}}");
    let scenario_file = parse(&text).unwrap();
    assert!((scenario_file.variants[0].workload.load.at(30.0) - 7.5).abs() < 1e-9);
}

#[rstest]
#[case::all("3m", None)]
#[case::until_the_last("2m", None)]
#[case::too_few("10m", Some("the samples of the load end at 2m, and the last one counts"))]
#[case::too_many("30s", Some("the samples of the load after 30s are left out (duration)"))]
fn samples_that_do_not_fit_the_duration_are_noted(
    #[case] duration: &str,
    #[case] expected: Option<&str>,
) {
    let text = SCENARIO.replace("{constant: 100}", "{samples: {file: load.csv}}");
    let text = text.replace("duration: 10m", &format!("duration: {duration}"));
    let note = samples_note(&parse(&text).unwrap().variants[0]);
    assert_eq!(note.is_some(), expected.is_some(), "{note:?}");
    assert!(note.unwrap_or_default().starts_with(expected.unwrap_or_default()));
}

#[test]
fn json_schema_has_fields_and_descriptions() {
    let schema = json_schema();
    let fields = schema["properties"].as_object().unwrap();
    for field in ["autoscaler", "workload", "incidents", "variants"] {
        assert!(fields.contains_key(field), "{field}");
    }
    assert!(fields["duration"]["description"].is_string(), "{schema}");
}
