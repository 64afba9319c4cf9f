//! The settings of decisions, and the tolerances and readiness rules that follow from them.
//!
//! The flags of a controller are the settings of all autoscalers, as in the reference. Annotations
//! and fields of one autoscaler override them: [`Settings::for_autoscaler`] reads these by the
//! table [`SETTINGS`].

mod bounds;
mod built_in;
mod fallback;
mod forecast;
mod metric;
mod resolve;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod value;

use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};

pub(crate) use self::value::duration_text;
pub use self::{
    bounds::{Bounds, BoundsChange, Day, MAX_ZONE_LEN, Schedule, ScheduledBounds, TimeOfDay},
    fallback::{Fallback, FallbackBehavior},
    forecast::{ForecastMode, Forecasts},
    metric::{
        Aggregate, MetricSettings, MissingRequests, PodSelection, RequestsSource, Rollout,
        UtilizationOf,
    },
    resolve::{AnnotationFilter, ResolvedSettings, SettingPolicy},
    summary::{IgnoredSettings, ProblemKind, SettingPlace, SettingProblem, SettingsSummary},
    table::{DOMAIN, SETTINGS, Setting},
    value::MAX_ANNOTATION_LEN,
};
use crate::{
    api::HorizontalPodAutoscalerSpec, history::Direction, pause::Pause, quantity::Quantity,
};

/// The effective settings of one autoscaler: the reference's `--horizontal-pod-autoscaler-*` flags,
/// and settings that the reference doesn't have. By default, the latter change nothing, so
/// decisions are those of the reference.
///
/// ```
/// use hpa_calc::Settings;
/// use jiff::SignedDuration;
///
/// let settings = Settings::default().with(|settings| {
///     settings.tolerance = 0.05;
///     settings.downscale_stabilization = SignedDuration::from_mins(2);
/// });
/// assert_eq!(settings.tolerance, 0.05);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag or an annotation of its own")]
#[non_exhaustive]
pub struct Settings {
    /// `--horizontal-pod-autoscaler-tolerance`: the ratio of usage to target may differ from 1 by
    /// this fraction without a change. Default 0.1.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`: the stabilization window for scaling
    /// down, unless `behavior` sets one. Default 5 minutes.
    pub downscale_stabilization: SignedDuration,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`: for this long after a pod's start,
    /// a CPU sample of the pod counts only if the pod is ready and was ready during the sample's
    /// whole window. Default 5 minutes.
    pub cpu_initialization_period: SignedDuration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`: a pod that became unready within this
    /// time after its start counts as never having been ready. Default 30 seconds.
    pub initial_readiness_delay: SignedDuration,
    /// Whether autoscalers may scale to zero and from zero (KEP-2021, feature gate
    /// `HPAScaleToZero`, on by default since Kubernetes 1.37). Default true.
    pub scale_to_zero: bool,
    /// Whether to correct two cases in which the reference mistakes a paused workload for one that
    /// the autoscaler scaled to zero, or the reverse. Default false, as in the reference.
    ///
    /// - `ScaledToZero=True` is cleared as soon as the target has replicas, even if the autoscaler
    ///   did not scale it. The reference leaves the condition, and later scales up a workload that
    ///   a user scaled to 0.
    /// - If `minReplicas` is raised above 0, a target that was scaled to zero is scaled up even if
    ///   no metric can be read. The reference leaves it at 0 until one can.
    pub strict_scale_to_zero: bool,
    /// Whether a target at zero replicas follows its metrics if `minReplicas` is 0, even without
    /// `ScaledToZero=True`, as with kube-controller-manager before 1.36, which doesn't have that
    /// condition. Only for explanations: [`Settings::for_kube_controller_manager`] sets it. Default
    /// false, as in later versions.
    pub scale_from_any_zero: bool,
    /// Whether metrics of scaling schedules with an average target have no tolerance: their values
    /// are exact, and a step of a ramp can be smaller than the tolerance. Default false, as in
    /// the reference.
    pub exact_schedules: bool,
    /// The directions in which the target is not scaled.
    pub pause: Pause,
    /// Whether nothing is written for the autoscaler. A decision doesn't depend on it.
    pub dry_run: bool,
    /// The time from the end of a reconcile to the next one; `None` for the controller's period. A
    /// decision doesn't depend on it.
    pub sync_period: Option<SignedDuration>,
    /// The pods of the selector that count. The caller applies this setting when it selects the
    /// pods (see [`SelectedPods`](crate::SelectedPods)).
    pub pods: PodSelection,
    /// Whether the surge pods of a rollout count.
    pub rollout: Rollout,
    /// The schedule of `minReplicas` and `maxReplicas`, see [`Settings::bounds_at`].
    pub bounds: Option<Schedule>,
    /// The time for which the metrics must have asked for zero replicas before the target is scaled
    /// to zero.
    pub zero_after: SignedDuration,
    /// The settings of forecasts of the load.
    pub forecasts: Forecasts,
    /// The settings of each metric of the spec; `None` if all have the defaults.
    pub metrics: Option<Arc<[MetricSettings]>>,
    /// The autoscaler's own settings and their problems, for the condition `CustomSettings` and for
    /// events. `None` if there is nothing to report, unless these are settings
    /// [for kube-controller-manager](Settings::for_kube_controller_manager).
    pub summary: Option<Arc<SettingsSummary>>,
}

