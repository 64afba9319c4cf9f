//! Colors for a terminal.

use std::fmt::Write;

use hpa_calc::{Report, explain::Reason};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const GREEN: &str = "\x1b[1;32m";
const RESET: &str = "\x1b[0m";

/// Colors the first line by the reason of the decision and by a doubt, and makes headings bold.
pub(super) fn color(text: &str, report: &Report) -> String {
    let first_color = match report.reason {
        _ if report.doubt.is_some() => YELLOW,
        Reason::Failed => RED,
        Reason::Metrics | Reason::Stabilization => GREEN,
        _ => YELLOW,
    };
    let mut colored = String::with_capacity(text.len() + 100);
    for (index, line) in text.lines().enumerate() {
        let is_heading = line.starts_with(char::is_uppercase) && !line.ends_with('.');
        // Writing to a string doesn't fail.
        let _ = match index {
            0 => writeln!(colored, "{first_color}{line}{RESET}"),
            _ if is_heading => writeln!(colored, "{BOLD}{line}{RESET}"),
            _ => writeln!(colored, "{line}"),
        };
    }
    colored
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{explain::dump::Dump, manifests::Manifest};

    fn report() -> Report {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let object = json!({
            "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
            "spec": { "scaleTargetRef": target, "maxReplicas": 3 },
        });
        let manifest = Manifest::new("f", 1, object);
        let subject =
            Dump::new(vec![manifest]).subject(None, None, <_>::default(), &<_>::default(), None);
        subject.expect("an autoscaler").inputs.report()
    }

    #[test]
    fn colors_do_not_change_the_text() {
        let report = report();
        let text = report.to_string();
        let colored = color(&text, &report);
        assert!(colored.starts_with(RED) && colored.contains(&format!("{BOLD}Target{RESET}\n")));
        let plain = [BOLD, RED, RESET]
            .into_iter()
            .fold(colored, |colored, escape| colored.replace(escape, ""));
        assert_eq!(plain, text);
    }
}
