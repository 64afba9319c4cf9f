use std::sync::{
    Weak,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use hpa_calc::{MilliValue, Quantity, Selector, api::CrossVersionObjectReference};
use hpa_metrics::resource::{ApiResource, GroupResource};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{metric::CollectedMetric, *};
use crate::{
    Cluster, ConfigError, Context, FetchError, Ingress, LookupError, MetricConfig, Pod, RouteGroup,
    Sample, Settings, Values,
    annotations::MetricType,
    collectors::{http::HttpDocument, pods::PodDocuments},
    registry::{Collector, MetricSelector, Registration, Server},
};
use hpa_metrics::{
    Catalog, CustomQuery, ExternalQuery, ListError, MetricError, MetricSource, ObjectKey,
    ObjectMetadata, Objects, describe,
};

const SECOND: Duration = Duration::from_secs(1);

/// A cluster whose pods have the label `app`. A lookup of pods, and with it a collection, takes
/// half a second.
#[derive(Default)]
struct FakeCluster {
    /// The name and the label of each pod.
    pods: Mutex<Vec<(String, String)>>,
    /// The error of looking up the selector of the target `api`.
    selector_error: Mutex<Option<LookupError>>,
    is_failing: Mutex<bool>,
    is_panicking: Mutex<bool>,
    /// The time for which the machine was suspended: the monotonic clock doesn't have it.
    suspended: Mutex<Duration>,
    /// The number of lookups of pods. Each collection makes one.
    collections: AtomicUsize,
    running: AtomicUsize,
    most_running: AtomicUsize,
}

impl FakeCluster {
    fn names_of(&self, selector: &Selector) -> Vec<String> {
        let pods = self.pods.lock();
        let selected = pods.iter().filter(|(_, app)| {
            selector.matches(&BTreeMap::from([("app".to_owned(), app.clone())]))
        });
        selected.map(|(name, _)| name.clone()).collect()
    }

    fn collections(&self) -> usize {
        self.collections.load(Ordering::SeqCst)
    }
}

/// Parses settings of Pods and External metrics as the real collectors do. Reads the value 5, of
/// each pod or as a single value.
#[derive(Debug)]
struct FiveCollector {
    is_of_pods: bool,
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
        Ok(Self { is_of_pods })
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
        let pod = |name| Pod { name, ip: String::new(), ready_since: None, is_terminating: false };
        Ok(self.names_of(&selector_of(target)).into_iter().map(pod).collect())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Err(LookupError::NotSynced("scales"))
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

    async fn running_pods(&self, _: &str, _: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotSynced("pods"))
    }

    async fn running_pod(&self, _: &ObjectKey) -> Result<Option<ObjectMetadata>, ListError> {
        Err(ListError::NotSynced("pods"))
    }

    async fn nodes(&self, _: &Selector) -> Result<Vec<ObjectMetadata>, ListError> {
        Err(ListError::NotSynced("nodes"))
    }

    async fn node(&self, _: &str) -> Result<Option<ObjectMetadata>, ListError> {
        Err(ListError::NotSynced("nodes"))
    }
}

/// Counts failed collections.
#[derive(Default)]
struct Failures(AtomicUsize);

