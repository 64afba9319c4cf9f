use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::Selector;
use hpa_metrics::{
    Catalog, CustomQuery, ExternalQuery, KubeObjects, Objects, Query, resource::GroupResource,
};
use hpa_testbed::{Effect, Fault, Match, Testbed};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    Clients, ConfigError, Context, Environment, FetchError, MetricConfig, Settings, Values,
    collection::{CollectionObserver, CollectionSettings, CollectionSource, KubeCluster},
    registry::{Collector, MetricSelector, Registration, Server},
    tests::{faulty_testbed, not_served, recorded_logs},
};

/// The number of failures of watches.
#[derive(Default)]
struct WatchFailures(AtomicUsize);

impl CollectionObserver for WatchFailures {
    fn watch_failed(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn autoscalers_of(group: &str) -> ApiResource {
    let kind = kube::core::GroupVersionKind::gvk(group, "v2", hpa_calc::crd::KIND);
    ApiResource::from_gvk_with_plural(&kind, hpa_calc::crd::PLURAL)
}

/// Watches the autoscalers of these API groups of a testbed. Returns their metrics, the cache of
/// pods, which isn't watched, and the number of failures of watches.
fn watch(
    testbed: &Testbed,
    groups: &[&str],
) -> (Arc<CollectedMetrics>, Arc<KubeObjects>, Arc<WatchFailures>) {
    watch_with(testbed, groups, CollectionSettings::default())
}

fn watch_with(
    testbed: &Testbed,
    groups: &[&str],
    settings: CollectionSettings,
) -> (Arc<CollectedMetrics>, Arc<KubeObjects>, Arc<WatchFailures>) {
    let client = testbed.client();
    let objects = Arc::new(KubeObjects::new(client.clone()));
    let cluster = Arc::new(KubeCluster::new(client.clone(), objects.clone()));
    let failures = Arc::<WatchFailures>::default();
    let collection = Arc::new(CollectedMetrics::new(
        settings,
        Arc::new(Clients::new(Settings::default(), cluster.clone()).unwrap()),
        objects.clone(),
        cluster,
        Arc::new(|| Timestamp::UNIX_EPOCH),
        failures.clone(),
    ));
    let apis: Vec<_> = groups.iter().map(|group| autoscalers_of(group)).collect();
    tokio::spawn({
        let collection = collection.clone();
        async move { collection.watch(client, &apis, None).await }
    });
    (collection, objects, failures)
}

fn external_query() -> Query {
    Query::External(ExternalQuery {
        namespace: "shop".to_owned(),
        metric: "queue".to_owned(),
        metric_selector: Selector::everything(),
    })
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
}

/// An autoscaler with a metric that the collector `pods` reads.
fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web", "annotations": {
            "metric-config.pods.rps.json-path/json-key": "$.v",
            "metric-config.pods.rps.json-path/path": "/metrics",
            "metric-config.pods.rps.json-path/port": "9090",
        }},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "metrics": [{"type": "Pods", "pods": {
                "metric": {"name": "rps"},
                "target": {"type": "AverageValue", "averageValue": "1"},
            }}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn api_that_is_not_installed_is_not_reported_as_failed() {
    let (logs, _guard) = recorded_logs();
    let testbed = Testbed::default();
    let groups = &["autoscaling", "autoscaling.hpa-rs.dev"];
    let (collection, _, failures) = watch(&testbed, groups);
    collection.wait_for_first_list().await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(*logs.lock(), [""; 0]);
    assert_eq!(failures.0.load(Ordering::SeqCst), 0);
}

/// A watch that fails to start resumes without a relist.
#[tokio::test(start_paused = true)]
async fn each_outage_of_a_watch_is_logged() {
    let (logs, _guard) = recorded_logs();
    let (testbed, faults) = faulty_testbed();
    testbed.apply(namespace()).unwrap();
    let outage = || {
        let watches = Match::verb("watch").resource("horizontalpodautoscalers");
        faults.add(Fault::on(watches).effect(Effect::InternalError))
    };
    let fault = outage();
    let (collection, ..) = watch(&testbed, &["autoscaling"]);
    collection.wait_for_first_list().await;
    sleep(Duration::from_mins(2)).await;
    faults.remove(fault);
    sleep(Duration::from_mins(2)).await;
    testbed.apply(autoscaler()).unwrap();
    sleep(Duration::from_secs(1)).await;
    outage();
    testbed.end_watches();
    sleep(Duration::from_mins(2)).await;
    let failed = "unable to watch autoscalers for collectors, retrying";
    assert_eq!(*logs.lock(), [failed, "autoscalers for collectors are watched again", failed]);
}

#[tokio::test(start_paused = true)]
async fn first_list_after_a_failure_is_not_logged_as_a_return() {
    let (logs, _guard) = recorded_logs();
    let (testbed, faults) = faulty_testbed();
    let lists = Match::verb("list").resource("horizontalpodautoscalers");
    let outage = faults.add(Fault::on(lists).effect(Effect::InternalError));
    let (collection, ..) = watch(&testbed, &["autoscaling"]);
    sleep(Duration::from_secs(30)).await;
    faults.remove(outage);
    // Longer than the backoff.
    sleep(Duration::from_mins(2)).await;
    collection.wait_for_first_list().await;
    let failed = "unable to watch autoscalers for collectors, retrying";
    assert_eq!(*logs.lock(), [failed, "autoscalers for collectors are watched now"]);
}

/// As after the deletion of the definition, and its return.
#[tokio::test(start_paused = true)]
async fn autoscalers_are_removed_while_their_api_is_not_served() {
    let (testbed, faults) = faulty_testbed();
    testbed.apply(namespace()).unwrap();
    testbed.apply(autoscaler()).unwrap();
    let (collection, _, failures) = watch(&testbed, &["autoscaling"]);
    let metric_count = || collection.status()["pods"].metric_count;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(metric_count(), 1);
    let watches = Match::verb("watch").resource("horizontalpodautoscalers");
    let outage = faults.add(Fault::on(watches).effect(not_served()));
    testbed.end_watches();
    sleep(Duration::from_secs(3)).await;
    assert_eq!((metric_count(), failures.0.load(Ordering::SeqCst)), (0, 0));
    faults.remove(outage);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(metric_count(), 1);
}

/// A collector with a bug.
#[derive(Debug)]
struct Panicking;

#[async_trait]
impl Collector for Panicking {
    fn parse(_: &MetricConfig, _: &Environment) -> Result<Self, ConfigError> {
        panic!("a bug")
    }

    fn servers(&self) -> Vec<Server> {
        Vec::new()
    }

    async fn read(&self, _: &Context<'_>) -> Result<Values, FetchError> {
        unreachable!("it can't be parsed")
    }
}

#[tokio::test(start_paused = true)]
async fn panic_on_an_autoscaler_does_not_end_the_watch_of_others() {
    let (logs, _guard) = recorded_logs();
    let testbed = Testbed::default();
    testbed.apply(namespace()).unwrap();
    let mut panicking = autoscaler();
    panicking["metadata"] = json!({"namespace": "shop", "name": "api", "annotations": {
        "metric-config.external.queue.panicking/size": "1",
    }});
    panicking["spec"]["metrics"] = json!([{"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"type": "panicking"}}},
        "target": {"type": "AverageValue", "averageValue": "1"},
    }}]);
    testbed.apply(panicking).unwrap();
    testbed.apply(autoscaler()).unwrap();
    let mut settings = CollectionSettings::default();
    let types = &[MetricSelector::ExternalType(&["panicking"])];
    settings.environment.collectors.push(Registration::new::<Panicking>("panicking", types, &[]));
    let (collection, ..) = watch_with(&testbed, &["autoscaling"], settings);
    timeout(Duration::from_secs(10), collection.wait_for_first_list()).await.expect("in time");
    assert_eq!(collection.status()["pods"].metric_count, 1);
    assert_eq!(*logs.lock(), ["the annotations of an autoscaler caused a panic"]);
}

