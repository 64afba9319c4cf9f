//! The changes that would lead to another decision, found by deciding on changed inputs.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{inputs::Inputs, reported::ReportedMetrics};
use crate::{
    api::ConditionReason,
    behavior::EffectiveBehavior,
    decision::Decision,
    fallback,
    history::{Direction, History},
    pause::Pause,
    quantity::MilliValue,
    readings::{PodSample, Reading, Sample},
    time::after,
};

/// The maximum number of metrics for which changes are searched. The search decides about a hundred
/// times for each of them.
const MAX_CHANGED_METRICS: usize = 10;

/// A change of one input, and the resulting replicas.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Change {
    /// The change of the input.
    #[serde(flatten)]
    pub trigger: Trigger,
    /// The replicas that the target has then.
    pub replicas: i32,
}

/// The change of one input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Trigger {
    /// A metric rises to a value, or falls to it.
    Metric {
        /// The index of the metric.
        metric: usize,
        /// Whether it rises or falls.
        direction: Direction,
        /// The value: the average of the pods that count, or the whole value of an Object or
        /// External metric.
        #[serde(rename = "valueMilli")]
        value: MilliValue,
        /// The current value.
        #[serde(rename = "nowMilli")]
        current: MilliValue,
        /// The utilization at that value, for a utilization target.
        utilization: Option<i32>,
    },
    /// Time passes, while all readings stay.
    Time {
        /// The time at which the replicas change.
        at: Timestamp,
    },
    /// `maxReplicas` is raised.
    MaxReplicas {
        /// The new value.
        to: i32,
    },
    /// `minReplicas` is lowered.
    MinReplicas {
        /// The new value.
        to: i32,
    },
    /// The pause ends.
    Unpause {
        /// The time at which the replicas change then, while all readings stay. Absent if they
        /// change at once, or if no such time is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        at: Option<Timestamp>,
    },
}

impl Trigger {
    /// The inputs with this change.
    #[must_use]
    pub fn apply(&self, inputs: &Inputs) -> Inputs {
        let mut changed = inputs.clone();
        match self {
            Self::Metric { metric, value, .. } => set_value(&mut changed, *metric, *value),
            Self::Time { at } => changed.now = *at,
            Self::MaxReplicas { to } => changed.hpa.spec.max_replicas = *to,
            Self::MinReplicas { to } => changed.hpa.spec.min_replicas = Some(*to),
            Self::Unpause { at } => {
                changed.settings.pause = Pause::NONE;
                changed.now = at.unwrap_or(changed.now);
            }
        }
        changed
    }

    fn into_change(self, inputs: &Inputs) -> Change {
        let replicas = self.apply(inputs).resulting_replicas();
        Change { trigger: self, replicas }
    }
}

/// Sets the value of a metric. If it is read by pod, all samples get this value.
fn set_value(inputs: &mut Inputs, metric: usize, value: MilliValue) {
    let reading = match inputs.readings.get(metric) {
        Some(Ok(Reading::Pods(samples))) => Reading::Pods(
            samples.iter().map(|(pod, sample)| (pod, PodSample { value, ..*sample })).collect(),
        ),
        Some(Ok(Reading::Object(sample))) => Reading::Object(Sample { value, ..*sample }),
        Some(Ok(Reading::External(Sample { timestamp, .. }))) => {
            Reading::External(Sample { value: vec![value], timestamp: *timestamp })
        }
        Some(Err(_)) | None => return,
    };
    inputs.readings.insert(metric, Ok(reading));
}

