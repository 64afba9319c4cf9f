//! Forecasts of metrics: an additional proposal for each metric, for its forecast load.
//!
//! The caller forecasts and decides whether forecasts are trusted; [`Plan::loads`] are the loads to
//! forecast. Here, the forecast load of a metric becomes replicas by the metric's own target and
//! tolerance. The largest such proposal counts if it is above all others, so a forecast can raise
//! the desired replicas and never lower them. Bounds, policies, stabilization and pauses apply to
//! it as to every proposal.
//!
//! A metric that failed, or whose fallback is active, has no forecast: its load is not known.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{ConditionReason, ConditionType},
    combine::LargestProposal,
    decide::Decision,
    event::{Event, EventReason},
    explain::{ForecastExplanation, MetricExplanation, SettingEffect, counted, number},
    go_text,
    metric::{Context, evaluate},
    plan::{Plan, PlanKind},
    readings::Readings,
    replicas::{Load, Proposal, ceil_to_replicas},
    settings::Forecasting,
};

/// The name of the setting.
const SETTING: &str = "forecast";
/// The maximum length of the condition's message, in characters.
const MAX_MESSAGE_LEN: usize = 1000;
/// The parts of a pod to which needed replicas are rounded. Otherwise, a rounding error of a
/// calculation might add a pod.
const PARTS_PER_POD: f64 = 1e4;

/// Whether the load of a metric is forecast, and its forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricForecast {
    /// Whether forecasts count, and why.
    pub reason: ForecastReason,
    /// The reason in words, for the condition. It should rarely change.
    pub text: Arc<str>,
    /// The forecast, if there is one for now. It counts only if [`Self::reason`] says so.
    pub forecast: Option<LoadForecast>,
}

/// The reason for which forecasts of a metric count or not, as in the condition `ForecastActive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ForecastReason {
    /// Forecasts would have helped in the past, so they count.
    Forecasting,
    /// The history is too short or incomplete.
    NotEnoughHistory,
    /// The load doesn't depend on the time of day or the day of the week.
    NoSeason,
    /// Forecasts would not have helped.
    NoBenefit,
    /// The past load can't be read.
    SourceFailed,
}

/// The load of a metric at a future time, in the metric's own unit over all pods.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadForecast {
    /// The forecast time.
    pub at: Timestamp,
    /// The load that is not exceeded with the probability `quantile`.
    #[serde(rename = "forecastLoad")]
    pub load: f64,
    /// The quantile, from 0 to 1.
    pub quantile: f64,
    /// The number of past days that the forecast uses.
    pub days: usize,
}

impl ForecastReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Forecasting,
        Self::NotEnoughHistory,
        Self::NoSeason,
        Self::NoBenefit,
        Self::SourceFailed,
    ];

    /// Whether forecasts count.
    pub fn is_active(self) -> bool {
        self == Self::Forecasting
    }

    /// The reason of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forecasting => "Forecasting",
            Self::NotEnoughHistory => "NotEnoughHistory",
            Self::NoSeason => "NoSeason",
            Self::NoBenefit => "NoBenefit",
            Self::SourceFailed => "SourceFailed",
        }
    }
}

impl From<ForecastReason> for ConditionReason {
    fn from(reason: ForecastReason) -> Self {
        match reason {
            ForecastReason::Forecasting => Self::Forecasting,
            ForecastReason::NotEnoughHistory => Self::NotEnoughHistory,
            ForecastReason::NoSeason => Self::NoSeason,
            ForecastReason::NoBenefit => Self::NoBenefit,
            ForecastReason::SourceFailed => Self::SourceFailed,
        }
    }
}

