//! The first reconciles of autoscalers, in virtual time.

use std::{sync::Arc, time::Duration};

use hpa_controller::{Clock, Dependencies};
use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use hpa_tests::harness::{
    RunningController, SettableMetrics, TestbedExt, VirtualClock, clients, controller_options,
    objects,
};
use rstest::rstest;

/// The time when an autoscaler is created. The controller starts at 0.
const CREATED_MS: u64 = 20_000;

/// An API server whose external metric asks for four replicas.
fn cluster(faults: &Faults) -> (VirtualClock, Testbed) {
    let clock = VirtualClock::start();
    let server_clock = clock.clone();
    let testbed = Testbed::new(Config {
        metrics: Some(Arc::new(SettableMetrics::new(0, 4))),
        interceptor: Some(Arc::new(faults.clone())),
        clock: Arc::new(move || server_clock.now()),
        ..Config::default()
    });
    testbed.apply_all([objects::namespace()]);
    (clock, testbed)
}

fn start(clock: &VirtualClock, testbed: &Testbed) -> RunningController {
    let dependencies = Dependencies {
        clock: Arc::new(clock.clone()),
        ..Dependencies::new(clients(testbed.client()), &controller_options())
    };
    RunningController::start(dependencies, controller_options())
}

/// Creates a target with two replicas and its autoscaler.
fn create(testbed: &Testbed, name: &str) {
    let hpa = objects::hpa(name, 1..=20, [objects::external_metric("load", "1")]);
    testbed.apply_all([objects::running_deployment(name, 2), hpa]);
}

/// Unless the target is created with the autoscaler, the first reconcile fails. Times are in
/// milliseconds after the autoscaler was created.
#[rstest]
#[case::with_the_autoscaler(0, 0)]
#[case::before_the_first_retry(20, 2000)]
#[case::after_the_first_retry(2500, 5000)]
#[case::after_the_last_retry(6000, 15_000)]
#[tokio::test(start_paused = true)]
async fn new_autoscaler_is_retried_until_its_target_exists(
    #[case] target_created: u64,
    #[case] scaled: u64,
) {
    let (clock, testbed) = cluster(&Faults::new(1));
    let at =
        async |millis: u64| clock.wait_until_age(Duration::from_millis(CREATED_MS + millis)).await;
    let controller = start(&clock, &testbed);
    at(0).await;
    let target = objects::running_deployment("web", 2);
    if target_created == 0 {
        testbed.apply_all([target.clone()]);
    }
    testbed.apply_all([objects::hpa("web", 1..=20, [objects::external_metric("load", "1")])]);
    if target_created > 0 {
        at(target_created).await;
        testbed.apply_all([target]);
    }
    if scaled > 0 {
        at(scaled - 10).await;
        assert_eq!(testbed.replicas("web"), 2, "before the reconcile");
    }
    at(scaled + 100).await;
    assert_eq!(testbed.replicas("web"), 4);
    controller.stop().await;
}

/// The first list of targets starts after the autoscalers were cached, so it has all that an
/// earlier leader wrote.
#[tokio::test(start_paused = true)]
async fn first_decision_uses_the_list_of_targets_unless_the_autoscaler_is_newer() {
    let faults = Faults::new(1);
    // The autoscalers are cached a second before the controller reconciles.
    faults.add(Fault::on(Match::verb("list").resource("pods")).first(1).effect(slow(1)));
    let read = Match::verb("get").resource("deployments").subresource("scale");
    // Only counts the reads.
    let reads = faults.add(Fault::on(read).effect(slow(0)));
    let (clock, testbed) = cluster(&faults);
    let names: Vec<_> = (0..20).map(|index| format!("web-{index:02}")).collect();
    for name in &names {
        create(&testbed, name);
    }
    let controller = start(&clock, &testbed);
    clock.wait_until_age(Duration::from_millis(CREATED_MS)).await;
    assert!(names.iter().all(|name| testbed.replicas(name) == 4));
    let until_listed = faults.hits(reads);
    // Seven autoscalers are due at once, the next ones after 100 ms.
    assert!((1..=7).contains(&until_listed), "{until_listed} reads");
    create(&testbed, "late");
    clock.wait_until_age(Duration::from_millis(CREATED_MS + 100)).await;
    assert_eq!(testbed.replicas("late"), 4);
    assert_eq!(faults.hits(reads) - until_listed, 1, "the watch may lag behind its creation");
    controller.stop().await;
}

fn slow(seconds: u64) -> Effect {
    Effect::Slow { by: Duration::from_secs(seconds) }
}
