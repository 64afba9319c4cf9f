//! Formats ages, lists of names, and the namespace in commands.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::{api::HorizontalPodAutoscaler, shell::quote};

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
    let names: Vec<_> = names.collect();
    let listed = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(separator);
    match names.len() {
        0 => "none".to_owned(),
        count if count > MAX_NAMES => format!("{listed} and {} more", count - MAX_NAMES),
        _ => listed,
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
