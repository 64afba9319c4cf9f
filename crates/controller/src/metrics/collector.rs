//! What is looked up when the metrics are asked for.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};
use tokio::time::Instant;

use super::{
    Telemetry,
    counters::{QUEUE, REFERENCE},
    reconciles::class,
};
use crate::{
    cache::Autoscaler,
    key::{AutoscalerApi, HpaKey},
    queue::QueueStats,
    reconcile::observer::ErrorClass,
};

/// The version of the workspace, which the binary has too.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A family whose series are looked up.
struct Family {
    family: MetricFamily,
    series: Vec<Metric>,
}

impl Family {
    fn new(name: impl Into<String>, kind: MetricType, help: &str) -> Self {
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_field_type(kind);
        family.set_help(help.to_owned());
        Self { family, series: Vec::new() }
    }

    fn gauge(name: impl Into<String>, help: &str) -> Self {
        Self::new(name, MetricType::GAUGE, help)
    }

    fn counter(name: impl Into<String>, help: &str) -> Self {
        Self::new(name, MetricType::COUNTER, help)
    }

    /// Adds a series of an autoscaler: the labels that name it are added. Only those of our own API have `hpa_group`,
    /// so that one that has the name of another does not pass for it.
    fn add_of(&mut self, key: &HpaKey, labels: &[(&str, &str)], value: f64) {
        let mut labels =
            [labels, &[("hpa_name", &*key.name), ("namespace", &*key.namespace)]].concat();
        if key.api == AutoscalerApi::Custom {
            labels.push(("hpa_group", hpa_crd::GROUP));
        }
        // As those of counters are.
        labels.sort_unstable();
        self.add(&labels, value);
    }

    /// Adds a series. Labels are given by name.
    fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let label = |(name, value): &(&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut metric = Metric::from_label(labels.iter().map(label).collect());
        if self.family.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.series.push(metric);
    }

    fn with(mut self, labels: &[(&str, &str)], value: f64) -> Self {
        self.add(labels, value);
        self
    }

    fn done(mut self) -> MetricFamily {
        self.family.set_metric(self.series);
        self.family
    }
}

