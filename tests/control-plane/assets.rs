//! Builds the binary under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Returns the binary under test: `HPA_BINARY`, or else what cargo builds in the profile of this
/// test.
pub(crate) fn controller() -> Result<PathBuf> {
    if let Some(path) = env::var_os("HPA_BINARY").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(path));
    }
    // target/<profile dir>/deps/<this test>
    let exe = env::current_exe()?;
    let dir =
        exe.parent().and_then(Path::parent).context("the test is not in a target directory")?;
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "hpa", "--bin", "hpa", "--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")])
        .status()?;
    ensure!(status.success(), "cargo build -p hpa: {status}");
    Ok(dir.join(format!("hpa{}", env::consts::EXE_SUFFIX)))
}
