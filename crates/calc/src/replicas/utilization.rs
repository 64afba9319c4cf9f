use super::{
    AverageRules, CalculationError, Load, PodAverage, Proposal, RuleChanges,
    aggregate::value_at_rank,
    amount::request_or_limit,
    average::average,
    proportional, rebalanced,
    surge::{ignore_surge_pods, included_pods},
};
use crate::{
    api::{Pod, ResourceName},
    pods::{PodClass, PodCounts, classify},
    quantity::{MilliValue, saturate},
    readings::PodSamples,
    settings::{Aggregate, MetricSettings, ReadinessRules, RequestsSource, Rollout, Tolerances},
};

/// A target for the average usage of a resource in percent of the pods' requests or limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilizationTarget<'a> {
    /// The target's `spec.replicas`.
    pub current_replicas: i32,
    /// The utilization to reach, in percent.
    pub target: i32,
    /// The resource.
    pub resource: &'a ResourceName,
    /// The container whose usage and request count, or `None` for the whole pod.
    pub container: Option<&'a str>,
    /// The range of ratios that need no change.
    pub tolerances: Tolerances,
}

/// The sums of usage and requests of some pods, in milli-units. If the settings of the metric have
/// `UtilizationOf::Limits`, limits take the place of requests here and below.
#[derive(Clone, Copy, Default)]
struct Sums {
    usage: i128,
    requests: i128,
}

/// The sums over all pods, by class.
#[derive(Default)]
struct Totals {
    counts: PodCounts,
    ready: Sums,
    unready_requests: i128,
    /// The missing pods, with the usage that a scale-down assumes.
    missing: Sums,
    /// The number of samples of pods that don't count.
    dropped_sample_count: usize,
    /// The error about the first pod without a readable request.
    request_error: Option<CalculationError>,
    /// The usage and the request of each ready pod, if the aggregate is not the mean.
    values: Vec<(i64, i64)>,
    /// The usage that the status reports, if it is not the mean.
    reported_usage: Option<MilliValue>,
    changes: RuleChanges,
}

/// The proposal of a Resource or ContainerResource metric with an `averageUtilization` target.
///
/// The utilization is the sum of the usage divided by the sum of the requests of the pods that
/// count, truncated to a whole percent before it is compared. Every selected pod must request the
/// resource, even an ignored pod. If the target names no container, pod-level requests take
/// precedence (KEP-2837).
pub fn utilization<'a>(
    target: &UtilizationTarget<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &ReadinessRules,
) -> Result<Proposal, CalculationError> {
    let average =
        utilization_with_rules(target, AverageRules::default(), pods, samples, readiness)?;
    Ok(average.proposal)
}

/// Like [`utilization`], with the settings of the metric.
pub(crate) fn utilization_with_rules<'a>(
    target: &UtilizationTarget<'_>,
    rules: AverageRules<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &ReadinessRules,
) -> Result<PodAverage, CalculationError> {
    let mut totals = totals(target, rules.settings, pods, samples, readiness)?;
    // This includes the samples of pods that the selector doesn't match, although the sums don't.
    let counted = samples.len().saturating_sub(totals.dropped_sample_count);
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    if let Some(error) = totals.request_error.take() {
        return Err(error);
    }
    totals.apply_aggregate(rules.settings.aggregate)?;
    let proposal = propose(target, &totals, counted, rules.rollout)?;
    if rules.rollout == Rollout::IgnoreSurge {
        let with_surge = propose(target, &totals, counted, Rollout::CountSurge)?;
        totals.changes.replicas_with_surge = Some(with_surge.replicas);
    }
    Ok(PodAverage { proposal, changes: totals.changes })
}

fn totals<'a>(
    target: &UtilizationTarget<'_>,
    settings: &MetricSettings,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &ReadinessRules,
) -> Result<Totals, CalculationError> {
    let is_cpu = *target.resource == ResourceName::Cpu;
    let mut totals = Totals::default();
    for pod in pods {
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, is_cpu, readiness);
        let usage = sample.map(|sample| sample.value);
        totals.add(target, settings, pod, class, usage);
    }
    let counts = &totals.counts;
    let is_any_left = counts.ready + counts.unready + counts.missing > 0;
    match totals.changes.skipped.error.take() {
        Some(error) if !is_any_left => Err(error),
        _ if counts.total() == 0 => Err(CalculationError::NoPods),
        _ => Ok(totals),
    }
}

impl Totals {
    #[inline]
    fn add(
        &mut self,
        target: &UtilizationTarget<'_>,
        settings: &MetricSettings,
        pod: &Pod,
        class: PodClass,
        usage: Option<MilliValue>,
    ) {
        let request = request_or_limit(pod, target.container, target.resource, settings);
        if settings.requests == RequestsSource::Actual && is_resized(target, settings, pod) {
            self.changes.resized_pod_count += 1;
        }
        let request = match request {
            Ok(request) => request.as_milli(),
            Err(error) if error.skips_pod(settings) => {
                if class != PodClass::Ignored {
                    self.dropped_sample_count += usize::from(usage.is_some());
                    self.changes.skipped.add(pod, class, error);
                    return;
                }
                0
            }
            Err(error) => {
                self.request_error.get_or_insert(error);
                0
            }
        };
        self.counts.add(class);
        let (sampled, usage) = (usage.is_some(), usage.map_or(0, MilliValue::as_milli));
        if class == PodClass::Ready && settings.aggregate != Aggregate::Average {
            self.values.push((usage, request));
        }
        let (usage, request) = (i128::from(usage), i128::from(request));
        match class {
            PodClass::Ready => {
                self.ready.usage += usage;
                self.ready.requests += request;
            }
            PodClass::Missing => {
                // For a scale-down, a missing pod is assumed to use its whole request, or the
                // target if that is more.
                let assumed_percent = i128::from(target.target.max(100));
                self.missing.usage += request * assumed_percent / 100;
                self.missing.requests += request;
            }
            PodClass::Unready => {
                self.unready_requests += request;
                self.dropped_sample_count += usize::from(sampled);
            }
            PodClass::Ignored => self.dropped_sample_count += usize::from(sampled),
        }
    }

