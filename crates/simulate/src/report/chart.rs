//! The chart of a run: load and capacity above, replicas below, on one axis of time.

use std::fmt::Write as _;

use hpa_calc::explain::{Reason, number};

use super::{
    Result,
    css::CHART,
    format::{clock, span},
    html::escape,
    series::{Area, ticks, time_ticks},
};
use crate::{
    file::Variant,
    run::{Point, Run, Step},
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
const PLOT_WIDTH: f64 = 780.0;
const LOAD_HEIGHT: f64 = 130.0;
const REPLICAS_HEIGHT: f64 = 130.0;
/// Above each of the two plots.
const TITLE: f64 = 24.0;
const GAP: f64 = 12.0;
const AXIS: f64 = 26.0;
const CHART_HEIGHT: f64 = 2.0 * TITLE + LOAD_HEIGHT + REPLICAS_HEIGHT + GAP + AXIS;
/// The smallest distance of labels.
const LABEL_HEIGHT: f64 = 14.0;
/// More marks can't be told apart.
const MAX_MARKS: usize = 150;

/// The charts of runs below each other, as a file of its own.
pub fn svg(results: &[Result]) -> String {
    let heading = if results.len() > 1 { TITLE } else { 0.0 };
    let height = (CHART_HEIGHT + heading + GAP) * results.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" \
            width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<style>{CHART}</style>\n\
            <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
    );
    let mut top = 0.0;
    for (variant, run) in results {
        if results.len() > 1 {
            let title = title(variant);
            let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{}\">{title}</text>", top + 17.0);
        }
        svg += &chart(variant, run, top + heading);
        top += CHART_HEIGHT + heading + GAP;
    }
    svg + "</svg>\n"
}

fn title(variant: &Variant) -> String {
    let description = variant.description.trim();
    let separator = if description.is_empty() { "" } else { ": " };
    escape(&format!("{}{separator}{description}", variant.name))
}

/// One chart as an element of a page.
pub(super) fn element(variant: &Variant, run: &Run) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {CHART_HEIGHT}\" role=\"img\" \
            aria-label=\"load and replicas of {}\">\n{}</svg>\n",
        escape(&variant.name),
        chart(variant, run, 0.0)
    )
}

fn chart(variant: &Variant, run: &Run, top: f64) -> String {
    let end = variant.cluster.duration.get();
    let area = |top, height, max| Area { left: LEFT, top, width: PLOT_WIDTH, height, end, max };
    let points = &run.timeline;
    let largest = |value: &dyn Fn(&Point) -> f64| points.iter().map(value).fold(0.0, f64::max);
    let max_load = nice_max(largest(&|point| point.load).max(largest(&|point| point.capacity)));
    let bound = f64::from(variant.autoscaler.spec.max_replicas);
    let max_replicas = largest(&|point| f64::from(point.replicas.max(point.ready)));
    // A bound far above all replicas would flatten the line.
    let shows_bound = bound <= max_replicas * 1.8 + 2.0;
    let max_replicas = nice_max(if shows_bound { max_replicas.max(bound) } else { max_replicas });
    let load = area(top + TITLE, LOAD_HEIGHT, max_load);
    let replicas = area(load.top + LOAD_HEIGHT + GAP + TITLE, REPLICAS_HEIGHT, max_replicas);
    let mut svg = String::new();
    svg += &axes(&load, "load and capacity, units per second");
    svg += &axes(&replicas, "replicas");
    svg += &times(&replicas);
    svg += &problems(run, &load, &replicas);
    svg += &load_lines(points, &load);
    svg += &replica_lines(variant, points, &replicas, shows_bound);
    svg += &marks(run, &replicas);
    svg
}

/// The end of an axis: a bit above the largest value.
fn nice_max(max: f64) -> f64 {
    if max > 0.0 { max * 1.08 } else { 1.0 }
}

fn axes(area: &Area, title: &str) -> String {
    let mut svg = String::new();
    let (left, right) = (area.left, area.left + area.width);
    for tick in ticks(area.max, 5.0) {
        let y = area.y(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            number(tick)
        );
    }
    let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{:.1}\">{title}</text>", area.top - 8.0);
    svg
}

fn times(area: &Area) -> String {
    let mut svg = String::new();
    for tick in time_ticks(area.end, 8.0) {
        let (x, y) = (area.x(tick), area.top + area.height);
        let label = if tick == 0.0 { "0".to_owned() } else { span(tick) };
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            y + 16.0
        );
    }
    svg
}

/// Times in which the autoscaler could not decide.
fn problems(run: &Run, load: &Area, replicas: &Area) -> String {
    let mut svg = String::new();
    for problem in &run.problems {
        let (x, end) = (load.x(problem.from), load.x(problem.to.min(load.end)));
        let height = replicas.top + replicas.height - load.top;
        let _ = writeln!(
            svg,
            "<rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height}\">\
                <title>{} {}</title></rect>",
            load.top,
            (end - x).max(1.0),
            clock(problem.from),
            escape(&problem.sentence)
        );
    }
    svg
}

