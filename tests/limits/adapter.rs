//! `hpa adapter` beside a hostile tenant and bursts of connections: its probes and the metrics of
//! others must stay quick.

use std::{fs, net::Ipv4Addr, process::Stdio, time::Duration};

use axum::{
    Json, Router,
    routing::{get, post},
};
use futures::future::join_all;
use hpa_testbed::{Config, Testbed};
use hpa_tests::{
    harness::{
        NAMESPACE, ServedTestbed, TestbedExt, are_long_tests_enabled, hpa_binary, http_get, objects,
    },
    kube_apiserver::free_ports,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{Instant, interval, timeout},
};

use super::{
    DEADLINE, MAX_ADAPTER_PEAK_MIB, header_bomb,
    hostile::{
        Durations, HOSTILE, hostile_namespace, hostile_objects, probe, scaled_by_endpoint,
        scaled_by_pods,
    },
    peak_mib,
    schedules::open_bursts,
};

/// The maximum duration of a request for metrics of the good tenant. Without the hostile tenant, it
/// takes milliseconds.
const MAX_READ_DURATION: Duration = Duration::from_secs(5);

/// The number of requests for each metric of the hostile tenant at a time.
const HOSTILE_REQUESTS: usize = 4;

/// The duration of each attack with many headers.
const ATTACK_DURATION: Duration = Duration::from_secs(10);

/// A running adapter.
struct Adapter {
    process: tokio::process::Child,
    secure_port: u16,
    health_port: u16,
}

/// Accepts each token, and returns the token as the name of the user.
async fn review_token(Json(review): Json<Value>) -> Json<Value> {
    Json(json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {},
        "status": { "authenticated": true, "user": { "username": review["spec"]["token"] } },
    }))
}

/// Allows each request.
async fn review_access() -> Json<Value> {
    Json(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {},
        "status": { "allowed": true },
    }))
}

impl Adapter {
    /// Starts the adapter on a testbed, with reviews by another server, and waits until it is
    /// ready.
    async fn start(served: &ServedTestbed) -> Self {
        let reviews = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(review_token))
            .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(review_access));
        let reviews = hpa_tests::harness::serve(reviews).await;
        fs::write(served.dir.path().join("reviews"), Testbed::kubeconfig(reviews)).expect("a file");
        let [secure_port, health_port] = free_ports().expect("ports");
        let mut command = tokio::process::Command::new(hpa_binary());
        command.current_dir(served.dir.path()).env_clear().kill_on_drop(true).args([
            "adapter",
            "--collectors",
            "--collector-address=127.0.0.1",
            "--bind-address=127.0.0.1",
            "--cert-dir=certificates",
            "--authentication-skip-lookup",
            "--authentication-kubeconfig=reviews",
            "--authorization-kubeconfig=reviews",
            "--leader-elect=false",
            "--log-level=error",
        ]);
        command.arg("--lister-kubeconfig").arg(&served.kubeconfig);
        command.arg(format!("--secure-port={secure_port}"));
        command.arg(format!("--health-port={health_port}"));
        let process = command.stdin(Stdio::null()).spawn().expect("the binary runs");
        let adapter = Self { process, secure_port, health_port };
        timeout(DEADLINE, adapter.wait_until_ready()).await.expect("ready in time");
        adapter
    }

    async fn wait_until_ready(&self) {
        let mut ticks = interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            let is_listening =
                TcpStream::connect((Ipv4Addr::LOCALHOST, self.health_port)).await.is_ok();
            if is_listening
                && http_get(self.health_port, "/readyz").await.starts_with("HTTP/1.1 200")
            {
                return;
            }
        }
    }

    /// A client that authenticates as this user.
    fn client(&self, user: &str) -> kube::Client {
        let url = format!("https://127.0.0.1:{}", self.secure_port);
        let mut config = kube::Config::new(url.parse().expect("a URL"));
        // The certificate is generated.
        config.accept_invalid_certs = true;
        config.default_retry = false;
        config.auth_info.token = Some(user.to_owned().into());
        kube::Client::try_from(config).expect("a client")
    }
}

fn external_path(namespace: &str) -> String {
    format!(
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/m\
         ?labelSelector=type%3Djson-path"
    )
}

