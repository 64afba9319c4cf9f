//! Tests of the checks. Most change a cluster without a problem and assert the reported checks.

mod autoscalers;
mod controller;
mod metrics_apis;
mod tenant;

use std::collections::BTreeSet;

use hpa_calc::HorizontalPodAutoscaler;
use hpa_controller::{
    AutoscalerApi, InstanceScope,
    debug::{ControllerStatus, FailedStatusWrites, RefusedRulesFile},
    k8s::StatusWrite,
};
use rstest::rstest;
use serde_json::{Value, json};

use super::{check::Check, cluster::MetricsApiService, *};
use crate::{
    debug_client::{LeaderPod, LeaseHolder, LeaseKey, Unavailable},
    listed_autoscalers::{ListScope, ListedAutoscaler},
    liveness::{ControllerLease, KubeControllerManager, ManagerFlags, NamespaceWriters},
};

const NOW: &str = "2026-01-31T12:00:00Z";
/// 16 seconds before [`NOW`].
const EXPIRED: &str = "2026-01-31T11:59:44Z";

fn autoscaler(name: &str, conditions: Value) -> ListedAutoscaler {
    let object = json!({
        "metadata": {
            "namespace": "shop", "name": name, "creationTimestamp": "2026-01-31T11:00:00Z",
            "managedFields": [{
                "manager": "hpa-controller:scaling/hpa", "subresource": "status",
                "time": "2026-01-31T11:59:50Z",
            }],
        },
        "spec": {
            "maxReplicas": 10, "scaleTargetRef": { "kind": "Deployment", "name": name },
            "metrics": [{
                "type": "Resource",
                "resource": {
                    "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 },
                },
            }],
        },
        "status": { "conditions": conditions },
    });
    ListedAutoscaler::decode(AutoscalerApi::Core, &object).expect("an autoscaler")
}

fn annotate(hpa: &mut HorizontalPodAutoscaler, name: &str, value: &str) {
    let annotation = format!("autoscaling.hpa-rs.dev/{name}");
    hpa.metadata.annotations.insert(annotation, value.to_owned());
}

fn condition(condition_type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": condition_type, "status": status, "reason": reason, "message": message })
}

fn healthy_conditions() -> Value {
    json!([
        condition("AbleToScale", "True", "ReadyForNewScale", ""),
        condition("ScalingActive", "True", "ValidMetricFound", ""),
    ])
}

fn controller_status() -> ControllerStatus {
    serde_json::from_value(json!({
        "build": { "version": "0.1.0", "revision": "6f7a8b9c0d", "date": "unknown" },
        "now": NOW, "isLeader": true, "lease": "hpa", "isWorking": true, "dryRun": false,
        "syncPeriodSeconds": 15.0,
        "settings": {
            "tolerance": 0.1, "downscaleStabilizationSeconds": 300.0,
            "cpuInitializationPeriodSeconds": 300.0, "initialReadinessDelaySeconds": 30.0,
            "scaleToZero": true,
        },
        "notReady": null, "notAlive": null,
        "queue": { "due": 0, "queued": 120, "inProgress": 1, "longestRunningSeconds": 0.2 },
        "oldestReconcileSeconds": 14.2, "cacheAgesSeconds": { "pods": 3.1 },
        "undecodableObjects": 0, "keepHistory": true, "historyUnsavedSeconds": 0.0,
        "autoscalers": 1, "failing": 0,
        "decisionMemory": { "limitBytes": 1, "usedBytes": 0, "perAutoscalerBytes": 1 },
    }))
    .expect("a status")
}

fn metrics_api(status: &str, message: &str) -> MetricsApiService {
    MetricsApiService::decode(&json!({
        "spec": { "group": "metrics.k8s.io", "version": "v1beta1" },
        "status": { "conditions": [{ "type": "Available", "status": status, "message": message }] },
    }))
}

