use hpa_controller::HpaKey;
use hpa_testbed::{
    Config, Testbed,
    workload::{Observation, Totals, WorkloadId, WorkloadObservation, scenario::Scenario},
};
use jiff::Timestamp;
use rstest::rstest;

use super::*;
use crate::demo::model;

const SCENARIO: &str = "
workloads: [{name: web, replicas: 2}]
manifests:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: default}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 9
    metrics:
    - type: Resource
      resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}
";

fn header(phase: Phase) -> Header {
    let info = DemoInfo {
        scenario: "shop".to_owned(),
        duration: 100.0,
        speed: 30.0,
        kubeconfig: "/tmp/demo/kubeconfig".to_owned(),
        dashboard: None,
        metrics: None,
        debug_api: None,
    };
    Header { info, phase }
}

fn decision(second: f64, from: i32, to: Option<i32>) -> Decision {
    Decision { second, from, to, ..model::steady_decision() }
}

fn records() -> DemoRecords {
    records_of(&Testbed::new(Config::default()))
}

/// The records after 50 seconds: the load has risen from 0 to 100, half of it was served, and web
/// was scaled twice.
fn records_of(testbed: &Testbed) -> DemoRecords {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    testbed.apply(scenario.manifests[0].clone()).unwrap();
    let mut records = DemoRecords::new(testbed, &scenario);
    for second in 0..=50 {
        let second = f64::from(second);
        let workload = WorkloadObservation {
            id: WorkloadId::new("default", "Deployment", "web"),
            offered: second * 2.0,
            served: second,
            drained: 0.0,
            needed: 6,
            desired: 4,
            pods: 4,
            ready: 3,
            cpu: 0.0,
            totals: Totals::default(),
        };
        records.record_observation(&Observation {
            time: Timestamp::UNIX_EPOCH,
            second,
            workloads: vec![workload],
            queues: Vec::new(),
        });
    }
    records.record_decision(decision(15.0, 2, Some(3)));
    records.record_decision(decision(30.0, 3, Some(4)));
    records.record_decision(decision(45.0, 4, None));
    records
}

fn rendered(phase: Phase, columns: usize, rows: usize) -> Vec<String> {
    rendered_records(&records(), phase, columns, rows)
}

fn rendered_records(
    records: &DemoRecords,
    phase: Phase,
    columns: usize,
    rows: usize,
) -> Vec<String> {
    let lines = frame(&header(phase), records, columns, rows);
    lines.iter().map(|line| line.render(columns, false)).collect()
}

#[test]
fn frame_shows_autoscalers_and_scalings() {
    assert_eq!(
        rendered(Phase::Running, 80, 24),
        [
            "hpa demo: shop  0:50 of 1:40, 30 times normal speed; Ctrl-C to stop",
            "export KUBECONFIG=/tmp/demo/kubeconfig",
            "",
            "web       Deployment web, 2..9",
            "  load     ▁▁▂▂▃▃▄▄▄▅▅▆▆▇▇████                   100/s, 50% served",
            "  replicas ███████████████████                   4, 3 ready, 6 needed",
            "  stays at 4: cpu is at 90% of requests, target 60%",
            "",
            "Last scalings",
            "   0:30  web       3 -> 4    cpu is at 90% of requests, target 60%",
            "   0:15  web       2 -> 3    cpu is at 90% of requests, target 60%",
        ]
    );
}

#[test]
fn limiting_policy_replaces_the_measurement_and_is_shown_in_the_scalings() {
    let mut records = records();
    let limit = "policies allow 4 for now, metrics ask for 6";
    let sentence = format!("requests_per_second is at 75.3 per pod, target 50; {limit}");
    let limit = Some(limit.to_owned());
    records.record_decision(Decision { limit, sentence, ..decision(49.0, 2, Some(4)) });
    let lines = rendered_records(&records, Phase::Running, 80, 24);
    assert_eq!(lines[6], "  2 -> 4: policies allow 4 for now, metrics ask for 6");
    assert_eq!(
        lines[9..11],
        [
            "   0:49  web       2 -> 4    requests_per_second is at 75.3 per pod, target 50;",
            "                             policies allow 4 for now, metrics ask for 6",
        ]
    );
    // A scaling that doesn't fit is left out.
    assert_eq!(rendered_records(&records, Phase::Running, 80, 10).len(), 8);
}

#[test]
fn deleted_autoscaler_disappears() {
    let testbed = Testbed::new(Config::default());
    let mut records = records_of(&testbed);
    records.remove_deleted(&testbed);
    assert_eq!(records.autoscalers.len(), 1);
    testbed.delete("autoscaling/v2", "HorizontalPodAutoscaler", "default", "web").unwrap();
    records.remove_deleted(&testbed);
    let lines = rendered_records(&records, Phase::Running, 80, 24);
    assert_eq!(lines[3], "Last scalings");
}

#[test]
fn autoscalers_that_do_not_fit_the_terminal_are_counted() {
    let mut records = records();
    for name in ["api", "worker"] {
        let key = HpaKey::new("default", name);
        records.record_decision(Decision { key, ..decision(50.0, 4, None) });
    }
    let titles = |phase, rows| {
        let lines = rendered_records(&records, phase, 80, rows);
        let is_title = |line: &&String| line.contains("Deployment") || line.contains("more");
        let titles = lines.iter().filter(is_title);
        titles.map(|line| line.split("  ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(titles(Phase::Running, 17), ["web", "api", "worker"]);
    assert_eq!(
        titles(Phase::Running, 16),
        ["web", "api", "and 1 more; enlarge the terminal to see them"]
    );
    assert_eq!(titles(Phase::Running, 12), ["web", "and 2 more; enlarge the terminal to see them"]);
    // The last frame may be longer than the terminal.
    assert_eq!(titles(Phase::Over, 12), ["web", "api", "worker"]);
}

#[rstest]
#[case(200, 60)]
#[case(80, 24)]
#[case(40, 10)]
#[case(10, 5)]
#[case(1, 1)]
fn frame_fits_the_terminal(#[case] columns: usize, #[case] rows: usize) {
    let lines = rendered(Phase::Running, columns, rows);
    assert!(lines.len() <= rows, "{} lines", lines.len());
    assert!(lines.iter().all(|line| line.chars().count() <= columns), "{lines:?}");
}

#[test]
fn title_on_hold_shows_whether_the_load_was_followed() {
    let lines = rendered(Phase::OnHold { followed_load: false }, 80, 24);
    assert_eq!(
        lines[0],
        "hpa demo: shop  0:50 of 1:40  the load was NOT followed; on hold, Ctrl-C to stop"
    );
}

#[test]
fn last_frame_has_no_instructions() {
    let lines = rendered(Phase::Over, 80, 24);
    assert_eq!(lines[..3], ["hpa demo: shop  0:50 of 1:40", "", "web       Deployment web, 2..9"]);
}

#[test]
fn url_of_the_dashboard_is_never_truncated() {
    let mut header = header(Phase::Running);
    let page = format!("http://127.0.0.1:40123/?token={}", "0123456789abcdef".repeat(2));
    header.info.dashboard = Some(page.clone());
    header.info.debug_api = Some(([127, 0, 0, 1], 40124).into());
    for columns in [40, 60, 80] {
        let lines = frame(&header, &records(), columns, 30);
        let text: String = lines.iter().map(|line| line.render(columns, false)).collect();
        assert!(text.contains(&page), "{columns}: {text}");
        assert!(text.contains("HPA_CONTROLLER_URL=http://127.0.0.1:40124"), "{columns}: {text}");
    }
}
