//! Forecasts for an autoscaler that has the setting `forecast`.
//!
//! The forecasts learn from the load of the workload, in the four weeks before the start and during
//! the run. Metrics are assumed to be proportional to the load. The gate, which checks whether
//! forecasts help, runs for each metric at its first reading under a load and then daily.

use std::collections::VecDeque;

use hpa_calc::{MetricForecast, Plan, Readings, Settings, replicas::Load};
use hpa_forecast::{
    ForecastInput, GateDecision, GateSettings, HISTORY_DAYS, History, Model, Trace, Workload,
    decide,
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    file::Variant,
    workload::{
        scenario::{PAST_MINUTES, PAST_SECONDS},
        seconds::{MINUTE, Seconds, timestamp_at},
    },
};

/// The time between two decisions of the gate about a metric.
const GATE_INTERVAL: SignedDuration = SignedDuration::from_hours(24);
/// The time between two samples of the load.
const SAMPLE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

/// The forecasts of all metrics.
pub(crate) struct Forecasts<'a> {
    variant: &'a Variant,
    settings: Settings,
    /// The load of the workload in the past four weeks, in order of time.
    loads: VecDeque<(Timestamp, f64)>,
    /// The metrics of `spec.metrics`. `None` before the first reading of a metric under a load.
    metrics: Vec<Option<MetricState>>,
}

/// The history of a metric, and the last decision of the gate.
struct MetricState {
    /// The metric per unit of load.
    per_load: f64,
    history: History,
    decision: GateDecision,
    decided_at: Timestamp,
}

impl<'a> Forecasts<'a> {
    /// Returns `None` if forecasts are off.
    pub(crate) fn new(variant: &'a Variant, settings: &Settings, start: Timestamp) -> Option<Self> {
        settings.forecasts.is_on().then(|| Self {
            variant,
            settings: settings.clone(),
            loads: past_loads(variant, start).collect(),
            metrics: variant.autoscaler.spec.metrics.iter().map(|_| None).collect(),
        })
    }

    /// Records the true load of the workload, and adds forecasts to the readings.
    pub(crate) fn add_to(
        &mut self,
        readings: &mut Readings,
        plan: &Plan<'_>,
        load: f64,
        now: Timestamp,
    ) {
        self.record_load(load, now);
        let metric_loads = plan.loads(readings, self.metrics.len(), now);
        for (index, metric_load) in metric_loads.into_iter().enumerate() {
            let Some(metric_load) = metric_load else { continue };
            if let Some(forecast) = self.forecast(index, metric_load, load, now) {
                readings.insert_forecast(index, forecast);
            }
        }
    }

    /// Adds the load to the histories, at most once a minute.
    fn record_load(&mut self, load: f64, now: Timestamp) {
        let last = self.loads.back();
        if last.is_some_and(|(last, _)| now.duration_since(*last) < SAMPLE_INTERVAL) {
            return;
        }
        self.loads.push_back((now, load));
        if self.loads.len() > PAST_MINUTES as usize {
            self.loads.pop_front();
        }
        for metric in self.metrics.iter_mut().flatten() {
            metric.history.add(now, load * metric.per_load);
        }
    }

    /// The forecast of a metric. Renews the decision of the gate if it is a day old. `None` until
    /// there is a first decision.
    fn forecast(
        &mut self,
        index: usize,
        metric_load: Load,
        load: f64,
        now: Timestamp,
    ) -> Option<MetricForecast> {
        let settings = gate_settings(self.variant, &self.settings, metric_load.per_replica);
        let state = self.metrics.get_mut(index)?;
        let is_due = |state: &MetricState| now.duration_since(state.decided_at) >= GATE_INTERVAL;
        if state.as_ref().is_none_or(is_due) {
            let per_load = match state {
                Some(state) => state.per_load,
                None if load > 0.0 && metric_load.total > 0.0 => metric_load.total / load,
                // Without a ratio to the load, the metric's past can't be computed.
                None => return None,
            };
            *state = Some(MetricState::new(&self.loads, per_load, &settings, now));
        }
        state.as_ref()?.forecast(metric_load.total, &settings, now)
    }
}

/// The settings of the gate for a metric with `target` as the target value per pod.
fn gate_settings(variant: &Variant, settings: &Settings, target: f64) -> GateSettings {
    let profile = variant.profile();
    let startup = profile.scheduling.get() + profile.starting.get() + profile.readiness.get();
    let startup = Seconds::new(startup).to_duration();
    let workload = Workload { startup, ..Workload::for_hpa(&variant.autoscaler, settings, target) };
    // As in `hpa run`, the controller's sync period counts, even if the autoscaler sets another.
    let period = variant.controller.sync_period.to_duration();
    let horizon = startup.saturating_add(workload.delay).saturating_add(period);
    let forecasts = &settings.forecasts;
    GateSettings {
        horizon: forecasts.horizon.unwrap_or(horizon),
        quantile: forecasts.quantile.unwrap_or(GateSettings::DEFAULT_QUANTILE),
        ..GateSettings::new(workload, TimeZone::UTC)
    }
}

impl MetricState {
    fn new(
        loads: &VecDeque<(Timestamp, f64)>,
        per_load: f64,
        settings: &GateSettings,
        now: Timestamp,
    ) -> Self {
        let trace = Trace::new(loads.iter().map(|(at, load)| (*at, load * per_load)));
        let mut history = History::new(HISTORY_DAYS);
        for (at, load) in loads {
            history.add(*at, load * per_load);
        }
        let decision = if settings.workload.target > 0.0 {
            decide(&trace, settings)
        } else {
            GateDecision::NOT_ENOUGH_HISTORY
        };
        Self { per_load, history, decision, decided_at: now }
    }

