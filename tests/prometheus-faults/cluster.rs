//! A controller and an adapter that read metrics from the same Prometheus, in virtual time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_adapter::metrics_api::RequestInfo;
use hpa_adapter::{
    Access, AccessReviews, Adapter, AdapterOptions, Authenticator, Authorizer, AuthorizerOptions,
    Metrics, Peer, ReviewError, Trust, User, Version,
};
use hpa_calc::settings::Settings;
use hpa_controller::{Dependencies, Options};
use hpa_metrics::{
    ApiGroups, FixedMapper, ObjectKey, ObjectMetadata,
    resource::{ApiResource, ApiResources, GroupResource},
    test_doubles::FixedObjects,
};
use hpa_prometheus::rules::{Compat, Config};
use hpa_prometheus::source::{PrometheusSettings, PrometheusSource, Servers};
use hpa_testbed::{
    ApiError, Effect, Faults, Match, MetricsProvider, PodMetrics, PodMetricsQuery, Testbed,
};
use hpa_tests::harness::{
    NAMESPACE, RunningController, SettableMetrics, TestbedExt, VirtualClock, clients,
    controller_options, objects,
};
use http::Request;
use jiff::SignedDuration;
use serde_json::Value;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::prometheus::Prometheus;

pub(crate) const PERIOD: Duration = Duration::from_secs(15);
pub(crate) const RELIST_INTERVAL: Duration = Duration::from_secs(60);

/// Deadline of waits: beyond a few sync periods and a repeated discovery.
const LIMIT: Duration = Duration::from_mins(3);

