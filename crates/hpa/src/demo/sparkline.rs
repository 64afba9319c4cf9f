//! A row of bars over time.

/// One moment of a curve: when, in seconds, and how much.
pub(crate) type Point = (f64, f64);

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Nothing, as opposed to little: a workload at zero.
const NOTHING: char = '·';
/// What is not known, or is to come.
const UNKNOWN: char = ' ';

/// Draws a curve from second 0 to `span` in so many columns. A column shows the highest value in its time, or the last
/// one before if there is none; those after the last point are blank.
pub(crate) fn sparkline(points: &[Point], span: f64, width: usize) -> String {
    let peak = points.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let (mut line, mut rest, mut last) = (String::new(), points, None);
    for column in 1..=width {
        let end = span * column as f64 / width as f64;
        let is_last = column == width;
        let count = rest.iter().take_while(|(second, _)| *second < end || is_last).count();
        let (here, later) = rest.split_at(count);
        let highest = here.iter().map(|(_, value)| *value).reduce(f64::max);
        let is_over = here.is_empty() && later.is_empty();
        line.push(match highest.or(last).filter(|_| !is_over) {
            Some(value) => bar(value, peak),
            None => UNKNOWN,
        });
        last = here.last().map(|(_, value)| *value).or(last);
        rest = later;
    }
    line
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it lies between 0 and 8"
)]
fn bar(value: f64, peak: f64) -> char {
    if value <= 0.0 || peak <= 0.0 {
        return NOTHING;
    }
    let index = (value / peak * BARS.len() as f64).ceil() as usize;
    BARS.get(index.saturating_sub(1)).copied().unwrap_or(NOTHING)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_known(&[], "    ")]
    #[case::rises(&[(0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (3.0, 8.0)], "▁▂▄█")]
    #[case::zero_is_not_little(&[(0.0, 0.0), (1.0, 0.1), (2.0, 8.0), (3.0, 0.0)], "·▁█·")]
    #[case::the_future_is_blank(&[(0.0, 2.0), (1.0, 1.0)], "█▄  ")]
    #[case::a_gap_is_what_was_before(&[(0.0, 2.0), (3.0, 1.0)], "███▄")]
    #[case::the_highest_counts(&[(0.0, 1.0), (0.5, 4.0), (0.9, 1.0), (3.5, 2.0)], "█▂▂▄")]
    #[case::all_zero(&[(0.0, 0.0), (3.0, 0.0)], "····")]
    #[case::the_end_itself(&[(0.0, 1.0), (4.0, 2.0)], "▄▄▄█")]
    fn four_seconds_in_four_columns(#[case] points: &[Point], #[case] expected: &str) {
        assert_eq!(sparkline(points, 4.0, 4), expected);
    }

    #[rstest]
    #[case(0)]
    #[case(1)]
    #[case(80)]
    fn it_is_as_wide_as_asked(#[case] width: usize) {
        let points: Vec<Point> =
            (0..1000).map(|second| (f64::from(second), f64::from(second % 7))).collect();
        assert_eq!(sparkline(&points, 1000.0, width).chars().count(), width);
    }
}
