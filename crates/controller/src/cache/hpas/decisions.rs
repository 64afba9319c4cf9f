//! The last decisions on an autoscaler, within a number of bytes.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The number that encodes an absent value in a sample.
const ABSENT: i64 = i64::MIN;
/// The numbers of a sample before the values of its metrics: time, current, desired, proposed.
const FIXED_NUMBERS: usize = 4;
/// The estimated overhead of an allocation in bytes.
const ALLOCATION_BYTES: usize = 16;

/// The last decisions of one autoscaler. Consecutive decisions with equal outcomes are a run: only
/// its last decision is stored in full. The numbers of every decision are stored as a sample. The
/// oldest runs and samples are dropped first.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    runs: VecDeque<DecisionRun>,
    /// The bytes of all texts, with the overhead of their allocations.
    text_bytes: usize,
    /// The names of the samples' metrics.
    metrics: Box<[Box<str>]>,
    /// The samples one after the other: each has [`FIXED_NUMBERS`], and one number per metric.
    samples: VecDeque<i64>,
}

/// Consecutive decisions with the same outcome.
#[derive(Clone, Debug)]
pub(crate) struct DecisionRun {
    /// The time of the first decision.
    pub(crate) from: Timestamp,
    /// The time of the last decision.
    pub(crate) until: Timestamp,
    pub(crate) count: u32,
    /// Whether the last decision counted pods that can't be scheduled.
    pub(crate) has_unschedulable_pods: bool,
    outcome_hash: u64,
    /// The last decision, as JSON.
    pub(crate) decision: Box<str>,
    /// Its explanation, as JSON.
    pub(crate) explanation: Box<str>,
}

/// The numbers of one reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionSample {
    /// The time of the decision.
    pub at: Timestamp,
    /// The replicas before the decision.
    pub current: i32,
    /// The replicas after all limits. `None` if the controller could not decide.
    pub desired: Option<i32>,
    /// The largest proposal of the metrics.
    pub proposed: Option<i32>,
    /// The values of the metrics, in the order of the spec. In percent if the target is a
    /// utilization, else in thousandths.
    pub values: Vec<Option<i64>>,
}

impl Decisions {
    /// Adds a decision and its sample, and drops the oldest ones until all take at most `limit`
    /// bytes. Samples take at most half of that. If one decision takes more than `limit`, nothing
    /// stays recorded.
    pub(crate) fn record(
        &mut self,
        decision: DecisionRun,
        sample: &DecisionSample,
        metrics: &[&str],
        limit: usize,
    ) {
        if !self.metrics.iter().map(AsRef::as_ref).eq(metrics.iter().copied()) {
            // The values of other metrics can't be compared with earlier ones.
            self.metrics = metrics.iter().map(|name| Box::from(*name)).collect();
            self.samples = VecDeque::new();
        }
        self.add_to_runs(decision);
        self.add_sample(sample, limit / 2);
        while self.bytes() > limit && self.drop_oldest_run() {}
        if self.bytes() > limit {
            *self = Self::default();
        }
    }

