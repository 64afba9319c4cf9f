//! Load as a function of time.

#[cfg(test)]
mod tests;

use std::f64::consts::TAU;

use hpa_calc::crd::FieldError;
use serde::{Deserialize, Serialize};

use super::{
    field::{check_not_negative, check_positive, ensure, field_error},
    seconds::{self, Seconds},
};

/// Load over simulated time, in units such as requests per second.
///
/// In a scenario: `{constant: 50}`, `{ramp: {from: 10, to: 200, start: 1m, over: 5m}}`,
/// `{sum: [..]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Load {
    Constant(f64),
    /// A linear change from one value to another.
    Ramp(Ramp),
    /// From 0 to a peak and back to 0.
    Spike(Spike),
    /// A sine between a minimum and a peak.
    Diurnal(Diurnal),
    /// The value of the last step. 0 before the first step.
    Steps(Vec<Step>),
    /// Recorded samples. Constant before the first and after the last one.
    Samples(Samples),
    /// The sum of several loads.
    Sum(Vec<Load>),
    /// The first part of a load, repeated.
    Repeat(Repeat),
}

/// See [`Load::Ramp`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ramp {
    /// The value up to `start`.
    #[serde(default)]
    pub from: f64,
    /// The value from `start + over` on.
    pub to: f64,
    #[serde(default)]
    pub start: Seconds,
    /// The duration of the ramp.
    pub over: Seconds,
}

/// See [`Load::Spike`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spike {
    pub peak: f64,
    /// The start of the rise.
    pub at: Seconds,
    /// Duration of the rise.
    #[serde(default)]
    pub rise: Seconds,
    /// Duration of the peak.
    pub hold: Seconds,
    /// Duration of the fall.
    #[serde(default)]
    pub fall: Seconds,
}

/// See [`Load::Diurnal`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diurnal {
    #[serde(default)]
    pub low: f64,
    pub peak: f64,
    /// By default a day.
    #[serde(default = "day")]
    pub period: Seconds,
    /// The time of the peak within a period. By default its middle.
    #[serde(default)]
    pub peak_at: Option<Seconds>,
}

/// See [`Load::Steps`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    pub at: Seconds,
    pub value: f64,
}

/// See [`Load::Repeat`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// The duration of the repeated part.
    pub every: Seconds,
    pub load: Box<Load>,
}

fn day() -> Seconds {
    Seconds::new(seconds::DAY)
}

impl Default for Load {
    fn default() -> Self {
        Self::Constant(0.0)
    }
}

impl Load {
    /// The load at a simulated second, never below 0.
    pub fn at(&self, second: f64) -> f64 {
        self.value(second).max(0.0)
    }

