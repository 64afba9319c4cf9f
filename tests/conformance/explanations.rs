//! Derives each decision of a trace from its report alone: from pods and samples to ratios, from
//! ratios to proposals, and through the limits to the replicas. Also applies each change that a
//! report lists, which must change the replicas as reported.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::float_cmp,
    reason = "the derivation repeats the reference's arithmetic, and `as` saturates for floats"
)]

use std::collections::BTreeSet;

use hpa_calc::{
    api::{MetricSourceType, PolicySelect},
    explain::{Reason, TargetValue},
    pods::{PodClass, PodCounts},
    replicas::Rule,
    report::{Inputs, MetricReport, PodReport, RateLimit, Report},
};

/// Checks the report of a step. `recorded` are the replicas that the reference wrote to the scale.
/// If its write failed, they are not compared.
pub(crate) fn check(
    inputs: &Inputs,
    recorded: Option<i64>,
    write_failed: bool,
) -> Result<(), String> {
    let report = inputs.report();
    check_sentence(&report)?;
    check_log_line(inputs)?;
    for metric in &report.metrics {
        check_metric(metric, &report).map_err(|error| format!("{}: {error}", metric.name))?;
    }
    let derived = derive_replicas(&report)?;
    let derived = derived.filter(|replicas| Some(*replicas) != report.current_replicas);
    if derived != report.scale_to {
        return Err(format!("derived {derived:?}, decided {:?}", report.scale_to));
    }
    if !write_failed && derived.map(i64::from) != recorded {
        return Err(format!("derived {derived:?}, recorded {recorded:?}"));
    }
    check_changes(inputs, &report)
}

/// The sentence of a report must contain a reason, and must not repeat the message of an error. A
/// failure must have advice.
fn check_sentence(report: &Report) -> Result<(), String> {
    let Report { sentence, error, .. } = report;
    let (_, why) = sentence.split_once(": ").unwrap_or_default();
    if why.trim().is_empty() || sentence.contains(": ;") || sentence.ends_with([':', ';', ' ']) {
        return Err(format!("empty reason in {sentence:?}"));
    }
    let causes = report.metrics.iter().filter_map(|metric| metric.explanation.error.as_deref());
    for cause in causes.filter(|cause| !cause.is_empty()) {
        if sentence.matches(cause).count() > 1 {
            return Err(format!("repeated cause in {sentence:?}"));
        }
    }
    let unexplained = report.reason == Reason::Failed && report.advice.is_empty();
    if unexplained { Err(format!("no advice for {error:?}")) } else { Ok(()) }
}

/// Checks the explanation in the debug log like the sentence of a report.
fn check_log_line(inputs: &Inputs) -> Result<(), String> {
    let decision = inputs.decide();
    let line = decision.explanation().to_string();
    let is_empty = line.contains(": ;") || line.ends_with([':', ';', ' ']);
    let causes = decision.explanation().metrics.iter().filter_map(|metric| metric.error.as_deref());
    let causes: BTreeSet<_> = causes.filter(|cause| !cause.is_empty()).collect();
    // A cause may contain another one.
    let is_repeated = causes.iter().any(|cause| {
        let containing = causes.iter().filter(|other| other.contains(cause)).count();
        line.matches(cause).count() > containing
    });
    if is_empty || is_repeated { Err(format!("log line {line:?}")) } else { Ok(()) }
}

fn check_changes(inputs: &Inputs, report: &Report) -> Result<(), String> {
    for change in &report.changes {
        let changed = change.trigger.apply(inputs).resulting_replicas();
        if changed != change.replicas || changed == inputs.resulting_replicas() {
            return Err(format!("{change:?} leads to {changed}"));
        }
    }
    Ok(())
}

/// The replicas that follow from the numbers of a report. `None` if the numbers don't determine
/// them.
fn derive_replicas(report: &Report) -> Result<Option<i32>, String> {
    let Some(current) = report.current_replicas else { return Ok(None) };
    let bounds = report.bounds;
    if current > bounds.max_replicas {
        return Ok(Some(bounds.max_replicas));
    }
    if current > 0 && current < bounds.min_replicas {
        return Ok(Some(bounds.min_replicas));
    }
    let Some(proposed) = largest_proposal(report, current) else { return Ok(None) };
    let proposed = proposed.max(0);
    let limits = report.limits.as_ref().ok_or("the report has no limits")?;
    let stabilization = &limits.stabilization;
    let highest = stabilization.highest_in_down_window.unwrap_or(proposed).max(proposed);
    let lowest = stabilization.lowest_in_up_window.unwrap_or(proposed).min(proposed);
    let stabilized = if limits.has_behavior { current.max(lowest).min(highest) } else { highest };
    if stabilization.held_by.is_some() != (stabilized != proposed) {
        return Err(format!("{:?}, but {proposed} becomes {stabilized}", stabilization.held_by));
    }
    check_rate(&limits.scale_up, true)?;
    let desired = match &limits.scale_down {
        None => {
            let most = limits.scale_up.limit.min(bounds.max_replicas);
            if stabilized < bounds.min_replicas {
                bounds.min_replicas
            } else {
                stabilized.min(most)
            }
        }
        Some(down) => {
            check_rate(down, false)?;
            let most = limits.scale_up.limit.max(current).min(bounds.max_replicas);
            let fewest = down.limit.min(current).max(bounds.min_replicas);
            if stabilized > current { stabilized.min(most) } else { stabilized.max(fewest) }
        }
    };
    // If metrics were read at zero replicas, the autoscaler had scaled to zero.
    let is_waking = current == 0 && desired < bounds.min_replicas;
    Ok(Some(if is_waking { bounds.min_replicas } else { desired }))
}

