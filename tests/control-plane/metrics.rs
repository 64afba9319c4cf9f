//! The metrics that scenarios set, served by the three metrics APIs of both control planes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hpa_calc::selector::Selector;
use hpa_testbed::{
    ApiError, CustomMetric, CustomMetricQuery, ExternalMetric, ExternalMetricQuery,
    MetricsProvider, PodMetrics, PodMetricsQuery,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use serde_json::json;

/// A load of pods, in thousandths of a core or of a metric, or in bytes of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// Each pod uses this much.
    PerPod(i64),
    /// This much is divided among the running pods.
    Total(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Resource,
    Custom,
    External,
}

/// The failure of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// 503.
    Unavailable,
    /// 200 and no items.
    Empty,
}

/// The metrics of all namespaces. Clones share them.
#[derive(Clone)]
pub(crate) struct Metrics {
    state: Arc<Mutex<State>>,
    pods: Store<Pod>,
}

#[derive(Default)]
struct State {
    /// By namespace, label `app`, container and resource.
    usage: HashMap<[String; 4], Load>,
    /// By namespace and metric.
    pods_metrics: HashMap<[String; 2], Load>,
    /// By namespace, `resource.group/name` and metric.
    objects: HashMap<[String; 3], String>,
    /// Series with labels, by namespace and metric.
    external: HashMap<[String; 2], Vec<(Labels, String)>>,
    /// By namespace and metric: the label `app` of pods, and the value that each of them adds to
    /// the only series.
    external_by_pod: HashMap<[String; 2], (String, i64)>,
    outages: HashMap<(String, Source), Outage>,
}

type Labels = BTreeMap<String, String>;

impl Metrics {
    pub(crate) fn new(pods: Store<Pod>) -> Self {
        Self { state: Arc::default(), pods }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_usage(
        &self,
        ns: &str,
        app: &str,
        container: &str,
        resource: &str,
        load: Load,
    ) {
        self.state().usage.insert([ns, app, container, resource].map(str::to_owned), load);
    }

    pub(crate) fn set_pods_metric(&self, ns: &str, metric: &str, load: Load) {
        self.state().pods_metrics.insert([ns, metric].map(str::to_owned), load);
    }

    /// `object` is `resource.group/name`, or `namespace` for the namespace itself.
    pub(crate) fn set_object(&self, ns: &str, object: &str, metric: &str, value: &str) {
        self.state().objects.insert([ns, object, metric].map(str::to_owned), value.to_owned());
    }

    pub(crate) fn set_external(&self, ns: &str, metric: &str, series: &[(&str, &str)]) {
        let series = series.iter().map(|(text, value)| (labels(text), (*value).to_owned()));
        self.state().external.insert([ns, metric].map(str::to_owned), series.collect());
    }

    /// Each running pod of `app` adds `each` to the only series of the metric.
    pub(crate) fn set_external_by_pod(&self, ns: &str, metric: &str, app: &str, each: i64) {
        let key = [ns, metric].map(str::to_owned);
        self.state().external_by_pod.insert(key, (app.to_owned(), each));
    }

    pub(crate) fn set_outage(&self, ns: &str, source: Source, outage: Option<Outage>) {
        let key = (ns.to_owned(), source);
        match outage {
            Some(outage) => self.state().outages.insert(key, outage),
            None => self.state().outages.remove(&key),
        };
    }

    fn outage(&self, ns: &str, source: Source) -> Option<Outage> {
        self.state().outages.get(&(ns.to_owned(), source)).copied()
    }

    fn items_unless_outage<T>(
        &self,
        ns: &str,
        source: Source,
        items: impl FnOnce() -> Result<Vec<T>, ApiError>,
    ) -> Result<Vec<T>, ApiError> {
        match self.outage(ns, source) {
            None => items(),
            Some(Outage::Empty) => Ok(Vec::new()),
            Some(Outage::Unavailable) => {
                Err(ApiError::new(503, "ServiceUnavailable", "outage set by a test"))
            }
        }
    }

    /// The running pods of a namespace that a selector matches.
    fn running_pods(&self, ns: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state();
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.namespace().as_deref() == Some(ns)
                && phase == Some("Running")
                && pod.metadata.deletion_timestamp.is_none()
                && selector.matches(pod.labels())
        });
        pods
    }

    /// The number of running pods with the label `app=APP`.
    fn count_pods_of(&self, ns: &str, app: &str) -> usize {
        let pods = self.running_pods(ns, &Selector::everything());
        pods.iter().filter(|pod| pod.labels().get("app").is_some_and(|label| label == app)).count()
    }

    fn pod_usage(&self, ns: &str, selector: &Selector) -> Vec<PodMetrics> {
        let state = self.state();
        let running = self.running_pods(ns, selector).into_iter();
        let usage = running.map(|pod| {
            let app = pod.labels().get("app").cloned().unwrap_or_default();
            let count = self.count_pods_of(ns, &app);
            let names =
                pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| &container.name);
            let containers =
                names.map(|name| (name.clone(), state.usage_of(ns, &app, name, count))).collect();
            PodMetrics {
                namespace: ns.to_owned(),
                name: pod.name_any(),
                window: "15s".to_owned(),
                containers,
                ..PodMetrics::default()
            }
        });
        usage.filter(|pod| pod.containers.values().any(|usage| !usage.is_empty())).collect()
    }

    fn pods_metric(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let ns = &query.namespace;
        let load = self.state().pods_metrics.get(&[ns.clone(), query.metric.clone()]).copied();
        let load = load.ok_or_else(|| not_found(&query.metric, "pods"))?;
        let pods = self.running_pods(ns, &query.selector);
        let value = format!("{}m", load.per_pod(pods.len()));
        Ok(pods.iter().map(|pod| custom_metric("Pod", ns, &pod.name_any(), &value)).collect())
    }

    fn object_metric(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        let ns = &query.namespace;
        let object = match query.resource.as_str() {
            "namespaces" => "namespace".to_owned(),
            resource => format!("{resource}/{}", query.name),
        };
        let found =
            self.state().objects.get(&[ns.clone(), object.clone(), query.metric.clone()]).cloned();
        let found = found.ok_or_else(|| not_found(&query.metric, &object))?;
        Ok(vec![custom_metric("Object", ns, &query.name, &found)])
    }

    fn external_metric(
        &self,
        query: &ExternalMetricQuery,
    ) -> Result<Vec<ExternalMetric>, ApiError> {
        let key = [query.namespace.clone(), query.metric.clone()];
        let state = self.state();
        let by_pod = state.external_by_pod.get(&key).map(|(app, each)| {
            let pods = self.count_pods_of(&query.namespace, app);
            vec![(Labels::new(), (each * i64::try_from(pods).unwrap_or(i64::MAX)).to_string())]
        });
        let found = by_pod.or_else(|| state.external.get(&key).cloned());
        let series = found.ok_or_else(|| not_found(&query.metric, &query.namespace))?;
        let matching = series.into_iter().filter(|(labels, _)| query.selector.matches(labels));
        let metric = |(labels, value): (Labels, String)| ExternalMetric {
            metric_name: query.metric.clone(),
            metric_labels: labels,
            value,
            ..ExternalMetric::default()
        };
        Ok(matching.map(metric).collect())
    }
}

