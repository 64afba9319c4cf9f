//! From the provider's values to the API's lists and errors.

use std::collections::HashMap;

use crate::metrics_api::{
    CustomVersion, MediaType, StatusError,
    table::Converted,
    usage::{Container, Metadata, Metrics, MetricsKind, MetricsList, MetricsObject, Usage, Values},
    values::{CustomItem, CustomList, DescribedKind, ExternalItem, ExternalList, LabelSelector},
};
use hpa_metrics::provider::value::UsageValues;
use hpa_metrics::provider::{
    CustomRequest, ListError, ObjectKey, ObjectMetadata, ProviderError,
    value::{CustomValues, ExternalValues, NodeUsage, PodUsage, Value},
};
use jiff::Timestamp;
use tracing::{debug, warn};

use crate::{
    describe::describe,
    response::{Preferences, Reply, encode},
};

/// The status of an error. `resource` and `name` are those of the request.
pub(super) fn status_of(
    error: &ProviderError,
    metric: &str,
    resource: &str,
    name: Option<&str>,
) -> StatusError {
    let reason = describe(error);
    if error.is_not_found() {
        debug!(metric, resource, reason, "no metric");
    } else {
        warn!(metric, resource, error = reason, "unable to read a metric");
    }
    match error {
        ProviderError::UnknownMetric(_) => StatusError::metric_not_found(metric, resource),
        ProviderError::NoValueForObject(_) => {
            let name = name.unwrap_or_default();
            StatusError::metric_not_found_for(metric, resource, name)
        }
        ProviderError::List(_) => StatusError::internal("unable to list matching resources"),
        ProviderError::Convert(error) => StatusError::unclassified(error.to_string()),
        // Details are in the log: they are not for everybody who may read metrics.
        _ => StatusError::internal("unable to fetch metrics"),
    }
}

/// The status of pods or nodes that can't be listed.
pub(super) fn list_error(what: &str, error: &ListError) -> StatusError {
    warn!(error = describe(error), "{what}");
    match error {
        ListError::NotSynced(_) => StatusError::service_unavailable(format!("{what}: {error}")),
        _ => StatusError::unclassified(format!("{what}: {error}")),
    }
}

pub(super) fn log_failures(objects: &str, failures: &[ProviderError]) {
    for failure in failures {
        warn!(error = describe(failure), "unable to read the usage of {objects}");
    }
}

pub(super) fn custom_list<'a>(
    version: CustomVersion,
    request: &'a CustomRequest,
    values: &'a CustomValues,
) -> Result<CustomList<'a>, StatusError> {
    let selector = match values.items.as_slice() {
        // Without items, nothing repeats the selector.
        [] => None,
        _ => LabelSelector::new(&request.metric_selector)?,
    };
    let kind = &values.object_kind;
    let items = values.items.iter().map(|item| CustomItem {
        name: &item.object.name,
        timestamp: item.value.timestamp,
        window_seconds: window_seconds(&item.value),
        value: &item.value.quantity,
    });
    Ok(CustomList {
        version,
        kind: DescribedKind {
            group: &kind.resource.group,
            version: &kind.version,
            kind: &kind.kind,
        },
        namespace: &request.namespace,
        metric: &request.metric,
        selector,
        items: items.collect(),
    })
}

pub(super) fn external_list<'a>(metric: &'a str, values: &'a ExternalValues) -> ExternalList<'a> {
    let items = values.items.iter().map(|item| ExternalItem {
        labels: item.labels.as_ref(),
        timestamp: item.value.timestamp,
        window_seconds: window_seconds(&item.value),
        value: &item.value.quantity,
    });
    ExternalList { metric, items: items.collect() }
}

fn window_seconds(value: &Value) -> Option<i64> {
    value.window.map(|window| i64::try_from(window.as_secs()).unwrap_or(i64::MAX))
}

/// The metrics of the pods that have a usage, in the order of the pods.
pub(super) fn pod_list<'a>(pods: &'a [ObjectMetadata], usage: &'a [PodUsage]) -> MetricsList<'a> {
    let by_pod: HashMap<&ObjectKey, &PodUsage> =
        usage.iter().map(|usage| (&usage.pod, usage)).collect();
    let metrics = |pod: &'a ObjectMetadata| Some(pod_metrics(pod, by_pod.get(&pod.key)?));
    MetricsList { kind: MetricsKind::Pods, items: pods.iter().filter_map(metrics).collect() }
}

/// The metrics of the nodes that have a usage, in the order of the nodes.
pub(super) fn node_list<'a>(
    nodes: &'a [ObjectMetadata],
    usage: &'a [NodeUsage],
) -> MetricsList<'a> {
    let by_name: HashMap<&str, &NodeUsage> =
        usage.iter().map(|usage| (usage.node.as_str(), usage)).collect();
    let metrics =
        |node: &'a ObjectMetadata| Some(node_metrics(node, by_name.get(node.key.name.as_str())?));
    MetricsList { kind: MetricsKind::Nodes, items: nodes.iter().filter_map(metrics).collect() }
}

pub(super) fn pod_metrics<'a>(pod: &'a ObjectMetadata, usage: &'a PodUsage) -> Metrics<'a> {
    let containers = usage.containers.iter();
    let containers = containers.map(|(name, values)| Container { name, usage: values_of(values) });
    Metrics {
        metadata: metadata(pod),
        timestamp: usage.timestamp,
        window: usage.window,
        values: Values::Pod(containers.collect()),
    }
}

pub(super) fn node_metrics<'a>(node: &'a ObjectMetadata, usage: &'a NodeUsage) -> Metrics<'a> {
    Metrics {
        metadata: metadata(node),
        timestamp: usage.timestamp,
        window: usage.window,
        values: Values::Node(values_of(&usage.values)),
    }
}

fn values_of(values: &UsageValues) -> Usage<'_> {
    Usage { cpu: &values.cpu, memory: &values.memory }
}

fn metadata(object: &ObjectMetadata) -> Metadata<'_> {
    Metadata {
        name: &object.key.name,
        namespace: &object.key.namespace,
        // The metrics object is made for the request.
        creation_timestamp: Timestamp::now(),
        labels: &object.labels,
    }
}

pub(super) fn list_response(
    list: MetricsList<'_>,
    media_type: &MediaType,
    preferences: Preferences<'_>,
) -> Result<Reply, StatusError> {
    let conversion = media_type.conversion.as_ref();
    let converted = Converted::from_list(list, conversion, preferences.query)?;
    Ok(encode(200, media_type, &converted))
}

pub(super) fn object_response(
    kind: MetricsKind,
    metrics: Metrics<'_>,
    media_type: &MediaType,
    preferences: Preferences<'_>,
) -> Result<Reply, StatusError> {
    let conversion = media_type.conversion.as_ref();
    let object = MetricsObject { kind, metrics };
    let converted = Converted::from_object(object, conversion, preferences.query)?;
    Ok(encode(200, media_type, &converted))
}
