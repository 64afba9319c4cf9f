//! A row of bars over time.

use crate::terminal::bar;

/// A time in seconds, and a value.
pub(super) type Point = (f64, f64);

/// The character for columns after the last point.
const BLANK: char = ' ';

/// Draws the points between second 0 and `span` in `width` columns. A column shows the largest
/// value in its time, or the previous value if there is none. Columns after the last point are
/// blank.
pub(super) fn sparkline(points: &[Point], span: f64, width: usize) -> String {
    let peak = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let (mut line, mut rest, mut previous) = (String::new(), points, None);
    for column in 1..=width {
        let end = span * column as f64 / width as f64;
        let is_last = column == width;
        let count = rest.iter().take_while(|(second, _)| *second < end || is_last).count();
        let (here, later) = rest.split_at(count);
        let largest = here.iter().map(|(_, value)| *value).reduce(f64::max);
        let is_after_last_point = here.is_empty() && later.is_empty();
        line.push(match largest.or(previous).filter(|_| !is_after_last_point) {
            Some(value) => bar(value, peak),
            None => BLANK,
        });
        previous = here.last().map(|(_, value)| *value).or(previous);
        rest = later;
    }
    line
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_points(&[], "    ")]
    #[case::rising(&[(0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (3.0, 8.0)], "▁▂▄█")]
    #[case::zero_differs_from_small(&[(0.0, 0.0), (1.0, 0.1), (2.0, 8.0), (3.0, 0.0)], "·▁█·")]
    #[case::future_is_blank(&[(0.0, 2.0), (1.0, 1.0)], "█▄  ")]
    #[case::gap_repeats_the_previous_value(&[(0.0, 2.0), (3.0, 1.0)], "███▄")]
    #[case::largest_in_a_column(&[(0.0, 1.0), (0.5, 4.0), (0.9, 1.0), (3.5, 2.0)], "█▂▂▄")]
    #[case::all_zero(&[(0.0, 0.0), (3.0, 0.0)], "····")]
    #[case::point_at_the_end(&[(0.0, 1.0), (4.0, 2.0)], "▄▄▄█")]
    fn column_shows_the_largest_value_of_its_second(
        #[case] points: &[Point],
        #[case] expected: &str,
    ) {
        assert_eq!(sparkline(points, 4.0, 4), expected);
    }

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(80)]
    fn width_is_as_requested(#[case] width: usize) {
        let points: Vec<Point> =
            (0..1000).map(|second| (f64::from(second), f64::from(second % 7))).collect();
        assert_eq!(sparkline(&points, 1000.0, width).chars().count(), width);
    }
}
