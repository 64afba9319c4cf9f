//! Details of a reconcile for per-autoscaler metrics.

use hpa_calc::{
    api::{HorizontalPodAutoscaler, MetricSourceType, MetricSpec},
    explain::Explanation,
};

use super::METRICS_PER_AUTOSCALER;
use crate::cache::{MetricProposal, ReconcileDetail};

/// The detail of a decision on `hpa`.
pub(super) fn reconcile_detail(
    hpa: &HorizontalPodAutoscaler,
    explanation: &Explanation,
) -> ReconcileDetail {
    let metrics = hpa.spec.metrics.iter().zip(&explanation.metrics).enumerate();
    let proposals = metrics.take(METRICS_PER_AUTOSCALER).filter_map(|(index, (spec, metric))| {
        let (name, metric_type) = (name_of(spec).to_owned(), spec.source_type.to_string());
        Some(MetricProposal { index, name, metric_type, replicas: metric.proposed_replicas? })
    });
    ReconcileDetail {
        proposals: proposals.collect(),
        stabilized_by: explanation.stabilized_by.as_ref().map(ToString::to_string),
        limited_by: explanation.limited_by.as_ref().map(ToString::to_string),
    }
}

/// The name of the metric, from its spec.
fn name_of(spec: &MetricSpec) -> &str {
    let name = match spec.source_type {
        MetricSourceType::Resource => spec.resource.as_ref().map(|source| &source.name),
        MetricSourceType::ContainerResource => {
            spec.container_resource.as_ref().map(|source| &source.name)
        }
        MetricSourceType::Pods => spec.pods.as_ref().map(|source| &source.metric.name),
        MetricSourceType::Object => spec.object.as_ref().map(|source| &source.metric.name),
        MetricSourceType::External => spec.external.as_ref().map(|source| &source.metric.name),
        MetricSourceType::Other(_) => None,
    };
    name.map_or("", String::as_str)
}
