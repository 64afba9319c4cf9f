//! Metrics that annotations of autoscalers configure, with `--collectors`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use futures::FutureExt;
use hpa_calc::{
    HorizontalPodAutoscaler,
    event::EventType,
    report::{error_texts::NO_COLLECTOR_READS, reported_absence},
};
use hpa_collectors::{
    Clients, Compat, Environment,
    collection::{
        CollectedMetrics, CollectionObserver, CollectionSettings, CollectorProblem, KubeCluster,
    },
};
use hpa_controller::AutoscalerApi;
use hpa_lease::{
    LeaderTask, TaskPanics,
    events::{ObjectReference, RecordedEvent},
};
use hpa_metrics::KubeObjects;
use hpa_prometheus::client::{Client, Settings};
use jiff::Timestamp;
use kube::Client as KubeClient;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, core::Collector,
};

use crate::{
    args::{CollectorArguments, PrometheusArguments, SourceArguments, to_std},
    prometheus_metrics::{ComputedMetrics, RequestMetrics},
};

/// The autoscalers whose metrics are collected.
pub(crate) struct Scope {
    pub(crate) apis: Vec<AutoscalerApi>,
    /// `None` for all.
    pub(crate) namespace: Option<String>,
}

/// The sources of metrics in the controller's process that flags turn on, except for rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProcessSources {
    /// Whether `--collectors` is set.
    pub(crate) has_collectors: bool,
    /// Whether `--scaling-schedule` is set.
    pub(crate) has_schedules: bool,
    /// The settings that the collectors have if they are on.
    pub(crate) settings: CollectionSettings,
    /// The flags that each collector lacks if it is off, by the name of the collector.
    missing_flags: BTreeMap<&'static str, String>,
}

impl InProcessSources {
    pub(crate) fn from_flags(arguments: &SourceArguments) -> Self {
        let SourceArguments { schedules, collectors, rules } = arguments;
        let has_prometheus = rules.prometheus.prometheus_url.is_some();
        Self {
            has_collectors: collectors.collectors,
            has_schedules: schedules.scaling_schedule,
            settings: collectors.collection_settings(Compat::Off, has_prometheus),
            missing_flags: collectors.missing_flags(has_prometheus),
        }
    }

    /// The flags that a collector lacks if it is off.
    pub(crate) fn missing_flags(&self, collector: &str) -> &str {
        self.missing_flags.get(collector).map_or("--collectors", String::as_str)
    }
}

/// Whether the controller reported that nothing reads a metric, and has no collectors. The message
/// of a controller with collectors names them.
pub(crate) fn lacks_collectors(hpa: &HorizontalPodAutoscaler, index: usize) -> bool {
    let cause = reported_absence(hpa, index);
    cause.is_some_and(|cause| !cause.contains(NO_COLLECTOR_READS))
}

/// An environment with all collectors, for commands that don't know the controller's flags. It has
/// every annotation value and label as a server and as a region.
pub(crate) fn environment_of_unknown_flags(hpa: &HorizontalPodAutoscaler) -> Environment {
    let selectors = hpa.spec.metrics.iter().filter_map(|metric| {
        let external = metric.external.as_ref().map(|source| &source.metric);
        external.or(metric.object.as_ref().map(|source| &source.metric))?.selector.as_ref()
    });
    let labels = selectors.flat_map(|selector| selector.match_labels.values());
    let names: BTreeSet<String> =
        hpa.metadata.annotations.values().chain(labels).cloned().collect();
    Environment { prometheus_aliases: names.clone(), sqs_regions: names, ..Environment::default() }
}

/// The metrics of collectors, with the pods that they read.
pub(crate) struct Collectors {
    pub(crate) collection: Arc<CollectedMetrics>,
    /// The exported metrics about the collectors.
    pub(crate) metrics: ComputedMetrics,
    pub(crate) objects: Arc<KubeObjects>,
}

impl Collectors {
    /// Waits until the first lists of autoscalers and pods have ended.
    pub(crate) async fn wait_for_first_lists(&self) {
        tokio::join!(self.collection.wait_for_first_list(), self.objects.wait_for_pod_list());
    }
}

/// The clients of the Prometheus servers that collectors read.
pub(crate) struct PrometheusClients {
    /// The client of `--prometheus-url`.
    default: Option<Client>,
    /// The clients of the servers that annotations may name, by their aliases.
    by_alias: BTreeMap<String, Client>,
}

