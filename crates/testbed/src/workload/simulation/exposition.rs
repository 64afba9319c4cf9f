//! The metrics that Prometheus would scrape in the simulated cluster: the series of
//! kube-state-metrics and of the kubelet that autoscaling needs, and those of the applications.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use hpa_calc::Quantity;
use hpa_simulate::workload::{
    model::{Container, Pod, Workload, WorkloadId},
    scenario::OutageScope,
    seconds::timestamp_at,
    series::{Series, SourceSettings},
};
use serde_json::Value;

use super::State;
use crate::{Testbed, json_fields};

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// Kinds, the names of their series with `spec.replicas`, and the label that names the object.
const REPLICAS_SERIES: [(&str, &str, &str); 4] = [
    ("Deployment", "kube_deployment_spec_replicas", "deployment"),
    ("StatefulSet", "kube_statefulset_replicas", "statefulset"),
    ("ReplicaSet", "kube_replicaset_spec_replicas", "replicaset"),
    ("ReplicationController", "kube_replicationcontroller_spec_replicas", "replicationcontroller"),
];

/// Fields of autoscalers, and the names of their series after `kube_horizontalpodautoscaler_`.
const AUTOSCALER_SERIES: [(&str, &str); 4] = [
    ("/spec/minReplicas", "spec_min_replicas"),
    ("/spec/maxReplicas", "spec_max_replicas"),
    ("/status/currentReplicas", "status_current_replicas"),
    ("/status/desiredReplicas", "status_desired_replicas"),
];

/// The state of the cluster in the text format of Prometheus, with simulated timestamps.
pub(super) fn exposition(state: &State, testbed: &Testbed) -> String {
    let mut page = Page::default();
    let model = &state.model;
    for (id, workload) in &model.workloads {
        page.add_replicas(id, workload);
        for pod in workload.pods.values() {
            page.add_pod(pod, state);
            if pod.no_metrics_until <= model.now {
                if pod.lifecycle.is_running() {
                    pod.containers.iter().for_each(|container| page.add_container(pod, container));
                }
                page.add_pod_metrics(workload, pod, state);
            }
        }
    }
    for object in testbed.list("v1", "Pod") {
        page.add_resource_requests(&object);
    }
    for autoscaler in testbed.list("autoscaling/v2", "HorizontalPodAutoscaler") {
        page.add_autoscaler(&autoscaler);
    }
    page.add_cluster_metrics(state);
    page.into_text(timestamp_at(state.start, model.now).as_millisecond())
}

/// The samples, by the name of their family.
#[derive(Default)]
struct Page {
    families: BTreeMap<String, Family>,
}

struct Family {
    kind: &'static str,
    /// Labels and value.
    samples: Vec<(String, f64)>,
}

impl Page {
    fn add(&mut self, kind: &'static str, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels = labels.iter().map(|(label, value)| (label_name(label), value));
        // Prometheus rejects the whole page if a sample has a label twice.
        let mut names = BTreeSet::new();
        let labels =
            labels.filter(|(label, _)| names.insert(label.clone())).map(|(label, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            });
        let labels = labels.collect::<Vec<_>>().join(",");
        let family = self.families.entry(metric_name(name));
        let family = family.or_insert_with(|| Family { kind, samples: Vec::new() });
        family.samples.push((labels, value));
    }

    fn add_replicas(&mut self, id: &WorkloadId, workload: &Workload) {
        if let Some((_, name, label)) = REPLICAS_SERIES.iter().find(|(kind, ..)| *kind == id.kind) {
            let labels = [("namespace", &*id.namespace), (label, &*id.name)];
            self.add(GAUGE, name, &labels, f64::from(workload.desired));
        }
    }

    fn add_pod(&mut self, pod: &Pod, state: &State) {
        let labels = [("namespace", &*pod.namespace), ("pod", &*pod.name)];
        let seconds = |second: f64| timestamp_at(state.start, second).as_second() as f64;
        let lifecycle = &pod.lifecycle;
        self.add(GAUGE, "kube_pod_created", &labels, seconds(lifecycle.created_at));
        let is_ready = lifecycle.is_ready();
        for (condition, value) in [("true", is_ready), ("false", !is_ready), ("unknown", false)] {
            let labels = [labels[0], labels[1], ("condition", condition)];
            self.add(GAUGE, "kube_pod_status_ready", &labels, f64::from(u8::from(value)));
        }
        if is_ready {
            let ready = seconds(lifecycle.ready_transition);
            self.add(GAUGE, "kube_pod_status_ready_time", &labels, ready);
        }
    }

    fn add_container(&mut self, pod: &Pod, container: &Container) {
        let Pod { namespace, name, .. } = pod;
        let labels = [("namespace", &**namespace), ("pod", name), ("container", &container.name)];
        self.add(COUNTER, "container_cpu_usage_seconds_total", &labels, container.cpu_seconds);
        self.add(GAUGE, "container_memory_working_set_bytes", &labels, container.memory);
    }

