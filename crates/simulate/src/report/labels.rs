//! The names of lines beside a plot, each with a sample of its line.

use std::fmt::Write as _;

use super::{escape::escape, series::Area};

/// The smallest distance of labels.
const HEIGHT: f64 = 14.0;
/// The length of a sample. The longest dashes repeat twice in it.
const SAMPLE: f64 = 26.0;
const GAP: f64 = 8.0;

/// The name of a line or an area.
pub(super) struct Label {
    /// The class of what it names.
    pub(super) class: &'static str,
    pub(super) text: String,
    /// The value beside which it should be.
    pub(super) value: f64,
    pub(super) is_area: bool,
}

impl Label {
    pub(super) fn line(class: &'static str, text: impl Into<String>, value: f64) -> Self {
        Self { class, text: text.into(), value, is_area: false }
    }

    pub(super) fn area(class: &'static str, text: impl Into<String>, value: f64) -> Self {
        Self { is_area: true, ..Self::line(class, text, value) }
    }

    fn sample(&self, x: f64, y: f64) -> String {
        let class = self.class;
        if self.is_area {
            let y = y - 5.0;
            return format!(
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{SAMPLE}\" \
                    height=\"10\"/>"
            );
        }
        let end = x + SAMPLE;
        format!(
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{end:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        )
    }
}

/// The labels right of a plot, moved so that they don't overlap.
pub(super) fn right(area: &Area, mut labels: Vec<Label>) -> String {
    // Labels at the same place stay in their order.
    labels.sort_by(|one, other| other.value.total_cmp(&one.value));
    let bottom = area.top + area.height;
    let mut limit = bottom - HEIGHT * (labels.len() as f64 - 1.0);
    let mut last = area.top - HEIGHT;
    let x = area.left + area.width + GAP;
    let mut svg = String::new();
    for label in labels {
        let y = area.y(label.value).max(last + HEIGHT).min(limit);
        last = y;
        limit += HEIGHT;
        let _ = writeln!(
            svg,
            "{}<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            label.sample(x, y),
            x + SAMPLE + 5.0,
            y + 4.0,
            escape(&label.text)
        );
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_at_one_place_are_moved_apart_within_the_plot() {
        let area = Area { left: 0.0, top: 100.0, width: 100.0, height: 60.0, end: 10.0, max: 10.0 };
        for value in [0.0, 5.0, 10.0] {
            let labels = ["one", "two", "three", "four"].map(|text| Label::line("x", text, value));
            let svg = right(&area, labels.into());
            let heights = svg.split(" y1=\"").skip(1).filter_map(|part| part.split('"').next());
            let heights: Vec<f64> = heights.map(|height| height.parse().unwrap()).collect();
            assert_eq!(heights.len(), 4);
            assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= HEIGHT), "{heights:?}");
            assert!(heights[0] >= 100.0 && heights[3] <= 160.0, "{heights:?}");
            let order: Vec<_> =
                svg.split("</text>").filter_map(|part| part.split('>').next_back()).collect();
            assert_eq!(order[..4], ["one", "two", "three", "four"]);
        }
    }
}
