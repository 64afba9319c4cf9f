//! Compares the public names with those of the last release.

use std::{collections::BTreeSet, fs};

use super::{pages, read_file, repository_path};

/// The file with the names of the last release. A release replaces it (RELEASING.md).
const RELEASED_NAMES_FILE: &str = "release/interface.txt";
/// If this environment variable is set, the test writes the names of this version to the file.
const UPDATE_VARIABLE: &str = "UPDATE_INTERFACE";

/// The names that were added or removed since the release, and that the section Unreleased of the
/// changelog doesn't mention.
fn unmentioned_changes(released: &str, current: &BTreeSet<String>, changelog: &str) -> Vec<String> {
    let unreleased = changelog.split("\n## ").nth(1).unwrap_or_default();
    let released: BTreeSet<String> = released.lines().map(ToOwned::to_owned).collect();
    let added = current.difference(&released).map(|name| ("added", name));
    let removed = released.difference(current).map(|name| ("removed", name));
    let mut unmentioned = Vec::new();
    for (change, name) in added.chain(removed) {
        // The last word of a name is, for example, the flag, metric or path. The changelog must
        // have it in backquotes.
        let word = name.rsplit(' ').next().unwrap_or(name);
        let is_mentioned = unreleased
            .split('`')
            .skip(1)
            .step_by(2)
            .flat_map(str::split_whitespace)
            .any(|mentioned| mentioned.trim_end_matches([',', ':', '.']) == word);
        if !is_mentioned {
            unmentioned.push(format!("{change}: {name}"));
        }
    }
    unmentioned
}

#[tokio::test]
async fn changes_since_the_last_release_are_in_the_changelog() {
    let mut current = BTreeSet::new();
    for page in pages().await {
        let kind = page.file.trim_end_matches(".md");
        current.extend(page.names.iter().map(|name| format!("{kind}: {name}")));
    }
    assert!(current.len() > 500, "{current:?}");
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        let lines: Vec<&str> = current.iter().map(String::as_str).collect();
        fs::write(repository_path(RELEASED_NAMES_FILE), lines.join("\n") + "\n").expect("a file");
    }
    let missing =
        unmentioned_changes(&read_file(RELEASED_NAMES_FILE), &current, &read_file("CHANGELOG.md"));
    assert!(
        missing.is_empty(),
        "CHANGELOG.md, section Unreleased, has no line about:\n  {}",
        missing.join("\n  ")
    );
}

#[test]
fn change_of_the_interface_needs_a_line_in_the_changelog() {
    let released = "flags: hpa run --old\nflags: hpa run --same\n";
    let current =
        BTreeSet::from(["flags: hpa run --new".to_owned(), "flags: hpa run --same".to_owned()]);
    let without_both =
        "# Changelog\n\n## Unreleased\n\n- `--older` and --old, --new\n\n## 0.1.0\n\n- `--new`\n";
    assert_eq!(
        unmentioned_changes(released, &current, without_both),
        ["added: flags: hpa run --new", "removed: flags: hpa run --old"]
    );
    let with_both = "# Changelog\n\n## Unreleased\n\n- `hpa run --new`, instead of `--old`\n";
    assert_eq!(unmentioned_changes(released, &current, with_both), [""; 0]);
}
