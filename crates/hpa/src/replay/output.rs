//! The output of a replay.

use hpa_simulate::{ScenarioFile, report, report::RecordedReplicas};
use serde::Serialize;

use super::{agreement::Agreement, series::Series, window::Window};
use crate::{
    simulate::{self, VariantOutput},
    terminal::{self, escape_line},
};

/// The result of a replay, except the runs.
pub(super) struct Replay<'a> {
    pub(super) name: &'a str,
    pub(super) window: Window,
    /// The name of the metric from which the load was derived.
    pub(super) load_metric: &'a str,
    pub(super) recorded: &'a Series,
    pub(super) agreement: &'a Agreement,
    pub(super) assumptions: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplayOutput<'a> {
    name: &'a str,
    from: String,
    to: String,
    step_seconds: i64,
    load: &'a str,
    #[serde(rename = "match")]
    agreement: &'a Agreement,
    assumptions: &'a [String],
    variants: Vec<VariantOutput<'a>>,
}

impl Replay<'_> {
    /// The sentence about the replayed time.
    fn period(&self) -> String {
        format!(
            "{}, {} to {}, in steps of {}.",
            self.name,
            self.window.start,
            self.window.end(),
            report::format_duration(self.window.step_seconds as f64)
        )
    }

    pub(super) fn text(&self, results: &[report::VariantRun], with_steps: bool) -> String {
        let [measured, advice] = self.agreement.paragraphs();
        let period = escape_line(&self.period());
        let mut text = format!("{advice}\n{period}\n{measured}\n\n");
        text += &report::comparison_text(results);
        if !self.assumptions.is_empty() {
            text += "\nAssumptions:\n";
            text.extend(self.assumptions.iter().map(|one| format!("- {}\n", escape_line(one))));
        }
        if with_steps {
            text += &simulate::steps_text(results, Some(self.window.start));
        }
        text
    }

    /// The HTML page. Its charts show the recorded replicas beside those of each run.
    pub(super) fn page(
        &self,
        scenario_file: &ScenarioFile,
        results: &[report::VariantRun],
    ) -> String {
        let scenario_file =
            ScenarioFile { description: self.description(), ..scenario_file.clone() };
        let step = self.window.step_seconds as f64;
        let recorded =
            RecordedReplicas { start: self.window.start, step, values: self.recorded.0.clone() };
        report::html(&scenario_file, results, Some(&recorded))
    }

    /// The text at the top of the page, one paragraph per line, in the order of [`Self::text`].
    fn description(&self) -> String {
        let [measured, advice] = self.agreement.paragraphs();
        let mut paragraphs = vec![advice, self.period(), measured];
        let assumptions = self.assumptions.iter();
        paragraphs.extend(assumptions.map(|assumption| format!("Assumption: {assumption}")));
        paragraphs.join("\n")
    }

    pub(super) fn json(
        &self,
        results: &[report::VariantRun],
        with_timeline: bool,
    ) -> anyhow::Result<String> {
        let output = ReplayOutput {
            name: self.name,
            from: self.window.start.to_string(),
            to: self.window.end().to_string(),
            step_seconds: self.window.step_seconds,
            load: self.load_metric,
            agreement: self.agreement,
            assumptions: &self.assumptions,
            variants: simulate::variant_outputs(results, with_timeline),
        };
        terminal::json(&output)
    }
}
