//! Draws random settings, and random changes of good settings.

use std::collections::HashSet;

use hpa_calc::history::Direction;
use serde_json::Value;

use super::{
    evaluate::Trial,
    targets::TargetLevels,
    tuning::{Candidate, Change, Policy, Setting, Tuning},
};
use crate::{
    file::Variant,
    forecast,
    workload::{random, random::Rng},
};

/// Returns whether a search may suggest the settings in a manifest of the autoscaler.
pub type SettingsFilter<'a> = &'a (dyn Fn(&Value) -> bool + Sync);

/// After this many draws in a row without new settings, the sampler stops.
const MAX_ATTEMPTS: usize = 50;
/// The probability that a drawn setting keeps the scenario's value.
const KEEP_PROBABILITY: f64 = 0.5;
/// `minReplicas` is not lowered below this number.
const LEAST_MIN_REPLICAS: i32 = 2;

/// Policies for scaling down.
const DOWN_POLICIES: [Policy; 7] = [
    ("Percent", 10, 60),
    ("Percent", 25, 60),
    ("Percent", 50, 60),
    ("Percent", 10, 300),
    ("Pods", 1, 60),
    ("Pods", 2, 60),
    ("Pods", 1, 180),
];
/// Policies for scaling up.
const UP_POLICIES: [Policy; 6] = [
    ("Percent", 25, 60),
    ("Percent", 50, 60),
    ("Percent", 100, 60),
    ("Percent", 200, 15),
    ("Pods", 2, 60),
    ("Pods", 10, 15),
];

/// The highest `maxReplicas` that a search tries: twice that of the scenario.
pub(super) fn highest_max_replicas(base: &Variant) -> i32 {
    base.autoscaler.spec.max_replicas.saturating_mul(2)
}

/// Draws settings that `accepts` permits, each only once.
pub(super) struct Sampler<'a> {
    base: &'a Variant,
    accepts: SettingsFilter<'a>,
    rng: Rng,
    settings: Vec<Setting>,
    targets: TargetLevels,
    /// The manifests that were drawn before, and that of the scenario.
    seen: HashSet<String>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(base: &'a Variant, accepts: SettingsFilter<'a>) -> Self {
        let rng = random::rng(base.scenario.seed, random::hash(&["candidates"]), 0);
        let seen = HashSet::from([base.manifest.to_string()]);
        let mut settings = Setting::ALL.to_vec();
        if !forecast::would_help(base) {
            settings.retain(|setting| *setting != Setting::Forecast);
        }
        Self { base, accepts, rng, settings, targets: TargetLevels::new(base), seen }
    }

    /// Draws up to `count` random settings. The scenario's `behavior` is replaced.
    pub(super) fn random(&mut self, count: usize) -> Vec<Candidate> {
        self.draw(count, |sampler| {
            let mut tuning = Tuning { replaces_behavior: true, ..Tuning::default() };
            for setting in sampler.settings.clone() {
                sampler.change_at_random(&mut tuning, setting, None);
            }
            tuning
        })
    }

    /// Draws up to `count` candidates. Each changes one or two settings of one of the best trials.
    /// Changed targets are near those of the trial.
    pub(super) fn mutations(&mut self, best: &[Trial], count: usize) -> Vec<Candidate> {
        self.draw(count, |sampler| {
            let mut tuning = Tuning { replaces_behavior: true, ..Tuning::default() };
            if let Some(trial) = sampler.rng.choice(best) {
                tuning.clone_from(&trial.candidate.tuning);
            }
            let level = tuning.target_level();
            for _ in 0..sampler.rng.u8(1..=2) {
                if let Some(setting) = sampler.rng.choice(&sampler.settings).copied() {
                    tuning = tuning.without(setting);
                    sampler.change_at_random(&mut tuning, setting, level);
                }
            }
            tuning
        })
    }

    fn draw(&mut self, count: usize, draw_one: impl Fn(&mut Self) -> Tuning) -> Vec<Candidate> {
        let mut drawn = Vec::new();
        let mut attempts = 0;
        while drawn.len() < count && attempts < MAX_ATTEMPTS {
            attempts += 1;
            let tuning = draw_one(self);
            let Some(candidate) = Candidate::new(self.base, tuning) else { continue };
            let manifest = &candidate.variant.manifest;
            if self.seen.insert(manifest.to_string()) && (self.accepts)(manifest) {
                attempts = 0;
                drawn.push(candidate);
            }
        }
        drawn
    }

    /// Changes a setting, or keeps that of the scenario. Targets are near `level`, if it is set.
    fn change_at_random(&mut self, tuning: &mut Tuning, setting: Setting, level: Option<u32>) {
        if self.rng.f64() >= KEEP_PROBABILITY
            && let Some(change) = self.random_change(setting, level)
        {
            tuning.changes.insert(setting, change);
        }
    }

    fn random_change(&mut self, setting: Setting, level: Option<u32>) -> Option<Change> {
        let (up, down) = (Direction::Up, Direction::Down);
        Some(match setting {
            Setting::Target => {
                let level = match level {
                    Some(level) => self.rng.u32(self.targets.refinements(level)),
                    None => self.rng.choice(&self.targets.grid).copied()?,
                };
                (level != self.targets.current)
                    .then(|| Change::targets(self.base, &self.targets, level))?
            }
            Setting::MinReplicas => Change::bound("minReplicas", self.random_min_replicas()?),
            Setting::MaxReplicas => {
                let max = self.base.autoscaler.spec.max_replicas;
                let choices = [max.saturating_mul(3) / 2, highest_max_replicas(self.base)];
                Change::bound("maxReplicas", self.rng.choice(choices)?)
            }
            Setting::UpWindow => Change::window(up, self.rng.choice([30, 60, 120])?),
            Setting::UpPolicy => Change::policy(up, self.rng.choice(UP_POLICIES)?),
            Setting::UpTolerance => Change::tolerance(up, self.rng.choice([2, 5, 15])?),
            Setting::DownWindow => {
                Change::window(down, self.rng.choice([60, 120, 180, 420, 600, 900, 1800])?)
            }
            Setting::DownPolicy => Change::policy(down, self.rng.choice(DOWN_POLICIES)?),
            Setting::DownTolerance => Change::tolerance(down, self.rng.choice([2, 5, 20, 30])?),
            Setting::Forecast => Change::forecasts(),
        })
    }

    /// A random bound near the current one. `None` if it equals the current one. Also `None` if the
    /// current one is 0: scaling to zero is left to the user.
    fn random_min_replicas(&mut self) -> Option<i32> {
        let spec = &self.base.autoscaler.spec;
        let min = spec.effective_min_replicas();
        let least = LEAST_MIN_REPLICAS.min(min);
        let choices = [min / 2, min - 1, min + 1, min.saturating_mul(3) / 2, min.saturating_mul(2)];
        let choice = self.rng.choice(choices)?.clamp(least, spec.max_replicas);
        (min > 0 && choice != min).then_some(choice)
    }
}
