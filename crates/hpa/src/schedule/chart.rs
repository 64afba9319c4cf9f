//! Draws the value of a schedule as bars: a line for each day, a character for each half hour.

use std::fmt::Write;

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
};

use super::preview::Preview;
use crate::terminal::bar;

const SLOTS_PER_DAY: i32 = 48;
const MINUTES_PER_SLOT: i32 = 30;
/// A half hour without a value: outside the preview, or skipped because summer time begins.
const NO_VALUE: char = ' ';
/// Cyan.
const BAR_COLOR: &str = "\x1b[36m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// Draws a line for each day, below a line with the hours.
pub(super) fn draw(preview: &Preview, has_color: bool) -> String {
    let hours = (0..24).step_by(3).map(|hour| format!("{hour:<6}"));
    let mut text = format!("{:12}{}\n", "", hours.collect::<String>().trim_end());
    let day = |time: Timestamp| preview.zone.to_datetime(time).date();
    let last = day(preview.to);
    let dates = day(preview.from).series(jiff::Span::new().days(1));
    for date in dates.take_while(|date| *date <= last) {
        let slots: Vec<_> =
            (0..SLOTS_PER_DAY).map(|slot| max_in_slot(preview, date, slot)).collect();
        let max = slots.iter().copied().flatten().max();
        // If the preview ends at midnight, it has no half hour of its last day.
        let Some(max) = max else { continue };
        let bars = bars(&slots, preview.max_value(), has_color);
        // Writing to a string can't fail.
        let _ = writeln!(text, "{:12}{bars}  {max}", date.strftime("%a %d %b").to_string());
    }
    text
}

/// The largest value in half an hour. `None` outside the preview or if the clocks skip it.
fn max_in_slot(preview: &Preview, date: Date, slot: i32) -> Option<i64> {
    let minutes = |slot: i32| jiff::Span::new().minutes(slot * MINUTES_PER_SLOT);
    let instant = |time: DateTime| preview.zone.to_timestamp(time).unwrap_or(Timestamp::MAX);
    let midnight = date.at(0, 0, 0, 0);
    let civil = midnight.saturating_add(minutes(slot));
    let is_skipped = preview.zone.to_datetime(instant(civil)) != civil;
    let start = instant(civil).max(preview.from);
    let end = instant(midnight.saturating_add(minutes(slot + 1))).min(preview.to);
    if is_skipped || start >= end {
        return None;
    }
    // The value at the start, and those that follow in the slot.
    let first_later = preview.changes.partition_point(|change| change.at <= start);
    let (earlier, later) = preview.changes.split_at(first_later);
    let first = earlier.last().map_or(preview.initial_value, |change| change.value);
    let inside = later.iter().take_while(|change| change.at < end);
    Some(inside.map(|change| change.value).fold(first, i64::max))
}

/// A character for the value of each slot.
fn bars(slots: &[Option<i64>], max: i64, has_color: bool) -> String {
    let mut text = String::new();
    let mut color = "";
    for slot in slots {
        let (char, slot_color) = match slot {
            None => (NO_VALUE, ""),
            Some(value) => {
                let slot_color = if *value == 0 { DIM } else { BAR_COLOR };
                (bar(value.unsigned_abs() as f64, max as f64), slot_color)
            }
        };
        if has_color && slot_color != color {
            // Another color doesn't end `DIM`.
            text.push_str(if color.is_empty() { "" } else { RESET });
            text.push_str(slot_color);
            color = slot_color;
        }
        text.push(char);
    }
    text.push_str(if color.is_empty() { "" } else { RESET });
    text
}