fn holder_of(lease: &LeaseKey, identity: &str, renewed: &str) -> LeaseHolder {
    LeaseHolder {
        lease: lease.clone(),
        requested_at: NOW.parse().expect("a time"),
        identity: identity.to_owned(),
        acquired: None,
        renewed: renewed.parse().ok(),
        has_unreadable_time: false,
        clock_lead: jiff::SignedDuration::ZERO,
        duration: jiff::SignedDuration::from_secs(15),
        transitions: 0,
        scope: None,
    }
}

/// A cluster without a problem, with one autoscaler.
fn healthy() -> ClusterState {
    let lease = LeaseKey { namespace: "scaling".into(), name: "hpa".into() };
    let built_in_lease = LeaseKey { namespace: "kube-system".into(), name: "k".into() };
    let (holder, apis) = ("hpa-1_0b5c".to_owned(), AutoscalerApi::ALL.to_vec());
    let scope = InstanceScope { holder, apis, namespaces: Vec::new() };
    ClusterState {
        now: NOW.parse().expect("a time"),
        autoscalers: vec![autoscaler("web", healthy_conditions())],
        scope: ListScope::default(),
        lease: ControllerLease {
            holder: Ok(LeaseHolder {
                transitions: 1,
                scope: Some(scope),
                ..holder_of(&lease, "hpa-1_0b5c", "2026-01-31T11:59:58Z")
            }),
            name: lease,
            searched_namespaces: Vec::new(),
            others: Vec::new(),
            local: Vec::new(),
            may_answer_for_all: true,
        },
        leader: Ok(LeaderPod {
            namespace: "scaling".into(),
            pod: "hpa-1".into(),
            is_ready: true,
            debug_port: Some(8443),
        }),
        missing_api: None,
        writers: NamespaceWriters::default(),
        url: None,
        reconciled_at_url: BTreeSet::new(),
        status: Ok(controller_status()),
        clock_lead: jiff::SignedDuration::ZERO,
        built_in: KubeControllerManager {
            holder: Ok(holder_of(&built_in_lease, "cp-1_7d1f", "2026-01-31T11:59:59Z")),
            flags: Some(ManagerFlags { pod: "kube-system/k-cp-1".into(), enables_hpa: false }),
            last_write: None,
        },
        metrics_apis: Ok(Some(vec![metrics_api("True", "")])),
    }
}

/// The status that the debug API reports.
fn status_mut(cluster: &mut ClusterState) -> &mut ControllerStatus {
    cluster.status.as_mut().expect("a status")
}

/// The holder of the checked lease.
fn holder_mut(cluster: &mut ClusterState) -> &mut LeaseHolder {
    cluster.lease.holder.as_mut().expect("a holder")
}

/// A lease without a holder.
fn unheld(lease: &LeaseKey) -> Result<LeaseHolder, Unavailable> {
    Err(Unavailable::NotHeld { lease: lease.clone(), released: None })
}

/// Sets the error of reading the lease, the pod of its holder, and the debug API.
fn set_unavailable(cluster: &mut ClusterState, error: &Unavailable) {
    cluster.lease.holder = Err(error.clone());
    cluster.leader = Err(error.clone());
    cluster.status = Err(error.clone());
}

/// Sets the writers of a cluster from its autoscalers.
fn set_writers(cluster: &mut ClusterState) {
    cluster.writers = NamespaceWriters::new(&status_writers(&cluster.autoscalers));
}

/// Sets the writers of a cluster and the last write of kube-controller-manager, from its
/// autoscalers.
fn with_last_writes(cluster: ClusterState) -> ClusterState {
    let statuses = status_writers(&cluster.autoscalers);
    ClusterState {
        writers: NamespaceWriters::new(&statuses),
        built_in: cluster.built_in.with_statuses(&statuses),
        ..cluster
    }
}