/// The changes that would lead to other replicas than the decision on `inputs`, and the end of a
/// pause.
pub(super) fn find(inputs: &Inputs, decision: &Decision<'_>) -> Vec<Change> {
    let explanation = decision.explanation();
    let decided_replicas = decision.resulting_replicas();
    // The end of a pause is the first change, even if it leads to the same replicas now. If metrics
    // could not be read, this is uncertain, so only a change to other replicas is reported.
    let is_known =
        decision.error().is_none() && ReportedMetrics::new(inputs, decision).values.is_empty();
    let unpause = (inputs.settings.pause != Pause::NONE && inputs.scale.is_ok())
        .then(|| find_unpause(inputs, decision))
        .filter(|change| is_known || change.replicas != decided_replicas);
    let Some(proposed) = explanation.proposed_replicas else {
        // Time-dependent settings may change the replicas.
        let by_time = decision.error().and_then(|_| find_time_change(inputs, decided_replicas));
        return unpause.into_iter().chain(by_time).collect();
    };
    let stabilized = explanation.stabilized_replicas.unwrap_or(proposed);
    let limit = explanation.desired_replicas;
    // If only a past recommendation is beyond a bound, the metrics don't ask for another one.
    let move_bound = |to| match explanation.limited_by {
        Some(ConditionReason::TooManyReplicas) if proposed > limit => {
            Some(Trigger::MaxReplicas { to })
        }
        // Scaling to zero needs more than a lower bound.
        Some(ConditionReason::TooFewReplicas) if proposed < limit && stabilized > 0 => {
            Some(Trigger::MinReplicas { to })
        }
        _ => None,
    };
    // Policies may permit less than the new bound. Report the bound that is as far as they permit.
    let permitted =
        move_bound(stabilized).map(|trigger| trigger.apply(inputs).resulting_replicas());
    let bound_change = permitted.and_then(move_bound).map(|trigger| trigger.into_change(inputs));
    // Another limit may lead to the same replicas.
    let bound_change = bound_change.filter(|change| change.replicas != decided_replicas);
    let mut changes: Vec<_> = unpause.into_iter().chain(bound_change).collect();
    if decision.scale_to().is_none() {
        changes.extend(find_time_change(inputs, decided_replicas));
    }
    for metric in 0..explanation.metrics.len().min(MAX_CHANGED_METRICS) {
        for direction in [Direction::Up, Direction::Down] {
            changes.extend(find_metric_change(inputs, decision, metric, direction));
        }
    }
    changes
}

/// The end of the pause. If the replicas stay without it, the time at which they change.
fn find_unpause(inputs: &Inputs, decision: &Decision<'_>) -> Change {
    let unpause = Trigger::Unpause { at: None };
    let unpaused = unpause.apply(inputs);
    let replicas = unpaused.resulting_replicas();
    let stays = decision.scale_to().is_none() && replicas == decision.resulting_replicas();
    let later = stays.then(|| find_time_change(&unpaused, replicas)).flatten();
    match later {
        Some(Change { trigger: Trigger::Time { at }, replicas }) => {
            Change { trigger: Trigger::Unpause { at: Some(at) }, replicas }
        }
        _ => Change { trigger: unpause, replicas },
    }
}

/// The first time at which the replicas change because a recommendation has left its window, a
/// scale event has left its period, or a setting depends on the time. `None` if the history is
/// unknown.
fn find_time_change(inputs: &Inputs, decided_replicas: i32) -> Option<Change> {
    let history = inputs.history.as_ref()?;
    let behavior = EffectiveBehavior::new(&inputs.hpa.spec, &inputs.settings);
    let mut times = Vec::new();
    for direction in [Direction::Up, Direction::Down] {
        let rules = behavior.rules(direction);
        let window = rules.stabilization_window();
        times.extend(history.recommendations.iter().map(|old| after(old.at, window)));
        for period in rules.periods() {
            let events = history.scale_ups.iter().chain(&history.scale_downs);
            times.extend(events.map(|event| after(event.at, period)));
        }
    }
    times.extend(times_of_settings(inputs, history));
    // Without behavior, a window includes its start, so the change is just after its end.
    let tick = SignedDuration::from_millis(i64::from(!behavior.is_set()));
    let mut times: Vec<_> = times.into_iter().map(|time| after(time, tick)).collect();
    times.retain(|time| *time > inputs.now);
    times.sort();
    times.dedup();
    let mut changes = times.into_iter().map(|at| Trigger::Time { at }.into_change(inputs));
    changes.find(|change| change.replicas != decided_replicas)
}

