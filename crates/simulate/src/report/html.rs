//! A report about the runs of a scenario file, as a single HTML page.

use std::fmt::Write as _;

use hpa_calc::explain::counted;

use super::{
    VariantRun,
    chart::{AxisEnds, MAX_MARKS, svg_element},
    page::begin_page,
    recorded::RecordedReplicas,
    style::{CHART_CSS, PAGE_CSS, escape, paragraphs},
    table::{best_index, comparison_cells, cost_order, scalings_and_problems},
    times::{TimeFormat, format_duration},
};
use crate::{file::ScenarioFile, measure::ACCEPTED_LATENCY, run::Run};

/// A table of scalings with more rows is printed on paper only if it is expanded.
const MAX_PRINTED_ROWS: usize = 200;

/// Headers of columns that need an explanation, with the explanation.
const COLUMN_EXPLANATIONS: [(&str, &str); 7] = [
    ("POD-HOURS", "sum of the pods' lifetimes, and the difference from the first variant"),
    (
        "OVERLOAD",
        "share of the load beyond the capacity of the ready pods, or of the queued work that \
         waited too long",
    ),
    ("OVERLOAD TIME", "time with such load"),
    (
        "LATENCY P99",
        "99 % of the requests take at most this many times as long as on an idle pod, estimated \
         from the utilization",
    ),
    ("WAIT P99", "99 % of the queued work waits at most this long"),
    ("REVERSALS", "scalings in the opposite direction of the previous one, within 10 minutes"),
    ("REACTION", "the longest time with too few ready pods"),
];

/// Creates the page: the comparison of the variants, then a chart and the scalings of each variant.
/// If there are recorded replicas, each chart also has them.
pub fn html(
    scenario_file: &ScenarioFile,
    results: &[VariantRun],
    recorded: Option<&RecordedReplicas>,
) -> String {
    let name = if scenario_file.name.is_empty() { "Simulation" } else { &scenario_file.name };
    let mut page = begin_page(name, &format!("{PAGE_CSS}{CHART_CSS}"));
    page += &paragraphs(&scenario_file.description);
    if let Some((variant, _)) = results.first() {
        page += &paragraphs(variant.caution.as_deref().unwrap_or_default());
        let _ = writeln!(
            page,
            "<p>Simulated: {}, sync period {}, seed {}.</p>",
            format_duration(variant.scenario.duration.get()),
            format_duration(variant.sync_period()),
            variant.scenario.seed
        );
    }
    page += &comparison_table(results);
    page += &marks_legend();
    let (axis_ends, best) = (AxisEnds::new(results, recorded), best_index(results));
    for (index, result) in results.iter().enumerate() {
        let (variant, run) = result;
        let star = if best == Some(index) { "★ " } else { "" };
        let _ = writeln!(page, "<section>\n<h2>{star}{}</h2>", escape(&variant.name));
        page += &paragraphs(&variant.description);
        let chart = svg_element(result, recorded, axis_ends);
        let _ = writeln!(page, "<div class=\"wide\">{chart}</div>");
        let times = TimeFormat::of_run(recorded.map(|recorded| recorded.start));
        page += &scalings_table(run, &times);
        page += "</section>\n";
    }
    page + "</body>\n</html>\n"
}

fn marks_legend() -> String {
    format!(
        "<p>The marks of scalings in the charts show what determined the replicas: △▽ metrics, \
            ◇ stabilization window, □ policy, ▭ bound. Charts with more than {MAX_MARKS} scalings \
            have no marks.</p>\n"
    )
}

fn comparison_table(results: &[VariantRun]) -> String {
    let (headers, rows) = comparison_cells(results);
    let best = best_index(results);
    let mut table = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for header in &headers {
        let _ = write!(table, "<th>{}</th>", escape(header));
    }
    table += "</tr></thead>\n";
    for (index, row) in rows.iter().enumerate() {
        let is_best = best == Some(index);
        table += if is_best { "<tr class=\"best\">" } else { "<tr>" };
        for (column, cell) in row.iter().enumerate() {
            let class = if column == 0 { "" } else { " class=\"n\"" };
            let star = if is_best && column == 0 { "★ " } else { "" };
            let _ = write!(table, "<td{class}>{star}{}</td>", escape(cell));
        }
        table += "</tr>\n";
    }
    let explained =
        COLUMN_EXPLANATIONS.iter().filter(|(name, _)| headers.iter().any(|header| header == name));
    let mut legend: Vec<_> =
        explained.map(|(name, meaning)| format!("{name}: {}.", escape(meaning))).collect();
    if best.is_some() {
        legend.insert(
            0,
            format!(
                "★: the variant with the least overload, rounded to 0.01 % of the load. If several \
                 are equal, those with a LATENCY P99 of at most {ACCEPTED_LATENCY}×, or at most \
                 that of the base, come first, then those without any overload, then those with \
                 the {}.",
                cost_order(results)
            ),
        );
    }
    let _ = writeln!(table, "</table></div>\n<p>{}</p>", legend.join(" "));
    table
}

fn scalings_table(run: &Run, times: &TimeFormat) -> String {
    if run.steps.is_empty() && run.problems.is_empty() {
        return "<p>No scalings.</p>\n".to_owned();
    }
    let rows = scalings_and_problems(run);
    let is_long = rows.len() > MAX_PRINTED_ROWS;
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
            times.text(second),
            escape(why)
        );
    }
    table + "</table></details>\n"
}

fn summary(run: &Run) -> String {
    let scalings = counted(run.steps.len(), "scaling");
    match run.problems.len() {
        0 => format!("{scalings}, with reasons"),
        problems => {
            let periods = counted(problems, "period");
            format!("{scalings} and {periods} without a decision, with reasons")
        }
    }
}
