//! The explanation of a decision, as a value for logs, commands and tests.

mod format;
mod line;
mod measurement;
mod sentence;

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

pub use self::{
    format::{
        counted, escape_chars, has_name, is_format, list_first, minutes_and_seconds, number,
        one_line,
    },
    measurement::{Measurement, is_memory, metric_name, status_value, target_value},
    sentence::Reason,
};
pub(crate) use self::{measurement::bytes, sentence::policy_text};
use crate::{
    api::{ConditionReason, Pod, Scale},
    fallback::FALLBACK,
    pods::PodCounts,
    quantity::MilliValue,
    readings::LoadForecast,
    replicas::Rule,
    settings::{Bounds, Tolerances, UtilizationOf},
};

/// The explanation of a decision, from the metrics to the desired replicas. `Display` prints the
/// metrics, the limits and the effects of settings in one line; [`Explanation::sentence`] prints
/// the main reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The target's `spec.replicas` before the decision.
    pub current_replicas: i32,
    /// One explanation per metric, in the order of `spec.metrics`. Empty if no metrics were
    /// evaluated.
    pub metrics: Vec<MetricExplanation>,
    /// The index of the metric with the largest proposal. `None` if no metric decided.
    pub winner: Option<usize>,
    /// The largest proposal.
    pub proposed_replicas: Option<i32>,
    /// The proposal after stabilization.
    pub stabilized_replicas: Option<i32>,
    /// If stabilization changed the proposal, the reason of its condition.
    pub stabilized_by: Option<ConditionReason>,
    /// The stabilization window that applied, if stabilization changed the proposal.
    pub stabilization_window_seconds: Option<u32>,
    /// If a rate limit or a bound changed the stabilized proposal, the reason of its condition.
    pub limited_by: Option<ConditionReason>,
    /// The limit that would apply even without stabilization, as the reason of its condition: a
    /// bound that the proposal exceeds and that the desired replicas are at, or a disabled
    /// direction. Differs from `limited_by` if stabilization stays within the limit.
    #[serde(skip)]
    pub lasting_limit: Option<ConditionReason>,
    /// The desired replicas.
    pub desired_replicas: i32,
    /// The effective `minReplicas` and `maxReplicas`, if a schedule sets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// The pods that the selector matches, if they are more than the target has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_pods: Option<ExtraPods>,
    /// The pods that the scheduler can't place. `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unschedulable_pods: Option<UnschedulablePods>,
    /// The number of [active](Pod::is_active) pods that the selector matches, if none of them is
    /// ready. `None` if all of them may still be starting, or if the scheduler can't place one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready_pods: Option<usize>,
    /// The effects of the autoscaler's settings, other than on single metrics.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<SettingEffect>,
    /// The decision in a few words.
    pub summary: Summary,
}

/// The pod counts of a selector that also matches pods of other owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtraPods {
    /// The [active](Pod::is_active) pods that the selector matches.
    pub matched: usize,
    /// The target's `spec.replicas` or `status.replicas`, whichever is larger.
    pub of_target: usize,
}

impl ExtraPods {
    /// Counts the active pods of a selector. `None` unless they are more than the target has.
    pub(crate) fn new(pods: &[Arc<Pod>], scale: &Scale) -> Option<Self> {
        let matched = pods.iter().filter(|pod| pod.is_active()).count();
        let of_target = usize::try_from(scale.spec_replicas.max(scale.status_replicas)).ok()?;
        (matched > of_target).then_some(Self { matched, of_target })
    }
}

impl fmt::Display for ExtraPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.matched == 1 { "matches" } else { "match" };
        let pods = counted(self.matched, "pod");
        write!(f, "{pods} {verb} the selector, the target has {}", self.of_target)
    }
}

/// The number of pods that the scheduler can't place
/// ([`Pod::unschedulable`](crate::Pod::unschedulable)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnschedulablePods {
    /// The number of these pods.
    pub count: usize,
    /// The [active](Pod::is_active) pods that the selector matches.
    pub total: usize,
}

impl UnschedulablePods {
    /// Counts the active pods of a selector. `None` if the scheduler can place all of them.
    pub(crate) fn new(pods: &[Arc<Pod>]) -> Option<Self> {
        let active = pods.iter().filter(|pod| pod.is_active());
        let count = active.clone().filter(|pod| pod.unschedulable).count();
        (count > 0).then(|| Self { count, total: active.count() })
    }
}

impl fmt::Display for UnschedulablePods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, self.total) {
            (_, 1) => write!(f, "the only pod can't be scheduled"),
            (count, total) => write!(f, "{count} of {total} pods can't be scheduled"),
        }
    }
}

/// A clause about [`Explanation::unready_pods`].
pub fn none_ready_text(pods: usize) -> String {
    match pods {
        1 => "the only pod is not ready".to_owned(),
        _ => format!("none of the {pods} pods is ready"),
    }
}

