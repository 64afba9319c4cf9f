//! The binary under test.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Path of the `hpa` binary: `HPA_BINARY`, or what cargo has built for a test of that crate, or what
/// it builds in the profile of the running test.
pub fn hpa_binary() -> PathBuf {
    let mut given = ["HPA_BINARY", "CARGO_BIN_EXE_hpa"].into_iter().filter_map(env::var_os);
    if let Some(path) = given.find(|path| !path.is_empty()) {
        return PathBuf::from(path);
    }
    // target/<profile directory>/deps/<test executable>
    let exe = env::current_exe().expect("path of the test executable");
    let dir = exe.parent().and_then(Path::parent).expect("a target directory");
    let profile = match dir.file_name().and_then(|name| name.to_str()) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(env!("CARGO"))
        // The features of `cargo test --workspace`, so that nothing is compiled twice.
        .args(["build", "--quiet", "--workspace", "--bin", "hpa", "--test", "availability"])
        .args(["--profile", profile])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml")])
        .status()
        .expect("cargo runs");
    assert!(status.success(), "cargo build -p hpa: {status}");
    dir.join(format!("hpa{}", env::consts::EXE_SUFFIX))
}
