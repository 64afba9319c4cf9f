//! Why a decision came out as it did, as a value: for logs, for an `explain` command, for tests.

use std::fmt;

use serde::Serialize;

use crate::{api::ConditionReason, pods::PodCounts, replicas::Rule};

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
    /// The scale would be written for this reason, but scaling in this direction is paused.
    Paused(String),
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
    pub pods: Option<PodCounts>,
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
            Summary::Paused(reason) => {
                write!(
                    f,
                    "keep {}: paused; else {}: {reason}",
                    self.current_replicas, self.desired_replicas
                )?;
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn metric() -> MetricExplanation {
        MetricExplanation {
            metric: "pods metric m".into(),
            usage_milli: Some(1500),
            target: Some(1000),
            ratio: Some(1.5),
            proposed_replicas: Some(3),
            ..MetricExplanation::default()
        }
    }

    #[rstest]
    #[case::no_change(Summary::NoChange, "keep 2")]
    #[case::rescale(Summary::Rescale("m above target".into()), "2 -> 5: m above target")]
    #[case::paused(Summary::Paused("m above target".into()), "keep 2: paused; else 5: m above target")]
    #[case::disabled(Summary::ScalingDisabled, "disabled: the target is at zero replicas")]
    #[case::failed(Summary::Failed("no".into()), "keep 2: no")]
    fn summaries(#[case] summary: Summary, #[case] text: &str) {
        let explanation = Explanation {
            current_replicas: 2,
            desired_replicas: 5,
            summary,
            ..Explanation::default()
        };
        assert_eq!(explanation.to_string(), text);
    }

    #[test]
    fn the_whole() {
        let failed = MetricExplanation {
            metric: "External".into(),
            error: Some("gone".into()),
            ..MetricExplanation::default()
        };
        let utilization = MetricExplanation {
            metric: "cpu".into(),
            utilization: Some(75),
            target: Some(50),
            ratio: Some(1.5),
            rebalanced_ratio: Some(1.25),
            proposed_replicas: Some(3),
            pods: Some(PodCounts { ready: 1, unready: 2, missing: 3, ignored: 4 }),
            usage_milli: Some(7),
            ..MetricExplanation::default()
        };
        let explanation = Explanation {
            current_replicas: 2,
            metrics: vec![failed, metric(), utilization],
            winner: Some(1),
            proposed_replicas: Some(3),
            stabilized_replicas: Some(3),
            stabilized_by: Some(ConditionReason::ScaleUpStabilized),
            limited_by: Some(ConditionReason::TooManyReplicas),
            desired_replicas: 2,
            summary: Summary::NoChange,
        };
        assert_eq!(
            explanation.to_string(),
            "keep 2; External: gone; *pods metric m 1500m/1000m ratio 1.500 proposes 3; cpu 75%/50% ratio 1.250 \
             proposes 3 (pods ready 1, unready 2, missing 3, ignored 4); ScaleUpStabilized at 3; TooManyReplicas at 2"
        );
    }
}
