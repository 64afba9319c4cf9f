//! Previews the scheduled bounds of autoscalers.

use std::fmt::Write;

use hpa_calc::crd::{member_path, versions};
use hpa_calc::{
    Settings,
    defaults::apply_defaults,
    settings::{
        Bounds, BoundsChange, DOMAIN, ProblemKind, SettingPlace, SettingPolicy, SettingProblem,
    },
};
use hpa_controller::k8s::StatusController;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::preview::{format_local, heading};
use crate::{
    autoscaler_name::{decode, describe},
    debug_client::KUBE_CONTROLLER_MANAGER,
    lint::is_autoscaler,
    manifests::Manifest,
};

/// The bounds of one autoscaler from `from` to `to`.
pub(super) struct BoundsPreview {
    name: String,
    /// The time zone of the first entry.
    zone: TimeZone,
    from: Timestamp,
    to: Timestamp,
    /// The bounds at `from`.
    initial_bounds: Bounds,
    changes: Vec<BoundsChange>,
    /// Each with its file and line.
    problems: Vec<(String, SettingProblem)>,
    /// Whether kube-controller-manager stored the status last.
    is_status_of_kube_controller_manager: bool,
}

/// Previews the autoscalers that have scheduled bounds.
pub(super) fn preview_bounds(
    manifests: &[Manifest],
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<Vec<BoundsPreview>> {
    let autoscalers = manifests.iter().filter(|manifest| is_autoscaler(manifest));
    autoscalers.filter_map(|manifest| preview_autoscaler(manifest, from, to).transpose()).collect()
}

/// `None` if the autoscaler has no scheduled bounds.
fn preview_autoscaler(
    manifest: &Manifest,
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<Option<BoundsPreview>> {
    let mut object = versions::without_nulls(manifest.object.clone());
    versions::to_v2(&mut object);
    let mut hpa = decode(&object)?;
    apply_defaults(&mut hpa.spec);
    let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
    let annotation = format!("{DOMAIN}/bounds");
    let problems = resolved.problems.iter().filter_map(|problem| {
        let (field, is_of_bounds) = match &problem.place {
            SettingPlace::Annotation(name) => {
                (member_path("metadata.annotations", name), *name == annotation)
            }
            SettingPlace::Field(path) => (path.clone(), path.starts_with("spec.bounds")),
        };
        is_of_bounds.then(|| (manifest.place(&field), problem.clone()))
    });
    let problems: Vec<_> = problems.collect();
    let settings = resolved.settings;
    if settings.bounds.is_none() && problems.is_empty() {
        return Ok(None);
    }
    let first_entry = settings.bounds.iter().flat_map(|entries| entries.iter()).next();
    Ok(Some(BoundsPreview {
        name: describe(&manifest.object),
        zone: first_entry.map_or(TimeZone::UTC, |entry| entry.time_zone.clone()),
        from,
        to,
        initial_bounds: settings.bounds_at(&hpa.spec, from),
        changes: settings.bounds_changes(&hpa.spec, from, to),
        problems,
        is_status_of_kube_controller_manager: StatusController::of_object(
            &manifest.object,
            Timestamp::now(),
        )
        .is_kube_controller_manager(),
    }))
}

fn is_overridden(problem: &SettingProblem) -> bool {
    problem.kind == ProblemKind::Overridden
}

impl BoundsPreview {
    /// Whether the schedule that is in force is valid. A field of the custom API has precedence
    /// over its annotation.
    pub(super) fn is_valid(&self) -> bool {
        self.problems.iter().all(|(_, problem)| is_overridden(problem))
    }

    pub(super) fn json(&self) -> Value {
        let changes = self.changes.iter();
        let changes = changes.map(|change| json!({ "at": change.at, "bounds": change.bounds }));
        json!({
            "name": self.name,
            "timeZone": self.zone.iana_name(),
            "from": self.from,
            "to": self.to,
            "bounds": self.initial_bounds,
            "changes": changes.collect::<Vec<_>>(),
            "problems": self.problems.iter().map(|(_, one)| one.to_string()).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = heading(&self.name, &self.zone, &self.problems, is_overridden);
        if !self.is_valid() {
            return text;
        }
        if self.is_status_of_kube_controller_manager {
            // Writing to a string can't fail.
            let _ = writeln!(
                text,
                "warning: {KUBE_CONTROLLER_MANAGER}, which stored the status last, ignores the \
                 bounds: they have an effect only if hpa-rs handles the autoscaler"
            );
        }
        text.push('\n');
        let local = |at| format_local(at, &self.zone);
        for BoundsChange { at, bounds, .. } in &self.changes {
            let _ = writeln!(text, "{}  {bounds}", local(*at));
        }
        let next = match self.changes.first() {
            Some(next) => format!("next {} at {}", next.bounds, local(next.at)),
            None => "no change in this time".to_owned(),
        };
        let _ = writeln!(text, "{}: {}, {next}", local(self.from), self.initial_bounds);
        text
    }
}
