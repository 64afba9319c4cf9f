//! The metrics of the suite: what the tests set, and the three metrics APIs that answer with it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::reflector::Store;
use serde_json::{Value, json};

/// The part of a pod's or of all pods' usage: thousandths, but bytes of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load {
    /// Each pod uses this much.
    PerPod(i64),
    /// All running pods share this much.
    Total(i64),
}

/// One of the three APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Resource,
    Custom,
    External,
}

/// How a source fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// 503.
    Unavailable,
    /// 200 and no items.
    Empty,
}

/// What the tests set; a handle.
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
    pods: HashMap<[String; 2], Load>,
    /// By namespace, `resource.group/name` and metric.
    objects: HashMap<[String; 3], String>,
    /// By namespace and metric: the series with their labels.
    external: HashMap<[String; 2], Vec<(Labels, String)>>,
    outages: HashMap<(String, Source), Outage>,
}

type Labels = BTreeMap<String, String>;

/// An HTTP status with a message.
pub(crate) type Failure = (u16, String);

impl Metrics {
    pub(crate) fn new(pods: Store<Pod>) -> Self {
        Self { state: Arc::default(), pods }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_usage(&self, ns: &str, app: &str, container: &str, resource: &str, load: Load) {
        self.state().usage.insert([ns, app, container, resource].map(str::to_owned), load);
    }

    pub(crate) fn set_pods(&self, ns: &str, metric: &str, load: Load) {
        self.state().pods.insert([ns, metric].map(str::to_owned), load);
    }

    /// `object` is `resource.group/name`, or `namespace` for the namespace itself.
    pub(crate) fn set_object(&self, ns: &str, object: &str, metric: &str, value: &str) {
        self.state().objects.insert([ns, object, metric].map(str::to_owned), value.to_owned());
    }

    pub(crate) fn set_external(&self, ns: &str, metric: &str, series: &[(&str, &str)]) {
        let series = series.iter().map(|(labels, value)| {
            (parse_selector(labels).expect("labels are written like a selector"), (*value).to_owned())
        });
        self.state().external.insert([ns, metric].map(str::to_owned), series.collect());
    }

    pub(crate) fn set_outage(&self, ns: &str, source: Source, outage: Option<Outage>) {
        let key = (ns.to_owned(), source);
        match outage {
            Some(outage) => self.state().outages.insert(key, outage),
            None => self.state().outages.remove(&key),
        };
    }

    /// The answer to the path below `/apis/`.
    pub(crate) fn answer(&self, path: &[&str], query: &HashMap<String, String>) -> Result<Value, Failure> {
        let selector = query.get("labelSelector").map_or("", String::as_str);
        let selector = parse_selector(selector).ok_or_else(|| (400, format!("selector {selector:?}")))?;
        match *path {
            [group, version] => discovery(group, version),
            ["metrics.k8s.io", "v1beta1", "namespaces", ns, "pods"] => {
                let items = self.items(ns, Source::Resource, || Ok(self.pod_usage(ns, &selector)))?;
                Ok(
                    json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}),
                )
            }
            ["custom.metrics.k8s.io", "v1beta2", "namespaces", ns, ref rest @ ..] => {
                let items = self.items(ns, Source::Custom, || match *rest {
                    ["pods", "*", metric] => self.pods_metric(ns, metric, &selector),
                    ["metrics", metric] => self.object_metric(ns, "namespace", metric),
                    [resource, name, metric] => self.object_metric(ns, &format!("{resource}/{name}"), metric),
                    _ => Err((400, "invalid request path".into())),
                })?;
                Ok(
                    json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items}),
                )
            }
            ["external.metrics.k8s.io", "v1beta1", "namespaces", ns, metric] => {
                let items =
                    self.items(ns, Source::External, || self.external_metric(ns, metric, &selector))?;
                Ok(
                    json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": items}),
                )
            }
            _ => Err((404, "the server could not find the requested resource".into())),
        }
    }

    fn items(
        &self,
        ns: &str,
        source: Source,
        items: impl FnOnce() -> Result<Vec<Value>, Failure>,
    ) -> Result<Vec<Value>, Failure> {
        let outage = self.state().outages.get(&(ns.to_owned(), source)).copied();
        match outage {
            None => items(),
            Some(Outage::Empty) => Ok(Vec::new()),
            Some(Outage::Unavailable) => Err((503, "the metrics are down for a test".into())),
        }
    }

    /// The running pods of a namespace that a selector matches.
    fn running(&self, ns: &str, selector: &Labels) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.state();
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            pod.namespace().as_deref() == Some(ns)
                && phase == Some("Running")
                && pod.metadata.deletion_timestamp.is_none()
                && matches(selector, pod.labels())
        });
        pods
    }

    fn pod_usage(&self, ns: &str, selector: &Labels) -> Vec<Value> {
        let state = self.state();
        let mut items = Vec::new();
        for pod in self.running(ns, selector) {
            let app = pod.labels().get("app").cloned().unwrap_or_default();
            let count = self.running(ns, &Labels::from([("app".into(), app.clone())])).len();
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
                let mut usage = serde_json::Map::new();
                for (resource, unit) in [("cpu", "m"), ("memory", "")] {
                    let key = [ns, &app, &container.name, resource].map(str::to_owned);
                    if let Some(load) = state.usage.get(&key) {
                        usage.insert(resource.into(), format!("{}{unit}", load.of(count)).into());
                    }
                }
                json!({"name": container.name, "usage": usage})
            });
            let containers: Vec<Value> = containers.collect();
            if containers.iter().any(|container| container["usage"] != json!({})) {
                let metadata = json!({"name": pod.name_any(), "namespace": ns, "labels": pod.labels()});
                items.push(json!({
                    "metadata": metadata, "timestamp": now(), "window": "15s", "containers": containers,
                }));
            }
        }
        items
    }

    fn pods_metric(&self, ns: &str, metric: &str, selector: &Labels) -> Result<Vec<Value>, Failure> {
        let load = self.state().pods.get(&[ns, metric].map(str::to_owned)).copied();
        let load = load.ok_or_else(|| not_found(metric, "pods"))?;
        let pods = self.running(ns, selector);
        Ok(pods
            .iter()
            .map(|pod| value("Pod", ns, &pod.name_any(), metric, &format!("{}m", load.of(pods.len()))))
            .collect())
    }

    fn object_metric(&self, ns: &str, object: &str, metric: &str) -> Result<Vec<Value>, Failure> {
        let found = self.state().objects.get(&[ns, object, metric].map(str::to_owned)).cloned();
        let found = found.ok_or_else(|| not_found(metric, object))?;
        let name = object.split_once('/').map_or(ns, |(_, name)| name);
        Ok(vec![value("Object", ns, name, metric, &found)])
    }

    fn external_metric(&self, ns: &str, metric: &str, selector: &Labels) -> Result<Vec<Value>, Failure> {
        let found = self.state().external.get(&[ns, metric].map(str::to_owned)).cloned();
        let series = found.ok_or_else(|| not_found(metric, ns))?;
        Ok((series.iter().filter(|(labels, _)| matches(selector, labels)))
            .map(|(labels, value)| json!({"metricName": metric, "metricLabels": labels, "timestamp": now(), "value": value}))
            .collect())
    }
}

