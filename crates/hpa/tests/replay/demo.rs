//! An hour of a simulated cluster with the real controller, as Prometheus would have scraped it.

use std::{collections::BTreeMap, fmt::Write, sync::Arc, time::Duration};

use hpa_controller::{
    Clock, Dependencies, Instants, Options,
    k8s::{ClientLimits, Clients},
};
use hpa_simulate::Study;
use hpa_test_harness::{RunningController, options};
use hpa_testbed::{
    Testbed,
    workload::{Simulation, clock::SimulatedClock},
};
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;

const SCENARIO: &str = include_str!("scenario.yaml");
const SCRAPE_SECONDS: f64 = 15.0;
const SECONDS: f64 = 3600.0;

struct DemoClock {
    clock: SimulatedClock,
    start: Timestamp,
}

impl Clock for DemoClock {
    fn instants(&self) -> Instants {
        let wall = self.clock.now();
        let monotonic = Duration::try_from(wall.duration_since(self.start)).expect("a duration");
        Instants { wall, monotonic }
    }
}

/// Samples by series.
#[derive(Default)]
struct Exposition {
    series: BTreeMap<(&'static str, String), Vec<(f64, f64)>>,
    /// CPU time so far, by labels.
    cpu_seconds: BTreeMap<String, f64>,
}

impl Exposition {
    fn add(&mut self, metric: &'static str, labels: String, time: f64, value: f64) {
        self.series.entry((metric, labels)).or_default().push((time, value));
    }

    /// The text format of OpenMetrics.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for ((metric, labels), samples) in &self.series {
            if last != *metric {
                let _ = writeln!(text, "# TYPE {metric} gauge");
                last = metric;
            }
            for (time, value) in samples {
                let _ = writeln!(text, "{metric}{{{labels}}} {value} {time}");
            }
        }
        text + "# EOF\n"
    }
}

async fn get(client: &Client, path: &str) -> Option<Value> {
    let request = http::Request::get(path).body(Vec::new()).expect("a request");
    client.request(request).await.ok()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn quantity(object: &Value, pointer: &str) -> f64 {
    text(object, pointer).parse::<hpa_calc::Quantity>().expect("a quantity").as_f64()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// The past hour of the cluster, as text for promtool.
pub(crate) async fn record(start: Timestamp) -> String {
    let study = Study::parse(SCENARIO, &|_| Err("no files".to_owned())).expect("a scenario");
    let variant = &study.variants[0];
    let clock = SimulatedClock::new(start, 1.0);
    let simulation = Simulation::new(variant.testbed_scenario(), clock.clone());
    let testbed = Testbed::new(simulation.config());
    let running = simulation.start(&testbed).expect("the objects are valid");
    let limits = ClientLimits::default();
    let clients = Clients::from_service(testbed.service_named("hpa-rs"), &limits);
    let scraper = Clients::from_service(testbed.service_named("prometheus"), &limits).api;
    let options = Options { sync_period: Duration::from_secs(15), ..options() };
    let clock = Arc::new(DemoClock { clock, start });
    let dependencies =
        Dependencies { clock: clock.clone(), ..Dependencies::new(clients, &options) };
    let controller = RunningController::start(dependencies, options);
    let mut exposition = Exposition::default();
    let mut scrape_at = 0.0;
    while scrape_at <= SECONDS {
        let seen = simulation.wait_for(|seen| seen.second >= scrape_at).await;
        // A real scrape comes between two steps.
        clock.clock.sleep(0.5).await;
        let time = seen.time.as_second() as f64;
        let desired = f64::from(seen.workloads[0].desired);
        let labels = r#"namespace="shop",deployment="web""#.to_owned();
        exposition.add("kube_deployment_spec_replicas", labels, time, desired);
        scrape_pods(&scraper, &mut exposition, time).await;
        scrape_at += SCRAPE_SECONDS;
    }
    controller.kill().await;
    drop(running);
    exposition.text()
}

async fn scrape_pods(client: &Client, exposition: &mut Exposition, time: f64) {
    let pods = get(client, "/api/v1/namespaces/shop/pods").await.expect("pods");
    for pod in items(&pods) {
        let labels = format!(r#"namespace="shop",pod="{}""#, text(pod, "/metadata/name"));
        let created: Timestamp = text(pod, "/metadata/creationTimestamp").parse().expect("a time");
        let created = created.as_second() as f64;
        exposition.add("kube_pod_created", labels.clone(), time, created);
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        for condition in conditions {
            if condition["type"] == "Ready" && condition["status"] == "True" {
                let ready: Timestamp =
                    text(condition, "/lastTransitionTime").parse().expect("a time");
                let ready = ready.as_second() as f64;
                exposition.add("kube_pod_status_ready_time", labels.clone(), time, ready);
            }
        }
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            let name = text(container, "/name");
            let labels = format!(r#"{labels},container="{name}",resource="cpu""#);
            let request = quantity(container, "/resources/requests/cpu");
            exposition.add("kube_pod_container_resource_requests", labels, time, request);
        }
    }
    let usage = get(client, "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods").await;
    for pod in usage.iter().flat_map(items) {
        for container in pod["containers"].as_array().into_iter().flatten() {
            let labels = format!(
                r#"namespace="shop",pod="{}",container="{}""#,
                text(pod, "/metadata/name"),
                text(container, "/name")
            );
            let total = exposition.cpu_seconds.entry(labels.clone()).or_default();
            *total += quantity(container, "/usage/cpu") * SCRAPE_SECONDS;
            let total = *total;
            exposition.add("container_cpu_usage_seconds_total", labels.clone(), time, total);
            let memory = quantity(container, "/usage/memory");
            exposition.add("container_memory_working_set_bytes", labels, time, memory);
        }
    }
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/http_requests";
    let requests = get(client, path).await;
    for pod in requests.iter().flat_map(items) {
        let labels = format!(r#"namespace="shop",pod="{}""#, text(pod, "/describedObject/name"));
        exposition.add("http_requests", labels, time, quantity(pod, "/value"));
    }
}
