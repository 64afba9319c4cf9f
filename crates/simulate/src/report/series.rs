//! From the points of a run to lines of a chart.

use std::fmt::Write as _;

/// More points than a chart has pixels.
const MAX_COLUMNS: usize = 1200;

/// The attribute `d` of a path.
#[derive(Default)]
struct PathData(String);

impl PathData {
    fn add(&mut self, commands: std::fmt::Arguments<'_>) {
        // Writing to a string can't fail.
        let _ = self.0.write_fmt(commands);
    }
}

/// A part of the plane: the ranges of both axes, and where they are drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// The last second. The first is 0.
    pub(super) end: f64,
    /// The largest value. The smallest is 0.
    pub(super) max: f64,
}

impl Area {
    pub(super) fn x(&self, second: f64) -> f64 {
        self.left + self.width * second / self.end.max(1.0)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        self.top + self.height * (1.0 - value.min(self.max) / self.max)
    }

    /// The path of a line through points of time and value.
    pub(super) fn line(&self, points: &[(f64, f64)]) -> String {
        let mut path = PathData::default();
        for (index, (second, value)) in thin(points).into_iter().enumerate() {
            let command = if index == 0 { "M" } else { "L" };
            path.add(format_args!("{command}{:.1} {:.1}", self.x(second), self.y(value)));
        }
        path.0
    }

    /// The path of a value that stays until the next point, and then until the end.
    pub(super) fn steps(&self, points: &[(f64, f64)]) -> String {
        self.steps_until(points, self.end)
    }

    /// The same until a second.
    pub(super) fn steps_until(&self, points: &[(f64, f64)], end: f64) -> String {
        let mut path = PathData::default();
        let mut last = None;
        for (second, value) in points {
            match last {
                None => path.add(format_args!("M{:.1} {:.1}", self.x(*second), self.y(*value))),
                #[expect(clippy::float_cmp, reason = "the same value again draws nothing")]
                Some(last) if last == *value => continue,
                Some(_) => path.add(format_args!("H{:.1}V{:.1}", self.x(*second), self.y(*value))),
            }
            last = Some(*value);
        }
        if last.is_some() {
            path.add(format_args!("H{:.1}", self.x(end.min(self.end))));
        }
        path.0
    }

    /// The path of the area between two lines with points at the same times, where the upper one
    /// is above.
    pub(super) fn between(&self, points: &[(f64, f64, f64)]) -> String {
        let mut path = PathData::default();
        let above = |point: &&(f64, f64, f64)| point.1 > point.2;
        let mut rest = points;
        while let Some(first) = rest.iter().position(|point| above(&point)) {
            let (_, from) = rest.split_at(first);
            let len = from.iter().take_while(above).count();
            let (part, after) = from.split_at(len);
            rest = after;
            // Up to the point at which the lines meet.
            let end = after.first().map_or(self.end, |point| point.0);
            let upper: Vec<(f64, f64)> = part.iter().map(|point| (point.0, point.1)).collect();
            let lower = part.iter().rev().map(|point| (point.0, point.2));
            let last = part.last().map_or(0.0, |point| point.2);
            path.0 += &self.line(&upper);
            path.add(format_args!("L{:.1} {:.1}", self.x(end), self.y(last)));
            for (second, value) in lower {
                path.add(format_args!("L{:.1} {:.1}", self.x(second), self.y(value)));
            }
            path.add(format_args!("Z"));
        }
        path.0
    }
}

/// At most two points for each column of pixels: the smallest and the largest value.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
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

/// Round values for the lines of an axis from 0 to `max`, about `count` of them.
pub(super) fn ticks(max: f64, count: f64) -> Vec<f64> {
    let rough = (max / count).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    multiples(factor.unwrap_or(10.0) * power, max)
}

/// Round times for the lines of an axis of `end` seconds, about `count` of them.
pub(super) fn time_ticks(end: f64, count: f64) -> Vec<f64> {
    const STEPS: [f64; 14] = [
        60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0, 43_200.0,
        86_400.0, 172_800.0, 604_800.0,
    ];
    let step = STEPS.into_iter().find(|step| step * count >= end);
    multiples(step.unwrap_or(2_592_000.0), end)
}

fn multiples(step: f64, max: f64) -> Vec<f64> {
    let values = (0_u32..200).map(|index| f64::from(index) * step);
    values.take_while(|value| *value <= max * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area =
        Area { left: 0.0, top: 0.0, width: 100.0, height: 10.0, end: 100.0, max: 10.0 };

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(10.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(730.0, 5.0), [0.0, 200.0, 400.0, 600.0]);
        assert_eq!(time_ticks(3600.0, 6.0), [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0]);
    }

    #[test]
    fn steps_are_horizontal_and_vertical() {
        let path = AREA.steps(&[(0.0, 2.0), (10.0, 2.0), (20.0, 5.0)]);
        assert_eq!(path, "M0.0 8.0H20.0V5.0H100.0");
    }

    #[test]
    fn area_between_lines_has_a_part_for_each_time_above() {
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
        let thin = thin(&points);
        assert!(thin.len() <= 2 * MAX_COLUMNS);
        assert!(thin.contains(&(4321.0, 9.0)) && thin.contains(&(8765.0, 0.0)));
    }
}
