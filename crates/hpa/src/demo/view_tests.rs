use hpa_controller::key::HpaKey;
use hpa_testbed::{
    Config, Testbed,
    workload::{Observation, WorkloadId, WorkloadObservation, scenario::Scenario},
};
use jiff::Timestamp;
use rstest::rstest;

use super::*;

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
    metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]
";

fn head() -> Head {
    Head {
        scenario: "shop".to_owned(),
        span: 100.0,
        speed: 30.0,
        kubeconfig: "/tmp/demo/kubeconfig".to_owned(),
        followed: None,
        is_over: false,
    }
}

fn decision(second: f64, from: i32, to: Option<i32>) -> Decision {
    Decision {
        second,
        key: HpaKey::new("default", "web"),
        target: WorkloadId::new("default", "Deployment", "web"),
        bounds: (2, 9),
        window: 300.0,
        from,
        to,
        reason: Reason::Followed,
        sentence: "cpu is at 90% of requests, target 60%".to_owned(),
        reading: None,
    }
}

/// Web after 50 seconds, in which the load rose from 0 to 100 of which half is served, and two scalings.
fn board() -> Dashboard {
    let scenario = Scenario::parse(SCENARIO).unwrap();
    let testbed = Testbed::new(Config::default());
    testbed.apply(scenario.manifests[0].clone()).unwrap();
    let mut board = Dashboard::new(&testbed, &scenario);
    for second in 0..=50 {
        let offered = f64::from(second) * 2.0;
        let workload = WorkloadObservation {
            id: WorkloadId::new("default", "Deployment", "web"),
            offered,
            served: offered / 2.0,
            drained: 0.0,
            needed: 6,
            desired: 4,
            pods: 4,
            ready: 3,
            cpu: 0.0,
            offered_total: 0.0,
            served_total: 0.0,
            underserved_seconds: 0.0,
            pod_seconds: 0.0,
        };
        let second = f64::from(second);
        let time = Timestamp::UNIX_EPOCH;
        board.observed(&Observation {
            time,
            second,
            workloads: vec![workload],
            queues: Vec::new(),
        });
    }
    board.decided(decision(15.0, 2, Some(3)));
    board.decided(decision(30.0, 3, Some(4)));
    board.decided(decision(45.0, 4, None));
    board
}

fn shown(columns: usize, rows: usize) -> Vec<String> {
    let lines = view(&head(), &board(), columns, rows);
    lines.iter().map(|line| line.render(columns, false)).collect()
}

#[test]
fn all_is_there() {
    assert_eq!(
        shown(80, 24),
        [
            "hpa demo: shop  0:50 of 1:40, 30 times as fast; Ctrl-C ends it",
            "export KUBECONFIG=/tmp/demo/kubeconfig",
            "",
            "web       Deployment web, 2..9",
            "  load     ▁▁▂▂▃▃▄▄▄▅▅▆▆▇▇████                   100 a second, 50% served",
            "  replicas ███████████████████                   4, 3 ready, needs 6",
            "  keeps 4: cpu is at 90% of requests, target 60%",
            "",
            "Scalings, the latest first",
            "   0:30  web       3 -> 4    cpu is at 90% of requests, target 60%",
            "   0:15  web       2 -> 3    cpu is at 90% of requests, target 60%",
        ]
    );
}

#[rstest]
#[case(200, 60)]
#[case(80, 24)]
#[case(40, 10)]
#[case(10, 5)]
#[case(1, 1)]
fn it_fits(#[case] columns: usize, #[case] rows: usize) {
    let shown = shown(columns, rows);
    assert!(shown.len() <= rows, "{} lines", shown.len());
    assert!(shown.iter().all(|line| line.chars().count() <= columns), "{shown:?}");
}

#[test]
fn the_verdict_is_told_on_hold() {
    let head = Head { followed: Some(false), ..head() };
    let title = view(&head, &board(), 80, 24)[0].render(80, false);
    assert_eq!(
        title,
        "hpa demo: shop  0:50 of 1:40  the load was NOT followed; on hold until Ctrl-C"
    );
}

#[test]
fn the_last_frame_tells_nothing_that_is_over() {
    let head = Head { is_over: true, ..head() };
    let lines: Vec<String> =
        view(&head, &board(), 80, 24).iter().map(|line| line.render(80, false)).collect();
    assert_eq!(lines[..3], ["hpa demo: shop  0:50 of 1:40", "", "web       Deployment web, 2..9"]);
}
