//! What metrics tell of one autoscaler. It is kept with the autoscaler and ends with it.

use hpa_calc::{
    api::{HorizontalPodAutoscaler, MetricSourceType, MetricSpec},
    explain::Explanation,
};
use tokio::time::Instant;

use super::METRICS_PER_AUTOSCALER;
use crate::reconcile::observer::ErrorClass;

/// What metrics tell of one autoscaler.
#[derive(Debug)]
pub(crate) struct Observed {
    /// The replicas that the last reconcile that succeeded decided on.
    pub(super) desired_replicas: Option<i32>,
    /// How the last reconcile failed, if it did.
    pub(super) error: Option<ErrorClass>,
    /// When the last reconcile ended; before the first, when the autoscaler was seen.
    pub(super) reconciled: Instant,
    /// When the next reconcile by period is due.
    pub(super) due: Option<Instant>,
    /// The last reconcile in detail, where that is wanted.
    pub(super) detail: Option<Box<Detail>>,
}

impl Default for Observed {
    fn default() -> Self {
        Self {
            desired_replicas: None,
            error: None,
            reconciled: Instant::now(),
            due: None,
            detail: None,
        }
    }
}

/// What a reconcile came to in detail.
#[derive(Debug)]
pub(super) struct Detail {
    /// What the metrics proposed.
    pub(super) proposals: Vec<ProposalOf>,
    /// What stabilization did, by its condition's reason.
    pub(super) stabilized_by: Option<String>,
    /// What policies and bounds did, by their condition's reason.
    pub(super) limited_by: Option<String>,
}

/// What one metric proposed.
#[derive(Debug)]
pub(super) struct ProposalOf {
    /// Its place in the spec.
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) metric_type: String,
    pub(super) replicas: i32,
}

impl Detail {
    pub(super) fn of(hpa: &HorizontalPodAutoscaler, explanation: &Explanation) -> Self {
        let metrics = hpa.spec.metrics.iter().zip(&explanation.metrics).enumerate();
        let proposals =
            metrics.take(METRICS_PER_AUTOSCALER).filter_map(|(index, (spec, metric))| {
                let (name, metric_type) = (name_of(spec).to_owned(), spec.source_type.to_string());
                Some(ProposalOf { index, name, metric_type, replicas: metric.proposed_replicas? })
            });
        Self {
            proposals: proposals.collect(),
            stabilized_by: explanation.stabilized_by.as_ref().map(ToString::to_string),
            limited_by: explanation.limited_by.as_ref().map(ToString::to_string),
        }
    }
}

/// A metric's name as its spec has it.
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
