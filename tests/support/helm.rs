//! Locates helm.

use std::{env, path::PathBuf};

use anyhow::{Context as _, Result, ensure};

/// The paths in `HELM` (separated by colons), or else the path of helm in `PATH`.
///
/// # Errors
/// If a path in `HELM` is not a file, or if `HELM` is not set and there is no helm in `PATH`.
pub fn find_all() -> Result<Vec<PathBuf>> {
    let Some(paths) = env::var_os("HELM").filter(|paths| !paths.is_empty()) else {
        let helm = crate::find_in_path("helm");
        return Ok(vec![helm.context("HELM is not set, and there is no helm in PATH")?]);
    };
    let paths: Vec<PathBuf> = env::split_paths(&paths).collect();
    for path in &paths {
        ensure!(path.is_file(), "HELM names {}, which is not a file", path.display());
    }
    Ok(paths)
}

/// The first path of [`find_all`].
///
/// # Errors
/// As [`find_all`].
pub fn find() -> Result<PathBuf> {
    find_all()?.into_iter().next().context("HELM names no path")
}
