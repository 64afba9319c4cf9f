//! The controller as the binary sets it up, against the testbed and a fake Prometheus over HTTP.

use std::{sync::Arc, time::Duration};

use axum::{Form, Json, Router, http::StatusCode, routing::post};
use clap::Parser;
use hpa_adapter::{
    certificates::{GeneratedCertificate, local_names},
    server::{HandshakeSettings, ServingCertificate},
};
use hpa_controller::{
    Telemetry, TelemetryOptions,
    k8s::{ClientConfig, ClientSource, Clients},
};
use hpa_lease::TaskPanics;
use hpa_testbed::{Action, Config, Interceptor, RequestInfo, Testbed};
use hpa_tests::harness::{RunningController, ServedTestbed, SettableMetrics, TestbedExt, objects};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    args::{Arguments, Command},
    controller_options::options,
    in_process,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Counts the requests for the scale.
struct ScaleReads(watch::Sender<usize>);

impl Interceptor for ScaleReads {
    fn intercept(&self, request: &RequestInfo) -> Action {
        if request.subresource == "scale" {
            self.0.send_modify(|reads| *reads += 1);
        }
        Action::Pass
    }
}

/// A target, and an autoscaler that is limited by `maxReplicas` and has a metric that fails.
fn cluster_objects() -> [Value; 4] {
    let metrics = [
        objects::cpu_metric(50),
        objects::pods_metric("requests", "1"),
        objects::external_metric("jobs", "1"),
        objects::external_metric(SettableMetrics::METRIC_WITHOUT_SERIES, "1"),
    ];
    [
        objects::namespace(),
        objects::running_deployment("web", 1),
        objects::pod("web", 0),
        objects::hpa("web", 1..=2, metrics),
    ]
}

/// A rule for a metric of the autoscaler, and one whose series can't be read.
const RULES: &str = "
rules:
- seriesQuery: requests
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: broken
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
";

/// Serves the series `requests`, counts queries, and returns the URL.
async fn serve_prometheus(queries: watch::Sender<usize>) -> String {
    let series = async |Form(form): Form<Vec<(String, String)>>| {
        if form.iter().any(|(_, selector)| selector == "broken") {
            let body = json!({ "status": "error", "errorType": "execution", "error": "boom" });
            return (StatusCode::UNPROCESSABLE_ENTITY, Json(body));
        }
        let data = json!([{ "__name__": "requests", "namespace": "shop", "pod": "web-0" }]);
        (StatusCode::OK, Json(json!({ "status": "success", "data": data })))
    };
    let query = async move || {
        queries.send_modify(|queries| *queries += 1);
        let sample = json!({ "metric": { "pod": "web-0" }, "value": [1, "5"] });
        let data = json!({ "resultType": "vector", "result": [sample] });
        Json(json!({ "status": "success", "data": data }))
    };
    let router =
        Router::new().route("/api/v1/series", post(series)).route("/api/v1/query", post(query));
    format!("http://{}", hpa_tests::harness::serve(router).await)
}

/// The response of `/metrics` after some reconciles.
pub(crate) async fn scrape_controller() -> String {
    let (count, mut reads) = watch::channel(0);
    let interceptor = Some(Arc::new(ScaleReads(count)) as Arc<dyn Interceptor>);
    let metrics = Some(Arc::new(SettableMetrics::new(100, 5)) as _);
    let testbed = Testbed::new(Config { metrics, interceptor, ..Config::default() });
    testbed.apply_all(cluster_objects());
    let served = ServedTestbed::new(&testbed).await;

    let telemetry = Arc::new(Telemetry::new(TelemetryOptions {
        per_autoscaler: true,
        ..TelemetryOptions::default()
    }));
    // The expiry of the certificate is exported only with TLS.
    let generated = GeneratedCertificate::generate(&local_names(), Timestamp::now());
    let GeneratedCertificate { chain, key, .. } = generated.expect("a certificate");
    let certificate = ServingCertificate::from_pem(&chain, &key, HandshakeSettings::default());
    let not_after = certificate.expect("a usable certificate").not_after_gauge();
    telemetry.attach_collector(Arc::new(not_after));
    // Whether this instance leads is exported only with leader election.
    telemetry.set_leader("hpa-controller", true);
    let source = ClientSource::Kubeconfig { path: Some(served.kubeconfig.clone()), context: None };
    let config = ClientConfig { source, ..ClientConfig::default() };
    let clients = Clients::with_observer(&config, telemetry.clone()).await.expect("clients");
    let (sender, mut queries) = watch::channel(0);
    let rules = served.dir.path().join("rules.yaml");
    std::fs::write(&rules, RULES).expect("a file");
    let arguments = Arguments::parse_from([
        "hpa".to_owned(),
        "run".to_owned(),
        "--horizontal-pod-autoscaler-sync-period=50ms".to_owned(),
        "--collectors".to_owned(),
        format!("--metrics-config={}", rules.display()),
        format!("--prometheus-url={}", serve_prometheus(sender).await),
    ]);
    let Command::Run(arguments) = arguments.command else {
        unreachable!("the arguments say `run`")
    };
    let options = options(&arguments);
    let panics = TaskPanics::default();
    let sources = in_process::Sources::new(&arguments, &clients, &telemetry, &panics).await;
    let sources = sources.expect("valid rules").expect("rules");
    let dependencies = sources.dependencies(clients, &options, telemetry.clone(), false);
    let dependencies = dependencies.expect("unique names");
    let controller = RunningController::start(dependencies, options);
    let reconciled = reads.wait_for(|reads| *reads >= 6);
    tokio::time::timeout(TIMEOUT, reconciled).await.expect("in time").expect("a testbed");
    // The discovery ends before the first query, and the first query before the second.
    let reached = queries.wait_for(|queries| *queries >= 2);
    tokio::time::timeout(TIMEOUT, reached).await.expect("in time").expect("a server");
    let text = telemetry.render();
    assert!(
        text.contains(&format!("{{code=\"200\",host=\"{}\",method=\"GET\"}}", served.address)),
        "{text}"
    );
    controller.stop().await;
    text
}
