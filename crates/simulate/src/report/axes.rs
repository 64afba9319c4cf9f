//! The grid of a plot, and the values and times beside it.

use std::fmt::Write as _;

use super::{
    format::span,
    series::{Area, ticks, time_ticks},
};

/// Larger values are shortened to thousands, millions or billions.
const LARGEST_PLAIN: f64 = 1e5;
const UNITS: [(f64, &str); 3] = [(1e9, "G"), (1e6, "M"), (1e3, "k")];

/// The title of a plot and its lines, each with a value.
pub(super) fn values(area: &Area, title: &str, ticks: &[f64]) -> String {
    let mut svg = String::new();
    let (left, right) = (area.left, area.left + area.width);
    for (tick, label) in ticks.iter().zip(labels(ticks)) {
        let y = area.y(*tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            y + 4.0,
        );
    }
    let _ = writeln!(svg, "<text class=\"h\" x=\"8\" y=\"{:.1}\">{title}</text>", area.top - 12.0);
    svg
}

/// Round values for the lines of a plot.
pub(super) fn round_values(area: &Area) -> Vec<f64> {
    ticks(area.max, 5.0)
}

/// Whole values for the lines of a plot.
pub(super) fn whole_values(area: &Area) -> Vec<f64> {
    let mut ticks = ticks(area.max, 5.0);
    ticks.retain(|tick| tick.fract() < f64::EPSILON);
    ticks
}

/// The labels of values with equal distances. They have the decimals that the distance needs.
fn labels(ticks: &[f64]) -> Vec<String> {
    let step = ticks.get(1).copied().unwrap_or(1.0);
    let max = ticks.last().copied().unwrap_or_default();
    let large = UNITS.into_iter().find(|(unit, _)| max >= LARGEST_PLAIN && max >= *unit);
    let (unit, suffix) = large.unwrap_or((1.0, ""));
    let decimals = decimals(step / unit);
    let label = |tick: &f64| match *tick {
        0.0 => "0".to_owned(),
        tick => format!("{:.decimals$}{suffix}", tick / unit),
    };
    ticks.iter().map(label).collect()
}

/// How many decimals a value has, at most nine.
fn decimals(value: f64) -> usize {
    let mut powers = std::iter::successors(Some(value), |value| Some(value * 10.0)).take(10);
    powers.position(|scaled| (scaled - scaled.round()).abs() <= scaled * 1e-6).unwrap_or(9)
}

/// The times below a plot.
pub(super) fn times(area: &Area) -> String {
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const AREA: Area =
        Area { left: 0.0, top: 0.0, width: 100.0, height: 10.0, end: 100.0, max: 0.0 };

    #[rstest]
    #[case::cores(0.016, &["0", "0.005", "0.01", "0.015"], &["0", "0.005", "0.010", "0.015"])]
    #[case::requests(730.0, &[], &["0", "200", "400", "600"])]
    #[case::bytes(1.4e6, &[], &["0", "0.5M", "1.0M"])]
    fn labels_differ_and_are_short(
        #[case] max: f64,
        #[case] exact: &[&str],
        #[case] expected: &[&str],
    ) {
        let ticks = round_values(&Area { max, ..AREA });
        assert_eq!(labels(&ticks), expected);
        for (tick, exact) in ticks.iter().zip(exact) {
            assert!((tick - exact.parse::<f64>().unwrap()).abs() < 1e-9);
        }
    }

    #[test]
    fn replicas_have_whole_values_only() {
        assert_eq!(whole_values(&Area { max: 2.16, ..AREA }), [0.0, 1.0, 2.0]);
        assert_eq!(whole_values(&Area { max: 1.08, ..AREA }), [0.0, 1.0]);
    }
}
