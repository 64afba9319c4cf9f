//! The lines of the two plots of a chart.

use std::fmt::Write as _;

use hpa_calc::explain::number;

use super::{
    labels::{Label, right},
    recorded::RecordedReplicas,
    series::Area,
};
use crate::{
    file::Variant,
    run::{Point, Run},
};

/// A bound further above the replicas than this would flatten their lines.
const BOUND_FACTOR: f64 = 1.8;
const BOUND_DISTANCE: f64 = 2.0;
/// Recommendations up to this factor above the replicas are drawn whole.
const RECOMMENDED_FACTOR: f64 = 1.5;

/// The end of an axis: a bit above the largest value.
fn nice_max(max: f64) -> f64 {
    if max > 0.0 { max * 1.08 } else { 1.0 }
}

pub(super) fn largest(points: &[Point], value: impl Fn(&Point) -> f64) -> f64 {
    points.iter().map(value).fold(0.0, f64::max)
}

/// The end of the axis of load and capacity.
pub(super) fn max_load(points: &[Point]) -> f64 {
    nice_max(largest(points, |point| point.load.max(point.capacity)))
}

/// What the plot of replicas shows.
pub(super) struct ReplicasPlot<'a> {
    variant: &'a Variant,
    points: &'a [Point],
    recorded: Option<&'a RecordedReplicas>,
    /// The end of the axis.
    pub(super) max: f64,
    shows_bound: bool,
}

impl<'a> ReplicasPlot<'a> {
    pub(super) fn new(
        variant: &'a Variant,
        run: &'a Run,
        recorded: Option<&'a RecordedReplicas>,
    ) -> Self {
        let points = run.timeline.as_slice();
        let recorded_max = recorded.and_then(RecordedReplicas::range).map_or(0.0, |(_, max)| max);
        let max = largest(points, |point| f64::from(point.replicas.max(point.ready)));
        let max = max.max(recorded_max);
        let bound = f64::from(variant.autoscaler.spec.max_replicas);
        let shows_bound = bound <= max * BOUND_FACTOR + BOUND_DISTANCE;
        let shown = if shows_bound { max.max(bound) } else { max };
        let recommended = largest_recommended(points).min(shown * RECOMMENDED_FACTOR);
        let max = nice_max(shown.max(recommended));
        Self { variant, points, recorded, max, shows_bound }
    }

    pub(super) fn draw(&self, area: &Area) -> String {
        let value = |value: fn(&Point) -> u32| -> Vec<(f64, f64)> {
            self.points.iter().map(|point| (point.second, f64::from(value(point)))).collect()
        };
        let (replicas, ready) = (value(|point| point.replicas), value(|point| point.ready));
        let recommended = |point: &Point| Some((point.second, f64::from(point.recommended?)));
        let recommended: Vec<_> = self.points.iter().filter_map(recommended).collect();
        let mut labels = vec![
            Label::line("rep", "replicas", last(&replicas)),
            Label::line("ready", "ready pods", last(&ready)),
            Label::line("rec", self.recommended_name(), last(&recommended)),
        ];
        let mut svg = self.bounds(area, &mut labels);
        let _ = writeln!(
            svg,
            "<path class=\"rec\" d=\"{}\"/>\n<path class=\"ready\" d=\"{}\"/>\n\
                <path class=\"rep\" d=\"{}\"/>",
            area.steps(&recommended),
            area.steps(&ready),
            area.steps(&replicas)
        );
        svg += &self.recorded(area, &mut labels);
        svg + &right(area, labels)
    }

    /// Says how far recommendations go, if the plot has no room for them.
    fn recommended_name(&self) -> String {
        let largest = largest_recommended(self.points);
        if largest <= self.max {
            return "recommended".to_owned();
        }
        format!("recommended (≤ {largest})")
    }

    fn bounds(&self, area: &Area, labels: &mut Vec<Label>) -> String {
        let spec = &self.variant.autoscaler.spec;
        let (min, max) = (f64::from(spec.effective_min_replicas()), f64::from(spec.max_replicas));
        labels.push(Label::line("limit", format!("min {min}"), min));
        let label =
            if self.shows_bound { format!("max {max}") } else { format!("max {max} (above)") };
        labels.push(Label::line("limit", label, if self.shows_bound { max } else { self.max }));
        let mut svg = String::new();
        for bound in [Some(min), self.shows_bound.then_some(max)].into_iter().flatten() {
            let (y, left, right) = (area.y(bound), area.left, area.left + area.width);
            let _ = writeln!(
                svg,
                "<line class=\"limit\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
        }
        svg
    }

    /// Above the other lines, which show through its gaps.
    fn recorded(&self, area: &Area, labels: &mut Vec<Label>) -> String {
        let parts = self.recorded.map(RecordedReplicas::parts).unwrap_or_default();
        let Some(value) = parts.last().map(|part| last(&part.points)) else {
            return String::new();
        };
        labels.push(Label::line("past", "recorded replicas", value));
        let path = |part: &super::recorded::Part| area.steps_until(&part.points, part.end);
        let path: String = parts.iter().map(path).collect();
        format!("<path class=\"past\" d=\"{path}\"/>\n")
    }
}

fn largest_recommended(points: &[Point]) -> f64 {
    largest(points, |point| point.recommended.map_or(0.0, f64::from))
}

fn last(values: &[(f64, f64)]) -> f64 {
    values.last().map_or(0.0, |(_, value)| *value)
}

pub(super) fn load(run: &Run, area: &Area) -> String {
    let points = &run.timeline;
    let load: Vec<(f64, f64)> = points.iter().map(|point| (point.second, point.load)).collect();
    let capacity: Vec<_> = points.iter().map(|point| (point.second, point.capacity)).collect();
    let beyond: Vec<_> =
        points.iter().map(|point| (point.second, point.load, point.capacity)).collect();
    let backlog = largest(points, |point| point.backlog);
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
        // On its own scale: the largest backlog has the height of the plot.
        let scaled = Area { max: nice_max(backlog), ..*area };
        let line: Vec<_> = points.iter().map(|point| (point.second, point.backlog)).collect();
        let _ = writeln!(svg, "<path class=\"backlog\" d=\"{}\"/>", scaled.line(&line));
        let value = last(&line) / scaled.max * area.max;
        labels.push(Label::line("backlog", format!("backlog (≤ {})", number(backlog)), value));
    }
    svg + &right(area, labels)
}
