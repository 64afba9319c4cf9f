//! An autoscaler in one line, by the status that its controller stored.

use serde::Serialize;

use super::{Report, Trigger};
use crate::{
    api::{
        Condition, ConditionReason, ConditionStatus, ConditionType, HorizontalPodAutoscaler,
        MetricSpec, MetricStatus,
    },
    explain::{Measurement, Reason, metric_name, one_line, status_value, target_value},
    replicas::Rule,
    settings::{Settings, Tolerances},
};

/// Before the messages of the reference about metrics.
const UNABLE_TO_COMPUTE: &str = "the HPA was unable to compute the replica count: ";

/// The condition of an autoscaler, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum State {
    /// The target or all metrics can't be read, or the scale can't be written.
    Failing,
    /// `maxReplicas` prevents what the metrics ask for.
    AtMaximum,
    /// Another client scaled the target to zero.
    Off,
    /// The pause annotation prevents scaling.
    Paused,
    /// No controller has stored a status.
    New,
    /// Some metrics have no value, so that the target is not scaled down.
    MetricMissing,
    /// Pods that are not ready or not measured keep the replicas from following the metrics.
    WaitingForPods,
    /// The target is being scaled.
    Scaling,
    /// A policy limits the next step.
    RateLimited,
    /// A recommendation within the stabilization window holds the replicas.
    Stabilizing,
    /// `minReplicas` prevents what the metrics ask for.
    AtMinimum,
    /// The metrics ask for the current replicas.
    Steady,
}

/// What the stored status of an autoscaler says, in one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShortReport {
    /// What the autoscaler does.
    pub state: State,
    /// The cause, in a few words.
    pub sentence: String,
    /// The largest ratio of a metric's value to its target.
    pub load: Option<f64>,
}

impl State {
    /// Whether the autoscaler fails, or can't do what its metrics ask for.
    pub fn is_problem(self) -> bool {
        self <= Self::WaitingForPods || self == Self::RateLimited
    }
}

impl ShortReport {
    /// Reads the status. The settings are those of the controller, as far as they are known.
    pub fn new(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Self {
        let measured = largest(hpa, settings);
        let load = measured.as_ref().map(|(_, ratio)| *ratio);
        let state = state(hpa, load, settings);
        let measured = measured.map(|(measurement, _)| measurement.to_string());
        let sentence = one_line(&sentence(hpa, state, measured)).into_owned();
        Self { state, sentence, load }
    }
}

impl Report {
    /// The state by this decision; `reported` is that of the stored status.
    pub fn state(&self, reported: State) -> State {
        let is_paused = self.changes.iter().any(|change| change.trigger == Trigger::Unpause);
        let has_failed = self.metrics.iter().any(|metric| metric.explanation.failure.is_some());
        match self.reason {
            _ if self.doubt.is_some() => reported,
            Reason::Failed => State::Failing,
            Reason::ScalingDisabled => State::Off,
            _ if is_paused => State::Paused,
            _ if reported == State::New => reported,
            Reason::MaxReplicas => State::AtMaximum,
            _ if self.scale_to.is_some() => State::Scaling,
            _ if has_failed => State::MetricMissing,
            Reason::Policy => State::RateLimited,
            Reason::MinReplicas => State::AtMinimum,
            Reason::Stabilization => State::Stabilizing,
            _ if self.waits_for_pods() => State::WaitingForPods,
            _ => State::Steady,
        }
    }

