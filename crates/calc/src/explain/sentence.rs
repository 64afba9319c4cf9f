//! Explains a decision in one sentence.

use serde::Serialize;

use super::{
    Explanation, MetricExplanation, SettingEffect, Summary, TargetValue,
    format::{minutes_and_seconds, number, one_line},
    measurement::metric_name,
};
use crate::{
    api::{ConditionReason, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, PolicySelect},
    history::Direction,
    replicas::Rule,
    settings::Bounds,
    zero::ZERO_AFTER,
};

/// The main cause of the desired replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Reason {
    /// The metrics, without a limit. Also used if no metric was read because the replicas were out
    /// of bounds.
    Metrics,
    /// A recommendation within the stabilization window, also if a policy or `maxReplicas` is below
    /// that recommendation.
    Stabilization,
    /// A policy, or the rate limit of an autoscaler without `behavior`.
    Policy,
    /// `minReplicas`.
    MinReplicas,
    /// `maxReplicas`.
    MaxReplicas,
    /// A pause prevents scaling.
    Paused,
    /// The target is at zero replicas, and the autoscaler may not scale it up from there.
    ScalingDisabled,
    /// The reconcile failed, for example because no metric could be read.
    Failed,
}

impl Explanation {
    /// The main cause of the desired replicas.
    pub fn reason(&self) -> Reason {
        match (&self.summary, &self.limited_by, &self.stabilized_by) {
            (Summary::Failed(_), ..) => Reason::Failed,
            (Summary::ScalingDisabled, ..) => Reason::ScalingDisabled,
            (Summary::Paused(_), ..) => Reason::Paused,
            // A past recommendation is above the limit, but the proposal isn't.
            (_, Some(_), Some(_)) if self.proposed_replicas == Some(self.desired_replicas) => {
                Reason::Metrics
            }
            (
                _,
                Some(ConditionReason::TooManyReplicas | ConditionReason::ScaleUpLimit),
                Some(_),
            ) if !self.exceeds_desired() => Reason::Stabilization,
            (_, Some(ConditionReason::TooManyReplicas), _) => Reason::MaxReplicas,
            (_, Some(ConditionReason::TooFewReplicas), _) => Reason::MinReplicas,
            (_, Some(_), _) => Reason::Policy,
            // Without the stabilization, the limit would lead to the same replicas.
            (_, None, stabilized_by) => match (&self.lasting_limit, stabilized_by) {
                (Some(ConditionReason::TooManyReplicas), _) => Reason::MaxReplicas,
                (Some(ConditionReason::TooFewReplicas), _) => Reason::MinReplicas,
                (Some(_), _) => Reason::Policy,
                (None, Some(_)) => Reason::Stabilization,
                (None, None) => Reason::Metrics,
            },
        }
    }

    /// Whether the setting `zero-after` keeps the last replica.
    fn delays_zero(&self) -> bool {
        self.effects.iter().any(|effect| effect.setting == ZERO_AFTER)
    }

    /// Whether the largest proposal is that of a fallback.
    pub(crate) fn is_by_fallback(&self) -> bool {
        self.winning_metric().is_some_and(MetricExplanation::has_active_fallback)
    }

    /// Whether the metrics ask for more than the desired replicas.
    fn exceeds_desired(&self) -> bool {
        self.proposed_replicas.is_some_and(|proposed| proposed > self.desired_replicas)
    }

    /// The decision in one sentence: the metric with the largest proposal and its target, then the
    /// limit and the effects of settings. If no metric decided, the reason of the change or the
    /// error.
    ///
    /// `hpa` is the autoscaler that was decided on.
    pub fn sentence(&self, hpa: &HorizontalPodAutoscaler) -> String {
        one_line(&self.sentence_with(hpa, &mut self.failures(hpa), None)).into_owned()
    }

    /// The [`sentence`](Self::sentence), unescaped. `failures` describes the metrics that failed,
    /// and is taken if the sentence begins with it. `time` replaces the maximum duration of the
    /// stabilization.
    pub(crate) fn sentence_with(
        &self,
        hpa: &HorizontalPodAutoscaler,
        failures: &mut Option<String>,
        time: Option<&str>,
    ) -> String {
        match &self.summary {
            Summary::Failed(error) => {
                let failures = failures.take_if(|_| self.winner.is_none());
                return failures.unwrap_or_else(|| error.clone());
            }
            Summary::ScalingDisabled => {
                return "autoscaling is off because the target is at 0 replicas".to_owned();
            }
            Summary::Rescale(text) if self.winner.is_none() => {
                let effects = self.main_effects().map(ToString::to_string);
                return std::iter::once(text.clone()).chain(effects).collect::<Vec<_>>().join("; ");
            }
            _ => {}
        }
        let measurement = self.measurement(hpa).map(|measurement| measurement.to_string());
        // The winner may be the fallback of a metric that failed.
        let Some(measured) = measurement.or_else(|| failures.take()) else {
            return "no metric was read".to_owned();
        };
        let rebalanced = self.winning_metric().and_then(rebalanced_text);
        let limit = self.limit_with(hpa, time);
        let parts = [Some(measured), self.extra_pods_text(), rebalanced, limit];
        let parts = parts.into_iter().flatten();
        let effects = self.main_effects().map(ToString::to_string);
        parts.chain(effects).collect::<Vec<_>>().join("; ")
    }

