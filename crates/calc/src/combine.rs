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
struct Lead {
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
    let mut lead = Lead::default();
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
                    lead = Lead { replicas: proposal.replicas, winner: Some(index), metric: name };
                }
            }
            Err(invalid) => {
                events.push(Event::warning(EventReason::of_failed(&spec.source_type), invalid.cause.clone()));
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
    lead: Lead,
    first_failed: Option<Invalid>,
    failed: usize,
    all: usize,
    current: i32,
) -> Result<Combined, Failed> {
    let Lead { replicas, winner, metric } = lead;
    if all == 0 {
        // No API server lets this pass; without it a spec without metrics would be scaled to its minimum.
        let message = "no metrics are set".to_owned();
        return Err(Failed { reason: ConditionReason::InvalidMetricSourceType, cause: message.clone(), message });
    }
    let Some(first) = first_failed else { return Ok(Combined { replicas, winner, metric, error: None }) };
    let message = format!("invalid metrics ({failed} invalid out of {all}), first error is: {}", first.wrapped);
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
