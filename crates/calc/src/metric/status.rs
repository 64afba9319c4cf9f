//! The `currentMetrics` entry of a metric.

use super::source::{Source, source};
use crate::api::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricSourceType, MetricSpec,
    MetricStatus, MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};

pub(super) fn resource_status(
    name: &str,
    container: Option<&str>,
    current: MetricValueStatus,
) -> MetricStatus {
    let name = name.to_owned();
    match container {
        None => MetricStatus {
            source_type: MetricSourceType::Resource,
            resource: Some(ResourceMetricStatus { name, current, ..Default::default() }.into()),
            ..Default::default()
        },
        Some(container) => {
            let container = container.to_owned();
            MetricStatus {
                source_type: MetricSourceType::ContainerResource,
                container_resource: Some(
                    ContainerResourceMetricStatus {
                        name,
                        container,
                        current,
                        ..Default::default()
                    }
                    .into(),
                ),
                ..Default::default()
            }
        }
    }
}

/// The status of a failed metric: the metric without a value, or only its type if the spec has no
/// source of that type. The reference stores an empty entry instead. Strict clients fail to decode
/// that.
pub(crate) fn status_without_value(spec: &MetricSpec) -> MetricStatus {
    let current = MetricValueStatus::default();
    let source_type = spec.source_type.clone();
    match source(spec) {
        Ok(Source::Resource(source)) => resource_status(&source.name, None, current),
        Ok(Source::ContainerResource(source)) => {
            resource_status(&source.name, Some(&source.container), current)
        }
        Ok(Source::Pods(source)) => {
            let pods = PodsMetricStatus { metric: source.metric.clone(), ..Default::default() };
            MetricStatus { source_type, pods: Some(pods.into()), ..Default::default() }
        }
        Ok(Source::Object(source)) => {
            let object = ObjectMetricStatus {
                metric: source.metric.clone(),
                described_object: source.described_object.clone(),
                ..Default::default()
            };
            MetricStatus { source_type, object: Some(object.into()), ..Default::default() }
        }
        Ok(Source::External(source)) => {
            let external =
                ExternalMetricStatus { metric: source.metric.clone(), ..Default::default() };
            MetricStatus { source_type, external: Some(external.into()), ..Default::default() }
        }
        Err(_) => MetricStatus { source_type, ..Default::default() },
    }
}
