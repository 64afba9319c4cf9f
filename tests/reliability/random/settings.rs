//! The settings of an autoscaler, drawn from a seed. Except for the bounds, none of them changes
//! the expected replicas at the end of a run.

use fastrand::Rng;

use crate::targets::{Source, Target};

/// Random settings. Half of the targets have none.
pub(super) fn settings(target: &Target, rng: &mut Rng) -> Vec<(&'static str, &'static str)> {
    if rng.bool() {
        return Vec::new();
    }
    let mut drawn = Vec::new();
    for (name, values) in applicable(target) {
        let value = values[rng.usize(..values.len())];
        if rng.u8(..3) == 0 {
            drawn.push((name, value));
        }
    }
    drawn
}

/// The settings that apply to a target, with values.
fn applicable(target: &Target) -> Vec<(&'static str, &'static [&'static str])> {
    let mut all: Vec<(_, &[_])> = vec![
        ("pause", &["false"]),
        ("sync-period", &["5s", "10s", "14s"]),
        ("pods", &["owned", "selected"]),
        ("rollout", &["ignore-surge", "count-surge"]),
        ("tolerance", &["0", "0.05"]),
        ("downscale-stabilization", &["15s", "30s"]),
        ("max-sample-age", &["3m"]),
    ];
    if target.can_scale_to_zero {
        all.push(("zero-after", &["10s", "45s"]));
    } else {
        all.push(("bounds", &[ALL_DAY]));
    }
    match target.source {
        Source::Cpu => all.extend([
            ("cpu-initialization-period", &["20s", "10m"] as &[_]),
            ("initial-readiness-delay", &["5s", "1m"]),
            ("requests", &["actual"]),
            ("missing-requests", &["skip-pod"]),
            ("aggregate", &["p95", "max"]),
        ]),
        Source::Pods => {
            all.extend([("fallback", &[CURRENT] as &[_]), ("aggregate", &["p90", "p99"])]);
        }
        Source::External => all.extend([("fallback", &[CURRENT] as &[_]), ("activation", &["5"])]),
    }
    all
}

/// A schedule whose bounds apply at all times.
const ALL_DAY: &str = r#"[{"start": "00:00", "end": "00:00", "minReplicas": 2, "maxReplicas": 6}]"#;
/// A fallback that keeps the current replicas.
const CURRENT: &str =
    r#"{"replicas": 1, "failureDurationSeconds": 30, "behavior": "currentReplicas"}"#;
