//! A page about the runs of a file. It needs no other file.

use std::fmt::Write as _;

use super::{
    Result, chart,
    css::{CHART, PAGE},
    format::{clock, span},
    table::cells,
};
use crate::{
    file::Study,
    run::{Problem, Run, Step},
};

/// The page: the comparison, then a chart and the scalings of each variant.
pub fn html(study: &Study, results: &[Result]) -> String {
    let name = if study.name.is_empty() { "Simulation" } else { &study.name };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}</title>\n\
            <style>{PAGE}{CHART}</style>\n</head>\n<body>\n<h1>{name}</h1>\n",
        name = escape(name)
    );
    let _ = writeln!(page, "<p>{}</p>", escape(&study.description));
    if let Some((variant, _)) = results.first() {
        let _ = writeln!(
            page,
            "<p>Simulated: {}, sync period {}, seed {}.</p>",
            span(variant.cluster.duration.get()),
            span(variant.controller.sync_period.get()),
            variant.cluster.seed
        );
    }
    page += &comparison(results);
    page += LEGEND;
    for (variant, run) in results {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&variant.name));
        if !variant.description.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", escape(&variant.description));
        }
        page += &chart::element(variant, run);
        page += &scalings(run);
        page += "</section>\n";
    }
    page + "</body>\n</html>\n"
}

const LEGEND: &str = "<p>OVERLOAD: share of the load beyond the capacity of the ready pods, or of \
    the queued work that waited too long. LATENCY: time of a request as a multiple of that on an \
    idle pod, estimated from the utilization. REVERSALS: scalings against the previous one within \
    10 minutes. REACTION: the longest time with too few ready pods.</p>\n<p>Marks in the charts \
    say what determined the size: ▲▼ metrics, ◇ stabilization window, □ policy, ▭ bound. Coloured \
    columns: the autoscaler could not decide.</p>\n";

fn comparison(results: &[Result]) -> String {
    let (headers, rows) = cells(results);
    let mut table = String::from("<div class=\"wide\"><table>\n<tr>");
    for header in headers {
        let _ = write!(table, "<th>{}</th>", escape(&header));
    }
    table += "</tr>\n";
    for row in rows {
        table += "<tr>";
        for (index, cell) in row.iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"n\"" };
            let _ = write!(table, "<td{class}>{}</td>", escape(cell));
        }
        table += "</tr>\n";
    }
    table + "</table></div>\n"
}

fn scalings(run: &Run) -> String {
    if run.steps.is_empty() && run.problems.is_empty() {
        return "<p>No scalings.</p>\n".to_owned();
    }
    let step =
        |step: &Step| (step.second, format!("{} → {}", step.from, step.to), step.sentence.clone());
    let problem = |problem: &Problem| {
        (problem.from, format!("for {}", span(problem.to - problem.from)), problem.sentence.clone())
    };
    let mut rows: Vec<(f64, String, String)> =
        run.steps.iter().map(step).chain(run.problems.iter().map(problem)).collect();
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut table = format!(
        "<details><summary>{} scaling{} and why</summary>\n<table>\n\
            <tr><th>TIME</th><th>REPLICAS</th><th>REASON</th></tr>\n",
        run.steps.len(),
        if run.steps.len() == 1 { "" } else { "s" }
    );
    for (second, change, why) in rows {
        let _ = writeln!(
            table,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{change}</td><td>{}</td></tr>",
            clock(second),
            escape(&why)
        );
    }
    table + "</table></details>\n"
}

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