impl MetricsProvider for Metrics {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        let ns = &query.namespace;
        self.items_unless_outage(ns, Source::Resource, || Ok(self.pod_usage(ns, &query.selector)))
    }

    fn custom(&self, query: &CustomMetricQuery) -> Result<Vec<CustomMetric>, ApiError> {
        self.items_unless_outage(&query.namespace, Source::Custom, || {
            match query.resource.as_str() {
                "pods" => self.pods_metric(query),
                _ => self.object_metric(query),
            }
        })
    }

    fn external(&self, query: &ExternalMetricQuery) -> Result<Vec<ExternalMetric>, ApiError> {
        self.items_unless_outage(&query.namespace, Source::External, || self.external_metric(query))
    }
}

impl State {
    /// Usage of a container of one of `count` pods, by resource.
    fn usage_of(
        &self,
        ns: &str,
        app: &str,
        container: &str,
        count: usize,
    ) -> BTreeMap<String, String> {
        let usage = [("cpu", "m"), ("memory", "")].into_iter().filter_map(|(resource, unit)| {
            let load = self.usage.get(&[ns, app, container, resource].map(str::to_owned))?;
            Some((resource.to_owned(), format!("{}{unit}", load.per_pod(count))))
        });
        usage.collect()
    }
}

impl Load {
    fn per_pod(self, pod_count: usize) -> i64 {
        match self {
            Self::PerPod(each) => each,
            Self::Total(all) => all / i64::try_from(pod_count.max(1)).unwrap_or(i64::MAX),
        }
    }
}

fn custom_metric(kind: &str, ns: &str, name: &str, value: &str) -> CustomMetric {
    CustomMetric {
        described_object: json!({"kind": kind, "namespace": ns, "name": name, "apiVersion": "v1"}),
        value: value.to_owned(),
        ..CustomMetric::default()
    }
}

fn not_found(metric: &str, described: &str) -> ApiError {
    let message = format!("the server could not find the metric {metric} for {described}");
    ApiError::new(404, "NotFound", message)
}

/// Parses the labels of a series, `a=b,c=d`.
fn labels(text: &str) -> Labels {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
