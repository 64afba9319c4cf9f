//! The first call of a reconcile: decides which metrics to read, if any.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::{
    api::{HorizontalPodAutoscaler, Pod, Scale},
    metric::{MetricContext, MetricSpecError, query},
    readings::{MetricQuery, ReadError, Reading, Readings},
    selector::{Selector, SelectorError},
    settings::{Bounds, DEFAULT_METRIC_SETTINGS, ReadinessRules, Settings, Tolerances},
    validation::MAX_METRICS,
    zero::is_scaled_to_zero,
};

/// The error of reading the target's scale. Conditions and events contain the text of the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleReadError {
    /// `scaleTargetRef.apiVersion` does not parse.
    #[error("{0}")]
    InvalidApiVersion(String),
    /// The API server serves no resource of the target's kind.
    #[error("{0}")]
    UnknownKind(String),
    /// The request for the scale subresource failed.
    #[error("{0}")]
    Read(String),
}

impl ScaleReadError {
    /// A request for the scale that failed, with the text of its error.
    pub fn read(error: impl std::fmt::Display) -> Self {
        Self::Read(error.to_string())
    }
}

/// The pods that a target's selector matches, and the autoscalers that select any of them.
#[derive(Clone, Debug, Default)]
pub struct SelectedPods {
    /// The pods. Errors about pods name the first one in this order.
    pub pods: Vec<Arc<Pod>>,
    /// Every autoscaler of the namespace whose selector matches one of the pods, sorted, as
    /// `namespace/name`. If it is of another API, a prefix and a slash may precede that. The
    /// autoscaler to decide on is among them once the caller has recorded its selector. If there
    /// are several, the decision fails with `AmbiguousSelector`.
    pub autoscalers: Vec<String>,
    /// The name in `autoscalers` of the autoscaler to decide on, for reports. If absent, reports
    /// look for its `namespace/name`, with or without a prefix.
    pub own_name: Option<String>,
    /// The error if only owned pods count
    /// ([`PodSelection::Owned`](crate::settings::PodSelection::Owned)), but the owners of the pods
    /// can't be determined. The decision fails with this error.
    pub ownership_error: Option<String>,
    /// The conflict with other autoscalers of the target
    /// ([`describe_bounds_conflict`](crate::report::describe_bounds_conflict)), for reports.
    pub bounds_conflict: Option<String>,
    /// The names of the other autoscalers of the target, as in `autoscalers`, for reports. Empty if
    /// they are unknown.
    pub sharing_target: Vec<String>,
    /// The reason why the target's controller can't create pods, such as an exceeded quota, for
    /// reports. Absent if it is unknown.
    pub replica_failure: Option<String>,
    /// The reasons why the scheduler can't place pods, by the pod's name, for reports. Empty if
    /// they are unknown.
    pub scheduling_failures: BTreeMap<String, String>,
}

impl SelectedPods {
    /// Pods that no other autoscaler selects.
    pub fn new(pods: impl IntoIterator<Item: Into<Arc<Pod>>>) -> Self {
        let pods = pods.into_iter().map(Into::into).collect();
        Self { pods, ..Self::default() }
    }
}

/// The plan of a reconcile: the metrics to read, if any.
#[derive(Debug)]
pub struct Plan<'a> {
    pub(crate) hpa: &'a HorizontalPodAutoscaler,
    pub(crate) settings: &'a Settings,
    pub(crate) scale: Scale,
    pub(crate) kind: PlanKind,
}

/// The kinds of reconciles.
///
/// With a schedule, the bounds depend on the time of the decision. [`Plan::decide`] then replaces
/// the kind if the replicas are out of bounds, or if the autoscaler may not scale up from zero.
#[derive(Debug)]
pub(crate) enum PlanKind {
    /// The scale could not be read.
    ScaleUnavailable(ScaleReadError),
    /// The target is at zero replicas, and the autoscaler may not scale it up from there.
    Disabled,
    /// The replicas are above `maxReplicas`.
    AboveMax,
    /// The replicas are below `minReplicas`.
    BelowMin,
    /// The spec has more than [`MAX_METRICS`] metrics.
    TooManyMetrics,
    /// The spec is larger than [`MAX_SPEC_BYTES`](crate::validation::MAX_SPEC_BYTES).
    SpecTooLarge { bytes: usize },
    /// The target's selector can't be used.
    SelectorRejected(SelectorRejection),
    /// The metrics decide.
    Metrics(MetricsPlan),
}

#[derive(Debug)]
pub(crate) enum SelectorRejection {
    Missing,
    Invalid(SelectorError),
    Ambiguous { selector: String, autoscalers: Vec<String> },
    UnknownOwners(String),
}

#[derive(Debug)]
pub(crate) struct MetricsPlan {
    pub(crate) selector: Selector,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// One query per metric of the spec, or the reason why the metric can't be queried.
    pub(crate) queries: Vec<Result<MetricQuery, MetricSpecError>>,
}

impl MetricsPlan {
    /// The inputs of the proposals of the metrics, without the readings.
    pub(crate) fn context<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        settings: &'a Settings,
        scale: &'a Scale,
        now: Timestamp,
    ) -> MetricContext<'a> {
        MetricContext {
            namespace: &hpa.metadata.namespace,
            scale,
            pods: &self.pods,
            tolerances: Tolerances::for_spec(&hpa.spec, settings),
            readiness: ReadinessRules::new(now, settings),
            settings,
            metric_settings: &DEFAULT_METRIC_SETTINGS,
        }
    }
}

