//! Combines all metrics into one proposal: the largest. Handles metrics that failed.

use crate::{
    api::{ConditionReason, MetricSpec, MetricStatus, MetricValueStatus},
    event::{Event, EventReason},
    explain::{
        ForecastExplanation, MetricExplanation, SettingEffect, TargetValue, counted, number,
        one_line,
    },
    fallback::{FallbackProposal, Fallbacks},
    forecast,
    metric::{
        EvaluatedMetric, FailedMetric, MetricContext, MetricSpecError, evaluate, metric_status,
    },
    readings::{LoadForecast, MetricForecast, MetricQuery, Readings},
    replicas::Proposal,
};

/// The combined result of all metrics.
pub(crate) struct CombinedMetrics {
    /// The largest proposal, and an error text if some metrics failed. `Err` if the metrics can't
    /// decide.
    pub(crate) result: Result<(LargestProposal, Option<String>), Undecided>,
    pub(crate) statuses: Vec<MetricStatus>,
    pub(crate) events: Vec<Event>,
    pub(crate) explanations: Vec<MetricExplanation>,
}

/// The largest proposal so far. As in the reference, any later proposal replaces one of 0 replicas.
#[derive(Default)]
pub(crate) struct LargestProposal {
    pub(crate) replicas: i32,
    /// The index of the metric.
    pub(crate) winner: Option<usize>,
    /// The name of the metric, its fallback or its forecast in conditions and events.
    pub(crate) metric: String,
    /// Whether it is the proposal of the metric's fallback.
    pub(crate) is_fallback: bool,
}

/// The reason why the metrics can't decide: there is no proposal, or a failed metric blocks a
/// scale-down.
pub(crate) struct Undecided {
    pub(crate) reason: ConditionReason,
    /// The error of the first failed metric, or the text that no metrics are set. It is part of the
    /// condition's message.
    pub(crate) cause: String,
    /// The error of the whole decision.
    pub(crate) message: String,
}

/// Evaluates every metric and combines the proposals.
///
/// The largest proposal wins. If some metrics failed, the others decide unless they would scale
/// down, since a failed metric might have asked for more (API reference of `spec.metrics`;
/// kubernetes#99514). A failed metric with an active fallback has a proposal, so it doesn't block a
/// scale-down.
pub(crate) fn combine(
    specs: &[MetricSpec],
    queries: &[Result<MetricQuery, MetricSpecError>],
    readings: Readings,
    context: &MetricContext<'_>,
    fallbacks: &mut Fallbacks<'_>,
    forecasts: &[Option<MetricForecast>],
) -> CombinedMetrics {
    let mut statuses = Vec::with_capacity(specs.len());
    let mut events = Vec::new();
    let mut explanations = Vec::with_capacity(specs.len());
    let mut largest = LargestProposal::default();
    let mut failures = Failures::default();
    let readings = readings.into_ordered();
    for (index, ((spec, query), reading)) in specs.iter().zip(queries).zip(readings).enumerate() {
        let context = &context.for_metric(index, spec);
        let evaluated = evaluate(spec, query, reading, context);
        let failure = evaluated.as_ref().err().map(|error| error.kind);
        let fallback = fallbacks.observe(index, spec, failure);
        match evaluated {
            Ok(evaluated) => {
                let EvaluatedMetric { proposal, name, target, current, effects } = evaluated;
                let forecast = forecasts.get(index).and_then(Option::as_ref);
                let forecast = forecast.filter(|_| fallback.is_none());
                let forecast = forecast::explain(forecast, &proposal, context);
                let explanation = explain(&name, &proposal, target, effects, context);
                explanations.push(MetricExplanation { forecast, ..explanation });
                statuses.push(metric_status(spec, current));
                if fallback.is_none() {
                    largest.add(index, proposal.replicas, name, false);
                }
            }
            Err(error) => {
                let reason = EventReason::for_failed_metric(&spec.source_type);
                events.push(Event::warning(reason, error.cause.clone()));
                explanations.push(MetricExplanation {
                    metric: spec.source_type.to_string(),
                    error: Some(one_line(without_empty_selector(&error.root)).into_owned()),
                    failure: Some(error.kind),
                    ..MetricExplanation::default()
                });
                statuses.push(metric_status(spec, MetricValueStatus::default()));
                failures.count += 1;
                failures.without_proposal += usize::from(fallback.is_none());
                failures.first.get_or_insert((reason, error));
            }
        }
        if let Some(FallbackProposal { replicas, name, effect }) = fallback {
            if let Some(explanation) = explanations.last_mut() {
                explanation.proposed_replicas = Some(replicas);
                explanation.effects.push(effect);
            }
            largest.add(index, replicas, name, true);
        }
    }
    largest.raise_by_forecasts(&mut explanations);
    let result = failures.resolve(largest, specs.len(), context.scale.spec_replicas);
    CombinedMetrics { result, statuses, events, explanations }
}

