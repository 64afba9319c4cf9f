//! The live view: what is on the screen at a moment.

use super::{
    board::{Dashboard, Sample, Track},
    decision::{Decision, Reason},
    sparkline::{Point, sparkline},
    text::{Line, Style, clock, number},
};

/// What the head of the view tells besides the board.
pub(crate) struct Head {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// How many simulated seconds it takes.
    pub(crate) span: f64,
    /// How many simulated seconds pass in a second.
    pub(crate) speed: f64,
    /// Where the kubeconfig is.
    pub(crate) kubeconfig: String,
    /// How the scenario went, once it was seen to its end.
    pub(crate) followed: Option<bool>,
    /// Whether all is over, and what is shown the last of it.
    pub(crate) is_over: bool,
}

/// The columns before a curve and after it.
const MARGINS: usize = 44;
/// A curve is never narrower, though it be cut then.
const NARROWEST: usize = 10;

/// The lines of the view, for a terminal with so many columns and rows.
pub(crate) fn view(head: &Head, board: &Dashboard, columns: usize, rows: usize) -> Vec<Line> {
    let mut lines = vec![title(head, board)];
    if !head.is_over {
        lines.push(kubeconfig(head));
    }
    lines.push(Line::default());
    let curve = columns.saturating_sub(MARGINS).max(NARROWEST);
    for track in &board.tracks {
        lines.extend(autoscaler(track, head.span.max(board.second), curve));
    }
    let left = rows.saturating_sub(lines.len() + 1);
    if left > 0 && !board.recent.is_empty() {
        lines.push(Line::default().with(Style::Dim, "Scalings, the latest first"));
        lines.extend(board.recent.iter().rev().take(left).map(scaling));
    }
    lines.truncate(rows);
    lines
}

fn title(head: &Head, board: &Dashboard) -> Line {
    let times = format!("  {} of {}", clock(board.second), clock(head.span));
    let line =
        Line::default().with(Style::Bold, format!("hpa demo: {}", head.scenario)).plain(times);
    match head.followed {
        _ if head.is_over => line,
        None => {
            line.with(Style::Dim, format!(", {} times as fast; Ctrl-C ends it", number(head.speed)))
        }
        Some(true) => line.with(Style::Green, "  the load was followed; on hold until Ctrl-C"),
        Some(false) => line.with(Style::Red, "  the load was NOT followed; on hold until Ctrl-C"),
    }
}

fn kubeconfig(head: &Head) -> Line {
    Line::default().with(Style::Dim, format!("export KUBECONFIG={}", head.kubeconfig))
}

/// Four lines and a blank one.
fn autoscaler(track: &Track, span: f64, curve: usize) -> Vec<Line> {
    let last = track.samples.last().copied().unwrap_or_default();
    let (min, max) = track.bounds;
    let mut title = Line::default()
        .with(Style::Bold, format!("{:<9}", track.key.name))
        .with(Style::Dim, format!(" {} {}, {min}..{max}", track.target.kind, track.target.name));
    if let Some(reading) = track.last.as_ref().and_then(|decision| decision.reading.as_ref()) {
        title = title.plain(format!("   {} {}", reading.metric, reading.current));
        title = title.with(Style::Dim, format!(" / target {}", reading.target));
    }
    let curve_of = |value: &dyn Fn(&Sample) -> f64| {
        let points: Vec<Point> =
            track.samples.iter().map(|sample| (sample.second, value(sample))).collect();
        sparkline(&points, span, curve)
    };
    let load = if track.has_queue {
        Line::default().plain("  waiting  ").plain(curve_of(&|one| one.waiting))
    } else {
        Line::default().plain("  load     ").plain(curve_of(&|one| one.offered))
    };
    let replicas = Line::default()
        .plain("  replicas ")
        .with(Style::Green, curve_of(&|one| f64::from(one.desired)));
    vec![
        title,
        told_load(load, track, last),
        told_replicas(replicas, last),
        latest(track),
        Line::default(),
    ]
}

fn told_load(line: Line, track: &Track, last: Sample) -> Line {
    if track.has_queue {
        return line.plain(format!("  {}", number(last.waiting.floor())));
    }
    let line = line.plain(format!("  {} a second", number(last.offered.round())));
    if last.served < last.offered * 0.999 {
        return line
            .with(Style::Red, format!(", {:.0}% served", last.served / last.offered * 100.0));
    }
    line
}

fn told_replicas(line: Line, last: Sample) -> Line {
    let line = line.with(Style::Bold, format!("  {}", last.desired));
    let line = if last.ready == last.desired {
        line
    } else {
        line.plain(format!(", {} ready", last.ready))
    };
    line.with(Style::Dim, format!(", needs {}", last.needed))
}

fn latest(track: &Track) -> Line {
    let Some(decision) = &track.last else {
        return Line::default().with(Style::Dim, "  no decision yet");
    };
    let style = match decision.reason {
        Reason::Failed => Style::Red,
        Reason::AtMaximum | Reason::Paced => Style::Yellow,
        _ => Style::Plain,
    };
    Line::default().with(style, format!("  {}: {}", decision.change(), decision.sentence))
}

fn scaling(decision: &Decision) -> Line {
    let is_up = decision.to.is_some_and(|to| to > decision.from);
    Line::default()
        .with(Style::Dim, format!("{:>7}  ", clock(decision.second)))
        .plain(format!("{:<9}", decision.key.name))
        .with(
            if is_up { Style::Green } else { Style::Yellow },
            format!(" {:<9}", decision.change()),
        )
        .plain(format!(" {}", decision.sentence))
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
