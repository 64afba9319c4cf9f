//! `hpa schedule`: previews schedules, and prints their definitions.

mod chart;
mod preview;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Context;
use hpa_collectors::schedules::Compat;
use jiff::{SignedDuration, Timestamp};

use self::preview::Preview;
use crate::{
    args::{PreviewArguments, PreviewFormat, ScheduleCommand},
    manifests::read_file,
    terminal,
};

/// The previewed time.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Runs a subcommand.
pub(crate) fn run(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    let (text, is_valid) = match command {
        ScheduleCommand::Crd => (hpa_collectors::schedules::definition::schedule_manifest()?, true),
        ScheduleCommand::Preview(arguments) => preview(&arguments)?,
    };
    terminal::print_colored(&text)?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The preview, and whether all entries are valid.
fn preview(arguments: &PreviewArguments) -> anyhow::Result<(String, bool)> {
    let input = read_file(&arguments.file)?;
    let compat = if arguments.compat.is_some() { Compat::Reference } else { Compat::Off };
    let settings = arguments.defaults.settings(compat);
    let from = arguments.from.unwrap_or_else(Timestamp::now);
    let to = from.checked_add(WEEK).context("--from is too late")?;
    let previews = preview::read(&input, &settings, from, to)?;
    let is_valid = previews.iter().all(Preview::is_valid);
    let text = match arguments.output {
        PreviewFormat::Json => {
            let items: Vec<_> = previews.iter().map(Preview::json).collect();
            serde_json::to_string_pretty(&serde_json::json!({ "items": items }))? + "\n"
        }
        PreviewFormat::Text => {
            let has_color = terminal::has_color();
            previews.iter().map(|preview| preview.text(has_color)).collect::<Vec<_>>().join("\n")
        }
    };
    Ok((text, is_valid))
}
