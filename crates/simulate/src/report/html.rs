//! A page about the runs of a file. It needs no other file.

use std::fmt::Write as _;

use super::{
    Result, chart,
    css::{CHART, PAGE},
    escape::escape,
    format::{clock, span},
    marks::MAX_MARKS,
    recorded::RecordedReplicas,
    table::cells,
};
use crate::{
    file::Study,
    run::{Problem, Run, Step},
};

/// Longer tables of scalings are printed only if they are open.
const MAX_PRINTED: usize = 200;

/// What the columns of the comparison mean, as far as their headers don't say it.
const COLUMNS: [(&str, &str); 7] = [
    ("POD-HOURS", "sum of the pods' lifetimes, and the difference from the first variant"),
    (
        "OVERLOAD",
        "share of the load beyond the capacity of the ready pods, or of the queued work that \
         waited too long",
    ),
    ("OVERLOAD TIME", "how long there was such load"),
    (
        "LATENCY P99",
        "99 % of the requests take at most this many times as long as on an idle pod, estimated \
         from the utilization",
    ),
    ("WAIT P99", "99 % of the queued work waits at most this long"),
    ("REVERSALS", "scalings against the previous one within 10 minutes"),
    ("REACTION", "the longest time with too few ready pods"),
];

/// The page: the comparison, then a chart and the scalings of each variant. Charts have the
/// recorded replicas, too, if there are any.
pub fn html(study: &Study, results: &[Result], recorded: Option<&RecordedReplicas>) -> String {
    let name = if study.name.is_empty() { "Simulation" } else { &study.name };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}</title>\n\
            <style>{PAGE}{CHART}</style>\n</head>\n<body>\n<h1>{name}</h1>\n",
        name = escape(name)
    );
    for line in study.description.lines() {
        let _ = writeln!(page, "<p>{}</p>", escape(line));
    }
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
    page += &marks_legend();
    for (variant, run) in results {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&variant.name));
        if !variant.description.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", escape(&variant.description));
        }
        let chart = chart::element(variant, run, recorded);
        let _ = writeln!(page, "<div class=\"wide\">{chart}</div>");
        page += &scalings(run);
        page += "</section>\n";
    }
    page + "</body>\n</html>\n"
}

fn marks_legend() -> String {
    format!(
        "<p>The marks of scalings in the charts say what determined the size: △▽ metrics, \
            ◇ stabilization window, □ policy, ▭ bound. Charts with more than {MAX_MARKS} scalings \
            have no marks.</p>\n"
    )
}

fn comparison(results: &[Result]) -> String {
    let (headers, rows) = cells(results);
    let mut table = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for header in &headers {
        let _ = write!(table, "<th>{}</th>", escape(header));
    }
    table += "</tr></thead>\n";
    for row in rows {
        table += "<tr>";
        for (index, cell) in row.iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"n\"" };
            let _ = write!(table, "<td{class}>{}</td>", escape(cell));
        }
        table += "</tr>\n";
    }
    let shown = COLUMNS.iter().filter(|(name, _)| headers.iter().any(|header| header == name));
    let legend: Vec<_> =
        shown.map(|(name, meaning)| format!("{name}: {}.", escape(meaning))).collect();
    let _ = writeln!(table, "</table></div>\n<p>{}</p>", legend.join(" "));
    table
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
    let is_long = rows.len() > MAX_PRINTED;
    let mut table = format!(
        "<details{}><summary>{}{}</summary>\n<table>\n\
            <thead><tr><th>TIME</th><th>REPLICAS</th><th>REASON</th></tr></thead>\n",
        if is_long { " class=\"long\"" } else { "" },
        summary(run),
        if is_long { " (printed if open)" } else { "" },
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

fn summary(run: &Run) -> String {
    let count =
        |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let scalings = count(run.steps.len(), "scaling");
    match run.problems.len() {
        0 => format!("{scalings} and why"),
        problems => {
            format!("{scalings} and {} without a decision, and why", count(problems, "time"))
        }
    }
}
