use hpa_calc::{
    HorizontalPodAutoscaler, Settings, report::error_texts::ALSO_NOT_BY_API,
    settings::SettingPolicy,
};
use hpa_controller::{AutoscalerApi, debug::ControllerStatus};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    built_in::{KubeControllerManager, ManagerFlags},
    check::Check,
    cluster::{ListedAutoscaler, MetricsApiService, set_other_autoscalers},
    *,
};
use crate::debug_client::{LeaderPod, LeaseHolder, LeaseName, Unavailable};

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

/// A cluster without a problem, with one autoscaler.
fn healthy() -> ClusterState {
    let lease = LeaseName { namespace: "scaling".into(), name: "hpa".into() };
    ClusterState {
        now: NOW.parse().expect("a time"),
        autoscalers: vec![autoscaler("web", healthy_conditions())],
        holder: Ok(LeaseHolder {
            lease: lease.clone(),
            identity: "hpa-1_0b5c".into(),
            renewed: "2026-01-31T11:59:58Z".parse().ok(),
            duration: jiff::SignedDuration::from_secs(15),
            transitions: 1,
        }),
        leader: Ok(LeaderPod {
            namespace: "scaling".into(),
            pod: "hpa-1".into(),
            is_ready: true,
            debug_port: Some(8443),
        }),
        lease,
        url: None,
        status: Ok(controller_status()),
        built_in: KubeControllerManager {
            holder: Ok(LeaseHolder {
                lease: LeaseName { namespace: "kube-system".into(), name: "k".into() },
                identity: "cp-1_7d1f".into(),
                renewed: "2026-01-31T11:59:59Z".parse().ok(),
                duration: jiff::SignedDuration::from_secs(15),
                transitions: 0,
            }),
            flags: Some(ManagerFlags {
                pod: "kube-system/k-cp-1".into(),
                has_hpa_controller: false,
            }),
            last_write: None,
        },
        metrics_apis: Ok(Some(vec![metrics_api("True", "")])),
    }
}

/// The level and text of each check that is not OK.
fn problems(cluster: &ClusterState) -> Vec<(Level, String)> {
    let checks = run_checks(cluster).sections.into_iter().flat_map(|section| section.checks);
    let checks = checks.filter(|check| check.level > Level::Ok);
    checks.map(|Check { level, text, .. }| (level, text)).collect()
}

#[test]
fn healthy_controller_has_no_problems() {
    let cluster = healthy();
    assert_eq!(problems(&cluster), []);
    assert_eq!(
        run_checks(&cluster).text(false),
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
         √ metrics.k8s.io/v1beta1 is available, by its APIService\n\
         \n\
         autoscalers\n\
         √ 1 autoscaler can scale\n"
    );
}

/// The level and text of the check of kube-controller-manager.
fn check_of_built_in(cluster: &ClusterState) -> (Level, String) {
    let checks = run_checks(cluster).sections.into_iter().flat_map(|section| section.checks);
    let mut checks = checks.filter(|check| check.text.contains("kube-controller-manager"));
    let Check { level, text, .. } = checks.next().expect("a check");
    (level, text)
}

#[rstest]
#[case::beside(|_: &mut ClusterState| {}, Level::Warning, "is on (flags of pod kube-system/k-cp-1) beside this one")]
#[case::only_the_custom_api(
    |it: &mut ClusterState| it.autoscalers[0].api = AutoscalerApi::Custom, Level::Ok, "is on (flags of pod kube-system/k-cp-1)"
)]
#[case::alone(
    |it: &mut ClusterState| it.holder = Err(Unavailable::NotHeld(it.lease.clone())), Level::Ok, "is on (flags of pod kube-system/k-cp-1)"
)]
#[case::flags_unread(|it: &mut ClusterState| it.built_in.flags = None, Level::Skipped, "so its HPA controller may be on")]
#[case::expired(
    |it: &mut ClusterState| it.built_in.holder.as_mut().expect("a holder").renewed = EXPIRED.parse().ok(),
    Level::Ok,
    "no kube-controller-manager holds its lease: that of cp-1 has expired, renewed 16s ago"
)]
#[case::released(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NotHeld(it.lease.clone())),
    Level::Ok,
    "no kube-controller-manager holds its lease"
)]
#[case::no_lease(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NoLease(it.lease.clone())),
    Level::Skipped,
    "is unknown: there is no lease kube-system/kube-controller-manager"
)]
#[case::forbidden(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::Forbidden { action: "get".into(), message: "no".into() }),
    Level::Skipped,
    "whether kube-controller-manager runs is unknown: no"
)]
fn check_of_kube_controller_manager_depends_on_lease_and_flags(
    #[case] change: fn(&mut ClusterState),
    #[case] level: Level,
    #[case] end: &str,
) {
    let mut cluster = healthy();
    cluster.built_in.flags.as_mut().expect("flags").has_hpa_controller = true;
    change(&mut cluster);
    let (found, text) = check_of_built_in(&cluster);
    assert!(found == level && text.ends_with(end), "{found:?} {text}");
}

