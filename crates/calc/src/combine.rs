//! All metrics → one proposal: the largest, and what a metric that failed does to it.

use crate::{
    api::{ConditionReason, MetricSpec, MetricStatus},
    event::{Event, EventReason},
    explain::MetricExplanation,
    metric::{Context, Invalid, Valid, evaluate, status_without_value},
    readings::{MetricQuery, ReadError, Reading},
};

/// What the metrics came to together.
pub(crate) struct Combination {
    pub(crate) result: Result<Combined, Failed>,
    pub(crate) statuses: Vec<MetricStatus>,
    pub(crate) events: Vec<Event>,
    pub(crate) explanations: Vec<MetricExplanation>,
}

/// The proposal that won.
pub(crate) struct Combined {
    pub(crate) replicas: i32,
    pub(crate) winner: Option<usize>,
    pub(crate) metric: String,
    /// What to say of the metrics that failed, if any.
    pub(crate) error: Option<String>,
}

/// Why there is no proposal: the first metric that failed.
pub(crate) struct Failed {
    pub(crate) reason: ConditionReason,
    pub(crate) cause: String,
    pub(crate) message: String,
}

/// The proposal that is ahead so far. One of 0 replicas is replaced by whatever comes later.
#[derive(Default)]
struct LargestProposal {
    replicas: i32,
    winner: Option<usize>,
    metric: String,
}

/// Evaluates every metric and combines the proposals.
///
/// The largest proposal wins. Where metrics failed, the others suffice for scaling up or staying, not for scaling
/// down: one that failed might have asked for more. (The API reference on `spec.metrics`; kubernetes#99514.)
pub(crate) fn combine(
    specs: &[MetricSpec],
    queries: &[Result<MetricQuery, String>],
    readings: Vec<Option<Result<Reading, ReadError>>>,
    context: &Context<'_>,
) -> Combination {
    let mut statuses = Vec::with_capacity(specs.len());
    let mut events = Vec::new();
    let mut explanations = Vec::with_capacity(specs.len());
    let mut lead = LargestProposal::default();
    let mut first_failed: Option<Invalid> = None;
    let mut failed = 0_usize;
    let readings = readings.into_iter().chain(std::iter::repeat_with(|| None));
    for (index, ((spec, query), reading)) in specs.iter().zip(queries).zip(readings).enumerate() {
        match evaluate(spec, query, reading, context) {
            Ok(valid) => {
                explanations.push(explain(&valid, context));
                let Valid { proposal, name, status, .. } = valid;
                statuses.push(status);
                if lead.replicas == 0 || proposal.replicas > lead.replicas {
                    lead = LargestProposal {
                        replicas: proposal.replicas,
                        winner: Some(index),
                        metric: name,
                    };
                }
            }
            Err(invalid) => {
                events.push(Event::warning(
                    EventReason::of_failed(&spec.source_type),
                    invalid.cause.clone(),
                ));
                explanations.push(MetricExplanation {
                    metric: spec.source_type.to_string(),
                    error: Some(invalid.cause.clone()),
                    ..MetricExplanation::default()
                });
                statuses.push(status_without_value(spec));
                failed += 1;
                first_failed.get_or_insert(invalid);
            }
        }
    }
    let result = settle(lead, first_failed, failed, specs.len(), context.scale.spec_replicas);
    Combination { result, statuses, events, explanations }
}

fn settle(
    lead: LargestProposal,
    first_failed: Option<Invalid>,
    failed: usize,
    all: usize,
    current: i32,
) -> Result<Combined, Failed> {
    let LargestProposal { replicas, winner, metric } = lead;
    if all == 0 {
        // No API server lets this pass; without it a spec without metrics would be scaled to its minimum.
        let message = "no metrics are set".to_owned();
        return Err(Failed {
            reason: ConditionReason::InvalidMetricSourceType,
            cause: message.clone(),
            message,
        });
    }
    let Some(first) = first_failed else {
        return Ok(Combined { replicas, winner, metric, error: None });
    };
    let message = format!(
        "invalid metrics ({failed} invalid out of {all}), first error is: {}",
        first.wrapped
    );
    if failed >= all || replicas < current {
        return Err(Failed { reason: first.reason, cause: first.cause, message });
    }
    Ok(Combined { replicas, winner, metric, error: Some(message) })
}

