//! The `currentMetrics` entry of a metric.

use super::source::{Source, source};
use crate::api::{
    ContainerResourceMetricStatus, ExternalMetricStatus, MetricSpec, MetricStatus,
    MetricValueStatus, ObjectMetricStatus, PodsMetricStatus, ResourceMetricStatus,
};

/// The status of a metric. `current` is empty if the metric failed: the status then only names the
/// metric or, if the spec has no source of the metric's type, that type. The reference stores an
/// empty entry instead. Strict clients fail to decode that.
pub(crate) fn metric_status(spec: &MetricSpec, current: MetricValueStatus) -> MetricStatus {
    let mut status = MetricStatus { source_type: spec.source_type.clone(), ..Default::default() };
    match source(spec) {
        Ok(Source::Resource(source)) => {
            let name = source.name.clone();
            let resource = ResourceMetricStatus { name, current, ..Default::default() };
            status.resource = Some(resource.into());
        }
        Ok(Source::ContainerResource(source)) => {
            let (name, container) = (source.name.clone(), source.container.clone());
            let resource =
                ContainerResourceMetricStatus { name, container, current, ..Default::default() };
            status.container_resource = Some(resource.into());
        }
        Ok(Source::Pods(source)) => {
            let metric = source.metric.clone();
            let pods = PodsMetricStatus { metric, current, ..Default::default() };
            status.pods = Some(pods.into());
        }
        Ok(Source::Object(source)) => {
            let (metric, described_object) =
                (source.metric.clone(), source.described_object.clone());
            let object =
                ObjectMetricStatus { metric, current, described_object, ..Default::default() };
            status.object = Some(object.into());
        }
        Ok(Source::External(source)) => {
            let metric = source.metric.clone();
            let external = ExternalMetricStatus { metric, current, ..Default::default() };
            status.external = Some(external.into());
        }
        Err(_) => {}
    }
    status
}
