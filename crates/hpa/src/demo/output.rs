//! What a person gets to see: a live view on a terminal, lines elsewhere.

use std::{
    fs::File,
    io::{self, Write, stdout},
    path::Path,
};

use anyhow::Context;

use super::{
    board::Dashboard,
    decision::Decision,
    summary::Summary,
    terminal::{self, Screen},
    text::{clock, number},
    view::{Head, view},
};
use crate::{
    args::{DemoArguments, LogArguments, LogFormat},
    logging,
};

/// What is logged to a file beside the view, and what to standard error beside lines.
const LEVEL_OF_FILE: &str = "info";
const LEVEL_OF_LINES: &str = "warn";

/// What is known at the start.
pub(crate) struct Start {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// How many simulated seconds will be seen.
    pub(crate) span: f64,
    /// How many simulated seconds pass in a second.
    pub(crate) speed: f64,
    /// Where the kubeconfig is.
    pub(crate) kubeconfig: String,
}

/// Where to tell what happens.
pub(crate) enum Output {
    /// A live view; logs go to a file.
    View {
        /// The screen, once it was taken and until it is given back.
        screen: Option<Screen>,
        /// Its head.
        head: Option<Head>,
    },
    /// One line for each decision that says something new; logs go to standard error.
    Lines {
        /// The widest name of an autoscaler.
        width: usize,
    },
}

impl Output {
    /// Chooses, and starts logging.
    pub(crate) fn new(arguments: &DemoArguments, folder: &Path) -> anyhow::Result<Self> {
        let log_level =
            |default: &str| arguments.log_level.clone().unwrap_or_else(|| default.to_owned());
        if !terminal::is_there() {
            let log_level = log_level(LEVEL_OF_LINES);
            logging::start(&LogArguments { log_level, log_format: LogFormat::Text }, None)?;
            return Ok(Self::Lines { width: 0 });
        }
        let log = folder.join("controller.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        logging::start_to_file(&log_level(LEVEL_OF_FILE), file)?;
        Ok(Self::View { screen: None, head: None })
    }

    /// Everything runs.
    pub(crate) fn begin(&mut self, start: Start, board: &Dashboard) -> io::Result<()> {
        match self {
            Self::View { screen, head } => {
                let Start { scenario, span, speed, kubeconfig } = start;
                *head = Some(Head {
                    scenario,
                    span,
                    speed,
                    kubeconfig,
                    followed: None,
                    is_over: false,
                });
                *screen = Some(Screen::enter()?);
                Ok(())
            }
            Self::Lines { width } => {
                *width = board
                    .tracks
                    .iter()
                    .map(|track| track.key.name.chars().count())
                    .max()
                    .unwrap_or(0);
                print(&heading(&start, board))
            }
        }
    }

    /// A decision was made; `previous` is the one before it of the same autoscaler.
    pub(crate) fn decided(
        &self,
        decision: &Decision,
        previous: Option<&Decision>,
    ) -> io::Result<()> {
        let Self::Lines { width } = self else { return Ok(()) };
        let is_new = previous.is_none_or(|previous| previous.reason != decision.reason);
        if decision.to.is_none() && !is_new {
            return Ok(());
        }
        let (time, name, change) = (clock(decision.second), &decision.key.name, decision.change());
        print(&format!("{time:>7}  {name:width$}  {change:<10}  {}\n", decision.sentence))
    }

    /// Time for another frame.
    pub(crate) fn frame(&self, board: &Dashboard) -> io::Result<()> {
        let Self::View { screen: Some(screen), head: Some(head) } = self else { return Ok(()) };
        let (columns, rows) = terminal::size();
        screen.draw(&view(head, board, columns, rows))
    }

    /// The scenario is over, and goes on.
    pub(crate) fn on_hold(&mut self, summary: &Summary) -> io::Result<()> {
        match self {
            Self::View { head, .. } => {
                if let Some(head) = head {
                    head.followed = Some(summary.followed);
                }
                Ok(())
            }
            Self::Lines { .. } => {
                let text = summary.text();
                print(&format!(
                    "\n{text}\n\nOn hold: the load goes on in real time until Ctrl-C.\n"
                ))
            }
        }
    }

    /// It is over.
    pub(crate) fn end(&mut self, board: &Dashboard, summary: &Summary) -> io::Result<()> {
        if let Self::View { screen, head: Some(head) } = self
            && let Some(screen) = screen.take()
        {
            head.is_over = true;
            let (columns, rows) = terminal::size();
            screen.close(&view(head, board, columns, rows))?;
        }
        print(&format!("\n{}\n", summary.text()))
    }
}

fn heading(start: &Start, board: &Dashboard) -> String {
    let Start { scenario, span, speed, kubeconfig } = start;
    let (simulated, real) = (clock(*span), clock(span / speed));
    let first = board.tracks.first().map_or("NAME".to_owned(), |track| track.key.name.to_string());
    format!(
        "hpa demo: {scenario}, {simulated} simulated in {real}, {} times as fast\n\
         To look at it from another terminal:\n  \
           export KUBECONFIG={kubeconfig}\n  \
           kubectl get hpa --watch\n  \
           kubectl describe hpa {first}\n  \
           kubectl top pods\n\n",
        number(*speed)
    )
}

fn print(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
