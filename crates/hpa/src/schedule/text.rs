//! The text of a previewed schedule.

use std::fmt::Write;

use hpa_collectors::schedules::EntryProblem;
use jiff::Timestamp;

use super::{
    chart,
    preview::{Preview, format_local},
};

impl Preview {
    pub(super) fn text(&self, has_color: bool) -> String {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        let mut text = format!("{}, times in {zone}\n", self.name);
        // Writing to a string can't fail.
        for problem in &self.problems {
            let label = match problem {
                EntryProblem::UnknownTimeZone { .. } => "warning",
                _ => "error",
            };
            let _ = writeln!(text, "{label}: {problem}");
        }
        if !self.is_valid() {
            // A schedule with an invalid entry has no values, because the metric fails.
            return text;
        }
        text.push('\n');
        text.push_str(&chart::draw(self, has_color));
        text.push('\n');
        for window in &self.windows {
            let entry = format!("spec.schedules[{}]", window.entry);
            let end = self.local(window.effective_end());
            let times = format!("{} to {end}", self.local(window.start));
            // A schedule's value is at least 0.
            let note = if window.value < 0 { " (negative, so it counts as 0)" } else { "" };
            let _ = writeln!(text, "{times}  {:>8}  {entry}{note}", window.value.max(0));
        }
        for window in &self.unlisted_windows {
            let (start, end) = (self.local(window.start), self.local(window.effective_end()));
            let note = if window.start < window.end {
                format!("is outside of the drawn time: {start} to {end} (see --from)")
            } else {
                format!("has an empty window: its end is not after its start, {start}")
            };
            let _ = writeln!(text, "note: spec.schedules[{}] {note}", window.entry);
        }
        let next = self.changes.first().map(|change| (self.local(change.at), change.value));
        let next = next.map_or_else(
            || "no change in this time".to_owned(),
            |(at, value)| format!("next {value} at {at}"),
        );
        let minutes = self.ramp_seconds / 60;
        let now = self.local(self.from);
        let _ =
            writeln!(text, "{now}: value {}, {next}; ramps of {minutes} min", self.initial_value);
        text
    }

    fn local(&self, time: Timestamp) -> String {
        format_local(time, &self.zone)
    }
}
