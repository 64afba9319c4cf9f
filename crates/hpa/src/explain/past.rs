//! Formats the past decisions in the controller's record of an autoscaler.

use std::fmt::Write;

use hpa_controller::debug::{AutoscalerDetail, RunDocument};
use jiff::{Timestamp, tz::TimeZone};

use crate::terminal::escape_line;

/// Formats past decisions, with one line for each run of decisions with the same outcome. `source`
/// is the pod or the URL that has them.
pub(super) fn format_past(
    detail: &AutoscalerDetail,
    source: Option<&str>,
    since: Timestamp,
) -> String {
    let source = source.map(|source| format!(", from {}", escape_line(source)));
    let mut text = format!("Earlier decisions (times are UTC){}\n", source.unwrap_or_default());
    let recent: Vec<&RunDocument> = detail.runs.iter().filter(|run| run.until >= since).collect();
    // Writing to a string doesn't fail.
    let _ = match recent.first() {
        None => writeln!(text, "  the controller has recorded no decision since {}", time(since)),
        Some(first) if first.from > since => {
            writeln!(text, "  decisions before {} are not recorded", time(first.from))
        }
        Some(_) => Ok(()),
    };
    for run in recent {
        let _ = writeln!(text, "  {}", escape_line(&format_run(run)));
    }
    text
}

fn format_run(run: &RunDocument) -> String {
    let RunDocument { from, until, count, decision, .. } = run;
    let (action, sentence) = (decision.action(), &decision.sentence);
    match count {
        0 | 1 => format!("{}  {action}: {sentence}", time(*from)),
        count => {
            let (from, until) = (time(*from), time(*until));
            format!("{from} to {until}  {action} ({count} decisions); last: {sentence}")
        }
    }
}

fn time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A document with decisions at 12:00 to 12:10, at 12:10:15, and at 12:10:30.
    fn detail() -> AutoscalerDetail {
        let decision = |current: Option<i32>, to: Option<i32>, sentence: &str| {
            json!({
                "currentReplicas": current, "desiredReplicas": current, "scaledTo": to,
                "proposedReplicas": current, "reason": "metrics", "sentence": sentence,
                "error": null,
            })
        };
        let at = |time: &str| format!("2026-01-31T{time}Z");
        let runs = json!([
            { "from": at("12:00:00"), "until": at("12:10:00"), "count": 41,
              "decision": decision(Some(4), None, "cpu is at 60%, target 60%") },
            { "from": at("12:10:15"), "until": at("12:10:15"), "count": 1,
              "decision": decision(Some(4), Some(6), "cpu is at 90%, target 60%") },
            { "from": at("12:10:30"), "until": at("12:10:30"), "count": 1,
              "decision": decision(None, None, "the scale can't be read") },
        ]);
        serde_json::from_value(json!({
            "apiVersion": "debug.hpa-rs.dev/v1", "kind": "AutoscalerDetail",
            "now": at("12:10:31"), "history": null, "runs": runs, "metricNames": [],
            "samples": [],
            "autoscaler": {
                "api": "core", "namespace": "shop", "name": "web", "uid": "u",
                "isFailing": false, "lastReconcileSecondsAgo": null, "nextDueInSeconds": null,
                "last": null,
            },
            "settings": {
                "tolerance": 0.1, "downscaleStabilizationSeconds": 300.0,
                "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
                "scaleToZero": true,
            },
        }))
        .expect("a document")
    }

    fn since(time: &str) -> String {
        format_past(&detail(), None, format!("2026-01-31T{time}Z").parse().expect("a time"))
    }

    #[test]
    fn each_run_is_a_line_and_gaps_in_the_records_are_reported() {
        assert_eq!(
            since("11:30:00"),
            "Earlier decisions (times are UTC)\n\
             \x20 decisions before 2026-01-31 12:00:00 are not recorded\n\
             \x20 2026-01-31 12:00:00 to 2026-01-31 12:10:00  stays at 4 (41 decisions); last: \
             cpu is at 60%, target 60%\n\
             \x20 2026-01-31 12:10:15  scales from 4 to 6: cpu is at 90%, target 60%\n\
             \x20 2026-01-31 12:10:30  can't decide: the scale can't be read\n"
        );
    }

    #[test]
    fn source_of_the_decisions_is_named() {
        let text = format_past(&detail(), Some("pod eve/fake-0"), Timestamp::UNIX_EPOCH);
        let first = "Earlier decisions (times are UTC), from pod eve/fake-0\n";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn only_recent_runs_are_lines() {
        let text = since("12:10:20");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains("before 2026-01-31 12:10:30 are not recorded"), "{text}");
        let text = since("12:05:00");
        assert!(text.contains("41 decisions") && !text.contains("not recorded"), "{text}");
        let text = since("13:00:00");
        assert!(text.ends_with("no decision since 2026-01-31 13:00:00\n"), "{text}");
    }
}