    /// Replaces the usage of the ready pods, as if each of them had the aggregate utilization.
    fn apply_aggregate(&mut self, aggregate: Aggregate) -> Result<(), CalculationError> {
        if aggregate == Aggregate::Average {
            return Ok(());
        }
        // A request of zero has no utilization.
        self.values.retain(|(_, request)| *request > 0);
        // Compares the fractions of usage and request.
        let by_utilization = |one: &(i64, i64), other: &(i64, i64)| {
            let left = i128::from(one.0) * i128::from(other.1);
            left.cmp(&(i128::from(other.0) * i128::from(one.1)))
        };
        let (usage, request) = value_at_rank(&mut self.values, aggregate, by_utilization)
            .ok_or(CalculationError::NothingRequested)?;
        let mean = self.ready.usage as f64 / self.ready.requests as f64;
        let values = self.values.len();
        self.changes.set_aggregate(values, usage as f64 / request as f64, mean);
        self.reported_usage = Some(MilliValue::from_milli(usage));
        let percent = i128::from(usage) * 100 / i128::from(request);
        // All sums are multiplied by 100, so that the whole percentage survives the division by the
        // requests.
        self.ready.usage = percent.saturating_mul(self.ready.requests);
        for sum in [
            &mut self.ready.requests,
            &mut self.missing.usage,
            &mut self.missing.requests,
            &mut self.unready_requests,
        ] {
            *sum = sum.saturating_mul(100);
        }
        Ok(())
    }

    /// The load of the ready pods and of the skipped pods, which are assumed to have as much load.
    fn load(&self, target: &UtilizationTarget<'_>, ratio: f64, rollout: Rollout) -> Load {
        // `apply_aggregate` has multiplied the sums by 100.
        let factor = if self.reported_usage.is_some() { 100.0 } else { 1.0 };
        let request = self.ready.requests as f64 / factor / self.counts.ready.max(1) as f64;
        let per_replica = request * f64::from(target.target) / 100.0;
        let current = target.current_replicas;
        // As for a scale-up, skipped pods without a sample have no load.
        let pods = self.changes.skipped.count_with_skipped(self.counts.ready, false, current);
        Load::of_pods(per_replica, ratio, pods, current, rollout)
    }
}

fn propose(
    target: &UtilizationTarget<'_>,
    totals: &Totals,
    mut counted: usize,
    rollout: Rollout,
) -> Result<Proposal, CalculationError> {
    let (percent, ratio) = utilization_ratio(totals.ready, target.target)?;
    let (counts, current, tolerances) = (totals.counts, target.current_replicas, target.tolerances);
    let (unready, missing) = included_pods(counts, ratio, current, rollout);
    let skipped = &totals.changes.skipped;
    let with_skipped = |counted| skipped.count_with_skipped(counted, ratio < 1.0, current);
    let (replicas, rule, rebalanced_ratio) = if unready == 0 && missing == 0 {
        counted = with_skipped(counts.ready);
        let (replicas, rule) = proportional(current, ratio, counted, tolerances);
        (replicas, rule, None)
    } else {
        let mut sums = totals.ready;
        if ratio < 1.0 {
            sums.usage += totals.missing.usage;
            sums.requests += totals.missing.requests;
            counted += missing;
        } else if ratio > 1.0 {
            sums.requests += share(totals.missing.requests, missing, counts.missing);
            sums.requests += share(totals.unready_requests, unready, counts.unready);
            counted += missing + unready;
        }
        counted = with_skipped(counted);
        let (_, new_ratio) = utilization_ratio(sums, target.target)?;
        let (replicas, rule) = rebalanced(current, ratio, new_ratio, counted, tolerances);
        (replicas, rule, Some(new_ratio))
    };
    let usage = totals.reported_usage.unwrap_or_else(|| average(totals.ready.usage, counts.ready));
    let proposal = Proposal {
        replicas,
        usage,
        utilization: Some(percent),
        ratio,
        rebalanced_ratio,
        rule,
        pods: Some(counts),
        counted_pods: Some(counted),
        total: None,
        load: totals.load(target, ratio, rollout),
    };
    Ok(ignore_surge_pods(proposal, current, tolerances, rollout))
}

/// The part of a sum over `all` pods that belongs to `some` of them, if each has the average.
fn share(sum: i128, some: usize, all: usize) -> i128 {
    if some == all { sum } else { sum.saturating_mul(some as i128) / (all.max(1) as i128) }
}

/// The utilization in whole percent, and its ratio to the target.
fn utilization_ratio(sums: Sums, target: i32) -> Result<(i32, f64), CalculationError> {
    let percent = sums
        .usage
        .saturating_mul(100)
        .checked_div(sums.requests)
        .ok_or(CalculationError::NothingRequested)?;
    let percent = saturate(percent).clamp(i32::MIN.into(), i32::MAX.into());
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    Ok((percent, f64::from(percent) / f64::from(target)))
}

/// Whether the applied request or limit of a pod differs from that of its spec.
#[cold]
fn is_resized(target: &UtilizationTarget<'_>, settings: &MetricSettings, pod: &Pod) -> bool {
    let of_spec = MetricSettings { requests: RequestsSource::Spec, ..settings.clone() };
    let amount = |settings| request_or_limit(pod, target.container, target.resource, settings);
    pod.resources.actual.is_some() && amount(settings) != amount(&of_spec)
}
