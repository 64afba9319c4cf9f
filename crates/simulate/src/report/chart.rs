//! The chart of a run: load and capacity above, replicas below, on one axis of time.

use std::fmt::Write as _;

use super::{
    Result, axes,
    css::CHART,
    describe::describe,
    escape::escape,
    lines::{self, ReplicasPlot},
    marks,
    recorded::RecordedReplicas,
    series::Area,
};
use crate::{file::Variant, run::Run};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
/// The labels are right of the plots.
const PLOT_WIDTH: f64 = 720.0;
const LOAD_HEIGHT: f64 = 130.0;
const REPLICAS_HEIGHT: f64 = 130.0;
/// Above each of the two plots.
const TITLE: f64 = 30.0;
const GAP: f64 = 12.0;
const AXIS: f64 = 26.0;
const CHART_HEIGHT: f64 = 2.0 * TITLE + LOAD_HEIGHT + REPLICAS_HEIGHT + GAP + AXIS;
/// The longest heading in characters that fits.
const HEADING_LENGTH: usize = 115;

/// The charts of runs below each other, as a file of its own.
pub fn svg(results: &[Result]) -> String {
    let heading = if results.len() > 1 { TITLE } else { 0.0 };
    let height = (CHART_HEIGHT + heading + GAP) * results.len() as f64;
    let description: Vec<_> =
        results.iter().map(|(variant, run)| describe(variant, run, None)).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" \
            width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n\
            <style>{CHART}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
        escape(&description.join(" "))
    );
    let mut top = 0.0;
    for (variant, run) in results {
        if results.len() > 1 {
            let title = escape(&title(variant));
            let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{}\">{title}</text>", top + 19.0);
        }
        svg += &chart(variant, run, None, top + heading);
        top += CHART_HEIGHT + heading + GAP;
    }
    svg + "</svg>\n"
}

fn title(variant: &Variant) -> String {
    let description = variant.description.trim();
    let separator = if description.is_empty() { "" } else { ": " };
    let title = format!("{}{separator}{description}", variant.name);
    if title.chars().count() <= HEADING_LENGTH {
        return title;
    }
    let mut short: String = title.chars().take(HEADING_LENGTH - 1).collect();
    short.push('…');
    short
}

/// One chart as an element of a page.
pub(super) fn element(variant: &Variant, run: &Run, recorded: Option<&RecordedReplicas>) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {CHART_HEIGHT}\" role=\"img\" \
            aria-label=\"{}\">\n{}</svg>\n",
        escape(&describe(variant, run, recorded)),
        chart(variant, run, recorded, 0.0)
    )
}

fn chart(variant: &Variant, run: &Run, recorded: Option<&RecordedReplicas>, top: f64) -> String {
    let end = variant.cluster.duration.get();
    let area = |top, height, max| Area { left: LEFT, top, width: PLOT_WIDTH, height, end, max };
    let plot = ReplicasPlot::new(variant, run, recorded);
    let load = area(top + TITLE, LOAD_HEIGHT, lines::max_load(&run.timeline));
    let replicas = area(load.top + LOAD_HEIGHT + GAP + TITLE, REPLICAS_HEIGHT, plot.max);
    let load_title = escape(&format!("load and capacity ({})", variant.load_unit));
    let mut svg = marks::problems(run, &load) + &marks::problems(run, &replicas);
    svg += &axes::values(&load, &load_title, &axes::round_values(&load));
    svg += &axes::values(&replicas, "replicas", &axes::whole_values(&replicas));
    svg += &axes::times(&replicas);
    svg += &lines::load(run, &load);
    svg += &plot.draw(&replicas);
    svg += &marks::scalings(run, &replicas);
    svg
}
