use hpa_testbed::workload::{load::Load, scenario::Scenario, seconds::Seconds};
use rstest::rstest;

#[rstest]
#[case::no_yaml("workloads: [", "line 1, column ")]
#[case::no_object("web", "scenario: invalid type: string \"web\"")]
#[case::unknown_field(
    "workload: []",
    "line 1, column 1: workload: unknown field `workload`, expected one of "
)]
#[case::unknown_nested_field(
    "workloads:\n- name: web\n  profile: {cpu: 1}",
    "line 3, column 13: workloads[0].profile.cpu: unknown field"
)]
#[case::invalid_time("duration: soon", "duration: \"soon\" is not a duration")]
#[case::invalid_type(
    "workloads: [{name: web, replicas: many}]",
    "line 1, column 25: workloads[0].replicas: invalid type: "
)]
#[case::invalid_curve(
    "workloads: [{name: web, load: {constant: much}}]",
    "workloads[0].load.constant: "
)]
#[case::invalid_quantity(
    "defaultProfile: {cpuRequest: lots}",
    "line 1, column 18: defaultProfile.cpuRequest: quantities must match"
)]
#[case::missing_name("workloads: [{replicas: 2}]", "workloads[0].name: is required")]
#[case::duplicate_name(
    "workloads: [{name: web}, {name: web}]",
    "workloads[1].name: is a duplicate"
)]
#[case::duplicate_name_of_another_kind(
    "workloads: [{name: web}, {name: web, kind: StatefulSet}]",
    "workloads[1].name: is a duplicate"
)]
#[case::unknown_kind(
    "workloads: [{name: web, kind: Fleet}]",
    "workloads[0].apiVersion: is required for the kind \"Fleet\""
)]
#[case::capacity(
    "workloads: [{name: web, profile: {capacity: 0}}]",
    "workloads[0].profile: capacity: must be more than 0"
)]
#[case::capacity_with_target_load(
    "workloads: [{name: web, profile: {capacity: 0, targetLoad: 5}}]",
    "workloads[0].profile: capacity: must be more than 0"
)]
#[case::cpu_limit(
    "workloads: [{name: web, profile: {cpuLimit: 5m, idleCpu: 5m, targetLoad: 5}}]",
    "workloads[0].profile: cpuLimit: must be more than idleCpu"
)]
#[case::target_load(
    "workloads: [{name: web, profile: {targetLoad: 0}}]",
    "workloads[0].profile: targetLoad: must be more than 0"
)]
#[case::jitter("defaultProfile: {jitter: 2}", "defaultProfile: jitter: must be between 0 and 1: 2")]
#[case::steps(
    "workloads: [{name: web, load: {steps: [{at: 5, value: 1}, {at: 1, value: 1}]}}]",
    "workloads[0].load: steps: must be in order"
)]
#[case::samples(
    "workloads: [{name: web, load: {samples: {file: a.csv}}}]",
    "workloads[0].load: samples: must not be empty"
)]
#[case::unknown_workload(
    "queues: [{name: q, workload: web, arrivals: {constant: 1}, metric: q}]",
    "queues[0].workload: there is no workload \"web\""
)]
#[case::ambiguous_workload(
    "workloads: [{name: web, namespace: shop}, {name: web, namespace: blog}]
incidents: [{at: 1, kind: rollout, workload: web}]",
    "incidents[0].workload: \"web\" is ambiguous: use namespace/name"
)]
#[case::unknown_queue(
    "objectMetrics: [{metric: m, object: {kind: Service, name: s}, value: {backlog: q}}]",
    "objectMetrics[0].value: there is no queue \"q\""
)]
#[case::missing_field_of_incident(
    "workloads: [{name: web}]\nincidents: [{at: 1, kind: manualScale, workload: web}]",
    "incidents[0].replicas: is required"
)]
#[case::unused_field(
    "workloads: [{name: web}]\nincidents: [{at: 1, kind: rollout, workload: web, pods: 1}]",
    "incidents[0].pods: has no meaning here: rollout takes at, workload"
)]
#[case::source("metrics: {pods: {gaps: 1.5}}", "metrics.pods: gaps: must be between 0 and 1: 1.5")]
#[case::manifest("manifests: [{kind: Pod}]", "manifests[0].apiVersion: is required")]
#[case::too_many_pods(
    "manifests: [{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: \
     web}, spec: {minReplicas: 2000000000, maxReplicas: 2000000000}}]",
    "manifests[0].spec.minReplicas: is 2000000000, but must be at most 10000"
)]
fn invalid_scenario_is_rejected_with_the_path_of_the_field(
    #[case] text: &str,
    #[case] expected: &str,
) {
    let error = Scenario::parse(text).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn ambiguous_reference_selects_no_workload() {
    let text = "workloads: [{name: web, namespace: shop}, {name: web, namespace: blog}]";
    let scenario = Scenario::parse(text).unwrap();
    assert_eq!(scenario.workload("web"), None);
    assert_eq!(scenario.workload("blog/web"), scenario.workloads.get(1));
}

#[test]
fn serialized_scenario_can_be_parsed() {
    let text = "
name: shop
seed: 7
duration: 20m
workloads:
- name: web
  namespace: shop
  replicas: 3
  load: {sum: [{constant: 5}, {spike: {peak: 50, at: 5m, hold: 1m}}]}
incidents: [{at: 1m, kind: crash, workload: shop/web}]
faults: [{anything: goes}]
";
    let scenario = Scenario::parse(text).unwrap();
    assert_eq!((scenario.duration, scenario.workloads[0].replicas), (Seconds::new(1200.0), 3));
    let written = serde_json::to_string(&scenario).unwrap();
    assert_eq!(Scenario::parse(&written).unwrap(), scenario);
}

#[test]
fn samples_are_read_from_the_file_of_a_load() {
    let text =
        "workloads: [{name: web, load: {repeat: {every: 2m, load: {samples: {file: load.csv}}}}}]";
    let parse = |content: Result<&str, &str>| {
        Scenario::parse_with_files(text, &|file| {
            assert_eq!(file, "load.csv");
            content.map(str::to_owned).map_err(str::to_owned)
        })
    };
    let scenario = parse(Ok("time,rps\n0s,10\n60s,30\n")).unwrap();
    assert_eq!(scenario.workloads[0].load.at(150.0), 20.0);
    assert_eq!(parse(Err("not found")).unwrap_err().to_string(), "load.csv: not found");
    let error = parse(Ok("0,10\n60,much\n")).unwrap_err().to_string();
    assert_eq!(error, r#"load.csv: line 2: column "2": "much" is not a number"#);
}

#[test]
fn default_scenario_is_valid_and_default_load_is_zero() {
    assert!(Scenario::default().validate().is_ok());
    assert_eq!(Load::default().at(5.0), 0.0);
}