// With a sync period of 15 s, the limits of lateness are 30 s and 75 s, those of caches 45 s and
// 150 s.
#[rstest]
#[case::pod_not_ready(
    |it: &mut ClusterState| it.leader.as_mut().expect("a leader").is_ready = false, Level::Error, "is not ready"
)]
#[case::late(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").oldest_reconcile_seconds = Some(31.0),
    Level::Warning, "was 31s ago"
)]
#[case::very_late(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").oldest_reconcile_seconds = Some(76.0),
    Level::Error, "was 76s ago"
)]
#[case::old_cache(
    |it: &mut ClusterState| _ = it.status.as_mut().expect("a status").cache_ages_seconds.insert("hpas".into(), 46.0),
    Level::Warning, "hpas 46s, pods 3.1s"
)]
#[case::no_cache(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").cache_ages_seconds.clear(),
    Level::Skipped, "no cache reports when it was confirmed"
)]
#[case::stuck_reconcile(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").queue.longest_running_seconds = 80.0,
    Level::Error, "the longest for 80s"
)]
#[case::histories(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").history_unsaved_seconds = 20.0,
    Level::Warning, "writes of histories have failed for 20s"
)]
#[case::histories_for_long(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").history_unsaved_seconds = 61.0,
    Level::Error, "writes of histories have failed for 61s"
)]
#[case::histories_off(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").keep_history = Some(false),
    Level::Warning, "histories are not stored (--keep-history=false)"
)]
#[case::no_successor(
    |it: &mut ClusterState| {
        let status = it.status.as_mut().expect("a status");
        (status.keep_history, status.lease) = (Some(false), None);
    },
    Level::Skipped, "histories are not stored without leader election"
)]
#[case::undecodable(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").undecodable_objects = 2,
    Level::Warning, "2 objects could not be decoded"
)]
#[case::dry_run(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").dry_run = true, Level::Warning, "in dry run"
)]
#[case::stuck(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").not_alive = Some("workers stuck".into()),
    Level::Error, "workers stuck"
)]
#[case::standby(
    |it: &mut ClusterState| it.status.as_mut().expect("a status").is_leader = false, Level::Error, "not the leader"
)]
#[case::unavailable_api(
    |it: &mut ClusterState| it.metrics_apis = Ok(Some(vec![metrics_api("False", "no endpoints")])),
    Level::Error, "metrics.k8s.io/v1beta1 is not available: no endpoints"
)]
#[case::unneeded_api(
    |it: &mut ClusterState| {
        it.autoscalers[0].hpa.spec.metrics.clear();
        it.metrics_apis = Ok(Some(vec![metrics_api("False", "no endpoints")]));
    },
    Level::Warning, "metrics.k8s.io/v1beta1 is not available: no endpoints"
)]
#[case::other_controller(
    |it: &mut ClusterState| it.autoscalers[0].manager = Some("kube-controller-manager".into()),
    Level::Warning,
    "kube-controller-manager stored the status of 1 autoscaler last, most recently 10s ago: shop/web"
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
    },
    Level::Warning, "1 autoscaler at the replicas of a fallback, because metrics fail"
)]
#[case::dry_run_by_annotation(
    |it: &mut ClusterState| {
        it.autoscalers[0] = autoscaler("web", json!([]));
        annotate(&mut it.autoscalers[0].hpa, "dry-run", "true");
    },
    Level::Warning, "1 autoscaler in dry run by annotation, so nothing is written: shop/web"
)]
#[case::misspelled_setting(
    |it: &mut ClusterState| annotate(&mut it.autoscalers[0].hpa, "paused", "true"),
    Level::Warning, "1 autoscaler with settings that are not used as written (InvalidSettings)"
)]
#[case::no_autoscalers(
    |it: &mut ClusterState| it.autoscalers.clear(), Level::Warning, "there are no autoscalers"
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

