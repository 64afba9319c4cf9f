//! What a metrics source knows of a value over time: it scrapes now and then, tells late, errs, and misses a scrape.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{random, seconds::Seconds};

/// How well a source of metrics measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceSettings {
    /// How often it scrapes. A value changes only then, and a rate is the average of the time in between.
    #[serde(default = "resolution")]
    pub resolution: Seconds,
    /// How long it takes until what it saw can be read.
    #[serde(default)]
    pub delay: Seconds,
    /// By which part a value is off: the standard deviation; never more than three times that.
    #[serde(default)]
    pub noise: f64,
    /// How likely a scrape is missed.
    #[serde(default)]
    pub gaps: f64,
    /// For how long after it could first be read a value is told when no newer one came; one resolution (as a metrics
    /// server has it) unless it says so.
    #[serde(default)]
    pub stale_after: Option<Seconds>,
}

fn resolution() -> Seconds {
    SourceSettings::default().resolution
}

impl Default for SourceSettings {
    /// A scrape each 15 seconds, without delay or error.
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
    /// Whether it missed a scrape at a key.
    pub(crate) fn misses_scrape(&self, seed: u64, key: u64, scrape: u64) -> bool {
        self.gaps > 0.0 && random::rng(seed ^ 1, key, scrape).f64() < self.gaps
    }

    /// What it saw instead of a value.
    pub(crate) fn with_noise(&self, value: f64, seed: u64, key: u64, scrape: u64) -> f64 {
        if self.noise <= 0.0 {
            return value;
        }
        let off = random::deviation(&mut random::rng(seed ^ 2, key, scrape)) * self.noise;
        (value * (1.0 + off)).max(0.0)
    }

    pub(crate) fn problem(&self) -> Option<String> {
        if self.resolution.get() < 1.0 {
            return Some("resolution: must be at least 1s".to_owned());
        }
        if !(0.0..=1.0).contains(&self.gaps) {
            return Some(format!("gaps: must be between 0 and 1: {}", self.gaps));
        }
        (!self.noise.is_finite() || self.noise < 0.0)
            .then(|| format!("noise: must not be negative: {}", self.noise))
    }
}

/// What was seen at a scrape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample<T> {
    /// When, in simulated seconds.
    pub(crate) at: f64,
    /// Over how many seconds before.
    pub(crate) window: f64,
    pub(crate) value: T,
}

/// The scrapes that can be read now or later.
#[derive(Clone, Debug)]
pub(crate) struct Series<T> {
    samples: VecDeque<Sample<T>>,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self { samples: VecDeque::new() }
    }
}

impl<T> Series<T> {
    /// Takes note of a scrape.
    pub(crate) fn push(&mut self, sample: Sample<T>, settings: &SourceSettings) {
        let readable = sample.at - settings.delay.get();
        self.samples.push_back(sample);
        // Of those that can be read only the last counts.
        while self.samples.get(1).is_some_and(|next| next.at <= readable) {
            self.samples.pop_front();
        }
    }

    /// What can be read now.
    pub(crate) fn latest(&self, now: f64, settings: &SourceSettings) -> Option<&Sample<T>> {
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
    fn values_change_with_the_looks_and_come_late() {
        let settings = SourceSettings { delay: Seconds::new(20.0), ..SourceSettings::default() };
        let mut series = Series::default();
        for (scrape, at) in (0..4).zip([0.0, 15.0, 30.0, 45.0]) {
            series.push(Sample { at, window: 15.0, value: scrape }, &settings);
        }
        let seen: Vec<_> =
            [35.0, 49.9, 50.0, 65.0, 79.9, 80.0].map(|now| read(&series, &settings, now)).into();
        assert_eq!(seen, [Some(1), Some(1), Some(2), Some(3), Some(3), None]);
    }

    #[test]
    fn noise_is_the_same_in_every_run_and_bounded() {
        let settings = SourceSettings { noise: 0.1, ..SourceSettings::default() };
        let measure = |seed, scrape| settings.with_noise(100.0, seed, 42, scrape);
        let values: Vec<f64> = (0..2000).map(|scrape| measure(1, scrape)).collect();
        assert_eq!(values, (0..2000).map(|scrape| measure(1, scrape)).collect::<Vec<_>>());
        assert_ne!(values, (0..2000).map(|scrape| measure(2, scrape)).collect::<Vec<_>>());
        assert!(values.iter().all(|value| (70.0..=130.0).contains(value)));
        let mean = values.iter().sum::<f64>() / 2000.0;
        let deviation =
            (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
        assert!(
            (mean - 100.0).abs() < 1.0 && (deviation - 10.0).abs() < 1.0,
            "{mean} ± {deviation}"
        );
    }

    #[test]
    fn looks_are_missed_as_often_as_asked() {
        let settings = SourceSettings { gaps: 0.2, ..SourceSettings::default() };
        let missed = (0..5000).filter(|scrape| settings.misses_scrape(1, 42, *scrape)).count();
        assert!((900..1100).contains(&missed), "{missed}");
    }
}