const RULES: &str = r#"
rules:
- seriesQuery: http_requests_total{namespace!="",pod!=""}
  resources:
    overrides:
      namespace: {resource: namespace}
      pod: {resource: pod}
  name: {matches: "^(.*)_total$", as: "${1}_per_second"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
externalRules:
- seriesQuery: queue_length{queue!=""}
  resources: {namespaced: false}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (queue)
"#;

/// The adapter's paths of the pods metric by selector and by name, and of the external metric.
pub(crate) const PODS_PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/\
                               http_requests_per_second?labelSelector=app%3Dweb";
pub(crate) const NAMED_POD_PATH: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/web-0/http_requests_per_second";
pub(crate) const QUEUE_PATH: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue_length";

/// The metrics APIs of the testbed, with only CPU usage.
struct CpuOnly(Arc<SettableMetrics>);

impl MetricsProvider for CpuOnly {
    fn pods(&self, query: &PodMetricsQuery) -> Result<Vec<PodMetrics>, ApiError> {
        self.0.pods(query)
    }
}

/// Allows all accesses.
struct AllowAll;

#[async_trait]
impl AccessReviews for AllowAll {
    async fn review_access(&self, _: &User, _: &RequestInfo) -> Result<Access, ReviewError> {
        Ok(Access { allowed: true, reason: String::new() })
    }
}

/// A cluster with three autoscalers. `web` has a pods metric and `mail` an external metric, both
/// from Prometheus and with a target of 10. `cpu` has CPU usage, not from Prometheus, with a target
/// of 50 %.
pub(crate) struct Cluster {
    pub(crate) prometheus: Prometheus,
    pub(crate) source: Arc<PrometheusSource>,
    pub(crate) cpu: Arc<SettableMetrics>,
    testbed: Testbed,
    /// The faults of the API server.
    faults: Faults,
    adapter: Adapter,
    _controller: RunningController,
    _tasks: JoinSet<()>,
}

impl Cluster {
    pub(crate) fn start(prometheus: &Prometheus) -> Self {
        let cpu = Arc::new(SettableMetrics::new(50, 0));
        let faults = Faults::new(1);
        let config = hpa_testbed::Config {
            metrics: Some(Arc::new(CpuOnly(cpu.clone()))),
            interceptor: Some(Arc::new(faults.clone())),
            ..hpa_testbed::Config::default()
        };
        let testbed = Testbed::new(config);
        create_objects(&testbed);
        let source = Arc::new(source(prometheus));
        let mut tasks = JoinSet::new();
        let discovery = source.clone();
        tasks.spawn(async move { discovery.run(None).await });
        let controller = controller(&testbed, source.clone());
        Self {
            prometheus: prometheus.clone(),
            adapter: adapter(source.clone()),
            source,
            cpu,
            testbed,
            faults,
            _controller: controller,
            _tasks: tasks,
        }
    }

    pub(crate) fn replicas(&self, name: &str) -> i64 {
        self.testbed.replicas(name)
    }

    /// Ends all watches, and makes all requests to the API server fail.
    pub(crate) fn fail_api_server(&self) {
        let fault = hpa_testbed::Fault::on(Match::any()).effect(Effect::ServiceUnavailable);
        self.faults.add(fault);
        self.testbed.end_watches();
    }

    pub(crate) fn recover_api_server(&self) {
        self.faults.clear();
    }

    pub(crate) async fn wait_for_replicas(&self, name: &str, replicas: i64) {
        self.wait_until(
            || self.replicas(name) == replicas,
            || {
                let condition = self.testbed.condition(name, "ScalingActive");
                format!(
                    "{name} has {} replicas, not {replicas}: {condition:?}",
                    self.replicas(name)
                )
            },
        )
        .await;
    }

    /// Waits until the condition `ScalingActive` of an autoscaler has this reason. Returns its
    /// message.
    pub(crate) async fn wait_for_failure(&self, name: &str, reason: &str) -> String {
        let condition = || self.testbed.condition(name, "ScalingActive");
        let has_reason = || condition().is_some_and(|[_, found, _]| found == reason);
        self.wait_until(has_reason, || format!("{name}: not {reason}: {:?}", condition())).await;
        condition().map(|[_, _, message]| message).unwrap_or_default()
    }

    /// Waits until discovery has problems, and returns them.
    pub(crate) async fn wait_for_problems(&self) -> Vec<String> {
        let problems = || self.source.problems();
        self.wait_until(|| !problems().is_empty(), || "no problem".to_owned()).await;
        problems()
    }

    pub(crate) async fn wait_for_no_problems(&self) {
        let problems = || self.source.problems();
        self.wait_until(|| problems().is_empty(), || format!("{:?}", problems())).await;
    }

    async fn wait_until(&self, reached: impl Fn() -> bool, description: impl Fn() -> String) {
        let start = Instant::now();
        while !reached() {
            assert!(start.elapsed() < LIMIT, "{}", description());
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Sends a request to the adapter. Returns the status and the body, as a string if it isn't
    /// JSON.
    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let (head, ()) = Request::get(path).body(()).expect("a request").into_parts();
        let client = Peer::new([127, 0, 0, 1].into(), Vec::new());
        let response = self.adapter.respond(&head, &client).await;
        let status = response.status().as_u16();
        let body = response.into_body();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }
}

fn create_objects(testbed: &Testbed) {
    let metrics = [
        ("web", objects::pods_metric("http_requests_per_second", "10")),
        ("mail", objects::external_metric("queue_length", "10")),
        ("cpu", objects::cpu_metric(50)),
    ];
    testbed.apply_all([objects::namespace(), objects::pod("web", 1)]);
    for (name, metric) in metrics {
        testbed.apply_all([
            objects::running_deployment(name, 2),
            objects::pod(name, 0),
            objects::hpa(name, 1..=9, [metric]),
        ]);
    }
}

fn source(prometheus: &Prometheus) -> PrometheusSource {
    let settings = PrometheusSettings {
        relist_interval: RELIST_INTERVAL,
        max_age: RELIST_INTERVAL,
        ..PrometheusSettings::default()
    };
    let pod = |name: &str| {
        let key = ObjectKey::new(NAMESPACE, name);
        let labels = [("app", "web")].into_iter().collect();
        (GroupResource::pods(), ObjectMetadata { key, labels })
    };
    let objects =
        FixedObjects { objects: ["web-0", "web-1"].map(pod).into(), ..FixedObjects::default() };
    let resource = |kind: &str, plural: &str| ApiResource {
        group_resource: GroupResource::new("", plural),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        singular: kind.to_lowercase(),
    };
    let resources = [resource("Pod", "pods"), resource("Namespace", "namespaces")];
    let source = PrometheusSource::new(
        Config::parse(RULES).expect("a valid file"),
        Servers::new(Some(prometheus.client()), Arc::new(())),
        settings,
        Arc::new(FixedMapper(ApiResources::new(resources))),
        Arc::new(objects),
    );
    source.expect("no servers in the file")
}

fn controller(testbed: &Testbed, source: Arc<PrometheusSource>) -> RunningController {
    let settings = Settings::default().with(|settings| {
        settings.downscale_stabilization = SignedDuration::ZERO;
    });
    let options = Options { settings, sync_period: PERIOD, ..controller_options() };
    let clients = clients(testbed.client());
    let dependencies =
        Dependencies::with_telemetry(clients, &options, Arc::default(), false, Some(source));
    let clock = Arc::new(VirtualClock::start());
    RunningController::start(Dependencies { clock, ..dependencies }, options)
}

fn adapter(source: Arc<PrometheusSource>) -> Adapter {
    let options = AdapterOptions {
        groups: watch::channel(ApiGroups { custom: true, external: true, resource: false }).1,
        compat: Compat::Off,
        port: 443,
        version: Version::default(),
        stop: CancellationToken::new(),
    };
    let authorizer = AuthorizerOptions {
        always_allowed: Vec::new(),
        allowed_lifetime: Duration::ZERO,
        denied_lifetime: Duration::ZERO,
    };
    let authorizer = Authorizer::new(Arc::new(AllowAll), &authorizer);
    let authenticator = Arc::new(Authenticator::new(Trust::default(), None));
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    Adapter::new(source, authenticator, authorizer, metrics, options)
}
