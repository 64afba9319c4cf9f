//! `hpa-bench adapter`: measures one adapter after the other.

mod cluster;
mod outcome;
mod requests;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use hpa_tests::kube_apiserver::{Process, free_ports};
use kube::Client;
use tokio::time::sleep;

pub(crate) use self::outcome::{AdapterOutcome, table};
use self::{
    cluster::Cluster,
    outcome::{IdleUsage, Phase, Snapshot},
    requests::{request_metric, request_paths, send_requests},
};
use crate::{
    adapter::{Adapter, AdapterKind},
    args::{AdapterArguments, ApiServer},
    measure::log_dir,
    prometheus::{FakePrometheus, RULES},
    rounds::Rounds,
    server::{Interruption, ProgressTimer},
    stats::Usage,
};

const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Length of the measurement without requests.
const IDLE_DURATION: Duration = Duration::from_secs(10);
/// If an adapter needs less than [`SETTLED_CPU_SECONDS`] of CPU time in this time, it has no
/// discovery in progress.
const SETTLE_INTERVAL: Duration = Duration::from_millis(500);
const SETTLED_CPU_SECONDS: f64 = 0.05;
/// The files of an adapter in its directory.
const RULES_FILE: &str = "rules.yaml";
const KUBECONFIG_FILE: &str = "adapter.kubeconfig";
/// Time for an adapter to exit after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Measures all adapters, in the order of the arguments.
pub(crate) async fn run(arguments: &AdapterArguments) -> Result<Vec<Rounds<AdapterOutcome>>> {
    let ApiServer::KubeApiserver(assets) = &arguments.server else {
        bail!("--server must be kube-apiserver=DIR, because it has to aggregate the adapter");
    };
    let mut interruption = Interruption::new()?;
    let dir = log_dir(arguments.keep)?;
    let mut rounds = vec![Vec::new(); arguments.adapters.len()];
    // Adapters alternate, so that other load on this machine affects all of them.
    for round in 1..=arguments.repeat {
        for (index, (adapter, outcomes)) in arguments.adapters.iter().zip(&mut rounds).enumerate() {
            let name = format!("{}-{}-round-{round}", adapter.name(), index + 1);
            let dir = dir.path().join(&name);
            std::fs::create_dir(&dir)?;
            let measuring = measure(arguments, assets, adapter, &dir, &name);
            let outcome = interruption.run_unless_interrupted(Box::pin(measuring)).await;
            outcomes.push(
                outcome.with_context(|| format!("cannot measure {}", adapter.binary.display()))?,
            );
        }
    }
    rounds.into_iter().map(Rounds::new).collect()
}

