//! Items of an answer to the reading that a decision uses, as the reference controller reduces them.

use hpa_calc::{
    MilliValue,
    api::ResourceName,
    readings::{MetricsApi, PodSample, PodSamples, ReadError},
};
use jiff::SignedDuration;

use super::{ExternalMetricValue, MetricValue, PodMetrics};

/// The window of a custom metric's sample that names none.
pub const DEFAULT_WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// The use of a resource by each pod, or by one container of each.
///
/// Without a container (or with an empty name) a pod's value is the sum over its containers, each rounded up to
/// milli-units. A pod is left out, that is, missing, if it has no container or one that does not report the
/// resource. With a container only the first of that name counts.
///
/// No items give [`ReadError::Empty`]; items that all lack the resource give no samples, which is not an error here.
pub fn resource_samples<'a, I>(
    items: I,
    resource: &ResourceName,
    container: Option<&str>,
) -> Result<PodSamples, ReadError>
where
    I: IntoIterator<Item = &'a PodMetrics>,
{
    let container = container.filter(|name| !name.is_empty());
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return Err(ReadError::Empty(MetricsApi::Resource));
    }
    let value = |item: &PodMetrics| match container {
        Some(name) => item
            .containers
            .iter()
            .find(|one| *one.name == *name)
            .and_then(|one| one.usage.get(resource)),
        None => whole_pod(item, resource),
    };
    Ok(items
        .filter_map(|item| {
            let sample =
                PodSample { value: value(item)?, timestamp: item.timestamp, window: item.window };
            Some((item.metadata.name.clone(), sample))
        })
        .collect())
}

fn whole_pod(item: &PodMetrics, resource: &ResourceName) -> Option<MilliValue> {
    let values = item.containers.iter().map(|one| one.usage.get(resource));
    let sum = values.reduce(|sum, value| Some(sum?.saturating_add(value?)));
    sum.flatten()
}

/// A metric of each pod: the described object is the pod. A sample without a window has [`DEFAULT_WINDOW`].
///
/// No items give [`ReadError::Empty`].
pub fn pod_samples<'a, I>(items: I) -> Result<PodSamples, ReadError>
where
    I: IntoIterator<Item = &'a MetricValue>,
{
    let mut items = items.into_iter().peekable();
    if items.peek().is_none() {
        return Err(ReadError::Empty(MetricsApi::Custom));
    }
    Ok(items
        .map(|item| {
            let window = item.window_seconds.map_or(DEFAULT_WINDOW, SignedDuration::from_secs);
            (
                item.object.clone(),
                PodSample { value: item.value, timestamp: item.timestamp, window },
            )
        })
        .collect())
}

/// The value of a metric of one object, in milli-units.
///
/// Any number of items but one gives [`ReadError::Fetch`] with the text of the reference's client.
pub fn object_value(items: &[MetricValue]) -> Result<MilliValue, ReadError> {
    match items {
        [item] => Ok(item.value),
        _ => Err(ReadError::Fetch {
            api: MetricsApi::Custom,
            message: format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                items.len()
            ),
        }),
    }
}

/// The value of every series, in milli-units and in the order of the answer.
///
/// No items give [`ReadError::Empty`].
pub fn external_values<'a, I>(items: I) -> Result<Vec<MilliValue>, ReadError>
where
    I: IntoIterator<Item = &'a ExternalMetricValue>,
{
    let values: Vec<MilliValue> = items.into_iter().map(|item| item.value).collect();
    if values.is_empty() { Err(ReadError::Empty(MetricsApi::External)) } else { Ok(values) }
}
