//! The lines of the live view.

use hpa_calc::explain::{Reason, minutes_and_seconds, number};

use super::{
    introduction::DemoInfo,
    line::{Line, Style},
    sparkline::{Point, sparkline},
};
use crate::demo::model::{AutoscalerRecord, Decision, DemoRecords, WorkloadSample};

/// The lines above the autoscalers.
pub(crate) struct Header {
    pub(super) info: DemoInfo,
    pub(super) phase: Phase,
}

/// The phase of the demo.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Running,
    /// The scenario is over, the cluster keeps running.
    OnHold {
        followed_load: bool,
    },
    /// The demo is over. This frame stays on the terminal.
    Over,
}

/// The columns of a line that are not part of its sparkline.
const MARGINS: usize = 44;
/// The minimum width of a sparkline, even if its line is cut.
const MIN_SPARKLINE: usize = 10;

/// The lines of the live view for a terminal of this size. The frame that stays on the terminal may
/// be longer, because the terminal scrolls.
pub(super) fn frame(
    header: &Header,
    records: &DemoRecords,
    columns: usize,
    rows: usize,
) -> Vec<Line> {
    let mut lines = vec![title(header, records)];
    let is_over = matches!(header.phase, Phase::Over);
    if !is_over {
        let export = format!("export KUBECONFIG={}", header.info.kubeconfig);
        lines.extend(wrapped(&export, columns));
        if let Some(variable) = header.info.controller_url() {
            lines.extend(wrapped(&format!("export {variable}"), columns));
        }
        if let Some(page) = &header.info.dashboard {
            lines.extend(wrapped(&format!("dashboard: {page}"), columns));
        }
    }
    lines.push(Line::default());
    let span = header.info.duration.max(records.second);
    let free_rows = if is_over { usize::MAX } else { rows.saturating_sub(lines.len()) };
    lines.extend(autoscaler_blocks(records, span, columns, free_rows));
    let free_rows = rows.saturating_sub(lines.len() + 1);
    let scalings = last_scalings(records, columns, free_rows);
    if !scalings.is_empty() {
        lines.push(Line::default().with(Style::Dim, "Last scalings"));
        lines.extend(scalings);
    }
    if !is_over {
        lines.truncate(rows);
    }
    lines
}

/// Wraps an address or a command at the width of the terminal, even within words. Users could not
/// copy a cut text.
fn wrapped(text: &str, columns: usize) -> Vec<Line> {
    let characters: Vec<char> = text.chars().collect();
    let parts = characters.chunks(columns.max(1)).map(|part| part.iter().collect::<String>());
    parts.map(|part| Line::default().with(Style::Dim, part)).collect()
}

/// As many autoscalers as fit in `rows` lines, and the number of hidden ones.
fn autoscaler_blocks(records: &DemoRecords, span: f64, columns: usize, rows: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let count = records.autoscalers.len();
    for (index, record) in records.autoscalers.iter().enumerate() {
        let block = autoscaler_block(record, span, columns);
        // The last block needs no blank line after it. After the others, there must be room for the
        // number of hidden autoscalers.
        let needed = if index + 1 == count { block.len() - 1 } else { block.len() + 1 };
        if lines.len() + needed > rows {
            let hidden = format!("and {} more; enlarge the terminal to see them", count - index);
            lines.push(Line::default().with(Style::Yellow, hidden));
            break;
        }
        lines.extend(block);
    }
    lines
}

/// As many of the last scalings as fit in `rows` lines, newest first.
fn last_scalings(records: &DemoRecords, columns: usize, rows: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for decision in records.recent_scalings.iter().rev() {
        let scaling = scaling_lines(decision, columns);
        if lines.len() + scaling.len() > rows {
            break;
        }
        lines.extend(scaling);
    }
    lines
}

fn title(header: &Header, records: &DemoRecords) -> Line {
    let DemoInfo { scenario, duration, speed, .. } = &header.info;
    let times =
        format!("  {} of {}", minutes_and_seconds(records.second), minutes_and_seconds(*duration));
    let line = Line::default().with(Style::Bold, format!("hpa demo: {scenario}")).plain(times);
    match header.phase {
        Phase::Running => {
            let speed = number(*speed);
            line.with(Style::Dim, format!(", {speed} times normal speed; Ctrl-C to stop"))
        }
        Phase::OnHold { followed_load: true } => {
            line.with(Style::Green, "  the load was followed; on hold, Ctrl-C to stop")
        }
        Phase::OnHold { followed_load: false } => {
            line.with(Style::Red, "  the load was NOT followed; on hold, Ctrl-C to stop")
        }
        Phase::Over => line,
    }
}

