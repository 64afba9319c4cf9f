//! The controller follows scaling schedules, in virtual time.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a failed step fails the test")]

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use hpa_calc::{
    HorizontalPodAutoscaler, MetricQuery, ReadError, Reading, Selector, settings::Settings,
};
use hpa_collectors::schedules::source::{ScheduleClient, Schedules, schedules_of};
use hpa_controller::{Clock, Dependencies, LeaderTask, Options};
use hpa_metrics::MetricsClient;
use hpa_testbed::Testbed;
use hpa_tests::harness::{
    NAMESPACE, RunningController, TestbedExt, VirtualClock, clients, controller_options, objects,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, runtime::watcher::watch_object};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

const PERIOD: Duration = Duration::from_secs(15);
/// The maximum delay of a scaling after a change of the value.
const TOLERANCE: Duration = Duration::from_millis(100);
/// The schedule's value in its window. A ramp has as many steps, so that each step changes the
/// value by 1.
const VALUE: i64 = 100;
/// The duration of a ramp, and of each of its steps.
const RAMP: Duration = Duration::from_mins(10);
const STEP: Duration = Duration::from_secs(6);

/// Returns each value some time after it was read, as if another metric of the autoscaler were
/// slow.
struct SlowClient {
    client: ScheduleClient,
    delay: Duration,
}

#[async_trait]
impl MetricsClient for SlowClient {
    async fn read(
        &self,
        namespace: &str,
        pods: &Selector,
        query: &MetricQuery,
    ) -> Result<Reading, ReadError> {
        let reading = self.client.read(namespace, pods, query).await;
        sleep(self.delay).await;
        reading
    }
}

/// The autoscaler `web`, from 1 to 100 replicas, on the schedule `evening` with a target of 1.
struct Cluster {
    testbed: Testbed,
    clock: VirtualClock,
    _controller: RunningController,
    _tasks: JoinSet<()>,
}

impl Cluster {
    fn start(schedule: Value) -> Self {
        Self::start_with(schedule, Duration::ZERO, |unchanged| unchanged)
    }

    /// Each reading of a metric ends `delay` after the value was read.
    fn start_with(
        schedule: Value,
        delay: Duration,
        change: impl FnOnce(Dependencies) -> Dependencies,
    ) -> Self {
        let clock = VirtualClock::start();
        let testbed = Testbed::default();
        testbed.apply_all(
            hpa_collectors::schedules::definition::schedule_definitions().expect("definitions"),
        );
        testbed.apply_all([
            objects::namespace(),
            objects::running_deployment("web", 1),
            objects::hpa("web", 1..=100, [metric(&schedule["kind"])]),
            schedule,
        ]);
        let settings = Settings::default().with(|settings| {
            settings.downscale_stabilization = SignedDuration::ZERO;
            settings.exact_schedules = true;
        });
        let options = Options { settings, sync_period: PERIOD, ..controller_options() };
        let mut tasks = JoinSet::new();
        let dependencies = dependencies(&testbed, &clock, &options, delay, &mut tasks);
        tasks.spawn(report_replicas(testbed.clone()));
        let controller = RunningController::start(change(dependencies), options);
        Self { testbed, clock, _controller: controller, _tasks: tasks }
    }

    fn is_active(&self) -> bool {
        let object = self.testbed.get("zalando.org/v1", "ScalingSchedule", NAMESPACE, "evening");
        object.expect("a schedule")["status"]["active"] == true
    }
}

/// The controller's dependencies, with metrics as in [`Cluster::start_with`]. Starts the watch
/// of schedules in `tasks`.
fn dependencies(
    testbed: &Testbed,
    clock: &VirtualClock,
    options: &Options,
    delay: Duration,
    tasks: &mut JoinSet<()>,
) -> Dependencies {
    let dependencies = Dependencies::new(clients(testbed.client()), options);
    let settings = hpa_collectors::schedules::Settings { ramp_steps: 100, ..Default::default() };
    let now = clock.clone();
    let schedules = Arc::new(Schedules::new(settings, Arc::new(move || now.now())));
    let (watched, client, trigger) =
        (schedules.clone(), testbed.client(), dependencies.trigger.clone());
    tasks.spawn(async move {
        let on_change = |changed: &[_]| {
            trigger.reconcile_where(|hpa| schedules_of(hpa).any(|key| changed.contains(&key)));
        };
        watched.watch(client, &[], on_change).await;
    });
    let written = schedules.clone();
    let status = LeaderTask::new("writer of statuses", move |context| {
        let schedules = written.clone();
        async move { schedules.write_statuses(context.client).await }.boxed()
    });
    let client = ScheduleClient::new(schedules.clone(), dependencies.metrics);
    Dependencies {
        clock: Arc::new(clock.clone()),
        metrics: Arc::new(SlowClient { client, delay }),
        next_metric_change: Arc::new(move |hpa: &HorizontalPodAutoscaler, since, now| {
            schedules.next_change(hpa, since, now)
        }),
        leader_tasks: vec![status],
        ..dependencies
    }
}

