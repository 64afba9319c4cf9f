//! The plan of a run, drawn from a seed.

use std::{fmt, time::Duration};

use fastrand::Rng;
use hpa_testbed::{Effect, Fault, Match};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{CONTROLLER, FAULTS_END};
use crate::{MAX, PERIOD, WINDOW, cluster::TARGETS};

/// When loads and users change things, in seconds.
pub(super) const BUSY: [u64; 2] = [60, 240];

#[derive(Clone, Debug)]
pub(super) enum Step {
    Load(&'static str, i64),
    Scale(&'static str, i64),
    Max(&'static str, i64),
    Min(&'static str, i64),
    /// Changes an annotation of the target.
    Touch(&'static str),
    RecreateAutoscaler(&'static str),
    RecreateTarget(&'static str, i64),
    Kill,
    Stop,
    Start,
    RestartApi(Duration),
    Compact,
    Skew(SignedDuration),
}

pub(super) struct Plan {
    pub(super) seed: u64,
    /// Part of both runs.
    pub(super) common_steps: Vec<(Duration, Step)>,
    /// Part of the run with faults only.
    pub(super) incidents: Vec<(Duration, Step)>,
    pub(super) faults: Vec<Fault>,
}

impl Plan {
    pub(super) fn recreates_autoscaler(&self, name: &str) -> bool {
        self.common_steps
            .iter()
            .any(|(_, step)| matches!(step, Step::RecreateAutoscaler(of) if *of == name))
    }

    /// Whether a controller starts during the run. It stabilizes what it finds for a window, and
    /// faults may delay that until they end.
    pub(super) fn has_restart(&self) -> bool {
        self.incidents.iter().any(|(_, step)| matches!(step, Step::Start))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, steps) in [("step", &self.common_steps), ("incident", &self.incidents)] {
            for (at, step) in steps {
                writeln!(f, "  {what} at {at:?}: {step:?}")?;
            }
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "  {fault:?}"))
    }
}

pub(super) fn plan(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let mut common_steps = Vec::new();
    for _ in 0..rng.usize(3..12) {
        common_steps.push((at(&mut rng, BUSY), change(&mut rng)));
    }
    let mut incidents = Vec::new();
    for _ in 0..rng.usize(0..3) {
        incidents.extend(incident(&mut rng));
    }
    let faults = (0..rng.usize(1..7)).map(|_| fault(&mut rng)).collect();
    common_steps.sort_by_key(|(at, _)| *at);
    incidents.sort_by_key(|(at, _)| *at);
    Plan { seed, common_steps, incidents, faults }
}

fn at(rng: &mut Rng, [from, to]: [u64; 2]) -> Duration {
    Duration::from_millis(rng.u64(from * 1000..to * 1000))
}

fn change(rng: &mut Rng) -> Step {
    let name = TARGETS[rng.usize(..TARGETS.len())];
    let max = i64::from(MAX);
    match rng.u8(..16) {
        0..8 => Step::Load(name, rng.i64(i64::from(name != "jobs")..=max)),
        8 => Step::Max(name, rng.i64(4..=max)),
        9 => Step::Min(name, rng.i64(1..=3)),
        10 => Step::RecreateAutoscaler(name),
        11 => Step::RecreateTarget(name, rng.i64(1..=max)),
        12 => Step::Touch(name),
        // For an autoscaler that scales to zero, a race decides whether a zero set by a user is a
        // pause.
        _ => Step::Scale(name, rng.i64(i64::from(name == "jobs")..=max)),
    }
}

/// Incidents beyond single requests.
fn incident(rng: &mut Rng) -> Vec<(Duration, Step)> {
    // A new controller stabilizes what it finds for a window.
    let last_start = FAULTS_END.as_secs() - WINDOW.as_secs() - 2 * PERIOD.as_secs();
    let begin = at(rng, [BUSY[0], last_start - 60]);
    match rng.u8(..5) {
        0 => {
            let end = if rng.bool() { Step::Kill } else { Step::Stop };
            vec![(begin, end), (begin + Duration::from_millis(rng.u64(..60_000)), Step::Start)]
        }
        1 => vec![(begin, Step::RestartApi(Duration::from_millis(rng.u64(..45_000))))],
        2 => vec![(begin, Step::Compact)],
        _ => {
            let skew = SignedDuration::from_secs(rng.i64(-4000..4000));
            let end = begin + Duration::from_secs(rng.u64(1..90));
            vec![(begin, Step::Skew(skew)), (end, Step::Skew(SignedDuration::ZERO))]
        }
    }
}

/// A temporary fault that affects the controller only.
fn fault(rng: &mut Rng) -> Fault {
    let (matching, effect) = match rng.u8(..10) {
        0..5 => (request(rng), failure(rng)),
        5 => (watches(rng), broken_watch(rng)),
        6 | 7 => malformed(rng),
        8 => {
            let groups = [
                "metrics.k8s.io",
                "custom.metrics.k8s.io",
                "external.metrics.k8s.io",
                "apps",
                "autoscaling",
            ];
            (
                Match::any(),
                Effect::MissingGroup { group: groups[rng.usize(..groups.len())].to_owned() },
            )
        }
        // A single object is never stale: an API server reads it from etcd, or waits for its cache.
        _ => (Match::verb("list"), Effect::Stale { revisions: rng.u64(1..20) }),
    };
    let from = at(rng, [BUSY[0], FAULTS_END.as_secs() - 1]);
    // Recommendations from a part of the metrics stay in the stabilization window.
    let affects_window = matches!(effect, Effect::Malformed { .. });
    let from = if affects_window { from.min(FAULTS_END.saturating_sub(2 * WINDOW)) } else { from };
    let latest = if affects_window { FAULTS_END.saturating_sub(WINDOW) } else { FAULTS_END };
    let until = (from + Duration::from_millis(rng.u64(1..150_000))).min(latest);
    let trigger = Fault::on(matching.client(CONTROLLER)).from(from).until(until);
    let trigger = match rng.u8(..5) {
        0 => trigger.probability(rng.f64()),
        1 => trigger.first(rng.u64(1..6)),
        2 => trigger.every(rng.u64(2..5)),
        3 => trigger.nth(rng.u64(1..8)),
        _ => trigger,
    };
    trigger.effect(effect)
}

fn request(rng: &mut Rng) -> Match {
    let scale = |verb| Match::verb(verb).subresource("scale");
    let of = |resource, verb| Match::verb(verb).resource(resource);
    match rng.u8(..12) {
        0 => Match::any(),
        1 => scale("get"),
        2 | 3 => scale("update"),
        4 => of("horizontalpodautoscalers", "get"),
        5 | 6 => of("horizontalpodautoscalers", "patch"),
        7 => of("horizontalpodautoscalers", "list"),
        8 => Match::verb("list").group("").resource("pods"),
        9 => Match::any().group("metrics.k8s.io"),
        10 => Match::any().group("custom.metrics.k8s.io"),
        _ => Match::any().group("external.metrics.k8s.io"),
    }
}

fn failure(rng: &mut Rng) -> Effect {
    match rng.u8(..14) {
        0 => Effect::Conflict,
        1 => Effect::Expired,
        2 => Effect::TooManyRequests { retry_after_seconds: rng.bool().then(|| rng.u32(..20)) },
        3 => Effect::InternalError,
        4 => Effect::ServiceUnavailable,
        5 => Effect::Timeout,
        6 => Effect::Html { code: if rng.bool() { 502 } else { 200 } },
        7 => Effect::Disconnect { applied: rng.bool() },
        8 => Effect::LostResponse,
        // Before the request timeout, so that a lot happens between request and response; or after
        // it.
        9 => Effect::Slow { by: Duration::from_millis(rng.u64(1..9_000)) },
        10 => Effect::Slow { by: Duration::from_millis(rng.u64(9_000..30_000)) },
        11 => Effect::Stall,
        12 => Effect::TruncatedBody,
        _ => Effect::Status {
            code: 403,
            reason: "Forbidden".into(),
            message: "no".into(),
            retry_after_seconds: None,
        },
    }
}

fn watches(rng: &mut Rng) -> Match {
    let watches = Match::verb("watch");
    match rng.u8(..3) {
        0 => watches,
        1 => watches.resource("pods"),
        _ => watches.resource("horizontalpodautoscalers"),
    }
}

fn broken_watch(rng: &mut Rng) -> Effect {
    let after = rng.usize(..4);
    match rng.u8(..5) {
        0 => Effect::DropWatch { after },
        1 => Effect::TruncatedEvent { after },
        2 => Effect::Expired,
        3 => Effect::TooManyRequests { retry_after_seconds: Some(1) },
        _ => Effect::SilentWatch { after },
    }
}

fn malformed(rng: &mut Rng) -> (Match, Effect) {
    let reads = Match::verbs(["get", "list", "watch"]);
    let kinds: [(Match, &[(&str, Value)]); 6] = [
        (
            reads.clone().resource("horizontalpodautoscalers"),
            &[
                ("/spec/maxReplicas", json!("many")),
                ("/metadata", json!(null)),
                ("/status/conditions", json!(7)),
            ],
        ),
        (
            reads.clone().group("").resource("pods"),
            &[
                ("/spec/containers/0/resources/requests/cpu", json!("much")),
                ("/metadata/name", json!(null)),
                ("/status/conditions", json!("none")),
            ],
        ),
        (
            reads.clone().subresource("scale"),
            &[("/spec/replicas", json!("two")), ("/status/selector", json!(null))],
        ),
        (
            reads.clone().group("metrics.k8s.io"),
            &[
                ("/containers/0/usage/cpu", json!("warm")),
                ("/containers/0/usage", json!(null)),
                ("/metadata/name", json!(5)),
                ("/timestamp", json!("yesterday")),
            ],
        ),
        (
            reads.clone().group("custom.metrics.k8s.io"),
            &[("/value", json!("")), ("/describedObject", json!(null))],
        ),
        (
            reads.group("external.metrics.k8s.io"),
            &[("/value", json!([])), ("/metricName", json!(1))],
        ),
    ];
    let (matching, members) = &kinds[rng.usize(..kinds.len())];
    let (pointer, value) = &members[rng.usize(..members.len())];
    let object = String::new();
    (
        matching.clone(),
        Effect::Malformed { object, pointer: (*pointer).to_owned(), value: value.clone() },
    )
}
