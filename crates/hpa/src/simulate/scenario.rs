//! Reads scenario files.

use std::{fmt::Display, path::Path};

use anyhow::anyhow;
use hpa_calc::explain::one_line;
use hpa_simulate::ScenarioFile;

use crate::manifests::{file_name, read_text};

/// The maximum size of a scenario, and of each file that it refers to, in bytes.
const MAX_SCENARIO_SIZE: u64 = 16 << 20;

/// Reads a scenario and the files that it refers to, whose paths are relative to the scenario. A
/// scenario without a name gets that of its file.
pub(crate) fn load_scenario_file(file: &Path) -> anyhow::Result<ScenarioFile> {
    let is_stdin = file == Path::new("-");
    let folder = if is_stdin { Path::new("") } else { file.parent().unwrap_or(Path::new("")) };
    let in_file = |error: &dyn Display| anyhow!("{}: {error}", file_name(file));
    let text = read_text(file, MAX_SCENARIO_SIZE).map_err(|error| in_file(&error))?;
    let read_relative = |name: &str| {
        read_text(&folder.join(name), MAX_SCENARIO_SIZE).map_err(|error| error.to_string())
    };
    let mut scenario_file =
        ScenarioFile::parse(&text, &read_relative).map_err(|error| in_file(&error))?;
    if scenario_file.name.is_empty() && !is_stdin {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        scenario_file.name = one_line(&stem).into_owned();
    }
    Ok(scenario_file)
}