impl CollectionObserver for Failures {
    fn collection_succeeded(&self, _: &'static str, _: Duration) {}

    fn collection_failed(&self, _: &'static str, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn watch_succeeded(&self) {}

    fn watch_failed(&self) {}
}

struct Fixture {
    cluster: Arc<FakeCluster>,
    failures: Arc<Failures>,
    collection: Arc<Collection>,
    source: CollectionSource,
    start: Instant,
}

impl Fixture {
    fn new(concurrency: usize) -> Self {
        Self::with_max_age(concurrency, None)
    }

    fn with_max_age(concurrency: usize, max_age: Option<Duration>) -> Self {
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
        let collection = Arc::new(Collection::new(
            settings,
            Arc::new(clients),
            cluster.clone(),
            cluster.clone(),
            Arc::new(now),
            failures.clone(),
        ));
        let source = CollectionSource::new(collection.clone());
        Self { cluster, failures, collection, source, start }
    }

    fn apply(&self, hpa: &HorizontalPodAutoscaler) {
        self.collection.apply(key(hpa), hpa);
    }

    async fn pods(&self, namespace: &str, selector: &str) -> Result<Vec<String>, MetricError> {
        let request = CustomQuery {
            resource: GroupResource::pods(),
            namespace: namespace.to_owned(),
            objects: Objects::Selected(Selector::parse(selector).unwrap()),
            metric: "rps".to_owned(),
            metric_selector: Selector::everything(),
        };
        let values = self.source.read_custom(request).await?;
        Ok(values.items.into_iter().map(|item| item.object.into()).collect())
    }

    /// The value and its age in seconds.
    async fn external(&self, selector: &str) -> Result<(String, i64), String> {
        let request = ExternalQuery {
            namespace: "shop".to_owned(),
            metric: "queue".to_owned(),
            metric_selector: Selector::parse(selector).unwrap(),
        };
        let values = self.source.read_external(request).await.map_err(|error| describe(&error))?;
        let item = &values.items[0];
        let now = Timestamp::UNIX_EPOCH + self.start.elapsed();
        let age = now.duration_since(item.timestamp).as_secs();
        Ok((Quantity::from(item.value).to_string(), age))
    }
}

fn key(hpa: &HorizontalPodAutoscaler) -> (String, String, String) {
    let metadata = &hpa.metadata;
    ("autoscaling".to_owned(), metadata.namespace.clone(), metadata.name.clone())
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

const JSON_KEY: (&str, &str) = ("metric-config.pods.rps.json-path/json-key", "$.rps");
const PORT: (&str, &str) = ("metric-config.pods.rps.json-path/port", "80");

fn pods_hpa(name: &str) -> HorizontalPodAutoscaler {
    let metric = json!([{ "type": "Pods", "pods": {
        "metric": { "name": "rps" }, "target": { "type": "AverageValue", "averageValue": "1" },
    } }]);
    hpa(name, &[JSON_KEY, PORT], metric)
}

/// Collects a queue every 10 s.
fn external_hpa(name: &str) -> HorizontalPodAutoscaler {
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

#[tokio::test(start_paused = true)]
async fn value_is_collected_on_request_and_reused_for_an_interval() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    sleep(SECOND * 600).await;
    assert_eq!(fixture.cluster.collections(), 0, "nothing is polled");
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
    sleep(SECOND * 5).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 5));
    assert_eq!(fixture.cluster.collections(), 1);
    sleep(SECOND * 5).await;
    assert_eq!(fixture.external("").await.unwrap(), ("5".to_owned(), 0));
    assert_eq!(fixture.cluster.collections(), 2);
    sleep(SECOND * 600).await;
    assert_eq!(fixture.cluster.collections(), 2, "nothing is polled after a request");
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_a_collection() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    let requests = (0..100).map(|_| fixture.external("q=web"));
    let results = futures::future::join_all(requests).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(fixture.cluster.collections(), 1);
}

#[tokio::test(start_paused = true)]
async fn value_of_a_failing_backend_expires_after_its_maximum_age() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    fixture.external("q=web").await.unwrap();
    *fixture.cluster.is_failing.lock() = true;
    let mut ages = Vec::new();
    let failure = loop {
        assert!(ages.len() < 10, "a value that is too old: {ages:?}");
        sleep(SECOND * 5).await;
        match fixture.external("q=web").await {
            Ok((_, age)) => ages.push(age),
            Err(error) => break error,
        }
    };
    assert_eq!(failure, "unable to fetch metrics: the cache of pods has not synced yet");
    // A value expires after two intervals of 10 s.
    assert!(ages.iter().all(|age| *age <= 20) && ages.contains(&5), "{ages:?}");
    *fixture.cluster.is_failing.lock() = false;
    sleep(SECOND * 10).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_collector_fails_one_collection() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    *fixture.cluster.is_panicking.lock() = true;
    let error = fixture.external("q=web").await.unwrap_err();
    assert_eq!(error, "unable to fetch metrics: the collector panicked");
    assert_eq!(fixture.failures.0.load(Ordering::SeqCst), 1);
    *fixture.cluster.is_panicking.lock() = false;
    sleep(SECOND * 10).await;
    assert_eq!(fixture.external("q=web").await.unwrap(), ("5".to_owned(), 0));
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_and_pods_of_other_targets_have_no_value() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("web"));
    assert_eq!(fixture.pods("shop", "app=web").await.unwrap(), ["web-0", "web-1"]);
    assert_eq!(fixture.pods("shop", "").await.unwrap(), ["web-0", "web-1"]);
    fixture.cluster.pods.lock().retain(|(name, _)| name != "web-0");
    assert_eq!(fixture.pods("shop", "app=web").await.unwrap(), ["web-1"]);
    assert_eq!(fixture.cluster.collections(), 1);
    assert_eq!(fixture.pods("shop", "app=api").await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_the_metric_of_the_selected_pods_is_collected() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("web"));
    fixture.apply(&pods_hpa("api"));
    assert_eq!(fixture.pods("shop", "app=api").await.unwrap(), ["api-0"]);
    assert_eq!(fixture.cluster.collections(), 1);
    assert_eq!(fixture.pods("shop", "app").await.unwrap(), ["api-0", "web-0", "web-1"]);
    assert_eq!(fixture.cluster.collections(), 2);
}