    fn add_resource_requests(&mut self, pod: &Value) {
        let at = |pointer: &str| json_fields::str_at(pod, pointer);
        for container in json_fields::array_at(pod, "/spec/containers") {
            let requests = container.pointer("/resources/requests").and_then(Value::as_object);
            for (resource, quantity) in requests.into_iter().flatten() {
                let quantity = quantity.as_str().and_then(|text| text.parse::<Quantity>().ok());
                let Some(quantity) = quantity else { continue };
                let labels = [
                    ("namespace", at("/metadata/namespace")),
                    ("pod", at("/metadata/name")),
                    ("container", json_fields::str_at(container, "/name")),
                    ("resource", resource),
                    ("unit", if resource == "cpu" { "core" } else { "byte" }),
                ];
                let name = "kube_pod_container_resource_requests";
                self.add(GAUGE, name, &labels, quantity.as_f64());
            }
        }
    }

    fn add_autoscaler(&mut self, autoscaler: &Value) {
        let at = |pointer: &str| json_fields::str_at(autoscaler, pointer);
        let labels = [
            ("namespace", at("/metadata/namespace")),
            ("horizontalpodautoscaler", at("/metadata/name")),
        ];
        for (pointer, name) in AUTOSCALER_SERIES {
            let value = autoscaler.pointer(pointer).and_then(Value::as_f64);
            if let Some(value) = value {
                self.add(GAUGE, &format!("kube_horizontalpodautoscaler_{name}"), &labels, value);
            }
        }
    }

    fn add_pod_metrics(&mut self, workload: &Workload, pod: &Pod, state: &State) {
        let model = &state.model;
        if model.metrics.is_down(OutageScope::Pods, model.now) {
            return;
        }
        let Some(sample) = pod.rate.latest(model.now, &model.metrics.settings.pods) else { return };
        for metric in &workload.pod_metrics {
            let object_labels = [("namespace", &*pod.namespace), ("pod", &*pod.name)];
            let value = metric.value(sample.value);
            self.add(GAUGE, &metric.name, &with_labels(&object_labels, &metric.labels), value);
        }
    }

    /// The metrics of objects, the external metrics, and the backlogs of queues.
    fn add_cluster_metrics(&mut self, state: &State) {
        let model = &state.model;
        let is_up = |source| !model.metrics.is_down(source, model.now);
        let latest = |series: &Series<f64>, settings: &SourceSettings| {
            series.latest(model.now, settings).map(|sample| sample.value)
        };
        let settings = &model.metrics.settings;
        for one in model.metrics.objects.iter().filter(|_| is_up(OutageScope::Object)) {
            let Some(value) = latest(&one.metric.series, &settings.object) else { continue };
            let kind = one.object.kind.to_lowercase();
            let object_labels =
                [("namespace", &*one.object.namespace), (&*kind, &*one.object.name)];
            self.add(
                GAUGE,
                &one.metric.name,
                &with_labels(&object_labels, &one.metric.labels),
                value,
            );
        }
        let external = model.external_metrics().filter(|_| is_up(OutageScope::External));
        for (name, labels, series) in external {
            let Some(value) = latest(series, &settings.external) else { continue };
            self.add(GAUGE, name, &with_labels(&[], labels), value);
        }
    }

    fn into_text(self, timestamp_ms: i64) -> String {
        let mut text = String::new();
        for (name, family) in self.families {
            let _ = writeln!(text, "# TYPE {name} {}", family.kind);
            for (labels, value) in family.samples {
                let _ = writeln!(text, "{name}{{{labels}}} {value} {timestamp_ms}");
            }
        }
        text
    }
}

fn with_labels<'a>(
    object_labels: &[(&'a str, &'a str)],
    labels: &'a BTreeMap<String, String>,
) -> Vec<(&'a str, &'a str)> {
    let labels = labels.iter().map(|(label, value)| (&**label, &**value));
    object_labels.iter().copied().chain(labels).collect()
}

/// The name of a label, which can't have colons.
fn label_name(name: &str) -> String {
    metric_name(name).replace(':', "_")
}

/// The name of a metric, with an underscore for each character that Prometheus doesn't permit.
fn metric_name(name: &str) -> String {
    let is_permitted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let name = name.replace(|c: char| !is_permitted(c), "_");
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_label_is_written_once() {
        let mut page = Page::default();
        page.add(GAUGE, "rps", &[("pod", "web-0"), ("pod", "x"), ("a.b", "1"), ("a_b", "2")], 1.0);
        assert_eq!(page.into_text(0), "# TYPE rps gauge\nrps{pod=\"web-0\",a_b=\"1\"} 1 0\n");
    }

    #[test]
    fn names_are_those_that_prometheus_permits() {
        let names = ["http.requests/s", "5xx_total", "job:rps:sum"];
        assert_eq!(names.map(metric_name), ["http_requests_s", "_5xx_total", "job:rps:sum"]);
        assert_eq!(names.map(label_name), ["http_requests_s", "_5xx_total", "job_rps_sum"]);
    }
}