/// The settings of a metric for which the autoscaler sets none.
pub(crate) static DEFAULT_METRIC_SETTINGS: LazyLock<MetricSettings> =
    LazyLock::new(MetricSettings::default);

impl Default for Settings {
    fn default() -> Self {
        Self {
            tolerance: 0.1,
            downscale_stabilization: SignedDuration::from_mins(5),
            cpu_initialization_period: SignedDuration::from_mins(5),
            initial_readiness_delay: SignedDuration::from_secs(30),
            scale_to_zero: true,
            strict_scale_to_zero: false,
            scale_from_any_zero: false,
            exact_schedules: false,
            pause: Pause::NONE,
            dry_run: false,
            sync_period: None,
            pods: PodSelection::Selected,
            rollout: Rollout::CountSurge,
            bounds: None,
            zero_after: SignedDuration::ZERO,
            forecasts: Forecasts::default(),
            metrics: None,
            summary: None,
        }
    }
}

impl Settings {
    /// The settings of the metric at an index of `spec.metrics`.
    pub fn metric(&self, index: usize) -> &MetricSettings {
        let settings = self.metrics.as_ref().and_then(|metrics| metrics.get(index));
        settings.unwrap_or(&DEFAULT_METRIC_SETTINGS)
    }

    /// Whether a metric has a fallback.
    pub(crate) fn has_fallback(&self) -> bool {
        let mut metrics = self.metrics.iter().flat_map(|metrics| metrics.iter());
        metrics.any(|metric| metric.fallback.is_some())
    }

    /// Whether the target is scaled in both directions: there is neither a pause nor a dry run.
    pub fn may_scale(&self) -> bool {
        self.pause == Pause::NONE && !self.dry_run
    }

    /// The settings after a change. They can't be made with a struct expression, because later
    /// versions may add fields.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// The differences between 1 and the ratio of usage to target that cause no change, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// For ratios above 1.
    pub up: f64,
    /// For ratios below 1.
    pub down: f64,
}

impl Tolerances {
    /// Any difference is a change.
    pub const NONE: Self = Self { up: 0.0, down: 0.0 };

    /// The effective tolerances of an autoscaler: those of its `behavior` (KEP-4951), else the
    /// controller's.
    pub fn for_spec(spec: &HorizontalPodAutoscalerSpec, settings: &Settings) -> Self {
        let tolerance = |direction| {
            let rules = spec.scaling_rules(direction);
            let of_behavior = rules.and_then(|rules| rules.tolerance.as_ref());
            of_behavior.map_or(settings.tolerance, Quantity::as_f64)
        };
        Self { up: tolerance(Direction::Up), down: tolerance(Direction::Down) }
    }

    /// Whether the ratio is within tolerance, both ends of the range included.
    pub fn contain(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The time of a decision, and the settings that classify pods at that time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadinessRules {
    /// The time of the decision.
    pub now: Timestamp,
    /// See [`Settings::cpu_initialization_period`].
    pub cpu_initialization_period: SignedDuration,
    /// See [`Settings::initial_readiness_delay`].
    pub initial_readiness_delay: SignedDuration,
}

impl ReadinessRules {
    /// The rules that `settings` give for a decision at `now`.
    pub fn new(now: Timestamp, settings: &Settings) -> Self {
        Self {
            now,
            cpu_initialization_period: settings.cpu_initialization_period,
            initial_readiness_delay: settings.initial_readiness_delay,
        }
    }
}
