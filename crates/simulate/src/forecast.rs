//! Forecasts of an autoscaler that has the setting `forecast`.
//!
//! They learn from the load of the workload, in the four weeks before the start and during the run.
//! A metric is taken to be proportional to it. The check whether forecasts help runs at the start
//! and then daily, as in the controller.

use std::collections::VecDeque;

use hpa_calc::{
    HorizontalPodAutoscaler, LoadForecast, MetricForecast, Plan, Readings, Settings, replicas::Load,
};
use hpa_forecast::{
    History, LEARNED_DAYS, Model, Question, Reason, Settings as GateSettings, Trace, Verdict,
    Workload, gate,
};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::{
    file::Variant,
    workload::seconds::{Seconds, timestamp_at},
};

/// The time before the start that [`crate::workload::scenario::WorkloadSpec::past`] describes.
const PAST_MINUTES: u32 = 28 * 24 * 60;
const SECONDS_PER_MINUTE: f64 = 60.0;
const SECONDS_PER_DAY: f64 = 86_400.0;

/// The forecasts of all metrics.
pub(crate) struct Forecasts {
    /// The load of the workload, in order of time.
    loads: VecDeque<(Timestamp, f64)>,
    startup: SignedDuration,
    period: SignedDuration,
    /// `None` before the first reading of the metric.
    metrics: Vec<Option<Metric>>,
}

struct Metric {
    /// The metric per unit of load.
    per_load: f64,
    history: History,
    verdict: Verdict,
    /// When the verdict was made, in seconds since the start.
    checked: f64,
}

/// The readings of a reconcile.
pub(crate) struct Reconcile<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) plan: &'a Plan<'a>,
    /// The true load of the workload.
    pub(crate) load: f64,
    /// Seconds since the start.
    pub(crate) second: f64,
    pub(crate) now: Timestamp,
}

impl Forecasts {
    /// `None` if forecasts are off.
    pub(crate) fn new(variant: &Variant, settings: &Settings, start: Timestamp) -> Option<Self> {
        if !settings.forecasts.is_on() {
            return None;
        }
        Some(Self {
            loads: past(variant, start).collect(),
            startup: startup(variant),
            period: span(variant.controller.sync_period.get()),
            metrics: Vec::new(),
        })
    }

    /// Adds the load to the history, and forecasts to the readings.
    pub(crate) fn observe(&mut self, readings: &mut Readings, reconcile: &Reconcile<'_>) {
        let Reconcile { plan, load, now, .. } = *reconcile;
        self.add(load, now);
        for (index, read) in plan.loads(readings, now).into_iter().enumerate() {
            if self.metrics.len() <= index {
                self.metrics.push(None);
            }
            let Some(read) = read else { continue };
            if let Some(forecast) = self.forecast(index, read, reconcile) {
                readings.insert_forecast(index, forecast);
            }
        }
    }