#[tokio::test(start_paused = true)]
async fn deleted_target_is_skipped_and_unreadable_target_is_an_error() {
    let fixture = Fixture::new(32);
    fixture.apply(&pods_hpa("api"));
    fixture.apply(&pods_hpa("web"));
    let [kind, namespace, name] = ["Deployment", "shop", "api"].map(str::to_owned);
    let deleted = LookupError::NotFound { kind, namespace, name };
    *fixture.cluster.selector_error.lock() = Some(deleted);
    assert_eq!(fixture.pods("shop", "app").await.unwrap(), ["web-0", "web-1"]);
    *fixture.cluster.selector_error.lock() = Some(LookupError::NotSynced("scales"));
    let error = fixture.pods("shop", "app").await.unwrap_err();
    assert!(describe(&error).ends_with("the cache of scales has not synced yet"), "{error}");
    // The selector equals that of `web`, so the selector of `api` doesn't matter.
    assert_eq!(fixture.pods("shop", "app=web").await.unwrap(), ["web-0", "web-1"]);
}

#[test]
fn metric_is_known_in_its_namespace_only() {
    let fixture = Fixture::new(1);
    fixture.apply(&pods_hpa("web"));
    let request = |namespace: &str, metric: &str| CustomQuery {
        resource: GroupResource::pods(),
        namespace: namespace.to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: metric.to_owned(),
        metric_selector: Selector::everything(),
    };
    assert!(fixture.source.has(&request("shop", "rps").into()));
    assert!(!fixture.source.has(&request("bank", "rps").into()));
    assert!(!fixture.source.has(&request("shop", "other").into()));
    let listed = fixture.source.custom_metrics();
    assert_eq!((listed.len(), &*listed[0].metric), (1, "rps"));
}

