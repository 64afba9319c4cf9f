//! The source of a metric spec, and its query.

use super::error::MetricSpecError;
use crate::{
    api::{
        ContainerResourceMetricSource, ExternalMetricSource, MetricIdentifier, MetricSourceType,
        MetricSpec, MetricTarget, MetricTargetType, ObjectMetricSource, PodsMetricSource,
        ResourceMetricSource,
    },
    readings::MetricQuery,
    selector::Selector,
};

/// The source of a metric, by its type.
pub(super) enum Source<'a> {
    Object(&'a ObjectMetricSource),
    Pods(&'a PodsMetricSource),
    Resource(&'a ResourceMetricSource),
    ContainerResource(&'a ContainerResourceMetricSource),
    External(&'a ExternalMetricSource),
}

/// The member of the spec that the type names.
pub(super) fn source(spec: &MetricSpec) -> Result<Source<'_>, MetricSpecError> {
    let source = match &spec.source_type {
        MetricSourceType::Object => spec.object.as_deref().map(Source::Object),
        MetricSourceType::Pods => spec.pods.as_deref().map(Source::Pods),
        MetricSourceType::Resource => spec.resource.as_deref().map(Source::Resource),
        MetricSourceType::ContainerResource => {
            spec.container_resource.as_deref().map(Source::ContainerResource)
        }
        MetricSourceType::External => spec.external.as_deref().map(Source::External),
        MetricSourceType::Other(name) => return Err(MetricSpecError::UnknownType(name.clone())),
    };
    let source_type = &spec.source_type;
    source.ok_or_else(|| MetricSpecError::MissingSource { source_type: source_type.clone() })
}

/// The query of a metric. Fails if the type is unknown, the type's source is missing, or a selector
/// is invalid.
pub(crate) fn query(spec: &MetricSpec) -> Result<MetricQuery, MetricSpecError> {
    let identify = |metric: &MetricIdentifier| -> Result<(String, Selector), MetricSpecError> {
        // `None` becomes the selector that matches nothing. The string of this selector is empty,
        // so the metrics API returns every series.
        let selector = Selector::from_label_selector(metric.selector.as_ref())?;
        Ok((metric.name.clone(), selector))
    };
    match source(spec)? {
        Source::Resource(source) => {
            Ok(MetricQuery::Resource { resource: source.name.as_str().into(), container: None })
        }
        Source::ContainerResource(source) => Ok(MetricQuery::Resource {
            resource: source.name.as_str().into(),
            container: Some(source.container.clone()),
        }),
        Source::Pods(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            Ok(MetricQuery::Pods { metric, metric_selector })
        }
        Source::Object(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            let object = source.described_object.clone();
            Ok(MetricQuery::Object { object, metric, metric_selector })
        }
        Source::External(source) => {
            let (metric, metric_selector) = identify(&source.metric)?;
            Ok(MetricQuery::External { metric, metric_selector })
        }
    }
}

pub(super) fn is_object_average(target: &MetricTarget) -> bool {
    target.target_type == MetricTargetType::AverageValue && target.average_value.is_some()
}

pub(super) fn is_object_value(target: &MetricTarget) -> bool {
    target.target_type == MetricTargetType::Value && target.value.is_some()
}
