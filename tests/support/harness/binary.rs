//! The binary under test.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use tokio::process::Command;

/// Path of the `hpa` binary: `HPA_BINARY`; else, in a suite of crate `hpa`, the one that cargo
/// built for it; else the one in the target directory of the test executable.
///
/// # Panics
/// If the binary in the target directory is missing, or older than one of its sources. Tests don't
/// build it: that would take minutes, and might use another profile or other features.
pub fn hpa_binary() -> PathBuf {
    let mut configured = ["HPA_BINARY", "CARGO_BIN_EXE_hpa"].into_iter().filter_map(env::var_os);
    if let Some(path) = configured.find(|path| !path.is_empty()) {
        return PathBuf::from(path);
    }
    // target/<profile directory>/deps/<test executable>
    let exe = env::current_exe().expect("path of the test executable");
    let dir = exe.parent().and_then(Path::parent).expect("a target directory");
    let binary = dir.join(format!("hpa{}", env::consts::EXE_SUFFIX));
    let build = "build it (cargo build --workspace --bin hpa), or set HPA_BINARY";
    match newer_source(&binary, &dir.join("hpa.d")) {
        Ok(None) => binary,
        Ok(Some(source)) => {
            panic!("{} is older than {}: {build}", binary.display(), source.display())
        }
        Err(error) => panic!("{}: {error}: {build}", binary.display()),
    }
}

/// The command of a program, without the environment variables that `hpa` reads as flags. The
/// caller's settings must not affect the test.
pub fn command_without_hpa_variables(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("HPA_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Returns a source file that is newer than the binary. `dep_info` is the list of sources that
/// `cargo build` writes (`hpa: FILE FILE`). `cargo test` doesn't update the list: it may be
/// missing, or name deleted files, which are ignored.
fn newer_source(binary: &Path, dep_info: &Path) -> std::io::Result<Option<PathBuf>> {
    let built = fs::metadata(binary)?.modified()?;
    let Ok(list) = fs::read_to_string(dep_info) else { return Ok(None) };
    // Spaces in names are escaped.
    let list = list.replace("\\ ", "\0");
    let files = list.split_ascii_whitespace().skip(1).map(|file| file.replace('\0', " "));
    let is_newer = |file: &PathBuf| {
        let modified = fs::metadata(file).and_then(|file| file.modified());
        modified.is_ok_and(|modified| modified > built)
    };
    Ok(files.map(PathBuf::from).find(is_newer))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        time::{Duration, SystemTime},
    };

    use super::*;

    #[test]
    fn binary_must_be_newer_than_its_sources() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let start = SystemTime::now();
        let touch = |name: &str, seconds: u64| {
            let file = File::create(path(name)).expect("a file");
            file.set_modified(start + Duration::from_secs(seconds)).expect("its time");
        };
        let newer = || newer_source(&path("hpa"), &path("hpa.d")).expect("files");
        let escaped = path("other source.rs").display().to_string().replace(' ', "\\ ");
        let list =
            format!("{}: {} {escaped}\n", path("hpa").display(), path("source.rs").display());
        fs::write(path("hpa.d"), list).expect("a list");
        touch("source.rs", 0);
        touch("other source.rs", 2);
        touch("hpa", 2);
        assert_eq!(newer(), None);
        touch("other source.rs", 3);
        assert_eq!(newer(), Some(path("other source.rs")));
        fs::remove_file(path("other source.rs")).expect("removed");
        assert_eq!(newer(), None);
        fs::remove_file(path("hpa.d")).expect("removed");
        assert_eq!(newer(), None);
        fs::remove_file(path("hpa")).expect("removed");
        assert!(newer_source(&path("hpa"), &path("hpa.d")).is_err());
    }
}
