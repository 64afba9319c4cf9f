//! The parts of a plot: lines through points, axes, and labels of lines.

use std::fmt::Write as _;

use super::{
    style::{CHART_CSS, escape},
    times::{TimeFormat, multiples},
};

/// The width of an image, in pixels.
pub(super) const WIDTH: f64 = 960.0;
/// The left edge of the plots.
const LEFT: f64 = 56.0;
/// The width of a plot. Its labels are to the right.
const PLOT_WIDTH: f64 = 720.0;
/// The height of the title above a plot.
pub(super) const TITLE_HEIGHT: f64 = 30.0;
pub(super) const AXIS_HEIGHT: f64 = 26.0;

/// The beginning of a self-contained SVG image. `description` is for screen readers.
pub(super) fn begin_image(height: f64, description: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" \
            viewBox=\"0 0 {WIDTH} {height}\" \
            width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n\
            <style>{CHART_CSS}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
        escape(description)
    )
}

/// The maximum number of columns that the points of a line are reduced to. The chart has fewer
/// pixels.
const MAX_COLUMNS: usize = 1200;

/// The area of a plot: the ranges of both axes, and the vertical position in the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlotArea {
    pub(super) top: f64,
    pub(super) height: f64,
    /// The last second. The first is 0.
    pub(super) end: f64,
    /// The largest value. The smallest is 0.
    pub(super) max: f64,
}

impl PlotArea {
    pub(super) fn x(&self, second: f64) -> f64 {
        LEFT + PLOT_WIDTH * second / self.end.max(1.0)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value.min(self.max) / self.max)
    }

    /// The coordinates of a point of time and value, for the attribute `d` of an SVG path.
    fn coordinates(&self, (second, value): (f64, f64)) -> String {
        format!("{:.1} {:.1}", self.x(second), self.y(value))
    }

    /// A line through the plot at a value.
    pub(super) fn horizontal_line(&self, class: &str, value: f64) -> String {
        let (right, y) = (LEFT + PLOT_WIDTH, self.y(value));
        format!(
            "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        )
    }

    /// The path of a line through points of time and value.
    pub(super) fn line(&self, points: &[(f64, f64)]) -> String {
        let points: Vec<_> =
            reduce_points(points).into_iter().map(|point| self.coordinates(point)).collect();
        if points.is_empty() { String::new() } else { format!("M{}", points.join("L")) }
    }

    /// The path of a step function through points, up to the end of the axis.
    pub(super) fn steps(&self, points: &[(f64, f64)]) -> String {
        self.steps_until(points, self.end)
    }

    /// The path of a step function through points, up to a second.
    pub(super) fn steps_until(&self, points: &[(f64, f64)], end: f64) -> String {
        let Some(first) = points.first() else { return String::new() };
        let mut path = format!("M{}", self.coordinates(*first));
        // A repeated value draws nothing.
        #[expect(clippy::float_cmp, reason = "equal values are copies")]
        let steps = points.chunk_by(|one, next| one.1 == next.1);
        for step in steps.skip(1) {
            if let [(second, value), ..] = step {
                let _ = write!(path, "H{:.1}V{:.1}", self.x(*second), self.y(*value));
            }
        }
        let _ = write!(path, "H{:.1}", self.x(end.min(self.end)));
        path
    }

    /// The path of the area where the first of two lines is above the second. The lines have points
    /// at the same times.
    pub(super) fn between(&self, points: &[(f64, f64, f64)]) -> String {
        let mut path = String::new();
        let is_above = |point: &(f64, f64, f64)| point.1 > point.2;
        let mut parts = points.chunk_by(|one, next| is_above(one) == is_above(next)).peekable();
        while let Some(part) = parts.next() {
            let Some(last) = part.last().filter(|last| is_above(last)) else { continue };
            // The area ends at the first point that is not above.
            let after = parts.peek().and_then(|after| after.first());
            let end = after.map_or(self.end, |point| point.0);
            let upper: Vec<(f64, f64)> = part.iter().map(|point| (point.0, point.1)).collect();
            let lower = part.iter().rev().map(|point| (point.0, point.2));
            path += &self.line(&upper);
            for point in std::iter::once((end, last.2)).chain(lower) {
                let _ = write!(path, "L{}", self.coordinates(point));
            }
            path.push('Z');
        }
        path
    }
}

/// Reduces a long line to at most [`MAX_COLUMNS`] columns. Each keeps the points with its smallest
/// and its largest value.
fn reduce_points(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * MAX_COLUMNS {
        return points.to_vec();
    }
    let size = points.len().div_ceil(MAX_COLUMNS);
    let ends = |chunk: &[(f64, f64)]| {
        let min = chunk.iter().min_by(|one, other| one.1.total_cmp(&other.1)).copied();
        let max = chunk.iter().max_by(|one, other| one.1.total_cmp(&other.1)).copied();
        let mut ends: Vec<(f64, f64)> = min.into_iter().chain(max).collect();
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        ends
    };
    points.chunks(size).flat_map(ends).collect()
}

