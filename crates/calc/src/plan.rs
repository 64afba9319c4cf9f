//! The first call of a reconcile: what has to be read, if anything.

use std::sync::Arc;

use crate::{
    api::{ConditionType, HorizontalPodAutoscaler, MetricSourceType, MetricSpec, Pod, Scale},
    metric::query,
    readings::MetricQuery,
    selector::{Selector, SelectorError},
    settings::Settings,
};

/// Why the scale of the target could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleReadError {
    /// `scaleTargetRef.apiVersion` does not parse.
    #[error("{0}")]
    InvalidApiVersion(String),
    /// No served resource is of the target's kind.
    #[error("{0}")]
    UnknownKind(String),
    /// The scale subresource could not be read.
    #[error("{0}")]
    Read(String),
}

/// The pods that a target's selector matches, and who else selects them.
#[derive(Clone, Debug, Default)]
pub struct SelectedPods {
    /// The pods, in the order in which an error names the first.
    pub pods: Vec<Arc<Pod>>,
    /// Every autoscaler of the namespace whose selector matches one of them, as `namespace/name`, sorted. This one
    /// is among them if it has been registered.
    pub autoscalers: Vec<String>,
}

/// What a reconcile is about to do, and what it has to read for it.
#[derive(Debug)]
pub struct Plan<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) scale: Scale,
    pub(crate) path: Path,
}

/// The ways a reconcile can go.
#[derive(Debug)]
pub(crate) enum Path {
    ScaleUnreadable(ScaleReadError),
    /// At zero replicas by somebody else's doing.
    Disabled,
    AboveMax,
    BelowMin,
    SelectorRejected(SelectorRejection),
    Metrics(MetricsPath),
}

#[derive(Debug)]
pub(crate) enum SelectorRejection {
    Missing,
    Invalid(SelectorError),
    Ambiguous { selector: String, autoscalers: Vec<String> },
}

#[derive(Debug)]
pub(crate) struct MetricsPath {
    pub(crate) selector: Selector,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// One for each metric of the spec; a metric that cannot be asked for has the reason in its place.
    pub(crate) queries: Vec<Result<MetricQuery, String>>,
}

impl<'a> Plan<'a> {
    /// Plans a reconcile of `hpa`, whose target's scale was read as `scale`.
    ///
    /// `select` gives the pods of the autoscaler's namespace that a selector matches; it is called at most once, and
    /// only if metrics are needed. They are not when the scale could not be read, when the target is at zero
    /// replicas by somebody else's doing, or when its replicas are out of bounds.
    pub fn new(
        hpa: &'a HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleReadError>,
        settings: &'a Settings,
        select: impl FnOnce(&Selector) -> SelectedPods,
    ) -> Self {
        let (scale, path) = match scale {
            Ok(scale) => {
                let path = path(hpa, &scale, settings, select);
                (scale, path)
            }
            Err(error) => (Scale::default(), Path::ScaleUnreadable(error)),
        };
        Self { hpa, settings, scale, path }
    }

    /// The selector of the pods that metrics are asked for; `None` if none are needed.
    pub fn selector(&self) -> Option<&Selector> {
        match &self.path {
            Path::Metrics(metrics) => Some(&metrics.selector),
            _ => None,
        }
    }

    /// What to read: each query with the index of its metric in the spec.
    pub fn queries(&self) -> impl Iterator<Item = (usize, &MetricQuery)> {
        let queries = match &self.path {
            Path::Metrics(metrics) => metrics.queries.as_slice(),
            _ => &[],
        };
        queries.iter().enumerate().filter_map(|(index, query)| Some((index, query.as_ref().ok()?)))
    }
}

fn path(
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    settings: &Settings,
    select: impl FnOnce(&Selector) -> SelectedPods,
) -> Path {
    let (current, spec) = (scale.spec_replicas, &hpa.spec);
    if current == 0 {
        if !may_leave_zero(hpa, settings) {
            return Path::Disabled;
        }
    } else if current > spec.max_replicas {
        return Path::AboveMax;
    } else if current < spec.effective_min_replicas() {
        return Path::BelowMin;
    }
    if scale.selector.is_empty() {
        return Path::SelectorRejected(SelectorRejection::Missing);
    }
    let selector = match Selector::parse(&scale.selector) {
        Ok(selector) => selector,
        Err(error) => return Path::SelectorRejected(SelectorRejection::Invalid(error)),
    };
    let SelectedPods { pods, autoscalers } = select(&selector);
    if autoscalers.len() > 1 {
        let selector = scale.selector.clone();
        return Path::SelectorRejected(SelectorRejection::Ambiguous { selector, autoscalers });
    }
    Path::Metrics(MetricsPath { selector, pods, queries: spec.metrics.iter().map(query).collect() })
}

/// Whether a workload at zero replicas is the autoscaler's to wake: it brought it there, and either has a metric
/// that is there without pods or is no longer to keep it at zero (KEP-2021).
fn may_leave_zero(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> bool {
    let spec = &hpa.spec;
    is_scaled_to_zero(hpa, settings)
        && (spec.effective_min_replicas() != 0 || has_object_or_external_metric(&spec.metrics))
}

pub(crate) fn is_scaled_to_zero(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> bool {
    settings.scale_to_zero && hpa.status.is_true(&ConditionType::ScaledToZero)
}

pub(crate) fn has_object_or_external_metric(metrics: &[MetricSpec]) -> bool {
    let is_one = |metric: &MetricSpec| {
        matches!(metric.source_type, MetricSourceType::Object | MetricSourceType::External)
    };
    metrics.iter().any(is_one)
}
