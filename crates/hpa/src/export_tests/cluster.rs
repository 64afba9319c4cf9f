//! The controller as the binary sets it up, against the testbed over HTTP.

use std::{sync::Arc, time::Duration};

use clap::Parser;
use hpa_controller::{
    Dependencies, Telemetry, TelemetryOptions,
    k8s::{ClientConfig, ClientSource, Clients},
};
use hpa_provider::QueryCounts;
use hpa_test_harness::{RunningController, ServedTestbed, SettableMetrics, TestbedExt, objects};
use hpa_testbed::{Action, Config, Interceptor, RequestInfo, Testbed};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    args::{Arguments, Command},
    query_exports::QueryCollector,
    run::options,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Counts reads of the scale: one per reconcile.
struct ScaleReads(watch::Sender<usize>);

impl Interceptor for ScaleReads {
    fn intercept(&self, request: &RequestInfo) -> Action {
        if request.subresource == "scale" {
            self.0.send_modify(|reads| *reads += 1);
        }
        Action::Pass
    }
}

/// An autoscaler that is limited by `maxReplicas` and has a metric that fails, and its target.
fn objects() -> [Value; 4] {
    let metrics = [
        objects::cpu_metric(50),
        objects::pods_metric("requests", "1"),
        objects::external_metric("jobs", "1"),
        objects::external_metric(SettableMetrics::MISSING, "1"),
    ];
    [
        objects::namespace(),
        objects::running_deployment("web", 1),
        objects::pod("web", 0),
        objects::hpa("web", 1..=2, metrics),
    ]
}

/// The response of `/metrics` after some reconciles.
pub(super) async fn scrape_controller() -> String {
    let (count, mut reads) = watch::channel(0);
    let interceptor = Some(Arc::new(ScaleReads(count)) as Arc<dyn Interceptor>);
    let metrics = Some(Arc::new(SettableMetrics::new(100, 5)) as _);
    let testbed = Testbed::new(Config { metrics, interceptor, ..Config::default() });
    testbed.apply_all(objects());
    let served = ServedTestbed::new(&testbed).await;

    let telemetry = Arc::new(Telemetry::new(TelemetryOptions {
        per_autoscaler: true,
        ..TelemetryOptions::default()
    }));
    // These metrics are exported only with rules for Prometheus.
    let counts = QueryCounts {
        rule: "rules[0]".to_owned(),
        server: "prometheus".to_owned(),
        ..QueryCounts::default()
    };
    let collector = QueryCollector::new("hpa_controller", move || vec![counts.clone()]);
    telemetry.attach_collector(Arc::new(collector.expect("a collector")));
    // This metric is exported only with leader election.
    telemetry.set_leader("hpa-controller", true);
    let source = ClientSource::Kubeconfig { path: Some(served.kubeconfig.clone()), context: None };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let clients = Clients::with_observer(&config, telemetry.clone()).await.expect("clients");
    let arguments =
        Arguments::parse_from(["hpa", "run", "--horizontal-pod-autoscaler-sync-period=50ms"]);
    let Command::Run(arguments) = arguments.command else {
        unreachable!("the arguments say `run`")
    };
    let options = options(&arguments);
    let dependencies = Dependencies::with_telemetry(clients, &options, telemetry.clone());
    let controller = RunningController::start(dependencies, options);
    let reconciled = reads.wait_for(|reads| *reads >= 6);
    tokio::time::timeout(TIMEOUT, reconciled).await.expect("in time").expect("a testbed");
    let text = telemetry.render();
    assert!(
        text.contains(&format!("{{code=\"200\",host=\"{}\",method=\"GET\"}}", served.address)),
        "{text}"
    );
    controller.stop().await;
    text
}