/// The level and text of each check.
fn checks_of(cluster: &ClusterState) -> Vec<(Level, String)> {
    let checks = run_checks(cluster).sections.into_iter().flat_map(|section| section.checks);
    checks.map(|Check { level, text, .. }| (level, text)).collect()
}

/// The level and text of each check that is not OK.
fn problems(cluster: &ClusterState) -> Vec<(Level, String)> {
    checks_of(cluster).into_iter().filter(|(level, _)| *level > Level::Ok).collect()
}

#[test]
fn healthy_controller_has_no_problems() {
    let mut cluster = healthy();
    assert_eq!(problems(&cluster), []);
    let text = run_checks(&cluster).text(false);
    assert_eq!(
        text,
        "√ no problems found\n\
         \n\
         controller\n\
         √ lease scaling/hpa is held by hpa-1, renewed 2.0s ago, 1 leader change\n\
         √ pod scaling/hpa-1 is ready\n\
         √ hpa 0.1.0 (6f7a8b9) answers\n\
         √ kube-controller-manager holds its lease (cp-1, renewed 1.0s ago); its HPA controller is \
         off (flags of pod kube-system/k-cp-1)\n\
         \n\
         work\n\
         √ the leader reconciles\n\
         √ the oldest reconcile of an autoscaler was 14s ago, sync period 15s\n\
         √ queue: 0 due, 1 in progress, the longest for 0.2s\n\
         √ caches confirmed: pods 3.1s ago\n\
         √ histories are stored\n\
         \n\
         metrics APIs\n\
         √ metrics.k8s.io/v1beta1 is available according to its APIService\n\
         \n\
         autoscalers\n\
         √ 1 autoscaler can scale\n"
    );

    // The debug API was slow.
    cluster.now += jiff::SignedDuration::from_secs(20);
    assert_eq!(run_checks(&cluster).text(false), text, "leases are judged as they were read");
}

