//! `hpa-bench chart`: the cost by the number of autoscalers, from the numbers of several runs.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::{
    measure::Outcome,
    report::{MEBI, format_seconds},
};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
const MARGIN: f64 = 48.0;
const PLOT_WIDTH: f64 = 250.0;
const PLOT_TOP: f64 = 56.0;
const PLOT_HEIGHT: f64 = 190.0;
/// Colors for a light and for a dark page.
const STYLE: &str = "text{font:12px sans-serif;fill:#57606a}.h{font-weight:600;fill:#24292f}\
    .bg{fill:#fff}.grid{stroke:#d0d7de}.line{fill:none;stroke:#0969da;stroke-width:2}\
    circle{fill:#0969da}\
    @media(prefers-color-scheme:dark){text{fill:#9198a1}.h{fill:#f0f6fc}.bg{fill:#0d1117}\
    .grid{stroke:#3d444d}.line{stroke:#4493f8}circle{fill:#4493f8}}";

/// A plot of one value by the number of autoscalers.
struct Panel {
    title: &'static str,
    value: fn(&Outcome) -> Option<f64>,
    text: fn(f64) -> String,
}

const PANELS: [Panel; 3] = [
    Panel { title: "CPUs in use", value: |run| Some(run.cpus), text: |cpus| format!("{cpus:.3}") },
    Panel {
        title: "peak memory, MiB",
        value: |run| Some(run.usage_at_end.peak_memory as f64 / MEBI),
        text: |mebibytes| format!("{mebibytes:.0}"),
    },
    Panel {
        title: "lateness, 99.9th percentile",
        value: |run| run.lateness.map(|lateness| lateness.p999),
        text: format_seconds,
    },
];

/// Reads the files that `hpa-bench run --json` wrote, and returns the chart as SVG.
pub(crate) fn run(files: &[PathBuf]) -> Result<String> {
    let mut runs = Vec::new();
    for file in files {
        let read =
            || -> Result<Vec<Outcome>> { Ok(serde_json::from_str(&fs::read_to_string(file)?)?) };
        runs.extend(read().with_context(|| format!("cannot read {}", file.display()))?);
    }
    ensure!(runs.len() >= 2, "a chart needs at least two measurements");
    ensure_one_controller(runs.iter().map(|run| run.controller.as_str()))?;
    runs.sort_by_key(|run| run.autoscalers);
    Ok(svg(&runs))
}

/// Fails if there are several names, because a line connects all points.
fn ensure_one_controller<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let names: Vec<&str> = names.collect::<BTreeSet<_>>().into_iter().collect();
    ensure!(names.len() == 1, "a chart is of one controller, not of {}", names.join(" and "));
    Ok(())
}

fn svg(runs: &[Outcome]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
         <style>{STYLE}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"h\" x=\"{MARGIN}\" y=\"22\">Cost by the number of autoscalers, both axes \
         logarithmic</text>\n",
        description(runs)
    );
    for (index, panel) in (0_u8..).zip(&PANELS) {
        let left = MARGIN + f64::from(index) * (PLOT_WIDTH + MARGIN);
        svg += &plot(panel, runs, left);
    }
    svg + "</svg>\n"
}

/// The numbers as text, for screen readers.
fn description(runs: &[Outcome]) -> String {
    let describe = |run: &Outcome| {
        let values = PANELS.iter().filter_map(|panel| {
            (panel.value)(run).map(|value| format!("{} {}", panel.title, (panel.text)(value)))
        });
        format!("{} autoscalers: {}", run.autoscalers, values.collect::<Vec<_>>().join(", "))
    };
    runs.iter().map(describe).collect::<Vec<_>>().join("; ")
}

fn plot(panel: &Panel, runs: &[Outcome], left: f64) -> String {
    let points: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|run| Some((run.autoscalers as f64, (panel.value)(run)?)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    let x_range = Decades::new(points.iter().map(|point| point.0));
    let y_range = Decades::new(points.iter().map(|point| point.1));
    let x = |value: f64| left + PLOT_WIDTH * x_range.position(value);
    let y = |value: f64| PLOT_TOP + PLOT_HEIGHT * (1.0 - y_range.position(value));
    let (right, bottom) = (left + PLOT_WIDTH, PLOT_TOP + PLOT_HEIGHT);
    let mut plot = format!("<text x=\"{left}\" y=\"{}\">{}</text>\n", PLOT_TOP - 12.0, panel.title);
    // Writing to a string cannot fail.
    for value in y_range.powers() {
        let y = y(value);
        let _ = writeln!(plot, "<path class=\"grid\" d=\"M{left} {y:.1}H{right}\"/>");
    }
    for value in x_range.powers() {
        let x = x(value);
        let _ = writeln!(
            plot,
            "<path class=\"grid\" d=\"M{x:.1} {PLOT_TOP}V{bottom}\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
            bottom + 18.0
        );
    }
    let line: Vec<String> =
        points.iter().map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
    let _ = writeln!(plot, "<path class=\"line\" d=\"M{}\"/>", line.join("L"));
    for (autoscalers, value) in &points {
        let (x, y, text) = (x(*autoscalers), y(*value), (panel.text)(*value));
        let _ = writeln!(
            plot,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            y - 8.0
        );
    }
    plot
}

/// The range of an axis, from one power of ten to another. The fields are the exponents.
struct Decades {
    first: f64,
    last: f64,
}

impl Decades {
    /// The smallest range of at least one decade that contains the values. Without values, from 1
    /// to 10.
    fn new(values: impl Iterator<Item = f64> + Clone) -> Self {
        let first = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let last = values.fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        if first.is_finite() && last > first {
            Self { first, last }
        } else {
            let first = if first.is_finite() { first } else { 0.0 };
            Self { first, last: first + 1.0 }
        }
    }

    /// The position of a value in the range, from 0 to 1.
    fn position(&self, value: f64) -> f64 {
        (value.log10() - self.first) / (self.last - self.first)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        let (first, last) = (self.first, self.last);
        std::iter::successors(Some(first), move |power| (*power < last).then_some(power + 1.0))
            .map(|power| 10_f64.powf(power))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_of_several_controllers_is_refused() {
        assert!(ensure_one_controller(["ours", "ours"].into_iter()).is_ok());
        let error = ensure_one_controller(["reference", "ours"].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "a chart is of one controller, not of ours and reference");
    }

    #[test]
    fn decades_enclose_the_values() {
        let decades = Decades::new([100.0, 30_000.0].into_iter());
        let powers: Vec<f64> = decades.powers().map(f64::round).collect();
        assert_eq!(powers, [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert!((decades.position(1000.0) - 1.0 / 3.0).abs() < 1e-9);
        // One value, or none.
        assert_eq!(Decades::new([100.0].into_iter()).powers().count(), 2);
        assert_eq!(Decades::new(std::iter::empty()).powers().count(), 2);
    }
}