    /// The runs, oldest first.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = &DecisionRun> {
        self.runs.iter()
    }

    /// The names of the samples' metrics, in the order of the values.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(AsRef::as_ref)
    }

    /// The samples, oldest first.
    pub(crate) fn samples(&self) -> impl Iterator<Item = DecisionSample> {
        let stride = self.stride();
        let at = |index: usize| self.samples.get(index).copied().unwrap_or(ABSENT);
        let present = |number: i64| (number != ABSENT).then_some(number);
        let replicas = |number: i64| i32::try_from(number).ok();
        (0..self.samples.len() / stride).filter_map(move |sample| {
            let start = sample * stride;
            let values = (start + FIXED_NUMBERS..start + stride).map(|index| present(at(index)));
            Some(DecisionSample {
                at: Timestamp::from_millisecond(at(start)).ok()?,
                current: replicas(at(start + 1))?,
                desired: replicas(at(start + 2)),
                proposed: replicas(at(start + 3)),
                values: values.collect(),
            })
        })
    }

    /// The estimated bytes of all allocations.
    pub(crate) fn bytes(&self) -> usize {
        let runs = self.runs.capacity() * size_of::<DecisionRun>() + self.text_bytes;
        let names =
            self.metrics.iter().map(|name| name.len() + size_of::<Box<str>>() + ALLOCATION_BYTES);
        runs + names.sum::<usize>() + self.samples.capacity() * size_of::<i64>()
    }

    fn stride(&self) -> usize {
        FIXED_NUMBERS + self.metrics.len()
    }

    fn add_to_runs(&mut self, mut run: DecisionRun) {
        self.text_bytes += run.text_bytes();
        let last = self.runs.back_mut().filter(|last| last.outcome_hash == run.outcome_hash);
        match last {
            Some(last) => {
                self.text_bytes -= last.text_bytes();
                (run.from, run.count) = (last.from, last.count.saturating_add(1));
                *last = run;
            }
            None => self.runs.push_back(run),
        }
    }

    fn add_sample(&mut self, sample: &DecisionSample, limit: usize) {
        let stride = self.stride();
        let max_numbers = limit / (stride * size_of::<i64>()) * stride;
        while self.samples.len() + stride > max_numbers && !self.samples.is_empty() {
            self.samples.drain(..stride.min(self.samples.len()));
        }
        if self.samples.capacity() > max_numbers {
            self.samples.shrink_to(max_numbers);
        }
        if max_numbers == 0 {
            return;
        }
        if self.samples.len() + stride > self.samples.capacity() {
            // Doubles the capacity as `VecDeque` does, but not beyond the limit.
            let capacity =
                (self.samples.capacity() * 2).clamp(stride * 8, max_numbers.max(stride * 8));
            self.samples.reserve_exact(capacity.min(max_numbers) - self.samples.len());
        }
        let replicas = |number: Option<i32>| number.map_or(ABSENT, i64::from);
        self.samples.extend([
            sample.at.as_millisecond(),
            sample.current.into(),
            replicas(sample.desired),
            replicas(sample.proposed),
        ]);
        let values = sample.values.iter().map(|value| value.unwrap_or(ABSENT));
        self.samples.extend(values.chain(std::iter::repeat(ABSENT)).take(stride - FIXED_NUMBERS));
    }

    /// Drops the oldest run. Returns whether there was one.
    fn drop_oldest_run(&mut self) -> bool {
        let Some(oldest) = self.runs.pop_front() else { return false };
        self.text_bytes -= oldest.text_bytes();
        self.runs.shrink_to(self.runs.len() + 1);
        true
    }
}

impl DecisionRun {
    /// A run of one decision, which is JSON like its explanation. Consecutive decisions with the
    /// same hash are one run.
    pub(crate) fn new(
        at: Timestamp,
        outcome_hash: u64,
        decision: Box<str>,
        explanation: Box<str>,
    ) -> Self {
        Self {
            from: at,
            until: at,
            count: 1,
            has_unschedulable_pods: false,
            outcome_hash,
            decision,
            explanation,
        }
    }

