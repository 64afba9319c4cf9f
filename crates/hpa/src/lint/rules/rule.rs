//! A rule, the autoscaler that its check examines, and functions that several checks use.

use hpa_calc::{
    HorizontalPodAutoscaler, Settings, api::MetricSpec, settings::Bounds, validation::MAX_METRICS,
};
use jiff::{SignedDuration, Timestamp};

use super::{target_group::OtherAutoscalers, validity::DecodedAutoscaler};
use crate::{
    findings::FindingKind,
    lint::{
        finding::{Report, Severity},
        object::{Reference, TARGET_POINTER},
        workspace::Workspace,
    },
    manifests::{Manifest, string_at},
};

/// The page with a section for each rule.
const RULES_PAGE: &str = "docs/lint.md";

/// A kind of mistake that lint reports.
#[derive(Debug)]
pub(in crate::lint) struct Rule {
    pub(in crate::lint) id: &'static str,
    pub(in crate::lint) severity: Severity,
    /// The mistake, as in the table of `docs/lint.md`.
    pub(in crate::lint) summary: &'static str,
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
    /// The settings of the controller that stored the status.
    acting_settings: &'a Settings,
    /// The other autoscalers of the target.
    pub(super) others: OtherAutoscalers<'a>,
}

impl Rule {
    pub(super) const fn new(
        id: &'static str,
        severity: Severity,
        summary: &'static str,
        check: Check,
    ) -> Self {
        Self { id, severity, summary, check }
    }

    /// The rule without its check, for the formats of findings.
    pub(in crate::lint) fn kind(&self) -> FindingKind {
        let Self { id, severity, summary, .. } = *self;
        FindingKind { id, severity, summary, section: id, page: RULES_PAGE }
    }
}

impl<'a> Subject<'a> {
    /// A subject without [`Self::others`]. `None` if the autoscaler is invalid.
    pub(super) fn new(
        workspace: &'a Workspace,
        manifest: &'a Manifest,
        decoded: &'a DecodedAutoscaler,
    ) -> Option<Self> {
        let hpa = decoded.hpa.as_ref()?;
        let settings = &decoded.resolved.settings;
        let acting_settings = decoded.acting_settings.as_ref()?;
        let others = OtherAutoscalers::default();
        Some(Self { workspace, manifest, hpa, settings, acting_settings, others })
    }

    /// The metrics, each with its index. Leaves out those after the first [`MAX_METRICS`]: the
    /// controller refuses an autoscaler with more.
    pub(super) fn metrics(&self) -> impl Iterator<Item = (usize, &'a MetricSpec)> {
        self.hpa.spec.metrics.iter().take(MAX_METRICS).enumerate()
    }

    pub(super) fn target_reference(&self) -> Reference {
        Reference::at(&self.manifest.object, TARGET_POINTER)
    }

    /// The distinct bounds of the autoscaler: those of the spec or, with a schedule, all that are
    /// in effect during a week.
    pub(super) fn bounds(&self) -> Vec<Bounds> {
        let mut all = Vec::new();
        for (_, bounds) in self.weekly_bounds(self.settings) {
            if !all.contains(&bounds) {
                all.push(bounds);
            }
        }
        all
    }

    /// The bounds to which its controller scales the target, as [`Self::weekly_bounds`] lists them.
    /// Empty if it doesn't scale.
    pub(super) fn enforced_bounds(&self) -> Vec<(Timestamp, Bounds)> {
        if self.may_scale() { self.weekly_bounds(self.acting_settings) } else { Vec::new() }
    }

    /// Whether its controller scales the target: there is neither a pause nor a dry run that the
    /// controller obeys.
    pub(super) fn may_scale(&self) -> bool {
        self.acting_settings.may_scale()
    }

    /// Whether kube-controller-manager stored the status.
    pub(super) fn is_for_built_in(&self) -> bool {
        self.acting_settings.is_for_built_in()
    }

    /// The bounds at the start of a week, and those from each time in it at which a schedule
    /// changes them.
    pub(super) fn weekly_bounds(&self, settings: &Settings) -> Vec<(Timestamp, Bounds)> {
        let from = Timestamp::UNIX_EPOCH;
        let to = from + SignedDuration::from_hours(7 * 24);
        let changes = settings.bounds_changes(&self.hpa.spec, from, to).into_iter();
        let at_start = (from, settings.bounds_at(&self.hpa.spec, from));
        std::iter::once(at_start).chain(changes.map(|change| (change.at, change.bounds))).collect()
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
    format!("spec.metrics[{index}].{}", metric.source_type.member().unwrap_or("type"))
}

/// Whether a metric is the usage of a resource.
pub(super) fn is_resource(metric: &MetricSpec) -> bool {
    metric.resource.is_some() || metric.container_resource.is_some()
}

/// Whether an API server has stored the object, as in the output of `kubectl get`.
pub(super) fn is_stored(manifest: &Manifest) -> bool {
    manifest.object.pointer("/metadata/uid").is_some()
}
