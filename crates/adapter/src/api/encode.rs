//! From the provider's values to the API's lists and errors.

use crate::metrics_api::{
    CustomVersion, MediaType, StatusError,
    table::Converted,
    usage::{Container, Metadata, Metrics, MetricsKind, MetricsList, MetricsObject, Usage, Values},
    values::{CustomItem, CustomList, DescribedKind, ExternalItem, ExternalList, LabelSelector},
};
use hpa_calc::{MilliValue, Quantity, api::ResourceName, quantity::Format};
use hpa_metrics::{
    CustomQuery, CustomValues, ExternalValues, ListError, MetricError, describe,
    wire::{self, ItemMeta, NodeMetrics, PodMetrics},
};
use jiff::Timestamp;
use tracing::{debug, warn};

use crate::response::{Preferences, Reply, encode};

/// The status of an error. `resource` and `name` are those of the request.
pub(super) fn status_of(
    error: &MetricError,
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
        MetricError::UnknownMetric(_) => StatusError::metric_not_found(metric, resource),
        MetricError::NoValueForObject(_) => {
            let name = name.unwrap_or_default();
            StatusError::metric_not_found_for(metric, resource, name)
        }
        MetricError::List(_) => StatusError::internal("unable to list matching resources"),
        MetricError::Convert(error) => StatusError::unclassified(error.to_string()),
        // Details are in the log: they are not for everybody who may read metrics.
        _ => StatusError::internal("unable to fetch metrics"),
    }
}

/// The status of pods or nodes that can't be listed.
pub(super) fn usage_error(what: &str, error: &MetricError) -> StatusError {
    let MetricError::List(error) = error else {
        return status_of(error, what, "", None);
    };
    warn!(error = describe(error), "{what}");
    match error {
        ListError::NotSynced(_) => StatusError::service_unavailable(format!("{what}: {error}")),
        _ => StatusError::unclassified(format!("{what}: {error}")),
    }
}

pub(super) fn log_failures(objects: &str, failures: &[MetricError]) {
    for failure in failures {
        warn!(error = describe(failure), "unable to read the usage of {objects}");
    }
}

pub(super) fn custom_list<'a>(
    version: CustomVersion,
    request: &'a CustomQuery,
    values: &'a CustomValues,
) -> Result<CustomList<'a>, StatusError> {
    let selector = match values.items.as_slice() {
        // Without items, nothing repeats the selector.
        [] => None,
        _ => LabelSelector::new(&request.metric_selector)?,
    };
    let kind = &values.object_kind;
    let items = values.items.iter().map(|item| CustomItem {
        name: &item.object,
        timestamp: item.timestamp,
        window_seconds: item.window_seconds,
        value: item.value.into(),
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
        timestamp: item.timestamp,
        window_seconds: None,
        value: item.value.into(),
    });
    ExternalList { metric, items: items.collect() }
}

pub(super) fn pod_list(usage: &[PodMetrics]) -> MetricsList<'_> {
    MetricsList { kind: MetricsKind::Pods, items: usage.iter().map(pod_metrics).collect() }
}

pub(super) fn node_list(usage: &[NodeMetrics]) -> MetricsList<'_> {
    MetricsList { kind: MetricsKind::Nodes, items: usage.iter().map(node_metrics).collect() }
}

pub(super) fn pod_metrics(usage: &PodMetrics) -> Metrics<'_> {
    let containers = usage.containers.iter();
    let containers =
        containers.map(|own| Container { name: &own.name, usage: usage_of(&own.usage) });
    Metrics {
        metadata: metadata(&usage.metadata),
        timestamp: usage.timestamp,
        window: usage.window.unsigned_abs(),
        values: Values::Pod(containers.collect()),
    }
}

pub(super) fn node_metrics(usage: &NodeMetrics) -> Metrics<'_> {
    Metrics {
        metadata: metadata(&usage.metadata),
        timestamp: usage.timestamp,
        window: usage.window.unsigned_abs(),
        values: Values::Node(usage_of(&usage.usage)),
    }
}

fn usage_of(usage: &wire::Usage) -> Usage {
    let quantity = |resource, format| {
        let milli: MilliValue = usage.get(&resource)?;
        Some(Quantity::from_milli(milli, format))
    };
    Usage {
        cpu: quantity(ResourceName::Cpu, Format::DecimalSI),
        memory: quantity(ResourceName::Memory, Format::BinarySI),
    }
}

fn metadata(object: &ItemMeta) -> Metadata<'_> {
    Metadata {
        name: &object.name,
        namespace: &object.namespace,
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