/// A count as the format has it.
fn float(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

impl Telemetry {
    pub(super) fn looked_up(&self) -> Vec<MetricFamily> {
        let mut families = vec![
            Family::gauge("hpa_build_info", "1, with the version.")
                .with(&[("version", VERSION)], 1.0)
                .done(),
            self.leaders(),
            self.dropped_events(),
            Family::counter(
                "hpa_controller_undecodable_objects_total",
                "Objects of the API server that could not be decoded and are left out.",
            )
            .with(&[], float(self.undecodable()))
            .done(),
        ];
        let sources = self.sources.lock().clone();
        families.extend(queue(&sources.queue.stats()));
        let mut autoscalers = sources.autoscalers.all();
        autoscalers.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        families.extend(all(&autoscalers));
        if let Some(since) = self.working_since() {
            families.push(oldest_reconcile(&autoscalers, since));
        }
        families.push(desired_replicas(&autoscalers));
        if self.options.per_autoscaler {
            families.extend(details(&autoscalers));
        }
        families
    }

    fn leaders(&self) -> MetricFamily {
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.";
        let mut family = Family::gauge("leader_election_master_status", help);
        for (name, leads) in self.leading.lock().iter() {
            family.add(&[("name", name)], f64::from(u8::from(*leads)));
        }
        family.done()
    }

    fn dropped_events(&self) -> MetricFamily {
        let dropped = self.dropped.lock().clone();
        Family::counter(
            "hpa_controller_events_dropped_total",
            "Kubernetes events that were not written, by cause.",
        )
        .with(&[("cause", "failed_write")], float(dropped.failed_write()))
        .with(&[("cause", "over_budget")], float(dropped.over_budget()))
        .with(&[("cause", "queue_full")], float(dropped.queue_full()))
        .done()
    }
}

fn queue(stats: &QueueStats) -> Vec<MetricFamily> {
    let name = [("name", QUEUE)];
    let gauge = |metric: &str, help, value| {
        Family::gauge(format!("workqueue_{metric}"), help).with(&name, value)
    };
    let counter = |metric: &str, help, value| {
        Family::counter(format!("workqueue_{metric}"), help).with(&name, value)
    };
    let families = [
        gauge("depth", "Current depth of workqueue", float(stats.depth)),
        counter("adds_total", "Total number of adds handled by workqueue", float(stats.adds)),
        // The reference adds every key by way of its rate limiter, which counts as a retry.
        counter(
            "retries_total",
            "Total number of retries handled by workqueue",
            float(stats.scheduled),
        ),
        gauge(
            "unfinished_work_seconds",
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
            stats.unfinished.as_secs_f64(),
        ),
        gauge(
            "longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            stats.longest_running.as_secs_f64(),
        ),
    ];
    families.into_iter().map(Family::done).collect()
}

type Known = (HpaKey, std::sync::Arc<Autoscaler>);

/// What is told of all autoscalers together.
fn all(autoscalers: &[Known]) -> [MetricFamily; 2] {
    let failing = |class| {
        let failed =
            |(_, autoscaler): &&Known| autoscaler.last_reconcile.lock().error == Some(class);
        float(autoscalers.iter().filter(failed).count())
    };
    [
        Family::gauge(
            format!("{REFERENCE}_num_horizontal_pod_autoscalers"),
            "Current number of controlled HPA objects.",
        )
        .with(&[], float(autoscalers.len()))
        .done(),
        Family::gauge(
            "hpa_controller_autoscalers_failing",
            "How many autoscalers failed at their last reconcile.",
        )
        .with(&[("error", "internal")], failing(ErrorClass::Internal))
        .with(&[("error", "spec")], failing(ErrorClass::Spec))
        .done(),
    ]
}

/// What has waited longest. While no workers ran, nothing waited.
fn oldest_reconcile(autoscalers: &[Known], working_since: Instant) -> MetricFamily {
    let now = Instant::now();
    let age = |(_, autoscaler): &Known| {
        now.saturating_duration_since(autoscaler.last_reconcile.lock().finished.max(working_since))
    };
    let oldest = autoscalers.iter().map(age).max().unwrap_or_default();
    Family::gauge(
        "hpa_controller_oldest_reconcile_seconds",
        "How long ago the autoscaler was reconciled whose last reconcile is the longest ago.",
    )
    .with(&[], oldest.as_secs_f64())
    .done()
}

fn desired_replicas(autoscalers: &[Known]) -> MetricFamily {
    let mut family = Family::gauge(
        format!("{REFERENCE}_desired_replicas"),
        "Current desired replica count for HPA objects.",
    );
    for (key, autoscaler) in autoscalers {
        if let Some(replicas) = autoscaler.last_reconcile.lock().desired_replicas {
            family.add_of(key, &[], f64::from(replicas));
        }
    }
    family.done()
}

/// What is told of each autoscaler if that is wanted.
fn details(autoscalers: &[Known]) -> [MetricFamily; 3] {
    let mut proposed = Family::gauge(
        "hpa_controller_proposed_replicas",
        "What a metric proposed at the last reconcile. 'metric_index' is its place in spec.metrics.",
    );
    let mut limited = Family::gauge(
        "hpa_controller_limited",
        "1 where the last reconcile's proposal was changed. 'by' is what did: stabilization or limits (rate and bounds), 'reason' the condition's reason.",
    );
    let mut failing = Family::gauge("hpa_controller_failing", "1 where the last reconcile failed.");
    for (key, autoscaler) in autoscalers {
        let observed = autoscaler.last_reconcile.lock();
        if observed.error.is_some() {
            failing.add_of(key, &[("error", class(observed.error))], 1.0);
        }
        let Some(detail) = &observed.detail else { continue };
        for proposal in &detail.proposals {
            let index = proposal.index.to_string();
            let metric_type = proposal.metric_type.as_str();
            let labels = [
                ("metric", proposal.name.as_str()),
                ("metric_index", &index),
                ("metric_type", metric_type),
            ];
            proposed.add_of(key, &labels, f64::from(proposal.replicas));
        }
        for (by, reason) in
            [("stabilization", &detail.stabilized_by), ("limits", &detail.limited_by)]
        {
            if let Some(reason) = reason {
                limited.add_of(key, &[("by", by), ("reason", reason)], 1.0);
            }
        }
    }
    [proposed.done(), limited.done(), failing.done()]
}
