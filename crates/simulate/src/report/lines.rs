//! Plots of named lines, one below the other, each with the same time axis.

use std::fmt::Write as _;

use jiff::Zoned;

use super::{
    plot::{
        AXIS_HEIGHT, Label, PlotArea, TITLE_HEIGHT, begin_image, draw_labels, round_end,
        round_values, time_axis, value_axis,
    },
    style::escape,
    times::TimeFormat,
};

const PLOT_HEIGHT: f64 = 150.0;

/// The style of a line. [`LineStyle::Load`] and [`LineStyle::Forecast`] are drawn as straight
/// segments between points, the others as steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    Load,
    Forecast,
    Capacity,
    Replicas,
    /// Replicas to compare the other lines with.
    Baseline,
}

impl LineStyle {
    fn class(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Forecast => "rec",
            Self::Capacity => "cap",
            Self::Replicas => "rep",
            Self::Baseline => "ready",
        }
    }

    fn is_continuous(self) -> bool {
        matches!(self, Self::Load | Self::Forecast)
    }
}

/// A line through points (second, value).
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub style: LineStyle,
    pub points: Vec<(f64, f64)>,
}

/// Lines with a common value axis.
#[derive(Clone, Debug)]
pub struct Plot {
    pub title: String,
    pub lines: Vec<Line>,
    /// The minimum for the end of the axis.
    pub min_axis_end: f64,
    /// Points (second, load, capacity). The area where the load is above the capacity is marked.
    pub load_and_capacity: Vec<(f64, f64, f64)>,
}

/// Draws plots as an SVG image. The time axis has `end` seconds from `start` on, in its time zone.
/// `description` is for screen readers.
pub fn plots(plots: &[Plot], start: &Zoned, end: f64, description: &str) -> String {
    let plot_distance = TITLE_HEIGHT + PLOT_HEIGHT + AXIS_HEIGHT;
    let height = plot_distance * plots.len() as f64;
    let mut svg = begin_image(height, description);
    let mut top = TITLE_HEIGHT;
    for plot in plots {
        let values = plot.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let max = round_end(values.fold(plot.min_axis_end, f64::max), 0.0);
        let area = PlotArea { top, height: PLOT_HEIGHT, end, max };
        svg += &value_axis(&area, &escape(&plot.title), &round_values(&area));
        svg += &draw(plot, &area);
        top += plot_distance;
        svg += &time_axis(&area, &TimeFormat::since(start));
    }
    svg + "</svg>\n"
}

fn draw(plot: &Plot, area: &PlotArea) -> String {
    let mut svg = String::new();
    let over = area.between(&plot.load_and_capacity);
    let mut labels = Vec::new();
    if !over.is_empty() {
        let _ = writeln!(svg, "<path class=\"over\" d=\"{over}\"/>");
        labels.push(Label::area("over", "overload", area.max));
    }
    for Line { name, style, points } in &plot.lines {
        let path = if style.is_continuous() { area.line(points) } else { area.steps(points) };
        let _ = writeln!(svg, "<path class=\"{}\" d=\"{path}\"/>", style.class());
        let last = points.last().map_or(0.0, |point| point.1);
        labels.push(Label::line(style.class(), name.as_str(), last));
    }
    svg + &draw_labels(area, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_has_a_distance_from_the_times_above() {
        let plot = || Plot {
            title: "title".to_owned(),
            lines: Vec::new(),
            min_axis_end: 9.0,
            load_and_capacity: Vec::new(),
        };
        let svg = plots(&[plot(), plot()], &Zoned::default(), 3600.0, "");
        let y_of = |line: &str| line.split(" y=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
        let time = svg.lines().find(|line| line.contains("\"middle\"")).and_then(y_of);
        let title = svg.lines().rfind(|line| line.contains(">title<")).and_then(y_of);
        assert!(title.expect("a title") - time.expect("a time") >= 24.0, "{svg}");
    }

    #[test]
    fn names_are_escaped_and_overload_is_marked() {
        let (name, points) = ("a<b".to_owned(), vec![(0.0, 2.0)]);
        let line = Line { name, style: LineStyle::Load, points };
        let plot = Plot {
            title: "x & y".to_owned(),
            lines: vec![line],
            min_axis_end: 9.0,
            load_and_capacity: vec![(0.0, 2.0, 1.0), (60.0, 1.0, 1.0)],
        };
        let svg = plots(&[plot], &Zoned::default(), 60.0, "\"quoted\"");
        assert!(
            svg.contains("a&lt;b") && svg.contains("x &amp; y") && svg.contains("&quot;quoted")
        );
        assert!(svg.contains("class=\"over\"") && svg.contains(">10</text>"), "{svg}");
    }
}