    /// Whether the measured ratio asks for other replicas than that with all pods.
    fn waits_for_pods(&self) -> bool {
        let winner = self.winner.and_then(|index| self.metrics.get(index));
        let Some(metric) = winner.map(|winner| &winner.explanation) else { return false };
        let (Some(ratio), Some((up, down))) = (metric.ratio, metric.tolerances) else {
            return false;
        };
        let is_outside = !Tolerances { up, down }.contain(ratio);
        metric.rebalanced_ratio.is_some()
            && is_outside
            && metric.rule.is_some_and(|rule| rule != Rule::Proportional)
    }
}

fn state(hpa: &HorizontalPodAutoscaler, load: Option<f64>, settings: &Settings) -> State {
    let status = &hpa.status;
    if status.conditions.is_empty() {
        return State::New;
    }
    if let Some(failed) = failed(hpa) {
        let is_off = failed.reason == ConditionReason::ScalingDisabled;
        return if is_off { State::Off } else { State::Failing };
    }
    if status.is_true(&ConditionType::Paused) {
        return State::Paused;
    }
    let limited = reason(hpa, &ConditionType::ScalingLimited);
    match (limited, reason(hpa, &ConditionType::AbleToScale)) {
        (Some(ConditionReason::TooManyReplicas), _) => State::AtMaximum,
        _ if missing(hpa).next().is_some() => State::MetricMissing,
        _ if status.current_replicas != status.desired_replicas => State::Scaling,
        (Some(ConditionReason::ScaleUpLimit | ConditionReason::ScaleDownLimit), _) => {
            State::RateLimited
        }
        (_, Some(ConditionReason::ScaleDownStabilized | ConditionReason::ScaleUpStabilized)) => {
            State::Stabilizing
        }
        (Some(ConditionReason::TooFewReplicas), _) => State::AtMinimum,
        _ => {
            let up = 1.0 + Tolerances::for_spec(&hpa.spec, settings).up;
            // Nothing else keeps an autoscaler from scaling up.
            if load.is_some_and(|load| load > up) { State::WaitingForPods } else { State::Steady }
        }
    }
}

/// The condition that prevents scaling.
fn failed(hpa: &HorizontalPodAutoscaler) -> Option<&Condition> {
    let kinds = [ConditionType::AbleToScale, ConditionType::ScalingActive];
    let mut conditions = kinds.iter().filter_map(|kind| hpa.status.condition(kind));
    conditions.find(|condition| condition.status == ConditionStatus::False)
}

/// The reason of a condition that is true.
fn reason<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    kind: &ConditionType,
) -> Option<&'a ConditionReason> {
    let condition = hpa.status.condition(kind)?;
    (condition.status == ConditionStatus::True).then_some(&condition.reason)
}

fn metrics(hpa: &HorizontalPodAutoscaler) -> impl Iterator<Item = (&MetricSpec, &MetricStatus)> {
    hpa.spec.metrics.iter().zip(&hpa.status.current_metrics)
}

/// The metrics that have no value beside others that have one. The reference leaves their place in
/// the status empty.
fn missing(hpa: &HorizontalPodAutoscaler) -> impl Iterator<Item = String> {
    let is_read =
        |(spec, status): &(&MetricSpec, &MetricStatus)| spec.source_type == status.source_type;
    let has_value = metrics(hpa).any(|metric| is_read(&metric));
    let missing = metrics(hpa).filter(move |metric| has_value && !is_read(metric));
    missing.map(|(spec, _)| metric_name(spec))
}

