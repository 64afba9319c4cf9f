//! Checks of `minReplicas` and `maxReplicas`, in the spec and in the schedule of bounds.

use hpa_calc::crd::member_path;
use hpa_calc::settings::{DOMAIN, ScheduledBounds};
use hpa_controller::AutoscalerApi;

use super::rule::{Subject, is_stored};
use crate::lint::{finding::Report, object::autoscaler_api};

/// Reports `minReplicas: 0` in a manifest of the core API, unless an API server has stored it.
pub(super) fn scale_to_zero(subject: &Subject<'_>, report: &mut Report<'_>) {
    let is_core = autoscaler_api(subject.manifest) == AutoscalerApi::Core;
    let is_zero = subject.hpa.spec.min_replicas == Some(0);
    if !is_zero || !is_core || !subject.workspace.is_from_files() || is_stored(subject.manifest) {
        return;
    }
    let message = format!(
        "API servers before Kubernetes 1.37 refuse 0, unless their feature gate HPAScaleToZero is \
         on. {} allows it on every version",
        hpa_calc::crd::API_VERSION
    );
    report.add("spec.minReplicas", message);
}

/// Reports schedule entries that put the minimum above the maximum. The controller then raises the
/// maximum.
pub(super) fn raised_maximum(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Subject { hpa, settings, .. } = subject;
    let Some(entries) = settings.bounds.as_deref() else { return };
    let mut reported = Vec::new();
    for (min, max) in raised_maximums(subject, entries) {
        // Report the entry whose minimum is too high, or else the one whose maximum is too low.
        let with_min = entries.iter().position(|entry| entry.min_replicas == Some(min));
        let with_max = entries.iter().position(|entry| entry.max_replicas == Some(max));
        let Some(index) = with_min.or(with_max).filter(|index| !reported.contains(index)) else {
            continue;
        };
        reported.push(index);
        let path = |entry: Option<usize>, member: &str| match entry {
            Some(index) => format!("[{index}].{member}"),
            None => format!("spec.{member}"),
        };
        let message = format!(
            "{} is {min}, above {}, which is {max}: while both hold, maxReplicas is raised to \
             {min}",
            path(with_min, "minReplicas"),
            path(with_max.filter(|_| max != hpa.spec.max_replicas), "maxReplicas"),
        );
        report.add(schedule_field(subject, index), message);
    }
}

/// The pairs of a minimum and a lower maximum that are in effect at the same time, in a week of the
/// schedule.
fn raised_maximums(subject: &Subject<'_>, entries: &[ScheduledBounds]) -> Vec<(i32, i32)> {
    let without_minimum =
        entries.iter().map(|entry| ScheduledBounds { min_replicas: None, ..entry.clone() });
    // Without minimums, the maximum is not raised.
    let mut settings_without_minimums = subject.settings.clone();
    settings_without_minimums.bounds = Some(without_minimum.collect::<Vec<_>>().into());
    let mut spec = subject.hpa.spec.clone();
    spec.min_replicas = Some(0);
    let pairs = subject.weekly_bounds(subject.settings).into_iter().map(|(at, bounds)| {
        (bounds.min_replicas, settings_without_minimums.bounds_at(&spec, at).max_replicas)
    });
    pairs.filter(|(min, max)| min > max).collect()
}

/// The field of a schedule entry in the custom API, or else the annotation with all entries.
pub(super) fn schedule_field(subject: &Subject<'_>, index: usize) -> String {
    if subject.manifest.object.pointer("/spec/bounds").is_some() {
        format!("spec.bounds[{index}]")
    } else {
        member_path("metadata.annotations", &format!("{DOMAIN}/bounds"))
    }
}
