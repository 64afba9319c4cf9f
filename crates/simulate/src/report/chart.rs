//! The chart of a run: a plot of load and capacity, and below it one of replicas, with a common
//! time axis.

use std::fmt::Write as _;

use hpa_calc::explain::{Reason, counted, number};

use super::{
    VariantRun,
    plot::{
        AXIS_HEIGHT, Label, PlotArea, TITLE_HEIGHT, WIDTH, begin_image, draw_labels, round_end,
        round_values, time_axis, value_axis, whole_values,
    },
    recorded::{RecordedReplicas, Segment},
    style::escape,
    table::{best_index, percent},
    times::{TimeFormat, format_duration},
};
use crate::{
    file::Variant,
    run::{Run, Scaling, TimelinePoint},
};

const LOAD_HEIGHT: f64 = 130.0;
const REPLICAS_HEIGHT: f64 = 130.0;
/// The distance between plots.
const GAP: f64 = 12.0;
const CHART_HEIGHT: f64 = 2.0 * TITLE_HEIGHT + LOAD_HEIGHT + REPLICAS_HEIGHT + GAP + AXIS_HEIGHT;
/// The maximum number of characters in a heading.
const HEADING_LENGTH: usize = 115;

/// The charts of all runs as an SVG image of its own.
pub fn svg(results: &[VariantRun]) -> String {
    let heading_height = if results.len() > 1 { TITLE_HEIGHT } else { 0.0 };
    let height = (CHART_HEIGHT + heading_height + GAP) * results.len() as f64;
    let description: Vec<_> =
        results.iter().map(|(variant, run)| describe(variant, run, None)).collect();
    let mut svg = begin_image(height, &description.join(" "));
    let axis_ends = AxisEnds::new(results, None);
    let best = best_index(results);
    let mut top = 0.0;
    for (index, (variant, run)) in results.iter().enumerate() {
        if results.len() > 1 {
            let title = escape(&heading(variant, best == Some(index)));
            let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{}\">{title}</text>", top + 19.0);
        }
        svg += &chart(variant, run, None, axis_ends, top + heading_height);
        top += CHART_HEIGHT + heading_height + GAP;
    }
    svg + "</svg>\n"
}

/// The heading of a chart: the name and the description of the variant, shortened. The best one has
/// a star.
fn heading(variant: &Variant, is_best: bool) -> String {
    let description = variant.description.lines().collect::<Vec<_>>().join(" ");
    let description = description.trim();
    let star = if is_best { "★ " } else { "" };
    let separator = if description.is_empty() { "" } else { ": " };
    let title = format!("{star}{}{separator}{description}", variant.name);
    if title.chars().count() <= HEADING_LENGTH {
        return title;
    }
    let mut short: String = title.chars().take(HEADING_LENGTH - 1).collect();
    short.push('…');
    short
}

/// One chart as an element of an HTML page.
pub(super) fn svg_element(
    (variant, run): &VariantRun,
    recorded: Option<&RecordedReplicas>,
    axis_ends: AxisEnds,
) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {CHART_HEIGHT}\" role=\"img\" \
            aria-label=\"{}\">\n{}</svg>\n",
        escape(&describe(variant, run, recorded)),
        chart(variant, run, recorded, axis_ends, 0.0)
    )
}

/// The ends of the value axes, which all charts of a report share.
#[derive(Clone, Copy)]
pub(super) struct AxisEnds {
    load: f64,
    replicas: f64,
}

impl AxisEnds {
    pub(super) fn new(results: &[VariantRun], recorded: Option<&RecordedReplicas>) -> Self {
        let load =
            |(_, run): &VariantRun| largest(&run.timeline, |point| point.load.max(point.capacity));
        let replicas = |(variant, run): &VariantRun| replicas_axis_end(variant, run, recorded);
        Self {
            load: round_end(results.iter().map(load).fold(0.0, f64::max), 0.0),
            replicas: round_end(results.iter().map(replicas).fold(0.0, f64::max), 1.0),
        }
    }
}

fn chart(
    variant: &Variant,
    run: &Run,
    recorded: Option<&RecordedReplicas>,
    axis_ends: AxisEnds,
    top: f64,
) -> String {
    let end = variant.scenario.duration.get();
    let area = |top, height, max| PlotArea { top, height, end, max };
    let times = &TimeFormat::of_run(recorded.map(|recorded| recorded.start));
    let load = area(top + TITLE_HEIGHT, LOAD_HEIGHT, axis_ends.load);
    let replicas_top = load.top + LOAD_HEIGHT + GAP + TITLE_HEIGHT;
    let replicas = area(replicas_top, REPLICAS_HEIGHT, axis_ends.replicas);
    let load_title = escape(&format!("load and capacity ({})", variant.load_unit));
    let mut svg = draw_problems(run, &load, times) + &draw_problems(run, &replicas, times);
    svg += &value_axis(&load, &load_title, &round_values(&load));
    svg += &value_axis(&replicas, "replicas", &whole_values(&replicas));
    svg += &time_axis(&replicas, times);
    svg += &draw_load(run, &load);
    svg += &draw_replicas(variant, run, recorded, &replicas);
    svg += &draw_scalings(run, &replicas, times);
    svg
}