    /// The numbers of matched pods and of the target's pods. They explain why the target scales up
    /// although the usage is below the target value, or doesn't although it is above. `None` unless
    /// more pods count than the target has, and the ratio is multiplied by their number or includes
    /// pods without a usable sample.
    fn extra_pods_text(&self) -> Option<String> {
        let winner = self.winning_metric()?;
        let extra = self.extra_pods?;
        let matters = winner.rule == Some(Rule::Proportional) || winner.rebalanced_ratio.is_some();
        let is_counted = winner.counted_pods.is_some_and(|counted| counted > extra.of_target);
        (matters && is_counted).then(|| extra.to_string())
    }

    /// The first effect of each setting. Effects on the metric with the largest proposal come
    /// before effects on other metrics.
    fn main_effects(&self) -> impl Iterator<Item = &SettingEffect> {
        let metrics = self.winning_metric().into_iter().chain(&self.metrics);
        let of_metrics = metrics.flat_map(|metric| &metric.effects);
        let mut main: Vec<&SettingEffect> = Vec::new();
        for effect in of_metrics.chain(&self.effects) {
            if !main.iter().any(|other| other.setting == effect.setting) {
                main.push(effect);
            }
        }
        main.into_iter()
    }

    /// The metrics that failed, as a sentence. A cause that they share is printed once. `None` if
    /// no metric failed.
    pub fn failures(&self, hpa: &HorizontalPodAutoscaler) -> Option<String> {
        self.failures_by(hpa, "cannot be read", |index| self.metrics.get(index)?.error.clone())
    }

