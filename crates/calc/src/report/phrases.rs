//! Ages and lists of names in texts.

use jiff::Timestamp;

/// At most this many names are printed, then their number.
const MAX_NAMES: usize = 5;

pub(super) fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_owned(),
        count if count > MAX_NAMES => format!("{shown} and {} more", count - MAX_NAMES),
        _ => shown,
    }
}

/// An age in seconds, or in minutes if it is long. A clock that is ahead makes no age negative.
pub(super) fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    if seconds < 180 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}