impl<'a> Plan<'a> {
    /// Plans a reconcile of `hpa`. `scale` is the target's scale, or the error of reading it.
    ///
    /// `select` returns the pods of the autoscaler's namespace that a selector matches. It is
    /// called at most once, and only if metrics may be needed. They are not needed if the scale
    /// could not be read, if the autoscaler may not scale the target up from zero replicas, if the
    /// replicas are out of bounds, if the spec has too many metrics or is too large, or if the
    /// selector is missing or does not parse. With a schedule of bounds, metrics are needed even if
    /// the replicas are out of bounds, because the time of the decision determines the bounds.
    pub fn new(
        hpa: &'a HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleReadError>,
        settings: &'a Settings,
        select: impl FnOnce(&Selector) -> SelectedPods,
    ) -> Self {
        let (scale, kind) = match scale {
            Ok(scale) => {
                let kind = plan_kind(hpa, &scale, settings, select);
                (scale, kind)
            }
            Err(error) => (Scale::default(), PlanKind::ScaleUnavailable(error)),
        };
        Self { hpa, settings, scale, kind }
    }

    /// The plan of the metrics, or `None` if no metrics are read.
    pub(crate) fn metrics(&self) -> Option<&MetricsPlan> {
        match &self.kind {
            PlanKind::Metrics(metrics) => Some(metrics),
            _ => None,
        }
    }

    /// The selector of the pods whose metrics are read, or `None` if no metrics are read.
    pub fn selector(&self) -> Option<&Selector> {
        Some(&self.metrics()?.selector)
    }

    /// The metrics to read: each query with the index of its metric in the spec. A metric that
    /// can't be queried, for example because its selector does not parse, is left out.
    pub fn queries(&self) -> impl Iterator<Item = (usize, &MetricQuery)> {
        let queries = self.metrics().into_iter().flat_map(|metrics| &metrics.queries);
        queries.enumerate().filter_map(|(index, query)| Some((index, query.as_ref().ok()?)))
    }

    /// The readings of this plan, from pairs of a metric's name ([`MetricQuery::metric_name`]) and
    /// its reading. Metrics that the plan doesn't ask for are ignored. If several queries have the
    /// same name, all of them get the reading.
    pub fn readings_by_name<N: AsRef<str>>(
        &self,
        readings: impl IntoIterator<Item = (N, Result<Reading, ReadError>)>,
    ) -> Readings {
        let mut by_index = Readings::new();
        for (name, reading) in readings {
            for (metric, query) in self.queries() {
                if query.metric_name() == name.as_ref() {
                    by_index.insert(metric, reading.clone());
                }
            }
        }
        by_index
    }
}

fn plan_kind(
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    settings: &Settings,
    select: impl FnOnce(&Selector) -> SelectedPods,
) -> PlanKind {
    let spec = &hpa.spec;
    if settings.bounds.is_none() {
        if let Some(kind) = kind_without_metrics(hpa, scale, settings, Bounds::of_spec(spec)) {
            return kind;
        }
    } else if scale.spec_replicas == 0
        && !settings.scale_from_any_zero
        && !is_scaled_to_zero(hpa, settings)
    {
        // No bounds allow the autoscaler to scale up from zero.
        return PlanKind::Disabled;
    }
    if let Some(bytes) = spec.excessive_bytes {
        return PlanKind::SpecTooLarge { bytes };
    }
    if spec.metrics.len() > MAX_METRICS {
        return PlanKind::TooManyMetrics;
    }
    if scale.selector.is_empty() {
        return PlanKind::SelectorRejected(SelectorRejection::Missing);
    }
    let selector = match Selector::parse(&scale.selector) {
        Ok(selector) => selector,
        Err(error) => return PlanKind::SelectorRejected(SelectorRejection::Invalid(error)),
    };
    let SelectedPods { pods, autoscalers, ownership_error, .. } = select(&selector);
    if let Some(error) = ownership_error {
        return PlanKind::SelectorRejected(SelectorRejection::UnknownOwners(error));
    }
    if autoscalers.len() > 1 {
        let selector = scale.selector.clone();
        return PlanKind::SelectorRejected(SelectorRejection::Ambiguous { selector, autoscalers });
    }
    let queries = spec.metrics.iter().map(query).collect();
    PlanKind::Metrics(MetricsPlan { selector, pods, queries })
}

/// The kind of a reconcile that needs no metrics: the replicas are out of bounds, or the autoscaler
/// may not scale up from zero.
pub(crate) fn kind_without_metrics(
    hpa: &HorizontalPodAutoscaler,
    scale: &Scale,
    settings: &Settings,
    bounds: Bounds,
) -> Option<PlanKind> {
    match scale.spec_replicas {
        0 => (!may_scale_from_zero(hpa, settings, bounds)).then_some(PlanKind::Disabled),
        current if current > bounds.max_replicas => Some(PlanKind::AboveMax),
        current if current < bounds.min_replicas => Some(PlanKind::BelowMin),
        _ => None,
    }
}

/// Whether the autoscaler may scale its target up from zero replicas: it scaled the target to zero,
/// and either has a metric that exists without pods, or `minReplicas` is no longer 0 (KEP-2021).
/// With [`Settings::scale_from_any_zero`], it also may if `minReplicas` is 0.
fn may_scale_from_zero(hpa: &HorizontalPodAutoscaler, settings: &Settings, bounds: Bounds) -> bool {
    if settings.scale_from_any_zero && bounds.min_replicas == 0 {
        return true;
    }
    is_scaled_to_zero(hpa, settings)
        && (bounds.min_replicas != 0 || hpa.spec.has_object_or_external_metric())
}
