//! Passes the git revision and its date to `hpa version`.
//!
//! `HPA_GIT_REVISION` and `SOURCE_DATE_EPOCH` take precedence over git, for builds without the
//! repository. The date is never the time of the build: builds must be reproducible.

use std::{env, path::Path, process::Command};

fn main() {
    for name in ["HPA_GIT_REVISION", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    // An archive that is unpacked in the repository of another project has another prefix.
    let is_repository = git(&["rev-parse", "--show-prefix"]).as_deref() == Some("crates/hpa/");
    let (mut revision, mut seconds) = (variable("HPA_GIT_REVISION"), variable("SOURCE_DATE_EPOCH"));
    if is_repository {
        watch_head();
        revision = revision.or_else(|| git(&["rev-parse", "HEAD"]));
        seconds = seconds.or_else(|| git(&["log", "-1", "--format=%ct"]));
    }
    println!("cargo::rustc-env=HPA_GIT_REVISION={}", revision.unwrap_or_default());
    println!("cargo::rustc-env=HPA_SOURCE_SECONDS={}", seconds.unwrap_or_default());
}

/// Makes cargo run this script again when HEAD changes. A missing file must not be watched, because
/// cargo would then run the script on every build.
fn watch_head() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref());
    for path in names.filter_map(|name| git(&["rev-parse", "--git-path", name])) {
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The output of git, or `None` if it fails or isn't installed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim_end().to_owned()).filter(|text| !text.is_empty())
}
