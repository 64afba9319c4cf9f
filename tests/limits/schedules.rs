//! Large schedules must neither exhaust the memory nor delay the probes.

use std::{net::Ipv4Addr, time::Duration};

use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{ServedTestbed, TestbedExt, are_long_tests_enabled, objects};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::TcpSocket,
    time::{interval, timeout},
};

use super::{
    ACTIVE, Program, apply, assert_program_is_bounded,
    hostile::{
        Durations, HOSTILE, PROBE_TIMEOUT, hostile_namespace, probe, set_hostile_namespace,
        start_controller,
    },
};

fn schedule(namespace: &str, name: &str, days: &[&str]) -> Value {
    let period = json!({ "startTime": "00:00", "days": days, "timezone": "UTC" });
    let entry = json!({ "type": "Repeating", "period": period, "durationMinutes": 1440,
        "value": 1 });
    json!({
        "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "schedules": [entry] },
    })
}

/// Applies the definitions of schedules, the hostile tenant's namespace, and an always active
/// schedule with the value 4 in another namespace.
fn set_up_schedules(testbed: &Testbed) {
    testbed.apply_all(
        hpa_collectors::schedules::definition::schedule_definitions().expect("definitions"),
    );
    apply(testbed, hostile_namespace());
    let all_days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let mut always = schedule("shop", "always", &all_days);
    always["spec"]["schedules"][0]["value"] = 4.into();
    apply(testbed, always);
}

/// Schedules of 1.45 MB in the hostile tenant's namespace.
fn set_up_large_schedules(testbed: &Testbed) {
    set_up_schedules(testbed);
    let large = schedule(HOSTILE, "large", &vec!["Sun"; 240_000]);
    for index in 0..30 {
        let mut large = large.clone();
        large["metadata"]["name"] = format!("large-{index}").into();
        apply(testbed, large);
    }
}

/// The status is written after all schedules are listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_for_schedules_of_a_megabyte() {
    for program in [Program::ControllerWithSchedules, Program::AdapterWithSchedules] {
        assert_program_is_bounded(&program, set_up_large_schedules, &[ACTIVE], 1).await;
    }
}

/// A Deployment, and its autoscaler with `count` metrics of a schedule.
fn scaled_by_schedule(name: &str, schedule: &str, count: usize) -> [Value; 2] {
    let metrics = (0..count).map(|at| {
        json!({ "type": "Object", "object": {
            "describedObject": {
                "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": schedule,
            },
            "metric": { "name": format!("m{at}") },
            "target": { "type": "AverageValue", "averageValue": "1" },
        } })
    });
    [objects::running_deployment(name, 2), objects::hpa(name, 1..=9, metrics)]
}

/// A schedule of 9000 entries with an invalid first one, and autoscalers that read it 512 times.
fn hostile_schedule() -> Vec<Value> {
    let mut large = schedule(HOSTILE, "large", &["Sun", "Mon"]);
    let mut entry = large["spec"]["schedules"][0].clone();
    let valid = vec![entry.clone(); 8999];
    entry["period"]["timezone"] = "Nowhere/X".into();
    large["spec"]["schedules"] = std::iter::once(entry).chain(valid).collect();
    let mut all = vec![large];
    for name in ["first", "second"] {
        all.extend(scaled_by_schedule(name, "large", 256));
    }
    set_hostile_namespace(&mut all);
    all
}

/// Opens 300 connections at once each second, forever. They have another address than the probes,
/// because a new connection may replace an idle one of its own address.
pub(super) async fn open_bursts(port: u16) {
    let connect = async || {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
        socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
    };
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let burst = futures::future::join_all((0..300).map(|_| connect())).await;
        let failed = burst.iter().filter(|connection| connection.is_err()).count();
        assert!(failed < burst.len(), "no connection of the burst was accepted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_quick_beside_a_large_schedule_and_bursts_of_connections() {
    if !are_long_tests_enabled() {
        println!("large schedule: skipped, HPA_LONG_TESTS=1 runs it");
        return;
    }
    let testbed = Testbed::new(Config::default());
    apply(&testbed, objects::namespace());
    set_up_schedules(&testbed);
    testbed.apply_all(hostile_schedule());
    testbed.apply_all(scaled_by_schedule("web", "always", 1));
    let served = ServedTestbed::new(&testbed).await;
    let flags = ["--scaling-schedule", "--horizontal-pod-autoscaler-sync-period=1s"];
    let (_process, port) = start_controller(&served, &flags);
    served.wait_for_replicas("web", 4).await;
    let durations = Mutex::<Durations>::default();
    tokio::select! {
        _ = timeout(Duration::from_secs(5), probe(port, &durations)) => {}
        () = open_bursts(port) => unreachable!(),
    }
    let durations = durations.into_inner();
    let limit = PROBE_TIMEOUT * durations.busy_factor();
    let (probes, slowest) = (durations.probes.len(), durations.probes.iter().max());
    let slowest = slowest.expect("probes");
    println!("large schedule: {probes} probes, all within {slowest:?}");
    assert!(*slowest < limit, "{slowest:?}");
}
