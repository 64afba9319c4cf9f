//! The collected metrics of a fake cluster, whose collectors read the value 5.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue, Quantity, Selector,
    api::{CrossVersionObjectReference, ObjectMeta},
};
use hpa_metrics::{
    CustomQuery, ExternalQuery, ListError, MetricError, MetricSource, ObjectLister, Objects,
    describe,
    resource::{ApiResource, GroupResource},
};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    Clients, Cluster, ConfigError, Context, Environment, FetchError, Ingress, LookupError,
    MetricConfig, Pod, RouteGroup, Sample, Settings, Values,
    annotations::MetricType,
    collection::{
        CollectedMetrics, CollectionObserver, CollectionSettings, CollectionSource, Targets,
        index::AutoscalerKey,
    },
    collectors::{http::HttpDocument, pods::PodDocuments},
    registry::{Collector, MetricSelector, Registration, Server},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A cluster whose pods have the label `app`. A lookup of pods, and with it a collection, takes
/// half a second.
#[derive(Default)]
pub(super) struct FakeCluster {
    /// The name and the label of each pod.
    pub(super) pods: Mutex<Vec<(String, String)>>,
    /// The error of looking up the selector of the target `api`.
    pub(super) selector_error: Mutex<Option<LookupError>>,
    pub(super) is_failing: Mutex<bool>,
    pub(super) is_panicking: Mutex<bool>,
    /// The replicas of each target.
    pub(super) replicas: Mutex<i32>,
    /// The time for which the machine was suspended. The monotonic clock doesn't count it.
    pub(super) suspended: Mutex<Duration>,
    /// The number of lookups of pods. Each collection makes one.
    collections: AtomicUsize,
    running: AtomicUsize,
    pub(super) most_running: AtomicUsize,
}

impl FakeCluster {
    fn names_of(&self, selector: &Selector) -> Vec<String> {
        let pods = self.pods.lock();
        let selected = pods.iter().filter(|(_, app)| {
            selector.matches(&BTreeMap::from([("app".to_owned(), app.clone())]))
        });
        selected.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn collections(&self) -> usize {
        self.collections.load(Ordering::SeqCst)
    }
}

/// Parses settings of Pods and External metrics as the real collectors do. Reads the value 5, of
/// each pod or as a single value.
#[derive(Debug)]
struct FiveCollector {
    is_of_pods: bool,
    is_per_replica: bool,
}

#[async_trait]
impl Collector for FiveCollector {
    fn parse(metric: &MetricConfig, environment: &Environment) -> Result<Self, ConfigError> {
        let is_of_pods = metric.metric_type == MetricType::Pods;
        match metric.metric_type {
            MetricType::Pods => _ = PodDocuments::parse(metric, environment)?,
            MetricType::External => _ = HttpDocument::parse(metric, environment)?,
            MetricType::Object => {}
        }
        Ok(Self { is_of_pods, is_per_replica: metric.per_replica })
    }

    fn is_per_replica(&self) -> bool {
        self.is_per_replica
    }

    fn servers(&self) -> Vec<Server> {
        Vec::new()
    }

    async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
        let pods = context.clients.cluster().pods(context.namespace, context.target).await?;
        let sample = |pod| Sample { pod, value: MilliValue::from_units(5), at: context.now };
        let samples = if self.is_of_pods {
            pods.into_iter().map(|pod| sample(Some(pod.name))).collect()
        } else {
            vec![sample(None)]
        };
        Ok(Values { samples, failures: Vec::new() })
    }
}

const COLLECTORS: [Registration; 3] = [
    Registration::new::<FiveCollector>("pods", &[MetricSelector::Pods], &["*"]),
    Registration::new::<FiveCollector>(
        "http",
        &[MetricSelector::ExternalType(&["json-path"])],
        &["*"],
    ),
    Registration::new::<FiveCollector>(
        "prometheus",
        &[MetricSelector::ObjectAnnotation("prometheus")],
        &["*"],
    ),
];

#[async_trait]
impl Cluster for FakeCluster {
    async fn pods(
        &self,
        _: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        self.collections.fetch_add(1, Ordering::SeqCst);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        sleep(SECOND / 2).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        assert!(!*self.is_panicking.lock(), "a collector panics");
        if *self.is_failing.lock() {
            return Err(LookupError::NotSynced("pods"));
        }
        let pod = |name| Pod { name, ..Pod::default() };
        Ok(self.names_of(&selector_of(target)).into_iter().map(pod).collect())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Ok(*self.replicas.lock())
    }

    async fn ingress(&self, _: &str, _: &str) -> Result<Ingress, LookupError> {
        Err(LookupError::NotSynced("Ingresses"))
    }

    async fn route_group(&self, _: &str, _: &str) -> Result<RouteGroup, LookupError> {
        Err(LookupError::NotSynced("RouteGroups"))
    }
}

/// The selector of a target: pods whose label `app` is its name.
fn selector_of(target: &CrossVersionObjectReference) -> Selector {
    Selector::parse(&format!("app={}", target.name)).unwrap()
}

#[async_trait]
impl Targets for FakeCluster {
    async fn selector(
        &self,
        _: &str,
        target: &CrossVersionObjectReference,
    ) -> Result<Selector, LookupError> {
        if let Some(error) = self.selector_error.lock().clone().filter(|_| target.name == "api") {
            return Err(error);
        }
        Ok(selector_of(target))
    }
}

#[async_trait]
impl ObjectLister for FakeCluster {
    async fn names(
        &self,
        _: &ApiResource,
        _: &str,
        selector: &Selector,
    ) -> Result<Vec<String>, ListError> {
        Ok(self.names_of(selector))
    }
}

