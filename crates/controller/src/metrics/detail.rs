//! Details of a reconcile for per-autoscaler metrics.

use hpa_calc::{Explanation, HorizontalPodAutoscaler};

use super::METRICS_PER_AUTOSCALER;
use crate::cache::{MetricProposal, ReconcileDetail};

/// The detail of a decision on `hpa`.
pub(super) fn reconcile_detail(
    hpa: &HorizontalPodAutoscaler,
    explanation: &Explanation,
) -> ReconcileDetail {
    let metrics = hpa.spec.metrics.iter().zip(&explanation.metrics).enumerate();
    let proposals = metrics.take(METRICS_PER_AUTOSCALER).filter_map(|(index, (spec, metric))| {
        let name = spec.metric_name().to_owned();
        let metric_type = spec.source_type.to_string();
        Some(MetricProposal { index, name, metric_type, replicas: metric.proposed_replicas? })
    });
    ReconcileDetail {
        proposals: proposals.collect(),
        stabilized_by: explanation.stabilized_by.as_ref().map(ToString::to_string),
        limited_by: explanation.limited_by.as_ref().map(ToString::to_string),
    }
}
