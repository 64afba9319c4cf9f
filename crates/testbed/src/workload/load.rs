//! Load as a function of time.

use std::f64::consts::TAU;

use serde::{Deserialize, Serialize};

use super::{samples::Samples, seconds::Seconds};

const DAY: Seconds = Seconds::new(86_400.0);

/// A curve of load, such as requests per second, over simulated time.
///
/// In a scenario: `{constant: 50}`, `{ramp: {from: 10, to: 200, start: 1m, over: 5m}}`, `{sum: [..]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Load {
    /// Always the same.
    Constant(f64),
    /// From one value to another in a straight line.
    Ramp(Ramp),
    /// Up to a peak and back, and nothing before and after.
    Spike(Spike),
    /// A sine from a low to a peak and back in each period.
    Diurnal(Diurnal),
    /// A value from each moment on; before the first it is 0.
    Steps(Vec<Step>),
    /// What was recorded; before the first sample and after the last it is as there.
    Samples(Samples),
    /// All of them together.
    Sum(Vec<Load>),
    /// The first part of a curve, over and over.
    Repeat(Repeat),
}

/// See [`Load::Ramp`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ramp {
    /// The value up to `start`.
    #[serde(default)]
    pub from: f64,
    /// The value from `start + over` on.
    pub to: f64,
    /// When it begins.
    #[serde(default)]
    pub start: Seconds,
    /// How long it takes.
    pub over: Seconds,
}

/// See [`Load::Spike`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spike {
    /// The highest value.
    pub peak: f64,
    /// When it begins to rise.
    pub at: Seconds,
    /// How long it rises.
    #[serde(default)]
    pub rise: Seconds,
    /// How long it stays at the peak.
    pub hold: Seconds,
    /// How long it falls.
    #[serde(default)]
    pub fall: Seconds,
}

/// See [`Load::Diurnal`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diurnal {
    /// The lowest value.
    #[serde(default)]
    pub low: f64,
    /// The highest value.
    pub peak: f64,
    /// How long a period is; a day unless it says so.
    #[serde(default = "day")]
    pub period: Seconds,
    /// When in a period the peak is; in its middle unless it says so.
    #[serde(default)]
    pub peak_at: Option<Seconds>,
}

/// See [`Load::Steps`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// From when on.
    pub at: Seconds,
    /// The value.
    pub value: f64,
}

/// See [`Load::Repeat`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Repeat {
    /// After how long it begins again.
    pub every: Seconds,
    /// What begins again.
    pub load: Box<Load>,
}

fn day() -> Seconds {
    DAY
}

impl Default for Load {
    fn default() -> Self {
        Self::Constant(0.0)
    }
}

impl Load {
    /// The load that many simulated seconds after the start, never below 0.
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

    /// The recorded samples in it.
    pub(crate) fn samples_mut(&mut self) -> Vec<&mut Samples> {
        match self {
            Self::Samples(samples) => vec![samples],
            Self::Sum(loads) => loads.iter_mut().flat_map(Self::samples_mut).collect(),
            Self::Repeat(repeat) => repeat.load.samples_mut(),
            _ => Vec::new(),
        }
    }

    /// What is wrong with it.
    pub(crate) fn problem(&self) -> Option<String> {
        match self {
            Self::Constant(value) => not_finite("constant", &[*value]),
            Self::Ramp(ramp) => not_finite("ramp", &[ramp.from, ramp.to]),
            Self::Spike(spike) => not_finite("spike", &[spike.peak]),
            Self::Diurnal(diurnal) => not_finite("diurnal", &[diurnal.low, diurnal.peak])
                .or_else(|| zero("diurnal.period", diurnal.period)),
            Self::Steps(steps) => steps_problem(steps),
            Self::Samples(samples) => samples.problem(),
            Self::Sum(loads) => loads.iter().find_map(Self::problem),
            Self::Repeat(repeat) => {
                zero("repeat.every", repeat.every).or_else(|| repeat.load.problem())
            }
        }
    }
}

fn not_finite(what: &str, values: &[f64]) -> Option<String> {
    values
        .iter()
        .any(|value| !value.is_finite())
        .then(|| format!("{what}: must be a finite number"))
}

fn zero(what: &str, span: Seconds) -> Option<String> {
    (span.get() <= 0.0).then(|| format!("{what}: must be more than 0"))
}

fn steps_problem(steps: &[Step]) -> Option<String> {
    let values: Vec<f64> = steps.iter().map(|step| step.value).collect();
    let in_order = steps.is_sorted_by(|one, next| one.at < next.at);
    not_finite("steps", &values)
        .or_else(|| (!in_order).then(|| "steps: must be in order of time".to_owned()))
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

#[cfg(test)]
mod tests;