#[rstest]
#[case::crashed(
    |it: &mut ClusterState| it.holder.as_mut().expect("a holder").renewed = EXPIRED.parse().ok(),
    "no controller has renewed the lease scaling/hpa for 16s",
    (Level::Error, "it has expired after 15s, so no instance reconciles"),
)]
#[case::stopped(
    |it: &mut ClusterState| it.holder = Err(Unavailable::NotHeld(it.lease.clone())),
    "no instance holds the lease scaling/hpa",
    (Level::Error, "no instance holds the lease scaling/hpa"),
)]
#[case::built_in_crashed(
    |it: &mut ClusterState| {
        it.autoscalers[0].manager = Some("kube-controller-manager".into());
        it.autoscalers[0].status_stored_at = "2026-01-31T11:59:40Z".parse().ok();
        it.holder = Err(Unavailable::NoLease(it.lease.clone()));
        let built_in = it.built_in.holder.as_mut().expect("a holder");
        built_in.renewed = EXPIRED.parse().ok();
    },
    "no controller has renewed the lease kube-system/k for 16s",
    (Level::Warning, "no kube-controller-manager holds its lease: that of cp-1 has expired, renewed 16s ago"),
)]
fn autoscalers_without_a_controller_are_the_first_problem(
    #[case] change: fn(&mut ClusterState),
    #[case] reason: &str,
    #[case] (level, end): (Level, &str),
) {
    let mut cluster = healthy();
    change(&mut cluster);
    let found = problems(&cluster);
    let first = format!("no controller acts on 1 autoscaler (shop/web): {reason}");
    assert_eq!(found[0], (Level::Error, first.clone()));
    assert!(found.iter().any(|one| one.0 == level && one.1.ends_with(end)), "{found:?}");
    assert!(found.iter().all(|one| !one.1.contains("whether it still runs")), "{found:?}");
    let text = run_checks(&cluster).text(false);
    let headline = text.lines().next().unwrap_or_default();
    assert!(headline.starts_with("× 1 error, ") && headline.ends_with(&first), "{headline}");
}

#[test]
fn recent_status_of_the_built_in_controller_shows_that_it_handles_autoscalers() {
    let mut cluster = healthy();
    cluster.holder = Err(Unavailable::NotHeld(cluster.lease.clone()));
    cluster.built_in.flags = None;
    assert!(problems(&cluster)[0].1.starts_with("maybe no controller acts on 1 autoscaler"));
    let mut other = autoscaler("other", healthy_conditions());
    other.manager = Some("kube-controller-manager".into());
    cluster.autoscalers.push(other);
    cluster.built_in = cluster.built_in.with_statuses(&cluster.autoscalers);
    let found = problems(&cluster);
    assert!(found.iter().all(|one| !one.1.contains("no controller acts")), "{found:?}");
}

#[test]
fn pause_that_the_built_in_controller_ignores_is_a_problem() {
    let mut cluster = healthy();
    let paused = json!([condition("Paused", "True", "PausedByAnnotation", "")]);
    cluster.autoscalers[0] = autoscaler("web", paused);
    annotate(&mut cluster.autoscalers[0].hpa, "pause", "true");
    cluster.autoscalers[0].manager = Some("kube-controller-manager".into());
    let texts: Vec<_> = problems(&cluster).into_iter().map(|(_, text)| text).collect();
    let expected = "1 autoscaler with a pause that kube-controller-manager ignores: shop/web";
    assert!(texts.iter().any(|text| text == expected), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("paused by annotation")), "{texts:?}");
}

#[test]
fn pause_of_one_direction_is_named() {
    let mut cluster = healthy();
    let paused = json!([condition("Paused", "True", "PausedByAnnotation", "")]);
    cluster.autoscalers[0] = autoscaler("web", paused);
    annotate(&mut cluster.autoscalers[0].hpa, "pause", "down");
    cluster.autoscalers[0].hpa.status.current_replicas = 4;
    let expected = "1 autoscaler paused for scaling down by annotation: shop/web".to_owned();
    assert_eq!(problems(&cluster), [(Level::Warning, expected)]);
}

