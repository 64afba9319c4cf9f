//! An explanation in one line.

use std::fmt;

use super::{Explanation, MetricExplanation, Summary, TargetValue};

impl Explanation {
    fn has_failed_metric(&self) -> bool {
        self.metrics.iter().any(|metric| metric.error.is_some())
    }

    /// Prints `cause` after the names of all metrics that failed with it. Prints nothing if the
    /// metric at `index` is not the first of them.
    fn print_failure(&self, f: &mut fmt::Formatter<'_>, index: usize, cause: &str) -> fmt::Result {
        let has_cause = |metric: &&MetricExplanation| metric.error.as_deref() == Some(cause);
        if self.metrics.iter().take(index).any(|metric| has_cause(&metric)) {
            return Ok(());
        }
        let failed: Vec<&str> =
            self.metrics.iter().filter(has_cause).map(|metric| metric.metric.as_str()).collect();
        write!(f, "; {}: {cause}", failed.join(" and "))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (current, desired) = (self.current_replicas, self.desired_replicas);
        match &self.summary {
            Summary::NoChange => write!(f, "keep {current}")?,
            Summary::Rescale(_) => write!(f, "{current} -> {desired}")?,
            Summary::Paused(_) => write!(f, "keep {current}: paused; else {desired}")?,
            Summary::ScalingDisabled => write!(f, "disabled: the target is at zero replicas")?,
            // The metrics, which follow, have the error.
            Summary::Failed(_) if self.winner.is_none() && self.has_failed_metric() => {
                write!(f, "keep {current}")?;
            }
            Summary::Failed(error) => write!(f, "keep {current}: {error}")?,
        }
        // With a winner, the metrics and limits, which follow, explain the change. The event's
        // reason compares the proposal with the current replicas, so it may contradict
        // stabilization.
        if let (Summary::Rescale(reason) | Summary::Paused(reason), None) =
            (&self.summary, self.winner)
        {
            write!(f, ": {reason}")?;
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            let mark = if self.winner == Some(index) { "*" } else { "" };
            match &metric.error {
                None => write!(f, "; {mark}{metric}")?,
                Some(cause) => self.print_failure(f, index, cause)?,
            }
        }
        if let (Some(by), Some(replicas)) = (&self.stabilized_by, self.stabilized_replicas) {
            write!(f, "; {by} at {replicas}")?;
        }
        if let Some(by) = &self.limited_by {
            write!(f, "; {by} at {desired}")?;
        }
        self.effects.iter().try_for_each(|effect| write!(f, "; {effect}"))
    }
}

impl fmt::Display for MetricExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if let Some(error) = &self.error {
            return write!(f, ": {error}");
        }
        match (self.utilization, self.usage, self.target) {
            (Some(percent), _, Some(TargetValue::Utilization(target))) => {
                write!(f, " {percent}%/{target}%")?;
            }
            (_, Some(usage), Some(TargetValue::Value(target))) => {
                write!(f, " {usage}/{target}")?;
            }
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
        self.effects.iter().try_for_each(|effect| write!(f, " [{effect}]"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::{
        api::ConditionReason, explain::SettingEffect, pods::PodCounts, quantity::MilliValue,
    };

    fn metric() -> MetricExplanation {
        MetricExplanation {
            metric: "pods metric m".into(),
            usage: Some(MilliValue::from_milli(1500)),
            target: Some(TargetValue::Value(MilliValue::from_units(1))),
            ratio: Some(1.5),
            proposed_replicas: Some(3),
            ..MetricExplanation::default()
        }
    }

    fn failed(metric: &str) -> MetricExplanation {
        MetricExplanation {
            metric: metric.to_owned(),
            error: Some("gone".into()),
            ..MetricExplanation::default()
        }
    }

    #[rstest]
    #[case::no_change(Summary::NoChange, "keep 2")]
    #[case::rescale(Summary::Rescale("m above target".into()), "2 -> 5: m above target")]
    #[case::paused(
        Summary::Paused("m above target".into()),
        "keep 2: paused; else 5: m above target"
    )]
    #[case::disabled(Summary::ScalingDisabled, "disabled: the target is at zero replicas")]
    #[case::failed(Summary::Failed("no".into()), "keep 2: no")]
    fn summary_is_printed(#[case] summary: Summary, #[case] text: &str) {
        let explanation = Explanation {
            current_replicas: 2,
            desired_replicas: 5,
            summary,
            ..Explanation::default()
        };
        assert_eq!(explanation.to_string(), text);
    }

    #[test]
    fn explanation_is_printed_in_one_line() {
        let utilization = MetricExplanation {
            metric: "cpu".into(),
            utilization: Some(75),
            target: Some(TargetValue::Utilization(50)),
            ratio: Some(1.5),
            rebalanced_ratio: Some(1.25),
            proposed_replicas: Some(3),
            pods: Some(PodCounts { ready: 1, unready: 2, missing: 3, ignored: 4 }),
            usage: Some(MilliValue::from_milli(7)),
            effects: vec![SettingEffect { setting: "aggregate", text: "p90".to_owned() }],
            ..MetricExplanation::default()
        };
        let explanation = Explanation {
            current_replicas: 2,
            metrics: vec![failed("External"), metric(), utilization],
            winner: Some(1),
            proposed_replicas: Some(3),
            stabilized_replicas: Some(3),
            stabilized_by: Some(ConditionReason::ScaleUpStabilized),
            stabilization_window_seconds: Some(30),
            limited_by: Some(ConditionReason::TooManyReplicas),
            desired_replicas: 2,
            effects: vec![SettingEffect { setting: "bounds", text: "office hours".to_owned() }],
            ..Explanation::default()
        };
        assert_eq!(
            explanation.to_string(),
            "keep 2; External: gone; *pods metric m 1500m/1 ratio 1.500 proposes 3; cpu \
                75%/50% ratio 1.250 proposes 3 (pods ready 1, unready 2, missing 3, ignored 4) \
                [aggregate: p90]; ScaleUpStabilized at 3; TooManyReplicas at 2; bounds: office \
                hours"
        );
    }

    #[rstest]
    #[case::rescale(Summary::Rescale("All metrics below target".into()), "2 -> 5")]
    #[case::rescale_without_reason(Summary::Rescale(String::new()), "2 -> 5")]
    #[case::paused(Summary::Paused("above".into()), "keep 2: paused; else 5")]
    fn summary_has_no_reason_if_a_metric_decided(#[case] summary: Summary, #[case] text: &str) {
        let explanation = Explanation {
            current_replicas: 2,
            desired_replicas: 5,
            metrics: vec![metric()],
            winner: Some(0),
            stabilized_by: Some(ConditionReason::ScaleDownStabilized),
            stabilized_replicas: Some(5),
            summary,
            ..Explanation::default()
        };
        let rest = "; *pods metric m 1500m/1 ratio 1.500 proposes 3; ScaleDownStabilized at 5";
        assert_eq!(explanation.to_string(), format!("{text}{rest}"));
    }

    #[test]
    fn cause_of_a_failed_metric_is_printed_once() {
        let summary = Summary::Failed("invalid metrics, first error is: gone".into());
        let mut explanation = Explanation {
            current_replicas: 2,
            metrics: vec![failed("External")],
            summary,
            ..Explanation::default()
        };
        assert_eq!(explanation.to_string(), "keep 2; External: gone");
        explanation.metrics = vec![failed("External"), metric(), failed("Pods")];
        assert_eq!(
            explanation.to_string(),
            "keep 2; External and Pods: gone; pods metric m 1500m/1 ratio 1.500 proposes 3"
        );
    }
}