/// The value axis is extended to `maxReplicas` if that is at most this multiple of the largest
/// replicas, plus [`BOUND_DISTANCE`]. A longer axis would flatten the lines.
const BOUND_FACTOR: f64 = 1.8;
const BOUND_DISTANCE: f64 = 2.0;
/// Recommendations up to this multiple of the largest replicas or bound are drawn in full.
const RECOMMENDED_FACTOR: f64 = 1.5;

fn largest(points: &[TimelinePoint], value: impl Fn(&TimelinePoint) -> f64) -> f64 {
    points.iter().map(value).fold(0.0, f64::max)
}

/// The end of the axis of replicas that a run needs.
fn replicas_axis_end(variant: &Variant, run: &Run, recorded: Option<&RecordedReplicas>) -> f64 {
    let points = run.timeline.as_slice();
    let recorded_max = recorded.and_then(RecordedReplicas::range).map_or(0.0, |(_, max)| max);
    let max = largest(points, |point| f64::from(point.replicas.max(point.ready)));
    let max = max.max(recorded_max);
    let bound = f64::from(variant.autoscaler.spec.max_replicas);
    let shows_bound = bound <= max * BOUND_FACTOR + BOUND_DISTANCE;
    let visible_max = if shows_bound { max.max(bound) } else { max };
    visible_max.max(largest_recommended(points).min(visible_max * RECOMMENDED_FACTOR))
}

fn draw_replicas(
    variant: &Variant,
    run: &Run,
    recorded: Option<&RecordedReplicas>,
    area: &PlotArea,
) -> String {
    let points = run.timeline.as_slice();
    let replicas = line(points, |point| f64::from(point.replicas));
    let ready = line(points, |point| f64::from(point.ready));
    let recommended = |point: &TimelinePoint| Some((point.second, f64::from(point.recommended?)));
    let recommended: Vec<_> = points.iter().filter_map(recommended).collect();
    let mut labels = vec![
        Label::line("rep", "replicas", last(&replicas)),
        Label::line("ready", "ready pods", last(&ready)),
        Label::line("rec", recommended_name(points, area.max), last(&recommended)),
    ];
    let mut svg = draw_bounds(variant, area, &mut labels);
    let _ = writeln!(
        svg,
        "<path class=\"rec\" d=\"{}\"/>\n<path class=\"ready\" d=\"{}\"/>\n\
            <path class=\"rep\" d=\"{}\"/>",
        area.steps(&recommended),
        area.steps(&ready),
        area.steps(&replicas)
    );
    svg += &draw_recorded(recorded, area, &mut labels);
    svg + &draw_labels(area, labels)
}

/// The label of the recommendations. It includes their maximum if they don't fit into the plot.
fn recommended_name(points: &[TimelinePoint], axis_end: f64) -> String {
    let largest = largest_recommended(points);
    if largest <= axis_end {
        return "recommended".to_owned();
    }
    format!("recommended (≤ {largest})")
}

fn draw_bounds(variant: &Variant, area: &PlotArea, labels: &mut Vec<Label>) -> String {
    let spec = &variant.autoscaler.spec;
    let (min, max) = (f64::from(spec.effective_min_replicas()), f64::from(spec.max_replicas));
    labels.push(Label::line("limit", format!("min {min}"), min));
    let shows_max = max <= area.max;
    let above = if shows_max { "" } else { " (above)" };
    labels.push(Label::line("limit", format!("max {max}{above}"), max.min(area.max)));
    let mut svg = String::new();
    for bound in [Some(min), shows_max.then_some(max)].into_iter().flatten() {
        let _ = writeln!(svg, "{}", area.horizontal_line("limit", bound));
    }
    svg
}

/// Draws the recorded replicas as a dashed line, which leaves the lines below it visible.
fn draw_recorded(
    recorded: Option<&RecordedReplicas>,
    area: &PlotArea,
    labels: &mut Vec<Label>,
) -> String {
    let segments = recorded.map(RecordedReplicas::segments).unwrap_or_default();
    let Some(value) = segments.last().map(|segment| last(&segment.points)) else {
        return String::new();
    };
    labels.push(Label::line("past", "recorded replicas", value));
    let path = |segment: &Segment| area.steps_until(&segment.points, segment.end);
    let path: String = segments.iter().map(path).collect();
    format!("<path class=\"past\" d=\"{path}\"/>\n")
}

fn largest_recommended(points: &[TimelinePoint]) -> f64 {
    largest(points, |point| point.recommended.map_or(0.0, f64::from))
}

fn line(points: &[TimelinePoint], value: impl Fn(&TimelinePoint) -> f64) -> Vec<(f64, f64)> {
    points.iter().map(|point| (point.second, value(point))).collect()
}

fn last(values: &[(f64, f64)]) -> f64 {
    values.last().map_or(0.0, |(_, value)| *value)
}