/// The effect on a decision of one of the autoscaler's own settings (see [`crate::settings`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingEffect {
    /// The setting's name, as in the table [`SETTINGS`](crate::settings::SETTINGS).
    pub setting: &'static str,
    /// The effect in words.
    pub text: String,
}

impl fmt::Display for SettingEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.setting, self.text)
    }
}

/// A decision in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Summary {
    /// The scale stays: after stabilization, rate limits and bounds, the desired replicas are the
    /// current ones.
    #[default]
    NoChange,
    /// The scale has to be written, for the reason that the event also has.
    Rescale(String),
    /// The scale would have to be written for this reason, but that direction is paused.
    Paused(String),
    /// The target is at zero replicas, and the autoscaler may not scale it up from there.
    ScalingDisabled,
    /// The reconcile failed with this error.
    Failed(String),
}

/// The reading and the proposal of one metric.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricExplanation {
    /// The metric's name as in conditions and events; its type if it failed.
    pub metric: String,
    /// The measured usage: a value, or the average (or other aggregate) over pods or replicas.
    #[serde(rename = "usageMilli")]
    pub usage: Option<MilliValue>,
    /// The measured usage in percent of the requests or limits, for utilization targets.
    pub utilization: Option<i32>,
    /// The base of the utilization: requests or limits.
    #[serde(skip_serializing_if = "UtilizationOf::is_default")]
    pub utilization_of: UtilizationOf,
    /// The target.
    pub target: Option<TargetValue>,
    /// Usage divided by target.
    pub ratio: Option<f64>,
    /// The ratio with unready and missing pods, if any are included.
    pub rebalanced_ratio: Option<f64>,
    /// The tolerances for scaling up and down, as fractions.
    pub tolerances: Option<(f64, f64)>,
    /// The rule that led to the proposal.
    pub rule: Option<Rule>,
    /// The proposed replicas.
    pub proposed_replicas: Option<i32>,
    /// The number of pods by class, if the calculation counts pods.
    pub pods: Option<PodCounts>,
    /// The number of pods that the ratio is multiplied by, see [`Proposal::counted_pods`].
    ///
    /// [`Proposal::counted_pods`]: crate::replicas::Proposal::counted_pods
    #[serde(rename = "counted")]
    pub counted_pods: Option<usize>,
    /// The whole value of a metric with an average by replica.
    #[serde(rename = "totalMilli")]
    pub total: Option<MilliValue>,
    /// The cause of the failure, if the metric failed, without the texts that the reference puts
    /// before it in conditions and events.
    pub error: Option<String>,
    /// The kind of the failure, if the metric failed.
    pub failure: Option<MetricFailure>,
    /// The effects of settings on the metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<SettingEffect>,
    /// The forecast of the metric's load, if forecasts of it are active and there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Box<ForecastExplanation>>,
}

impl Explanation {
    /// The metric with the largest proposal. `None` if no metric decided.
    pub(crate) fn winning_metric(&self) -> Option<&MetricExplanation> {
        self.metrics.get(self.winner?)
    }
}

impl MetricExplanation {
    /// Whether the ratio of the measured usage asks for other replicas.
    pub(crate) fn is_beyond_tolerance(&self) -> bool {
        let ratio_and_tolerances = self.ratio.zip(self.tolerances);
        ratio_and_tolerances
            .is_some_and(|(ratio, (up, down))| !Tolerances { up, down }.contain(ratio))
    }

    /// Whether the fallback of the metric is active.
    pub(crate) fn has_active_fallback(&self) -> bool {
        self.effects.iter().any(|effect| effect.setting == FALLBACK)
    }
}

/// The forecast of a metric's load, in the metric's own unit over all pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForecastExplanation {
    /// The load that was read.
    pub load: f64,
    /// The load of one pod at its target.
    pub per_replica: f64,
    /// The forecast.
    #[serde(flatten)]
    pub forecast: LoadForecast,
    /// The replicas for the forecast load.
    pub proposed_replicas: i32,
    /// Whether the forecast may raise the decision. Otherwise, it is only reported.
    #[serde(rename = "counts")]
    pub may_raise: bool,
}

/// The kind of failure that leaves a metric without a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum MetricFailure {
    /// The spec of the metric can't be queried or computed.
    InvalidSpec,
    /// The metrics API can't be reached, or returned an error.
    Fetch,
    /// The metrics API returned no item.
    Empty,
    /// The metric was not read.
    NotRead,
    /// All samples are older than the autoscaler's settings allow.
    TooOld,
    /// The selector matches no pod.
    NoPods,
    /// No pod that counts has a sample.
    NoSamples,
    /// A pod lacks a readable request or limit, or those of the pods that count add up to zero. The
    /// utilization is a percentage of them.
    MissingRequest,
    /// A pod lacks the container.
    NoContainer,
}

/// The target of a metric. Serializes as a number: milli-units or percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TargetValue {
    /// A value, or an average value.
    Value(MilliValue),
    /// A utilization in percent of the requests or limits.
    Utilization(i32),
}