    /// `metric_load` is the measured load of the metric, from which the forecast starts.
    fn forecast(
        &self,
        metric_load: f64,
        settings: &GateSettings,
        now: Timestamp,
    ) -> Option<MetricForecast> {
        let Self { decision, history, .. } = self;
        let model = decision.choice.map_or_else(Model::default, |choice| choice.model);
        let GateSettings { horizon, zone, .. } = settings;
        let measured = now.checked_sub(settings.workload.delay).ok()?;
        let input =
            ForecastInput { now: measured, load: metric_load, horizon: *horizon, zone, model };
        let forecast = history.forecast(&input);
        let forecast = forecast.map(|forecast| forecast.at_quantile(settings.quantile));
        let text = decision.text().into();
        Some(MetricForecast { reason: decision.reason, text, forecast })
    }
}

/// Whether forecasts of the workload's load would have helped in the weeks before the start.
pub(crate) fn would_help(variant: &Variant) -> bool {
    let target = variant.profile().effective_target_load();
    let settings = gate_settings(variant, &variant.settings(), target);
    let trace = Trace::new(past_loads(variant, variant.start));
    decide(&trace, &settings).reason.is_active()
}

/// The load in each minute of the four weeks before the start.
fn past_loads(variant: &Variant, start: Timestamp) -> impl Iterator<Item = (Timestamp, f64)> {
    (0..PAST_MINUTES).map(move |minute| {
        let second = f64::from(minute) * MINUTE - PAST_SECONDS;
        let queues = variant.scenario.queues.iter();
        let arriving: f64 = queues.map(|queue| queue.arrivals.at(second)).sum();
        (timestamp_at(start, second), variant.workload.load_at(second) + arriving)
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{ControllerSettings, Run, RunOptions, ScenarioFile};

    fn morning_text() -> String {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulate");
        fs::read_to_string(examples.join("morning.yaml")).unwrap()
    }

    fn morning_scenario() -> ScenarioFile {
        ScenarioFile::parse_alone(&morning_text()).unwrap()
    }

    fn run(mut variant: Variant, change: impl FnOnce(&mut Variant)) -> Run {
        change(&mut variant);
        variant.run_with(RunOptions::default())
    }

    #[test]
    fn forecast_scales_earlier_and_halves_the_overload() {
        let scenario_file = morning_scenario();
        let [base, forecast, ..] = &*scenario_file.variants else { panic!() };
        let (reactive, forecast) = (run(base.clone(), |_| {}), run(forecast.clone(), |_| {}));
        let overload = |run: &Run| run.outcome.overload.seconds;
        assert!(overload(&forecast) * 2.0 < overload(&reactive), "{:?}", forecast.outcome);
        let scale_up = |run: Run| run.steps.into_iter().find(|step| step.to > step.from).unwrap();
        let (reactive, forecast) = (scale_up(reactive), scale_up(forecast));
        assert!(forecast.second < reactive.second);
        assert!(forecast.sentence.contains("forecast: "), "{forecast:?}");
    }

    #[test]
    fn would_help_is_false_for_a_constant_or_tolerated_load() {
        let mut base = morning_scenario().variants.swap_remove(0);
        assert!(would_help(&base));
        let tolerant = ControllerSettings { tolerance: 3.0, ..base.controller.clone() };
        assert!(!would_help(&Variant { controller: tolerant, ..base.clone() }), "never scaled");
        base.workload.past = Some(crate::workload::load::Load::Constant(300.0));
        assert!(!would_help(&base));
    }

    #[test]
    fn would_help_counts_arrivals_of_queues_as_load() {
        let text = morning_text();
        let (base, load) = text.split_once("  load:\n").unwrap();
        let (load, rest) = load.split_once("metrics:\n  resource").unwrap();
        let queue = "queues:\n- name: orders\n  metric: orders\n  arrivals:\n";
        let text = format!("{base}{queue}{load}metrics:\n  resource{rest}");
        let scenario_file = ScenarioFile::parse_alone(&text).unwrap();
        assert!(would_help(&scenario_file.variants[0]));
    }

    #[test]
    fn constant_past_load_is_not_forecast() {
        let scenario_file = morning_scenario();
        let [base, forecast, ..] = &*scenario_file.variants else { panic!() };
        let constant = |variant: &mut Variant| {
            variant.workload.past = Some(crate::workload::load::Load::Constant(300.0));
        };
        assert_eq!(run(forecast.clone(), constant).steps, run(base.clone(), constant).steps);
    }

    #[test]
    fn forecast_in_observe_mode_does_not_change_the_run() {
        let scenario_file = morning_scenario();
        let [base, forecast, ..] = &*scenario_file.variants else { panic!() };
        let observe = |variant: &mut Variant| {
            let annotations = &mut variant.autoscaler.metadata.annotations;
            let name = "autoscaling.hpa-rs.dev/forecast".to_owned();
            assert!(annotations.insert(name, "observe".to_owned()).is_some());
        };
        let (observed, reactive) = (run(forecast.clone(), observe), run(base.clone(), |_| {}));
        assert_eq!(observed.outcome, reactive.outcome);
    }
}
