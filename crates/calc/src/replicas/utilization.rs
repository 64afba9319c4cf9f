use super::{CalculationError, Proposal, average::average, in_proportion, rebalanced, saturate};
use crate::{
    api::{ContainerRequests, Pod, ResourceName, ResourceRequest},
    pods::{PodClass, PodCounts, classify},
    readings::PodSamples,
    settings::{Readiness, Tolerances},
};

/// A target for the average use of a resource in percent of what the pods request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilizationTarget<'a> {
    /// The replicas the scale target is asked to have.
    pub current_replicas: i32,
    /// The utilization to reach, in percent.
    pub target: i32,
    /// The resource.
    pub resource: &'a ResourceName,
    /// The container whose use and request count; `None` for the whole pod.
    pub container: Option<&'a str>,
    /// When no change is called for.
    pub tolerances: Tolerances,
}

/// What the pods of one class, or of one side of a ratio, add up to.
#[derive(Clone, Copy, Default)]
struct Sums {
    usage: i128,
    requests: i128,
}

/// What all pods add up to, gathered in one pass.
#[derive(Default)]
struct Tally {
    census: PodCounts,
    ready: Sums,
    unready_requests: i128,
    /// The missing pods, their usage being what a scale-down assumes of them.
    missing: Sums,
    /// Samples of ignored and unready pods: they do not count.
    samples_dropped: usize,
    request_error: Option<CalculationError>,
}

/// The proposal of a resource with an `averageUtilization` target: Resource, ContainerResource.
///
/// The utilization is the sum of usage over the sum of requests, truncated to a whole percent before it is compared.
/// Every pod the selector matches must request the resource, ignored ones included. A pod that says itself what it
/// requests is taken at its word, unless a container is named (KEP-2837).
pub fn utilization<'a>(
    target: &UtilizationTarget<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    rules: &Readiness,
) -> Result<Proposal, CalculationError> {
    let tally = tally(target, pods, samples, rules)?;
    // Samples of pods the selector does not match stay in this count, though in no sum.
    let counted = samples.len().saturating_sub(tally.samples_dropped);
    if counted == 0 {
        return Err(CalculationError::NoSamples);
    }
    if let Some(error) = tally.request_error {
        return Err(error);
    }
    propose(target, &tally, counted)
}

fn tally<'a>(
    target: &UtilizationTarget<'_>,
    pods: impl IntoIterator<Item = &'a Pod>,
    samples: &PodSamples,
    rules: &Readiness,
) -> Result<Tally, CalculationError> {
    let is_cpu = *target.resource == ResourceName::Cpu;
    // On a scale-down a pod without a sample is assumed to use all it requests, or the target where that is more.
    let assumed_percent = i128::from(target.target.max(100));
    let mut tally = Tally::default();
    let mut any_pod = false;
    for pod in pods {
        any_pod = true;
        let sample = samples.get(&pod.name);
        let class = classify(pod, sample, is_cpu, rules);
        tally.census.count(class);
        let request = match request(pod, target.container, target.resource) {
            Ok(request) => i128::from(request),
            Err(error) => {
                tally.request_error.get_or_insert(error);
                0
            }
        };
        let usage = sample.map_or(0, |sample| i128::from(sample.value));
        match class {
            PodClass::Ready => {
                tally.ready.usage += usage;
                tally.ready.requests += request;
            }
            PodClass::Missing => {
                tally.missing.usage += request * assumed_percent / 100;
                tally.missing.requests += request;
            }
            PodClass::Unready => {
                tally.unready_requests += request;
                tally.samples_dropped += usize::from(sample.is_some());
            }
            PodClass::Ignored => tally.samples_dropped += usize::from(sample.is_some()),
        }
    }
    if any_pod { Ok(tally) } else { Err(CalculationError::NoPods) }
}

fn propose(
    target: &UtilizationTarget<'_>,
    tally: &Tally,
    mut counted: usize,
) -> Result<Proposal, CalculationError> {
    let (percent, ratio) = ratio(tally.ready, target.target)?;
    let census = tally.census;
    let count_unready = census.unready > 0 && ratio > 1.0;
    let (replicas, rule, rebalanced_ratio) = if !count_unready && census.missing == 0 {
        let within = target.tolerances.are_met_by(ratio);
        let (replicas, rule) = in_proportion(target.current_replicas, ratio, census.ready, within);
        (replicas, rule, None)
    } else {
        let mut sums = tally.ready;
        if ratio < 1.0 {
            sums.usage += tally.missing.usage;
            sums.requests += tally.missing.requests;
            counted += census.missing;
        } else if ratio > 1.0 {
            sums.requests += tally.missing.requests;
            counted += census.missing;
        }
        if count_unready {
            sums.requests += tally.unready_requests;
            counted += census.unready;
        }
        let (_, new_ratio) = self::ratio(sums, target.target)?;
        let within = target.tolerances.are_met_by(new_ratio);
        let (replicas, rule) =
            rebalanced(target.current_replicas, ratio, new_ratio, counted, within);
        (replicas, rule, Some(new_ratio))
    };
    let usage = average(tally.ready.usage, census.ready);
    Ok(Proposal {
        replicas,
        usage,
        utilization: Some(percent),
        ratio,
        rebalanced_ratio,
        rule,
        pods: Some(census),
    })
}

/// The utilization in whole percent, and its ratio to the target.
fn ratio(sums: Sums, target: i32) -> Result<(i32, f64), CalculationError> {
    let percent =
        (sums.usage * 100).checked_div(sums.requests).ok_or(CalculationError::NothingRequested)?;
    let percent = saturate(percent).clamp(i32::MIN.into(), i32::MAX.into());
    let percent = i32::try_from(percent).unwrap_or(i32::MAX);
    Ok((percent, f64::from(percent) / f64::from(target)))
}

/// What a pod requests of a resource, in milli-units.
fn request(
    pod: &Pod,
    container: Option<&str>,
    resource: &ResourceName,
) -> Result<i64, CalculationError> {
    let Some(name) = container else { return whole_pod_request(pod, resource) };
    let container =
        pod.requests.containers.iter().find(|candidate| candidate.name.as_ref() == name);
    let container = container.ok_or_else(|| CalculationError::NoContainer {
        container: name.to_owned(),
        pod: pod.name.to_string(),
    })?;
    container_request(pod, container, resource)
}

fn whole_pod_request(pod: &Pod, resource: &ResourceName) -> Result<i64, CalculationError> {
    if let Some(pod_level) = &pod.requests.pod_level {
        return find(pod_level, resource).ok_or_else(|| CalculationError::MissingPodLevelRequest {
            resource: resource.to_string(),
            pod: pod.name.to_string(),
        });
    }
    let mut sum = 0_i64;
    for container in &pod.requests.containers {
        sum = sum.saturating_add(container_request(pod, container, resource)?);
    }
    Ok(sum)
}

fn container_request(
    pod: &Pod,
    container: &ContainerRequests,
    resource: &ResourceName,
) -> Result<i64, CalculationError> {
    find(&container.requests, resource).ok_or_else(|| CalculationError::MissingRequest {
        resource: resource.to_string(),
        container: container.name.to_string(),
        pod: pod.name.to_string(),
    })
}

fn find(requests: &[ResourceRequest], resource: &ResourceName) -> Option<i64> {
    requests.iter().find(|request| request.resource == *resource).map(|request| request.milli)
}