/// A round distance between grid lines, for about five of them from 0 to `max`.
fn tick_step(max: f64) -> f64 {
    let rough = (max / 5.0).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0) * power
}

/// The end of an axis: the first grid line at or above the largest value. Grid lines are at least
/// `least_step` apart.
pub(super) fn round_end(max: f64, least_step: f64) -> f64 {
    let step = tick_step(max).max(least_step);
    if max > 0.0 { (max / step - 1e-9).ceil() * step } else { 1.0 }
}

/// Round values for the grid lines of a plot.
pub(super) fn round_values(area: &PlotArea) -> Vec<f64> {
    multiples(tick_step(area.max), area.max)
}

/// Round whole values for the grid lines of a plot.
pub(super) fn whole_values(area: &PlotArea) -> Vec<f64> {
    multiples(tick_step(area.max).max(1.0), area.max)
}

/// If the largest value is at least this, values are shortened to thousands, millions or billions.
const SHORTENED_FROM: f64 = 1e5;
const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Draws the title of a plot, and its grid lines with their values.
pub(super) fn value_axis(area: &PlotArea, title: &str, ticks: &[f64]) -> String {
    let mut svg = String::new();
    for (tick, label) in ticks.iter().zip(tick_labels(ticks)) {
        let _ = writeln!(
            svg,
            "{}<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            area.horizontal_line("grid", *tick),
            LEFT - 6.0,
            area.y(*tick) + 4.0,
        );
    }
    let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{:.1}\">{title}</text>", area.top - 12.0);
    svg
}

/// The labels of equidistant values. All have the same unit, and the decimals that the distance
/// needs.
fn tick_labels(ticks: &[f64]) -> Vec<String> {
    let step = ticks.get(1).copied().unwrap_or(1.0);
    let max = ticks.last().copied().unwrap_or_default();
    let large = UNITS.into_iter().find(|(unit, _)| max >= SHORTENED_FROM && max >= *unit);
    let (unit, suffix) = large.unwrap_or((1.0, ""));
    let decimals = count_decimals(step / unit);
    let label = |tick: &f64| match *tick {
        0.0 => "0".to_owned(),
        tick => format!("{:.decimals$}{suffix}", tick / unit),
    };
    ticks.iter().map(label).collect()
}

/// The number of decimals that a value needs, at most nine.
fn count_decimals(value: f64) -> usize {
    let mut powers = std::iter::successors(Some(value), |value| Some(value * 10.0)).take(10);
    powers.position(|scaled| (scaled - scaled.round()).abs() <= scaled * 1e-6).unwrap_or(9)
}

/// Draws the times below a plot.
pub(super) fn time_axis(area: &PlotArea, times: &TimeFormat) -> String {
    let mut svg = String::new();
    for (tick, label) in times.ticks(area.end) {
        let (x, y) = (area.x(tick), area.top + area.height);
        let _ = writeln!(
            svg,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            y + 16.0
        );
    }
    svg
}

/// The minimum vertical distance of labels.
const LABEL_HEIGHT: f64 = 14.0;
/// The length of the piece of line before a label, which shows the stroke. The longest dash pattern
/// has 17 pixels.
const SWATCH_LENGTH: f64 = 26.0;
/// The distance between a plot and its labels.
const LABEL_GAP: f64 = 8.0;

/// A label with the name of a line or an area.
pub(super) struct Label {
    /// The CSS class of the line or area.
    class: &'static str,
    text: String,
    /// The label is placed at the height of this value, if there is room.
    value: f64,
    is_area: bool,
}

impl Label {
    pub(super) fn line(class: &'static str, text: impl Into<String>, value: f64) -> Self {
        Self { class, text: text.into(), value, is_area: false }
    }

    pub(super) fn area(class: &'static str, text: impl Into<String>, value: f64) -> Self {
        Self { is_area: true, ..Self::line(class, text, value) }
    }

    /// Draws a short piece of the line or area before the label.
    fn draw_swatch(&self, x: f64, y: f64) -> String {
        let class = self.class;
        if self.is_area {
            let y = y - 5.0;
            return format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SWATCH_LENGTH}\" \
                    height=\"10\"/>"
            );
        }
        let end = x + SWATCH_LENGTH;
        format!(
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        )
    }
}

