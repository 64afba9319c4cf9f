//! The samples of a metrics source, which are periodic, delayed and noisy, and have gaps.

use std::collections::VecDeque;

use hpa_calc::crd::FieldError;
use serde::{Deserialize, Serialize};

use super::{
    field::{check_fraction, check_not_negative, ensure},
    seconds::{DAY, Seconds},
};

/// The accuracy of a metrics source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SourceSettings {
    /// The scrape interval, from a second to a day. Values change only with a scrape, and rates are
    /// averages over the interval.
    pub resolution: Seconds,
    /// The time from a scrape until its sample is readable, at most a day.
    pub delay: Seconds,
    /// Relative standard deviation of the measurement error. Errors are at most three times as
    /// large.
    pub noise: f64,
    /// The probability that a scrape is missed.
    pub gaps: f64,
    /// The time for which a sample is readable if no newer one arrives. The default is the
    /// resolution, as in metrics-server.
    pub stale_after: Option<Seconds>,
}

impl Default for SourceSettings {
    /// A scrape every 15 seconds, without delay or error.
    fn default() -> Self {
        Self {
            resolution: Seconds::new(15.0),
            delay: Seconds::default(),
            noise: 0.0,
            gaps: 0.0,
            stale_after: None,
        }
    }
}

impl SourceSettings {
    pub fn validate(&self) -> Result<(), FieldError> {
        ensure(self.resolution.get() >= 1.0, "resolution", "must be at least 1s")?;
        // The warm-up simulates two scrapes and a delay in steps of a second.
        for (field, time) in [("resolution", self.resolution), ("delay", self.delay)] {
            ensure(time.get() <= DAY, field, "must be at most 1d")?;
        }
        check_fraction("gaps", self.gaps)?;
        check_not_negative("noise", self.noise)
    }
}

/// The result of one scrape.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<T> {
    /// Simulated seconds since the start.
    pub at: f64,
    /// The value is the average over this many seconds before `at`.
    pub window: f64,
    pub value: T,
}

/// The latest readable sample, and newer ones whose delay has not passed yet.
#[derive(Clone, Debug, Default)]
pub struct Series<T> {
    samples: VecDeque<Sample<T>>,
}

impl<T> Series<T> {
    pub fn push(&mut self, sample: Sample<T>, settings: &SourceSettings) {
        let newest_readable = sample.at - settings.delay.get();
        self.samples.push_back(sample);
        // Only the latest readable sample is needed.
        while self.samples.get(1).is_some_and(|next| next.at <= newest_readable) {
            self.samples.pop_front();
        }
    }

    /// The latest readable sample, unless it is stale.
    pub fn latest(&self, now: f64, settings: &SourceSettings) -> Option<&Sample<T>> {
        let delay = settings.delay.get();
        let stale_after = settings.stale_after.unwrap_or(settings.resolution).get();
        let sample = self.samples.iter().rev().find(|sample| sample.at + delay <= now)?;
        (now - sample.at - delay < stale_after).then_some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sample, Seconds, Series, SourceSettings};

    fn read(series: &Series<i32>, settings: &SourceSettings, now: f64) -> Option<i32> {
        series.latest(now, settings).map(|sample| sample.value)
    }

    #[test]
    fn samples_are_readable_from_their_delay_until_they_are_stale() {
        let settings = SourceSettings { delay: Seconds::new(20.0), ..SourceSettings::default() };
        let mut series = Series::default();
        for (scrape, at) in (0..4).zip([0.0, 15.0, 30.0, 45.0]) {
            series.push(Sample { at, window: 15.0, value: scrape }, &settings);
        }
        let values: Vec<_> =
            [35.0, 49.9, 50.0, 65.0, 79.9, 80.0].map(|now| read(&series, &settings, now)).into();
        assert_eq!(values, [Some(1), Some(1), Some(2), Some(3), Some(3), None]);
    }

    #[test]
    fn resolution_or_delay_of_more_than_a_day_is_rejected() {
        let (settings, long) = (SourceSettings::default(), Seconds::new(86_401.0));
        let error = |settings: SourceSettings| settings.validate().unwrap_err().to_string();
        let delayed = SourceSettings { delay: long, ..settings.clone() };
        assert_eq!(error(delayed), "delay: must be at most 1d");
        let coarse = SourceSettings { resolution: long, ..settings };
        assert_eq!(error(coarse), "resolution: must be at most 1d");
    }

    #[test]
    fn infinite_noise_is_rejected_with_the_permitted_range() {
        let settings = SourceSettings { noise: f64::INFINITY, ..SourceSettings::default() };
        let error = settings.validate().unwrap_err().to_string();
        assert_eq!(error, "noise: must be a number of at least 0: inf");
    }
}
