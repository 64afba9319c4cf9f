use std::time::Duration;

use jiff::fmt::serde::unsigned_duration::friendly::compact::optional as duration;
use serde::Deserialize;
use serde_json::Value;

use super::{effect::Effect, matcher::Match};

/// A fault: which requests it meets, when, and what becomes of them.
///
/// As data it is an object of `match`, `probability`, `nth`, `every`, `first`, `from`, `until` and `effect`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Fault {
    pub(super) trigger: Trigger,
    pub(super) effect: Effect,
}

/// Which requests a fault meets, and when. Unless it says otherwise, all that match; what is said has to hold together.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub(super) matching: Match,
    pub(super) from: Duration,
    pub(super) until: Option<Duration>,
    probability: f64,
    nth: Option<u64>,
    every: Option<u64>,
    first: Option<u64>,
}

/// What is wrong with a fault that came as data, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct InvalidFault {
    path: String,
    message: String,
}

impl Fault {
    /// Begins a fault for these requests.
    pub fn on(matching: Match) -> Trigger {
        Trigger {
            matching,
            from: Duration::ZERO,
            until: None,
            probability: 1.0,
            nth: None,
            every: None,
            first: None,
        }
    }

    /// Reads a fault. The error tells the path to the member that is wrong, beginning with `fault`.
    pub fn from_json(value: &Value) -> Result<Self, InvalidFault> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let inner = error.path().to_string();
            let path = if inner == "." { "fault".to_owned() } else { format!("fault.{inner}") };
            InvalidFault { path, message: error.inner().to_string() }
        })
    }
}

impl Trigger {
    /// Only with this probability, from 0 to 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    /// Only the nth request that matches while the fault is on, counted from 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        self.nth = Some(nth);
        self
    }

    /// Only every so many requests that match while the fault is on: with 3 the 3rd, the 6th and so on.
    #[must_use]
    pub fn every(mut self, count: u64) -> Self {
        self.every = Some(count);
        self
    }

    /// Only until it has acted this many times.
    #[must_use]
    pub fn first(mut self, count: u64) -> Self {
        self.first = Some(count);
        self
    }

    /// Not before this time since the [`Faults`](super::Faults) were made.
    #[must_use]
    pub fn from(mut self, from: Duration) -> Self {
        self.from = from;
        self
    }

    /// Only before this time since the [`Faults`](super::Faults) were made.
    #[must_use]
    pub fn until(mut self, until: Duration) -> Self {
        self.until = Some(until);
        self
    }

    /// The fault with this effect.
    pub fn effect(self, effect: Effect) -> Fault {
        Fault { trigger: self, effect }
    }

    /// Whether the `count`th match is met, after so many hits; `draw` lies in [0, 1).
    pub(super) fn fires(&self, count: u64, hits: u64, draw: f64) -> bool {
        self.nth.is_none_or(|nth| count == nth)
            && self.every.is_none_or(|every| every != 0 && count.is_multiple_of(every))
            && self.first.is_none_or(|first| hits < first)
            && draw < self.probability
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default, rename = "match")]
    matching: Match,
    probability: Option<f64>,
    nth: Option<u64>,
    every: Option<u64>,
    first: Option<u64>,
    #[serde(default, with = "duration")]
    from: Option<Duration>,
    #[serde(default, with = "duration")]
    until: Option<Duration>,
    effect: Effect,
}

impl TryFrom<Raw> for Fault {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let from = raw.from.unwrap_or_default();
        let probability = raw.probability.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&probability) {
            return Err(format!("probability: {probability} is not from 0 to 1"));
        }
        for (name, count) in [("nth", raw.nth), ("every", raw.every), ("first", raw.first)] {
            if count == Some(0) {
                return Err(format!("{name}: must be 1 or more"));
            }
        }
        if raw.until.is_some_and(|until| until <= from) {
            return Err("until: must be later than from".to_owned());
        }
        let Raw { matching, nth, every, first, until, effect, .. } = raw;
        let trigger = Trigger { matching, from, until, probability, nth, every, first };
        Ok(Self { trigger, effect })
    }
}