#[tokio::test(start_paused = true)]
async fn concurrent_collections_are_limited() {
    // Half of the permits are reserved for other namespaces.
    let fixture = Fixture::new(8);
    for index in 0..40 {
        fixture.apply(&external_hpa(&format!("web-{index}")));
    }
    let selectors: Vec<String> = (0..40).map(|index| format!("q=web-{index}")).collect();
    let requests = selectors.iter().map(|selector| fixture.external(selector));
    assert!(futures::future::join_all(requests).await.iter().all(Result::is_ok));
    assert_eq!(fixture.cluster.collections(), 40);
    assert_eq!(fixture.cluster.most_running.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn age_of_a_value_excludes_the_wait_for_a_permit() {
    let fixture = Fixture::new(1);
    for name in ["web", "api"] {
        fixture.apply(&external_hpa(name));
    }
    let (web, api) = tokio::join!(fixture.external("q=web"), fixture.external("q=api"));
    web.and(api).unwrap();
    let metrics =
        fixture.collection.index.lock().metrics_named("shop", MetricType::External, "queue");
    let ages = metrics.iter().filter_map(|metric| metric.age(&fixture.collection.reader));
    let mut ages: Vec<_> = ages.collect();
    ages.sort();
    assert_eq!(ages, [SECOND / 2, SECOND]);
}

#[test]
fn invalid_annotation_is_named_and_other_metrics_are_collected() {
    let fixture = Fixture::new(1);
    let mut broken = pods_hpa("web");
    let rest = external_hpa("web");
    broken.metadata.annotations.extend(rest.metadata.annotations.clone());
    broken.spec.metrics.extend(rest.spec.metrics);
    let interval = "metric-config.pods.rps.json-path/interval";
    broken.metadata.annotations.insert(interval.to_owned(), "soon".to_owned());
    fixture.apply(&broken);
    let messages = || fixture.collection.problems().into_iter().map(|it| it.message);
    assert_eq!(
        messages().collect::<Vec<_>>(),
        ["Failed to create new metrics collector: annotation \
          metric-config.pods.rps.json-path/interval: failed to parse interval value soon for \
          {Pods rps}: time: invalid duration \"soon\""]
    );
    let names = |metric_type, name: &str| {
        fixture.collection.index.lock().metrics_named("shop", metric_type, name).len()
    };
    assert_eq!((names(MetricType::Pods, "rps"), names(MetricType::External, "queue")), (0, 1));

    broken.metadata.annotations.remove(interval);
    broken.metadata.annotations.remove(JSON_KEY.0);
    fixture.apply(&broken);
    assert_eq!(
        messages().collect::<Vec<_>>(),
        ["Failed to create new metrics collector: annotations \
          metric-config.pods.rps.json-path/*: config value json-key or json-eval must be set"]
    );
    fixture.apply(&pods_hpa("web"));
    assert_eq!(messages().count(), 0);
    // Without annotations, the metric may be that of another metric source, and is not reported.
    let mut foreign = pods_hpa("api");
    foreign.metadata.annotations.clear();
    fixture.apply(&foreign);
    assert_eq!(messages().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn deleted_autoscalers_leave_no_state() {
    let fixture = Fixture::new(32);
    let mut metrics: Vec<Weak<CollectedMetric>> = Vec::new();
    for index in 0..10_000 {
        let mut first = external_hpa(&format!("web-{index}"));
        fixture.apply(&first);
        if index % 100 == 0 {
            fixture.external(&format!("q=web-{index}")).await.unwrap();
        }
        metrics.extend(fixture.collection.index.lock().metrics().map(Arc::downgrade));
        // An invalid autoscaler has a problem, and a renamed one is new.
        let endpoint = "metric-config.external.queue.json-path/endpoint";
        first.metadata.annotations.insert(endpoint.to_owned(), "no URL".to_owned());
        fixture.apply(&first);
        let renamed = external_hpa(&format!("renamed-{index}"));
        fixture.apply(&renamed);
        fixture.collection.remove(&key(&first));
        fixture.collection.remove(&key(&renamed));
    }
    assert!(fixture.collection.index.lock().is_empty());
    sleep(SECOND * 2).await;
    assert!(metrics.iter().all(|metric| metric.strong_count() == 0));
    assert!(metrics.len() >= 10_000);
    assert_eq!(fixture.collection.reader.free_permits("http"), Some(32));
}

/// The tenant's interval is a day.
#[tokio::test(start_paused = true)]
async fn maximum_age_of_the_operator_applies_to_longer_intervals() {
    let fixture = Fixture::with_max_age(32, Some(SECOND * 60));
    let mut hpa = external_hpa("web");
    let interval = "metric-config.external.queue.json-path/interval";
    hpa.metadata.annotations.insert(interval.to_owned(), "24h".to_owned());
    fixture.apply(&hpa);
    fixture.external("q=web").await.unwrap();
    sleep(SECOND * 30).await;
    assert_eq!(fixture.external("q=web").await.unwrap().1, 30);
    sleep(SECOND * 30).await;
    assert_eq!(fixture.external("q=web").await.unwrap().1, 0);
    *fixture.cluster.is_failing.lock() = true;
    sleep(SECOND * 61).await;
    fixture.external("q=web").await.unwrap_err();
}

/// During a suspension, the wall clock advances, and the monotonic clock doesn't.
#[tokio::test(start_paused = true)]
async fn value_from_before_a_suspension_has_expired() {
    let fixture = Fixture::new(32);
    fixture.apply(&external_hpa("web"));
    fixture.external("q=web").await.unwrap();
    *fixture.cluster.is_failing.lock() = true;
    *fixture.cluster.suspended.lock() = SECOND * 3600;
    fixture.external("q=web").await.unwrap_err();
}

/// 3000 metrics with one name share annotations: short ones at first, then 240 KiB, of which two
/// metrics fit into the limit of 512 KiB.
#[test]
fn settings_and_messages_of_one_autoscaler_are_bounded() {
    let mut hpa = external_hpa("web");
    let metric = hpa.spec.metrics[0].clone();
    hpa.spec.metrics = (0..3000)
        .map(|index| {
            let mut metric = metric.clone();
            let external = metric.external.as_mut().unwrap();
            let labels = &mut external.metric.selector.as_mut().unwrap().match_labels;
            labels.insert("q".to_owned(), index.to_string());
            metric
        })
        .collect();
    let fixture = Fixture::new(1);
    let collected =
        || fixture.collection.index.lock().metrics_named("shop", MetricType::External, "queue");
    let message = || fixture.collection.problems().remove(0).message;
    fixture.apply(&hpa);
    assert_eq!(collected().len(), 256);
    assert!(message().contains("only the first 256 metrics are collected"), "{}", message());

    let key = |name: &str| format!("metric-config.external.queue.json-path/{name}");
    hpa.metadata.annotations.insert(key("note"), "x".repeat(240 << 10));
    fixture.apply(&hpa);
    assert_eq!(collected().len(), 2);
    assert!(message().contains("the settings of all metrics exceed 524288 bytes"), "{}", message());

    // Each metric repeats the value in its error.
    hpa.metadata.annotations.remove(&key("note"));
    hpa.metadata.annotations.insert(key("endpoint"), "x ".repeat(1 << 9));
    hpa.metadata.annotations.insert(key("aggregator"), "x ".repeat(1 << 9));
    fixture.apply(&hpa);
    assert!(message().len() < 4096, "{}", message().len());
}

/// 30 autoscalers with 240 KiB of settings: 17 fit into the limit of 4 MiB.
#[test]
fn settings_of_a_namespace_are_bounded() {
    let fixture = Fixture::new(1);
    let large = |index: usize| {
        let mut hpa = external_hpa(&format!("web-{index}"));
        let note = "metric-config.external.queue.json-path/note".to_owned();
        hpa.metadata.annotations.insert(note, "x".repeat(240 << 10));
        hpa
    };
    for index in 0..30 {
        fixture.apply(&large(index));
        fixture.apply(&large(index));
    }
    let collected = |namespace: &str| {
        let index = fixture.collection.index.lock();
        index.metrics_named(namespace, MetricType::External, "queue").len()
    };
    assert_eq!(collected("shop"), 17);
    let problems = fixture.collection.problems();
    let is_refused = |problem: &&CollectorProblem| {
        problem.message.contains("of all autoscalers in the namespace exceed 4194304 bytes")
    };
    assert_eq!(problems.iter().filter(is_refused).count(), 13);
    let mut other = large(0);
    other.metadata.namespace = "bank".to_owned();
    fixture.apply(&other);
    fixture.collection.remove(&key(&large(3)));
    fixture.apply(&large(29));
    assert_eq!((collected("shop"), collected("bank")), (17, 1));
}

/// The example in the README of kube-metrics-adapter.
#[tokio::test(start_paused = true)]
async fn object_metric_can_describe_a_pod() {
    let fixture = Fixture::new(32);
    let metric = json!([{ "type": "Object", "object": {
        "describedObject": { "apiVersion": "v1", "kind": "Pod", "name": "dummy-pod" },
        "metric": { "name": "rps" }, "target": { "type": "Value", "value": "1" },
    } }]);
    let query = ("metric-config.object.rps.prometheus/query", "up");
    fixture.apply(&hpa("web", &[query], metric));
    let request = |name: &str| CustomQuery {
        resource: GroupResource::pods(),
        namespace: "shop".to_owned(),
        objects: Objects::Named(name.to_owned()),
        metric: "rps".to_owned(),
        metric_selector: Selector::everything(),
    };
    assert!(fixture.source.has(&request("dummy-pod").into()));
    let values = fixture.source.read_custom(request("dummy-pod")).await.unwrap();
    assert_eq!(Quantity::from(values.items[0].value).to_string(), "5");
    let object = String::from(values.items[0].object.clone());
    assert_eq!((&*values.object_kind.kind, &*object), ("Pod", "dummy-pod"));
    fixture.source.read_custom(request("other-pod")).await.unwrap_err();
    // Other pods have the value of the Pods metric with the same name.
    fixture.apply(&pods_hpa("api"));
    let of_pod = fixture.source.read_custom(request("api-0")).await.unwrap();
    assert_eq!(String::from(of_pod.items[0].object.clone()), "api-0");
}
