//! A hostile tenant with expensive autoscalers must not delay those of a good tenant.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::get};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{
    ServedTestbed, TestbedExt, are_long_tests_enabled, hpa_binary, http_get, objects,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::interval,
};

use super::{MAX_PEAK_MIB, peak_mib};

pub(super) const HOSTILE: &str = "hostile";
/// The maximum delay from a change of the load to the scaling. Far more than two sync periods of
/// 2 s and two collection intervals of 1 s, because the machine is loaded.
const MAX_DELAY: Duration = Duration::from_secs(20);
/// The kubelet's default timeout of probes. After three consecutive failures, it restarts the
/// container.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The machine is considered busy if a request to the control server takes longer.
const BUSY_THRESHOLD: Duration = Duration::from_millis(100);
/// On a busy machine, the limits of delays and probes are multiplied by this.
const BUSY_FACTOR: u32 = 5;

/// Starts a server that sends `chunk` repeatedly, without end. If `chunk` is empty, it sends
/// nothing.
async fn serve_endlessly(chunk: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if chunk.is_empty() {
                    let mut all = Vec::new();
                    return drop(stream.read_to_end(&mut all).await);
                }
                let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[";
                if stream.write_all(head).await.is_ok() {
                    while stream.write_all(chunk).await.is_ok() {}
                }
            });
        }
    });
    address
}

fn json_path_metric() -> Value {
    let mut metric = objects::external_metric("m", "10");
    metric["external"]["metric"]["selector"]["matchLabels"]["type"] = "json-path".into();
    metric
}

/// A Deployment, and its autoscaler on a metric from an HTTP endpoint.
pub(super) fn scaled_by_endpoint(name: &str, url: &str, key: &str) -> [Value; 2] {
    let hpa = objects::with_collector_annotations(
        objects::hpa(name, 1..=9, [json_path_metric()]),
        &[
            ("external.m.json-path/endpoint", url),
            ("external.m.json-path/json-key", key),
            ("external.m.json-path/interval", "1s"),
        ],
    );
    [objects::running_deployment(name, 2), hpa]
}

/// Pods with a Deployment, and its autoscaler on a metric that the pods serve.
pub(super) fn scaled_by_pods(name: &str, pod_count: i64, port: u16) -> Vec<Value> {
    let hpa = objects::with_collector_annotations(
        objects::hpa(name, 1..=9, [objects::pods_metric("rps", "10")]),
        &[
            ("pods.rps.json-path/port", &port.to_string()),
            ("pods.rps.json-path/path", "/metrics"),
            ("pods.rps.json-path/json-key", "$.rps"),
            ("pods.rps.json-path/interval", "1s"),
        ],
    );
    let deployment = objects::running_deployment(name, pod_count);
    let pods = (0..pod_count).map(|index| {
        let mut pod = objects::pod(name, index);
        pod["status"]["podIP"] = "127.0.0.1".into();
        pod
    });
    pods.chain([deployment, hpa]).collect()
}

pub(super) fn hostile_namespace() -> Value {
    let mut namespace = objects::namespace();
    namespace["metadata"]["name"] = HOSTILE.into();
    namespace
}

/// Moves objects to [`HOSTILE`].
pub(super) fn set_hostile_namespace(objects: &mut [Value]) {
    for object in objects {
        object["metadata"]["namespace"] = HOSTILE.into();
    }
}

