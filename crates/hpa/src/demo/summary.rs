//! What is told at the end.

use super::{
    board::{Dashboard, Sample, Track},
    text::{clock, number, percent},
    verdict,
};

/// How it went.
pub(crate) struct Summary {
    lines: Vec<String>,
    /// Whether the controller followed the load, for all autoscalers of the scenario.
    pub(crate) followed: bool,
}

const HEADINGS: [&str; 9] =
    ["HPA", "DECISIONS", "UP", "DOWN", "REPLICAS", "AVERAGE", "NEEDED", "SERVED", "SHORT"];

impl Summary {
    /// Sums up what happened so far.
    pub(crate) fn of(board: &Dashboard) -> Self {
        let judged: Vec<&Track> =
            board.tracks.iter().filter(|track| track.is_of_scenario).collect();
        let mut rows = vec![HEADINGS.map(str::to_owned)];
        rows.extend(board.tracks.iter().map(row));
        let mut lines = table(&rows);
        let objections: Vec<String> = judged
            .iter()
            .flat_map(|track| {
                verdict::objections(track)
                    .into_iter()
                    .map(|text| format!("  {}: {text}", track.key.name))
            })
            .collect();
        let followed = objections.is_empty() && !judged.is_empty();
        lines.push(String::new());
        if followed {
            let count = judged.len();
            let who = if count == 1 {
                "the autoscaler".to_owned()
            } else {
                format!("all {count} autoscalers")
            };
            lines.push(format!("The controller followed the load for {who}."));
        } else if judged.is_empty() {
            lines.push("The scenario has no autoscaler: there was nothing to follow.".to_owned());
        } else {
            lines.push("The controller did NOT follow the load:".to_owned());
            lines.extend(objections);
        }
        lines.extend(verdict::CRITERIA.lines().map(str::to_owned));
        Self { lines, followed }
    }

    /// The lines as a text.
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n")
    }
}

fn row(track: &Track) -> [String; 9] {
    let (fewest, most) = reached(&track.samples);
    let seen = track.seen.as_ref();
    let seconds = track.samples.last().map_or(0.0, |last| last.second);
    let average = seen.map_or(0.0, |seen| seen.pod_seconds) / seconds.max(1.0);
    [
        track.key.name.to_string(),
        track.decisions.to_string(),
        track.ups.to_string(),
        track.downs.to_string(),
        format!("{fewest}..{most}"),
        number(average),
        number(average_needed(&track.samples)),
        served(track),
        seen.map_or("-".to_owned(), |seen| clock(seen.underserved_seconds)),
    ]
}

/// Which part of the load was served, or of what arrived in the queues was worked off.
fn served(track: &Track) -> String {
    let (arrived, drained) = track.queued;
    let load =
        track.seen.as_ref().map_or((0.0, 0.0), |seen| (seen.offered_total, seen.served_total));
    percent(load.1 + drained, load.0 + arrived)
}

/// The fewest and the most replicas there were.
fn reached(samples: &[Sample]) -> (u32, u32) {
    let desired = || samples.iter().map(|sample| sample.desired);
    (desired().min().unwrap_or_default(), desired().max().unwrap_or_default())
}

fn average_needed(samples: &[Sample]) -> f64 {
    let spans = samples.iter().zip(samples.iter().skip(1));
    let (needed, seconds) = spans.fold((0.0, 0.0), |(needed, seconds), (before, now)| {
        let span = now.second - before.second;
        (needed + f64::from(now.needed) * span, seconds + span)
    });
    if seconds > 0.0 { needed / seconds } else { 0.0 }
}

/// Rows in columns: the first to the left, the others to the right.
fn table(rows: &[[String; 9]]) -> Vec<String> {
    let mut widths = [0; 9];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |row: &[String; 9]| {
        let mut cells = row.iter().zip(widths);
        let first = cells.next().map(|(cell, width)| format!("{cell:width$}"));
        let others = cells.map(|(cell, width)| format!("{cell:>width$}"));
        first.into_iter().chain(others).collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line() {
        let row = |first: &str, second: &str| {
            let mut row = [const { String::new() }; 9].map(|_: String| "1".to_owned());
            (row[0], row[1]) = (first.to_owned(), second.to_owned());
            row
        };
        let lines = table(&[row("HPA", "N"), row("w", "100")]);
        assert_eq!(lines[0], "HPA    N  1  1  1  1  1  1  1");
        assert_eq!(lines[1], "w    100  1  1  1  1  1  1  1");
    }

    #[test]
    fn averages_go_by_time() {
        let sample = |second, needed| Sample { second, needed, ..Sample::default() };
        let samples = [sample(0.0, 9), sample(10.0, 1), sample(11.0, 12)];
        assert!((average_needed(&samples) - 2.0).abs() < 1e-9);
        assert_eq!(reached(&[]), (0, 0));
    }
}
