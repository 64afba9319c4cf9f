//! `/healthz`, `/livez` and `/readyz`.

use std::fmt::Write;

use crate::metrics_api::Query;

use crate::response::{Reply, text};

/// A check of an endpoint.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// The problems of a check that failed.
    pub(crate) outcome: Result<(), Vec<String>>,
}

/// The response of an endpoint: `ok`, or what failed. `?verbose` lists all checks, `?exclude=NAME`
/// leaves one out.
pub(crate) fn respond(endpoint: &str, checks: &[Check], query: &Query) -> Reply {
    let mut lines = String::new();
    let mut failed = false;
    for Check { name, outcome } in checks {
        let line = match outcome {
            _ if query.get("exclude") == Some(name) => format!("[+]{name} excluded: ok"),
            Ok(()) => format!("[+]{name} ok"),
            Err(problems) => {
                failed = true;
                format!("[-]{name} failed: {}", problems.join("; "))
            }
        };
        // Writing to a string can't fail.
        writeln!(lines, "{line}").ok();
    }
    if failed {
        text(500, format!("{lines}{endpoint} check failed\n"))
    } else if query.get("verbose").is_some() {
        text(200, format!("{lines}{endpoint} check passed\n"))
    } else {
        text(200, "ok")
    }
}
