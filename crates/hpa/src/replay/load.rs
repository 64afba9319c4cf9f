//! The load of an autoscaler, derived from its main metric.

use anyhow::bail;
use hpa_calc::HorizontalPodAutoscaler;
use jiff::{SignedDuration, Timestamp};

use super::{
    autoscaler::Autoscaler,
    past::{Past, RecordedMetric},
    read::read_past,
    series::Series,
};
use crate::args::PastArguments;

/// A recorded load, and its autoscaler, for `hpa forecast`.
pub(crate) struct PastLoad {
    /// `namespace/name` of the autoscaler.
    pub(crate) name: String,
    pub(crate) metric: String,
    pub(crate) samples: Vec<(Timestamp, f64)>,
    /// The target for a pod, in the unit of the load.
    pub(crate) target: f64,
    /// The time from a pod's creation until it is ready: `--pod-startup`, or else the recorded
    /// median. `None` if neither is known.
    pub(crate) startup: Option<SignedDuration>,
    pub(crate) hpa: HorizontalPodAutoscaler,
    /// Whether the autoscaler is of the custom API.
    pub(crate) is_custom: bool,
    /// A message if less than the requested time is recorded.
    pub(crate) missing_time: Option<String>,
}

/// Reads the autoscaler, and its load from Prometheus.
pub(crate) async fn read_load(arguments: &PastArguments) -> anyhow::Result<PastLoad> {
    let autoscaler = Autoscaler::read(arguments).await?;
    let past = read_past(arguments, &autoscaler).await?;
    let MainLoad { recorded, load, target, .. } = main_load(&past)?;
    let startup = past.startup.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
    let metadata = &autoscaler.hpa.metadata;
    Ok(PastLoad {
        name: format!("{}/{}", metadata.namespace, metadata.name),
        metric: recorded.metric.describe(),
        samples: past.window.samples(&load).collect(),
        target,
        startup,
        is_custom: autoscaler.is_custom(),
        missing_time: past.describe_missing_time(),
        hpa: autoscaler.hpa,
    })
}

/// The load, and the metric from which it was derived.
pub(super) struct MainLoad<'a> {
    pub(super) index: usize,
    pub(super) recorded: &'a RecordedMetric,
    pub(super) load: Series,
    /// The target for a pod, in the unit of the load.
    pub(super) target: f64,
}

/// Derives the load from the main metric: see [`main_metric`].
pub(super) fn main_load(past: &Past) -> anyhow::Result<MainLoad<'_>> {
    let index = main_metric(past)?;
    let Some(recorded) = past.metrics.get(index) else { bail!("there is no metric") };
    let mut total = recorded.total(&past.replicas);
    total.zero_gaps_where_zero(&past.replicas);
    let unit = recorded.metric.load_unit_size();
    let load = total.divided_by(unit);
    if load.values().count() < 2 {
        bail!("{}: there are fewer than two samples with replicas", recorded.metric.field);
    }
    let target = recorded.target(&past.pod_requests)? / unit;
    Ok(MainLoad { index, recorded, load, target })
}

/// The index of the metric that asked for the most replicas most of the time.
fn main_metric(past: &Past) -> anyhow::Result<usize> {
    let mut wins = vec![0_u32; past.metrics.len()];
    let proposals: Vec<Series> = past
        .metrics
        .iter()
        .map(|metric| {
            let target = metric.target(&past.pod_requests)?;
            Ok(metric.total(&past.replicas).divided_by(target))
        })
        .collect::<anyhow::Result<_>>()?;
    for step in 0..past.window.len() {
        // `max_by` returns the last of equal values. Reversed, the first metric wins.
        let values = proposals.iter().enumerate().rev();
        let values = values.filter_map(|(index, one)| Some((index, one.get(step)?)));
        let best = values.max_by(|(_, one), (_, other)| one.total_cmp(other));
        if let Some(count) = best.and_then(|(index, _)| wins.get_mut(index)) {
            *count += 1;
        }
    }
    // As above, the first of equal metrics wins.
    let most = wins.iter().enumerate().rev().max_by_key(|(_, count)| **count);
    Ok(most.map_or(0, |(index, _)| index))
}
