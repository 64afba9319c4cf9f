//! Programs that a test needs, and that may be missing.
//!
//! If a program is missing, its test calls [`skip`], which reports the test as skipped, or fails if
//! `HPA_REQUIRE` names the program. Some crates include this file by its path, because this library
//! depends on them.

use std::{env, fmt::Display};

/// The names that `HPA_REQUIRE` may contain, separated by commas. Two are not programs: `address`
/// is a non-loopback address of this machine, and `axe` the file that `AXE_CORE` names.
const TEST_PROGRAMS: [&str; 12] = [
    "address",
    "axe",
    "chromium",
    "etcd",
    "helm",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "moto",
    "prometheus",
    "prometheus-adapter",
    "promtool",
];
/// Further names that `HPA_REQUIRE` may contain. Scripts use them, and no test does.
const SCRIPT_PROGRAMS: [&str; 9] = [
    "actionlint",
    "buildah",
    "cargo-cyclonedx",
    "cargo-deny",
    "compiler",
    "mdbook",
    "qemu",
    "shellcheck",
    "target",
];

/// Reports that tests are skipped because a program is missing. `reason` names the searched
/// location.
///
/// # Panics
///
/// If `HPA_REQUIRE` names the program, or contains a name that is in neither list, or if `program`
/// is not in `TEST_PROGRAMS`.
#[allow(clippy::panic, clippy::print_stdout, reason = "ends a test, or reports that it ended")]
pub fn skip(program: &str, reason: impl Display) {
    let required = env::var("HPA_REQUIRE").unwrap_or_default();
    match check_required(&required, program) {
        Ok(()) => println!("skipped: {program}: {reason}"),
        Err(error) => panic!("{error}: {reason}"),
    }
}

fn check_required(required: &str, program: &str) -> Result<(), String> {
    assert!(TEST_PROGRAMS.contains(&program), "{program} is not listed");
    let names = required.split(',').map(str::trim).filter(|name| !name.is_empty());
    for name in names {
        if name == program {
            return Err(format!("HPA_REQUIRE names {program}, which is missing"));
        }
        if !TEST_PROGRAMS.contains(&name) && !SCRIPT_PROGRAMS.contains(&name) {
            return Err(format!("HPA_REQUIRE contains the unknown name {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_required;

    #[test]
    fn missing_program_fails_if_required() {
        assert_eq!(check_required("", "helm"), Ok(()));
        assert_eq!(check_required("kubectl, prometheus,", "helm"), Ok(()));
        let required = "HPA_REQUIRE names helm, which is missing".to_owned();
        assert_eq!(check_required("kubectl, helm", "helm"), Err(required));
    }

    #[test]
    fn unknown_name_in_hpa_require_fails() {
        assert_eq!(check_required("shellcheck", "helm"), Ok(()));
        let unknown = "HPA_REQUIRE contains the unknown name kubeapiserver".to_owned();
        assert_eq!(check_required("kubeapiserver", "kube-apiserver"), Err(unknown));
    }
}