fn draw_load(run: &Run, area: &PlotArea) -> String {
    let points = &run.timeline;
    let (load, capacity) = (line(points, |point| point.load), line(points, |point| point.capacity));
    let load_and_capacity: Vec<_> =
        points.iter().map(|point| (point.second, point.load, point.capacity)).collect();
    let backlog = largest(points, |point| point.backlog);
    // With a queue, load beyond the capacity waits instead of being lost.
    let is_over =
        backlog <= 0.0 && load_and_capacity.iter().any(|(_, load, capacity)| load > capacity);
    let over = if is_over { area.between(&load_and_capacity) } else { String::new() };
    let mut svg = format!(
        "<path class=\"over\" d=\"{over}\"/>\n<path class=\"cap\" d=\"{}\"/>\n\
            <path class=\"load\" d=\"{}\"/>\n",
        area.steps(&capacity),
        area.line(&load)
    );
    let mut labels = vec![
        Label::line("load", "load", last(&load)),
        Label::line("cap", "capacity", last(&capacity)),
    ];
    if is_over {
        labels.push(Label::area("over", "beyond capacity", area.max));
    }
    if !run.problems.is_empty() {
        labels.push(Label::area("bar", "can't decide", area.max));
    }
    if backlog > 0.0 {
        // The backlog has a scale of its own, which ends at the largest backlog, rounded up.
        let scaled = PlotArea { max: round_end(backlog, 0.0), ..*area };
        let waiting = line(points, |point| point.backlog);
        let _ = writeln!(svg, "<path class=\"backlog\" d=\"{}\"/>", scaled.line(&waiting));
        let value = last(&waiting) / scaled.max * area.max;
        labels.push(Label::line("backlog", format!("backlog (≤ {})", number(backlog)), value));
    }
    svg + &draw_labels(area, labels)
}

/// The maximum number of marks in a chart. More can't be distinguished.
pub(super) const MAX_MARKS: usize = 90;

/// Draws a column for each period in which the autoscaler could not decide or was disabled.
fn draw_problems(run: &Run, area: &PlotArea, times: &TimeFormat) -> String {
    let mut svg = String::new();
    for problem in &run.problems {
        let (x, end) = (area.x(problem.from), area.x(problem.to.min(area.end)));
        let _ = writeln!(
            svg,
            "<rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\">\
                <title>{} {}</title></rect>",
            area.top,
            (end - x).max(1.0),
            area.height,
            times.text(problem.from),
            escape(&problem.sentence)
        );
    }
    svg
}

/// Draws a mark for each scaling, or none if there are more than [`MAX_MARKS`]. The shape of the
/// mark shows what determined the replicas.
fn draw_scalings(run: &Run, area: &PlotArea, times: &TimeFormat) -> String {
    let mut svg = String::new();
    if run.steps.len() > MAX_MARKS {
        return svg;
    }
    for step in &run.steps {
        let (x, y) = (area.x(step.second), area.y(f64::from(step.to)));
        let _ = writeln!(
            svg,
            "<path class=\"mark\" d=\"{}\"><title>{}</title></path>",
            mark_path(step, x, y),
            escape(&tooltip(step, times))
        );
    }
    svg
}

fn tooltip(step: &Scaling, times: &TimeFormat) -> String {
    format!("{} {} → {}: {}", times.text(step.second), step.from, step.to, step.sentence)
}

/// A square for a policy, a diamond for a stabilization window, a bar for a bound, and otherwise a
/// triangle.
fn mark_path(step: &Scaling, x: f64, y: f64) -> String {
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

/// The description of a chart, for screen readers.
fn describe(variant: &Variant, run: &Run, recorded: Option<&RecordedReplicas>) -> String {
    let outcome = &run.outcome;
    let mut sentences = vec![
        format!("{} over {}.", variant.name, format_duration(variant.scenario.duration.get())),
        format!(
            "Load {}, capacity {} ({}); {} of the load is beyond the capacity or too late.",
            range(run, |point| point.load),
            range(run, |point| point.capacity),
            variant.load_unit,
            percent(outcome.overload.share_of_load)
        ),
        format!(
            "Replicas {} to {}, {} on average, of at least {} and at most {}; {}.",
            outcome.replicas.min,
            outcome.replicas.max,
            number(outcome.replicas.mean),
            variant.autoscaler.spec.effective_min_replicas(),
            variant.autoscaler.spec.max_replicas,
            counted(run.steps.len(), "scaling")
        ),
    ];
    if let Some((min, max)) = recorded.and_then(RecordedReplicas::range) {
        sentences.push(format!("Recorded replicas {min} to {max}."));
    }
    let undecided: f64 = run.problems.iter().map(|problem| problem.to - problem.from).sum();
    if undecided > 0.0 {
        sentences.push(format!("The autoscaler can't decide for {}.", format_duration(undecided)));
    }
    sentences.join(" ")
}

fn range(run: &Run, value: impl Fn(&TimelinePoint) -> f64) -> String {
    let values = || run.timeline.iter().map(&value);
    let ends = (values().reduce(f64::min), values().reduce(f64::max));
    let (Some(min), Some(max)) = ends else { return "unknown".to_owned() };
    format!("{} to {}", number(min), number(max))
}
