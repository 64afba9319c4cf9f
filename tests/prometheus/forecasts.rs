//! Forecasts of the controller from past loads in a real Prometheus.
//!
//! Three weeks are backfilled. On each past day, the loads tripled 15 minutes after the time of day
//! at which the test runs. Today's rise is still ahead, and the forecast must contain it.

use std::{fmt::Write as _, path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, SettableMetrics, TestbedExt, objects};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler};
use kube::{Api, runtime::wait::await_condition};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::server::Server;

const DAYS: i64 = 21;
const MINUTES_PER_DAY: i64 = 1440;
/// The minutes from now until the load rises, and until it falls. The controller reads the past in
/// buckets of five minutes that are not aligned with now, which may shift the rise by that much.
/// Even then, the rise is after now and within [`HORIZON`].
const RISE: i64 = 15;
const FALL: i64 = 600;
const HORIZON: &str = "40m";
/// The number of pods that the current load needs, and that the highest load needs.
const POD_COUNT: i64 = 20;
const MAX_POD_COUNT: i64 = 60;
/// The target of the metric `requests`.
const REQUESTS_PER_POD: i64 = 100;
/// The autoscalers: one on CPU usage, whose past the kubelet exports, and one on an external
/// metric.
const NAMES: [&str; 2] = ["web", "queue"];
/// The rule of the external metric. Without a rule, the controller can't read the metric's past
/// from Prometheus.
const RULES: &str = "externalRules:
- seriesQuery: requests
  resources: {namespaced: false}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
";
/// Deadline of waits.
const LIMIT: Duration = Duration::from_secs(100);

/// The number of pods that the load needs at a minute relative to now.
fn needed_pods(minute: i64) -> i64 {
    let minute = minute.rem_euclid(MINUTES_PER_DAY);
    let (rise, fall) = (minute - RISE, FALL - minute);
    POD_COUNT + (MAX_POD_COUNT - POD_COUNT) * rise.clamp(0, 6).min(fall.clamp(0, 6)) / 6
}

/// The past loads as an OpenMetrics file, with a sample in each minute until now.
fn past_samples(now: Timestamp) -> String {
    let mut requests = "# TYPE requests gauge\n".to_owned();
    let mut cpu = "# TYPE container_cpu_usage_seconds counter\n".to_owned();
    let labels = format!("namespace=\"{NAMESPACE}\",pod=\"web-5d4f8c7b9-x2x7k\",container=\"app\"");
    let mut cpu_seconds = 0;
    for minute in -DAYS * MINUTES_PER_DAY..=0 {
        let (at, pods) = (now.as_second() + minute * 60, needed_pods(minute));
        // Each pod uses a core.
        cpu_seconds += pods * 60;
        // Writing to a string can't fail.
        let _ = writeln!(requests, "requests {} {at}", pods * REQUESTS_PER_POD);
        let _ = writeln!(cpu, "container_cpu_usage_seconds_total{{{labels}}} {cpu_seconds} {at}");
    }
    format!("{requests}{cpu}# EOF\n")
}

fn autoscaler(name: &str) -> Value {
    let metric = match name {
        "web" => objects::cpu_metric(100),
        _ => objects::external_metric("requests", &REQUESTS_PER_POD.to_string()),
    };
    let mut hpa = objects::hpa(name, 1..=100, [metric]);
    // Scales up at once, not in steps of 15 seconds.
    let policy = json!({ "type": "Percent", "value": 900, "periodSeconds": 15 });
    hpa["spec"]["behavior"] = json!({ "scaleUp": { "policies": [policy] } });
    hpa["metadata"]["annotations"] = json!({ "autoscaling.hpa-rs.dev/forecast-horizon": HORIZON });
    hpa
}

struct Cluster {
    testbed: Testbed,
    served: ServedTestbed,
}

