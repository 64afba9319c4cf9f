use super::{
    CalculationError, Proposal, amount::amount, average::average, proportional, rebalanced,
    saturate,
};
use crate::{
    api::{Pod, ResourceName},
    pods::{PodClass, PodCounts, classify},
    quantity::MilliValue,
    readings::PodSamples,
    settings::{DEFAULT_METRIC, MetricSettings, Readiness, Requests, Tolerances},
};

/// A target for the average usage of a resource in percent of the pods' requests.
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

/// The sums of usage and requests of some pods, in milli-units.
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
    /// The number of samples of ignored and unready pods, which don't count.
    samples_dropped: usize,
    /// The first pod without a request.
    request_error: Option<CalculationError>,
    /// The number of pods with other actual requests than those of their spec.
    resized: usize,
}

/// A proposal, and what settings changed in the usage that it is from.
pub(crate) struct Utilization {
    pub(crate) proposal: Proposal,
    /// The number of pods with other actual requests than those of their spec.
    pub(crate) resized: usize,
}

/// The proposal of a Resource or ContainerResource metric with an `averageUtilization` target.
///
/// The utilization is the sum of all usage divided by the sum of all requests, truncated to a whole
/// percent before it is compared. Every selected pod must request the resource, ignored pods too.
/// If the target names no container, pod-level requests take precedence (KEP-2837).
pub fn utilization<'a>(
    target: &UtilizationTarget<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &Readiness,
) -> Result<Proposal, CalculationError> {
    let utilization = utilization_with(target, &DEFAULT_METRIC, pods, samples, readiness)?;
    Ok(utilization.proposal)
}

/// Like [`utilization`], with the settings of the metric.
pub(crate) fn utilization_with<'a>(
    target: &UtilizationTarget<'_>,
    settings: &MetricSettings,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &Readiness,
) -> Result<Utilization, CalculationError> {
    let totals = totals(target, settings, pods, samples, readiness)?;
    // Samples of pods that the selector doesn't match are in this count, though in no sum.
    let counted = samples.len().saturating_sub(totals.samples_dropped);
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    if let Some(error) = totals.request_error {
        return Err(error);
    }
    let proposal = propose(target, &totals, counted)?;
    Ok(Utilization { proposal, resized: totals.resized })
}

fn totals<'a>(
    target: &UtilizationTarget<'_>,
    settings: &MetricSettings,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    readiness: &Readiness,
) -> Result<Totals, CalculationError> {
    let is_cpu = *target.resource == ResourceName::Cpu;
    // For a scale-down, a missing pod is assumed to use its whole request, or the target if that is
    // more.
    let assumed_percent = i128::from(target.target.max(100));
    let mut totals = Totals::default();
    for pod in pods {
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, is_cpu, readiness);
        totals.counts.add(class);
        let request = amount(pod, target.container, target.resource, settings);
        totals.resized += usize::from(is_resized(target, settings, pod, &request));
        let request = match request {
            Ok(request) => i128::from(request.as_milli()),
            Err(error) => {
                totals.request_error.get_or_insert(error);
                0
            }
        };
        let usage = sample.map_or(0, |sample| i128::from(sample.value.as_milli()));
        match class {
            PodClass::Ready => {
                totals.ready.usage += usage;
                totals.ready.requests += request;
            }
            PodClass::Missing => {
                totals.missing.usage += request * assumed_percent / 100;
                totals.missing.requests += request;
            }
            PodClass::Unready => {
                totals.unready_requests += request;
                totals.samples_dropped += usize::from(sample.is_some());
            }
            PodClass::Ignored => totals.samples_dropped += usize::from(sample.is_some()),
        }
    }
    if totals.counts.total() == 0 { Err(CalculationError::NoPods) } else { Ok(totals) }
}

fn propose(
    target: &UtilizationTarget<'_>,
    totals: &Totals,
    mut counted: usize,
) -> Result<Proposal, CalculationError> {
    let (percent, ratio) = ratio(totals.ready, target.target)?;
    let counts = totals.counts;
    let include_unready = counts.unready > 0 && ratio > 1.0;
    let (replicas, rule, rebalanced_ratio) = if !include_unready && counts.missing == 0 {
        let within = target.tolerances.contain(ratio);
        counted = counts.ready;
        let (replicas, rule) = proportional(target.current_replicas, ratio, counted, within);
        (replicas, rule, None)
    } else {
        let mut sums = totals.ready;
        if ratio < 1.0 {
            sums.usage += totals.missing.usage;
            sums.requests += totals.missing.requests;
            counted += counts.missing;
        } else if ratio > 1.0 {
            sums.requests += totals.missing.requests;
            counted += counts.missing;
        }
        if include_unready {
            sums.requests += totals.unready_requests;
            counted += counts.unready;
        }
        let (_, new_ratio) = self::ratio(sums, target.target)?;
        let within = target.tolerances.contain(new_ratio);
        let (replicas, rule) =
            rebalanced(target.current_replicas, ratio, new_ratio, counted, within);
        (replicas, rule, Some(new_ratio))
    };
    let usage = average(totals.ready.usage, counts.ready);
    Ok(Proposal {
        replicas,
        usage,
        utilization: Some(percent),
        ratio,
        rebalanced_ratio,
        rule,
        pods: Some(counts),
        counted: Some(counted),
        total: None,
    })
}

/// The utilization in whole percent, and the ratio of it to the target.
fn ratio(sums: Sums, target: i32) -> Result<(i32, f64), CalculationError> {
    let percent =
        (sums.usage * 100).checked_div(sums.requests).ok_or(CalculationError::NothingRequested)?;
    let percent = saturate(percent).clamp(i32::MIN.into(), i32::MAX.into());
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    Ok((percent, f64::from(percent) / f64::from(target)))
}

/// Whether the actual request or limit of a pod counts, and is another one than that of its spec.
fn is_resized(
    target: &UtilizationTarget<'_>,
    settings: &MetricSettings,
    pod: &Pod,
    actual: &Result<MilliValue, CalculationError>,
) -> bool {
    settings.requests == Requests::Actual && pod.resources.actual.is_some() && {
        let of_spec = MetricSettings { requests: Requests::Spec, ..settings.clone() };
        amount(pod, target.container, target.resource, &of_spec) != *actual
    }
}
