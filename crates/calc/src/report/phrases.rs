//! Formats ages, lists of names, a pause, the origin of a setting, the API of a metric, and the
//! namespace in commands.

use std::{borrow::Cow, fmt};

use jiff::Timestamp;

use crate::{
    api::{ConditionType, HorizontalPodAutoscaler, MetricSourceType},
    explain::list_first,
    pause::Pause,
    readings::MetricsApi,
    settings::{DOMAIN, Setting},
    shell::quote,
};

/// The maximum number of printed names. Further names are only counted.
pub(super) const MAX_NAMES: usize = 5;

/// Joins names in one text: `none` if there are none.
pub(super) fn names(names: impl IntoIterator<Item: AsRef<str>>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    if names.is_empty() { "none".to_owned() } else { list_first(&names, MAX_NAMES, ", ") }
}

/// The origin of a setting. Prints `annotation` or the path of the field.
#[derive(Clone, Copy)]
pub(super) enum SettingOrigin {
    /// The annotation with this name in the domain of the settings.
    Annotation(&'static str),
    /// The field with this name in the spec of the custom API.
    Field(&'static str),
}

impl SettingOrigin {
    /// The origin of the setting with this name. A field has precedence over the annotation, even
    /// if its value is invalid.
    pub(super) fn new(hpa: &HorizontalPodAutoscaler, setting: &'static str) -> Self {
        match Setting::named(setting) {
            Some(Setting { field, .. }) if hpa.spec.unknown.contains_key(*field) => {
                Self::Field(field)
            }
            _ => Self::Annotation(setting),
        }
    }

    /// The annotation with its name, or the path of the field.
    pub(super) fn with_name(self) -> String {
        match self {
            Self::Annotation(name) => format!("the annotation {DOMAIN}/{name}"),
            Self::Field(_) => self.to_string(),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(_) => f.write_str("annotation"),
            Self::Field(name) => write!(f, "spec.{name}"),
        }
    }
}

/// A pause with its direction and its origin: `paused for scaling up by annotation`.
/// [`Pause::NONE`] stands for an unknown direction.
pub(super) fn paused_text(hpa: &HorizontalPodAutoscaler, pause: Pause) -> String {
    let direction = match pause {
        Pause::BOTH | Pause::NONE => "",
        Pause { up: true, .. } => " for scaling up",
        Pause { .. } => " for scaling down",
    };
    format!("paused{direction} by {}", SettingOrigin::new(hpa, "pause"))
}

/// The time since which the autoscaler is paused, by its condition: ` since 2026-01-31T12:00:00Z`.
/// Empty without the condition.
pub(super) fn paused_since(hpa: &HorizontalPodAutoscaler) -> String {
    let paused = hpa.status.true_condition(&ConditionType::Paused);
    let since = paused.and_then(|paused| paused.last_transition_time);
    since.map(|at| format!(" since {at:.0}")).unwrap_or_default()
}

/// The API group that metrics of a type are read from.
pub(super) fn metrics_api(source_type: &MetricSourceType) -> &'static str {
    source_type.metrics_api().unwrap_or(MetricsApi::Custom).group()
}

/// The server that usually serves the [`metrics_api`]. `article` comes before the word `adapter`.
pub(super) fn metrics_server(source_type: &MetricSourceType, article: &str) -> String {
    match source_type {
        source_type if source_type.is_resource() => "metrics-server".to_owned(),
        MetricSourceType::External => format!("{article} adapter such as hpa adapter or KEDA"),
        _ => format!("{article} adapter such as hpa adapter"),
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
