//! A report about the runs of a scenario file, as a single HTML page.

use std::fmt::Write as _;

use hpa_calc::explain::counted;

use super::{
    Result, chart,
    chart::{MAX_MARKS, RecordedReplicas, Scales},
    table::{Times, best, cells, events, span},
};
use crate::{file::Study, run::Run};

/// Tables with more scalings are printed on paper only if they are expanded.
const MAX_PRINTED: usize = 200;

/// Explanations of columns whose header is not self-explanatory.
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

/// The page: the comparison, then a chart and the scalings of each variant. Charts also
/// have the recorded replicas, if there are any.
pub fn html(study: &Study, results: &[Result], recorded: Option<&RecordedReplicas>) -> String {
    let name = if study.name.is_empty() { "Simulation" } else { &study.name };
    let mut page = begin_page(name, &format!("{PAGE}{CHART}"));
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
    let (scales, best) = (Scales::new(results, recorded), best(results));
    for (index, result) in results.iter().enumerate() {
        let (variant, run) = result;
        let star = if best == Some(index) { "★ " } else { "" };
        let _ = writeln!(page, "<section>\n<h2>{star}{}</h2>", escape(&variant.name));
        if !variant.description.is_empty() {
            let _ = writeln!(page, "<p>{}</p>", escape(&variant.description));
        }
        let chart = chart::element(result, recorded, scales);
        let _ = writeln!(page, "<div class=\"wide\">{chart}</div>");
        page += &scalings(run, RecordedReplicas::times(recorded));
        page += "</section>\n";
    }
    page + "</body>\n</html>\n"
}

/// The beginning of a self-contained page, up to its title.
pub(super) fn begin_page(title: &str, style: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
            <style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )
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
    let best = best(results);
    let mut table = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for header in &headers {
        let _ = write!(table, "<th>{}</th>", escape(header));
    }
    table += "</tr></thead>\n";
    for (number, row) in rows.iter().enumerate() {
        let is_best = best == Some(number);
        table += if is_best { "<tr class=\"best\">" } else { "<tr>" };
        for (index, cell) in row.iter().enumerate() {
            let class = if index == 0 { "" } else { " class=\"n\"" };
            let star = if is_best && index == 0 { "★ " } else { "" };
            let _ = write!(table, "<td{class}>{star}{}</td>", escape(cell));
        }
        table += "</tr>\n";
    }
    let explained = COLUMNS.iter().filter(|(name, _)| headers.iter().any(|header| header == name));
    let mut legend: Vec<_> =
        explained.map(|(name, meaning)| format!("{name}: {}.", escape(meaning))).collect();
    if best.is_some() {
        legend.insert(
            0,
            "★: the least overload, to 0.01 % of the load; among equals, the least cost."
                .to_owned(),
        );
    }
    let _ = writeln!(table, "</table></div>\n<p>{}</p>", legend.join(" "));
    table
}

fn scalings(run: &Run, times: Times) -> String {
    if run.steps.is_empty() && run.problems.is_empty() {
        return "<p>No scalings.</p>\n".to_owned();
    }
    let rows = events(run);
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
            times.text(second),
            escape(why)
        );
    }
    table + "</table></details>\n"
}

fn summary(run: &Run) -> String {
    let scalings = counted(run.steps.len(), "scaling");
    match run.problems.len() {
        0 => format!("{scalings} and why"),
        problems => {
            format!("{scalings} and {} without a decision, and why", counted(problems, "time"))
        }
    }
}