/// The times at which time-dependent settings may change the replicas.
fn times_of_settings(inputs: &Inputs, history: &History) -> Vec<Timestamp> {
    let Inputs { hpa, settings, now, .. } = inputs;
    let mut times: Vec<_> =
        settings.next_bounds_change(&hpa.spec, *now).map(|change| change.at).into_iter().collect();
    times.extend(history.zero_since.map(|since| after(since, settings.zero_after)));
    for (index, spec) in hpa.spec.metrics.iter().enumerate() {
        if let Some(fallback) = settings.metric(index).fallback {
            times.extend(fallback::next_change(fallback, spec, history));
        }
    }
    times
}

/// The nearest value of a metric that leads to more replicas if it rises, or fewer if it falls.
fn find_metric_change(
    inputs: &Inputs,
    decision: &Decision<'_>,
    metric: usize,
    direction: Direction,
) -> Option<Change> {
    let explanation = decision.explanation().metrics.get(metric)?;
    explanation.proposed_replicas?;
    let current = match inputs.readings.get(metric)?.as_ref().ok()? {
        Reading::Pods(_) => explanation.usage?,
        Reading::Object(sample) => sample.value,
        Reading::External(_) => explanation.total.or(explanation.usage)?,
    };
    let decided_replicas = decision.resulting_replicas();
    let changes_replicas = |milli: i64| {
        let mut changed = inputs.clone();
        set_value(&mut changed, metric, MilliValue::from_milli(milli));
        match direction {
            Direction::Up => changed.resulting_replicas() > decided_replicas,
            Direction::Down => changed.resulting_replicas() < decided_replicas,
        }
    };
    let current_milli = current.as_milli();
    let milli = match direction {
        Direction::Up => {
            let high = changing_value_above(current_milli, &changes_replicas)?;
            nearest_changing_value(current_milli, high, &changes_replicas)
        }
        // The average is truncated. If every pod had it, the sum would be lower, which may already
        // change the replicas.
        Direction::Down if changes_replicas(current_milli) => current_milli,
        Direction::Down if current_milli > 0 && changes_replicas(0) => {
            nearest_changing_value(current_milli, 0, &changes_replicas)
        }
        Direction::Down => return None,
    };
    let value = MilliValue::from_milli(milli);
    let mut trigger = Trigger::Metric { metric, direction, value, current, utilization: None };
    let changed = trigger.apply(inputs);
    let new_decision = changed.decide();
    if let Trigger::Metric { utilization, .. } = &mut trigger {
        *utilization = new_decision.explanation().metrics.get(metric)?.utilization;
    }
    Some(Change { trigger, replicas: new_decision.resulting_replicas() })
}

/// A value above `current` that changes the replicas, found by doubling `current` up to 39 times.
fn changing_value_above(current: i64, changes_replicas: &impl Fn(i64) -> bool) -> Option<i64> {
    let start = current.max(1);
    (1..40)
        .map(|doublings| start.saturating_mul(1 << doublings))
        .find(|high| changes_replicas(*high))
}

/// The number of intervals whose ends are tried before one of them is bisected.
const INTERVALS: i64 = 32;

/// The value between `unchanged` and `changed` that is nearest to `unchanged` and changes the
/// replicas. With missing pods, a nearer value may change them although a further one, which is
/// within the tolerance, doesn't.
fn nearest_changing_value(
    mut unchanged: i64,
    mut changed: i64,
    changes_replicas: &impl Fn(i64) -> bool,
) -> i64 {
    let (start, interval) = (unchanged, changed.saturating_sub(unchanged) / INTERVALS);
    let intervals = if interval == 0 { 1 } else { INTERVALS };
    for end in (1..intervals).map(|count| start + interval * count) {
        if changes_replicas(end) {
            changed = end;
            break;
        }
        unchanged = end;
    }
    while unchanged.abs_diff(changed) > 1 {
        let middle = i64::midpoint(unchanged, changed);
        if changes_replicas(middle) {
            changed = middle;
        } else {
            unchanged = middle;
        }
    }
    changed
}