/// Title, load, replicas and last decision, then a blank line.
fn autoscaler_block(record: &AutoscalerRecord, span: f64, columns: usize) -> Vec<Line> {
    let width = columns.saturating_sub(MARGINS).max(MIN_SPARKLINE);
    let last = record.samples.last().copied().unwrap_or_default();
    let sparkline_of = |value: &dyn Fn(&WorkloadSample) -> f64| {
        let points: Vec<Point> =
            record.samples.iter().map(|sample| (sample.second, value(sample))).collect();
        sparkline(&points, span, width)
    };
    let load = if record.has_queue {
        Line::default().plain("  backlog  ").plain(sparkline_of(&|sample| sample.backlog))
    } else {
        Line::default().plain("  load     ").plain(sparkline_of(&|sample| sample.offered))
    };
    let replicas = Line::default()
        .plain("  replicas ")
        .with(Style::Green, sparkline_of(&|sample| f64::from(sample.desired)));
    let mut lines = vec![
        autoscaler_title(record),
        append_load(load, record.has_queue, last),
        append_replicas(replicas, last),
    ];
    lines.extend(last_decision_lines(record, columns));
    lines.push(Line::default());
    lines
}

fn autoscaler_title(record: &AutoscalerRecord) -> Line {
    let target = &record.target;
    let (min, max) = (record.bounds.min_replicas, record.bounds.max_replicas);
    let line = Line::default()
        .with(Style::Bold, format!("{:<9}", record.key.name))
        .with(Style::Dim, format!(" {} {}, {min}..{max}", target.kind, target.name));
    let last = record.last_decision.as_ref();
    match last.and_then(|decision| decision.measurement.as_ref()) {
        Some(measurement) => line
            .plain(format!("   {} {}", measurement.metric, measurement.current))
            .with(Style::Dim, format!(" / target {}", measurement.target)),
        None => line,
    }
}

fn append_load(line: Line, has_queue: bool, last: WorkloadSample) -> Line {
    if has_queue {
        return line.plain(format!("  {}", number(last.backlog.floor())));
    }
    let line = line.plain(format!("  {}/s", number(last.offered.round())));
    if last.served < last.offered * 0.999 {
        let percent = last.served / last.offered * 100.0;
        return line.with(Style::Red, format!(", {percent:.0}% served"));
    }
    line
}

fn append_replicas(line: Line, last: WorkloadSample) -> Line {
    let line = line.with(Style::Bold, format!("  {}", last.desired));
    let line = if last.ready == last.desired {
        line
    } else {
        line.plain(format!(", {} ready", last.ready))
    };
    line.with(Style::Dim, format!(", {} needed", last.needed))
}

/// The last decision. If it has a limit, only the limit is shown, because the title has the
/// measurement.
fn last_decision_lines(record: &AutoscalerRecord, columns: usize) -> Vec<Line> {
    let Some(decision) = &record.last_decision else {
        return vec![Line::default().with(Style::Dim, "  no decision yet")];
    };
    let style = match decision.reason {
        Reason::Failed => Style::Red,
        Reason::MaxReplicas | Reason::Policy | Reason::Paused => Style::Yellow,
        _ => Style::Plain,
    };
    let text = decision.limit.as_ref().unwrap_or(&decision.sentence);
    let text = format!("{}: {text}", decision.change());
    Line::default().plain("  ").with_wrapped(style, &text, columns, 4)
}

fn scaling_lines(decision: &Decision, columns: usize) -> Vec<Line> {
    let is_up = decision.to.is_some_and(|to| to > decision.from);
    let style = if is_up { Style::Green } else { Style::Yellow };
    let line = Line::default()
        .with(Style::Dim, format!("{:>7}  ", minutes_and_seconds(decision.second)))
        .plain(format!("{:<9} ", decision.key.name))
        .with(style, format!("{:<9} ", decision.change()));
    let indent = line.width();
    line.with_wrapped(Style::Plain, &decision.sentence, columns, indent)
}

#[cfg(test)]
mod tests;