// With a sync period of 15 s, the limits of lateness are 30 s and 75 s, those of caches 45 s and
// 150 s.
#[rstest]
#[case::pod_not_ready(
    |it: &mut ClusterState| it.leader.as_mut().expect("a leader").is_ready = false,
    Level::Error, "is not ready"
)]
#[case::late(
    |it: &mut ClusterState| status_mut(it).oldest_reconcile_seconds = Some(31.0),
    Level::Warning, "was 31s ago"
)]
#[case::very_late(
    |it: &mut ClusterState| status_mut(it).oldest_reconcile_seconds = Some(76.0),
    Level::Error, "was 76s ago"
)]
#[case::old_cache(
    |it: &mut ClusterState| _ = status_mut(it).cache_ages_seconds.insert("hpas".into(), 46.0),
    Level::Warning, "hpas 46s, pods 3.1s"
)]
#[case::no_cache(
    |it: &mut ClusterState| status_mut(it).cache_ages_seconds.clear(),
    Level::Skipped, "no cache reports when it was confirmed"
)]
#[case::cache_of_a_new_kind(
    |it: &mut ClusterState| {
        let status = status_mut(it);
        status.cache_ages_seconds.insert("rollouts".into(), 0.5);
        status.never_listed_caches.insert("rollouts".into());
    },
    Level::Warning, "rollouts: never listed"
)]
#[case::cache_that_stays_empty(
    |it: &mut ClusterState| {
        let status = status_mut(it);
        status.cache_ages_seconds.insert("rollouts".into(), 151.0);
        status.never_listed_caches.insert("rollouts".into());
    },
    Level::Error, "rollouts: never listed"
)]
#[case::stuck_reconcile(
    |it: &mut ClusterState| status_mut(it).queue.longest_running_seconds = 80.0,
    Level::Error, "the longest for 80s"
)]
#[case::histories(
    |it: &mut ClusterState| status_mut(it).history_unsaved_seconds = 20.0,
    Level::Warning, "writes of histories have failed for 20s"
)]
#[case::histories_for_long(
    |it: &mut ClusterState| status_mut(it).history_unsaved_seconds = 61.0,
    Level::Error, "writes of histories have failed for 61s"
)]
#[case::status_writes(
    |it: &mut ClusterState| {
        let failed = FailedStatusWrites { autoscalers: 14, error: "cannot patch".into() };
        status_mut(it).failed_status_writes = Some(failed);
    },
    Level::Error,
    "the controller can't store the status of 14 autoscalers; the error of one: cannot patch"
)]
#[case::histories_off(
    |it: &mut ClusterState| status_mut(it).keep_history = Some(false),
    Level::Warning, "histories are not stored (--keep-history=false)"
)]
#[case::no_successor(
    |it: &mut ClusterState| {
        let status = status_mut(it);
        (status.keep_history, status.lease) = (Some(false), None);
    },
    Level::Skipped, "histories are not stored without leader election"
)]
#[case::rules_file(
    |it: &mut ClusterState| {
        let (path, error) = ("rules.yaml".to_owned(), "it has no rules".to_owned());
        let changed_at = "2026-01-31T11:55:00Z".parse().ok();
        let refused = RefusedRulesFile { path, changed_at, error };
        status_mut(it).refused_rules_file = Some(refused);
    },
    Level::Warning,
    "the rules file rules.yaml (changed 5m ago) is refused, so the previous rules are in use: it \
     has no rules"
)]
#[case::forbidden_watch(
    |it: &mut ClusterState| {
        let status = status_mut(it);
        status.cache_ages_seconds.insert("pods".into(), 73.0);
        status.watch_errors.insert("pods".into(), "list failed: pods is forbidden".into());
    },
    Level::Warning,
    "caches confirmed: pods 73s ago; the watch of pods fails: list failed: pods is forbidden"
)]
#[case::missing_api(
    |it: &mut ClusterState| it.missing_api = Some("autoscaling.hpa-rs.dev/v2 is missing".into()),
    Level::Warning, "autoscaling.hpa-rs.dev/v2 is missing"
)]
#[case::undecodable(
    |it: &mut ClusterState| status_mut(it).undecodable_objects = 2,
    Level::Warning, "2 objects could not be decoded"
)]
#[case::dry_run(
    |it: &mut ClusterState| status_mut(it).dry_run = true, Level::Warning, "in dry run"
)]
#[case::stuck(
    |it: &mut ClusterState| status_mut(it).not_alive = Some("workers stuck".into()),
    Level::Error, "workers stuck"
)]
#[case::standby(
    |it: &mut ClusterState| status_mut(it).is_leader = false, Level::Error, "not the leader"
)]
#[case::unavailable_api(
    |it: &mut ClusterState| it.metrics_apis = Ok(Some(vec![metrics_api("False", "no endpoints")])),
    Level::Error, "metrics.k8s.io/v1beta1 is not available: no endpoints"
)]
#[case::unavailable_api_beside_values(
    |it: &mut ClusterState| {
        it.autoscalers[0].hpa.status.current_metrics = serde_json::from_value(json!([{
            "type": "Resource",
            "resource": {
                "name": "cpu", "current": { "averageUtilization": 50, "averageValue": "50m" },
            },
        }]))
        .expect("metrics");
        it.metrics_apis = Ok(Some(vec![metrics_api("False", "no endpoints")]));
    },
    Level::Warning, "metrics.k8s.io/v1beta1 is not available: no endpoints"
)]
#[case::unneeded_api(
    |it: &mut ClusterState| {
        it.autoscalers[0].hpa.spec.metrics.clear();
        it.metrics_apis = Ok(Some(vec![metrics_api("False", "no endpoints")]));
    },
    Level::Warning, "metrics.k8s.io/v1beta1 is not available: no endpoints"
)]
#[case::other_controller(
    |it: &mut ClusterState| {
        it.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    },
    Level::Warning,
    "kube-controller-manager stored the status of 1 autoscaler last, most recently 10s ago: \
     shop/web"
)]
#[case::paused(
    |it: &mut ClusterState| {
        it.autoscalers[0] = autoscaler("web", json!([
            condition("Paused", "True", "PausedByAnnotation", ""),
        ]));
        annotate(&mut it.autoscalers[0].hpa, "pause", "true");
    },
    Level::Warning, "1 autoscaler paused by annotation"
)]
#[case::fallback(
    |it: &mut ClusterState| {
        it.autoscalers[0] = autoscaler("web", json!([
            condition("ExternalMetricFallbackActive", "True", "FallbackActive", ""),
        ]));
        let hpa = &mut it.autoscalers[0].hpa;
        hpa.spec.metrics = vec![serde_json::from_value(json!({
            "type": "External", "external": { "metric": { "name": "queue" } },
        })).expect("a metric")];
        annotate(hpa, "fallback", r#"{"replicas": 4}"#);
        let api = MetricsApiService {
            group: "external.metrics.k8s.io".into(), ..metrics_api("True", "")
        };
        it.metrics_apis = Ok(Some(vec![api]));
    },
    Level::Warning, "1 autoscaler at the replicas of a fallback, because metrics fail"
)]
#[case::dry_run_by_annotation(
    |it: &mut ClusterState| {
        it.autoscalers[0] = autoscaler("web", json!([]));
        annotate(&mut it.autoscalers[0].hpa, "dry-run", "true");
    },
    Level::Warning, "1 autoscaler in dry run, so nothing is written: shop/web"
)]
#[case::misspelled_setting(
    |it: &mut ClusterState| annotate(&mut it.autoscalers[0].hpa, "paused", "true"),
    Level::Warning, "1 autoscaler with settings that are not used as written (InvalidSettings)"
)]
#[case::no_autoscalers(
    |it: &mut ClusterState| it.autoscalers.clear(), Level::Warning, "there are no autoscalers"
)]
#[case::no_autoscalers_in_a_namespace(
    |it: &mut ClusterState| {
        it.autoscalers.clear();
        it.scope.namespace = Some("shop".to_owned());
    },
    Level::Warning, "there are no autoscalers in the namespace shop"
)]
#[case::fallback_namespace(
    |it: &mut ClusterState| {
        it.scope.namespace = Some("shop".to_owned());
        it.scope.is_fallback = true;
    },
    Level::Skipped,
    "only the autoscalers of the namespace shop are read, because you may not list those of all \
     namespaces; -n selects another one"
)]
#[case::clock_of_the_controller(
    |it: &mut ClusterState| it.clock_lead = jiff::SignedDuration::from_secs(419),
    Level::Warning,
    "the controller misjudges times: its clock is 7m ahead of that of the API server"
)]
#[case::unread_api(
    |it: &mut ClusterState| it.scope.unread_api = Some("The autoscalers of b are not read".into()),
    Level::Skipped, "the autoscalers of b are not read"
)]
fn single_problem_is_reported_alone(
    #[case] change: fn(&mut ClusterState),
    #[case] level: Level,
    #[case] text: &str,
) {
    let mut cluster = healthy();
    change(&mut cluster);
    let problems = problems(&cluster);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].0, level);
    assert!(problems[0].1.contains(text), "{problems:?}");
}

