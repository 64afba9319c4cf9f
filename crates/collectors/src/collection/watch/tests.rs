use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hpa_metrics::KubeObjects;
use hpa_testbed::{Config, Effect, Fault, Faults, Match, Testbed};
use jiff::Timestamp;
use tokio::time::sleep;

use super::*;
use crate::{
    Clients, Settings,
    collection::{CollectionObserver, CollectionSettings, KubeCluster},
    tests::recorded_logs,
};

/// Counts updates, and failed ones.
#[derive(Default)]
struct Updates([AtomicUsize; 2]);

impl CollectionObserver for Updates {
    fn collected(&self, _: &'static str, _: Duration, _: bool) {}

    fn updated(&self, has_failed: bool) {
        self.0[usize::from(has_failed)].fetch_add(1, Ordering::SeqCst);
    }
}

/// Watches the autoscalers of these API groups of a testbed.
fn watch(testbed: &Testbed, groups: &'static [AutoscalerGroup]) -> (Arc<Collection>, Arc<Updates>) {
    let client = testbed.client();
    let objects = Arc::new(KubeObjects::new(client.clone()));
    let cluster = Arc::new(KubeCluster::new(client.clone(), objects.clone()));
    let updates = Arc::<Updates>::default();
    let collection = Arc::new(Collection::new(
        CollectionSettings::default(),
        Arc::new(Clients::new(Settings::default(), cluster.clone()).unwrap()),
        objects,
        cluster,
        Arc::new(|| Timestamp::UNIX_EPOCH),
        updates.clone(),
    ));
    tokio::spawn({
        let collection = collection.clone();
        async move { collection.watch(client, groups, None).await }
    });
    (collection, updates)
}

#[tokio::test(start_paused = true)]
async fn absent_api_is_neither_a_warning_nor_a_failed_update() {
    let (logs, _guard) = recorded_logs();
    let testbed = Testbed::default();
    let (collection, updates) = watch(&testbed, &[AutoscalerGroup::Core, AutoscalerGroup::Custom]);
    collection.listed().await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(*logs.lock(), [""; 0]);
    assert_eq!(updates.0[1].load(Ordering::SeqCst), 0);
}

/// A watch that fails to start resumes without a relist.
#[tokio::test(start_paused = true)]
async fn each_outage_of_a_watch_is_logged() {
    let (logs, _guard) = recorded_logs();
    let faults = Faults::new(1);
    let interceptor = Some(Arc::new(faults.clone()) as Arc<_>);
    let testbed = Testbed::new(Config { interceptor, ..Config::default() });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    testbed.apply(namespace).unwrap();
    let outage = || {
        let watches = Match::verb("watch").resource("horizontalpodautoscalers");
        faults.add(Fault::on(watches).effect(Effect::InternalError))
    };
    let fault = outage();
    let (collection, _) = watch(&testbed, &[AutoscalerGroup::Core]);
    collection.listed().await;
    sleep(Duration::from_mins(2)).await;
    assert_eq!(logs.lock().len(), 1);
    faults.remove(fault);
    sleep(Duration::from_mins(2)).await;
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
        },
    });
    testbed.apply(autoscaler).unwrap();
    sleep(Duration::from_secs(1)).await;
    outage();
    testbed.drop_watches();
    sleep(Duration::from_mins(2)).await;
    let logs = logs.lock();
    assert_eq!(logs.len(), 2, "{logs:?}");
}
