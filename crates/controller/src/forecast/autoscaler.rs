//! The forecasts of one autoscaler.

use std::sync::Arc;

use hpa_calc::{
    ForecastReason, HorizontalPodAutoscaler, MetricForecast, Plan, Pod, Readings, Settings,
    api::{CrossVersionObjectReference, MetricSpec, MetricTarget},
};
use hpa_forecast::{GateDecision, GateSettings, Trace, Workload};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use tokio::time::Instant;

use super::{
    CHECK_PERIOD, FIRST_CHECK_PERIOD, Forecasts, MAX_FORECAST_METRICS, MAX_HISTORIES, METRIC_DELAY,
    PastError,
    metric::{ForecastParameters, MetricState, Past},
    startup::{ReadyPods, Startups},
};
use crate::settings::SyncPeriod;

/// The state of one autoscaler's forecasts. If the target changes, the histories of all metrics are
/// dropped. If a metric of the spec changes in more than its target value, only its own history is
/// dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutoscalerForecasts {
    target: CrossVersionObjectReference,
    pub(super) specs: Vec<MetricSpec>,
    /// For the first [`MAX_FORECAST_METRICS`] specs. `None` before the first load, and while all
    /// [`MAX_HISTORIES`], or the namespace's half of them, are in use.
    pub(super) metrics: Vec<Option<MetricState>>,
    /// The start of the most recent check that was the first one of its metric.
    last_first_check: Option<Instant>,
    startups: Startups,
    /// The parameters of the last reconcile.
    pub(super) parameters: Option<ForecastParameters>,
}

/// The inputs of a reconcile from which loads are derived.
pub(crate) struct LoadObservation<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) pods: &'a [Arc<Pod>],
    pub(crate) now: Timestamp,
}

/// A check that is due.
pub(crate) struct Check {
    /// The index in `spec.metrics`.
    pub(crate) metric_index: usize,
    spec: MetricSpec,
    pub(crate) settings: GateSettings,
    /// The loads in the metric's history, for a metric that no source has.
    pub(crate) observed_past: Trace,
}

impl AutoscalerForecasts {
    /// Adds the loads of the readings to the histories, and the forecasts to the readings.
    pub(crate) fn observe(
        &mut self,
        shared: &Forecasts,
        observation: &LoadObservation<'_>,
        readings: &mut Readings,
    ) {
        let LoadObservation { hpa, settings, plan, pods, now } = *observation;
        self.update_spec(hpa);
        self.startups.observe(&ReadyPods::new(pods.iter().map(AsRef::as_ref)), now);
        let loads = plan.loads(readings, MAX_FORECAST_METRICS, now);
        let parameters = self.parameters(shared, settings);
        let next_check = self.next_first_check();
        for (index, metric) in self.metrics.iter_mut().enumerate() {
            let load = loads.get(index).copied().flatten();
            if metric.is_none() && load.is_some() {
                let permit = shared.histories.try_acquire(&hpa.metadata.namespace);
                *metric = permit.map(|permit| MetricState::new(permit, next_check));
                match metric {
                    Some(_) => shared.check_request.notify_one(),
                    None => readings.insert_forecast(index, over_limit_forecast()),
                }
            }
            let Some(metric) = metric else { continue };
            if let Some(load) = load {
                metric.add(load, now);
            }
            if let Some(forecast) = metric.forecast(load, &parameters, now) {
                readings.insert_forecast(index, forecast);
            }
        }
        for index in self.metrics.len()..self.specs.len() {
            readings.insert_forecast(index, over_limit_forecast());
        }
        self.parameters = Some(parameters);
    }

    /// Drops the histories of other metrics or of another target.
    fn update_spec(&mut self, hpa: &HorizontalPodAutoscaler) {
        let spec = &hpa.spec;
        if self.target == spec.scale_target_ref && self.specs == spec.metrics {
            return;
        }
        if self.target != spec.scale_target_ref {
            let target = spec.scale_target_ref.clone();
            let last_first_check = self.last_first_check;
            *self = Self { target, last_first_check, ..Self::default() };
        }
        let mut previous: Vec<_> = std::mem::take(&mut self.specs)
            .into_iter()
            .zip(std::mem::take(&mut self.metrics))
            .collect();
        for metric in spec.metrics.iter().take(MAX_FORECAST_METRICS) {
            let same =
                previous.iter().position(|(other, _)| are_equal_except_target(other, metric));
            self.metrics.push(same.and_then(|index| previous.swap_remove(index).1));
        }
        self.specs.clone_from(&spec.metrics);
    }

    /// The time for the first check of a metric that has its first load now.
    fn next_first_check(&self) -> Instant {
        let now = Instant::now();
        self.last_first_check.map_or(now, |last| now.max(last + FIRST_CHECK_PERIOD))
    }

    fn parameters(&self, shared: &Forecasts, settings: &Settings) -> ForecastParameters {
        let horizon = settings.forecasts.horizon;
        ForecastParameters {
            horizon: horizon.unwrap_or_else(|| self.measured_horizon(shared)),
            quantile: settings.forecasts.quantile.unwrap_or(GateSettings::DEFAULT_QUANTILE),
            zone: shared.zone(settings),
            sync_period: SyncPeriod::new(shared.sync_period, settings)
                .length()
                .try_into()
                .unwrap_or(SignedDuration::MAX),
        }
    }