    fn text_bytes(&self) -> usize {
        self.decision.len() + self.explanation.len() + 2 * ALLOCATION_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn sample(second: i64, values: &[Option<i64>]) -> DecisionSample {
        let values = values.to_vec();
        DecisionSample { at: at(second), current: 2, desired: None, proposed: Some(3), values }
    }

    fn record(decisions: &mut Decisions, second: i64, outcome_hash: u64, limit: usize) {
        let text = || format!("{second:0>100}").into_boxed_str();
        let decision = DecisionRun::new(at(second), outcome_hash, text(), text());
        decisions.record(decision, &sample(second, &[Some(second)]), &["cpu"], limit);
    }

    #[test]
    fn decisions_with_the_same_outcome_are_one_run_with_the_last_explanation() {
        let mut decisions = Decisions::default();
        for (second, outcome) in [(0, 1), (15, 1), (30, 2), (45, 1)] {
            record(&mut decisions, second, outcome, 10_000);
        }
        let runs: Vec<_> = decisions
            .runs()
            .map(|run| (run.from.as_second(), run.until.as_second(), run.count))
            .collect();
        assert_eq!(runs, [(0, 15, 2), (30, 30, 1), (45, 45, 1)]);
        assert!(decisions.runs().next().unwrap().explanation.ends_with("15"));
        assert_eq!(decisions.samples().count(), 4);
    }

    #[test]
    fn samples_keep_absent_values() {
        let mut decisions = Decisions::default();
        let text = || Box::from("{}");
        let decision = DecisionRun::new(at(1), 1, text(), text());
        let values = sample(1, &[None, Some(-7)]);
        decisions.record(decision, &values, &["cpu", "queue"], 10_000);
        assert_eq!(decisions.samples().collect::<Vec<_>>(), [values]);
        assert_eq!(decisions.metrics().collect::<Vec<_>>(), ["cpu", "queue"]);
    }

    #[test]
    fn samples_of_other_metrics_are_dropped() {
        let mut decisions = Decisions::default();
        record(&mut decisions, 0, 1, 10_000);
        let text = || Box::from("{}");
        let decision = DecisionRun::new(at(15), 1, text(), text());
        decisions.record(decision, &sample(15, &[]), &["memory"], 10_000);
        let samples: Vec<_> = decisions.samples().collect();
        assert_eq!(samples, [sample(15, &[None])]);
        assert_eq!(decisions.runs().count(), 1);
    }

    #[test]
    fn bytes_stay_within_the_limit_and_the_oldest_are_dropped() {
        for limit in [5000, 2000, 900] {
            let mut decisions = Decisions::default();
            for second in 0..1000 {
                record(&mut decisions, second, u64::try_from(second / 3).unwrap(), limit);
                assert!(decisions.bytes() <= limit, "{} of {limit}", decisions.bytes());
            }
            let last = decisions.runs().next_back().unwrap();
            assert_eq!((last.until.as_second(), last.count), (999, 1));
            assert_eq!(decisions.samples().last().unwrap().at, at(999));
            assert!(decisions.bytes() > limit / 3, "{} of {limit}", decisions.bytes());
        }
    }

    fn recounted_bytes(decisions: &Decisions) -> usize {
        let text = |text: &str| text.len() + ALLOCATION_BYTES;
        let texts = decisions.runs.iter().map(|run| text(&run.decision) + text(&run.explanation));
        let names = decisions.metrics.iter().map(|name| text(name) + size_of::<Box<str>>());
        texts.sum::<usize>()
            + names.sum::<usize>()
            + decisions.runs.capacity() * size_of::<DecisionRun>()
            + decisions.samples.capacity() * size_of::<i64>()
    }

    #[test]
    fn all_allocations_count_and_samples_take_half_the_limit() {
        let limit = 5000;
        let mut decisions = Decisions::default();
        let mut add = |second: i64, metrics: &[&str]| {
            // The sizes vary, so that larger and smaller runs are replaced and dropped.
            let explanation = "e".repeat(usize::try_from(second * 37 % 400).unwrap());
            let outcome_hash = u64::try_from(second / 3).unwrap();
            let decision = "d".repeat(100).into();
            let decision = DecisionRun::new(at(second), outcome_hash, decision, explanation.into());
            decisions.record(decision, &sample(second, &[Some(second)]), metrics, limit);
            assert_eq!(decisions.bytes(), recounted_bytes(&decisions), "at {second}");
            assert!(decisions.bytes() <= limit, "at {second}: {}", decisions.bytes());
            let bytes_of_samples = decisions.samples.capacity() * size_of::<i64>();
            assert!(bytes_of_samples <= limit / 2, "at {second}: {bytes_of_samples}");
            let times = decisions.samples().map(|sample| sample.at.as_second());
            (bytes_of_samples, times.collect::<Vec<_>>())
        };
        for second in 0..1000 {
            let (bytes, times) = add(second, &["cpu"]);
            // Half of the limit has space for 62 samples of five numbers.
            let first = (second - 61).max(0);
            assert_eq!(times, (first..=second).collect::<Vec<_>>());
            assert!(second < 61 || bytes > limit / 2 - 40, "at {second}: {bytes}");
        }
        let (bytes, times) = add(1000, &["memory"]);
        assert_eq!(times, [1000]);
        assert!(bytes < limit / 10, "the samples of the other metric are freed: {bytes}");
    }

    #[test]
    fn smaller_limit_applies_at_the_next_decision() {
        let mut decisions = Decisions::default();
        for second in 0..200 {
            record(&mut decisions, second, 1, 100_000);
        }
        record(&mut decisions, 200, 1, 1500);
        assert!(decisions.bytes() <= 1500);
        assert_eq!(decisions.runs().next().unwrap().count, 201);
    }

    #[test]
    fn decision_larger_than_the_limit_is_not_recorded() {
        let mut decisions = Decisions::default();
        record(&mut decisions, 0, 1, 100);
        assert_eq!((decisions.runs().count(), decisions.samples().count()), (0, 0));
        assert!(decisions.bytes() <= 100);
    }
}
