//! Autoscalers that are divided between instances by namespace, in virtual time. While the division
//! changes, no autoscaler is reconciled by two instances at a time, and none waits for long.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use hpa_controller::{
    Dependencies, Options,
    reconcile::{FinishedReconcile, Observer, ReconcileBeforeStatusWrite},
};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    RunningController, SettableMetrics, TestbedExt, VirtualClock, clients, controller_options,
    election, objects,
};

const PERIOD: Duration = Duration::from_secs(15);
const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const AUTOSCALERS_PER_NAMESPACE: usize = 5;
/// The largest lateness of a reconcile: reconciles start at steps of 100 ms, and a new leader first
/// reads the stored histories.
const SLACK: Duration = Duration::from_secs(1);

/// The reconciles of each autoscaler, in order: the name of the instance, and the time.
#[derive(Debug, Default)]
struct Reconciles(Mutex<BTreeMap<String, Vec<(&'static str, Duration)>>>);

/// Records the reconciles of one instance.
struct InstanceObserver {
    name: &'static str,
    clock: VirtualClock,
    reconciles: Arc<Reconciles>,
}

impl Observer for InstanceObserver {
    fn concluded(&self, _: &ReconcileBeforeStatusWrite<'_>) {}

    fn finished(&self, finished: &FinishedReconcile<'_>) {
        let mut reconciles = self.reconciles.0.lock().expect("no panic");
        let of_autoscaler = reconciles.entry(finished.key.to_string()).or_default();
        of_autoscaler.push((self.name, self.clock.age()));
    }
}

struct Cluster {
    testbed: Testbed,
    clock: VirtualClock,
    reconciles: Arc<Reconciles>,
}

impl Cluster {
    fn new() -> Self {
        let metrics = Arc::new(SettableMetrics::new(0, 5));
        let clock = VirtualClock::start();
        let server_clock = clock.clone();
        let testbed = Testbed::new(Config {
            metrics: Some(metrics),
            clock: Arc::new(move || hpa_controller::Clock::now(&server_clock)),
            ..Config::default()
        });
        let mut lease_namespace = objects::namespace();
        lease_namespace["metadata"]["name"] = "autoscaling".into();
        testbed.apply_all([lease_namespace]);
        for namespace in NAMESPACES {
            let mut object = objects::namespace();
            object["metadata"]["name"] = namespace.into();
            testbed.apply_all([object]);
            for name in (0..AUTOSCALERS_PER_NAMESPACE).map(|index| format!("web-{index}")) {
                let metric = objects::external_metric("load", "1");
                for mut object in
                    [objects::running_deployment(&name, 5), objects::hpa(&name, 1..=20, [metric])]
                {
                    object["metadata"]["namespace"] = namespace.into();
                    testbed.apply_all([object]);
                }
            }
        }
        Self { testbed, clock, reconciles: Arc::default() }
    }

    /// Starts an instance that handles these namespaces if it holds the lease.
    fn start(
        &self,
        name: &'static str,
        namespaces: &[&'static str],
        lease: &str,
    ) -> RunningController {
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        let options = Options { namespaces, sync_period: PERIOD, ..controller_options() };
        let client = self.testbed.client_named(name);
        let mut election = election(client.clone(), "autoscaling", name);
        lease.clone_into(&mut election.config.name);
        let observer = Arc::new(InstanceObserver {
            name,
            clock: self.clock.clone(),
            reconciles: Arc::clone(&self.reconciles),
        });
        let dependencies = Dependencies {
            clock: Arc::new(self.clock.clone()),
            observer,
            election: Some(election),
            ..Dependencies::new(clients(client), &options)
        };
        RunningController::start(dependencies, options)
    }

    async fn run_for(&self, periods: u32) {
        // After a multiple of the period, reconciles would be in progress.
        tokio::time::sleep(PERIOD * periods + PERIOD / 3).await;
    }

    /// The instances that reconciled each autoscaler of a namespace, one after the other, and the
    /// longest time between two of its reconciles, or since the last one.
    fn instances_and_gaps(&self, namespace: &str) -> Vec<(Vec<&'static str>, Duration)> {
        let reconciles = self.reconciles.0.lock().expect("no panic");
        let of_namespace = reconciles
            .iter()
            .filter(|(key, _)| key.split('/').next() == Some(namespace))
            .map(|(_, of_autoscaler)| {
                let mut instances: Vec<&str> =
                    of_autoscaler.iter().map(|(name, _)| *name).collect();
                instances.dedup();
                let times = of_autoscaler.iter().map(|(_, time)| *time);
                let ends = times.clone().skip(1).chain([self.clock.age()]);
                let gaps = times.zip(ends).map(|(time, end)| end.saturating_sub(time));
                (instances, gaps.max().expect("a reconcile"))
            })
            .collect::<Vec<_>>();
        assert_eq!(of_namespace.len(), AUTOSCALERS_PER_NAMESPACE, "{reconciles:?}");
        of_namespace
    }

    fn assert_reconciled_by(&self, namespace: &str, expected: &[&str], longest_gap: Duration) {
        for (instances, gap) in self.instances_and_gaps(namespace) {
            assert_eq!(instances, expected, "{namespace}");
            assert!(gap <= longest_gap + SLACK, "{namespace}: {gap:?} without a reconcile");
        }
    }
}

/// Each of two machines runs an instance of both releases. The holder of a release's lease handles
/// its namespaces.
#[tokio::test(start_paused = true)]
async fn release_moves_to_another_machine_without_a_missed_reconcile() {
    let cluster = Cluster::new();
    let first = cluster.start("a on 1", &["a"], "hpa-a");
    let moving = cluster.start("b on 1", &["b", "c"], "hpa-b");
    cluster.run_for(1).await;
    let standbys =
        [cluster.start("a on 2", &["a"], "hpa-a"), cluster.start("b on 2", &["b", "c"], "hpa-b")];
    cluster.run_for(2).await;
    moving.stop().await;
    cluster.run_for(4).await;
    cluster.assert_reconciled_by("a", &["a on 1"], PERIOD);
    for namespace in ["b", "c"] {
        cluster.assert_reconciled_by(namespace, &["b on 1", "b on 2"], PERIOD);
    }
    first.stop().await;
    for standby in standbys {
        standby.stop().await;
    }
}

/// A namespace moves from one release to another: it is removed from the old release first, then
/// added to the new one.
#[tokio::test(start_paused = true)]
async fn namespace_moves_to_another_release_within_a_period() {
    let cluster = Cluster::new();
    let old_1 = cluster.start("1", &["a", "b"], "hpa-1");
    let old_2 = cluster.start("2", &["c"], "hpa-2");
    cluster.run_for(3).await;
    // As in a rollout, the new instance waits for the lease of the old one.
    let new_1 = cluster.start("1 without b", &["a"], "hpa-1");
    cluster.run_for(1).await;
    old_1.stop().await;
    let new_2 = cluster.start("2 with b", &["b", "c"], "hpa-2");
    // Until the caches of the new instance have synced.
    tokio::time::sleep(Duration::from_secs(1)).await;
    old_2.stop().await;
    cluster.run_for(4).await;
    cluster.assert_reconciled_by("a", &["1", "1 without b"], PERIOD);
    cluster.assert_reconciled_by("b", &["1", "2 with b"], PERIOD * 2);
    cluster.assert_reconciled_by("c", &["2", "2 with b"], PERIOD);
    new_1.stop().await;
    new_2.stop().await;
}