#[test]
fn cache_that_was_never_filled_is_named_as_the_cause() {
    let mut cluster = healthy();
    let status = status_mut(&mut cluster);
    status.not_ready = Some("caches not synced".to_owned());
    status.cache_ages_seconds.insert("horizontalpodautoscalers".to_owned(), 9.0);
    status.never_listed_caches.insert("pods".to_owned());
    let text = run_checks(&cluster).text(false);
    assert!(text.starts_with("× 1 error, 0 warnings: pods: never listed\n"), "{text}");
    let hint = "× pods: never listed\n    the controller's log says why, often a right is missing;";
    assert!(text.contains(hint) && text.contains("× caches not synced\n"), "{text}");
    assert!(text.contains("√ caches confirmed: horizontalpodautoscalers 9.0s ago\n"), "{text}");
    // No other cache is left.
    let status = status_mut(&mut cluster);
    status.never_listed_caches.insert("horizontalpodautoscalers".to_owned());
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("× horizontalpodautoscalers, pods: never listed\n"), "{text}");
    assert!(!text.contains("confirmed"), "{text}");
}

#[test]
fn debug_api_that_is_off_is_no_problem() {
    let mut cluster = healthy();
    cluster.status = Err(Unavailable::Off { pod: "scaling/hpa-1".into() });
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");
    let off = "the debug API is off: pod scaling/hpa-1 has no port \"debug\". Turn it on with ";
    assert!(found[0].1.starts_with(off), "{found:?}");
    let text = run_checks(&cluster).text(false);
    assert!(text.starts_with("√ no problems found; 2 checks skipped\n"), "{text}");
    // By the lease.
    cluster.clock_lead = jiff::SignedDuration::from_secs(600);
    let text = run_checks(&cluster).text(false);
    let wrong = "‼ 0 errors, 1 warning: the controller misjudges times: its clock is 10m ahead ";
    assert!(text.starts_with(wrong), "{text}");
}