/// Sets `status.replicas` of the Deployment to `spec.replicas` after each change.
async fn report_replicas(testbed: Testbed) {
    let deployments: Api<Deployment> = Api::namespaced(testbed.client(), NAMESPACE);
    let mut changes = pin!(watch_object(deployments, "web"));
    while let Some(change) = changes.next().await {
        let Ok(Some(_)) = change else { continue };
        let mut deployment = testbed.deployment("web").expect("a deployment");
        let replicas = deployment["spec"]["replicas"].clone();
        if deployment["status"]["replicas"] != replicas {
            deployment["status"]["replicas"] = replicas;
            testbed.apply(deployment).expect("a valid object");
        }
    }
}

/// The metric of the schedule `evening` of this kind.
fn metric(kind: &Value) -> Value {
    json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": "zalando.org/v1", "kind": kind, "name": "evening" },
        "metric": { "name": "scheduled" },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } })
}

/// A schedule with one window, which starts at `start` and lasts an hour.
fn schedule(kind: &str, start: Timestamp) -> Value {
    let entry = json!({ "type": "OneTime", "date": start.to_string(), "durationMinutes": 60,
        "value": VALUE });
    let mut object = json!({
        "apiVersion": "zalando.org/v1", "kind": kind, "metadata": { "name": "evening" },
        "spec": { "scalingWindowDurationMinutes": RAMP.as_secs() / 60, "schedules": [entry] },
    });
    if kind == "ScalingSchedule" {
        object["metadata"]["namespace"] = NAMESPACE.into();
    }
    object
}

/// Close to the top of the ramp, a step changes the value by 1%. The tolerance is 10%. Each step is
/// shorter than the sync period.
#[rstest]
#[case::namespaced("ScalingSchedule")]
#[case::cluster("ClusterScalingSchedule")]
#[tokio::test(start_paused = true)]
async fn autoscaler_follows_each_step_of_a_ramp(#[case] kind: &str) {
    let ramp_start = VirtualClock::start().now() + Duration::from_mins(1);
    let cluster = Cluster::start(schedule(kind, ramp_start + RAMP));
    let (clock, testbed) = (&cluster.clock, &cluster.testbed);
    let mut at = Duration::from_mins(1);
    for step in 1..=VALUE {
        at += STEP;
        clock.wait_until_age(at.saturating_sub(TOLERANCE)).await;
        assert_eq!(testbed.replicas("web"), (step - 1).max(1), "before step {step}");
        clock.wait_until_age(at + TOLERANCE).await;
        assert_eq!(testbed.replicas("web"), step, "after step {step}");
    }
    at += Duration::from_mins(60);
    clock.wait_until_age(at.saturating_sub(TOLERANCE)).await;
    assert_eq!(testbed.replicas("web"), VALUE, "at the end of the window");
    // The value decreases at the start of each step down. The first one begins right after the end
    // of the window, which is also a change: it is reconciled a second later.
    let delay = Duration::from_secs(1);
    for step in 1..VALUE {
        clock.wait_until_age(at + delay + TOLERANCE).await;
        assert_eq!(testbed.replicas("web"), (VALUE - step).max(1), "step {step} down");
        at += STEP;
    }
    clock.wait_until_age(at + STEP + TOLERANCE).await;
    assert_eq!(testbed.replicas("web"), 1);
}

#[tokio::test(start_paused = true)]
async fn edited_schedule_applies_at_once() {
    let start = VirtualClock::start().now();
    let cluster = Cluster::start(schedule("ScalingSchedule", start));
    // Not at the time of a reconcile: its recommendation would count in a window of 0 s.
    sleep(PERIOD * 10 + TOLERANCE).await;
    assert_eq!(cluster.testbed.replicas("web"), VALUE);
    let mut edited = schedule("ScalingSchedule", start);
    edited["spec"]["schedules"][0]["value"] = 97.into();
    cluster.testbed.apply(edited).expect("a valid object");
    sleep(TOLERANCE).await;
    assert_eq!(cluster.testbed.replicas("web"), 97);
    cluster
        .testbed
        .delete("zalando.org/v1", "ScalingSchedule", NAMESPACE, "evening")
        .expect("it exists");
    sleep(TOLERANCE).await;
    let [status, reason, message] =
        cluster.testbed.condition("web", "ScalingActive").expect("a condition");
    assert_eq!((&*status, &*reason), ("False", "FailedGetObjectMetric"));
    assert!(message.contains("there is no ScalingSchedule shop/evening"), "{message}");
    assert_eq!(cluster.testbed.replicas("web"), 97);
}

