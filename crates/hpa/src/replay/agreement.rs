//! Compares the replicas of the rebuilt run with the recorded replicas.

use hpa_calc::explain::counted;
use hpa_simulate::{Scaling, report::percent};
use serde::Serialize;

use super::series::Series;

/// The maximum mean difference for [`Trust::Good`], as a share of the mean replicas.
const GOOD_DIFFERENCE: f64 = 0.05;
/// The maximum mean difference for [`Trust::Limited`], as a share of the mean replicas.
const LIMITED_DIFFERENCE: f64 = 0.15;
/// The minimum share of time with recorded replicas. Below it, [`Trust::TooLittleData`] applies.
const MIN_COVERAGE: f64 = 0.5;
/// The minimum number of steps with recorded replicas. Below it, [`Trust::TooLittleData`] applies.
const MIN_STEPS: usize = 20;
/// The numbers of scalings may differ by this factor, or by [`MAX_SCALING_DIFFERENCE`]. If they
/// differ by more, a variant can't be judged by its scalings.
const MAX_SCALING_FACTOR: usize = 2;
const MAX_SCALING_DIFFERENCE: usize = 10;

/// The result of the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Agreement {
    /// The share of the time for which replicas are recorded.
    pub(super) compared: f64,
    /// The number of steps for which replicas are recorded.
    #[serde(rename = "comparedSteps")]
    pub(super) compared_step_count: usize,
    /// The share of the compared time in which the replicas were equal.
    pub(super) equal: f64,
    /// The share of the compared time in which the replicas differed by at most one.
    pub(super) within_one: f64,
    /// The mean of the absolute difference, in replicas.
    pub(super) mean_absolute_difference: f64,
    /// The mean of the rebuilt minus the recorded replicas.
    pub(super) mean_difference: f64,
    /// The mean of the recorded replicas.
    pub(super) mean_replicas: f64,
    #[serde(rename = "recordedScalings")]
    pub(super) recorded_scaling_count: usize,
    #[serde(rename = "rebuiltScalings")]
    pub(super) rebuilt_scaling_count: usize,
    pub(super) trust: Trust,
}

/// The degree to which the replay can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Trust {
    Good,
    Limited,
    #[serde(rename = "none")]
    Poor,
    /// The replicas never changed, neither in the rebuilt run nor in the record.
    Unchanged,
    /// Too few replicas are recorded.
    TooLittleData,
    /// The autoscaler has a pause or a dry run, so the variants have it as well. The caller sets
    /// this.
    Paused,
}

impl Agreement {
    /// Compares the scalings of a run with the replicas that were recorded every `step_seconds`.
    /// The run starts with `initial` replicas.
    pub(super) fn new(
        initial: u32,
        scalings: &[Scaling],
        recorded: &Series,
        step_seconds: f64,
    ) -> Self {
        let mut pending = scalings.iter().peekable();
        let mut replicas = f64::from(initial);
        let mut differences = Vec::new();
        for (index, recorded) in recorded.0.iter().enumerate() {
            let now = index as f64 * step_seconds;
            while let Some(scaling) = pending.next_if(|scaling| scaling.second <= now) {
                replicas = f64::from(scaling.to);
            }
            differences.extend(recorded.map(|recorded| replicas - recorded.round()));
        }
        let count = differences.len().max(1) as f64;
        // Rebuilt and recorded replicas are whole numbers, so the differences are exact.
        let share =
            |limit: f64| differences.iter().filter(|one| one.abs() <= limit).count() as f64 / count;
        let recorded_values: Vec<f64> = recorded.values().map(f64::round).collect();
        let changes = recorded_values
            .windows(2)
            .filter(|pair| !matches!(pair, [one, next] if one.total_cmp(next).is_eq()));
        let mut agreement = Self {
            compared: recorded.coverage(),
            compared_step_count: differences.len(),
            equal: share(0.0),
            within_one: share(1.0),
            mean_absolute_difference: differences.iter().map(|one| one.abs()).sum::<f64>() / count,
            mean_difference: differences.iter().sum::<f64>() / count,
            mean_replicas: recorded.mean(),
            recorded_scaling_count: changes.count(),
            rebuilt_scaling_count: scalings.len(),
            trust: Trust::TooLittleData,
        };
        agreement.trust = agreement.trust_level();
        agreement
    }

    /// The mean absolute difference as a share of the mean replicas. `None` if the replicas differ,
    /// but all recorded ones are 0.
    fn relative_difference(&self) -> Option<f64> {
        if self.mean_absolute_difference <= 0.0 {
            return Some(0.0);
        }
        (self.mean_replicas > 0.0).then(|| self.mean_absolute_difference / self.mean_replicas)
    }

    fn trust_level(&self) -> Trust {
        if self.compared < MIN_COVERAGE || self.compared_step_count < MIN_STEPS {
            return Trust::TooLittleData;
        }
        if self.recorded_scaling_count == 0 && self.rebuilt_scaling_count == 0 {
            return Trust::Unchanged;
        }
        match self.relative_difference() {
            Some(relative) if relative <= GOOD_DIFFERENCE => Trust::Good,
            Some(relative) if relative <= LIMITED_DIFFERENCE => Trust::Limited,
            _ => Trust::Poor,
        }
    }