#[test]
fn answers_of_a_lease_that_a_tenant_may_have_created_are_not_shown() {
    let mut cluster = healthy();
    cluster.status = Err(Unavailable::Unconfirmed(cluster.lease.name.clone()));
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");
    assert!(found[0].1.ends_with(". --controller-namespace scaling uses it"), "{found:?}");
    assert!(found[1].1.ends_with(" are unknown without the debug API"), "{found:?}");
}

#[test]
fn unreadable_lease_is_a_warning_and_a_missing_one_an_error() {
    let mut cluster = healthy();
    let forbidden = Unavailable::Forbidden { action: "get the lease".into(), message: "no".into() };
    set_unavailable(&mut cluster, &forbidden);
    let found = problems(&cluster);
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [Level::Warning, Level::Skipped]);
    assert!(found[0].1.contains("not permitted to get the lease: no"), "{found:?}");

    let missing = Unavailable::NoLease(cluster.lease.name.clone());
    set_unavailable(&mut cluster, &missing);
    let found = problems(&cluster);
    let maybe = "maybe no controller acts on 1 autoscaler (shop/web): the lease that hpa-rs' \
                 status names, scaling/hpa, does not exist, and kube-controller-manager's HPA \
                 controller is off";
    assert_eq!(found[0], (Level::Warning, maybe.to_owned()));
    assert_eq!(found[1].0, Level::Error, "{found:?}");
    let headline = run_checks(&cluster).text(false);
    assert!(headline.starts_with("× 1 error, "), "{headline}");
}

#[test]
fn checks_of_missing_inputs_are_skipped() {
    let mut cluster = healthy();
    // No controller has stored a status, and no API is registered.
    let mut new = autoscaler("web", json!([]));
    new.controller.name = None;
    new.created = cluster.now.checked_sub(jiff::SignedDuration::from_secs(9)).ok();
    cluster.autoscalers = vec![new];
    cluster.metrics_apis = Ok(None);
    let missing = Unavailable::NoLease(cluster.lease.name.clone());
    set_unavailable(&mut cluster, &missing);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("- 1 of 1 autoscaler without a status yet"), "{text}");
    assert!(text.contains("- the API server registers no metrics APIs"), "{text}");
    assert!(!text.contains("can scale") && !text.contains("available"), "{text}");
}

#[test]
fn control_characters_of_a_cluster_are_escaped() {
    let mut cluster = healthy();
    let failed = json!([condition("ScalingActive", "False", "FailedGetScale", "a\x1b[31mb")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("a\\u{1b}[31mb") && !text.contains('\x1b'), "{text}");
}