#[tokio::test(start_paused = true)]
async fn schedule_status_is_active_only_in_its_window_and_ramps() {
    let start = VirtualClock::start().now() + Duration::from_mins(30);
    let cluster = Cluster::start(schedule("ScalingSchedule", start));
    for (minutes, expected) in [(19, false), (21, true), (60, true), (99, true), (101, false)] {
        cluster.clock.wait_until_age(Duration::from_mins(minutes)).await;
        assert_eq!(cluster.is_active(), expected, "{minutes} min, {}", cluster.clock.now());
    }
}

/// The value must change after a reconcile has read it, and more than a second before the reconcile
/// ends. Reconciles start 5 s later if the first list of schedules repeats the first reconcile, so
/// one of the two seconds fits either way.
#[rstest]
#[tokio::test(start_paused = true)]
async fn change_during_a_slow_reconcile_does_not_wait_for_the_next_period(
    #[values(62, 67)] second: u64,
) {
    let change = Duration::from_secs(second);
    let mut window = schedule("ScalingSchedule", VirtualClock::start().now() + change);
    window["spec"]["scalingWindowDurationMinutes"] = 0.into();
    let delay = Duration::from_secs(5);
    let cluster = Cluster::start_with(window, delay, |unchanged| unchanged);
    cluster.clock.wait_until_age(change).await;
    assert_eq!(cluster.testbed.replicas("web"), 1);
    // The rest of a reconcile, a second, and the reconcile that reads the value again.
    cluster.clock.wait_until_age(change + delay + Duration::from_secs(1) + delay).await;
    assert!(cluster.testbed.replicas("web") > 1);
}

/// A panic after a reconcile, while the controller finds out when the next one is due.
#[tokio::test(start_paused = true)]
async fn autoscaler_stays_queued_after_a_panic() {
    let schedule = schedule("ScalingSchedule", VirtualClock::start().now());
    let cluster = Cluster::start_with(schedule, Duration::ZERO, |dependencies| {
        let was_called = AtomicBool::new(false);
        let panic_at_first = move |_: &HorizontalPodAutoscaler, _: Timestamp, _: Timestamp| {
            assert!(was_called.swap(true, Ordering::Relaxed), "the first call panics");
            None::<Timestamp>
        };
        Dependencies { next_metric_change: Arc::new(panic_at_first), ..dependencies }
    });
    sleep(Duration::from_secs(1)).await;
    let first = cluster.testbed.replicas("web");
    sleep(PERIOD * 2).await;
    assert!(cluster.testbed.replicas("web") > first);
}

/// A tenant's schedule must not make the controller write a scale at each of its changes.
#[tokio::test(start_paused = true)]
async fn quick_changes_scale_at_most_once_a_second() {
    const ENTRY: Duration = Duration::from_millis(50);
    let start = VirtualClock::start().now() + Duration::from_mins(1);
    let entries = (0..200_u32).map(|index| {
        let [date, end] = [index, index + 1].map(|count| (start + ENTRY * count).to_string());
        json!({ "type": "OneTime", "date": date, "endDate": end, "value": 2 + index % 3 })
    });
    let mut quick = schedule("ScalingSchedule", start);
    quick["spec"] =
        json!({ "scalingWindowDurationMinutes": 0, "schedules": entries.collect::<Vec<_>>() });
    let cluster = Cluster::start(quick);
    let (clock, testbed) = (&cluster.clock, &cluster.testbed);
    let generation = || {
        let deployment = testbed.deployment("web").expect("a deployment");
        deployment["metadata"]["generation"].as_i64().expect("a generation")
    };
    clock.wait_until_age(Duration::from_secs(59)).await;
    let before = generation();
    // The last entry ends after 70 s. A reconcile follows within a second.
    clock.wait_until_age(Duration::from_secs(71) + TOLERANCE).await;
    let written = generation() - before;
    assert!((5..=13).contains(&written), "{written} scales in 11 s");
    assert_eq!(testbed.replicas("web"), 1);
}
