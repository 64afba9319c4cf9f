//! A decision of the controller, told to a person.

use hpa_calc::{
    api::{ConditionReason, HorizontalPodAutoscaler, MetricSpec, MetricTarget},
    explain::{Explanation, MetricExplanation, Summary},
    quantity::Quantity,
    replicas::Rule,
};
use hpa_controller::{key::HpaKey, reconcile::observer::Reconciled};
use hpa_testbed::workload::WorkloadId;

use super::text::{clock, number};

/// The downscale stabilization of the controller's default settings, in seconds.
const DEFAULT_WINDOW: i32 = 300;

/// A decision, in words.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// When, in simulated seconds since the start.
    pub(crate) second: f64,
    /// Whose.
    pub(crate) key: HpaKey,
    /// What it scales.
    pub(crate) target: WorkloadId,
    /// `minReplicas` and `maxReplicas`.
    pub(crate) bounds: (i32, i32),
    /// For how many seconds a higher wish holds.
    pub(crate) window: f64,
    /// The replicas before.
    pub(crate) from: i32,
    /// The replicas written, if any were.
    pub(crate) to: Option<i32>,
    /// The kind of reason.
    pub(crate) reason: Reason,
    /// The reason as a sentence.
    pub(crate) sentence: String,
    /// The metric that counts, as it is and as it is to be.
    pub(crate) reading: Option<Measured>,
}

/// What kind of reason a decision has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The metrics ask for what there is, or it follows them.
    Followed,
    /// A stabilization window holds.
    Stabilized,
    /// A policy holds.
    Paced,
    /// `minReplicas` holds.
    AtMinimum,
    /// `maxReplicas` holds.
    AtMaximum,
    /// Somebody scaled the workload to zero.
    Paused,
    /// It cannot be decided.
    Failed,
}

/// A metric as it is and as it is to be, in the same unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// Its name.
    pub(crate) metric: String,
    /// As it is.
    pub(crate) current: String,
    /// As it is to be.
    pub(crate) target: String,
    /// What the numbers are of: ` of requests`, ` a pod` or nothing.
    of: &'static str,
}

impl Decision {
    /// The decision of a reconcile that was made at a second.
    pub(crate) fn of(reconciled: &Reconciled<'_>, second: f64) -> Self {
        let Reconciled { key, hpa, conclusion, .. } = *reconciled;
        let explanation = &conclusion.explanation;
        let reason = reason(explanation);
        let reading = reading(hpa, explanation);
        let sentence = sentence(hpa, explanation, reason, reading.as_ref());
        let target = &hpa.spec.scale_target_ref;
        Self {
            second,
            key: key.clone(),
            target: WorkloadId::new(&hpa.metadata.namespace, &target.kind, &target.name),
            bounds: bounds(hpa),
            window: f64::from(window(hpa)),
            from: explanation.current_replicas,
            to: conclusion.scaled_to,
            reason,
            sentence,
            reading,
        }
    }

    /// What was done: `2 -> 5`, or `keeps 5`.
    pub(crate) fn change(&self) -> String {
        match self.to {
            Some(to) => format!("{} -> {to}", self.from),
            None => format!("keeps {}", self.from),
        }
    }
}

/// `minReplicas` and `maxReplicas` of an autoscaler.
pub(crate) fn bounds(hpa: &HorizontalPodAutoscaler) -> (i32, i32) {
    (hpa.spec.effective_min_replicas(), hpa.spec.max_replicas)
}

/// For how many seconds an autoscaler's higher wish keeps it from scaling down.
pub(crate) fn window(hpa: &HorizontalPodAutoscaler) -> i32 {
    let rules = hpa.spec.behavior.as_ref().and_then(|behavior| behavior.scale_down.as_ref());
    rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(DEFAULT_WINDOW)
}

fn reason(explanation: &Explanation) -> Reason {
    match (&explanation.summary, &explanation.limited_by, &explanation.stabilized_by) {
        (Summary::Failed(_), ..) => Reason::Failed,
        (Summary::ScalingDisabled, ..) => Reason::Paused,
        (_, Some(ConditionReason::TooManyReplicas), _) => Reason::AtMaximum,
        (_, Some(ConditionReason::TooFewReplicas), _) => Reason::AtMinimum,
        (_, Some(_), _) => Reason::Paced,
        (_, None, Some(_)) => Reason::Stabilized,
        (_, None, None) => Reason::Followed,
    }
}

