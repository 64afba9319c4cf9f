//! Converts the items of a response to a reading, as the reference does.

use hpa_calc::{
    MilliValue,
    api::ResourceName,
    readings::{MetricsApi, PodSample, PodSamples, ReadError, Sample},
};
use jiff::{SignedDuration, Timestamp};

use super::{ExternalMetricValue, MetricValue, PodMetrics, field::zero_time};

/// Returns the usage of a resource by each pod, or by one container of each pod.
///
/// Without a container name (or with an empty one), the value of a pod is the sum over its
/// containers, each rounded up to milli-units. A pod has no sample if it has no containers, or if
/// one of them does not report the resource. With a container name, the first container of that
/// name counts.
///
/// Without items, the result is [`ReadError::Empty`]. If no item has the resource, the result is
/// empty and not an error.
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
            .find(|container| *container.name == *name)
            .and_then(|container| container.usage.get(resource)),
        None => pod_usage(item, resource),
    };
    Ok(items
        .filter_map(|item| {
            let sample =
                PodSample { value: value(item)?, timestamp: item.timestamp, window: item.window };
            Some((item.metadata.name.clone(), sample))
        })
        .collect())
}

fn pod_usage(item: &PodMetrics, resource: &ResourceName) -> Option<MilliValue> {
    let values = item.containers.iter().map(|container| container.usage.get(resource));
    let sum = values.reduce(|sum, value| Some(sum?.saturating_add(value?)));
    sum.flatten()
}

/// Returns the value of a custom metric for each pod, by the name of the described object. The
/// window of a sample without one is zero. The reference assumes a minute, but never uses the
/// window of a custom metric.
///
/// Without items, the result is [`ReadError::Empty`].
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
            let window =
                item.window_seconds.map_or(SignedDuration::ZERO, SignedDuration::from_secs);
            (
                item.object.clone(),
                PodSample { value: item.value, timestamp: item.timestamp, window },
            )
        })
        .collect())
}

/// Returns the value of a custom metric of one object, and the time of the value, if it has one.
///
/// If the number of items is not one, the result is [`ReadError::Fetch`] with the text of the
/// reference's client.
pub fn object_value(items: &[MetricValue]) -> Result<Sample<MilliValue>, ReadError> {
    match items {
        [item] => Ok(Sample { value: item.value, timestamp: known_time(item.timestamp) }),
        _ => Err(ReadError::Fetch {
            api: MetricsApi::Custom,
            message: format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                items.len()
            ),
        }),
    }
}

/// Returns the values of all series, in the order of the response, and the oldest of their times.
/// Values without a time don't count for that.
///
/// Without items, the result is [`ReadError::Empty`].
pub fn external_values<'a, I>(items: I) -> Result<Sample<Vec<MilliValue>>, ReadError>
where
    I: IntoIterator<Item = &'a ExternalMetricValue>,
{
    let mut timestamp: Option<Timestamp> = None;
    let values = items.into_iter().map(|item| {
        let times = [timestamp, known_time(item.timestamp)];
        timestamp = times.into_iter().flatten().min();
        item.value
    });
    let value: Vec<MilliValue> = values.collect();
    if value.is_empty() {
        return Err(ReadError::Empty(MetricsApi::External));
    }
    Ok(Sample { value, timestamp })
}

/// The time of a value, unless it is Go's zero time, which stands for none.
fn known_time(time: Timestamp) -> Option<Timestamp> {
    (time > zero_time()).then_some(time)
}