impl Plan<'_> {
    /// The measured loads of the first `count` metrics, in the order of `spec.metrics`. Forecasts
    /// start from them. `None` for metrics that failed.
    pub fn loads(&self, readings: &Readings, count: usize, now: Timestamp) -> Vec<Option<Load>> {
        let PlanKind::Metrics(plan) = &self.kind else { return Vec::new() };
        let context = self.context(plan, now);
        let readings = readings.clone().of_plan(self.settings, &plan.pods).into_ordered();
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
    context: &Context<'_>,
) -> Option<Box<ForecastExplanation>> {
    let MetricForecast { reason, forecast, .. } = forecast?;
    let forecast = (*forecast).filter(|_| reason.is_active())?;
    let proposed_replicas = propose(forecast.load, proposal.load, context)?;
    let Load { total: load, per_replica } = proposal.load;
    let counts = context.settings.forecasts.mode == Forecasting::Scale;
    Some(ForecastExplanation { load, per_replica, forecast, proposed_replicas, counts }.into())
}

/// The replicas for a load, by the target and the tolerance of the metric.
fn propose(load: f64, Load { per_replica, .. }: Load, context: &Context<'_>) -> Option<i32> {
    let is_valid = load.is_finite() && load >= 0.0 && per_replica > 0.0;
    let current = context.scale.spec_replicas;
    let needed = (load / per_replica * PARTS_PER_POD).round() / PARTS_PER_POD;
    if !is_valid || !needed.is_finite() {
        return None;
    }
    let is_below_activation =
        || context.metric.activation.is_some_and(|least| load * 1000.0 <= least.as_milli() as f64);
    if current == 0 && is_below_activation() {
        return Some(0);
    }
    if context.tolerances.contain(needed / f64::from(current)) {
        return Some(current);
    }
    Some(ceil_to_replicas(needed))
}

/// Replaces the largest proposal by that of a forecast, if that is larger, or explains it if
/// forecasts are only observed.
pub(crate) fn raise(largest: &mut LargestProposal, explanations: &mut [MetricExplanation]) {
    let forecasts = explanations.iter().enumerate().filter_map(|(index, metric)| {
        let forecast = metric.forecast.as_deref()?;
        (forecast.proposed_replicas > largest.replicas).then_some((index, *forecast))
    });
    // The first one of the largest, as among proposals.
    let raised = forecasts.rev().max_by_key(|(_, forecast)| forecast.proposed_replicas);
    let Some((index, forecast)) = raised else { return };
    let Some(metric) = explanations.get_mut(index) else { return };
    let ForecastExplanation { forecast: LoadForecast { at, load, quantile, .. }, .. } = forecast;
    let replicas = forecast.proposed_replicas;
    let because = format!(
        "a load of {} at {at:.0} (now {}; quantile {})",
        number(load),
        number(forecast.load),
        number(quantile * 100.0) + "%"
    );
    let asked = counted(replicas, "replica");
    let text = if forecast.counts {
        *largest = LargestProposal {
            replicas,
            winner: Some(index),
            metric: format!("the forecast of {}", metric.metric),
            is_fallback: false,
        };
        format!("{asked} for {because}")
    } else {
        format!("observed only; it would ask for {asked} for {because}")
    };
    metric.effects.push(SettingEffect { setting: SETTING, text });
}

impl Decision<'_> {
    /// Reports whether forecasts are used, for each metric of the spec that has a state. If none
    /// has one, the condition stays as it is.
    pub(crate) fn report_forecasts(&mut self, forecasts: &[Option<MetricForecast>]) {
        let metrics = self.hpa.spec.metrics.iter().zip(forecasts);
        let known: Vec<_> = metrics
            .filter_map(|(spec, forecast)| Some((spec.metric_name(), forecast.as_ref()?)))
            .collect();
        let is_active = known.iter().any(|(_, forecast)| forecast.reason.is_active());
        let is_complete = known.len() >= self.hpa.spec.metrics.len();
        if known.is_empty() || !is_active && !is_complete {
            return;
        }
        let decisive = known.iter().find(|(_, it)| it.reason.is_active() == is_active);
        let Some((_, MetricForecast { reason, .. })) = decisive else { return };
        let texts = known.iter().map(|(name, forecast)| format!("{name}: {}", forecast.text));
        let mut message = texts.collect::<Vec<_>>().join("; ");
        if is_active && self.settings.forecasts.mode == Forecasting::Observe {
            message.push_str("; observed only, the answer doesn't change");
        }
        let message = go_text::cut(message, MAX_MESSAGE_LEN);
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