/// The largest proposal. `None` if a failed metric blocks a scale-down, or if there is no metric.
fn largest_proposal(report: &Report, current: i32) -> Option<i32> {
    let proposals = report.metrics.iter().filter_map(|metric| metric.explanation.proposed_replicas);
    let mut largest = 0;
    for proposal in proposals {
        // As in the reference, any proposal replaces 0, even a negative one.
        if largest == 0 || proposal > largest {
            largest = proposal;
        }
    }
    let failed = report.metrics.iter().filter(|metric| metric.explanation.error.is_some()).count();
    let is_decided = failed == 0 || (failed < report.metrics.len() && largest >= current);
    (is_decided && !report.metrics.is_empty()).then_some(largest)
}

/// Checks that the limit of a direction follows from its policies.
fn check_rate(rate: &RateLimit, is_scale_up: bool) -> Result<(), String> {
    let allowed = rate.policies.iter().map(|policy| policy.allowed_replicas);
    let take_maximum = is_scale_up != (rate.select == PolicySelect::Min);
    let limit = if take_maximum { allowed.max() } else { allowed.min() };
    match limit {
        Some(limit) if rate.select != PolicySelect::Disabled && limit != rate.limit => {
            Err(format!("policies lead to {limit}, not {}", rate.limit))
        }
        _ => Ok(()),
    }
}

fn check_metric(metric: &MetricReport, report: &Report) -> Result<(), String> {
    let explanation = &metric.explanation;
    let Some(proposed) = explanation.proposed_replicas else {
        return explanation.error.as_ref().map(|_| ()).ok_or("no proposal and no error".into());
    };
    let current = report.current_replicas.ok_or("a proposal without a scale")?;
    let (up, down) = explanation.tolerances.ok_or("no tolerances")?;
    let is_within = |ratio: f64| 1.0 - down <= ratio && ratio <= 1.0 + up;
    let ratio = explanation.ratio.ok_or("no ratio")?;
    let derived = match (&metric.source_type, explanation.total) {
        (MetricSourceType::Object | MetricSourceType::External, Some(total)) => {
            let Some(TargetValue::Value(target)) = explanation.target else {
                return Err("no target".to_owned());
            };
            let status = report.status_replicas.unwrap_or_default();
            let target = target.as_milli() as f64;
            let derived = total.as_milli() as f64 / (target * f64::from(status));
            ensure_equal_ratio(ratio, derived)?;
            if is_within(ratio) { status } else { ceil(total.as_milli() as f64 / target) }
        }
        (MetricSourceType::Object | MetricSourceType::External, None) => {
            ensure_equal_ratio(ratio, value_ratio(metric)?)?;
            match explanation.counted_pods {
                _ if current == 0 => ceil(ratio),
                None if is_within(ratio) => current,
                None => return Err("no pods are counted".to_owned()),
                Some(counted) => {
                    ensure_equal("counted", counted, pod_counts(metric).ready)?;
                    ceil(ratio * counted as f64)
                }
            }
        }
        _ => average_proposal(metric, current, is_within)?,
    };
    ensure_equal("proposal", proposed, derived)
}

fn value_ratio(metric: &MetricReport) -> Result<f64, String> {
    match (metric.explanation.usage, metric.explanation.target) {
        (Some(usage), Some(TargetValue::Value(target))) => {
            Ok(usage.as_milli() as f64 / target.as_milli() as f64)
        }
        _ => Err("no usage or no target".to_owned()),
    }
}

fn pod_counts(metric: &MetricReport) -> PodCounts {
    let mut counts = PodCounts::default();
    metric.pod_list.iter().for_each(|pod| counts.add(pod.class));
    counts
}

