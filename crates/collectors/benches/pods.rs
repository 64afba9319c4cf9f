//! Collects a json-path metric of 1000 pods over real connections four times, as in a minute with a
//! sync period of 15 s. Prints CPU, memory and connections, and fails if they exceed the bounds.
//!
//! A child process serves the pods: `127.0.1.0` to `127.0.4.231`, with one listener. Arguments:
//! `--pods N`, `--connections N`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a benchmark, which stops at the first error and prints results"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use hpa_calc::api::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use hpa_collectors::{
    Clients, Cluster, CollectorPlan, Context, Environment, Ingress, Limits, LookupError, Pod,
    Policy, RouteGroup, Settings, annotations::Annotations, metric_configs,
};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The maximum CPU time per pod and minute.
const MAX_CPU: Duration = Duration::from_millis(2);
const MAX_MEMORY_KIB: u64 = 40 << 10;
const COLLECTIONS: u32 = 4;

struct Pods(Vec<Pod>);

#[async_trait]
impl Cluster for Pods {
    async fn pods(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        Ok(self.0.clone())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Err(LookupError::NotSynced("replicas"))
    }

    async fn ingress(&self, _: &str, _: &str) -> Result<Ingress, LookupError> {
        Err(LookupError::NotSynced("Ingresses"))
    }

    async fn route_group(&self, _: &str, _: &str) -> Result<RouteGroup, LookupError> {
        Err(LookupError::NotSynced("RouteGroups"))
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        serve();
    }
    let (pods, connections) = (argument("--pods", 1000), argument("--connections", 32));
    let mut server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let sockets = Sockets::start();
    let (start, cpu) = (Instant::now(), cpu_time());
    runtime.block_on(collect(pods, connections, server.port));
    let (wall, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
    let per_pod = cpu / u32::try_from(pods).expect("a number of pods");
    let (memory, open) = (peak_memory_kib(), sockets.stop());
    server.stop();
    println!("{pods} pods, {COLLECTIONS} collections in {} ms", wall.as_millis());
    println!(
        "CPU of a pod in a minute: {} us (at most {} us)",
        per_pod.as_micros(),
        MAX_CPU.as_micros()
    );
    println!("peak memory of the process: {memory} KiB (less than {MAX_MEMORY_KIB} KiB)");
    println!("open connections: {open} (at most {connections})");
    let is_good = per_pod <= MAX_CPU && memory < MAX_MEMORY_KIB && open <= connections;
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn argument(name: &str, default: usize) -> usize {
    let mut arguments = std::env::args();
    arguments.find(|argument| argument == name);
    arguments.next().map_or(default, |value| value.parse().expect("a number"))
}

async fn collect(count: usize, connections: usize, port: u16) {
    let ip = |index: usize| {
        Ipv4Addr::from_bits(
            Ipv4Addr::new(127, 0, 1, 0).to_bits() + u32::try_from(index).expect("an index"),
        )
    };
    let now = Timestamp::now();
    let pod = |index| Pod {
        name: format!("web-{index:04}"),
        ip: ip(index).to_string(),
        ready_since: Some(now),
        is_terminating: false,
    };
    let addresses = (0..count).map(|index| IpAddr::from(ip(index))).collect();
    let settings = Settings {
        policy: Policy { addresses, ..Policy::default() },
        limits: Limits {
            connections,
            connections_per_collection: connections,
            ..Limits::default()
        },
        ..Settings::default()
    };
    let clients = Clients::new(settings, Arc::new(Pods((0..count).map(pod).collect())));
    let clients = clients.expect("settings");
    let hpa = autoscaler(port);
    let environment = Environment::default();
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let configs = metric_configs(&hpa, &annotations, environment.compat).expect("annotations");
    let plan = CollectorPlan::new(&configs[0], &environment).expect("a plan");
    for _ in 0..COLLECTIONS {
        let context = Context::new(&clients, "shop", &hpa.spec.scale_target_ref, now);
        let values = plan.read(&context).await.expect("values");
        assert_eq!(values.samples.len(), count, "{:?}", values.failures.first());
    }
}

fn autoscaler(port: u16) -> HorizontalPodAutoscaler {
    let key = |name: &str| format!("metric-config.pods.length.json-path/{name}");
    serde_json::from_value(serde_json::json!({
        "metadata": { "namespace": "shop", "name": "web", "annotations": {
            key("json-key"): "$.queues[*].length",
            key("aggregator"): "sum",
            key("path"): "/metrics",
            key("port"): port.to_string(),
        } },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 9,
            "metrics": [{ "type": "Pods", "pods": {
                "metric": { "name": "length" },
                "target": { "type": "AverageValue", "averageValue": "1" },
            } }],
        },
    }))
    .expect("an autoscaler")
}

/// User and system time of the process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("a positive time")
}

fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.expect("the peak of the memory")
}

/// The child process that serves the pods.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut process = Command::new(program)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process for the pods");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("the output");
        BufReader::new(output.by_ref()).read_line(&mut line).expect("the port");
        Self { process, port: line.trim().parse().expect("a port") }
    }

    fn stop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("the process ends");
    }
}

/// Samples the number of this process's open sockets in a thread.
struct Sockets {
    /// The number of sockets at the start, which the runtime opened.
    initial: usize,
    maximum: Arc<AtomicUsize>,
    is_stopped: Arc<AtomicBool>,
}

impl Sockets {
    fn start() -> Self {
        let sockets =
            Self { initial: open_sockets(), maximum: Arc::default(), is_stopped: Arc::default() };
        let (maximum, is_stopped) = (sockets.maximum.clone(), sockets.is_stopped.clone());
        std::thread::spawn(move || {
            while !is_stopped.load(Ordering::SeqCst) {
                maximum.fetch_max(open_sockets(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        sockets
    }

    /// Stops sampling, and returns the largest number of sockets to pods.
    fn stop(self) -> usize {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.maximum.load(Ordering::SeqCst).saturating_sub(self.initial)
    }
}

/// The number of open sockets of this process.
fn open_sockets() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("the files of the process");
    let is_socket = |path: &std::path::Path| path.to_string_lossy().starts_with("socket:");
    let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|target| is_socket(target)).count()
}

/// Serves the pods until standard input closes.
fn serve() -> ! {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address").port());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || respond(stream));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new()).ok();
    std::process::exit(0)
}

fn respond(mut stream: TcpStream) {
    let mut request = [0; 1024];
    let mut length = 0;
    while !request[..length].ends_with(b"\r\n\r\n") {
        match stream.read(&mut request[length..]) {
            Ok(count) if count > 0 => length += count,
            _ => break,
        }
    }
    let queue = r#"{"name": "orders", "length": 12, "consumers": [1, 2, 3]}"#;
    let body = format!(r#"{{"queues": [{}], "version": "1.2.3"}}"#, [queue; 8].join(", "));
    let length = body.len();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(response.as_bytes()).ok();
    stream.shutdown(Shutdown::Write).ok();
}
