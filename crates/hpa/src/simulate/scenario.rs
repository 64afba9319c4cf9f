//! Reads scenario files.

use std::{fs, io::Read as _, path::Path};

use anyhow::{Context, anyhow};
use hpa_simulate::{Study, StudyError};

/// The maximum size of a file, in bytes.
const MAX_FILE_SIZE: u64 = 16 << 20;

/// Reads a scenario and the files that it refers to, whose paths are relative to the scenario.
pub(crate) fn load(file: &Path) -> anyhow::Result<Study> {
    let is_stdin = file == Path::new("-");
    let folder = if is_stdin { Path::new("") } else { file.parent().unwrap_or(Path::new("")) };
    let text = if is_stdin {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("unable to read standard input")?;
        text
    } else {
        read(file).map_err(|error| anyhow!("{}: {error}", file.display()))?
    };
    let read_beside = |name: &str| read(&folder.join(name));
    Study::parse(&text, &read_beside).map_err(|error| describe(file, &error))
}

fn read(file: &Path) -> Result<String, String> {
    let size = fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > MAX_FILE_SIZE {
        return Err(format!("larger than {MAX_FILE_SIZE} bytes"));
    }
    fs::read_to_string(file).map_err(|error| error.to_string())
}

/// Adds the file to an error, and the cause of invalid samples. Other texts contain their cause.
fn describe(file: &Path, error: &StudyError) -> anyhow::Error {
    let cause = match error {
        StudyError::Samples { source, .. } => {
            let problem = std::error::Error::source(source);
            problem.map_or_else(|| format!(": {source}"), |inner| format!(": {source}: {inner}"))
        }
        _ => String::new(),
    };
    anyhow!("{}: {error}{cause}", file.display())
}
