//! Locates the binaries of the control plane.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;

use crate::programs;

/// The error of [`find`]. Its message names the searched location.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    #[error("KUBEBUILDER_ASSETS={} does not contain etcd and kube-apiserver", .0.display())]
    IncompleteDirectory(PathBuf),
    #[error("no home directory, so the store of setup-envtest can't be located")]
    NoHome,
    #[error("KUBEBUILDER_ASSETS is not set, and {pattern} does not exist")]
    EmptyStore { pattern: String },
}

/// Returns the directory with `etcd` and `kube-apiserver`: `KUBEBUILDER_ASSETS`, or the newest
/// version in the store of setup-envtest if the variable is not set.
pub fn find() -> Result<PathBuf, NotFound> {
    if let Some(dir) = env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
        let dir = PathBuf::from(dir);
        return if is_complete(&dir) { Ok(dir) } else { Err(NotFound::IncompleteDirectory(dir)) };
    }
    newest(&setup_envtest_store().ok_or(NotFound::NoHome)?)
}

/// Like [`find`]. If a binary is missing, reports the test as skipped and returns `None`.
///
/// # Panics
/// As [`programs::skip`].
pub fn find_or_skip() -> Option<PathBuf> {
    find().map_err(|missing| programs::skip("kube-apiserver", missing)).ok()
}

/// The minor version of the kube-apiserver in a directory, for example 36 for 1.36.2.
///
/// # Errors
/// If kube-apiserver doesn't run, or prints no version.
pub fn minor_version(dir: &Path) -> anyhow::Result<u32> {
    let output = Command::new(dir.join("kube-apiserver")).arg("--version").output()?;
    // `Kubernetes v1.36.2`
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse().ok());
    minor.with_context(|| format!("kube-apiserver --version prints {text:?}"))
}

/// Returns the newest version in a store, whose directories are named `VERSION-OS-ARCHITECTURE`.
fn newest(store: &Path) -> Result<PathBuf, NotFound> {
    let suffix = format!("-{}-{}", os(), arch());
    let version = |dir: &Path| -> Option<Vec<u64>> {
        let version = dir.file_name()?.to_str()?.strip_suffix(&suffix)?;
        version.split('.').map(|part| part.parse().ok()).collect()
    };
    fs::read_dir(store)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|dir| is_complete(dir))
        .filter_map(|dir| Some((version(&dir)?, dir)))
        .max()
        .map(|(_, dir)| dir)
        .ok_or_else(|| NotFound::EmptyStore { pattern: format!("{}/*{suffix}", store.display()) })
}

fn is_complete(dir: &Path) -> bool {
    ["etcd", "kube-apiserver"].iter().all(|name| dir.join(name).is_file())
}

fn setup_envtest_store() -> Option<PathBuf> {
    let home = env::home_dir();
    let data = if cfg!(target_os = "macos") {
        home?.join("Library/Application Support")
    } else {
        match env::var_os("XDG_DATA_HOME").filter(|dir| !dir.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => home?.join(".local/share"),
        }
    };
    Some(data.join("kubebuilder-envtest/k8s"))
}

fn os() -> &'static str {
    if cfg!(target_os = "macos") { "darwin" } else { "linux" }
}

fn arch() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a failed setup fails the test")]

    use super::*;

    #[test]
    fn newest_complete_version_is_found() {
        let store = tempfile::tempdir().expect("a directory");
        let missing = newest(store.path()).expect_err("the store is empty").to_string();
        assert!(missing.ends_with(&format!("/*-{}-{} does not exist", os(), arch())), "{missing}");
        for (version, files) in [
            ("1.9.3", &["etcd", "kube-apiserver"][..]),
            ("1.36.2", &["etcd", "kube-apiserver", "kubectl"]),
            ("1.37.0", &["kubectl"]),
            ("latest", &["etcd", "kube-apiserver"]),
        ] {
            let dir = store.path().join(format!("{version}-{}-{}", os(), arch()));
            fs::create_dir(&dir).expect("a directory");
            for file in files {
                fs::write(dir.join(file), "").expect("a file");
            }
        }
        let expected = store.path().join(format!("1.36.2-{}-{}", os(), arch()));
        assert_eq!(newest(store.path()).expect("a version"), expected);
    }
}
