//! Annotations, from the constants in the sources, and the rules of `hpa lint`.

use std::{fs, path::Path};

use super::{Page, code, lint, repository};

const DOMAIN: &str = "autoscaling.hpa-rs.dev/";

/// The constants with a name of an annotation, and their documentation.
pub(super) fn annotations() -> Page {
    let mut page = Page::new(
        "annotations.md",
        "Annotations",
        "The annotations of autoscalers that `hpa` reads, besides those of \
         [collectors](../collectors.md#annotations).",
    );
    page.table(None, &["annotation", ""]);
    let mut found = Vec::new();
    let mut files = Vec::new();
    collect(&repository("crates/controller/src"), &mut files);
    collect(&repository("crates/calc/src"), &mut files);
    for file in files {
        constants(&fs::read_to_string(&file).expect("a source file"), &mut found);
    }
    found.sort_unstable();
    for (name, documentation) in found {
        page.row(&[&code(&name), &documentation]);
        page.names.push(name);
    }
    page
}

pub(super) fn lint_rules() -> Page {
    let mut page =
        Page::new("lint-rules.md", "Rules of hpa lint", "[Lint](../lint.md) explains each rule.");
    page.table(None, &["rule", "severity", "reported if"]);
    for [id, severity, summary] in lint::all_rules() {
        page.row(&[&format!("[{id}](../lint.md#{id})"), severity, summary]);
        page.names.push(id.to_owned());
    }
    page
}

fn collect(directory: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The public constants whose value is an annotation.
fn constants(source: &str, found: &mut Vec<(String, String)>) {
    let mut documentation = Vec::new();
    for line in source.lines() {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("/// ") {
            documentation.push(text);
            continue;
        }
        let value = line.split_once(": &str = \"").and_then(|(_, rest)| rest.strip_suffix("\";"));
        if let Some(name) = value.filter(|value| {
            line.starts_with("pub") && value.starts_with(DOMAIN) && !value.ends_with("/v2")
        }) {
            let text = documentation.join(" ").replace("[`", "`").replace("`]", "`");
            found.push((name.to_owned(), text.replace("crate::", "")));
        }
        documentation.clear();
    }
}
