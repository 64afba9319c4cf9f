//! An autoscaler that is created before its target, in virtual time.

#![allow(clippy::expect_used, reason = "a wrong assumption fails the test")]

use std::{sync::Arc, time::Duration};

use hpa_controller::{Clock, Dependencies, k8s::Clients};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    RunningController, SettableMetrics, TestbedExt, VirtualClock, objects, options,
};
use rstest::rstest;

/// When the autoscaler is created. The controller runs since 0.
const CREATED: u64 = 20_000;

/// The first reconcile fails, because the target doesn't exist. Times are in milliseconds after the
/// autoscaler was created.
#[rstest]
#[case::with_the_autoscaler(0, 0)]
#[case::a_moment_later(20, 2000)]
#[case::after_the_first_retry(2500, 5000)]
#[case::after_the_last_retry(6000, 15_000)]
#[tokio::test(start_paused = true)]
async fn new_autoscaler_is_retried_until_its_target_exists(
    #[case] target_created: u64,
    #[case] scaled: u64,
) {
    let clock = VirtualClock::start();
    let at = async |millis: u64| clock.until(Duration::from_millis(CREATED + millis)).await;
    let server_clock = clock.clone();
    let testbed = Testbed::new(Config {
        metrics: Some(Arc::new(SettableMetrics::new(0, 4))),
        clock: Arc::new(move || server_clock.now()),
        ..Config::default()
    });
    testbed.apply_all([objects::namespace()]);
    let clients = Clients { api: testbed.client(), metrics: testbed.client() };
    let dependencies =
        Dependencies { clock: Arc::new(clock.clone()), ..Dependencies::new(clients, &options()) };
    let controller = RunningController::start(dependencies, options());
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