/// Draws the labels right of a plot. Overlapping ones are moved apart.
pub(super) fn draw_labels(area: &PlotArea, mut labels: Vec<Label>) -> String {
    // The sort is stable, so labels at the same height stay in their order.
    labels.sort_by(|one, other| other.value.total_cmp(&one.value));
    let bottom = area.top + area.height;
    // The lowest place that leaves room for the labels below.
    let mut limit = bottom - LABEL_HEIGHT * (labels.len() as f64 - 1.0);
    let mut last = area.top - LABEL_HEIGHT;
    let x = LEFT + PLOT_WIDTH + LABEL_GAP;
    let mut svg = String::new();
    for label in labels {
        let y = area.y(label.value).max(last + LABEL_HEIGHT).min(limit);
        last = y;
        limit += LABEL_HEIGHT;
        let _ = writeln!(
            svg,
            "{}<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            label.draw_swatch(x, y),
            x + SWATCH_LENGTH + 5.0,
            y + 4.0,
            escape(&label.text)
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const AREA: PlotArea = PlotArea { top: 0.0, height: 10.0, end: PLOT_WIDTH, max: 10.0 };

    #[test]
    fn axis_has_about_five_round_values() {
        assert_eq!(round_values(&AREA), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_values(&PlotArea { max: 730.0, ..AREA }), [0.0, 200.0, 400.0, 600.0]);
    }

    #[rstest]
    #[case::just_below_a_line(730.0, 0.0, 800.0)]
    #[case::on_a_line(600.0, 0.0, 600.0)]
    #[case::rounding_error(0.3, 0.0, 0.3)]
    #[case::whole_replicas(2.2, 1.0, 3.0)]
    #[case::nothing(0.0, 0.0, 1.0)]
    fn axis_ends_at_a_line(#[case] max: f64, #[case] least_step: f64, #[case] end: f64) {
        assert!((round_end(max, least_step) - end).abs() < 1e-9);
    }

    #[test]
    fn steps_are_horizontal_and_vertical() {
        let path = AREA.steps(&[(0.0, 2.0), (10.0, 2.0), (20.0, 5.0)]);
        assert_eq!(path, "M56.0 8.0H76.0V5.0H776.0");
    }

    #[test]
    fn area_between_lines_has_a_part_for_each_period_above() {
        let path = AREA.between(&[
            (0.0, 1.0, 2.0),
            (10.0, 4.0, 2.0),
            (20.0, 1.0, 2.0),
            (30.0, 3.0, 2.0),
            (40.0, 0.0, 2.0),
        ]);
        assert_eq!(path.matches('Z').count(), 2);
    }

    #[test]
    fn long_lines_keep_their_extremes() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), 1.0)).collect();
        points[4321].1 = 9.0;
        points[8765].1 = 0.0;
        let reduced = reduce_points(&points);
        assert!(reduced.len() <= 2 * MAX_COLUMNS);
        assert!(reduced.contains(&(4321.0, 9.0)) && reduced.contains(&(8765.0, 0.0)));
    }

    #[rstest]
    #[case::cores(0.016, &["0", "0.005", "0.01", "0.015"], &["0", "0.005", "0.010", "0.015"])]
    #[case::requests(730.0, &[], &["0", "200", "400", "600"])]
    #[case::bytes(1.4e6, &[], &["0", "0.5M", "1.0M"])]
    fn tick_labels_differ_and_are_short(
        #[case] max: f64,
        #[case] exact: &[&str],
        #[case] expected: &[&str],
    ) {
        let ticks = round_values(&PlotArea { max, ..AREA });
        assert_eq!(tick_labels(&ticks), expected);
        for (tick, exact) in ticks.iter().zip(exact) {
            assert!((tick - exact.parse::<f64>().unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn replicas_have_whole_values_only() {
        assert_eq!(whole_values(&PlotArea { max: 2.16, ..AREA }), [0.0, 1.0, 2.0]);
        assert_eq!(whole_values(&PlotArea { max: 1.08, ..AREA }), [0.0, 1.0]);
    }

    #[test]
    fn labels_at_one_place_are_moved_apart_within_the_plot() {
        let area = PlotArea { top: 100.0, height: 60.0, end: 10.0, max: 10.0 };
        for value in [0.0, 5.0, 10.0] {
            let labels = ["one", "two", "three", "four"].map(|text| Label::line("x", text, value));
            let svg = draw_labels(&area, labels.into());
            let heights = svg.split(" y1=\"").skip(1).filter_map(|part| part.split('"').next());
            let heights: Vec<f64> = heights.map(|height| height.parse().unwrap()).collect();
            assert_eq!(heights.len(), 4);
            assert!(
                heights.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_HEIGHT),
                "{heights:?}"
            );
            assert!(heights[0] >= 100.0 && heights[3] <= 160.0, "{heights:?}");
            let order: Vec<_> =
                svg.split("</text>").filter_map(|part| part.split('>').next_back()).collect();
            assert_eq!(order[..4], ["one", "two", "three", "four"]);
        }
    }
}