/// Counts failed collections.
#[derive(Default)]
pub(super) struct Failures(pub(super) AtomicUsize);

impl CollectionObserver for Failures {
    fn collection_failed(&self, _: &'static str, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(super) struct Fixture {
    pub(super) cluster: Arc<FakeCluster>,
    pub(super) failures: Arc<Failures>,
    pub(super) collection: Arc<CollectedMetrics>,
    pub(super) source: CollectionSource,
    start: Instant,
}

impl Fixture {
    pub(super) fn new(concurrency: usize) -> Self {
        Self::with_max_age(concurrency, None)
    }

    pub(super) fn with_max_age(concurrency: usize, max_age: Option<Duration>) -> Self {
        let cluster = Arc::new(FakeCluster::default());
        for (name, app) in [("web-0", "web"), ("web-1", "web"), ("api-0", "api")] {
            cluster.pods.lock().push((name.to_owned(), app.to_owned()));
        }
        let start = Instant::now();
        let clock = cluster.clone();
        let now = move || Timestamp::UNIX_EPOCH + start.elapsed() + *clock.suspended.lock();
        let environment = Environment { collectors: COLLECTORS.to_vec(), ..Environment::default() };
        let settings = CollectionSettings {
            environment,
            collectors: ["pods", "http", "prometheus"].into(),
            concurrency,
            max_age,
        };
        let clients = Clients::new(Settings::default(), cluster.clone()).unwrap();
        let failures = Arc::<Failures>::default();
        let collection = Arc::new(CollectedMetrics::new(
            settings,
            Arc::new(clients),
            cluster.clone(),
            cluster.clone(),
            Arc::new(now),
            failures.clone(),
        ));
        let source = CollectionSource::for_api(collection.clone());
        Self { cluster, failures, collection, source, start }
    }

    pub(super) fn apply(&self, hpa: &HorizontalPodAutoscaler) {
        self.collection.apply(key(hpa), hpa);
    }

    /// The pods with a value.
    pub(super) async fn pods(&self, selector: &str) -> Result<Vec<String>, MetricError> {
        let selector = Selector::parse(selector).unwrap();
        let query = custom_query(GroupResource::pods()).selected(&selector);
        let values = self.source.read_custom(query).await?;
        Ok(values.items.into_iter().map(|item| item.object.into()).collect())
    }

    /// The value and its age in seconds.
    pub(super) async fn external(&self, selector: &str) -> Result<(String, i64), String> {
        let query = external_query(selector);
        let values = self.source.read_external(query).await.map_err(|error| describe(&error))?;
        let item = &values.items[0];
        let now = Timestamp::UNIX_EPOCH + self.start.elapsed();
        let age = now.duration_since(item.timestamp).as_secs();
        Ok((Quantity::from(item.value).to_string(), age))
    }
}

/// The query for the metric `rps` of all objects of a resource.
pub(super) fn custom_query(resource: GroupResource) -> CustomQuery {
    CustomQuery {
        resource,
        namespace: "shop".to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: "rps".to_owned(),
        metric_selector: Selector::everything(),
    }
}

pub(super) fn external_query(selector: &str) -> ExternalQuery {
    ExternalQuery {
        namespace: "shop".to_owned(),
        metric: "queue".to_owned(),
        metric_selector: Selector::parse(selector).unwrap(),
    }
}

pub(super) fn key(hpa: &HorizontalPodAutoscaler) -> AutoscalerKey {
    let ObjectMeta { namespace, name, .. } = hpa.metadata.clone();
    AutoscalerKey { group: "autoscaling".to_owned(), namespace, name }
}

fn hpa(name: &str, annotations: &[(&str, &str)], metrics: Value) -> HorizontalPodAutoscaler {
    let annotations: BTreeMap<&str, &str> = annotations.iter().copied().collect();
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": name, "uid": name, "annotations": annotations },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": name },
            "maxReplicas": 9, "metrics": metrics,
        },
    }))
    .unwrap()
}

pub(super) const JSON_KEY: (&str, &str) = ("metric-config.pods.rps.json-path/json-key", "$.rps");
const PORT: (&str, &str) = ("metric-config.pods.rps.json-path/port", "80");

pub(super) fn pods_hpa(name: &str) -> HorizontalPodAutoscaler {
    let metric = json!([{ "type": "Pods", "pods": {
        "metric": { "name": "rps" }, "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    hpa(name, &[JSON_KEY, PORT], metric)
}

/// An autoscaler with a Prometheus query for the metric `rps` of an object.
pub(super) fn object_hpa(
    name: &str,
    object: Value,
    annotations: &[(&str, &str)],
) -> HorizontalPodAutoscaler {
    let metric = json!([{ "type": "Object", "object": {
        "describedObject": object,
        "metric": { "name": "rps" }, "target": { "type": "Value", "value": "1" },
    } }]);
    let query = ("metric-config.object.rps.prometheus/query", "up");
    hpa(name, &[&[query][..], annotations].concat(), metric)
}

/// Collects a queue every 10 s.
pub(super) fn external_hpa(name: &str) -> HorizontalPodAutoscaler {
    let metric = json!([{ "type": "External", "external": {
        "metric": { "name": "queue",
            "selector": { "matchLabels": { "type": "json-path", "q": name } } },
        "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    let annotations = [
        ("metric-config.external.queue.json-path/endpoint", "http://queue/length"),
        ("metric-config.external.queue.json-path/json-key", "$.length"),
        ("metric-config.external.queue.json-path/interval", "10s"),
    ];
    hpa(name, &annotations, metric)
}