async fn measure(
    arguments: &AdapterArguments,
    assets: &Path,
    adapter: &Adapter,
    dir: &Path,
    name: &str,
) -> Result<AdapterOutcome> {
    let population = arguments.workloads.population();
    let prometheus = FakePrometheus::with_series(&arguments.workloads, &arguments.series);
    let url = prometheus.spawn(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    eprintln!("hpa-bench: {name}: starting kube-apiserver");
    let cluster = Cluster::start(assets, dir, name, &population).await?;
    let [port] = free_ports()?;
    std::fs::write(dir.join(RULES_FILE), RULES)?;
    std::fs::write(dir.join(KUBECONFIG_FILE), cluster.adapter_kubeconfig().to_string())?;
    let flags = comparable_flags(arguments, adapter, dir, &url, port);
    let start = Instant::now();
    let process = Process::start(dir, name, adapter.command(&flags))?;
    cluster.register(port).await?;
    let mut running = RunningAdapter { arguments, name, cluster, prometheus, process };
    let caller = running.cluster.caller_client().await?;
    running.wait_until_served(&caller).await?;
    let ready_after = start.elapsed().as_secs_f64();
    running.wait_until_discovered().await?;

    eprintln!("hpa-bench: {name}: measuring without requests for {IDLE_DURATION:?}");
    let begin = running.snapshot()?;
    let discoveries = running.prometheus.stats().series_responses;
    sleep(IDLE_DURATION).await;
    let idle = IdleUsage::new(&begin, &running.snapshot()?);
    let aggregated = running.measure_phase("through the API server", &caller, idle).await?;
    let front_proxy = running.cluster.front_proxy_client(port)?;
    let direct = running.measure_phase("past the API server", &front_proxy, idle).await?;
    let end = running.snapshot()?;
    running.process.stop(EXIT_TIMEOUT).await?;
    Ok(AdapterOutcome {
        adapter: adapter.name().to_owned(),
        binary: adapter.binary.display().to_string(),
        flags,
        series: arguments.series.series.max(arguments.series.names),
        names: arguments.series.names,
        ready_after,
        discoveries,
        usage_at_begin: begin.adapter_usage,
        usage_at_end: end.adapter_usage,
        idle,
        aggregated,
        direct,
    })
}

/// Returns the adapter's flags: one kubeconfig for all requests, no client-side rate limit, and a
/// loopback port. The adapter reads its files from `dir`, and stores its certificate there.
fn comparable_flags(
    arguments: &AdapterArguments,
    adapter: &Adapter,
    dir: &Path,
    prometheus_url: &str,
    port: u16,
) -> Vec<String> {
    let (rules, kubeconfig) = (dir.join(RULES_FILE), dir.join(KUBECONFIG_FILE));
    let kubeconfig = kubeconfig.display();
    let mut flags = vec![
        format!("--config={}", rules.display()),
        format!("--prometheus-url={prometheus_url}"),
        format!("--metrics-relist-interval={}ms", arguments.relist_interval.as_millis()),
        format!("--lister-kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--cert-dir={}", dir.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
    ];
    match adapter.kind {
        AdapterKind::Ours => flags.extend_from_slice(&arguments.flags),
        AdapterKind::PrometheusAdapter => {
            let no_rate_limit = ["--client-qps=100000", "--client-burst=100000"];
            flags.extend(no_rate_limit.map(ToOwned::to_owned));
        }
    }
    flags
}

/// A running adapter, and its servers.
struct RunningAdapter<'a> {
    arguments: &'a AdapterArguments,
    name: &'a str,
    cluster: Cluster,
    prometheus: FakePrometheus,
    process: Process,
}

impl RunningAdapter<'_> {
    /// Waits until the adapter's response has the metric of all pods of one autoscaler.
    async fn wait_until_served(&mut self, caller: &Client) -> Result<()> {
        let paths = request_paths(&self.arguments.workloads.population());
        let path = paths.first().context("there is no autoscaler")?;
        let (start, mut timer) = (Instant::now(), ProgressTimer::new());
        loop {
            self.process.ensure_running()?;
            let Err(error) = request_metric(caller, path, self.arguments.workloads.pods).await
            else {
                return Ok(());
            };
            if start.elapsed() > self.arguments.within {
                let log = self.process.tail(20, "");
                return Err(error.context(format!("the metric is not served\n{log}")));
            }
            self.report_progress(&mut timer, start, "the metric is served");
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the adapter has read and processed the lists of `--discoveries`.
    async fn wait_until_discovered(&mut self) -> Result<()> {
        let (start, mut timer) = (Instant::now(), ProgressTimer::new());
        let required = u64::from(self.arguments.discoveries);
        let limit = self.arguments.within
            + self.arguments.relist_interval * (self.arguments.discoveries - 1);
        let mut before = self.adapter_usage()?.cpu_seconds;
        loop {
            sleep(SETTLE_INTERVAL).await;
            self.process.ensure_running()?;
            let cpu = self.adapter_usage()?.cpu_seconds;
            let is_settled = cpu - before < SETTLED_CPU_SECONDS;
            before = cpu;
            if is_settled && self.prometheus.stats().series_responses >= required {
                return Ok(());
            }
            if start.elapsed() > limit {
                let count = self.prometheus.stats().series_responses;
                bail!(
                    "not ready after {limit:?}: the adapter has read {count} of {required} \
                     required lists of series, or is still processing them"
                );
            }
            self.report_progress(&mut timer, start, "the series are read");
        }
    }

    /// Prints how long the wait has taken, if the last report was some time ago.
    fn report_progress(&self, timer: &mut ProgressTimer, start: Instant, condition: &str) {
        if !timer.restart_if_due() {
            return;
        }
        let (name, lists) = (self.name, self.prometheus.stats().series_responses);
        let seconds = start.elapsed().as_secs();
        eprintln!(
            "hpa-bench: {name}: waiting until {condition}: {seconds} s, {lists} lists of series"
        );
    }

    async fn measure_phase(
        &mut self,
        route: &str,
        client: &Client,
        idle: IdleUsage,
    ) -> Result<Phase> {
        let (arguments, name) = (self.arguments, self.name);
        let population = arguments.workloads.population();
        eprintln!("hpa-bench: {name}: sending requests {route} for {:?}", arguments.duration);
        let begin = self.snapshot()?;
        let sent = send_requests(client, &population, arguments.duration).await?;
        let end = self.snapshot()?;
        self.process.ensure_running()?;
        if let Some(error) = &sent.first_error {
            eprintln!("hpa-bench: {name}: {} requests failed: {error:#}", sent.failed);
        }
        Ok(Phase::new(&begin, &end, &sent, idle))
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot {
            at: Instant::now(),
            adapter_usage: self.adapter_usage()?,
            apiserver_usage: self.cluster.usage()?,
            requests: self.cluster.requests(),
            queries: self.prometheus.stats().total_queries(),
        })
    }

    fn adapter_usage(&self) -> Result<Usage> {
        Usage::for_process(self.process.id()?)
    }
}