fn pods_path(namespace: &str, app: &str) -> String {
    format!(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/pods/*/rps\
         ?labelSelector=app%3D{app}"
    )
}

async fn read(client: &kube::Client, path: &str) -> kube::Result<Value> {
    client.request(http::Request::get(path).body(Vec::new()).expect("a request")).await
}

/// Reads a metric of the hostile tenant, without end. Most of the requests fail.
async fn read_forever(client: &kube::Client, path: &str) {
    let mut ticks = interval(Duration::from_millis(100));
    loop {
        ticks.tick().await;
        read(client, path).await.ok();
    }
}

/// Reads all metrics of the hostile tenant, without end.
async fn read_hostile_metrics(adapter: &Adapter) {
    let client = adapter.client(HOSTILE);
    let mut paths = vec![external_path(HOSTILE)];
    paths.extend((0..5).map(|index| pods_path(HOSTILE, &format!("pods-{index}"))));
    let all = paths.iter().flat_map(|path| std::iter::repeat_n(path, HOSTILE_REQUESTS));
    join_all(all.map(|path| read_forever(&client, path))).await;
}

/// Reads the metrics of the good tenant for ten seconds. Returns the longest duration of a request.
async fn read_good_metrics(adapter: &Adapter) -> Duration {
    let client = adapter.client("good");
    let mut ticks = interval(Duration::from_millis(250));
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        ticks.tick().await;
        for (path, expected) in [(external_path(NAMESPACE), 1), (pods_path(NAMESPACE, "web"), 2)] {
            let started = Instant::now();
            let list = read(&client, &path).await.expect("metrics");
            longest = longest.max(started.elapsed());
            let items = list["items"].as_array().expect("a list");
            let values = items.iter().filter(|item| item["value"] == "30");
            assert_eq!(values.count(), expected, "{list}");
        }
    }
    longest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adapter_is_quick_beside_a_hostile_tenant_and_bursts_of_connections() {
    if !are_long_tests_enabled() {
        println!("hostile tenant of the adapter: skipped, HPA_LONG_TESTS=1 runs it");
        return;
    }
    let document = Json(json!({ "rps": 30 }));
    let router = Router::new().route("/metrics", get(async move || document.clone()));
    let good = hpa_tests::harness::serve(router).await;
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace(), hostile_namespace()]);
    testbed.apply_all(scaled_by_pods("web", 2, good.port()));
    testbed.apply_all(scaled_by_endpoint("mail", &format!("http://{good}/metrics"), "$.rps"));
    testbed.apply_all(hostile_objects().await);
    let served = ServedTestbed::new(&testbed).await;
    let adapter = Adapter::start(&served).await;
    let durations = Mutex::<Durations>::default();
    let longest = tokio::select! {
        longest = read_good_metrics(&adapter) => longest,
        () = probe(adapter.health_port, &durations) => unreachable!(),
        () = open_bursts(adapter.health_port) => unreachable!(),
        () = open_bursts(adapter.secure_port) => unreachable!(),
        () = read_hostile_metrics(&adapter) => unreachable!(),
    };
    let peak = peak_mib(adapter.process.id().expect("a process"));
    let durations = durations.into_inner();
    let limit = MAX_READ_DURATION * durations.busy_factor();
    println!("hostile tenant of the adapter: metrics of others within {longest:?}; {peak} MiB");
    durations.assert_probes_are_quick("hostile tenant of the adapter");
    assert!(longest < limit, "{longest:?}");
    // The chart's memory limit. MAX_ADAPTER_PEAK_MIB is half of it.
    assert!(peak < 2 * MAX_ADAPTER_PEAK_MIB, "{peak} MiB");
}

/// The CPU time that a process has used.
fn cpu_time(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // The name in parentheses can contain spaces. The user and system times are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").expect("fields");
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    // The unit of times in /proc is 1/100 s.
    Duration::from_millis(10 * ticks.sum::<Result<u64, _>>().expect("numbers"))
}

/// Requests with 500 headers exceed only the limit of headers. Those with 1700 also exceed the
/// limit of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_cpu_and_probes_are_bounded_beside_requests_with_many_headers() {
    if !are_long_tests_enabled() {
        println!("many headers: skipped, HPA_LONG_TESTS=1 runs it");
        return;
    }
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let served = ServedTestbed::new(&testbed).await;
    let adapter = Adapter::start(&served).await;
    let process = adapter.process.id().expect("a process");
    for headers in [500, 1700] {
        let before = cpu_time(process);
        let few = header_bomb::send_forever(adapter.secure_port, 4, headers);
        timeout(ATTACK_DURATION, few).await.expect_err("it has no end");
        let used = cpu_time(process).saturating_sub(before);
        println!("{headers} headers on 4 connections: {used:?} of CPU time");
        assert!(used < ATTACK_DURATION / 5, "{used:?}");

        let durations = Mutex::<Durations>::default();
        tokio::select! {
            () = header_bomb::send_forever(adapter.secure_port, 200, headers) => unreachable!(),
            _ = timeout(ATTACK_DURATION, probe(adapter.health_port, &durations)) => {}
        }
        durations.into_inner().assert_probes_are_quick("many headers");
        let peak = peak_mib(process);
        println!("{headers} headers on 200 connections: {peak} MiB");
        assert!(peak < MAX_ADAPTER_PEAK_MIB, "{peak} MiB");
    }
}