/// The metric with the largest ratio of value to target.
fn largest(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Option<(Measurement, f64)> {
    let measured = metrics(hpa).enumerate().filter_map(|(index, (spec, status))| {
        let (value, target) = (status_value(spec, status)?, target_value(spec)?);
        let ratio = value.as_f64() / target.as_f64();
        let has_pods = hpa.status.current_replicas > 0;
        let of = settings.metric(index).utilization_of;
        let measurement = Measurement::of_value(spec, of, value, target, has_pods);
        ratio.is_finite().then_some((measurement, ratio))
    });
    measured.max_by(|a, b| a.1.total_cmp(&b.1))
}

fn sentence(hpa: &HorizontalPodAutoscaler, state: State, measured: Option<String>) -> String {
    let (status, spec) = (&hpa.status, &hpa.spec);
    let limit = match state {
        State::New => return "no controller has stored a status yet".to_owned(),
        State::Failing => return failed(hpa).map(|failed| cause(hpa, failed)).unwrap_or_default(),
        State::Off => return "autoscaling is off because another client scaled it to 0".to_owned(),
        State::Paused => {
            let measured = measured.map(|text| format!("; {text}")).unwrap_or_default();
            return format!("paused by annotation{measured}");
        }
        State::MetricMissing => {
            let missing: Vec<_> = missing(hpa).collect();
            let measured = measured.map(|text| format!("; {text}")).unwrap_or_default();
            return format!(
                "no value of {}, so it only scales up{measured}",
                missing.join(" and ")
            );
        }
        State::AtMaximum => bound(hpa, "maxReplicas", spec.max_replicas),
        State::AtMinimum => bound(hpa, "minReplicas", spec.effective_min_replicas()),
        State::Scaling => {
            format!("scaled from {} to {}", status.current_replicas, status.desired_replicas)
        }
        State::RateLimited => format!("policies allow {} for now", status.desired_replicas),
        State::Stabilizing => format!("stabilization holds {}", status.desired_replicas),
        State::WaitingForPods => "pods that are not ready or not measured count as 0".to_owned(),
        State::Steady => return measured.unwrap_or_else(|| "no metric is reported".to_owned()),
    };
    measured.map_or_else(|| limit.clone(), |measured| format!("{measured}; {limit}"))
}

/// The bound that the desired replicas are at. If it isn't that of the spec, it comes from a
/// setting.
fn bound(hpa: &HorizontalPodAutoscaler, name: &str, of_spec: i32) -> String {
    let desired = hpa.status.desired_replicas;
    let has_settings = hpa.status.is_true(&ConditionType::CustomSettings);
    let bound = if has_settings { desired } else { of_spec };
    format!("{name} is {bound}")
}

/// The cause in the message of a condition that prevents scaling, without the texts that the
/// reference puts before it.
fn cause(hpa: &HorizontalPodAutoscaler, condition: &Condition) -> String {
    /// Before a message of the reference, and what a reader needs of it.
    const PREFIXES: [(&str, &str); 3] = [
        (UNABLE_TO_COMPUTE, ""),
        (
            "the HPA controller was unable to get the target's current scale: ",
            "the target cannot be read: ",
        ),
        (
            "the HPA controller was unable to update the target scale: ",
            "the target cannot be scaled: ",
        ),
    ];
    let message = &*condition.message;
    let known = PREFIXES
        .iter()
        .find_map(|(prefix, short)| message.strip_prefix(prefix).map(|rest| (*short, rest)));
    let (short, mut rest) = known.unwrap_or(("", message));
    if !short.is_empty() {
        return format!("{short}{rest}");
    }
    let name = hpa.spec.metrics.iter().find(|spec| {
        let type_name = format!("FailedGet{}Metric", spec.source_type);
        type_name == condition.reason.as_str() && rest.contains(spec.metric_name())
    });
    rest = root_cause(rest);
    match name {
        Some(spec) => format!("{} cannot be read: {rest}", metric_name(spec)),
        None => rest.to_owned(),
    }
}

/// The cause in a message about metrics, without the texts that the reference puts before it.
pub(super) fn root_cause(message: &str) -> &str {
    if let Some((_, cause)) = message.split_once("unable to fetch metrics from ") {
        return cause.split_once(" metrics API: ").map_or(cause, |(_, cause)| cause);
    }
    if let Some(at) = message.find("no metrics returned from ") {
        return message.get(at..).unwrap_or(message);
    }
    let mut rest = message.strip_prefix(UNABLE_TO_COMPUTE).unwrap_or(message);
    while let Some((_, cause)) = rest.split_once(": ").filter(|(start, _)| {
        start.starts_with("failed to get ") || start.starts_with("unable to get ")
    }) {
        rest = cause;
    }
    rest
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn metric(name: &str, utilization: i32) -> Value {
        let target = json!({ "type": "Utilization", "averageUtilization": utilization });
        json!({ "type": "Resource", "resource": { "name": name, "target": target } })
    }

    fn used(name: &str, utilization: i32) -> Value {
        let current = json!({ "averageUtilization": utilization, "averageValue": "100m" });
        json!({ "type": "Resource", "resource": { "name": name, "current": current } })
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({ "type": kind, "status": status, "reason": reason, "message": format!("{reason}!") })
    }

    /// Four replicas at 90 % of a target of 60 %, unless `other` says otherwise.
    fn hpa(current: i32, desired: i32, other: &[Value]) -> HorizontalPodAutoscaler {
        let mut conditions = vec![
            condition("AbleToScale", "True", "ReadyForNewScale"),
            condition("ScalingActive", "True", "ValidMetricFound"),
            condition("ScalingLimited", "False", "DesiredWithinRange"),
        ];
        for condition in other {
            conditions.retain(|usual| usual["type"] != condition["type"]);
            conditions.push(condition.clone());
        }
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9,
                "metrics": [metric("cpu", 60)] },
            "status": { "currentReplicas": current, "desiredReplicas": desired,
                "conditions": conditions, "currentMetrics": [used("cpu", 90)] },
        }))
        .unwrap()
    }

    const MEASURED: &str = "cpu is at 90% of requests, target 60%";

    #[rstest]
    #[case::waiting(4, 4, &[], State::WaitingForPods,
        "MEASURED; pods that are not ready or not measured count as 0")]
    #[case::scaling(4, 6, &[], State::Scaling, "MEASURED; scaled from 4 to 6")]
    #[case::at_maximum(9, 9, &[condition("ScalingLimited", "True", "TooManyReplicas")],
        State::AtMaximum, "MEASURED; maxReplicas is 9")]
    #[case::at_minimum(2, 2, &[condition("ScalingLimited", "True", "TooFewReplicas")],
        State::AtMinimum, "MEASURED; minReplicas is 2")]
    #[case::rate_limited(4, 4, &[condition("ScalingLimited", "True", "ScaleUpLimit")],
        State::RateLimited, "MEASURED; policies allow 4 for now")]
    #[case::stabilizing(4, 4, &[condition("AbleToScale", "True", "ScaleDownStabilized")],
        State::Stabilizing, "MEASURED; stabilization holds 4")]
    #[case::paused(4, 6, &[condition("Paused", "True", "PausedByAnnotation")],
        State::Paused, "paused by annotation; MEASURED")]
    #[case::off(0, 0, &[condition("ScalingActive", "False", "ScalingDisabled")],
        State::Off, "autoscaling is off because another client scaled it to 0")]
    #[case::failing(4, 4, &[condition("ScalingActive", "False", "FailedGetResourceMetric")],
        State::Failing, "FailedGetResourceMetric!")]
    fn state_and_sentence_follow_from_the_status(
        #[case] current: i32,
        #[case] desired: i32,
        #[case] other: &[Value],
        #[case] state: State,
        #[case] sentence: &str,
    ) {
        let report = ShortReport::new(&hpa(current, desired, other), &Settings::default());
        let sentence = sentence.replace("MEASURED", MEASURED);
        assert_eq!((report.state, report.sentence), (state, sentence));
        assert_eq!(report.load, Some(1.5));
    }

    #[test]
    fn load_within_the_tolerance_is_steady() {
        let report = ShortReport::new(&hpa(4, 4, &[]), &Settings::default().with_tolerance(0.6));
        assert_eq!((report.state, &*report.sentence), (State::Steady, MEASURED));
        let mut new = hpa(0, 0, &[]);
        new.status = <_>::default();
        assert_eq!(ShortReport::new(&new, &Settings::default()).state, State::New);
    }

    #[test]
    fn metric_without_value_is_named() {
        let mut hpa = hpa(4, 4, &[]);
        hpa.spec.metrics.push(serde_json::from_value(metric("memory", 30)).unwrap());
        hpa.status.current_metrics.push(MetricStatus::default());
        let report = ShortReport::new(&hpa, &Settings::default());
        let expected = format!("no value of memory, so it only scales up; {MEASURED}");
        assert_eq!((report.state, report.sentence), (State::MetricMissing, expected));
    }

    #[rstest]
    #[case(
        "ScalingActive",
        "FailedGetResourceMetric",
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
         get metrics for resource cpu: unable to fetch metrics from resource metrics API: the \
         server could not find the requested resource (get pods.metrics.k8s.io)",
        "cpu cannot be read: the server could not find the requested resource (get \
         pods.metrics.k8s.io)"
    )]
    #[case(
        "ScalingActive",
        "FailedGetResourceMetric",
        "the HPA was unable to compute the replica count: failed to get cpu utilization: missing \
         request for cpu in container app of Pod web-1",
        "cpu cannot be read: missing request for cpu in container app of Pod web-1"
    )]
    #[case(
        "ScalingActive",
        "FailedGetResourceMetric",
        "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to \
         get metrics for resource cpu: no metrics returned from resource metrics API",
        "cpu cannot be read: no metrics returned from resource metrics API"
    )]
    #[case(
        "AbleToScale",
        "FailedGetScale",
        "the HPA controller was unable to get the target's current scale: deployments.apps \
         \"web\" not found",
        "the target cannot be read: deployments.apps \"web\" not found"
    )]
    fn sentence_starts_with_the_cause(
        #[case] kind: &str,
        #[case] reason: &str,
        #[case] message: &str,
        #[case] expected: &str,
    ) {
        let failed =
            json!({ "type": kind, "status": "False", "reason": reason, "message": message });
        let report = ShortReport::new(&hpa(4, 4, &[failed]), &Settings::default());
        assert_eq!(report.sentence, expected);
    }
}
