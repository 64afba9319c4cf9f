//! The pages of autoscalers' annotations and of the rules of `hpa lint`.

use hpa_calc::settings::{DOMAIN, SETTINGS};

use super::{Page, code, lint};

pub(super) fn annotations() -> Page {
    let mut page = Page::new(
        "annotations.md",
        "Annotations",
        "The annotations of autoscalers that `hpa` reads, except those of \
         [collectors](../collectors.md#annotations). [Settings](../settings.md) explains each.",
    );
    page.start_table(None, &["annotation", "values", "default", ""]);
    for setting in SETTINGS {
        let name = format!("{DOMAIN}/{}", setting.name);
        let values = setting.expected();
        page.add_row(&[&code(&name), &values, setting.default, setting.summary]);
        page.names.push(format!("{DOMAIN} {}", setting.name));
    }
    page
}

pub(super) fn lint_rules() -> Page {
    let mut page =
        Page::new("lint-rules.md", "Rules of hpa lint", "[Lint](../lint.md) explains each rule.");
    page.start_table(None, &["rule", "severity", "reported if"]);
    for [id, severity, summary] in lint::all_rules() {
        page.add_row(&[&format!("[{id}](../lint.md#{id})"), severity, summary]);
        page.names.push(id.to_owned());
    }
    page
}
