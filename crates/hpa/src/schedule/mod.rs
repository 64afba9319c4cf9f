//! `hpa schedule`: previews schedules and scheduled bounds, and prints definitions.

mod bounds;
mod chart;
mod field_warnings;
mod preview;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Context, bail};
use hpa_collectors::schedules::{Compat, Settings};
use jiff::{SignedDuration, Timestamp};

use self::{bounds::BoundsPreview, field_warnings::field_warnings, preview::Preview};
use crate::{
    args::{PreviewArguments, PreviewFormat, ScheduleCommand},
    manifests::{self, Manifest, file_name, read_file},
    terminal,
};

/// The length of the previewed time.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Runs a subcommand. The exit status is 1 if the previewed file is not valid.
pub(crate) fn run(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    let (text, is_valid) = match command {
        ScheduleCommand::Crd => (hpa_collectors::schedules::definition::schedule_manifest()?, true),
        ScheduleCommand::Preview(arguments) => preview_file(&arguments)?,
    };
    terminal::write(text)?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Previews a file. Returns the output, and whether all fields are known, none is repeated, and all
/// entries are valid.
fn preview_file(arguments: &PreviewArguments) -> anyhow::Result<(String, bool)> {
    let text = read_file(&arguments.file)?;
    let compat = if arguments.compat.is_some() { Compat::Reference } else { Compat::Off };
    let settings = arguments.defaults.settings(compat);
    let from = arguments.from.unwrap_or_else(Timestamp::now);
    let to = from.checked_add(WEEK).context("--from is too late")?;
    let manifests = manifests::parse(&file_name(&arguments.file), &text)?;
    // Before the preview, because a misspelled field may be the cause of an error.
    let warnings = field_warnings(&manifests)?;
    for warning in &warnings {
        terminal::warn(warning);
    }
    let (previews, bounds) = preview_manifests(&manifests, &settings, from, to)?;
    let is_valid = warnings.is_empty()
        && previews.iter().all(Preview::is_valid)
        && bounds.iter().all(BoundsPreview::is_valid);
    let text = match arguments.output {
        PreviewFormat::Json => {
            let items = previews.iter().map(Preview::json);
            let items: Vec<_> = items.chain(bounds.iter().map(BoundsPreview::json)).collect();
            terminal::json(&serde_json::json!({ "items": items }))?
        }
        PreviewFormat::Text => {
            let has_color = terminal::has_color();
            let texts = previews.iter().map(|preview| preview.text(has_color));
            texts.chain(bounds.iter().map(BoundsPreview::text)).collect::<Vec<_>>().join("\n")
        }
    };
    Ok((text, is_valid))
}

/// Previews the schedules and scheduled bounds among manifests. Fails if there are none.
fn preview_manifests(
    manifests: &[Manifest],
    settings: &Settings,
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<(Vec<Preview>, Vec<BoundsPreview>)> {
    let previews = preview::preview_schedules(manifests, settings, from, to)?;
    let bounds = bounds::preview_bounds(manifests, from, to)?;
    if previews.is_empty() && bounds.is_empty() {
        bail!(
            "no ScalingSchedule or ClusterScalingSchedule of {}, and no autoscaler with the \
             setting bounds in the manifest",
            preview::API_VERSION
        );
    }
    Ok((previews, bounds))
}
