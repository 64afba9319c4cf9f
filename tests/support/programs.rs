//! Optional programs of tests.
//!
//! If a program is missing, its test calls [`skip`], which reports the test as skipped, or fails if
//! `HPA_REQUIRE` names the program. Crates on which this library depends include this file.

use std::{env, fmt::Display};

/// The names in `HPA_REQUIRE`, which are separated by commas. `address` is an address of this
/// machine that is not loopback, `axe` the file in `AXE_CORE`.
const NAMES: [&str; 11] = [
    "address",
    "axe",
    "chromium",
    "helm",
    "kube-apiserver",
    "kube-controller-manager",
    "kubectl",
    "moto",
    "prometheus",
    "prometheus-adapter",
    "promtool",
];
/// Names that only scripts use.
const NAMES_OF_SCRIPTS: [&str; 9] = [
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

/// Reports that tests are skipped because a program is missing. The reason contains the searched
/// location.
///
/// # Panics
///
/// If `HPA_REQUIRE` names the program, or a program that nothing uses.
#[allow(clippy::panic, clippy::print_stdout, reason = "ends a test, or reports that it ended")]
pub fn skip(program: &str, reason: impl Display) {
    let required = env::var("HPA_REQUIRE").unwrap_or_default();
    match check(&required, program) {
        Ok(()) => println!("skipped: {program}: {reason}"),
        Err(error) => panic!("{error}: {reason}"),
    }
}

fn check(required: &str, program: &str) -> Result<(), String> {
    assert!(NAMES.contains(&program), "{program} is not listed");
    let names = required.split(',').map(str::trim).filter(|name| !name.is_empty());
    for name in names {
        if name == program {
            return Err(format!("HPA_REQUIRE names {program}, which is missing"));
        }
        if !NAMES.contains(&name) && !NAMES_OF_SCRIPTS.contains(&name) {
            return Err(format!("HPA_REQUIRE names {name}, which no test uses"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn required_program_must_not_be_missing() {
        assert_eq!(check("", "helm"), Ok(()));
        assert_eq!(check("kubectl, prometheus,", "helm"), Ok(()));
        let required = "HPA_REQUIRE names helm, which is missing".to_owned();
        assert_eq!(check("kubectl, helm", "helm"), Err(required));
    }

    #[test]
    fn misspelled_name_in_the_variable_fails() {
        assert_eq!(check("shellcheck", "helm"), Ok(()));
        let unknown = "HPA_REQUIRE names kubeapiserver, which no test uses".to_owned();
        assert_eq!(check("kubeapiserver", "kube-apiserver"), Err(unknown));
    }
}
