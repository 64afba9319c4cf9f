//! Where the foreign binaries and the binary under test are.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// The directory that holds `etcd` and `kube-apiserver`: `KUBEBUILDER_ASSETS`, or the newest version in the store of
/// setup-envtest. `Err` says what was looked for.
pub(crate) fn find() -> Result<PathBuf, String> {
    if let Some(dir) = env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) {
        let dir = PathBuf::from(dir);
        return if complete(&dir) {
            Ok(dir)
        } else {
            Err(format!(
                "KUBEBUILDER_ASSETS={} does not hold etcd and kube-apiserver",
                dir.display()
            ))
        };
    }
    let store = store().ok_or("no home directory to look for the store of setup-envtest in")?;
    let suffix = format!("-{}-{}", os(), arch());
    let mut versions: Vec<(Vec<u64>, PathBuf)> = fs::read_dir(&store)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_suffix(&suffix)?;
            let version = version.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some((version, entry.path()))
        })
        .filter(|(_, dir)| complete(dir))
        .collect();
    versions.sort();
    versions.pop().map(|(_, dir)| dir).ok_or_else(|| {
        format!("KUBEBUILDER_ASSETS is not set, and {}/*{suffix} does not exist", store.display())
    })
}

fn complete(dir: &Path) -> bool {
    ["etcd", "kube-apiserver"].iter().all(|name| dir.join(name).is_file())
}

fn store() -> Option<PathBuf> {
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

/// The binary under test: `HPA_BINARY`, or what cargo builds in the profile of this test.
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
