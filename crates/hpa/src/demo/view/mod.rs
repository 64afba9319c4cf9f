//! The output of the demo: a live view on a terminal, else lines.

mod frame;
mod introduction;
mod line;
mod screen;
mod sparkline;

use std::{fs::File, path::Path};

use anyhow::Context;
use hpa_calc::explain::minutes_and_seconds;

pub(crate) use self::introduction::DemoInfo;
use self::{
    frame::{Header, Phase, frame},
    introduction::introduction,
    screen::Screen,
};
use super::model::{Decision, DemoRecords, Summary};
use crate::{
    args::{DemoArguments, LogArguments, LogFormat},
    logging,
    terminal::print,
};

/// Default log level of the log file if the output is a live view.
const LOG_LEVEL_LIVE: &str = "info";
/// Default log level on standard error if the output is lines. It leaves out the warnings about the
/// scenario's faults, whose effects the decisions explain.
const LOG_LEVEL_LINES: &str = "error";

/// The way in which the demo shows decisions.
pub(crate) enum DemoOutput {
    /// A live view. The log goes to a file.
    Live { screen: Screen, header: Header },
    /// A line per new decision. The log goes to standard error.
    Lines {
        /// Width of the longest autoscaler name.
        name_width: usize,
    },
}

/// Starts logging. Returns whether the demo has a live view, because standard output is a terminal.
pub(crate) fn start_logging(arguments: &DemoArguments, folder: &Path) -> anyhow::Result<bool> {
    let log_level =
        |default: &str| arguments.log_level.clone().unwrap_or_else(|| default.to_owned());
    let is_live = screen::is_available();
    if is_live {
        let log = folder.join("controller.log");
        let file =
            File::create(&log).with_context(|| format!("unable to write {}", log.display()))?;
        logging::start_to_file(&log_level(LOG_LEVEL_LIVE), file)?;
    } else {
        let log_level = log_level(LOG_LEVEL_LINES);
        logging::start(&LogArguments { log_level, log_format: LogFormat::Text })?;
    }
    Ok(is_live)
}

impl DemoOutput {
    /// Switches to the live view, or prints the introduction.
    pub(crate) fn begin(
        is_live: bool,
        info: DemoInfo,
        records: &DemoRecords,
    ) -> anyhow::Result<Self> {
        if is_live {
            let header = Header { info, phase: Phase::Running };
            return Ok(Self::Live { screen: Screen::enter()?, header });
        }
        print(&introduction(&info, records))?;
        let names = records.autoscalers.iter().map(|record| record.key.name.chars().count());
        Ok(Self::Lines { name_width: names.max().unwrap_or(0) })
    }

    /// Prints a decision if it scaled, if it is the first of its autoscaler, or if it has another
    /// reason than the `previous` one. Prints nothing if there is a live view.
    pub(crate) fn print_decision(
        &self,
        decision: &Decision,
        previous: Option<&Decision>,
    ) -> anyhow::Result<()> {
        let Self::Lines { name_width } = self else { return Ok(()) };
        let is_new = previous.is_none_or(|previous| previous.reason != decision.reason);
        if decision.to.is_none() && !is_new {
            return Ok(());
        }
        let (time, name) = (minutes_and_seconds(decision.second), &decision.key.name);
        let (change, sentence) = (decision.change(), &decision.sentence);
        print(&format!("{time:>7}  {name:name_width$}  {change:<11}  {sentence}\n"))
    }

    /// Draws the live view.
    pub(crate) fn draw(&self, records: &DemoRecords) -> anyhow::Result<()> {
        let Self::Live { screen, header } = self else { return Ok(()) };
        let (columns, rows) = screen::size();
        Ok(screen.draw(&frame(header, records, columns, rows))?)
    }

    /// Reports that the scenario is over and that the cluster keeps running.
    pub(crate) fn report_hold(&mut self, summary: &Summary) -> anyhow::Result<()> {
        match self {
            Self::Live { header, .. } => {
                header.phase = Phase::OnHold { followed_load: summary.followed_load };
                Ok(())
            }
            Self::Lines { .. } => {
                let hold = "On hold: the load repeats in real time until Ctrl-C.";
                print(&format!("\n{}\n\n{hold}\n", summary.text))
            }
        }
    }

    /// Restores the terminal and prints the summary.
    pub(crate) fn end(self, records: &DemoRecords, summary: &Summary) -> anyhow::Result<()> {
        if let Self::Live { screen, mut header } = self {
            header.phase = Phase::Over;
            let (columns, rows) = screen::size();
            screen.close(&frame(&header, records, columns, rows))?;
        }
        print(&format!("\n{}\n", summary.text))
    }
}