    /// The start-up time of pods, plus the age of the metric and the controller's sync period.
    fn measured_horizon(&self, shared: &Forecasts) -> SignedDuration {
        let period = SignedDuration::try_from(shared.sync_period).unwrap_or(SignedDuration::MAX);
        self.startups.median().saturating_add(METRIC_DELAY).saturating_add(period)
    }

    /// Records that the target was scaled.
    pub(crate) fn scaled(&mut self, from: i32, to: i32, at: Timestamp) {
        if to > from {
            self.startups.scaled_up(to, at);
        } else {
            self.startups.scaled_down();
        }
    }

    /// Starts the check of the next metric that is due. The metric is not due again until
    /// [`Self::finish_check`]. `None` if no metric is due, or if no reconcile has observed the
    /// metrics of this `hpa` yet, because the check names a metric by its index.
    pub(crate) fn start_due_check(
        &mut self,
        shared: &Forecasts,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
    ) -> Option<Check> {
        if self.target != hpa.spec.scale_target_ref || self.specs != hpa.spec.metrics {
            return None;
        }
        let ForecastParameters { horizon, quantile, zone, .. } = self.parameters(shared, settings);
        let startup = self.startups.median();
        let is_due =
            |metric: &MetricState| !metric.is_being_checked && metric.next_check <= Instant::now();
        for (index, metric) in self.metrics.iter_mut().enumerate() {
            let Some(metric) = metric.as_mut().filter(|metric| is_due(metric)) else { continue };
            // The load per replica at the target is unknown until a load was read.
            let load = metric.last_load.map(|(_, load)| load).filter(|load| load.per_replica > 0.0);
            let Some(load) = load else { continue };
            let Some(spec) = self.specs.get(index).cloned() else { continue };
            let workload = Workload {
                startup,
                delay: METRIC_DELAY,
                ..Workload::for_hpa(hpa, settings, load.per_replica)
            };
            let settings = GateSettings {
                horizon,
                quantile,
                ..GateSettings::new(workload, TimeZone::clone(&zone))
            };
            metric.is_being_checked = true;
            if !metric.has_been_checked() {
                self.last_first_check = Some(Instant::now());
            }
            let observed_past = metric.observed_past();
            return Some(Check { metric_index: index, spec, settings, observed_past });
        }
        None
    }

    /// The time when the next check is due. Checks in progress don't count.
    pub(crate) fn next_check(&self) -> Option<Instant> {
        let metrics = self.metrics.iter().flatten();
        metrics.filter(|metric| !metric.is_being_checked).map(|metric| metric.next_check).min()
    }

    /// Stores the result of a check: the decision with the past that it was made on, or the error.
    /// After the first successful check, the next one follows after the fraction `spread` of the
    /// period, at least a tenth. A failed check is retried with a backoff.
    pub(crate) fn finish_check(
        &mut self,
        check: &Check,
        result: Result<(GateDecision, Past), PastError>,
        spread: f64,
        now: Timestamp,
    ) {
        let metrics = self.specs.iter().zip(&mut self.metrics);
        let mut metrics = metrics.filter_map(|(spec, metric)| Some((spec, metric.as_mut()?)));
        // The spec may have changed since the check started.
        let checked_metric = metrics.find(|(spec, metric)| {
            metric.is_being_checked && are_equal_except_target(spec, &check.spec)
        });
        let Some((_, metric)) = checked_metric else { return };
        metric.is_being_checked = false;
        let delay = match result {
            Ok((decision, past)) => {
                let is_first = metric.last_check.is_none();
                metric.set_check_result(decision, past, now);
                if is_first { CHECK_PERIOD.mul_f64(spread.clamp(0.1, 1.0)) } else { CHECK_PERIOD }
            }
            Err(error) => metric.set_failed(&error),
        };
        metric.next_check = Instant::now() + delay;
    }

    /// For each metric that was checked, the reason why forecasts are used or not.
    pub(crate) fn reasons(&self, now: Timestamp) -> impl Iterator<Item = ForecastReason> + '_ {
        let metrics = self.metrics.iter().flatten();
        metrics.filter_map(move |metric| metric.reason_and_text(now).map(|(reason, _)| reason))
    }
}

/// The reason why a metric has no history, and so no forecast: the limits are reached.
fn over_limit_forecast() -> MetricForecast {
    let text = format!(
        "forecasts are limited to the first {MAX_FORECAST_METRICS} metrics of an autoscaler, to \
         {MAX_HISTORIES} metrics of the controller, and to half of them in one namespace"
    );
    let (reason, forecast) = (ForecastReason::NotEnoughHistory, None);
    MetricForecast { reason, text: text.into(), forecast }
}

/// Whether two metrics differ at most in their targets.
fn are_equal_except_target(one: &MetricSpec, other: &MetricSpec) -> bool {
    let without_target = |spec: &MetricSpec| {
        let mut spec = spec.clone();
        if let Some(target) = spec.target_mut() {
            *target = MetricTarget::default();
        }
        spec
    };
    one == other || without_target(one) == without_target(other)
}