impl LargestProposal {
    fn add(&mut self, index: usize, replicas: i32, metric: String, is_fallback: bool) {
        if self.replicas == 0 || replicas > self.replicas {
            *self = Self { replicas, winner: Some(index), metric, is_fallback };
        }
    }

    /// Raises the proposal to that of the largest forecast, if the forecast asks for more replicas.
    /// If forecasts are only observed, explains the forecast and changes nothing.
    fn raise_by_forecasts(&mut self, explanations: &mut [MetricExplanation]) {
        let forecasts = explanations.iter().enumerate().filter_map(|(index, metric)| {
            let forecast = metric.forecast.as_deref()?;
            (forecast.proposed_replicas > self.replicas).then_some((index, *forecast))
        });
        // Of equal forecasts, the first one wins, as among proposals.
        let raised = forecasts.rev().max_by_key(|(_, forecast)| forecast.proposed_replicas);
        let Some((index, forecast)) = raised else { return };
        let Some(metric) = explanations.get_mut(index) else { return };
        let ForecastExplanation { forecast: LoadForecast { at, load, quantile, .. }, .. } =
            forecast;
        let replicas = forecast.proposed_replicas;
        let because = format!(
            "a load of {} at {at:.0} (now {}; quantile {}%)",
            number(load),
            number(forecast.load),
            number(quantile * 100.0)
        );
        let asked = counted(replicas, "replica");
        let text = if forecast.may_raise {
            *self = Self {
                replicas,
                winner: Some(index),
                metric: format!("the forecast of {}", metric.metric),
                is_fallback: false,
            };
            format!("{asked} for {because}")
        } else {
            format!("observed only; it would ask for {asked} for {because}")
        };
        metric.effects.push(SettingEffect { setting: "forecast", text });
    }
}

/// The metrics that failed.
#[derive(Default)]
struct Failures {
    /// The first one, with the reason of its event.
    first: Option<(EventReason, FailedMetric)>,
    count: usize,
    /// The number of failed metrics without an active fallback.
    without_proposal: usize,
}

impl Failures {
    /// Decides whether the largest proposal stands in spite of the failures. `total` is the number
    /// of metrics.
    fn resolve(
        self,
        largest: LargestProposal,
        total: usize,
        current: i32,
    ) -> Result<(LargestProposal, Option<String>), Undecided> {
        let Self { first, count, without_proposal } = self;
        if total == 0 {
            // The API server replaces an empty list by the default, so this spec doesn't come from
            // it. Without this check, the target would be scaled to `minReplicas`.
            let message = "no metrics are set".to_owned();
            return Err(Undecided {
                reason: ConditionReason::InvalidMetricSourceType,
                cause: message.clone(),
                message,
            });
        }
        let Some((reason, first)) = first else { return Ok((largest, None)) };
        let message = format!(
            "invalid metrics ({count} invalid out of {total}), first error is: {}",
            first.wrapped
        );
        let blocks_scale_down = without_proposal > 0 && largest.replicas < current;
        if without_proposal >= total || blocks_scale_down {
            // The condition has the same reason as the event.
            let reason = reason.as_str().into();
            return Err(Undecided { reason, cause: first.cause, message });
        }
        Ok((largest, Some(message)))
    }
}

/// Removes a trailing ` for `. The reference's errors about unknown metrics end with ` for ` and a
/// selector, and the selector may be empty.
pub(crate) fn without_empty_selector(error: &str) -> &str {
    error.strip_suffix(" for ").unwrap_or(error)
}