impl Load {
    fn of(self, pods: usize) -> i64 {
        match self {
            Self::PerPod(each) => each,
            Self::Total(all) => all / i64::try_from(pods.max(1)).unwrap_or(i64::MAX),
        }
    }
}

fn value(kind: &str, ns: &str, name: &str, metric: &str, value: &str) -> Value {
    json!({
        "describedObject": {"kind": kind, "namespace": ns, "name": name, "apiVersion": "v1"},
        "metric": {"name": metric}, "timestamp": now(), "value": value,
    })
}

fn not_found(metric: &str, of: &str) -> Failure {
    (404, format!("the server could not find the metric {metric} for {of}"))
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn discovery(group: &str, version: &str) -> Result<Value, Failure> {
    let resources = match (group, version) {
        ("metrics.k8s.io", "v1beta1") => {
            json!([{"name": "pods", "singularName": "", "namespaced": true, "kind": "PodMetrics", "verbs": ["get", "list"]}])
        }
        ("custom.metrics.k8s.io", "v1beta2") | ("external.metrics.k8s.io", "v1beta1") => json!([]),
        _ => return Err((404, format!("{group}/{version} is not served"))),
    };
    let group_version = format!("{group}/{version}");
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

/// The requirements of a selector of the form `a=b,c=d`; no other is used here.
fn parse_selector(text: &str) -> Option<Labels> {
    let terms = text.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms
        .map(|term| term.split_once('=').map(|(k, v)| (k.to_owned(), v.trim_start_matches('=').to_owned())))
        .collect()
}

fn matches(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