#[tokio::test(start_paused = true)]
async fn only_metrics_that_can_be_collected_wait_for_the_list_of_autoscalers() {
    let (collection, ..) = watch(&Testbed::default(), &["autoscaling"]);
    let source = CollectionSource::new(collection.clone());
    let undiscovered = |query: Query| source.undiscovered(&query);
    let everything = || Objects::Selected(Selector::everything());
    let custom = |namespace: &str| CustomQuery {
        resource: GroupResource::pods(),
        namespace: namespace.to_owned(),
        objects: everything(),
        metric: "rps".to_owned(),
        metric_selector: Selector::everything(),
    };
    for query in [Query::from(custom("shop")), external_query()] {
        let text = undiscovered(query).unwrap();
        assert!(text.starts_with("the metrics of collectors are not discovered yet"), "{text}");
    }
    let namespace = "shop".to_owned();
    let pods = Query::PodUsage { namespace, pods: everything(), fields: Box::default() };
    let nodes = Query::NodeUsage { nodes: everything(), fields: Box::default() };
    for query in [Query::from(custom("")), pods, nodes] {
        assert_eq!(undiscovered(query), None);
    }
    collection.wait_for_first_list().await;
    assert_eq!(undiscovered(custom("shop").into()), None, "listed");
}

#[tokio::test(start_paused = true)]
async fn readiness_names_the_unsynced_cache_of_pods() {
    let (testbed, faults) = faulty_testbed();
    let lists = Match::verb("list").resource("pods");
    let outage = faults.add(Fault::on(lists).effect(Effect::InternalError));
    let (collection, objects, _) = watch(&testbed, &["autoscaling"]);
    tokio::spawn(async move { objects.watch_pods().await });
    collection.wait_for_first_list().await;
    sleep(Duration::from_secs(1)).await;
    let source = CollectionSource::new(collection);
    let unsynced = "the cache of pods has not synced yet";
    assert_eq!(source.readiness(), Err(vec![unsynced.to_owned()]));
    assert_eq!(source.undiscovered(&external_query()), None);
    faults.remove(outage);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(source.readiness(), Ok(()));
}
