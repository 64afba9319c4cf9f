//! A hostile tenant with expensive autoscalers must not delay those of a good tenant.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};

use axum::routing::get as get_route;
use hpa_tests::harness::{ServedTestbed, http_get};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket},
    time::interval,
};

use super::*;

const HOSTILE: &str = "hostile";
/// The maximum delay from a change of the load to the scaling. Far more than two sync periods of 2
/// s and two collection intervals of 1 s, because the machine is loaded.
const MAX_DELAY: Duration = Duration::from_secs(20);
/// The kubelet's default timeout of probes. After three consecutive failures, it restarts the
/// container.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
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

fn annotated(mut hpa: Value, annotations: &[(&str, &str)]) -> Value {
    for (name, value) in annotations {
        hpa["metadata"]["annotations"][format!("metric-config.{name}")] = json!(value);
    }
    hpa
}

fn json_path_metric() -> Value {
    let mut metric = objects::external_metric("m", "10");
    metric["external"]["metric"]["selector"]["matchLabels"]["type"] = "json-path".into();
    metric
}

/// A Deployment, and its autoscaler on a metric from an HTTP endpoint.
fn scaled_by_endpoint(name: &str, url: &str, key: &str) -> [Value; 2] {
    let hpa = annotated(
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
fn scaled_by_pods(name: &str, pods: i64, port: u16) -> Vec<Value> {
    let hpa = annotated(
        objects::hpa(name, 1..=9, [objects::pods_metric("rps", "10")]),
        &[
            ("pods.rps.json-path/port", &port.to_string()),
            ("pods.rps.json-path/path", "/metrics"),
            ("pods.rps.json-path/json-key", "$.rps"),
            ("pods.rps.json-path/interval", "1s"),
        ],
    );
    let deployment = objects::running_deployment(name, pods);
    let pods = (0..pods).map(|index| {
        let mut pod = objects::pod(name, index);
        pod["status"]["podIP"] = "127.0.0.1".into();
        pod
    });
    pods.chain([deployment, hpa]).collect()
}

async fn hostile_objects() -> Vec<Value> {
    let silent = serve_endlessly(b"").await;
    let flood =
        serve_endlessly(b"\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",")
            .await;
    let texts = Json(vec!["x".repeat(7); 9000]);
    let router = Router::new().route("/texts", get_route(async move || texts.clone()));
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
        all.push(annotated(hpa, &[("pods.rps.json-path/path", &path)]));
    }
    for object in &mut all {
        object["metadata"]["namespace"] = HOSTILE.into();
    }
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
struct Durations {
    probes: Vec<Duration>,
    /// Requests to an idle server in this process, to detect a busy machine.
    control: Vec<Duration>,
}

/// Starts `hpa run` with these flags beside others. Returns the port of its probes.
fn start_controller(served: &ServedTestbed, flags: &[&str]) -> (tokio::process::Child, u16) {
    let [port] = hpa_tests::kube_apiserver::free_ports().expect("a port");
    let metrics_port = format!("--metrics-port={port}");
    let common = ["run", "--leader-elect=false", "--log-level=error", &metrics_port];
    let program = hpa_binary().display().to_string();
    let mut command = served.command(&program, &[&common, flags].concat());
    (command.stdin(Stdio::null()).spawn().expect("the binary runs"), port)
}

/// Calls the probes and the control server forever.
async fn probe(port: u16, control: u16, durations: &Mutex<Durations>) {
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
    let good =
        hpa_tests::harness::serve(Router::new().route("/metrics", get_route(document))).await;
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let mut namespace = objects::namespace();
    namespace["metadata"]["name"] = HOSTILE.into();
    testbed.apply_all([namespace]);
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
        tokio::join!(
            served.wait_for_replicas(&testbed, "web", web),
            served.wait_for_replicas(&testbed, "mail", mail),
        );
        started.elapsed()
    };
    replicas(6, 3).await;
    testbed.apply_all(hostile_objects().await);
    let control = Router::new().route("/", get_route(async || "ok"));
    let control = hpa_tests::harness::serve(control).await.port();
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
        () = probe(port, control, &durations) => unreachable!(),
    };
    let peak = peak_mib(process.id().expect("a process"));
    let Durations { mut probes, control } = durations.into_inner();
    let is_busy = control.iter().any(|duration| *duration > BUSY_THRESHOLD);
    let factor = if is_busy { BUSY_FACTOR } else { 1 };
    let probe_limit = PROBE_TIMEOUT * factor;
    let has_failed = probes.windows(3).any(|three| three.iter().all(|one| *one > probe_limit));
    probes.sort_unstable();
    let [p99, slowest] = [probes.len() * 99 / 100, probes.len() - 1].map(|at| probes[at]);
    println!(
        "hostile tenant: scaled after {delays:?}; {} probes, 99% within {p99:?}, all within \
         {slowest:?}; {peak} MiB; busy machine: {is_busy}",
        probes.len()
    );
    assert!(delays.iter().all(|delay| *delay < MAX_DELAY * factor), "{delays:?}");
    assert!(p99 < probe_limit && !has_failed, "{p99:?}");
    assert!(peak < MAX_PEAK_MIB, "{peak} MiB");
}

/// An autoscaler on a schedule, with as many metrics of it as `count`.
fn scaled_by_schedule(name: &str, schedule: &str, count: usize) -> [Value; 2] {
    let metrics = (0..count).map(|at| {
        json!({ "type": "Object", "object": {
            "describedObject": {
                "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule", "name": schedule,
            },
            "metric": { "name": format!("m{at}") },
            "target": { "type": "AverageValue", "averageValue": "1" },
        } })
    });
    [objects::running_deployment(name, 2), objects::hpa(name, 1..=9, metrics)]
}

/// A schedule of 9000 entries, of which the first is invalid, and autoscalers that read it 512
/// times.
fn hostile_schedule() -> Vec<Value> {
    let mut large = schedule(HOSTILE, "large", &["Sun", "Mon"]);
    let mut entry = large["spec"]["schedules"][0].clone();
    let valid = vec![entry.clone(); 8999];
    entry["period"]["timezone"] = "Nowhere/X".into();
    large["spec"]["schedules"] = std::iter::once(entry).chain(valid).collect();
    let mut all = vec![large];
    for name in ["first", "second"] {
        all.extend(scaled_by_schedule(name, "large", 256));
    }
    for object in &mut all {
        object["metadata"]["namespace"] = HOSTILE.into();
    }
    all
}

/// Opens 300 connections at once each second, forever. They have another address than the probes,
/// because a new connection may replace an idle one of its own address.
async fn open_bursts(port: u16) {
    let connect = async || {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into())?;
        socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
    };
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let burst = futures::future::join_all((0..300).map(|_| connect())).await;
        let failed = burst.iter().filter(|connection| connection.is_err()).count();
        assert!(failed < burst.len(), "no connection of the burst was accepted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_quick_beside_a_large_schedule_and_bursts_of_connections() {
    if !are_long_tests_enabled() {
        println!("large schedule: skipped, HPA_LONG_TESTS=1 runs it");
        return;
    }
    let testbed = Testbed::new(Config::default());
    testbed.apply_all(
        hpa_collectors::schedules::definition::schedule_definitions().expect("definitions"),
    );
    let mut namespace = objects::namespace();
    namespace["metadata"]["name"] = HOSTILE.into();
    testbed.apply_all([objects::namespace(), namespace]);
    testbed.apply_all(hostile_schedule());
    let all_days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let mut always = schedule("shop", "always", &all_days);
    always["spec"]["schedules"][0]["value"] = 4.into();
    testbed.apply_all([always]);
    testbed.apply_all(scaled_by_schedule("web", "always", 1));
    let served = ServedTestbed::new(&testbed).await;
    let flags = ["--scaling-schedule", "--horizontal-pod-autoscaler-sync-period=1s"];
    let (_process, port) = start_controller(&served, &flags);
    served.wait_for_replicas(&testbed, "web", 4).await;
    let control = Router::new().route("/", get_route(async || "ok"));
    let control = hpa_tests::harness::serve(control).await.port();
    let durations = Mutex::<Durations>::default();
    tokio::select! {
        _ = timeout(Duration::from_secs(5), probe(port, control, &durations)) => {}
        () = open_bursts(port) => unreachable!(),
    }
    let Durations { probes, control } = durations.into_inner();
    let is_busy = control.iter().any(|duration| *duration > BUSY_THRESHOLD);
    let limit = PROBE_TIMEOUT * if is_busy { BUSY_FACTOR } else { 1 };
    let slowest = probes.iter().max().expect("probes");
    println!("large schedule: {} probes, all within {slowest:?}", probes.len());
    assert!(*slowest < limit, "{slowest:?}");
}