fn load_lines(points: &[Point], area: &Area) -> String {
    let load: Vec<(f64, f64)> = points.iter().map(|point| (point.second, point.load)).collect();
    let capacity: Vec<_> = points.iter().map(|point| (point.second, point.capacity)).collect();
    let beyond: Vec<_> =
        points.iter().map(|point| (point.second, point.load, point.capacity)).collect();
    let backlog = points.iter().map(|point| point.backlog).fold(0.0, f64::max);
    // What exceeds the capacity for a while waits in a queue.
    let is_over = backlog <= 0.0 && beyond.iter().any(|(_, load, capacity)| load > capacity);
    let over = if is_over { area.between(&beyond) } else { String::new() };
    let mut svg = format!(
        "<path class=\"over\" d=\"{}\"/>\n<path class=\"cap\" d=\"{}\"/>\n\
            <path class=\"load\" d=\"{}\"/>\n",
        over,
        area.steps(&capacity),
        area.line(&load)
    );
    let last = |values: &[(f64, f64)]| values.last().map_or(0.0, |(_, value)| *value);
    let mut labels =
        vec![("load", "load".to_owned(), last(&load)), ("cap", "capacity".into(), last(&capacity))];
    if is_over {
        labels.push(("over", "beyond capacity".to_owned(), area.max));
    }
    if backlog > 0.0 {
        // On its own scale: the largest backlog has the height of the plot.
        let scaled = Area { max: nice_max(backlog), ..*area };
        let line: Vec<_> = points.iter().map(|point| (point.second, point.backlog)).collect();
        let _ = writeln!(svg, "<path class=\"backlog\" d=\"{}\"/>", scaled.line(&line));
        let value = last(&line) / scaled.max * area.max;
        labels.push(("backlog", format!("backlog (≤ {})", number(backlog)), value));
    }
    svg + &labels_right(area, labels)
}

fn replica_lines(variant: &Variant, points: &[Point], area: &Area, shows_max: bool) -> String {
    let value = |value: fn(&Point) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.second, value(point))).collect()
    };
    let replicas = value(|point| f64::from(point.replicas));
    let ready = value(|point| f64::from(point.ready));
    let recommended: Vec<_> = points
        .iter()
        .filter_map(|point| Some((point.second, f64::from(point.recommended?))))
        .collect();
    let mut svg = String::new();
    let spec = &variant.autoscaler.spec;
    let min = f64::from(spec.effective_min_replicas());
    let max = shows_max.then(|| ("max", f64::from(spec.max_replicas)));
    for (name, bound) in [Some(("min", min)), max].into_iter().flatten() {
        let (y, right) = (area.y(bound), area.left + area.width);
        let _ = writeln!(
            svg,
            "<line class=\"limit\" x1=\"{}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
            area.left,
            area.left + 3.0,
            y - 3.0
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"rec\" d=\"{}\"/>\n<path class=\"ready\" d=\"{}\"/>\n\
            <path class=\"rep\" d=\"{}\"/>",
        area.steps(&recommended),
        area.steps(&ready),
        area.steps(&replicas)
    );
    let last = |values: &[(f64, f64)]| values.last().map_or(0.0, |(_, value)| *value);
    let labels = vec![
        ("rep", "replicas".to_owned(), last(&replicas)),
        ("ready", "ready pods".to_owned(), last(&ready)),
        ("rec", "recommended".to_owned(), last(&recommended)),
    ];
    svg + &labels_right(area, labels)
}

/// The names of lines beside their ends, moved so that they don't overlap.
fn labels_right(area: &Area, labels: Vec<(&str, String, f64)>) -> String {
    let mut labels: Vec<_> =
        labels.into_iter().map(|(class, text, value)| (class, text, area.y(value))).collect();
    labels.sort_by(|one, other| one.2.total_cmp(&other.2));
    let bottom = area.top + area.height;
    let mut limit = bottom - LABEL_HEIGHT * (labels.len() as f64 - 1.0);
    let mut last = area.top - LABEL_HEIGHT;
    let mut svg = String::new();
    for (class, text, y) in labels {
        let y = y.max(last + LABEL_HEIGHT).min(limit);
        last = y;
        limit += LABEL_HEIGHT;
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            area.left + area.width + 8.0,
            y + 4.0,
            escape(&text)
        );
    }
    svg
}

/// A mark for each scaling, whose shape says what determined the size.
fn marks(run: &Run, area: &Area) -> String {
    let mut svg = String::new();
    if run.steps.len() > MAX_MARKS {
        return svg;
    }
    for step in &run.steps {
        let (x, y) = (area.x(step.second), area.y(f64::from(step.to)));
        let _ = writeln!(
            svg,
            "<path class=\"mark\" d=\"{}\"><title>{}</title></path>",
            shape(step, x, y),
            escape(&tooltip(step))
        );
    }
    svg
}

fn tooltip(step: &Step) -> String {
    format!("{} {} → {}: {}", clock(step.second), step.from, step.to, step.sentence)
}

/// A triangle for the metrics, a square for a policy, a diamond for a stabilization window, and a
/// bar for a bound.
fn shape(step: &Step, x: f64, y: f64) -> String {
    let path = |points: &[(f64, f64)]| {
        let points = points.iter().map(|(dx, dy)| format!("{:.1} {:.1}", x + dx, y + dy));
        format!("M{}Z", points.collect::<Vec<_>>().join("L"))
    };
    match step.reason {
        Reason::Policy => path(&[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)]),
        Reason::Stabilization => path(&[(0.0, -4.5), (4.5, 0.0), (0.0, 4.5), (-4.5, 0.0)]),
        Reason::MinReplicas | Reason::MaxReplicas => {
            path(&[(-5.0, -1.5), (5.0, -1.5), (5.0, 1.5), (-5.0, 1.5)])
        }
        _ if step.to > step.from => path(&[(0.0, -4.5), (4.0, 3.0), (-4.0, 3.0)]),
        _ => path(&[(0.0, 4.5), (4.0, -3.0), (-4.0, -3.0)]),
    }
}