impl PrometheusClients {
    /// Creates the clients of `--additional-prometheus-server`.
    pub(crate) fn new(
        default: Option<Client>,
        arguments: &CollectorArguments,
        prometheus: &PrometheusArguments,
        requests: &Arc<RequestMetrics>,
    ) -> anyhow::Result<Self> {
        let servers = &arguments.additional_prometheus_servers;
        let urls = values_by_name("additional-prometheus-server", servers)?;
        let mut tokens = values_by_name(
            "additional-prometheus-server-token-file",
            &arguments.additional_prometheus_server_token_files,
        )?;
        let mut by_alias = BTreeMap::new();
        for (name, url) in urls {
            let flag = || format!("--additional-prometheus-server {name}");
            // The credentials of the default server must not be sent to other servers.
            let mut settings = Settings::new(name, url).with_context(flag)?;
            settings.query_timeout = to_std(prometheus.prometheus_query_timeout);
            settings.ca_file.clone_from(&prometheus.prometheus_ca_file);
            settings.token_file = tokens.remove(name).map(Into::into);
            let client = Client::new(settings, requests.clone()).with_context(flag)?;
            by_alias.insert(name.to_owned(), client);
        }
        if let Some(name) = tokens.keys().next() {
            bail!("--additional-prometheus-server-token-file: there is no server {name}");
        }
        Ok(Self { default, by_alias })
    }
}

/// Starts the watches that collectors need. Values are collected when they are queried.
pub(crate) fn start(
    arguments: &CollectorArguments,
    compat: Compat,
    PrometheusClients { default, by_alias }: PrometheusClients,
    client: &KubeClient,
    Scope { apis, namespace }: Scope,
    panics: &TaskPanics,
) -> anyhow::Result<Collectors> {
    // The settings have one file for each origin.
    values_by_name("collector-credential", &arguments.collector_credentials)?;
    arguments.check_permissions()?;
    let settings = arguments.collection_settings(compat, default.is_some());
    let objects = Arc::new(KubeObjects::new(client.clone()).with_namespace(namespace.clone()));
    let cluster = Arc::new(KubeCluster::new(client.clone(), objects.clone()));
    let clients =
        Clients::new(arguments.client_settings(compat, default, by_alias), cluster.clone())
            .context("unable to set up collectors")?;
    let counters = Counters::new()?;
    let collection = Arc::new(CollectedMetrics::new(
        settings,
        Arc::new(clients),
        objects.clone(),
        cluster,
        Arc::new(Timestamp::now),
        Arc::new(counters.clone()),
    ));
    panics.spawn("watch of pods for collectors", {
        let objects = objects.clone();
        async move { objects.watch_pods().await }
    });
    let apis: Vec<_> = apis.into_iter().map(AutoscalerApi::resource).collect();
    panics.spawn("watch of autoscalers for collectors", {
        let (collection, client) = (collection.clone(), client.clone());
        async move { collection.watch(client, &apis, namespace.as_deref()).await }
    });
    // The counters start at 0: the first failure must be visible as an increase.
    for collector in collection.status().keys() {
        counters.seconds.with_label_values(&[*collector]);
        for result in ["success", "error"] {
            counters.collections.with_label_values(&[*collector, result]);
        }
    }
    let metrics = collector_metrics(collection.clone())?.with_counters(counters.into_collectors());
    Ok(Collectors { collection, metrics, objects })
}

/// The values of a repeated flag by their names. Fails if a name is given twice.
fn values_by_name<'a>(
    flag: &str,
    values: &'a [(String, String)],
) -> anyhow::Result<BTreeMap<&'a str, &'a str>> {
    let mut by_name = BTreeMap::new();
    for (name, value) in values {
        if by_name.insert(name.as_str(), value.as_str()).is_some() {
            bail!("--{flag}: {name} is given twice");
        }
    }
    Ok(by_name)
}

/// A task that records an event on each autoscaler whose annotations or metrics have problems. When
/// the message or the leader changes, it records another event.
pub(crate) fn problem_reporter(collection: Arc<CollectedMetrics>) -> LeaderTask {
    LeaderTask::new("reporter of collectors' problems", move |context| {
        let collection = collection.clone();
        let report = async move {
            let mut reported = HashMap::new();
            loop {
                let problems = collection.problems();
                reported.retain(|uid, _| problems.iter().any(|problem| problem.uid == *uid));
                for problem in problems {
                    let message = problem.message.clone();
                    if reported.insert(problem.uid.clone(), message.clone()) != Some(message) {
                        context.events.record(problem_event(problem));
                    }
                }
                collection.wait_for_problem_change().await;
            }
        };
        report.boxed()
    })
}

/// An event with the reason and the text of kube-metrics-adapter.
fn problem_event(problem: CollectorProblem) -> RecordedEvent {
    let object = ObjectReference {
        api_version: format!("{}/v2", problem.group),
        kind: hpa_calc::crd::KIND.to_owned(),
        namespace: problem.namespace,
        name: problem.name,
        uid: problem.uid,
        resource_version: problem.resource_version,
    };
    RecordedEvent {
        object: Arc::new(object),
        event_type: EventType::Warning,
        reason: "CreateNewMetricsCollector".into(),
        message: problem.message,
        at: Timestamp::now(),
    }
}

