//! A rule, the autoscaler that its check examines, and functions that several checks use.

use hpa_calc::{HorizontalPodAutoscaler, Settings, api::MetricSpec, settings::Bounds};
use jiff::{SignedDuration, Timestamp};

use super::validity::DecodedAutoscaler;
use crate::{
    lint::{
        finding::{Report, RuleDescription, Severity},
        object::{Reference, TARGET_POINTER},
        workspace::Workspace,
    },
    manifests::{Manifest, string_at},
};

/// A kind of mistake that lint reports.
#[derive(Debug)]
pub(in crate::lint) struct Rule {
    pub(in crate::lint) description: RuleDescription,
    pub(super) check: Check,
}

/// The function of a rule, by the objects to which it applies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// Applies to objects of every kind.
    Any(fn(&Workspace, &Manifest, &mut Report<'_>)),
    /// Applies to autoscalers, also to invalid ones.
    Decoded(fn(&DecodedAutoscaler, &mut Report<'_>)),
    /// Applies to valid autoscalers.
    Valid(fn(&Subject<'_>, &mut Report<'_>)),
}

/// A valid autoscaler and all other objects.
pub(super) struct Subject<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) manifest: &'a Manifest,
    /// The autoscaler with the API server's defaults.
    pub(super) hpa: &'a HorizontalPodAutoscaler,
    /// The autoscaler's settings, with the default flags of the controller.
    pub(super) settings: &'a Settings,
}

impl Rule {
    pub(super) const fn new(
        id: &'static str,
        severity: Severity,
        summary: &'static str,
        check: Check,
    ) -> Self {
        Self { description: RuleDescription { id, severity, summary }, check }
    }
}

impl<'a> Subject<'a> {
    pub(super) fn target_reference(&self) -> Reference {
        Reference::at(&self.manifest.object, TARGET_POINTER)
    }

    /// The distinct bounds of the autoscaler: those of the spec or, with a schedule, all that are
    /// in effect during a week.
    pub(super) fn bounds(&self) -> Vec<Bounds> {
        let mut all = Vec::new();
        for bounds in self.times_of_bounds().into_iter().map(|at| self.bounds_at(at)) {
            if !all.contains(&bounds) {
                all.push(bounds);
            }
        }
        all
    }

    /// The bounds of this and of another autoscaler, at a time of a week at which they exclude each
    /// other. `None` if there is no such time, or if one of the autoscalers doesn't scale.
    pub(super) fn exclusive_bounds(&self, other: &Self) -> Option<(Bounds, Bounds)> {
        if !self.settings.may_scale() || !other.settings.may_scale() {
            return None;
        }
        let times = self.times_of_bounds().into_iter().chain(other.times_of_bounds());
        let mut bounds = times.map(|at| (self.bounds_at(at), other.bounds_at(at)));
        bounds.find(|(own, of_other)| own.exclude(*of_other))
    }

    /// The start of a week, and the times in it at which a schedule changes the bounds.
    fn times_of_bounds(&self) -> Vec<Timestamp> {
        let from = Timestamp::UNIX_EPOCH;
        let to = from + SignedDuration::from_hours(7 * 24);
        let changes = self.settings.bounds_changes(&self.hpa.spec, from, to);
        std::iter::once(from).chain(changes.into_iter().map(|change| change.at)).collect()
    }

    fn bounds_at(&self, time: Timestamp) -> Bounds {
        self.settings.bounds_at(&self.hpa.spec, time)
    }

    /// The target, if it is among the objects.
    pub(super) fn target(&self) -> Option<&'a Manifest> {
        self.workspace.referenced_object(self.manifest, &self.target_reference())
    }
}

/// Kind and name of an object, such as `Deployment web`.
pub(super) fn kind_and_name(manifest: &Manifest) -> String {
    format!("{} {}", manifest.kind(), string_at(&manifest.object, "/metadata/name"))
}

/// The path of a metric's source, such as `spec.metrics[0].resource`.
pub(super) fn source_field(index: usize, metric: &MetricSpec) -> String {
    format!("spec.metrics[{index}].{}", metric.source_type.member())
}

/// Whether a metric is the usage of a resource.
pub(super) fn is_resource(metric: &MetricSpec) -> bool {
    metric.resource.is_some() || metric.container_resource.is_some()
}

/// Whether an API server has stored the object, as in the output of `kubectl get`.
pub(super) fn is_stored(manifest: &Manifest) -> bool {
    manifest.object.pointer("/metadata/uid").is_some()
}
