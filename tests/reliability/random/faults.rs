//! Faults that affect only the controllers, drawn from a seed. All but [`lasting_silence`] are
//! temporary.

use std::time::Duration;

use fastrand::Rng;
use hpa_testbed::{Effect, Fault, Match};
use serde_json::Value;

use super::{
    FAULTS_END,
    plan::{CHANGE_SECONDS, random_time},
};
use crate::{
    NAMESPACE, WINDOW,
    cluster::{CONTROLLER, Shape, identity},
    targets::Target,
};

/// The number of identities of elected instances, more than a run uses.
const IDENTITY_COUNT: usize = 60;

/// A fault, and the affected autoscalers.
#[derive(Clone, Debug)]
pub(super) struct PlannedFault {
    pub(super) fault: Fault,
    pub(super) from: Duration,
    pub(super) until: Duration,
    scope: Scope,
    /// Whether it hides pods or metrics of any API, or shows old ones.
    pub(super) hides_pods_or_metrics: bool,
    /// Whether it stays when the faults end.
    pub(super) is_lasting: bool,
}

/// The autoscalers that a fault affects. Unset fields don't limit them.
#[derive(Clone, Debug, Default)]
struct Scope {
    /// The group of their metrics API.
    metrics: Option<String>,
    /// The group of their targets.
    targets: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Scope {
    /// The scope of requests to an API group.
    fn of_group(group: &str) -> Self {
        let group = Some(group.to_owned());
        match group.as_deref() {
            Some("apps" | "example.com") => Self { targets: group, ..Self::default() },
            Some(metrics) if metrics.contains("metrics") => {
                Self { metrics: group, ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}

impl PlannedFault {
    pub(super) fn affects(&self, target: &Target) -> bool {
        let Scope { metrics, targets, namespace, name } = &self.scope;
        let matches = |limit: &Option<String>, actual: &str| {
            limit.as_deref().is_none_or(|limit| limit == actual)
        };
        matches(metrics, target.source.group())
            && matches(targets, target.kind.group())
            && matches(namespace, &target.id.namespace)
            && matches(name, &target.id.name)
    }
}

/// Requests, and the autoscalers that need them.
struct Requests {
    matching: Match,
    scope: Scope,
    /// Whether they read pods or any metrics API.
    reads_pods_or_metrics: bool,
}

impl Requests {
    fn new(matching: Match) -> Self {
        Self { matching, scope: Scope::default(), reads_pods_or_metrics: false }
    }

    fn including_pods(matching: Match) -> Self {
        Self { reads_pods_or_metrics: true, ..Self::new(matching) }
    }

    fn of_group(matching: Match, group: &str) -> Self {
        let reads_pods_or_metrics = group.contains("metrics");
        Self {
            matching: matching.group(group),
            scope: Scope::of_group(group),
            reads_pods_or_metrics,
        }
    }
}

pub(super) fn fault(rng: &mut Rng, shape: &Shape) -> PlannedFault {
    let (requests, effect) = match rng.u8(..14) {
        0..5 => (limit_randomly(random_requests(rng), shape, rng), failure(rng)),
        5 | 12 => (watches(rng), broken_watch(rng)),
        6 | 7 => malformed(rng),
        8 => {
            let groups = ["apps", "autoscaling", "example.com"];
            let metrics = ["metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"];
            let all: Vec<_> = groups.into_iter().chain(metrics).collect();
            let group = all[rng.usize(..all.len())];
            // The effect also changes discovery, which is not a request to the group.
            let matching = Match::any();
            let requests = Requests { matching, ..Requests::of_group(Match::any(), group) };
            (requests, Effect::MissingGroup { group: group.to_owned() })
        }
        9 => (permission(rng), forbidden()),
        10 if shape.has_leader_election => (Requests::new(election(rng)), failure(rng)),
        // Only lists are stale: an API server reads single objects from etcd, or waits until its
        // cache is current.
        _ => {
            let revisions = rng.u64(1..20);
            (Requests::including_pods(Match::verb("list")), Effect::Stale { revisions })
        }
    };
    let from = random_time(rng, CHANGE_SECONDS.start..FAULTS_END.as_secs() - 1);
    // Recommendations from a part of the metrics, or from an earlier state, stay in the
    // stabilization window.
    let affects_window = matches!(effect, Effect::ChangedField { .. } | Effect::Stale { .. });
    let from = if affects_window { from.min(FAULTS_END.saturating_sub(2 * WINDOW)) } else { from };
    let latest = if affects_window { FAULTS_END.saturating_sub(WINDOW) } else { FAULTS_END };
    // Writes of scales wait for slow responses, also after the fault.
    let by = if let Effect::Slow { by } = effect { by } else { Duration::ZERO };
    let end = FAULTS_END.saturating_sub(by);
    let (from, latest) = (from.min(end), latest.min(end));
    let until = (from + Duration::from_millis(rng.u64(1..150_000))).min(latest);
    let Requests { matching, scope, reads_pods_or_metrics } = requests;
    let trigger = Fault::on(of_clients(matching, shape, rng)).from(from).until(until);
    let trigger = match rng.u8(..5) {
        0 => trigger.probability(rng.f64()),
        1 => trigger.first(rng.u64(1..6)),
        2 => trigger.every(rng.u64(2..5)),
        3 => trigger.nth(rng.u64(1..8)),
        _ => trigger,
    };
    let fault = trigger.effect(effect);
    PlannedFault {
        fault,
        from,
        until,
        scope,
        hides_pods_or_metrics: reads_pods_or_metrics,
        is_lasting: false,
    }
}

/// A watch that stays open and silent, even after the faults end.
pub(super) fn lasting_silence(rng: &mut Rng, shape: &Shape) -> PlannedFault {
    let requests = watches(rng);
    let from = random_time(rng, CHANGE_SECONDS.start..FAULTS_END.as_secs() - 1);
    let matching = of_clients(requests.matching, shape, rng);
    let trigger = Fault::on(matching).from(from).nth(rng.u64(1..4));
    let fault = trigger.effect(Effect::SilentWatch { after: 0 });
    let until = FAULTS_END;
    PlannedFault {
        fault,
        from,
        until,
        scope: requests.scope,
        hides_pods_or_metrics: requests.reads_pods_or_metrics,
        is_lasting: true,
    }
}

/// Limits requests to those of the controller, or of some of the elected instances.
fn of_clients(matching: Match, shape: &Shape, rng: &mut Rng) -> Match {
    if !shape.has_leader_election {
        return matching.client(CONTROLLER);
    }
    let step = if rng.bool() { 1 } else { 2 };
    let first = rng.usize(1..3);
    let names = (first..IDENTITY_COUNT).step_by(step).map(identity);
    names.fold(matching, |matching, name| matching.client(&name))
}

fn random_requests(rng: &mut Rng) -> Requests {
    let scale = |verb| Match::verb(verb).subresource("scale");
    let of = |resource, verb| Match::verb(verb).resource(resource);
    match rng.u8(..13) {
        0 => Requests::including_pods(Match::any()),
        1 => Requests::new(scale("get")),
        2 | 3 => Requests::new(scale("update")),
        4 => Requests::new(of("horizontalpodautoscalers", "get")),
        5 | 6 => Requests::new(of("horizontalpodautoscalers", "patch")),
        7 => Requests::new(of("horizontalpodautoscalers", "list")),
        8 => Requests::including_pods(Match::verb("list").group("").resource("pods")),
        9 => Requests::of_group(Match::any(), "metrics.k8s.io"),
        10 => Requests::of_group(Match::any(), "custom.metrics.k8s.io"),
        11 => Requests::of_group(Match::any(), "example.com"),
        _ => Requests::of_group(Match::any(), "external.metrics.k8s.io"),
    }
}

/// Sometimes limits requests to a namespace or an object.
fn limit_randomly(requests: Requests, shape: &Shape, rng: &mut Rng) -> Requests {
    let Requests { matching, mut scope, reads_pods_or_metrics } = requests;
    let target = &shape.targets[rng.usize(..shape.targets.len())].id;
    let matching = match rng.u8(..4) {
        0 => {
            let includes_lease = shape.has_leader_election && matching == Match::any();
            // The fault also hits the lease in this namespace, so there may be no leader: all
            // autoscalers are affected.
            if !(includes_lease && target.namespace == NAMESPACE) {
                scope.namespace = Some(target.namespace.clone());
            }
            matching.namespace(&target.namespace)
        }
        1 => {
            scope.namespace = Some(target.namespace.clone());
            scope.name = Some(target.name.clone());
            matching.namespace(&target.namespace).name(&target.name)
        }
        _ => matching,
    };
    Requests { matching, scope, reads_pods_or_metrics }
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
        // Below the request timeout: there is time for changes between request and response.
        9 => Effect::Slow { by: Duration::from_millis(rng.u64(1..9_000)) },
        // Mostly above the request timeout, but not above that of writes of scales.
        10 => Effect::Slow { by: Duration::from_millis(rng.u64(9_000..30_000)) },
        11 => Effect::Stall,
        12 => Effect::TruncatedBody,
        _ => forbidden(),
    }
}

fn forbidden() -> Effect {
    Effect::status(403, "Forbidden", "no")
}

/// A permission of the controller's role, which is revoked for a while.
fn permission(rng: &mut Rng) -> Requests {
    let of = |verb, group, resource| Match::verb(verb).group(group).resource(resource);
    let verb = if rng.bool() { "list" } else { "watch" };
    match rng.u8(..12) {
        0 => Requests::new(of(verb, "autoscaling", "horizontalpodautoscalers").subresource("")),
        1 => Requests::new(of("get", "autoscaling", "horizontalpodautoscalers").subresource("")),
        2 => Requests::new(of("patch", "autoscaling", "horizontalpodautoscalers")),
        3 => Requests::including_pods(of(verb, "", "pods")),
        4 => Requests::new(of(verb, "apps", "deployments").subresource("")),
        5 => {
            Requests::of_group(Match::verb(verb).resource("fleets").subresource(""), "example.com")
        }
        6 => Requests::of_group(Match::verb("get").subresource("scale"), "apps"),
        7 => Requests::of_group(Match::verb("update").subresource("scale"), "apps"),
        8 => Requests::of_group(Match::verb("update").subresource("scale"), "example.com"),
        9 => Requests::of_group(Match::verb("list"), "metrics.k8s.io"),
        10 => Requests::new(of(verb, "apiextensions.k8s.io", "customresourcedefinitions")),
        _ => Requests::new(Match::verb("create").resource("events")),
    }
}

/// Requests of the leader election and the history store.
fn election(rng: &mut Rng) -> Match {
    let leases = Match::any().resource("leases");
    let histories = Match::any().resource("configmaps");
    match rng.u8(..4) {
        0 => leases,
        1 => Match::verb("update").resource("leases"),
        2 => histories,
        _ => Match::verbs(["create", "update"]).resource("configmaps"),
    }
}

fn watches(rng: &mut Rng) -> Requests {
    let watches = Match::verb("watch");
    match rng.u8(..4) {
        0 => Requests::including_pods(watches),
        1 => Requests::including_pods(watches.resource("pods")),
        2 => Requests::new(watches.resource("deployments")),
        _ => Requests::new(watches.resource("horizontalpodautoscalers")),
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

/// The requests with a malformed response, their API group, and the malformed fields.
type Malformation = (Match, &'static str, &'static [(&'static str, &'static str)]);

fn malformed(rng: &mut Rng) -> (Requests, Effect) {
    let reads = Match::verbs(["get", "list", "watch"]);
    let kinds: [Malformation; 6] = [
        (
            reads.clone().resource("horizontalpodautoscalers"),
            "autoscaling",
            &[
                ("/spec/maxReplicas", "\"many\""),
                ("/metadata", "null"),
                ("/status/conditions", "7"),
            ],
        ),
        (
            reads.clone().resource("pods"),
            "",
            &[
                ("/spec/containers/0/resources/requests/cpu", "\"much\""),
                ("/metadata/name", "null"),
                ("/status/conditions", "\"none\""),
            ],
        ),
        (
            reads.clone().subresource("scale"),
            "apps",
            &[("/spec/replicas", "\"two\""), ("/status/selector", "null")],
        ),
        (
            reads.clone(),
            "metrics.k8s.io",
            &[
                ("/containers/0/usage/cpu", "\"warm\""),
                ("/containers/0/usage", "null"),
                ("/metadata/name", "5"),
                ("/timestamp", "\"yesterday\""),
            ],
        ),
        (
            reads.clone(),
            "custom.metrics.k8s.io",
            &[("/value", "\"\""), ("/describedObject", "null")],
        ),
        (reads, "external.metrics.k8s.io", &[("/value", "[]"), ("/metricName", "1")]),
    ];
    let (matching, group, members) = &kinds[rng.usize(..kinds.len())];
    let (pointer, value) = members[rng.usize(..members.len())];
    let value: Value = serde_json::from_str(value).expect("JSON");
    let mut requests = Requests::of_group(matching.clone(), group);
    requests.reads_pods_or_metrics |= group.is_empty();
    (requests, Effect::ChangedField { object: String::new(), pointer: pointer.to_owned(), value })
}