fn explain(valid: &Valid, context: &Context<'_>) -> MetricExplanation {
    let Valid { proposal, name, target, .. } = valid;
    MetricExplanation {
        metric: name.clone(),
        usage_milli: Some(proposal.usage),
        utilization: proposal.utilization,
        target: Some(*target),
        ratio: Some(proposal.ratio),
        rebalanced_ratio: proposal.rebalanced_ratio,
        tolerances: Some((context.tolerances.up, context.tolerances.down)),
        rule: Some(proposal.rule),
        proposed_replicas: Some(proposal.replicas),
        pods: proposal.pods,
        error: None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::{
        api::Scale,
        metric::query,
        readings::MetricsApi,
        settings::{Readiness, Tolerances},
    };

    /// External metrics m0, m1, … with an average target of 1 per replica that propose these replicas, or fail.
    fn combination(proposals: &[Option<i64>], current: i32) -> Combination {
        let spec = |index| {
            let target = json!({ "type": "AverageValue", "averageValue": "1" });
            let external = json!({ "metric": { "name": format!("m{index}") }, "target": target });
            serde_json::from_value(json!({ "type": "External", "external": external })).unwrap()
        };
        let specs: Vec<MetricSpec> = (0..proposals.len()).map(spec).collect();
        let queries: Vec<_> = specs.iter().map(query).collect();
        let readings = proposals.iter().map(|proposal| {
            let values = proposal.map(|replicas| Reading::External(vec![replicas * 1000]));
            Some(values.ok_or(ReadError::Empty(MetricsApi::External)))
        });
        // Without replicas in the status nothing is within tolerance.
        let scale = Scale { spec_replicas: current, status_replicas: 0, selector: String::new() };
        let context = Context {
            namespace: "ns",
            scale: &scale,
            pods: &[],
            tolerances: Tolerances { up: 0.1, down: 0.1 },
            readiness: Readiness {
                now: Timestamp::UNIX_EPOCH,
                cpu_initialization_period: SignedDuration::ZERO,
                initial_readiness_delay: SignedDuration::ZERO,
            },
        };
        combine(&specs, &queries, readings.collect(), &context)
    }

    #[rstest]
    #[case::one(&[3], 3, 0)]
    #[case::larger(&[2, 3], 3, 1)]
    #[case::smaller(&[3, 2], 3, 0)]
    #[case::a_tie_goes_to_the_earlier(&[3, 3], 3, 0)]
    #[case::among_zeros_the_later_wins(&[0, 0, 0], 0, 2)]
    #[case::after_a_zero_the_later_wins(&[0, 1, 1], 1, 1)]
    #[case::a_zero_after_does_not(&[1, 0], 1, 0)]
    fn the_winner(#[case] proposals: &[i64], #[case] replicas: i32, #[case] winner: usize) {
        let proposals: Vec<_> = proposals.iter().copied().map(Some).collect();
        let combined = combination(&proposals, 1).result.ok().unwrap();
        assert_eq!(
            (combined.replicas, combined.winner, combined.error),
            (replicas, Some(winner), None)
        );
        assert_eq!(combined.metric, format!("external metric m{winner}(nil)"));
    }

    const FIRST_OF_TWO: &str = "invalid metrics (1 invalid out of 2), first error is: failed to get m1 external \
                                metric value: failed to get m1 external metric: unable to get external metric \
                                ns/m1/nil: no metrics returned from external metrics API";

    #[rstest]
    #[case::would_scale_up(3, 4)]
    #[case::would_stay(4, 4)]
    fn the_others_suffice_where_they_do_not_scale_down(
        #[case] current: i32,
        #[case] replicas: i64,
    ) {
        let Combination { result, statuses, events, .. } =
            combination(&[Some(replicas), None], current);
        let combined = result.ok().unwrap();
        assert_eq!(combined.replicas, 4);
        assert_eq!(combined.error.as_deref(), Some(FIRST_OF_TWO));
        assert_eq!(statuses.len(), 2);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].reason, EventReason::FailedGetExternalMetric);
        assert_eq!(
            events[0].message,
            "unable to get external metric ns/m1/nil: no metrics returned from external metrics API"
        );
    }

    #[test]
    fn they_do_not_where_they_would() {
        let failed = combination(&[Some(4), None], 5).result.err().unwrap();
        assert_eq!(failed.reason, ConditionReason::FailedGetExternalMetric);
        assert_eq!(failed.message, FIRST_OF_TWO);
    }

    #[test]
    fn all_failed() {
        let Combination { result, events, .. } = combination(&[None, None], 0);
        let message = result.err().unwrap().message;
        assert!(message.starts_with(
            "invalid metrics (2 invalid out of 2), first error is: failed to get m0 "
        ));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn no_metrics() {
        let failed = combination(&[], 0).result.err().unwrap();
        assert_eq!(
            (failed.cause.as_str(), failed.message.as_str()),
            ("no metrics are set", "no metrics are set")
        );
    }
}