    /// A paragraph with the measurements, and one with advice for comparing variants.
    pub(super) fn paragraphs(&self) -> [String; 2] {
        let direction = if self.mean_difference < 0.0 { "fewer" } else { "more" };
        let share = self
            .relative_difference()
            .map(|relative| format!("{} of {:.1}; ", percent(relative), self.mean_replicas));
        let measured = format!(
            "The rebuilt run has the recorded replicas {} of the time, and differs by at most one \
             {} of the time. It differs by {:.2} replicas on average ({}net {:.2} {direction}). \
             Scalings: {} rebuilt, {} recorded. Compared: {} of the time.",
            percent(self.equal),
            percent(self.within_one),
            self.mean_absolute_difference,
            share.unwrap_or_default(),
            self.mean_difference.abs(),
            self.rebuilt_scaling_count,
            self.recorded_scaling_count,
            percent(self.compared),
        );
        [measured, self.advice()]
    }

    /// The reason why the numbers of scalings differ, if they differ too much to be compared.
    fn scaling_difference_cause(&self) -> Option<&'static str> {
        let (recorded, rebuilt) = (self.recorded_scaling_count, self.rebuilt_scaling_count);
        let (min, max) = (recorded.min(rebuilt), recorded.max(rebuilt));
        if max <= min * MAX_SCALING_FACTOR || max - min <= MAX_SCALING_DIFFERENCE {
            return None;
        }
        Some(if recorded > rebuilt {
            "the recorded controller scaled on changes that the samples don't have, such as noise"
        } else {
            "the record has at most one scaling per step, or the samples have noise that the \
             controller didn't read"
        })
    }

    /// The advice, unless it permits all comparisons.
    pub(super) fn caution(&self) -> Option<String> {
        let is_trusted = self.trust == Trust::Good && self.scaling_difference_cause().is_none();
        (!is_trusted).then(|| self.advice())
    }

    fn advice(&self) -> String {
        let error = percent(self.relative_difference().unwrap_or_default());
        let (scope, scalings) = if let Some(cause) = self.scaling_difference_cause() {
            let (rebuilt, recorded) = (self.rebuilt_scaling_count, self.recorded_scaling_count);
            let scalings = format!(
                " Don't compare SCALINGS or REVERSALS: {rebuilt} scalings are rebuilt and \
                 {recorded} recorded, probably because {cause}."
            );
            (" for replicas, none for numbers of scalings", scalings)
        } else {
            ("", String::new())
        };
        match self.trust {
            Trust::Good => format!(
                "Trust: good{scope}. A variant whose replicas differ from those of base by clearly \
                 more than {error} would also have differed in reality.{scalings}"
            ),
            Trust::Limited => format!(
                "Trust: limited{scope}. Compare variants with each other, and only by differences \
                 of clearly more than {error}.{scalings}"
            ),
            Trust::Poor => "Trust: none. The load, the settings or the pods were not as \
                            assumed; don't conclude anything from the variants before you know \
                            why."
                .to_owned(),
            Trust::Unchanged => "Trust: unknown. The replicas never changed, so the match doesn't \
                                 show that the load is right. Replay a time with scalings."
                .to_owned(),
            Trust::TooLittleData if self.compared >= MIN_COVERAGE => format!(
                "Trust: unknown. Replicas can be compared at {} only, and {MIN_STEPS} are needed: \
                 choose a smaller --step, or a time with more records (--since).",
                counted(self.compared_step_count, "step")
            ),
            Trust::TooLittleData => "Trust: unknown. Too few replicas are recorded to compare \
                                     with: check --since and --replicas-query."
                .to_owned(),
            Trust::Paused => "Trust: none. The autoscaler is paused, maybe in one direction, or \
                              in a dry run: remove that setting from a copy, and replay the copy \
                              (-f)."
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hpa_simulate::ScenarioFile;
    use rstest::rstest;

    use super::*;

    /// Scalings, each from a second and the new replicas.
    fn scalings(changes: &[(f64, u32)]) -> Vec<Scaling> {
        let text = "
duration: 1m
autoscaler:
  metadata: {name: web}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 10
workload: {load: {constant: 900}, replicas: 2}
";
        // Copy a scaling of a run, because only a run can create the reason of a scaling.
        let scenario_file = ScenarioFile::parse(text, &|_| Err("no files".to_owned())).unwrap();
        let scaling = scenario_file.variants[0].run().steps[0].clone();
        let scaling = |(second, to)| Scaling { second, to, ..scaling.clone() };
        changes.iter().copied().map(scaling).collect()
    }

    fn recorded(values: &[(usize, Option<f64>)]) -> Series {
        Series(values.iter().flat_map(|(count, value)| vec![*value; *count]).collect())
    }

    #[test]
    fn shares_are_of_the_compared_time() {
        // The run has 2 replicas, and 4 from step 40. Recorded are 2, a gap, 3 and 6.
        let recorded = recorded(&[(20, Some(2.0)), (20, None), (10, Some(3.0)), (10, Some(6.0))]);
        let agreement = Agreement::new(2, &scalings(&[(600.0, 4)]), &recorded, 15.0);
        assert!((agreement.compared - 2.0 / 3.0).abs() < 1e-9);
        assert!((agreement.equal - 0.5).abs() < 1e-9, "{agreement:?}");
        assert!((agreement.within_one - 0.75).abs() < 1e-9);
        assert!((agreement.mean_absolute_difference - 0.75).abs() < 1e-9);
        assert!((agreement.mean_difference + 0.25).abs() < 1e-9);
        assert_eq!((agreement.recorded_scaling_count, agreement.rebuilt_scaling_count), (2, 1));
        assert_eq!(agreement.trust, Trust::Poor);
        let [measured, _] = agreement.paragraphs();
        assert!(measured.contains("recorded replicas 50 % of the time"), "{measured}");
        assert!(measured.contains("0.25 fewer"), "{measured}");
    }

    #[test]
    fn difference_has_no_share_if_recorded_replicas_are_zero() {
        let zero = recorded(&[(100, Some(0.0))]);
        let [measured, _] = Agreement::new(1, &[], &zero, 15.0).paragraphs();
        assert!(measured.contains("by 1.00 replicas on average (net 1.00 more)"), "{measured}");
        let scaled = Agreement::new(1, &scalings(&[(600.0, 2)]), &zero, 15.0);
        assert_eq!(scaled.trust, Trust::Poor);
    }

    #[test]
    fn trust_follows_from_the_relative_difference_and_needs_scalings() {
        let trust = |late: usize| {
            let recorded = recorded(&[(40 + late, Some(10.0)), (60 - late, Some(20.0))]);
            Agreement::new(10, &scalings(&[(600.0, 20)]), &recorded, 15.0).trust
        };
        assert_eq!(
            (trust(0), trust(5), trust(15), trust(40)),
            (Trust::Good, Trust::Good, Trust::Limited, Trust::Poor)
        );
        let unchanged = recorded(&[(100, Some(10.0))]);
        assert_eq!(Agreement::new(10, &[], &unchanged, 15.0).trust, Trust::Unchanged);
        let few = recorded(&[(60, None), (40, Some(10.0))]);
        assert_eq!(Agreement::new(10, &[], &few, 15.0).trust, Trust::TooLittleData);
    }

    #[test]
    fn replay_of_a_paused_autoscaler_is_not_trusted() {
        let recorded = recorded(&[(40, Some(10.0)), (60, Some(20.0))]);
        let agreement = Agreement::new(10, &scalings(&[(600.0, 20)]), &recorded, 15.0);
        assert_eq!(agreement.caution(), None);
        let paused = Agreement { trust: Trust::Paused, ..agreement };
        let [_, advice] = paused.paragraphs();
        assert!(advice.starts_with("Trust: none. The autoscaler is paused, "), "{advice}");
        assert_eq!(paused.caution(), Some(advice));
    }

    #[rstest]
    #[case::recorded_noise(931, 45, "none for numbers of scalings. A variant")]
    #[case::rebuilt_noise(3, 40, "none for numbers of scalings. A variant")]
    #[case::few(2, 12, "Trust: good. A variant")]
    #[case::within_the_factor(40, 80, "Trust: good. A variant")]
    fn numbers_of_scalings_are_compared(
        #[case] recorded: usize,
        #[case] rebuilt: usize,
        #[case] expected: &str,
    ) {
        let agreement = Agreement {
            compared: 1.0,
            compared_step_count: 1000,
            equal: 0.5,
            within_one: 1.0,
            mean_absolute_difference: 0.5,
            mean_difference: 0.0,
            mean_replicas: 40.0,
            recorded_scaling_count: recorded,
            rebuilt_scaling_count: rebuilt,
            trust: Trust::Good,
        };
        let [_, advice] = agreement.paragraphs();
        assert!(advice.contains(expected), "{advice}");
        let counts = format!("{rebuilt} scalings are rebuilt and {recorded} recorded");
        assert_eq!(advice.contains(&counts), expected.starts_with("none"), "{advice}");
    }

    #[test]
    fn advice_names_the_option_that_yields_enough_steps() {
        let advice = |values: &[(usize, Option<f64>)]| {
            let agreement = Agreement::new(10, &[], &recorded(values), 3600.0);
            assert_eq!(agreement.trust, Trust::TooLittleData);
            let [_, advice] = agreement.paragraphs();
            advice
        };
        assert_eq!(
            advice(&[(19, Some(10.0))]),
            "Trust: unknown. Replicas can be compared at 19 steps only, and 20 are needed: choose \
             a smaller --step, or a time with more records (--since)."
        );
        let gaps = advice(&[(60, None), (40, Some(10.0))]);
        assert!(gaps.ends_with("check --since and --replicas-query."), "{gaps}");
    }
}