#[rstest]
#[case::released(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NotHeld(it.lease.clone())),
    Level::Ok, "; it holds no lease, so it no longer writes", ""
)]
#[case::without_a_successor(
    |it: &mut ClusterState| it.holder = Err(Unavailable::NotHeld(it.lease.clone())),
    Level::Warning, "; it holds its lease", ""
)]
#[case::lease_unread(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NoLease(it.lease.clone())),
    Level::Warning, ": shop/web", "whether it still runs is unknown"
)]
fn other_controller_with_an_old_write_is_checked_by_its_lease(
    #[case] change: fn(&mut ClusterState),
    #[case] level: Level,
    #[case] end: &str,
    #[case] hint: &str,
) {
    let mut cluster = healthy();
    cluster.autoscalers[0].manager = Some("kube-controller-manager".into());
    cluster.autoscalers[0].status_stored_at = "2026-01-31T11:00:00Z".parse().ok();
    change(&mut cluster);
    let checks = run_checks(&cluster).sections.into_iter().flat_map(|section| section.checks);
    let start = "kube-controller-manager stored the status of 1 autoscaler last";
    let found = checks.into_iter().find(|check| check.text.starts_with(start));
    let found = found.expect("a check");
    assert!(found.level == level && found.text.ends_with(end), "{found:?}");
    let text = found.hint.unwrap_or_default();
    assert!(text.starts_with(hint) && !text.contains("overwrite"), "{text}");
}

#[test]
fn autoscalers_that_cannot_scale_are_counted_by_reason() {
    let mut cluster = healthy();
    let failed = |reason, message| json!([condition("ScalingActive", "False", reason, message)]);
    let limited = json!([condition("ScalingLimited", "True", "TooManyReplicas", "")]);
    for (name, conditions) in [
        ("a", failed("FailedGetResourceMetric", "no metrics")),
        ("b", failed("FailedGetResourceMetric", "no metrics, too")),
        ("c", json!([condition("AbleToScale", "False", "FailedGetScale", "not found")])),
        ("d", failed("ScalingDisabled", "")),
        ("e", limited),
        ("f", json!([])),
    ] {
        cluster.autoscalers.push(autoscaler(name, conditions));
    }
    let problems = problems(&cluster);
    let texts: Vec<_> = problems.iter().map(|(level, text)| (*level, text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (Level::Error, "4 of 7 autoscalers can't scale"),
            (Level::Error, "FailedGetResourceMetric: 2 autoscalers (shop/a, shop/b)"),
            (Level::Error, "FailedGetScale: 1 autoscaler (shop/c)"),
            (Level::Error, "1 autoscaler without a status: no controller handles them: shop/f"),
            (Level::Warning, "1 autoscaler held at maxReplicas (TooManyReplicas): shop/e"),
            (
                Level::Warning,
                "1 autoscaler off, because the target has 0 replicas (ScalingDisabled): shop/d"
            ),
        ]
    );
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("\n    no metrics; hpa explain shop/a\n"), "{text}");
    let verdict = "× 3 errors, 2 warnings: 4 of 7 autoscalers can't scale\n\ncontroller\n";
    assert!(text.starts_with(verdict), "{text}");
}

#[test]
fn missing_api_is_an_error_only_if_an_autoscaler_fails_without_it() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    assert_eq!(problems(&cluster), [], "the controller may read Prometheus itself");
    let disabled = json!([condition("ScalingActive", "False", "ScalingDisabled", "0 replicas")]);
    cluster.autoscalers.push(autoscaler("off", disabled));
    let is_of_the_api = |(_, text): &(Level, String)| text.contains("metrics.k8s.io");
    assert!(!problems(&cluster).iter().any(is_of_the_api), "nothing is read for 0 replicas");
    let failed = |message: &str| {
        json!([condition("ScalingActive", "False", "FailedGetResourceMetric", message)])
    };
    let of_the_pods = failed("missing request for cpu in container app of Pod web-0");
    cluster.autoscalers.push(autoscaler("norequest", of_the_pods));
    let of_another_api = failed("no custom metrics API (custom.metrics.k8s.io) registered");
    cluster.autoscalers.push(autoscaler("custom", of_another_api));
    assert!(!problems(&cluster).iter().any(is_of_the_api), "the cause is another one");
    cluster.autoscalers.push(autoscaler("api", healthy_conditions()));
    cluster.autoscalers[0] = autoscaler(
        "web",
        failed(
            "the server could not find the requested resource (get \
                                  pods.metrics.k8s.io)",
        ),
    );
    let missing = "metrics.k8s.io is not installed, but needed by shop/web".to_owned();
    assert!(problems(&cluster).contains(&(Level::Error, missing)));
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("install metrics-server, or hpa adapter"), "{text}");
}

