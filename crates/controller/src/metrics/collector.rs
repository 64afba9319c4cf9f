//! Metrics that are read from the caches and the work queue when they are collected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hpa_calc::ForecastReason;
use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use tokio::time::Instant;

use super::{
    Telemetry,
    counters::{QUEUE_NAME, REFERENCE_PREFIX},
    family::Family,
    reconciles::error_label,
};
use crate::{
    cache::{Autoscaler, ErrorClass, WatchAges},
    forecast::CheckCounts,
    history_store::HistoryHealth,
    key::HpaKey,
    queue::QueueStats,
};

/// A count as a sample value.
fn float(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// A counter as a sample value.
fn counter_value(counter: &AtomicU64) -> f64 {
    float(counter.load(Ordering::Relaxed))
}

impl Telemetry {
    pub(super) fn collect(&self) -> Vec<MetricFamily> {
        let sources = self.sources();
        let mut families = vec![
            self.build_info_family(),
            self.leader_family(),
            self.lease_failing_family(),
            self.dropped_events_family(),
            Family::counter(
                "hpa_controller_undecodable_objects_total",
                "Objects from the API server that could not be decoded and are skipped.",
            )
            .with(&[], counter_value(&sources.undecodable_count)),
        ];
        families.extend(histories(&sources.history));
        families.push(watch_ages(&sources.watch_ages));
        families.extend(queue(&sources.queue.stats()));
        let mut autoscalers = sources.autoscalers.all();
        autoscalers.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        families.extend(totals(&autoscalers));
        if let Some(since) = self.working_since() {
            let oldest = Family::gauge(
                "hpa_controller_oldest_reconcile_seconds",
                "Longest time since the last reconcile of an autoscaler.",
            );
            let age = longest_reconcile_age(&autoscalers, since);
            families.push(oldest.with(&[], age.as_secs_f64()));
        }
        families.push(desired_replicas(&autoscalers));
        families.extend(forecasts(&autoscalers, &sources.forecasts.counts));
        if self.options.per_autoscaler {
            families.extend(details(&autoscalers));
        }
        families.into_iter().map(Family::build).collect()
    }

    fn build_info_family(&self) -> Family {
        let build = &self.options.build;
        let labels = [
            ("build_date", build.date.as_str()),
            ("revision", build.revision.as_str()),
            ("version", build.version.as_str()),
        ];
        let help = "Constant 1, labeled with version, git revision and build date.";
        Family::gauge("hpa_build_info", help).with(&labels, 1.0)
    }

    fn leader_family(&self) -> Family {
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates \
                    backup, 1 indicates master. 'name' is the string used to identify the lease. \
                    Please make sure to group by name.";
        let mut family = Family::gauge("leader_election_master_status", help);
        if let Some(lease) = &*self.lease.lock() {
            family.add(&[("name", &lease.name)], f64::from(u8::from(lease.is_held)));
        }
        family
    }

    fn lease_failing_family(&self) -> Family {
        let since = *self.lease_failing_since.lock();
        let failing = since.map_or(Duration::ZERO, |since| since.elapsed());
        Family::gauge(
            "hpa_controller_lease_failing_seconds",
            "How long requests for the leader lease have been failing; 0 if they succeed.",
        )
        .with(&[], failing.as_secs_f64())
    }

    fn dropped_events_family(&self) -> Family {
        let dropped = self.dropped_events.lock().clone();
        Family::counter(
            "hpa_controller_events_dropped_total",
            "Kubernetes events that were not written, by cause.",
        )
        .with(&[("cause", "failed_write")], counter_value(&dropped.failed_write))
        .with(&[("cause", "over_budget")], counter_value(&dropped.over_budget))
        .with(&[("cause", "queue_full")], counter_value(&dropped.queue_full))
    }
}

fn histories(health: &HistoryHealth) -> [Family; 2] {
    [
        Family::gauge(
            "hpa_controller_history_unsaved_seconds",
            "How long writes of histories for the next leader have been failing; 0 if they \
             succeed.",
        )
        .with(&[], health.unsaved_for().as_secs_f64()),
        Family::counter(
            "hpa_controller_history_rejected_total",
            "Stored histories that were ignored because they are invalid.",
        )
        .with(&[], float(health.rejected())),
    ]
}

fn watch_ages(watch_ages: &WatchAges) -> Family {
    let mut family = Family::gauge(
        "hpa_controller_watch_age_seconds",
        "Time since the API server last confirmed that the cache of a resource has all changes. A \
         healthy watch confirms it at least every two sync periods.",
    );
    for (resource, age) in watch_ages.by_resource() {
        family.add(&[("resource", &resource)], age.as_secs_f64());
    }
    family
}

fn queue(stats: &QueueStats) -> [Family; 5] {
    let name = [("name", QUEUE_NAME)];
    let gauge = |metric: &str, help, value| {
        Family::gauge(format!("workqueue_{metric}"), help).with(&name, value)
    };
    let counter = |metric: &str, help, value| {
        Family::counter(format!("workqueue_{metric}"), help).with(&name, value)
    };
    [
        gauge("depth", "Current depth of workqueue", float(stats.depth)),
        counter("adds_total", "Total number of adds handled by workqueue", float(stats.became_due)),
        // The reference adds each key through its rate limiter, which counts as a retry.
        counter(
            "retries_total",
            "Total number of retries handled by workqueue",
            float(stats.added),
        ),
        gauge(
            "unfinished_work_seconds",
            "How many seconds of work has done that is in progress and hasn't been observed by \
             work_duration. Large values indicate stuck threads. One can deduce the number of \
             stuck threads by observing the rate at which this increases.",
            stats.unfinished.as_secs_f64(),
        ),
        gauge(
            "longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            stats.longest_running.as_secs_f64(),
        ),
    ]
}

type CachedAutoscaler = (HpaKey, Arc<Autoscaler>);

fn totals(autoscalers: &[CachedAutoscaler]) -> [Family; 2] {
    let failing = |class| {
        let failed = |(_, autoscaler): &&CachedAutoscaler| {
            autoscaler.last_reconcile.lock().error == Some(class)
        };
        float(autoscalers.iter().filter(failed).count())
    };
    [
        Family::gauge(
            format!("{REFERENCE_PREFIX}_num_horizontal_pod_autoscalers"),
            "Current number of controlled HPA objects.",
        )
        .with(&[], float(autoscalers.len())),
        Family::gauge(
            "hpa_controller_autoscalers_failing",
            "Number of autoscalers whose last reconcile failed.",
        )
        .with(&[("error", "internal")], failing(ErrorClass::Internal))
        .with(&[("error", "spec")], failing(ErrorClass::Spec)),
    ]
}

/// The longest time since an autoscaler's last reconcile, or since the workers started if that is
/// later. The excess of an autoscaler's own sync period over the controller's doesn't count.
pub(crate) fn longest_reconcile_age(
    autoscalers: &[CachedAutoscaler],
    working_since: Instant,
) -> Duration {
    let now = Instant::now();
    let age = |(_, autoscaler): &CachedAutoscaler| {
        let age_start = autoscaler.last_reconcile.lock().age_start();
        now.saturating_duration_since(age_start.max(working_since))
    };
    autoscalers.iter().map(age).max().unwrap_or_default()
}

fn desired_replicas(autoscalers: &[CachedAutoscaler]) -> Family {
    let mut family = Family::gauge(
        format!("{REFERENCE_PREFIX}_desired_replicas"),
        "Current desired replica count for HPA objects.",
    );
    for (key, autoscaler) in autoscalers {
        if let Some(replicas) = autoscaler.last_reconcile.lock().desired_replicas {
            family.add_for(key, &[], f64::from(replicas));
        }
    }
    family
}

/// The metrics with forecasts by reason, and the checks by result.
fn forecasts(autoscalers: &[CachedAutoscaler], checks: &CheckCounts) -> [Family; 2] {
    let now = Timestamp::now();
    let mut reasons = Vec::new();
    for (_, autoscaler) in autoscalers {
        let forecasts = autoscaler.forecasts.lock();
        reasons.extend(forecasts.iter().flat_map(|forecasts| forecasts.reasons(now)));
    }
    let mut metrics = Family::gauge(
        "hpa_controller_forecast_metrics",
        "Number of metrics with forecasts, by the reason why they are used or not (see the \
         condition ForecastActive). Metrics that were not checked yet are not counted.",
    );
    for reason in ForecastReason::ALL {
        let count = reasons.iter().filter(|other| **other == reason).count();
        metrics.add(&[("reason", reason.as_str())], float(count));
    }
    let checks = Family::counter(
        "hpa_controller_forecast_checks_total",
        "Daily checks whether the forecasts of a metric help, by result.",
    )
    .with(&[("result", "failure")], counter_value(&checks.failed))
    .with(&[("result", "success")], counter_value(&checks.succeeded));
    [metrics, checks]
}

/// Metrics of each autoscaler, for `--per-hpa-metrics`.
fn details(autoscalers: &[CachedAutoscaler]) -> [Family; 3] {
    let mut proposed = Family::gauge(
        "hpa_controller_proposed_replicas",
        "Replicas that a metric proposed at the last reconcile. 'metric_index' is the index in \
         spec.metrics.",
    );
    let mut limited = Family::gauge(
        "hpa_controller_limited",
        "1 if the proposal of the last reconcile was changed. 'by' is stabilization or limits \
         (policies and bounds), 'reason' is the reason of the condition.",
    );
    let mut failing = Family::gauge("hpa_controller_failing", "1 if the last reconcile failed.");
    for (key, autoscaler) in autoscalers {
        let last = autoscaler.last_reconcile.lock();
        if last.error.is_some() {
            failing.add_for(key, &[("error", error_label(last.error))], 1.0);
        }
        let Some(detail) = &last.detail else { continue };
        for proposal in &detail.proposals {
            let index = proposal.index.to_string();
            let metric_type = proposal.metric_type.as_str();
            let labels = [
                ("metric", proposal.name.as_str()),
                ("metric_index", &index),
                ("metric_type", metric_type),
            ];
            proposed.add_for(key, &labels, f64::from(proposal.replicas));
        }
        for (by, reason) in
            [("stabilization", &detail.stabilized_by), ("limits", &detail.limited_by)]
        {
            if let Some(reason) = reason {
                limited.add_for(key, &[("by", by), ("reason", reason)], 1.0);
            }
        }
    }
    [proposed, limited, failing]
}
