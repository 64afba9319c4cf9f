//! Forecasts of metrics: an additional proposal for each metric, for its forecast load.
//!
//! The caller makes the forecasts, of the loads that [`Plan::loads`] returns, and decides whether
//! they are trusted. This module converts the forecast load of a metric to replicas, by the
//! metric's own target and tolerance. The largest such proposal counts if it is above all others,
//! so a forecast can raise the desired replicas and never lower them. With
//! [`ForecastMode::Observe`], it is only explained. Bounds, policies, stabilization and pauses
//! apply to it as to every proposal.
//!
//! If a metric failed or its fallback is active, its forecast is ignored, because its load is not
//! known.

use jiff::Timestamp;

use crate::{
    api::ConditionType,
    decision::Decision,
    event::{Event, EventReason},
    explain::ForecastExplanation,
    go_text,
    metric::{MetricContext, evaluate},
    plan::Plan,
    readings::{MetricForecast, Readings},
    replicas::{Load, Proposal, ceil_to_replicas},
    settings::ForecastMode,
};

/// The maximum length of the condition's message, in characters.
const MAX_MESSAGE_LEN: usize = 1000;
/// The needed replicas are rounded to a whole number of these parts of a pod before they are
/// rounded up. Otherwise, a rounding error of the calculation might add a pod.
const PARTS_PER_POD: f64 = 1e4;

impl Plan<'_> {
    /// The measured loads of the first `count` metrics of `spec.metrics`. Forecasts start from
    /// them. `None` for a metric that failed, or whose load is negative or not finite. Empty if no
    /// metrics are needed.
    pub fn loads(&self, readings: &Readings, count: usize, now: Timestamp) -> Vec<Option<Load>> {
        let Some(plan) = self.metrics() else { return Vec::new() };
        let context = plan.context(self.hpa, self.settings, &self.scale, now);
        let readings = readings.clone().of_counted_pods(self.settings, &plan.pods).into_ordered();
        let metrics = self.hpa.spec.metrics.iter().zip(&plan.queries).zip(readings).enumerate();
        let load = |(index, ((spec, query), reading))| {
            let evaluated =
                evaluate(spec, query, reading, &context.for_metric(index, spec)).ok()?;
            let load = evaluated.proposal.load;
            (load.total.is_finite() && load.total >= 0.0).then_some(load)
        };
        metrics.take(count).map(load).collect()
    }
}

/// The explanation of a metric's forecast, if forecasts of the metric are active.
pub(crate) fn explain(
    forecast: Option<&MetricForecast>,
    proposal: &Proposal,
    context: &MetricContext<'_>,
) -> Option<Box<ForecastExplanation>> {
    let MetricForecast { reason, forecast, .. } = forecast?;
    let forecast = (*forecast).filter(|_| reason.is_active())?;
    let Load { total: load, per_replica } = proposal.load;
    let proposed_replicas = propose(forecast.load, per_replica, context)?;
    let may_raise = context.settings.forecasts.mode == ForecastMode::Scale;
    Some(ForecastExplanation { load, per_replica, forecast, proposed_replicas, may_raise }.into())
}

/// The replicas for a forecast load, by the target (the load per replica), the tolerance and the
/// activation value of the metric. `None` if the load or the target is not usable.
fn propose(load: f64, per_replica: f64, context: &MetricContext<'_>) -> Option<i32> {
    let needed = (load / per_replica * PARTS_PER_POD).round() / PARTS_PER_POD;
    let is_valid = load.is_finite() && load >= 0.0 && per_replica > 0.0 && needed.is_finite();
    if !is_valid {
        return None;
    }
    let current = context.scale.spec_replicas;
    let activation = context.metric_settings.activation;
    if current == 0 && activation.is_some_and(|value| load * 1000.0 <= value.as_milli() as f64) {
        return Some(0);
    }
    if context.tolerances.contain(needed / f64::from(current)) {
        return Some(current);
    }
    Some(ceil_to_replicas(needed))
}

impl Decision<'_> {
    /// Sets the condition `ForecastActive`: true if the forecasts of any metric are active. Adds an
    /// event if that changes. The condition stays as it is if no forecasts are active and some
    /// metrics have no [`MetricForecast`]. Forecasts stay active while their metric can't be read,
    /// but have no effect.
    pub(crate) fn report_forecasts(&mut self, forecasts: &[Option<MetricForecast>]) {
        let metrics = self.hpa.spec.metrics.iter().zip(&self.explanation.metrics).zip(forecasts);
        let known: Vec<_> = metrics
            .filter_map(|((spec, metric), forecast)| {
                Some((spec.metric_name(), metric.error.is_some(), forecast.as_ref()?))
            })
            .collect();
        let is_active = known.iter().any(|(.., forecast)| forecast.reason.is_active());
        let is_complete = known.len() >= self.hpa.spec.metrics.len();
        if !is_active && !is_complete {
            return;
        }
        // `None` if no metric has a forecast.
        let decisive = known.iter().find(|(.., forecast)| forecast.reason.is_active() == is_active);
        let Some((.., MetricForecast { reason, .. })) = decisive else { return };
        let texts = known.iter().map(|(name, has_failed, MetricForecast { reason, text, .. })| {
            let effect = if *has_failed && reason.is_active() {
                ", without effect while the metric has no value"
            } else {
                ""
            };
            format!("{name}: {text}{effect}")
        });
        let mut message = texts.collect::<Vec<_>>().join("; ");
        if is_active && self.settings.forecasts.mode == ForecastMode::Observe {
            message.push_str("; observed only, the replicas don't change");
        }
        let message = go_text::truncate(message, MAX_MESSAGE_LEN);
        let was_active = self.hpa.status.is_true(&ConditionType::ForecastActive);
        if is_active != was_active {
            let reason =
                if is_active { EventReason::ForecastStarted } else { EventReason::ForecastStopped };
            self.events.push(Event::normal(reason, message.clone()));
        }
        self.draft.set(ConditionType::ForecastActive, is_active, (*reason).into(), message);
    }

    /// Removes the condition if forecasts are off.
    pub(crate) fn clear_forecast_condition(&mut self) {
        if !self.settings.forecasts.is_on() {
            self.draft.remove(&ConditionType::ForecastActive);
        }
    }
}