    /// Like [`failures`](Self::failures), with the causes that `cause_of` returns for the indices.
    pub(crate) fn failures_by(
        &self,
        hpa: &HorizontalPodAutoscaler,
        verb: &str,
        cause_of: impl Fn(usize) -> Option<String>,
    ) -> Option<String> {
        let mut by_cause: Vec<(String, Vec<String>)> = Vec::new();
        for index in 0..self.metrics.len().min(hpa.spec.metrics.len()) {
            let Some(cause) = cause_of(index) else { continue };
            let name = metric_name(&hpa.spec.metrics, index);
            match by_cause.iter_mut().find(|(other, _)| *other == cause) {
                Some((_, names)) => names.push(name),
                None => by_cause.push((cause, vec![name])),
            }
        }
        let sentence = |(cause, names): &(String, Vec<String>)| {
            format!("{} {verb}: {cause}", names.join(" and "))
        };
        let sentences: Vec<_> = by_cause.iter().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// The limit that changed the proposal, the replicas that a pause prevents, or the rule that
    /// proposes the current replicas. `None` if the replicas follow the metrics or are those of a
    /// fallback, if scaling is disabled, or if the reconcile failed.
    pub fn limit(&self, hpa: &HorizontalPodAutoscaler) -> Option<String> {
        self.limit_with(hpa, None)
    }

    fn limit_with(&self, hpa: &HorizontalPodAutoscaler, time: Option<&str>) -> Option<String> {
        let proposed = self.proposed_replicas.unwrap_or(self.desired_replicas);
        let stabilized = self.stabilized_replicas.unwrap_or(proposed);
        let desired = self.desired_replicas;
        let bounds = self.bounds.unwrap_or_else(|| Bounds::of_spec(&hpa.spec));
        let stabilization = || self.stabilization_text(proposed, stabilized, time);
        let maximum = format!("maxReplicas is {}", bounds.max_replicas);
        let limit = match self.reason() {
            // The effect of the fallback has its replicas.
            Reason::Metrics if desired == self.current_replicas => {
                let winner = self.winning_metric().filter(|_| !self.is_by_fallback())?;
                let rule = rule_text(winner, desired);
                return Some(match self.limited_by {
                    // Without the bound, the past recommendation would raise the replicas.
                    Some(ConditionReason::TooManyReplicas) => {
                        format!("{rule}; {}, {maximum}", stabilization())
                    }
                    _ => rule,
                });
            }
            Reason::Metrics | Reason::ScalingDisabled | Reason::Failed => return None,
            Reason::Paused => {
                let text = format!("without the pause, it would scale to {desired}");
                return Some(match self.limited_by {
                    Some(ConditionReason::TooManyReplicas) if self.exceeds_desired() => {
                        format!("{text}, limited by maxReplicas {}", bounds.max_replicas)
                    }
                    _ => text,
                });
            }
            Reason::MinReplicas if self.delays_zero() => "the last replica stays".to_owned(),
            Reason::MinReplicas => format!("minReplicas is {}", bounds.min_replicas),
            Reason::MaxReplicas => maximum,
            Reason::Policy => {
                let limit = self.limited_by.as_ref().or(self.lasting_limit.as_ref());
                let policy = policy_text(&hpa.spec, limit, desired);
                // Stabilization is a second limit if its result is between the proposal and the
                // desired replicas.
                let is_second_limit =
                    stabilized != proposed && (desired < stabilized) == (stabilized < proposed);
                if self.limited_by.is_some() && is_second_limit {
                    format!("{policy}, {}", stabilization())
                } else {
                    policy
                }
            }
            Reason::Stabilization => match &self.limited_by {
                None => stabilization(),
                Some(ConditionReason::TooManyReplicas) => format!("{}, {maximum}", stabilization()),
                limit => {
                    let policy = policy_text(&hpa.spec, limit.as_ref(), desired);
                    format!("{}, {policy}", stabilization())
                }
            },
        };
        // A negative value proposes a negative number, which has the effect of 0.
        let asks = if self.is_by_fallback() { "the fallback asks" } else { "metrics ask" };
        Some(format!("{limit}, {asks} for {}", proposed.max(0)))
    }

    /// The effect of past recommendations, and for how long it lasts (`time`) or may last.
    fn stabilization_text(&self, proposed: i32, stabilized: i32, time: Option<&str>) -> String {
        let effect = match (stabilized > self.current_replicas, stabilized > proposed) {
            (false, _) => "holds",
            (true, false) => "allows",
            // Without `behavior`, a past recommendation can raise the replicas.
            (true, true) => "keeps a recommendation of",
        };
        let time = self.stabilization_window_seconds.map(|window| match time {
            Some(time) => format!(" {time}"),
            None => format!(" for up to {}", minutes_and_seconds(f64::from(window))),
        });
        format!("stabilization {effect} {stabilized}{}", time.unwrap_or_default())
    }
}

/// The policy that limits the replicas to `desired`. `limited_by` is the reason of the condition
/// `ScalingLimited`, which has the direction.
pub(crate) fn policy_text(
    spec: &HorizontalPodAutoscalerSpec,
    limited_by: Option<&ConditionReason>,
    desired: i32,
) -> String {
    let (direction, name, member) = match limited_by {
        Some(ConditionReason::ScaleDownLimit) => (Direction::Down, "scale-down", "scaleDown"),
        _ => (Direction::Up, "scale-up", "scaleUp"),
    };
    let rules = spec.scaling_rules(direction);
    if rules.is_some_and(|rules| rules.select_policy == Some(PolicySelect::Disabled)) {
        return format!("{name} is disabled by behavior.{member}.selectPolicy");
    }
    format!("policies allow {desired} for now")
}

/// The ratio that decided and the pods that it includes, if unready or missing pods were included.
fn rebalanced_text(metric: &MetricExplanation) -> Option<String> {
    let (ratio, measured, pods) = (metric.rebalanced_ratio?, metric.ratio?, metric.pods?);
    let is_up = measured > 1.0;
    let unready = if is_up { pods.unready } else { 0 };
    let classes = [(unready, "unready"), (pods.missing, "missing")];
    let classes = classes.iter().filter(|(count, _)| *count > 0);
    let classes: Vec<_> = classes.map(|(count, class)| format!("{count} {class}")).collect();
    let (noun, request) = if unready + pods.missing == 1 {
        ("pod", "at its request")
    } else {
        ("pods", "at their requests")
    };
    let counted = match metric.target? {
        _ if is_up => "as 0",
        TargetValue::Utilization(target) if target < 100 => request,
        _ => "at the target",
    };
    let differs = measured.total_cmp(&1.0).is_ne();
    differs.then(|| {
        let percent = number(ratio * 100.0);
        format!("{percent}% of the target with {} {noun} counted {counted}", classes.join(" and "))
    })
}

/// Explains why the metrics ask for the current replicas.
fn rule_text(winner: &MetricExplanation, replicas: i32) -> String {
    let text = match winner.rule {
        // For example, the proposal was rounded up to the current replicas.
        Some(Rule::Proportional) | None => return format!("metrics ask for {replicas}"),
        Some(Rule::WithinTolerance) => "within tolerance",
        Some(Rule::DirectionReversed) => "this reverses the direction, so nothing changes",
        Some(Rule::SurgeIgnored) => "only surge pods would raise the replicas, so nothing changes",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests;
