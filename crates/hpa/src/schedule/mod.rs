//! `hpa schedule`: previews schedules and scheduled bounds, and prints definitions.

mod bounds;
mod chart;
mod preview;
#[cfg(test)]
mod tests;
mod text;

use std::process::ExitCode;

use anyhow::{Context, bail};
use hpa_collectors::schedules::{Compat, Settings};
use jiff::{SignedDuration, Timestamp};

use self::{bounds::BoundsPreview, preview::Preview};
use crate::{
    args::{PreviewArguments, PreviewFormat, ScheduleCommand},
    manifests::{self, file_name, read_file},
    terminal,
};

/// The length of the previewed time.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Runs a subcommand.
pub(crate) fn run(command: ScheduleCommand) -> anyhow::Result<ExitCode> {
    let (text, is_valid) = match command {
        ScheduleCommand::Crd => (hpa_collectors::schedules::definition::schedule_manifest()?, true),
        ScheduleCommand::Preview(arguments) => preview_file(&arguments)?,
    };
    terminal::write(text)?;
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Previews a file. Returns the output, and whether all entries are valid.
fn preview_file(arguments: &PreviewArguments) -> anyhow::Result<(String, bool)> {
    let manifest = read_file(&arguments.file)?;
    let compat = if arguments.compat.is_some() { Compat::Reference } else { Compat::Off };
    let settings = arguments.defaults.settings(compat);
    let from = arguments.from.unwrap_or_else(Timestamp::now);
    let to = from.checked_add(WEEK).context("--from is too late")?;
    let name = file_name(&arguments.file);
    let (previews, bounds) = preview_manifests(&name, &manifest, &settings, from, to)?;
    let is_valid =
        previews.iter().all(Preview::is_valid) && bounds.iter().all(BoundsPreview::is_valid);
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

/// Previews the schedules and scheduled bounds in a file's text. Fails if there are none.
fn preview_manifests(
    file: &str,
    text: &str,
    settings: &Settings,
    from: Timestamp,
    to: Timestamp,
) -> anyhow::Result<(Vec<Preview>, Vec<BoundsPreview>)> {
    let manifests = manifests::parse(file, text)?;
    let previews = preview::preview_schedules(&manifests, settings, from, to)?;
    let bounds = bounds::preview_bounds(&manifests, from, to)?;
    if previews.is_empty() && bounds.is_empty() {
        bail!(
            "no ScalingSchedule or ClusterScalingSchedule of {}, and no autoscaler with the \
             setting bounds in the manifest",
            preview::API_VERSION
        );
    }
    Ok((previews, bounds))
}
