//! A preview as text.

use std::fmt::Write;

use hpa_collectors::schedules::Problem;
use jiff::{Timestamp, Zoned};

use super::{chart, preview::Preview};

impl Preview {
    pub(super) fn text(&self, has_color: bool) -> String {
        let zone = self.zone.iana_name().unwrap_or("UTC");
        let mut text = format!("{}, times in {zone}\n", self.name);
        // Writing to a string can't fail.
        for problem in &self.problems {
            let label = match problem {
                Problem::UnknownTimeZone { .. } => "warning",
                _ => "error",
            };
            let _ = writeln!(text, "{label}: {problem}");
        }
        text.push('\n');
        text.push_str(&chart::draw(self, has_color));
        text.push('\n');
        for window in &self.windows {
            let entry = format!("spec.schedules[{}]", window.entry);
            let times = format!("{} to {}", self.local(window.start), self.local(window.end));
            let _ = writeln!(text, "{times}  {:>8}  {entry}", window.value);
        }
        let next = self.changes.first().map(|change| (self.local(change.at), change.value));
        let next = next.map_or_else(
            || "no change in this time".to_owned(),
            |(at, value)| format!("next {value} at {at}"),
        );
        let minutes = self.ramp_seconds / 60;
        let now = self.local(self.from);
        let _ = writeln!(text, "{now}: value {}, {next}; ramps of {minutes} min", self.first);
        text
    }

    fn local(&self, time: Timestamp) -> impl std::fmt::Display {
        let time: Zoned = time.to_zoned(self.zone.clone());
        time.strftime("%a %Y-%m-%d %H:%M %:z").to_string()
    }
}
