//! Formats ages, lists of names, the origin of a setting, and the namespace in commands.

use std::{borrow::Cow, fmt};

use jiff::Timestamp;

use crate::{api::HorizontalPodAutoscaler, explain::list_first, settings::DOMAIN, shell::quote};

/// The maximum number of printed names. Further names are only counted.
const MAX_NAMES: usize = 5;

/// Joins names in one text.
pub(super) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    join_first(names, ", ")
}

/// Joins clauses in one text. They may have commas.
pub(super) fn clauses<'a>(clauses: impl Iterator<Item = &'a str>) -> String {
    join_first(clauses, "; ")
}

fn join_first<'a>(names: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { list_first(&names, MAX_NAMES, separator) }
}

/// The origin of a pause or a dry run. Prints `annotation` or the path of the field.
#[derive(Clone, Copy)]
pub(super) enum SettingOrigin {
    /// The annotation with this name in the domain of the settings.
    Annotation(&'static str),
    /// The field of the custom API with this path.
    Field(&'static str),
}

impl SettingOrigin {
    /// The origin of the autoscaler's pause. A field has precedence over the annotation, even if
    /// its value is invalid.
    pub(super) fn of_pause(hpa: &HorizontalPodAutoscaler) -> Self {
        let is_field = hpa.spec.unknown.contains_key("pause");
        if is_field { Self::Field("spec.pause") } else { Self::Annotation("pause") }
    }

    /// The origin of the autoscaler's dry run, like [`Self::of_pause`].
    pub(super) fn of_dry_run(hpa: &HorizontalPodAutoscaler) -> Self {
        let is_field = hpa.spec.unknown.contains_key("dryRun");
        if is_field { Self::Field("spec.dryRun") } else { Self::Annotation("dry-run") }
    }

    /// The annotation with its name, or the path of the field.
    pub(super) fn with_name(self) -> String {
        match self {
            Self::Annotation(name) => format!("the annotation {DOMAIN}/{name}"),
            Self::Field(path) => path.to_owned(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Annotation(_) => "annotation",
            Self::Field(path) => path,
        })
    }
}

/// The namespace for a command. A placeholder if the autoscaler has none, because it is a manifest.
pub(super) fn namespace(hpa: &HorizontalPodAutoscaler) -> Cow<'_, str> {
    match hpa.metadata.namespace.as_str() {
        "" => Cow::Borrowed("NAMESPACE"),
        namespace => quote(namespace),
    }
}

/// An age in seconds, or in minutes from three minutes on. Zero if `at` is in the future.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    if seconds < 180 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}