/// Metrics about collections, and about lists and watches of autoscalers.
#[derive(Clone)]
struct Counters {
    success: IntCounter,
    error: IntCounter,
    updates_success: IntCounter,
    updates_error: IntCounter,
    collections: IntCounterVec,
    seconds: HistogramVec,
}

impl Counters {
    fn new() -> prometheus::Result<Self> {
        let counter =
            |name: &str, help: &str| IntCounter::new(format!("kube_metrics_adapter_{name}"), help);
        let collections =
            Opts::new("hpa_collector_collections_total", "Collections by collector and result");
        let seconds =
            HistogramOpts::new("hpa_collector_duration_seconds", "Duration of collections");
        Ok(Self {
            success: counter("collections_success", "The total number of successful collections")?,
            error: counter("collections_error", "The total number of failed collection attempts")?,
            updates_success: counter(
                "updates_success",
                "The total number of successful processed HPA updates",
            )?,
            updates_error: counter(
                "updates_error",
                "The total number of failed attempts to process HPA updates",
            )?,
            collections: IntCounterVec::new(collections, &["collector", "result"])?,
            seconds: HistogramVec::new(seconds, &["collector"])?,
        })
    }

    fn count_collection(&self, collector: &'static str, result: &str, duration: Duration) {
        self.collections.with_label_values(&[collector, result]).inc();
        self.seconds.with_label_values(&[collector]).observe(duration.as_secs_f64());
    }

    fn into_collectors(self) -> [Box<dyn Collector>; 6] {
        [
            Box::new(self.success),
            Box::new(self.error),
            Box::new(self.updates_success),
            Box::new(self.updates_error),
            Box::new(self.collections),
            Box::new(self.seconds),
        ]
    }
}

impl CollectionObserver for Counters {
    fn collection_succeeded(&self, collector: &'static str, duration: Duration) {
        self.success.inc();
        self.count_collection(collector, "success", duration);
    }

    fn collection_failed(&self, collector: &'static str, duration: Duration) {
        self.error.inc();
        self.count_collection(collector, "error", duration);
    }

    fn watch_succeeded(&self) {
        self.updates_success.inc();
    }

    fn watch_failed(&self) {
        self.updates_error.inc();
    }
}

/// The exported metrics about collectors.
#[expect(clippy::cast_precision_loss, reason = "the format has floats only")]
fn collector_metrics(collection: Arc<CollectedMetrics>) -> prometheus::Result<ComputedMetrics> {
    let gauge = |name: &str, help: &str| {
        GaugeVec::new(Opts::new(format!("hpa_collector_{name}"), help), &["collector"])
    };
    let gauges = [
        gauge("metrics", "Metrics of autoscalers that can be collected")?,
        gauge("values", "Metrics that have a value that may be used")?,
        gauge("oldest_value_seconds", "Age of the oldest value that may be used")?,
    ];
    Ok(ComputedMetrics::from_gauges(gauges, move |[metrics, values, oldest]| {
        for (collector, status) in collection.status() {
            let labels = [collector];
            metrics.with_label_values(&labels).set(status.metric_count as f64);
            values.with_label_values(&labels).set(status.value_count as f64);
            let age = status.oldest_age.unwrap_or_default().as_secs_f64();
            oldest.with_label_values(&labels).set(age);
        }
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::{
        args::{Arguments, Command},
        kubectl::answering_client,
    };

    #[rstest]
    #[case::server("--additional-prometheus-server", "eu=http://p")]
    #[case::token("--additional-prometheus-server-token-file", "eu=/token")]
    #[case::credential("--collector-credential", "eu=/token")]
    #[tokio::test]
    async fn name_must_not_be_given_twice(#[case] flag: &str, #[case] value: &str) {
        let words = ["hpa", "run", flag, value, flag, value];
        let Command::Run(run) = Arguments::parse_from(words).command else {
            panic!("another command");
        };
        let requests = Arc::new(RequestMetrics::new().expect("metrics"));
        let clients = PrometheusClients::new(None, &run.collectors, &run.prometheus, &requests);
        let started = clients.and_then(|clients| {
            let client = answering_client(|_| (404, json!({})));
            let scope = Scope { apis: Vec::new(), namespace: None };
            let panics = TaskPanics::default();
            start(&run.collectors, Compat::Off, clients, &client, scope, &panics)
        });
        let error = started.err().expect("a name twice").to_string();
        assert_eq!(error, format!("{flag}: eu is given twice"));
    }
}