/// The style of a chart. It is part of the SVG, which is therefore self-contained.
pub(super) const CHART: &str = "
.chart{--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--grid:#e3e3e3;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#6b6b6b;--rec:#9b4a7c;--bad:#c4460a;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){.chart{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--grid:#33373d;\
--load:#56b4e9;--cap:#e69f00;--rep:#2fc796;--ready:#9a9a9a;--rec:#e08fc0;--bad:#ff7b42}}
@media print{.chart{--bg:#fff;--fg:#000;--soft:#444;--grid:#ddd;--load:#0072b2;--cap:#b35c00;\
--rep:#007a56;--ready:#6b6b6b;--rec:#9b4a7c;--bad:#c4460a}}
.chart .bg{fill:var(--bg)}.chart text{fill:var(--fg)}.chart .soft{fill:var(--soft)}
.chart .h{font-weight:600;font-size:13px}
.chart path,.chart line{fill:none;stroke-width:1.6}
.chart .grid{stroke:var(--grid);stroke-width:1}
.chart .load{stroke:var(--load)}
.chart .cap{stroke:var(--cap);stroke-dasharray:7 3}
.chart .over{fill:var(--bad);fill-opacity:.35;stroke:var(--bad);stroke-width:1}
.chart .rep{stroke:var(--rep);stroke-width:2.6}
.chart .past{stroke:var(--fg);stroke-width:1.4;stroke-dasharray:9 3 2 3}
.chart .ready{stroke:var(--ready);stroke-dasharray:2 2}
.chart .rec{stroke:var(--rec);stroke-width:1}
.chart .limit{stroke:var(--soft);stroke-dasharray:1 4}
.chart .backlog{stroke:var(--bad);stroke-width:2.2;stroke-dasharray:2 3}
.chart .mark{fill:var(--bg);stroke:var(--fg);stroke-width:1.3}
.chart .bar{fill:var(--soft);fill-opacity:.18;stroke:var(--soft);stroke-width:1;\
stroke-dasharray:1 2}
";

/// The style of the page. On a phone, a chart is wider than the screen: its text stays readable.
pub(super) const PAGE: &str = "
:root{color-scheme:light dark;--bg:#fff;--fg:#1a1a1a;--soft:#5f6368;--line:#d9d9d9;--head:#f3f4f6}
@media(prefers-color-scheme:dark){:root{--bg:#16181c;--fg:#e8eaed;--soft:#a8adb4;--line:#3a3f46;\
--head:#22262b}}
body{background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;margin:2rem auto;\
max-width:1100px;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .3rem}
p{margin:.3rem 0;color:var(--soft)}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.85rem;margin:.6rem 0;width:100%}
th,td{border-bottom:1px solid var(--line);padding:.3rem .6rem;text-align:left;vertical-align:top}
th{background:var(--head);font-weight:600}
tr.best td{font-weight:600}
td.n{font-variant-numeric:tabular-nums;white-space:nowrap}
svg{width:100%;height:auto}
summary{cursor:pointer;color:var(--soft);margin:.3rem 0}
@media screen and (max-width:700px){.wide svg{width:800px}}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--head:#eee}\
body{margin:0;padding:0;max-width:none;font-size:10pt}.wide{overflow:visible}\
table{font-size:7.5pt}th,td{padding:.1rem .25rem}svg,tr{break-inside:avoid}\
h2,h2+p,summary{break-after:avoid}\
details:not(.long)::details-content{content-visibility:visible;height:auto;display:block}}
";

/// Escapes text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The luminance of a colour such as `#fff` or `#16181c`, by WCAG 2.
    fn luminance(colour: &str) -> f64 {
        let digits: Vec<u32> = colour.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let size = digits.len() / 3;
        let parts = digits.chunks(size).map(|part| {
            let value = if let [one] = part { one * 17 } else { part[0] * 16 + part[1] };
            let value = f64::from(value) / 255.0;
            if value <= 0.039_28 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        });
        parts.zip([0.2126, 0.7152, 0.0722]).map(|(part, weight)| part * weight).sum()
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn colours_have_enough_contrast_in_light_dark_and_print() {
        let schemes: Vec<&str> = CHART.split(".chart{").skip(1).collect();
        assert_eq!(schemes.len(), 3);
        for scheme in schemes {
            let (scheme, _) = scheme.split_once('}').unwrap();
            let colours: Vec<(&str, &str)> = scheme
                .split(';')
                .filter_map(|one| one.trim().strip_prefix("--")?.split_once(":#"))
                .collect();
            let (_, background) = colours[0];
            for (name, colour) in &colours[1..] {
                let least = match *name {
                    "grid" => 1.1,
                    "fg" | "soft" => 4.5,
                    _ => 3.0,
                };
                let contrast = contrast(colour, background);
                assert!(contrast >= least, "{name} {colour} on {background}: {contrast:.2}");
            }
        }
    }
}