    /// Keeps a sample of each minute.
    fn add(&mut self, load: f64, now: Timestamp) {
        let is_due = self
            .loads
            .back()
            .is_none_or(|(last, _)| now.duration_since(*last).as_secs_f64() >= SECONDS_PER_MINUTE);
        if !is_due {
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

    fn forecast(
        &mut self,
        index: usize,
        read: Load,
        reconcile: &Reconcile<'_>,
    ) -> Option<MetricForecast> {
        let settings = self.gate_settings(read, reconcile);
        let Reconcile { load, second, now, .. } = *reconcile;
        let known = self.metrics.get_mut(index)?;
        let is_due = |metric: &Metric| second - metric.checked >= SECONDS_PER_DAY;
        if known.as_ref().is_none_or(is_due) {
            let per_load = match known {
                Some(metric) => metric.per_load,
                None if load > 0.0 && read.total > 0.0 => read.total / load,
                // Nothing says what the past of the metric was.
                None => return None,
            };
            *known = Some(Metric::checked(&self.loads, per_load, &settings, second));
        }
        known.as_ref()?.forecast(read.total, &settings, now)
    }

    fn gate_settings(&self, read: Load, reconcile: &Reconcile<'_>) -> GateSettings {
        let Reconcile { hpa, settings, .. } = *reconcile;
        let workload = Workload::of(hpa, settings, read.per_replica);
        let workload = Workload { startup: self.startup, ..workload };
        let horizon = self.startup.saturating_add(workload.delay).saturating_add(self.period);
        let forecasts = &settings.forecasts;
        GateSettings {
            horizon: forecasts.horizon.unwrap_or(horizon),
            quantile: forecasts.quantile.unwrap_or(GateSettings::DEFAULT_QUANTILE),
            ..GateSettings::new(workload, TimeZone::UTC)
        }
    }
}

impl Metric {
    fn checked(
        loads: &VecDeque<(Timestamp, f64)>,
        per_load: f64,
        settings: &GateSettings,
        second: f64,
    ) -> Self {
        let trace = Trace::new(loads.iter().map(|(at, load)| (*at, load * per_load)));
        let mut history = History::new(LEARNED_DAYS + 1);
        for (at, load) in loads {
            history.add(*at, load * per_load);
        }
        let verdict = if settings.workload.target > 0.0 {
            gate(&trace, settings)
        } else {
            Verdict { reason: Reason::NotEnoughHistory, choice: None, comparison: None }
        };
        Self { per_load, history, verdict, checked: second }
    }

    fn forecast(
        &self,
        load: f64,
        settings: &GateSettings,
        now: Timestamp,
    ) -> Option<MetricForecast> {
        let Self { verdict, history, .. } = self;
        let model = verdict.choice.map_or_else(Model::default, |choice| choice.model);
        let (horizon, quantile) = (settings.horizon, settings.quantile);
        let zone = &settings.zone;
        let measured = now.checked_sub(settings.workload.delay).ok()?;
        let question = Question { now: measured, load, horizon, zone, model };
        let forecast = history.forecast(&question).map(|forecast| LoadForecast {
            at: forecast.at,
            load: forecast.load(quantile),
            quantile,
            days: forecast.days,
        });
        Some(MetricForecast {
            reason: verdict.reason.into(),
            text: verdict.text().into(),
            forecast,
        })
    }
}

/// Whether forecasts of the workload's load would have helped in the weeks before the start.
pub(crate) fn would_help(variant: &Variant) -> bool {
    let profile = variant.workload.profile.as_ref().unwrap_or(&variant.cluster.default_profile);
    let spec = &variant.autoscaler.spec;
    let bound = |replicas: i32| u32::try_from(replicas).unwrap_or_default();
    let workload = Workload {
        target: profile.target(),
        min_replicas: bound(spec.effective_min_replicas()),
        max_replicas: bound(spec.max_replicas),
        startup: startup(variant),
        ..Workload::default()
    };
    let trace = Trace::new(past(variant, Timestamp::UNIX_EPOCH));
    workload.target > 0.0
        && gate(&trace, &GateSettings::new(workload, TimeZone::UTC)).reason.is_active()
}

/// The load in each minute before the start.
fn past(variant: &Variant, start: Timestamp) -> impl Iterator<Item = (Timestamp, f64)> {
    let workload = &variant.workload;
    (0..PAST_MINUTES).map(move |minute| {
        let since = f64::from(minute) * SECONDS_PER_MINUTE;
        let second = since - f64::from(PAST_MINUTES) * SECONDS_PER_MINUTE;
        let load = match &workload.past {
            Some(past) => past.at(since),
            None => workload.load.at(second),
        };
        (timestamp_at(start, second), load)
    })
}

/// The time from the creation of a pod until it is ready.
fn startup(variant: &Variant) -> SignedDuration {
    let profile = variant.workload.profile.as_ref().unwrap_or(&variant.cluster.default_profile);
    span(profile.scheduling.get() + profile.starting.get() + profile.readiness.get())
}

fn span(seconds: f64) -> SignedDuration {
    SignedDuration::try_from_secs_f64(Seconds::new(seconds).get()).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{Run, RunOptions, Study};

    fn morning() -> Study {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulate");
        let text = fs::read_to_string(examples.join("morning.yaml")).unwrap();
        Study::parse(&text, &|_: &str| Err("there are no files".to_owned())).unwrap()
    }

    fn run(mut variant: Variant, change: impl FnOnce(&mut Variant)) -> Run {
        change(&mut variant);
        variant.run_with(RunOptions::default())
    }

    #[test]
    fn forecast_scales_before_the_load_of_every_morning() {
        let study = morning();
        let [base, forecast, ..] = &*study.variants else { panic!() };
        let (reactive, forecast) = (run(base.clone(), |_| {}), run(forecast.clone(), |_| {}));
        let overload = |run: &Run| run.outcome.overload.seconds;
        assert!(overload(&forecast) * 2.0 < overload(&reactive), "{:?}", forecast.outcome);
        let first = |run: &Run| run.steps.iter().find(|step| step.to > step.from).unwrap().clone();
        assert!(first(&forecast).second < first(&reactive).second);
        assert!(first(&forecast).sentence.contains("forecast: "), "{:?}", first(&forecast));
    }

    #[test]
    fn forecasts_are_recommended_only_if_they_would_have_helped() {
        let mut base = morning().variants.swap_remove(0);
        assert!(would_help(&base));
        base.workload.past = Some(crate::workload::load::Load::Constant(300.0));
        assert!(!would_help(&base));
    }

    #[test]
    fn load_that_was_constant_is_not_forecast() {
        let study = morning();
        let [base, forecast, ..] = &*study.variants else { panic!() };
        let constant = |variant: &mut Variant| {
            variant.workload.past = Some(crate::workload::load::Load::Constant(300.0));
        };
        assert_eq!(run(forecast.clone(), constant).steps, run(base.clone(), constant).steps);
    }

    #[test]
    fn observed_forecast_changes_nothing() {
        let study = morning();
        let [base, forecast, ..] = &*study.variants else { panic!() };
        let observe = |variant: &mut Variant| {
            let annotations = &mut variant.autoscaler.metadata.annotations;
            let name = "autoscaling.hpa-rs.dev/forecast".to_owned();
            assert!(annotations.insert(name, "observe".to_owned()).is_some());
        };
        let (observed, reactive) = (run(forecast.clone(), observe), run(base.clone(), |_| {}));
        assert_eq!(observed.outcome, reactive.outcome);
    }
}
