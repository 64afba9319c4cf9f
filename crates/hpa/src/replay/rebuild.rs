//! Rebuilds a scenario of `hpa simulate` from the past.

use anyhow::bail;
use hpa_calc::HorizontalPodAutoscaler;

use super::{
    model::{Model, RebuiltScenario},
    past::{Past, RecordedMetric},
    series::{Series, six_digits},
};

/// The minimum capacity of a pod without `--pod-capacity`, as a multiple of its target. The
/// capacity limits a pod's metrics. These must be able to reach twice the target, because an
/// autoscaler can double the replicas at once by default.
const TARGETS_PER_POD: f64 = 2.0;

/// Rebuilds the load from the main metric, and the other metrics as functions of the load.
pub(super) fn rebuild(
    past: &Past,
    hpa: &HorizontalPodAutoscaler,
) -> anyhow::Result<RebuiltScenario> {
    let MainLoad { index: main, recorded, load, target } = main_load(past)?;
    let per_pod = load.zip(&past.replicas, |load, replicas| load / replicas.max(1.0));
    let mut model = Model::new(past, &recorded.metric, hpa);
    model.add_load(recorded);
    for (index, other) in past.metrics.iter().enumerate() {
        if index != main {
            model.add_other(other, past, &per_pod)?;
        }
    }
    let max_per_pod = per_pod.quantile(1.0).unwrap_or_default();
    let capacity = past.capacity.unwrap_or_else(|| max_per_pod.max(TARGETS_PER_POD * target));
    if past.capacity.is_none() {
        let basis =
            if max_per_pod >= capacity { "the most that one served" } else { "twice the target" };
        model.add_assumption(format!(
            "A pod can serve {basis}: {}. OVERLOAD and LATENCY count load beyond that \
             (--pod-capacity).",
            recorded.metric.load_amount(six_digits(capacity))
        ));
    }
    model.add_gap_assumption(past, &load);
    Ok(model.finish(past, recorded, &load, capacity))
}

/// The load, and the metric from which it was derived.
pub(super) struct MainLoad<'a> {
    index: usize,
    pub(super) recorded: &'a RecordedMetric,
    pub(super) load: Series,
    /// The target for a pod, in the unit of the load.
    pub(super) target: f64,
}

/// Derives the load from the metric that asked for the most replicas most of the time.
pub(super) fn main_load(past: &Past) -> anyhow::Result<MainLoad<'_>> {
    let index = main_metric(past)?;
    let Some(recorded) = past.metrics.get(index) else { bail!("there is no metric") };
    let mut total = recorded.total(&past.replicas);
    total.zero_gaps_where_zero(&past.replicas);
    let unit = recorded.metric.load_unit_size();
    let load = Series(total.0.iter().map(|value| value.map(|value| value / unit)).collect());
    if load.values().count() < 2 {
        bail!("{}: there are fewer than two samples with replicas", recorded.metric.field);
    }
    let target = recorded.target(&past.requests)? / unit;
    Ok(MainLoad { index, recorded, load, target })
}

/// The index of the metric that asked for the most replicas most of the time.
fn main_metric(past: &Past) -> anyhow::Result<usize> {
    let mut wins = vec![0_u32; past.metrics.len()];
    let proposals: Vec<Series> = past
        .metrics
        .iter()
        .map(|metric| {
            let target = metric.target(&past.requests)?;
            let total = metric.total(&past.replicas);
            Ok(Series(total.0.iter().map(|value| value.map(|value| value / target)).collect()))
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
