//! Marks of scalings, and of times in which the autoscaler could not decide.

use std::fmt::Write as _;

use hpa_calc::explain::Reason;

use super::{escape::escape, format::clock, series::Area};
use crate::run::{Run, Step};

/// More marks can't be told apart.
pub(super) const MAX_MARKS: usize = 90;

/// A column for each time in which the autoscaler could not decide.
pub(super) fn problems(run: &Run, area: &Area) -> String {
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
            clock(problem.from),
            escape(&problem.sentence)
        );
    }
    svg
}

/// A mark for each scaling, whose shape says what determined the size.
pub(super) fn scalings(run: &Run, area: &Area) -> String {
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
