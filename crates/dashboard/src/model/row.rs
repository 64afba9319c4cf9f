//! One autoscaler in the list: its state, and the reason in words, by its status.

use hpa_calc::{
    HorizontalPodAutoscaler,
    api::{Condition, ConditionReason, ConditionStatus, ConditionType},
    explain::metric_name,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    Identity,
    unit::{Unit, target_of, value_of},
};

/// The controller that stored the status last, as its field manager says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Controller {
    /// The field manager. Absent if no status was stored.
    pub(crate) name: Option<String>,
    pub(crate) at: Option<Timestamp>,
}

impl Controller {
    /// Whether it is the controller of Kubernetes, which ignores our annotations.
    pub(crate) fn is_reference(&self) -> bool {
        self.name.as_deref() == Some("kube-controller-manager")
    }
}

/// What an autoscaler does, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// The target or the metrics can't be read, or the object is invalid.
    Failing,
    /// `maxReplicas` prevents what the metrics ask for.
    AtMaximum,
    /// Another client scaled the target to zero.
    Off,
    Paused,
    /// No controller has stored a status.
    New,
    /// The target is being scaled.
    Scaling,
    /// A policy limits the next step.
    RateLimited,
    /// A recommendation within the stabilization window holds the replicas.
    Stabilizing,
    /// `minReplicas` prevents what the metrics ask for.
    AtMinimum,
    Steady,
}

/// An autoscaler in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) id: Identity,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) state: State,
    pub(crate) sentence: String,
    pub(crate) current: i32,
    pub(crate) desired: i32,
    pub(crate) min: i32,
    pub(crate) max: i32,
    /// The largest value of a metric divided by its target.
    pub(crate) load: Option<f64>,
    pub(crate) last_scale: Option<Timestamp>,
}

impl Row {
    pub(crate) fn new(id: Identity, hpa: &HorizontalPodAutoscaler) -> Self {
        let (status, target) = (&hpa.status, &hpa.spec.scale_target_ref);
        let measured = Measured::largest(hpa);
        let state = state(hpa);
        Self {
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            id,
            target: format!("{}/{}", target.kind, target.name),
            state,
            sentence: sentence(hpa, state, measured.as_ref()),
            current: status.current_replicas,
            desired: status.desired_replicas,
            min: hpa.spec.effective_min_replicas(),
            max: hpa.spec.max_replicas,
            load: measured.map(|measured| measured.ratio),
            last_scale: status.last_scale_time,
        }
    }

    /// An object that doesn't have the fields of an autoscaler.
    pub(crate) fn undecodable(id: Identity, error: &str) -> Self {
        let mut row = Self::new(id, &HorizontalPodAutoscaler::default());
        row.state = State::Failing;
        row.target = String::new();
        row.sentence = format!("the object is not an autoscaler: {error}");
        row
    }
}

fn state(hpa: &HorizontalPodAutoscaler) -> State {
    let status = &hpa.status;
    if status.conditions.is_empty() {
        return State::New;
    }
    let reason = |kind| reason(hpa, kind);
    if let Some(failed) = failed(hpa) {
        let is_off = failed.reason == ConditionReason::ScalingDisabled;
        return if is_off { State::Off } else { State::Failing };
    }
    if status.is_true(&ConditionType::Paused) {
        return State::Paused;
    }
    if reason(ConditionType::ScalingLimited) == Some(&ConditionReason::TooManyReplicas) {
        return State::AtMaximum;
    }
    if status.current_replicas != status.desired_replicas {
        return State::Scaling;
    }
    match (reason(ConditionType::ScalingLimited), reason(ConditionType::AbleToScale)) {
        (Some(ConditionReason::ScaleUpLimit | ConditionReason::ScaleDownLimit), _) => {
            State::RateLimited
        }
        (_, Some(ConditionReason::ScaleDownStabilized | ConditionReason::ScaleUpStabilized)) => {
            State::Stabilizing
        }
        (Some(ConditionReason::TooFewReplicas), _) => State::AtMinimum,
        _ => State::Steady,
    }
}

/// The condition that prevents scaling.
fn failed(hpa: &HorizontalPodAutoscaler) -> Option<&Condition> {
    let kinds = [ConditionType::AbleToScale, ConditionType::ScalingActive];
    let conditions = kinds.iter().filter_map(|kind| hpa.status.condition(kind));
    conditions.into_iter().find(|condition| condition.status == ConditionStatus::False)
}

/// The reason of a condition that holds.
fn reason(hpa: &HorizontalPodAutoscaler, kind: ConditionType) -> Option<&ConditionReason> {
    let condition = hpa.status.condition(&kind)?;
    (condition.status == ConditionStatus::True).then_some(&condition.reason)
}

fn sentence(hpa: &HorizontalPodAutoscaler, state: State, measured: Option<&Measured>) -> String {
    let (status, spec) = (&hpa.status, &hpa.spec);
    let limit = match state {
        State::New => return "no controller has stored a status yet".to_owned(),
        State::Failing => {
            let message = failed(hpa).map(|condition| condition.message.as_ref());
            return message.unwrap_or_default().to_owned();
        }
        State::Off => {
            return "autoscaling is off because another client scaled the target to 0".to_owned();
        }
        State::AtMaximum => format!("maxReplicas is {}", spec.max_replicas),
        State::AtMinimum => format!("minReplicas is {}", spec.effective_min_replicas()),
        State::Paused => "paused by annotation".to_owned(),
        State::Scaling => {
            format!("scales from {} to {}", status.current_replicas, status.desired_replicas)
        }
        State::RateLimited => format!("policies allow {} for now", status.desired_replicas),
        State::Stabilizing => format!("stabilization holds {}", status.desired_replicas),
        State::Steady => String::new(),
    };
    match (measured, limit.is_empty()) {
        (Some(measured), true) => measured.text.clone(),
        (Some(measured), false) => format!("{}; {limit}", measured.text),
        (None, true) => "no metric is reported".to_owned(),
        (None, false) => limit,
    }
}

/// The metric with the largest ratio, in words.
struct Measured {
    text: String,
    ratio: f64,
}

impl Measured {
    fn largest(hpa: &HorizontalPodAutoscaler) -> Option<Self> {
        let metrics = hpa.spec.metrics.iter().zip(&hpa.status.current_metrics);
        let measured = metrics.filter_map(|(spec, status)| {
            let (value, target) = (value_of(spec, status)?, target_of(spec)?);
            let unit = Unit::new(spec);
            let of = if unit == Unit::Percent { " of requests" } else { "" };
            let (name, value_text) = (metric_name(spec), unit.format(value));
            let text = format!("{name} is at {value_text}{of}, target {}", unit.format(target));
            let ratio = value.as_f64() / target.as_f64();
            ratio.is_finite().then_some(Self { text, ratio })
        });
        measured.max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }
}