impl Cluster {
    async fn new() -> Self {
        let metrics = Arc::new(SettableMetrics::new(100, POD_COUNT * REQUESTS_PER_POD));
        let testbed = Testbed::new(Config { metrics: Some(metrics), ..Config::default() });
        testbed.apply_all([objects::namespace()]);
        testbed.apply_all(NAMES.map(|name| objects::running_deployment(name, POD_COUNT)));
        testbed.apply_all((0..POD_COUNT).map(|index| objects::pod("web", index)));
        testbed.apply_all(NAMES.map(autoscaler));
        let served = ServedTestbed::new(&testbed).await;
        Self { testbed, served }
    }

    /// Sets the annotation `forecast` of all autoscalers.
    fn set_forecast(&self, mode: &str) -> Result<()> {
        for name in NAMES {
            let mut hpa = self.testbed.hpa(name).context("no autoscaler")?;
            hpa["metadata"]["annotations"]["autoscaling.hpa-rs.dev/forecast"] = mode.into();
            self.testbed.apply_all([hpa]);
        }
        Ok(())
    }

    /// Waits until the condition `ForecastActive` of all autoscalers has this reason.
    async fn wait_for_reason(&self, reason: &str) -> Result<()> {
        for name in NAMES {
            let condition = || self.testbed.condition(name, "ForecastActive");
            let has_reason = |_: Option<&HorizontalPodAutoscaler>| {
                condition().is_some_and(|[_, found, _]| found == reason)
            };
            let hpas = Api::namespaced(self.testbed.client(), NAMESPACE);
            let reached = timeout(LIMIT, await_condition(hpas, name, has_reason)).await;
            let text = || format!("{name}: {:?}: {}", condition(), self.served.log());
            reached.with_context(text)??;
        }
        Ok(())
    }

    /// Waits until a Deployment has more replicas than the current load needs.
    async fn wait_for_scale_up(&self, name: &str) -> Result<i64> {
        let has_scaled = |_: Option<&Deployment>| self.testbed.replicas(name) > POD_COUNT;
        let deployments = Api::namespaced(self.testbed.client(), NAMESPACE);
        let reached = timeout(LIMIT, await_condition(deployments, name, has_scaled)).await;
        let condition = || self.testbed.condition(name, "ForecastActive");
        reached.with_context(|| format!("{name}: {:?}: {}", condition(), self.served.log()))??;
        Ok(self.testbed.replicas(name))
    }
}

/// Checks that forecasts change no replicas in mode `observe`, and scale up in mode `scale`.
pub(crate) async fn check(binary: &Path) -> Result<()> {
    let server = Server::start_with_series(&past_samples(Timestamp::now()))?;
    let cluster = Cluster::new().await;
    let deployments = || NAMES.map(|name| cluster.testbed.deployment(name));
    let unchanged = deployments();
    cluster.set_forecast("observe")?;
    let program = binary.to_str().context("a path in UTF-8")?;
    let rules = tempfile::NamedTempFile::new()?;
    std::fs::write(&rules, RULES)?;
    let flags = [
        &*format!("--forecast-prometheus={}", server.url),
        &*format!("--prometheus-url={}", server.url),
        &*format!("--metrics-config={}", rules.path().display()),
        "--horizontal-pod-autoscaler-sync-period=1s",
    ];
    let _controller = cluster.served.start_hpa(program, &flags, &[]);

    cluster.wait_for_reason("Forecasting").await?;
    for name in NAMES {
        let condition = cluster.testbed.condition(name, "ForecastActive");
        let [status, _, message] = condition.context("no condition")?;
        ensure!(status == "True", "{name}: {status}");
        let is_observed = message.ends_with("observed only, the replicas don't change");
        ensure!(is_observed, "{name}: {message}");
    }
    ensure!(deployments() == unchanged, "observed forecasts changed a Deployment");

    cluster.set_forecast("scale")?;
    for name in NAMES {
        let replicas = cluster.wait_for_scale_up(name).await?;
        // Prometheus extrapolates rates, so they are not exact.
        ensure!((replicas - MAX_POD_COUNT).abs() <= 1, "{name}: {replicas} replicas");
    }
    Ok(())
}
