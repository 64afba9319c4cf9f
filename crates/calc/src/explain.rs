//! Why a decision came out as it did, as a value: for logs, for an `explain` command, for tests.

use std::fmt;

use serde::Serialize;

use crate::{api::ConditionReason, pods::Census, replicas::Rule};

/// How a decision came about, from the metrics to the replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What the target was asked to have before (`spec.replicas`).
    pub current_replicas: i32,
    /// What each metric read and proposed, in the order of `spec.metrics`.
    pub metrics: Vec<MetricExplanation>,
    /// The index of the metric whose proposal won.
    pub winner: Option<usize>,
    /// The winning proposal.
    pub proposed_replicas: Option<i32>,
    /// The proposal after stabilization.
    pub stabilized_replicas: Option<i32>,
    /// What stabilization did, where it changed the proposal: the condition's reason.
    pub stabilized_by: Option<ConditionReason>,
    /// What rate or bounds did, where they changed the stabilized proposal: the condition's reason.
    pub limited_by: Option<ConditionReason>,
    /// The replicas decided on.
    pub desired_replicas: i32,
    /// Why, in a few words.
    pub summary: Summary,
}

/// Why, in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Summary {
    /// The proposal equals what there is, or stabilization, rate and bounds brought it there.
    #[default]
    NoChange,
    /// The scale is to be written, for the reason the event gives.
    Rescale(String),
    /// The target is at zero replicas by somebody else's doing.
    ScalingDisabled,
    /// There is nothing to decide on.
    Failed(String),
}

/// What one metric read and proposed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricExplanation {
    /// The metric as conditions and events name it.
    pub metric: String,
    /// What it read, in milli-units.
    pub usage_milli: Option<i64>,
    /// What it read, in percent of the requests.
    pub utilization: Option<i32>,
    /// What it is to be: milli-units, or percent where `utilization` is given.
    pub target: Option<i64>,
    /// Usage over target.
    pub ratio: Option<f64>,
    /// The ratio with pods counted in that are not ready or have no sample.
    pub rebalanced_ratio: Option<f64>,
    /// The tolerances, up and down, as fractions.
    pub tolerances: Option<(f64, f64)>,
    /// The rule that gave the proposal.
    pub rule: Option<Rule>,
    /// The proposed replicas.
    pub proposed_replicas: Option<i32>,
    /// The pods by class, where pods play a part.
    pub pods: Option<Census>,
    /// Why the metric proposes nothing.
    pub error: Option<String>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.summary {
            Summary::NoChange => write!(f, "keep {}", self.current_replicas)?,
            Summary::Rescale(reason) => {
                write!(f, "{} -> {}: {reason}", self.current_replicas, self.desired_replicas)?;
            }
            Summary::ScalingDisabled => write!(f, "disabled: the target is at zero replicas")?,
            Summary::Failed(error) => write!(f, "keep {}: {error}", self.current_replicas)?,
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            let mark = if self.winner == Some(index) { "*" } else { "" };
            write!(f, "; {mark}{metric}")?;
        }
        if let (Some(by), Some(replicas)) = (&self.stabilized_by, self.stabilized_replicas) {
            write!(f, "; {by} at {replicas}")?;
        }
        if let Some(by) = &self.limited_by {
            write!(f, "; {by} at {}", self.desired_replicas)?;
        }
        Ok(())
    }
}

impl fmt::Display for MetricExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if let Some(error) = &self.error {
            return write!(f, ": {error}");
        }
        match (self.utilization, self.usage_milli, self.target) {
            (Some(percent), _, Some(target)) => write!(f, " {percent}%/{target}%")?,
            (None, Some(usage), Some(target)) => write!(f, " {usage}m/{target}m")?,
            _ => {}
        }
        if let Some(ratio) = self.rebalanced_ratio.or(self.ratio) {
            write!(f, " ratio {ratio:.3}")?;
        }
        if let Some(replicas) = self.proposed_replicas {
            write!(f, " proposes {replicas}")?;
        }
        if let Some(pods) = self.pods {
            write!(
                f,
                " (pods ready {}, unready {}, missing {}, ignored {})",
                pods.ready, pods.unready, pods.missing, pods.ignored
            )?;
        }
        Ok(())
    }
}