fn sentence(
    hpa: &HorizontalPodAutoscaler,
    explanation: &Explanation,
    reason: Reason,
    reading: Option<&Measured>,
) -> String {
    match &explanation.summary {
        Summary::Failed(error) => {
            return unreadable(hpa, explanation).unwrap_or_else(|| error.clone());
        }
        Summary::ScalingDisabled => return "somebody scaled it to 0; that pauses it".to_owned(),
        Summary::Rescale(text) if explanation.winner.is_none() => return text.clone(),
        _ => {}
    }
    let Some(Measured { metric, current, target, of }) = reading else {
        return "nothing is known".to_owned();
    };
    let metrics = format!("{metric} is at {current}{of}, target {target}");
    let tail = match explanation.winner.and_then(|index| explanation.metrics.get(index)) {
        Some(winner) if reason == Reason::Followed => grounds(winner, explanation),
        _ => held(hpa, explanation, reason),
    };
    format!("{metrics}{tail}")
}

/// The first metric that could not be read, and the root of why; the events tell the whole story.
fn unreadable(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> Option<String> {
    let failed = |(_, metric): &(usize, &MetricExplanation)| metric.error.is_some();
    let (index, metric) = explanation.metrics.iter().enumerate().find(failed)?;
    let cause = metric.error.as_deref()?.rsplit(": ").next()?;
    Some(format!("{} cannot be read: {cause}", name(hpa.spec.metrics.get(index)?)))
}

/// What is to be said where nothing held the metrics back.
fn grounds(winner: &MetricExplanation, explanation: &Explanation) -> String {
    let keeps = explanation.desired_replicas == explanation.current_replicas;
    match winner.rule {
        Some(Rule::WithinTolerance) if keeps => ", close enough".to_owned(),
        Some(Rule::DirectionReversed) if keeps => {
            let pods = winner.pods.unwrap_or_default();
            format!(", but {} pods are not measured yet", pods.unready + pods.missing)
        }
        _ => String::new(),
    }
}

/// What held the metrics back.
fn held(hpa: &HorizontalPodAutoscaler, explanation: &Explanation, reason: Reason) -> String {
    let wish = explanation.proposed_replicas.unwrap_or(explanation.desired_replicas);
    let stabilized = explanation.stabilized_replicas.unwrap_or(wish);
    let (least, most) = bounds(hpa);
    match reason {
        Reason::AtMinimum => format!(", which asks for {wish}; minReplicas is {least}"),
        Reason::AtMaximum => format!(", which asks for {wish}; maxReplicas is {most}"),
        Reason::Paced => {
            let permitted = explanation.desired_replicas;
            format!(", which asks for {stabilized}; the policies permit {permitted} for now")
        }
        Reason::Stabilized if wish > stabilized => {
            format!(", which asks for {wish}; stabilization waits whether it lasts")
        }
        Reason::Stabilized => {
            let window = clock(f64::from(window(hpa)));
            format!(", which asks for {wish}; within the last {window} it was {stabilized}")
        }
        Reason::Followed | Reason::Paused | Reason::Failed => String::new(),
    }
}

/// The metric that won, or else the first that could be read.
fn reading(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> Option<Measured> {
    let readable = explanation.metrics.iter().position(|metric| metric.error.is_none());
    let index = explanation.winner.or(readable)?;
    let (spec, metric) = (hpa.spec.metrics.get(index)?, explanation.metrics.get(index)?);
    let name = name(spec);
    let (of, show): (_, fn(i64) -> String) = match spec_target(spec) {
        _ if metric.utilization.is_some() => (" of requests", |percent| format!("{percent}%")),
        _ if name.contains("memory") => (" a pod", mebibytes),
        Some(target) if target.average_value.is_some() && explanation.current_replicas > 0 => {
            (" a pod", quantity)
        }
        _ => ("", quantity),
    };
    let current = metric.utilization.map(i64::from).or(metric.usage_milli)?;
    Some(Measured { metric: name, current: show(current), target: show(metric.target?), of })
}

fn quantity(milli: i64) -> String {
    number(Quantity::from_milli(milli, hpa_calc::quantity::Format::DecimalSI).as_f64())
}

fn mebibytes(milli: i64) -> String {
    format!("{}Mi", number(milli as f64 / 1000.0 / 1024.0 / 1024.0))
}

/// What a metric is called.
fn name(spec: &MetricSpec) -> String {
    if let Some(source) = &spec.resource {
        return source.name.clone();
    }
    if let Some(source) = &spec.container_resource {
        return format!("{} of container {}", source.name, source.container);
    }
    if let Some(source) = &spec.object {
        let object = &source.described_object;
        return format!("{} of {}/{}", source.metric.name, object.kind, object.name);
    }
    let metric = spec.pods.as_ref().map(|source| &source.metric);
    let metric = metric.or(spec.external.as_ref().map(|source| &source.metric));
    metric.map_or_else(|| spec.source_type.to_string(), |metric| metric.name.clone())
}

fn spec_target(spec: &MetricSpec) -> Option<&MetricTarget> {
    let resource = spec.resource.as_ref().map(|source| &source.target);
    let container = spec.container_resource.as_ref().map(|source| &source.target);
    let pods = spec.pods.as_ref().map(|source| &source.target);
    let object = spec.object.as_ref().map(|source| &source.target);
    let external = spec.external.as_ref().map(|source| &source.target);
    resource.or(container).or(pods).or(object).or(external)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn hpa(metric: Value) -> HorizontalPodAutoscaler {
        let spec = json!({
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 2, "maxReplicas": 9, "metrics": [metric],
            "behavior": { "scaleDown": { "stabilizationWindowSeconds": 120 } },
        });
        serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
    }

    fn cpu() -> HorizontalPodAutoscaler {
        let target = json!({ "type": "Utilization", "averageUtilization": 60 });
        hpa(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }))
    }

    fn queue() -> HorizontalPodAutoscaler {
        let target = json!({ "type": "AverageValue", "averageValue": "30" });
        hpa(
            json!({ "type": "External", "external": { "metric": { "name": "waiting" }, "target": target } }),
        )
    }

    fn explanation(proposed: i32, stabilized: i32, desired: i32) -> Explanation {
        let metric = MetricExplanation {
            utilization: Some(120),
            usage_milli: Some(240),
            target: Some(60),
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
            summary,
            ..Explanation::default()
        }
    }

    fn told(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> String {
        sentence(hpa, explanation, reason(explanation), reading(hpa, explanation).as_ref())
    }

    #[rstest]
    #[case::follows(explanation(8, 8, 8), None, None, "")]
    #[case::at_the_top(
        explanation(12, 12, 9),
        None,
        Some(ConditionReason::TooManyReplicas),
        ", which asks for 12; maxReplicas is 9"
    )]
    #[case::at_the_bottom(
        explanation(1, 1, 2),
        None,
        Some(ConditionReason::TooFewReplicas),
        ", which asks for 1; minReplicas is 2"
    )]
    #[case::too_fast(
        explanation(8, 8, 6),
        None,
        Some(ConditionReason::ScaleUpLimit),
        ", which asks for 8; the policies permit 6 for now"
    )]
    #[case::wait_to_go_down(
        explanation(2, 4, 4),
        Some(ConditionReason::ScaleDownStabilized),
        None,
        ", which asks for 2; within the last 2:00 it was 4"
    )]
    #[case::wait_to_go_up(
        explanation(8, 4, 4),
        Some(ConditionReason::ScaleUpStabilized),
        None,
        ", which asks for 8; stabilization waits whether it lasts"
    )]
    fn what_holds_is_told(
        #[case] mut explanation: Explanation,
        #[case] stabilized_by: Option<ConditionReason>,
        #[case] limited_by: Option<ConditionReason>,
        #[case] tail: &str,
    ) {
        explanation.stabilized_by = stabilized_by;
        explanation.limited_by = limited_by;
        assert_eq!(
            told(&cpu(), &explanation),
            format!("cpu is at 120% of requests, target 60%{tail}")
        );
    }

    #[test]
    fn close_enough() {
        let mut explanation = explanation(4, 4, 4);
        explanation.metrics[0].rule = Some(Rule::WithinTolerance);
        assert_eq!(
            told(&cpu(), &explanation),
            "cpu is at 120% of requests, target 60%, close enough"
        );
    }

    #[test]
    fn numbers_have_their_unit() {
        let mut explanation = explanation(8, 8, 8);
        explanation.metrics[0].utilization = None;
        explanation.metrics[0].usage_milli = Some(35_250);
        explanation.metrics[0].target = Some(30_000);
        assert_eq!(told(&queue(), &explanation), "waiting is at 35.2 a pod, target 30");
        explanation.current_replicas = 0;
        assert_eq!(told(&queue(), &explanation), "waiting is at 35.2, target 30");
    }

    #[test]
    fn failures_and_bounds_are_told_as_they_are() {
        let failed = Explanation {
            summary: Summary::Failed("no metrics".to_owned()),
            ..Explanation::default()
        };
        assert_eq!(
            (told(&cpu(), &failed), reason(&failed)),
            ("no metrics".to_owned(), Reason::Failed)
        );
        let metric = MetricExplanation {
            error: Some("no cpu: no server".to_owned()),
            ..MetricExplanation::default()
        };
        let failed = Explanation { metrics: vec![metric], ..failed };
        assert_eq!(told(&cpu(), &failed), "cpu cannot be read: no server");
        let outside =
            Summary::Rescale("Current number of replicas above Spec.MaxReplicas".to_owned());
        let outside = Explanation { summary: outside, ..Explanation::default() };
        assert_eq!(told(&cpu(), &outside), "Current number of replicas above Spec.MaxReplicas");
        let paused = Explanation { summary: Summary::ScalingDisabled, ..Explanation::default() };
        assert_eq!(reason(&paused), Reason::Paused);
    }
}