pub(super) async fn hostile_objects() -> Vec<Value> {
    let silent = serve_endlessly(b"").await;
    let flood =
        serve_endlessly(b"\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",")
            .await;
    let texts = Json(vec!["x".repeat(7); 9000]);
    let router = Router::new().route("/texts", get(async move || texts.clone()));
    let texts = hpa_tests::harness::serve(router).await;
    let mut all = Vec::new();
    for index in 0..100 {
        all.extend(scaled_by_endpoint(
            &format!("silent-{index}"),
            &format!("http://{silent}/"),
            "$.v",
        ));
    }
    for index in 0..50 {
        all.extend(scaled_by_endpoint(
            &format!("flood-{index}"),
            &format!("http://{flood}/"),
            "$.v",
        ));
    }
    for index in 0..20 {
        let key = "$[?(@ =~ '\\pL{200}')]";
        all.extend(scaled_by_endpoint(
            &format!("pattern-{index}"),
            &format!("http://{texts}/texts"),
            key,
        ));
    }
    for index in 0..5 {
        all.extend(scaled_by_pods(&format!("pods-{index}"), 30, silent.port()));
    }
    for index in 0..2 {
        let metrics = (0..3000).map(|_| objects::pods_metric("rps", "1"));
        let hpa = objects::hpa(&format!("long-{index}"), 1..=9, metrics);
        let path = format!("/{}", "x".repeat(240 << 10));
        all.push(objects::with_collector_annotations(hpa, &[("pods.rps.json-path/path", &path)]));
    }
    set_hostile_namespace(&mut all);
    all
}

/// Sends a request, and returns how long it took.
async fn request_duration(port: u16, path: &str) -> Duration {
    let started = Instant::now();
    let response = http_get(port, path).await;
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{path}: {response}");
    started.elapsed()
}

/// The durations of requests.
#[derive(Default)]
pub(super) struct Durations {
    pub(super) probes: Vec<Duration>,
    /// Requests to an idle server in this process, to detect a busy machine.
    control: Vec<Duration>,
}

impl Durations {
    fn is_busy(&self) -> bool {
        self.control.iter().any(|duration| *duration > BUSY_THRESHOLD)
    }

    /// The factor of limits.
    pub(super) fn busy_factor(&self) -> u32 {
        if self.is_busy() { BUSY_FACTOR } else { 1 }
    }

    /// Fails if three probes in a row exceed their timeout, or more than 1 % of all.
    pub(super) fn assert_probes_are_quick(mut self, name: &str) {
        let (is_busy, limit) = (self.is_busy(), PROBE_TIMEOUT * self.busy_factor());
        let is_slow = |probe: &Duration| *probe > limit;
        let has_failed = self.probes.windows(3).any(|three| three.iter().all(is_slow));
        self.probes.sort_unstable();
        let count = self.probes.len();
        let [p99, slowest] = [count * 99 / 100, count - 1].map(|at| self.probes[at]);
        println!(
            "{name}: {count} probes, 99% within {p99:?}, all within {slowest:?}; busy machine: \
             {is_busy}"
        );
        assert!(p99 < limit && !has_failed, "{p99:?}");
    }
}

/// Starts `hpa run` with these flags beside others. Returns the port of its probes.
pub(super) fn start_controller(
    served: &ServedTestbed,
    flags: &[&str],
) -> (tokio::process::Child, u16) {
    let [port] = hpa_tests::kube_apiserver::free_ports().expect("a port");
    let metrics_port = format!("--metrics-port={port}");
    let common = ["run", "--leader-elect=false", "--log-level=error", &metrics_port];
    let program = hpa_binary().display().to_string();
    let mut command = served.command(&program, &[&common, flags].concat());
    (command.stdin(Stdio::null()).spawn().expect("the binary runs"), port)
}

/// Calls the probes and a control server forever.
pub(super) async fn probe(port: u16, durations: &Mutex<Durations>) {
    let control = Router::new().route("/", get(async || "ok"));
    let control = hpa_tests::harness::serve(control).await.port();
    let mut ticks = interval(Duration::from_millis(200));
    loop {
        ticks.tick().await;
        for path in ["/healthz", "/readyz"] {
            let probe = request_duration(port, path).await;
            let control = request_duration(control, "/").await;
            let mut durations = durations.lock();
            durations.probes.push(probe);
            durations.control.push(control);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_tenant_scales_beside_a_hostile_one() {
    if !are_long_tests_enabled() {
        println!("hostile tenant: skipped, HPA_LONG_TESTS=1 runs it");
        return;
    }
    let load = Arc::new(AtomicU64::new(30));
    let served_load = load.clone();
    let document = async move || Json(json!({ "rps": served_load.load(Ordering::SeqCst) }));
    let good = hpa_tests::harness::serve(Router::new().route("/metrics", get(document))).await;
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace(), hostile_namespace()]);
    testbed.apply_all(scaled_by_pods("web", 2, good.port()));
    testbed.apply_all(scaled_by_endpoint("mail", &format!("http://{good}/metrics"), "$.rps"));
    let served = ServedTestbed::new(&testbed).await;
    let flags = [
        "--collectors",
        "--collector-address=127.0.0.1",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--horizontal-pod-autoscaler-downscale-stabilization=0s",
    ];
    let (process, port) = start_controller(&served, &flags);
    let replicas = async |web: i64, mail: i64| {
        let started = Instant::now();
        tokio::join!(served.wait_for_replicas("web", web), served.wait_for_replicas("mail", mail));
        started.elapsed()
    };
    replicas(6, 3).await;
    testbed.apply_all(hostile_objects().await);
    let durations = Mutex::<Durations>::default();
    let scale = async {
        let mut delays = Vec::new();
        for _ in 0..4 {
            for (value, web, mail) in [(5, 1, 1), (30, 6, 3)] {
                load.store(value, Ordering::SeqCst);
                delays.push(replicas(web, mail).await);
            }
        }
        delays
    };
    let delays = tokio::select! {
        delays = scale => delays,
        () = probe(port, &durations) => unreachable!(),
    };
    let peak = peak_mib(process.id().expect("a process"));
    let durations = durations.into_inner();
    let factor = durations.busy_factor();
    println!("hostile tenant: scaled after {delays:?}; {peak} MiB");
    durations.assert_probes_are_quick("hostile tenant");
    assert!(delays.iter().all(|delay| *delay < MAX_DELAY * factor), "{delays:?}");
    assert!(peak < MAX_PEAK_MIB, "{peak} MiB");
}