#[test]
fn api_is_not_missing_if_a_rule_of_the_controller_has_no_series() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let no_api = "no custom metrics API (custom.metrics.k8s.io) registered";
    let of_a_rule = format!(
        "rules[0] of --metrics-config describes rps, but found no series now{ALSO_NOT_BY_API}: \
         {no_api}"
    );
    let target = json!({ "type": "AverageValue", "averageValue": "1" });
    let metric =
        json!({ "type": "Pods", "pods": { "metric": { "name": "rps" }, "target": target } });
    for (message, is_missing) in [(no_api, true), (of_a_rule.as_str(), false)] {
        let conditions =
            json!([condition("ScalingActive", "False", "FailedGetPodsMetric", message)]);
        cluster.autoscalers[0] = autoscaler("web", conditions);
        cluster.autoscalers[0].hpa.spec.metrics =
            serde_json::from_value(json!([metric])).expect("metrics");
        let text = run_checks(&cluster).text(false);
        assert_eq!(text.contains("custom.metrics.k8s.io is not installed"), is_missing, "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
fn no_api_is_missing_if_the_controller_reads_another_source() {
    let mut cluster = healthy();
    cluster.metrics_apis = Ok(Some(Vec::new()));
    let mut with_value = autoscaler("read", healthy_conditions());
    let current = json!({ "name": "cpu", "current": { "averageUtilization": 40 } });
    let current = json!([{ "type": "Resource", "resource": current }]);
    with_value.hpa.status.current_metrics = serde_json::from_value(current).expect("metrics");
    cluster.autoscalers = vec![with_value, autoscaler("new", json!([]))];
    let text = run_checks(&cluster).text(false);
    let expected = "metrics.k8s.io is not installed: the controller reads these metrics from \
                    another source, such as Prometheus";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("install metrics-server"), "{text}");
}

#[test]
fn unreadable_input_is_a_warning_with_the_reason() {
    let mut cluster = healthy();
    let off = Unavailable::Off { pod: "scaling/hpa-1".into() };
    cluster.status = Err(off);
    let found = problems(&cluster);
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [Level::Warning, Level::Skipped]);
    assert!(found[0].1.contains("pod scaling/hpa-1 has no port \"debug\""), "{found:?}");
    assert_eq!(run_checks(&cluster).level, Level::Warning);

    let forbidden = Unavailable::Forbidden { action: "get the lease".into(), message: "no".into() };
    cluster.holder = Err(forbidden.clone());
    cluster.leader = Err(forbidden.clone());
    cluster.status = Err(forbidden);
    let found = problems(&cluster);
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), [Level::Warning, Level::Skipped]);
    assert!(found[0].1.contains("not permitted to get the lease: no"), "{found:?}");

    let lease = cluster.lease.clone();
    cluster.holder = Err(Unavailable::NoLease(lease.clone()));
    cluster.leader = Err(Unavailable::NoLease(lease.clone()));
    cluster.status = Err(Unavailable::NoLease(lease));
    assert_eq!(problems(&cluster)[0].0, Level::Error, "no controller runs");
}

#[test]
fn unreadable_inputs_are_skipped_checks() {
    let mut cluster = healthy();
    // No controller has stored a status, and no API is registered.
    let mut new = autoscaler("web", json!([]));
    new.manager = None;
    new.created = cluster.now.checked_sub(jiff::SignedDuration::from_secs(9)).ok();
    cluster.autoscalers = vec![new];
    cluster.metrics_apis = Ok(None);
    let lease = cluster.lease.clone();
    cluster.holder = Err(Unavailable::NoLease(lease.clone()));
    cluster.leader = Err(Unavailable::NoLease(lease.clone()));
    cluster.status = Err(Unavailable::NoLease(lease));
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("- 1 of 1 autoscaler without a status yet"), "{text}");
    assert!(text.contains("- the API server registers no metrics APIs"), "{text}");
    assert!(!text.contains("can scale") && !text.contains("available"), "{text}");
}