/// The proposal of an average over pods, from the pods of the report.
fn average_proposal(
    metric: &MetricReport,
    current: i32,
    is_within: impl Fn(f64) -> bool,
) -> Result<i32, String> {
    let explanation = &metric.explanation;
    let counts = pod_counts(metric);
    ensure_equal("pods", Some(counts), explanation.pods)?;
    let pods = ReportedPods::new(metric);
    let ratio = pods.ratio(&[], false);
    ensure_equal_ratio(explanation.ratio.unwrap_or(f64::NAN), ratio)?;
    let include_unready = counts.unready > 0 && ratio > 1.0;
    if !include_unready && counts.missing == 0 {
        ensure_equal("counted", explanation.counted_pods, Some(counts.ready))?;
        return Ok(if is_within(ratio) { current } else { ceil(ratio * counts.ready as f64) });
    }
    let (mut added, mut counted) = (Vec::new(), pods.samples);
    if ratio != 1.0 {
        added.push(PodClass::Missing);
        counted += counts.missing;
    }
    if include_unready {
        added.push(PodClass::Unready);
        counted += counts.unready;
    }
    let new = pods.ratio(&added, ratio < 1.0);
    ensure_equal_ratio(explanation.rebalanced_ratio.ok_or("no rebalanced ratio")?, new)?;
    ensure_equal("counted", explanation.counted_pods, Some(counted))?;
    let replicas = ceil(new * counted as f64);
    let is_reversed = (ratio < 1.0 && new > 1.0)
        || (ratio > 1.0 && new < 1.0)
        || (new < 1.0 && replicas > current)
        || (new > 1.0 && replicas < current);
    let rule = if is_within(new) {
        Rule::WithinTolerance
    } else if is_reversed {
        Rule::DirectionReversed
    } else {
        Rule::Proportional
    };
    ensure_equal("rule", explanation.rule, Some(rule))?;
    Ok(if rule == Rule::Proportional { replicas } else { current })
}

/// The pods and samples of a metric in a report.
struct ReportedPods<'a> {
    metric: &'a MetricReport,
    /// The number of counted samples.
    samples: usize,
}

impl<'a> ReportedPods<'a> {
    fn new(metric: &'a MetricReport) -> Self {
        let unselected = metric.unselected_samples.as_ref();
        let unselected = unselected.map_or(0, |samples| samples.pods.len());
        Self { metric, samples: pod_counts(metric).ready + unselected }
    }

    fn in_class(&self, class: PodClass) -> impl Iterator<Item = &'a PodReport> {
        self.metric.pod_list.iter().filter(move |pod| pod.class == class)
    }

    /// The ratio with the pods of the classes `added`, which are assumed to use nothing. If
    /// `is_down`, missing pods are assumed to use their target, or their request if that is more.
    fn ratio(&self, added: &[PodClass], is_down: bool) -> f64 {
        let mut usage: i128 =
            self.in_class(PodClass::Ready).filter_map(|pod| pod.usage).map(milli).sum();
        let mut requests: i128 =
            self.in_class(PodClass::Ready).filter_map(|pod| pod.request).map(milli).sum();
        let mut count = self.samples;
        match self.metric.explanation.target {
            Some(TargetValue::Utilization(target)) => {
                let assumed = i128::from(target.max(100));
                for class in added {
                    for pod in self.in_class(*class) {
                        let request = pod.request.map_or(0, milli);
                        requests += request;
                        let is_assumed = is_down && *class == PodClass::Missing;
                        usage += if is_assumed { request * assumed / 100 } else { 0 };
                    }
                }
                let percent = clamp((usage * 100).checked_div(requests).unwrap_or(0));
                let percent = i32::try_from(percent).unwrap_or(i32::MAX);
                f64::from(percent) / f64::from(target)
            }
            Some(TargetValue::Value(target)) => {
                usage += self.metric.unselected_samples.as_ref().map_or(0, |one| milli(one.total));
                for class in added {
                    let pods = self.in_class(*class).count();
                    count += pods;
                    if is_down && *class == PodClass::Missing {
                        usage += milli(target) * pods as i128;
                    }
                }
                let average = clamp(usage).checked_div(count as i64).unwrap_or(0);
                average as f64 / target.as_milli() as f64
            }
            None => f64::NAN,
        }
    }
}

fn milli(value: hpa_calc::MilliValue) -> i128 {
    value.as_milli().into()
}

fn clamp(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}

fn ensure_equal_ratio(reported: f64, derived: f64) -> Result<(), String> {
    let is_same = reported == derived || (reported.is_nan() && derived.is_nan());
    if is_same { Ok(()) } else { Err(format!("ratio {reported}, derived {derived}")) }
}

fn ensure_equal<T: PartialEq + std::fmt::Debug>(
    field: &str,
    reported: T,
    derived: T,
) -> Result<(), String> {
    if reported == derived {
        Ok(())
    } else {
        Err(format!("{field} {reported:?}, derived {derived:?}"))
    }
}
