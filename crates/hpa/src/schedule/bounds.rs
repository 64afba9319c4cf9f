//! Previews the scheduled bounds of autoscalers.

use std::fmt::Write;

use hpa_calc::crd::{member_path, versions};
use hpa_calc::{
    Settings,
    defaults::apply_defaults,
    settings::{
        Bounds, BoundsChange, ProblemKind, Setting, SettingPlace, SettingPolicy, SettingProblem,
    },
};
use hpa_controller::k8s::StatusController;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::preview::format_local;
use crate::{
    autoscaler_name::{decode, describe},
    debug_client::KUBE_CONTROLLER_MANAGER,
    lint::is_autoscaler,
    manifests::Manifest,
};

/// The name of the setting with the schedule of bounds.
const BOUNDS_SETTING: &str = "bounds";

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
    status_is_from_reference: bool,
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
    let name = describe(&manifest.object);
    let mut object = versions::without_nulls(manifest.object.clone());
    versions::to_v2(&mut object);
    let mut hpa = decode(&object)?;
    apply_defaults(&mut hpa.spec);
    let resolved = Settings::default().for_autoscaler(&hpa, &SettingPolicy::default());
    let is_of_bounds = |problem: &&SettingProblem| match &problem.place {
        SettingPlace::Annotation(name) => {
            Setting::of_annotation(name).is_some_and(|setting| setting.name == BOUNDS_SETTING)
        }
        SettingPlace::Field(path) => path.starts_with("spec.bounds"),
    };
    let with_place = |problem: &SettingProblem| {
        let field = match &problem.place {
            SettingPlace::Annotation(name) => member_path("metadata.annotations", name),
            SettingPlace::Field(path) => path.clone(),
        };
        (manifest.place(&field), problem.clone())
    };
    let problems = resolved.problems.iter().filter(is_of_bounds);
    let problems: Vec<_> = problems.map(with_place).collect();
    let settings = resolved.settings;
    if settings.bounds.is_none() && problems.is_empty() {
        return Ok(None);
    }
    let first_entry = settings.bounds.iter().flat_map(|entries| entries.iter()).next();
    Ok(Some(BoundsPreview {
        name,
        zone: first_entry.map_or(TimeZone::UTC, |entry| entry.time_zone.clone()),
        from,
        to,
        initial_bounds: settings.bounds_at(&hpa.spec, from),
        changes: settings.bounds_changes(&hpa.spec, from, to),
        problems,
        status_is_from_reference: StatusController::of_object(&manifest.object, Timestamp::now())
            .is_reference(),
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
        let zone = self.zone.iana_name().unwrap_or("UTC");
        let mut text = format!("{}, times in {zone}\n", self.name);
        // Writing to a string can't fail.
        for (place, problem) in &self.problems {
            let label = if is_overridden(problem) { "warning" } else { "error" };
            let _ = writeln!(text, "{place}: {label}: {problem}");
        }
        if !self.is_valid() {
            return text;
        }
        if self.status_is_from_reference {
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