fn explain(
    name: &str,
    proposal: &Proposal,
    target: TargetValue,
    effects: Vec<SettingEffect>,
    context: &MetricContext<'_>,
) -> MetricExplanation {
    MetricExplanation {
        metric: name.to_owned(),
        usage: Some(proposal.usage),
        utilization: proposal.utilization,
        utilization_of: context.metric_settings.utilization_of,
        target: Some(target),
        ratio: Some(proposal.ratio),
        rebalanced_ratio: proposal.rebalanced_ratio,
        tolerances: Some((context.tolerances.up, context.tolerances.down)),
        rule: Some(proposal.rule),
        proposed_replicas: Some(proposal.replicas),
        pods: proposal.pods,
        counted_pods: proposal.counted_pods,
        total: proposal.total,
        effects,
        ..MetricExplanation::default()
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
        quantity::MilliValue,
        readings::{MetricsApi, ReadError, Reading},
        settings::{DEFAULT_METRIC_SETTINGS, ReadinessRules, Settings, Tolerances},
    };

    /// Combines External metrics m0, m1, … that propose these replicas, or fail if `None`.
    fn combine_external(proposals: &[Option<i64>], current: i32) -> CombinedMetrics {
        let spec = |index| {
            let target = json!({ "type": "AverageValue", "averageValue": "1" });
            let external = json!({ "metric": { "name": format!("m{index}") }, "target": target });
            serde_json::from_value(json!({ "type": "External", "external": external })).unwrap()
        };
        let specs: Vec<MetricSpec> = (0..proposals.len()).map(spec).collect();
        let queries: Vec<_> = specs.iter().map(query).collect();
        let readings = proposals.iter().map(|proposal| {
            let value = proposal.map(MilliValue::from_units);
            let reading = value.map(|value| Reading::External(vec![value].into()));
            reading.ok_or(ReadError::Empty(MetricsApi::External))
        });
        // With 0 `status.replicas`, no ratio is within tolerance.
        let scale = Scale { spec_replicas: current, status_replicas: 0, selector: String::new() };
        let context = MetricContext {
            namespace: "ns",
            scale: &scale,
            pods: &[],
            tolerances: Tolerances { up: 0.1, down: 0.1 },
            readiness: ReadinessRules {
                now: Timestamp::UNIX_EPOCH,
                cpu_initialization_period: SignedDuration::ZERO,
                initial_readiness_delay: SignedDuration::ZERO,
            },
            settings: &Settings::default(),
            metric_settings: &DEFAULT_METRIC_SETTINGS,
        };
        let (settings, now) = (Settings::default(), Timestamp::UNIX_EPOCH);
        let mut fallbacks = Fallbacks::new(&settings, Vec::new(), current, now);
        combine(&specs, &queries, readings.enumerate().collect(), &context, &mut fallbacks, &[])
    }

    #[rstest]
    #[case::one(&[3], 3, 0)]
    #[case::larger(&[2, 3], 3, 1)]
    #[case::smaller(&[3, 2], 3, 0)]
    #[case::tie_goes_to_the_first(&[3, 3], 3, 0)]
    #[case::last_of_zeros_wins(&[0, 0, 0], 0, 2)]
    #[case::later_one_replaces_zero(&[0, 1, 1], 1, 1)]
    #[case::later_zero_does_not_win(&[1, 0], 1, 0)]
    fn largest_proposal_wins(
        #[case] proposals: &[i64],
        #[case] replicas: i32,
        #[case] winner: usize,
    ) {
        let proposals: Vec<_> = proposals.iter().copied().map(Some).collect();
        let (largest, error) = combine_external(&proposals, 1).result.ok().unwrap();
        assert_eq!((largest.replicas, largest.winner, error), (replicas, Some(winner), None));
        assert_eq!(largest.metric, format!("external metric m{winner}(nil)"));
    }

    const ONE_OF_TWO_FAILED: &str = "invalid metrics (1 invalid out of 2), first error is: failed \
        to get m1 external metric value: failed to get m1 external metric: unable to get external \
        metric ns/m1/nil: no metrics returned from external metrics API";

    #[rstest]
    #[case::scales_up(3, 4)]
    #[case::stays(4, 4)]
    fn partial_failure_allows_scale_up(#[case] current: i32, #[case] replicas: i64) {
        let CombinedMetrics { result, statuses, events, .. } =
            combine_external(&[Some(replicas), None], current);
        let (largest, error) = result.ok().unwrap();
        assert_eq!(largest.replicas, 4);
        assert_eq!(error.as_deref(), Some(ONE_OF_TWO_FAILED));
        assert_eq!(statuses.len(), 2);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].reason, EventReason::FailedGetExternalMetric);
        assert_eq!(
            events[0].message,
            "unable to get external metric ns/m1/nil: no metrics returned from external metrics API"
        );
    }

    #[test]
    fn partial_failure_blocks_scale_down() {
        let failed = combine_external(&[Some(4), None], 5).result.err().unwrap();
        assert_eq!(failed.reason, ConditionReason::FailedGetExternalMetric);
        assert_eq!(failed.message, ONE_OF_TWO_FAILED);
    }

    #[test]
    fn no_proposal_when_all_metrics_failed() {
        let CombinedMetrics { result, events, .. } = combine_external(&[None, None], 0);
        let message = result.err().unwrap().message;
        assert!(message.starts_with(
            "invalid metrics (2 invalid out of 2), first error is: failed to get m0 "
        ));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn no_proposal_without_metrics() {
        let failed = combine_external(&[], 0).result.err().unwrap();
        assert_eq!(
            (failed.cause.as_str(), failed.message.as_str()),
            ("no metrics are set", "no metrics are set")
        );
    }
}