#[test]
fn paused_autoscalers_are_not_counted_as_able_to_scale() {
    let mut cluster = healthy();
    let mut conditions = healthy_conditions();
    let paused = condition("Paused", "True", "PausedByAnnotation", "");
    conditions.as_array_mut().expect("a list").push(paused);
    cluster.autoscalers.push(autoscaler("paused", conditions));
    cluster.autoscalers[1].hpa.metadata.annotations =
        [("autoscaling.hpa-rs.dev/pause".into(), "true".into())].into();
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("√ 1 of 2 autoscalers can scale"), "{text}");
    cluster.autoscalers.remove(0);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("√ 1 autoscaler without errors"), "{text}");
}

#[test]
fn paused_autoscaler_that_fails_is_listed_as_paused() {
    let mut cluster = healthy();
    let failed = json!([condition("ScalingActive", "False", "FailedGetResourceMetric", "no")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    cluster.autoscalers[0].hpa.metadata.annotations =
        [("autoscaling.hpa-rs.dev/pause".into(), "true".into())].into();
    let paused = "1 autoscaler paused by annotation: shop/web".to_owned();
    assert!(problems(&cluster).contains(&(Level::Warning, paused)));
    assert!(problems(&cluster)[0].1.contains("1 of 1 autoscaler can't scale"));
}

#[test]
fn controller_without_election_is_ok_if_its_debug_api_answers() {
    let mut cluster = healthy();
    cluster.autoscalers[0].manager = Some("hpa-controller".into());
    let lease = cluster.lease.clone();
    cluster.holder = Err(Unavailable::NoLease(lease.clone()));
    cluster.leader = Err(Unavailable::NoLease(lease.clone()));
    cluster.status = Err(Unavailable::NoLease(lease));
    let text = run_checks(&cluster).text(false);
    assert!(!text.contains("overwrite"), "{text}");
    assert!(text.contains("it runs without leader election"), "{text}");
    assert_eq!(run_checks(&cluster).level, Level::Warning);
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    cluster.status = Ok(controller_status());
    assert_eq!(problems(&cluster), [], "its debug API answers");
}

#[test]
fn control_characters_of_a_cluster_are_escaped() {
    let mut cluster = healthy();
    let failed = json!([condition("ScalingActive", "False", "FailedGetScale", "a\x1b[31mb")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("a\\u{1b}[31mb") && !text.contains('\x1b'), "{text}");
}

#[test]
fn autoscalers_of_one_target_name_each_other_across_both_apis() {
    let custom = ListedAutoscaler {
        name: "rhpa/shop/web".to_owned(),
        api: AutoscalerApi::Custom,
        ..autoscaler("web", healthy_conditions())
    };
    let [web, other] = ["web", "other"].map(|name| autoscaler(name, healthy_conditions()));
    let mut all = [web, other, custom];
    set_other_autoscalers(&mut all);
    let (settings, policy) = (Settings::default(), SettingPolicy::default());
    let mut cluster = healthy();
    cluster.autoscalers = all.to_vec();
    cluster.autoscalers[0].manager = Some("kube-controller-manager".into());
    let contested = "2 autoscalers sharing a target with an autoscaler of another controller, so \
                     the replicas may flap: shop/web, rhpa/shop/web";
    assert!(problems(&cluster).contains(&(Level::Error, contested.to_owned())));
    cluster.holder = Err(Unavailable::NotHeld(cluster.lease.clone()));
    let shared = "2 autoscalers with the target of another autoscaler: shop/web, \
                  rhpa/shop/web";
    let found = problems(&cluster);
    assert!(found.contains(&(Level::Warning, shared.to_owned())), "{found:?}");
    assert!(found.iter().all(|one| !one.1.contains("may flap")), "{found:?}");
    let sentences = all.map(|one| one.short_report(&settings, &policy).sentence);
    let with = |other: &str| format!("no metric is reported; {other} has the same target");
    assert_eq!(
        sentences,
        [with("rhpa/shop/web"), "no metric is reported".to_owned(), with("shop/web")]
    );
}