    fn value(&self, second: f64) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Ramp(ramp) => ramp.value(second),
            Self::Spike(spike) => spike.value(second),
            Self::Diurnal(diurnal) => diurnal.value(second),
            Self::Steps(steps) => steps
                .iter()
                .rev()
                .find(|step| step.at.get() <= second)
                .map_or(0.0, |step| step.value),
            Self::Samples(samples) => samples.value(second),
            Self::Sum(loads) => loads.iter().map(|load| load.value(second)).sum(),
            Self::Repeat(repeat) => repeat.load.value(second.rem_euclid(repeat.every.get())),
        }
    }

    /// Multiplies all values of the load.
    pub fn scale(&mut self, factor: f64) {
        match self {
            Self::Constant(value) => *value *= factor,
            Self::Ramp(ramp) => {
                ramp.from *= factor;
                ramp.to *= factor;
            }
            Self::Spike(spike) => spike.peak *= factor,
            Self::Diurnal(diurnal) => {
                diurnal.low *= factor;
                diurnal.peak *= factor;
            }
            Self::Steps(steps) => steps.iter_mut().for_each(|step| step.value *= factor),
            Self::Samples(samples) => {
                samples.points.iter_mut().for_each(|(_, value)| *value *= factor);
            }
            Self::Sum(loads) => loads.iter_mut().for_each(|load| load.scale(factor)),
            Self::Repeat(repeat) => repeat.load.scale(factor),
        }
    }

    /// The recorded samples in this load.
    pub fn samples_mut(&mut self) -> Vec<&mut Samples> {
        match self {
            Self::Samples(samples) => vec![samples],
            Self::Sum(loads) => loads.iter_mut().flat_map(Self::samples_mut).collect(),
            Self::Repeat(repeat) => repeat.load.samples_mut(),
            Self::Constant(_)
            | Self::Ramp(_)
            | Self::Spike(_)
            | Self::Diurnal(_)
            | Self::Steps(_) => Vec::new(),
        }
    }

    /// The second of the last recorded sample, and the seconds since the sample before it. `None`
    /// without recorded samples, and if they are repeated.
    pub(crate) fn last_sample(&self) -> Option<(f64, f64)> {
        match self {
            Self::Samples(Samples { points, .. }) => {
                let mut latest = points.iter().rev().map(|(at, _)| at.get());
                let last = latest.next()?;
                Some((last, latest.next().map_or(0.0, |before| last - before)))
            }
            Self::Sum(loads) => {
                let ends = loads.iter().filter_map(Self::last_sample);
                ends.max_by(|(one, _), (other, _)| one.total_cmp(other))
            }
            _ => None,
        }
    }

    /// Checks that values are finite and not negative, that times are in order, that periods are
    /// positive, and that lists of samples are not empty and don't start after `end`. Parts of a
    /// sum may be negative.
    pub fn validate(&self, end: Seconds) -> Result<(), FieldError> {
        self.check_form(end)?;
        self.check_sign()
    }

    /// The name in a scenario, and the values. A sum or a repeated load has none of its own.
    fn name_and_values(&self) -> (&'static str, Vec<f64>) {
        match self {
            Self::Constant(value) => ("constant", vec![*value]),
            Self::Ramp(ramp) => ("ramp", vec![ramp.from, ramp.to]),
            Self::Spike(spike) => ("spike", vec![spike.peak]),
            Self::Diurnal(diurnal) => ("diurnal", vec![diurnal.low, diurnal.peak]),
            Self::Steps(steps) => ("steps", steps.iter().map(|step| step.value).collect()),
            Self::Samples(Samples { points, .. }) => {
                ("samples", points.iter().map(|(_, value)| *value).collect())
            }
            Self::Sum(_) => ("sum", Vec::new()),
            Self::Repeat(_) => ("repeat", Vec::new()),
        }
    }

    fn check_sign(&self) -> Result<(), FieldError> {
        if let Self::Repeat(repeat) = self {
            return repeat.load.check_sign();
        }
        // The parts of a sum aren't checked: a negative one reduces the others.
        let (name, values) = self.name_and_values();
        check_not_negative(name, values.into_iter().fold(0.0, f64::min))
    }

    fn check_form(&self, end: Seconds) -> Result<(), FieldError> {
        let (name, values) = self.name_and_values();
        ensure(values.into_iter().all(f64::is_finite), name, "must be a finite number")?;
        match self {
            Self::Constant(_) | Self::Ramp(_) | Self::Spike(_) => Ok(()),
            Self::Diurnal(diurnal) => check_positive("diurnal.period", diurnal.period.get()),
            Self::Steps(steps) => {
                check_order("steps", steps.is_sorted_by(|one, next| one.at < next.at))
            }
            Self::Samples(Samples { points, .. }) => {
                let (start, _) =
                    points.first().ok_or_else(|| field_error("samples", "must not be empty"))?;
                let message = format!("start at {start}, but the load ends at {end}");
                ensure(*start <= end, "samples", message)?;
                check_order("samples", points.is_sorted_by(|(one, _), (next, _)| one < next))
            }
            Self::Sum(loads) => loads.iter().try_for_each(|load| load.check_form(end)),
            Self::Repeat(repeat) => {
                check_positive("repeat.every", repeat.every.get())?;
                repeat.load.check_form(repeat.every)
            }
        }
    }
}

fn check_order(field: &str, is_sorted: bool) -> Result<(), FieldError> {
    ensure(is_sorted, field, "must be in order of time, without duplicates")
}

impl Ramp {
    fn value(&self, second: f64) -> f64 {
        let (since, over) = (second - self.start.get(), self.over.get());
        if since < 0.0 {
            self.from
        } else if since >= over {
            self.to
        } else {
            self.from + (self.to - self.from) * since / over
        }
    }
}

impl Spike {
    fn value(&self, second: f64) -> f64 {
        let (rise, hold, fall) = (self.rise.get(), self.hold.get(), self.fall.get());
        let since = second - self.at.get();
        if since < 0.0 || since >= rise + hold + fall {
            0.0
        } else if since < rise {
            self.peak * since / rise
        } else if since < rise + hold {
            self.peak
        } else {
            self.peak * (rise + hold + fall - since) / fall
        }
    }
}

impl Diurnal {
    fn value(&self, second: f64) -> f64 {
        let period = self.period.get();
        let peak_at = self.peak_at.map_or(period / 2.0, Seconds::get);
        let height = f64::midpoint(1.0, ((second - peak_at) / period * TAU).cos());
        self.low + (self.peak - self.low) * height
    }
}

/// Samples of a load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Samples {
    /// A CSV file, relative to the scenario's file: one time and value per line, with an optional
    /// header. Times are durations ([`Seconds`]), or timestamps relative to the first one. Numbers
    /// above 1e9 are timestamps in seconds or milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The column with the values, by the name in the header, or by its number if there is no
    /// header. Required if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Time and value, ordered by time. Read from `file` when the scenario is loaded.
    pub points: Vec<(Seconds, f64)>,
    pub interpolation: Interpolation,
}

/// The interpolation between two samples.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Interpolation {
    /// A straight line.
    #[default]
    Linear,
    /// The value of the earlier sample.
    Step,
}

impl Samples {
    fn value(&self, second: f64) -> f64 {
        let after = self.points.partition_point(|(at, _)| at.get() <= second);
        let before = after.checked_sub(1).and_then(|index| self.points.get(index));
        match (before, self.points.get(after)) {
            (Some((from, low)), Some((to, high)))
                if self.interpolation == Interpolation::Linear =>
            {
                low + (high - low) * (second - from.get()) / (to.get() - from.get())
            }
            (Some((_, value)), _) | (None, Some((_, value))) => *value,
            (None, None) => 0.0,
        }
    }
}
