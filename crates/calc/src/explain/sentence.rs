//! Explains a decision in one sentence.

use serde::Serialize;

use super::{
    Explanation, MetricExplanation, SettingEffect, Summary, TargetValue,
    format::{minutes_and_seconds, number, one_line},
    measurement::{Measurement, metric_name},
};
use crate::{
    api::{ConditionReason, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, PolicySelect},
    replicas::Rule,
    settings::Bounds,
};

/// The main cause of the desired replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Reason {
    /// The metrics, without a limit. Also used if the replicas were out of bounds, so that no
    /// metric was read.
    Metrics,
    /// A recommendation within the stabilization window.
    Stabilization,
    /// A policy, or the rate limit of an autoscaler without `behavior`.
    Policy,
    /// `minReplicas`.
    MinReplicas,
    /// `maxReplicas`.
    MaxReplicas,
    /// The pause annotation prevents scaling.
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
            (_, Some(ConditionReason::TooManyReplicas), _) => Reason::MaxReplicas,
            (_, Some(ConditionReason::TooFewReplicas), _) => Reason::MinReplicas,
            (_, Some(_), _) => Reason::Policy,
            (_, None, Some(_)) => Reason::Stabilization,
            (_, None, None) => Reason::Metrics,
        }
    }

    /// The decision in one sentence: the metric with the largest proposal and its target, then the
    /// limit and the effects of settings. If no metric decided, the reason of the change or the
    /// error.
    ///
    /// `hpa` is the autoscaler that was decided on.
    pub fn sentence(&self, hpa: &HorizontalPodAutoscaler) -> String {
        one_line(&self.unescaped_sentence(hpa)).into_owned()
    }

    fn unescaped_sentence(&self, hpa: &HorizontalPodAutoscaler) -> String {
        match &self.summary {
            Summary::Failed(error) => {
                let failures = self.failures(hpa).filter(|_| self.winner.is_none());
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
        let Some(measured) = measurement.or_else(|| self.failures(hpa)) else {
            return "no metric was read".to_owned();
        };
        let rebalanced =
            self.winner.and_then(|index| self.metrics.get(index)).and_then(rebalanced_text);
        let parts = [Some(measured), rebalanced, self.extra_pods_text(), self.limit(hpa)];
        let parts = parts.into_iter().flatten();
        let effects = self.main_effects().map(ToString::to_string);
        parts.chain(effects).collect::<Vec<_>>().join("; ")
    }

    /// The numbers of matched pods and of the target's pods, if the ratio was multiplied by more
    /// pods than the target has. This explains a scale-up although the usage is below the target.
    fn extra_pods_text(&self) -> Option<String> {
        let winner = self.winner.and_then(|index| self.metrics.get(index))?;
        let extra = self.extra_pods?;
        let is_multiplied = winner.rule == Some(Rule::Proportional);
        let is_counted = winner.counted.is_some_and(|counted| counted > extra.of_target);
        (is_multiplied && is_counted).then(|| extra.to_string())
    }

    /// The first effect of each setting. Effects on the metric with the largest proposal come
    /// before effects on other metrics.
    fn main_effects(&self) -> impl Iterator<Item = &SettingEffect> {
        let winner = self.winner.and_then(|index| self.metrics.get(index));
        let of_metrics = winner.into_iter().chain(&self.metrics).flat_map(|metric| &metric.effects);
        let mut main: Vec<&SettingEffect> = Vec::new();
        for effect in of_metrics.chain(&self.effects) {
            if !main.iter().any(|other| other.setting == effect.setting) {
                main.push(effect);
            }
        }
        main.into_iter()
    }

    /// The metric with the largest proposal, or else the first that could be read. `None` if there
    /// is none, or if the metric failed and its fallback has the largest proposal.
    pub fn measurement(&self, hpa: &HorizontalPodAutoscaler) -> Option<Measurement> {
        Measurement::new(hpa, self)
    }

    /// The metrics that failed, as a sentence. A cause that they share is printed once. `None` if
    /// no metric failed.
    pub fn failures(&self, hpa: &HorizontalPodAutoscaler) -> Option<String> {
        let mut by_cause: Vec<(&str, Vec<String>)> = Vec::new();
        for (spec, metric) in hpa.spec.metrics.iter().zip(&self.metrics) {
            let Some(cause) = metric.error.as_deref() else { continue };
            let name = metric_name(spec);
            match by_cause.iter_mut().find(|(other, _)| *other == cause) {
                Some((_, names)) => names.push(name),
                None => by_cause.push((cause, vec![name])),
            }
        }
        let sentence = |(cause, names): &(&str, Vec<String>)| {
            format!("{} cannot be read: {cause}", names.join(" and "))
        };
        let sentences: Vec<_> = by_cause.iter().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// The limit that changed the proposal, or the rule that proposes the current replicas. `None`
    /// if the replicas follow the metrics, if scaling is disabled, or if the reconcile failed.
    pub fn limit(&self, hpa: &HorizontalPodAutoscaler) -> Option<String> {
        let winner = self.winner.and_then(|index| self.metrics.get(index));
        let proposed = self.proposed_replicas.unwrap_or(self.desired_replicas);
        let stabilized = self.stabilized_replicas.unwrap_or(proposed);
        let desired = self.desired_replicas;
        let bounds = self.bounds.unwrap_or_else(|| Bounds::of_spec(&hpa.spec));
        let limit = match self.reason() {
            Reason::Metrics if desired == self.current_replicas => {
                return winner.map(|winner| rule_text(winner, desired));
            }
            Reason::Metrics | Reason::ScalingDisabled | Reason::Failed => return None,
            Reason::Paused => {
                return Some(format!("without the pause, scaled to {desired}"));
            }
            Reason::MinReplicas if self.effects.iter().any(|it| it.setting == "zero-after") => {
                "the last replica stays".to_owned()
            }
            Reason::MinReplicas => format!("minReplicas is {}", bounds.min_replicas),
            Reason::MaxReplicas => format!("maxReplicas is {}", bounds.max_replicas),
            Reason::Policy => {
                let policy = policy_text(&hpa.spec, self.limited_by.as_ref(), desired);
                if stabilized == proposed {
                    policy
                } else {
                    format!("{policy}, stabilization {stabilized}")
                }
            }
            Reason::Stabilization => match self.stabilization_window_seconds {
                Some(window) if proposed < stabilized => {
                    format!(
                        "stabilization holds {stabilized} for up to {}",
                        minutes_and_seconds(f64::from(window))
                    )
                }
                _ => format!("stabilization holds {stabilized}"),
            },
        };
        Some(format!("{limit}, metrics ask for {proposed}"))
    }
}

/// The policy that limits the replicas to `desired`. `limited_by` is the reason of the condition
/// `ScalingLimited`, which has the direction.
pub(crate) fn policy_text(
    spec: &HorizontalPodAutoscalerSpec,
    limited_by: Option<&ConditionReason>,
    desired: i32,
) -> String {
    let behavior = spec.behavior.as_deref();
    let up = behavior.and_then(|behavior| behavior.scale_up.as_ref());
    let down = behavior.and_then(|behavior| behavior.scale_down.as_ref());
    let (rules, direction, member) = match limited_by {
        Some(ConditionReason::ScaleDownLimit) => (down, "scale-down", "scaleDown"),
        _ => (up, "scale-up", "scaleUp"),
    };
    if rules.is_some_and(|rules| rules.select_policy == Some(PolicySelect::Disabled)) {
        return format!("{direction} is disabled by behavior.{member}.selectPolicy");
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
    match winner.rule {
        Some(Rule::WithinTolerance) => "within tolerance".to_owned(),
        Some(Rule::DirectionReversed) => "this reverses the direction, so nothing changes".into(),
        Some(Rule::SurgeIgnored) => {
            "only surge pods would raise the replicas, so nothing changes".into()
        }
        // For example, the proposal was rounded up to the current replicas.
        _ => format!("metrics ask for {replicas}"),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::quantity::MilliValue;

    fn hpa(metric: Value) -> HorizontalPodAutoscaler {
        let spec = json!({
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 9, "metrics": [metric],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 120 } },
        });
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
    }

    fn hpa_by_cpu() -> HorizontalPodAutoscaler {
        let target = json!({ "type": "Utilization", "averageUtilization": 60 });
        hpa(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }))
    }

    fn hpa_by_queue() -> HorizontalPodAutoscaler {
        let target = json!({ "type": "AverageValue", "averageValue": "30" });
        let source = json!({ "metric": { "name": "waiting" }, "target": target });
        hpa(json!({ "type": "External", "external": source }))
    }

    fn explanation(proposed: i32, stabilized: i32, desired: i32) -> Explanation {
        let metric = MetricExplanation {
            utilization: Some(120),
            usage: Some(MilliValue::from_milli(240)),
            target: Some(TargetValue::Utilization(60)),
            rule: Some(Rule::Proportional),
            ..MetricExplanation::default()
        };
        let summary =
            if desired == 4 { Summary::NoChange } else { Summary::Rescale("above".to_owned()) };
        Explanation {
            current_replicas: 4,
            metrics: vec![metric],
            winner: Some(0),
            proposed_replicas: Some(proposed),
            stabilized_replicas: Some(stabilized),
            desired_replicas: desired,
            stabilization_window_seconds: Some(120),
            summary,
            ..Explanation::default()
        }
    }

    fn explain(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> String {
        explanation.sentence(hpa)
    }

    #[rstest]
    #[case::unlimited(explanation(8, 8, 8), None, None, "")]
    #[case::max_replicas(
        explanation(12, 12, 9),
        None,
        Some(ConditionReason::TooManyReplicas),
        "; maxReplicas is 9, metrics ask for 12"
    )]
    #[case::min_replicas(
        explanation(1, 1, 2),
        None,
        Some(ConditionReason::TooFewReplicas),
        "; minReplicas is 2, metrics ask for 1"
    )]
    #[case::policy(
        explanation(8, 8, 6),
        None,
        Some(ConditionReason::ScaleUpLimit),
        "; policies allow 6 for now, metrics ask for 8"
    )]
    #[case::policy_after_stabilization(
        explanation(1, 2, 3),
        Some(ConditionReason::ScaleDownStabilized),
        Some(ConditionReason::ScaleDownLimit),
        "; policies allow 3 for now, stabilization 2, metrics ask for 1"
    )]
    #[case::scale_down_window(
        explanation(2, 4, 4),
        Some(ConditionReason::ScaleDownStabilized),
        None,
        "; stabilization holds 4 for up to 2:00, metrics ask for 2"
    )]
    #[case::scale_up_window(
        explanation(8, 4, 4),
        Some(ConditionReason::ScaleUpStabilized),
        None,
        "; stabilization holds 4, metrics ask for 8"
    )]
    fn sentence_has_the_limit_and_the_proposal(
        #[case] mut explanation: Explanation,
        #[case] stabilized_by: Option<ConditionReason>,
        #[case] limited_by: Option<ConditionReason>,
        #[case] rest: &str,
    ) {
        explanation.stabilized_by = stabilized_by;
        explanation.limited_by = limited_by;
        assert_eq!(
            explain(&hpa_by_cpu(), &explanation),
            format!("cpu is at 120% of requests, target 60%{rest}")
        );
    }

    #[rstest]
    #[case::down(0, ConditionReason::ScaleDownLimit, "scale-down", "scaleDown")]
    #[case::up(8, ConditionReason::ScaleUpLimit, "scale-up", "scaleUp")]
    fn disabled_direction_is_not_limited_for_now(
        #[case] proposed: i32,
        #[case] limited_by: ConditionReason,
        #[case] direction: &str,
        #[case] member: &str,
    ) {
        let mut hpa = hpa_by_cpu();
        let behavior = json!({ member: { "selectPolicy": "Disabled" } });
        hpa.spec.behavior = serde_json::from_value(behavior).unwrap();
        let mut explanation = explanation(proposed, proposed, 4);
        explanation.limited_by = Some(limited_by);
        let limit = explanation.limit(&hpa).unwrap();
        let disabled = format!("{direction} is disabled by behavior.{member}.selectPolicy");
        assert_eq!(limit, format!("{disabled}, metrics ask for {proposed}"));
    }

    #[test]
    fn unchanged_replicas_are_explained() {
        let mut explanation = explanation(4, 4, 4);
        assert_eq!(
            explain(&hpa_by_cpu(), &explanation),
            "cpu is at 120% of requests, target 60%; metrics ask for 4"
        );
        explanation.metrics[0].rule = Some(Rule::WithinTolerance);
        assert_eq!(
            explain(&hpa_by_cpu(), &explanation),
            "cpu is at 120% of requests, target 60%; within tolerance"
        );
    }

    #[test]
    fn sentence_names_the_pause() {
        let summary = Summary::Paused("above".to_owned());
        let explanation = Explanation { summary, ..explanation(8, 8, 8) };
        assert_eq!(
            explain(&hpa_by_cpu(), &explanation),
            "cpu is at 120% of requests, target 60%; without the pause, scaled to 8"
        );
    }

    #[test]
    fn effects_of_settings_are_named_once_each() {
        let effect = |setting, text: &str| SettingEffect { setting, text: text.to_owned() };
        let mut explanation = explanation(4, 4, 4);
        let other = MetricExplanation {
            effects: vec![effect("rollout", "other"), effect("aggregate", "other")],
            ..MetricExplanation::default()
        };
        explanation.metrics[0].effects = vec![effect("aggregate", "p90")];
        explanation.metrics.insert(0, other);
        explanation.winner = Some(1);
        explanation.effects = vec![effect("bounds", "9 to 17")];
        assert_eq!(
            explain(&hpa_with_two_metrics(), &explanation),
            "cpu is at 120% of requests, target 60%; metrics ask for 4; aggregate: p90; rollout: \
                other; bounds: 9 to 17"
        );
    }

    fn hpa_with_two_metrics() -> HorizontalPodAutoscaler {
        let mut hpa = hpa_by_queue();
        hpa.spec.metrics.extend(hpa_by_cpu().spec.metrics);
        hpa
    }

    #[test]
    fn averages_are_per_pod_unless_there_are_no_pods() {
        let mut explanation = explanation(8, 8, 8);
        explanation.metrics[0].utilization = None;
        explanation.metrics[0].usage = Some(MilliValue::from_milli(35_250));
        explanation.metrics[0].target = Some(TargetValue::Value(MilliValue::from_units(30)));
        assert_eq!(explain(&hpa_by_queue(), &explanation), "waiting is at 35.2 per pod, target 30");
        explanation.current_replicas = 0;
        assert_eq!(explain(&hpa_by_queue(), &explanation), "waiting is at 35.2, target 30");
    }

    #[test]
    fn decision_without_a_winner_is_explained_by_its_error_or_event() {
        let failed = Explanation {
            summary: Summary::Failed("no metrics".to_owned()),
            ..Explanation::default()
        };
        assert_eq!(
            (explain(&hpa_by_cpu(), &failed), failed.reason()),
            ("no metrics".to_owned(), Reason::Failed)
        );
        let metric = MetricExplanation {
            error: Some("no server".to_owned()),
            ..MetricExplanation::default()
        };
        let failed = Explanation { metrics: vec![metric], ..failed };
        assert_eq!(explain(&hpa_by_cpu(), &failed), "cpu cannot be read: no server");
        let outside =
            Summary::Rescale("Current number of replicas above Spec.MaxReplicas".to_owned());
        let outside = Explanation { summary: outside, ..Explanation::default() };
        assert_eq!(
            explain(&hpa_by_cpu(), &outside),
            "Current number of replicas above Spec.MaxReplicas"
        );
        let disabled = Explanation { summary: Summary::ScalingDisabled, ..Explanation::default() };
        assert_eq!(disabled.reason(), Reason::ScalingDisabled);
    }
}
