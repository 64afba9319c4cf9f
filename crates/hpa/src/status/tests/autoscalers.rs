//! Checks of the autoscalers.

use hpa_calc::{
    Settings, explain::UnschedulablePods, report::OverwrittenScalings, settings::SettingPolicy,
};

use super::*;
use crate::{debug_client::UnstoredStatus, listed_autoscalers::set_other_autoscalers};

#[test]
fn overwritten_scalings_are_a_warning() {
    let mut cluster = healthy();
    let scalings = OverwrittenScalings { count: 4, seen_at: None };
    cluster.autoscalers[0].activity.overwritten_scalings = Some(scalings);
    let expected = "1 autoscaler whose replicas another client changes after each scaling \
                    (ReplicasOverwritten): ";
    let problems = problems(&cluster);
    let [(Level::Warning, text)] = problems.as_slice() else { panic!("{problems:?}") };
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn autoscaler_with_unschedulable_pods_waits_for_pods_and_not_for_a_higher_maximum() {
    let mut cluster = healthy();
    let limited = json!([condition("ScalingLimited", "True", "TooManyReplicas", "")]);
    let mut held = autoscaler("web", limited);
    let decision = "cpu is at 90%; maxReplicas is 9; 3 of 9 pods can't be scheduled";
    held.activity.last_decision = Some(decision.to_owned());
    held.activity.unschedulable_pods = Some(UnschedulablePods { count: 3, total: 9 });
    cluster.autoscalers[0] = held;
    let expected = "1 autoscaler waiting for pods: shop/web".to_owned();
    assert_eq!(problems(&cluster), [(Level::Warning, expected)]);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains(&format!("{decision}; hpa explain shop/web\n")), "{text}");
}

/// The conditions don't say that pods are not ready.
#[test]
fn autoscaler_at_its_maximum_has_the_cause_of_its_last_decision() {
    let mut cluster = healthy();
    let limited = json!([condition("ScalingLimited", "True", "TooManyReplicas", "")]);
    let mut held = autoscaler("web", limited);
    let decision = "cpu is at 90%; 2 unready pods counted as 0; maxReplicas is 9";
    held.activity.last_decision = Some(decision.to_owned());
    cluster.autoscalers[0] = held;
    let text = run_checks(&cluster).text(false);
    let expected = format!(
        "1 autoscaler held at maxReplicas (TooManyReplicas): shop/web\n    {decision}; hpa explain \
         shop/web\n"
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn ignored_pause_precedes_the_maximum() {
    let mut cluster = healthy();
    let limited = json!([condition("ScalingLimited", "True", "TooManyReplicas", "")]);
    cluster.autoscalers[0] = autoscaler("web", limited);
    annotate(&mut cluster.autoscalers[0].hpa, "pause", "true");
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    cluster.set_acting_controllers();
    let texts: Vec<_> = problems(&cluster).into_iter().map(|(_, text)| text).collect();
    let position = |part: &str| texts.iter().position(|text| text.contains(part));
    let (pause, maximum) = (position("with a pause that kube-"), position("held at maxReplicas"));
    assert!(pause.is_some() && pause < maximum, "{texts:?}");
}

#[test]
fn pause_that_the_built_in_controller_ignores_is_a_problem() {
    let mut cluster = healthy();
    let paused = json!([condition("Paused", "True", "PausedByAnnotation", "")]);
    cluster.autoscalers[0] = autoscaler("web", paused);
    annotate(&mut cluster.autoscalers[0].hpa, "pause", "true");
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    let texts = |cluster: &mut ClusterState| -> Vec<String> {
        cluster.set_acting_controllers();
        problems(cluster).into_iter().map(|(_, text)| text).collect()
    };
    let paused = "1 autoscaler paused by annotation: shop/web".to_owned();
    let all = texts(&mut cluster);
    assert!(all.contains(&paused) && !all.iter().any(|text| text.contains("ignores")), "{all:?}");

    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    let all = texts(&mut cluster);
    let uncertain = "1 autoscaler with a pause that kube-controller-manager, which may act now, \
                     ignores and hpa-rs would obey: shop/web";
    assert!(all.iter().any(|text| text == uncertain), "{all:?}");

    cluster.lease.holder = Err(Unavailable::NoLease(cluster.lease.name.clone()));
    cluster.status = Err(Unavailable::NoLease(cluster.lease.name.clone()));
    let all = texts(&mut cluster);
    let expected = "1 autoscaler with a pause that kube-controller-manager, which stored the \
                    status last, ignores: shop/web";
    assert!(all.iter().any(|text| text == expected), "{all:?}");
    assert!(!all.contains(&paused), "{all:?}");
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
            (Level::Error, "3 of 7 autoscalers can't scale"),
            (Level::Error, "FailedGetResourceMetric: 2 autoscalers (shop/a, shop/b)"),
            (Level::Error, "FailedGetScale: 1 autoscaler (shop/c)"),
            (Level::Error, "1 autoscaler without a status, maybe handled by no controller: shop/f"),
            (Level::Warning, "1 autoscaler held at maxReplicas (TooManyReplicas): shop/e"),
            (
                Level::Warning,
                "1 autoscaler off, because the target has 0 replicas (ScalingDisabled): shop/d"
            ),
        ]
    );
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("\n    shop/a: no metrics; hpa explain shop/a\n"), "{text}");
    assert!(text.contains("; hpa explain shop/c\n") && !text.contains("shop/c: "), "{text}");
    let read = "\n    their status has no conditions 2m after their creation; hpa-1 holds the \
                lease scaling/hpa; kube-controller-manager holds its lease (cp-1, renewed 1.0s \
                ago); its HPA controller is off (flags of pod kube-system/k-cp-1)\n";
    assert!(text.contains(read), "{text}");
    let headline = "× 3 errors, 2 warnings: 3 of 7 autoscalers can't scale\n\ncontroller\n";
    assert!(text.starts_with(headline), "{text}");
}

#[test]
fn new_autoscaler_that_no_controller_handles_becomes_an_error() {
    let mut cluster = healthy();
    let object = json!({
        "metadata": { "namespace": "shop", "name": "worker", "creationTimestamp": NOW },
        "spec": { "maxReplicas": 3, "scaleTargetRef": { "kind": "Deployment", "name": "worker" } },
    });
    let new = ListedAutoscaler::decode(AutoscalerApi::Custom, &object).expect("an autoscaler");
    cluster.autoscalers.push(new);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("- 1 of 2 autoscalers without a status yet"), "{text}");
    let holder = holder_mut(&mut cluster);
    holder.scope.as_mut().expect("a scope").apis = vec![AutoscalerApi::Core];
    let text = run_checks(&cluster).text(false);
    let finding = "acts on 1 autoscaler (rhpa/shop/worker): an instance with the lease scaling/hpa \
                   handles only other autoscalers (annotation of the lease): --autoscaler-api \
                   (chart: autoscalerApi) leaves out autoscaling.hpa-rs.dev/v2";
    let maybe = format!("‼ maybe no controller {finding}");
    assert!(text.contains(&maybe) && text.starts_with("‼ 0 errors, "), "{text}");
    let created = cluster.now - jiff::SignedDuration::from_mins(3);
    cluster.autoscalers[1].created = Some(created);
    let text = run_checks(&cluster).text(false);
    let certain = format!("× no controller with a known lease {finding}");
    assert!(text.contains(&certain) && text.starts_with("× 1 error, "), "{text}");
    assert!(!text.contains("maybe handled"), "{text}");
}

#[test]
fn long_cause_is_cut_off() {
    let mut cluster = healthy();
    let message = "q".repeat(60_000);
    let failed = json!([condition("ScalingActive", "False", "FailedGetExternalMetric", &message)]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    let text = run_checks(&cluster).text(false);
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|longest| longest < 2100), "{longest:?}");
}

#[test]
fn autoscalers_without_a_status_are_not_said_to_fail() {
    let mut cluster = healthy();
    cluster.autoscalers.push(autoscaler("f", json!([])));
    let text = run_checks(&cluster).text(false);
    let headline = "× 1 error, 0 warnings: 1 of 2 autoscalers without a status\n\ncontroller\n";
    assert!(text.starts_with(headline), "{text}");
}

#[test]
fn autoscaler_whose_status_is_not_stored_is_not_judged_by_it() {
    let mut cluster = healthy();
    let old = json!([condition("ScalingActive", "False", "FailedGetResourceMetric", "no metrics")]);
    cluster.autoscalers.push(autoscaler("old", old));
    let unstored = UnstoredStatus { error: "cannot patch".to_owned(), failure: None };
    cluster.autoscalers[1].unstored = Some(unstored);
    let unknown = "whether 1 of 2 autoscalers can scale is unknown";
    let unstored = "1 autoscaler without a check, because the status is not stored: shop/old";
    let expected = [(Level::Skipped, unknown), (Level::Error, unstored)];
    assert_eq!(problems(&cluster), expected.map(|(level, text)| (level, text.to_owned())));
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("shop/old\n    cannot patch; hpa explain shop/old\n"), "{text}");
}

#[test]
fn undecided_autoscaler_fails_even_if_its_status_is_not_stored() {
    let mut cluster = healthy();
    let failure = Some("queue cannot be read: forbidden".to_owned());
    let unstored = UnstoredStatus { error: "cannot patch".to_owned(), failure };
    for name in ["a", "b"] {
        let mut failing = autoscaler(name, healthy_conditions());
        failing.unstored = Some(unstored.clone());
        cluster.autoscalers.push(failing);
    }
    let headline =
        "2 of 3 autoscalers can't scale; all of them: queue cannot be read: forbidden".to_owned();
    let failing = "no decision, by the debug API: 2 autoscalers (shop/a, shop/b)".to_owned();
    assert_eq!(problems(&cluster), [(Level::Error, headline), (Level::Error, failing)]);
}

#[test]
fn stored_statuses_are_the_named_source_without_a_debug_api() {
    let mut cluster = healthy();
    cluster.status = Err(Unavailable::Off { pod: "scaling/hpa-1".to_owned() });
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("√ 1 autoscaler can scale according to the stored statuses\n"), "{text}");
    let unread = "- lateness, queue, caches, histories, the rules file and failed writes of \
                  statuses are unknown";
    assert!(text.contains(unread), "{text}");
    // The instance at the URL has other autoscalers.
    let names_stored_statuses = |cluster: &ClusterState| {
        run_checks(cluster).text(false).contains("according to the stored statuses")
    };
    (cluster.url, cluster.status) = (Some("http://127.0.0.1:1".into()), Ok(controller_status()));
    assert!(names_stored_statuses(&cluster));
    cluster.reconciled_at_url = BTreeSet::from(["shop/web".to_owned()]);
    assert!(!names_stored_statuses(&cluster));
}

/// The metrics API answers 503, while its `APIService` is available.
#[test]
fn cause_of_most_failing_autoscalers_is_in_the_headline() {
    let mut cluster = healthy();
    let unavailable = "the server is currently unable to handle the request (get \
                       pods.metrics.k8s.io)";
    let failed = |resource: &str, cause: &str| {
        let message = format!(
            "the HPA was unable to compute the replica count: unable to get metrics for resource \
             {resource}: unable to fetch metrics from resource metrics API: {cause}"
        );
        json!([condition("ScalingActive", "False", "FailedGetResourceMetric", &message)])
    };
    for (name, resource, cause) in
        [("a", "cpu", "forbidden"), ("b", "cpu", unavailable), ("c", "memory", unavailable)]
    {
        cluster.autoscalers.push(autoscaler(name, failed(resource, cause)));
    }
    let headline = |cluster: &ClusterState| problems(cluster)[0].1.clone();
    let some = format!("3 of 4 autoscalers can't scale; 2 of them: {unavailable}");
    assert_eq!(headline(&cluster), some);
    cluster.autoscalers.remove(1);
    let all = format!("2 of 3 autoscalers can't scale; all of them: {unavailable}");
    assert_eq!(headline(&cluster), all);
    cluster.autoscalers.truncate(1);
    let forbidden = |place: &str| {
        format!("pods.metrics.k8s.io is forbidden: User \"h\" cannot list resource \"pods\"{place}")
    };
    for namespace in ["shop", "blog"] {
        let cause = forbidden(&format!(" in the namespace \"{namespace}\""));
        let mut one = autoscaler("web", failed("cpu", &cause));
        one.hpa.metadata.namespace = namespace.to_owned();
        cluster.autoscalers.push(one);
    }
    let all = forbidden(" in its namespace");
    assert_eq!(headline(&cluster), format!("2 of 3 autoscalers can't scale; all of them: {all}"));
}

#[test]
fn invalid_settings_are_not_part_of_the_cause_of_another_failure() {
    let mut cluster = healthy();
    let failed = json!([condition("ScalingActive", "False", "FailedGetResourceMetric", "no")]);
    cluster.autoscalers = vec![autoscaler("web", failed)];
    annotate(&mut cluster.autoscalers[0].hpa, "paused", "true");
    let text = run_checks(&cluster).text(false);
    assert!(!text.contains("invalid settings"), "{text}");
    assert!(text.contains("with settings that are not used as written"), "{text}");
}

#[test]
fn paused_autoscalers_are_not_counted_as_able_to_scale() {
    let mut cluster = healthy();
    let mut conditions = healthy_conditions();
    let paused = condition("Paused", "True", "PausedByAnnotation", "");
    conditions.as_array_mut().expect("a list").push(paused);
    cluster.autoscalers.push(autoscaler("paused", conditions));
    annotate(&mut cluster.autoscalers[1].hpa, "pause", "true");
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
    annotate(&mut cluster.autoscalers[0].hpa, "pause", "true");
    let paused = "1 autoscaler paused by annotation: shop/web".to_owned();
    assert!(problems(&cluster).contains(&(Level::Warning, paused)));
    assert!(problems(&cluster)[0].1.contains("1 of 1 autoscaler can't scale"));
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
    set_other_autoscalers(&mut all, healthy().now);
    let (settings, policy) = (Settings::default(), SettingPolicy::default());
    let mut cluster = healthy();
    cluster.autoscalers = all.to_vec();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    assert!(problems(&cluster).iter().all(|one| !one.1.contains("may flap")), "it is off");
    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    let contested = "2 autoscalers sharing a target with an autoscaler of another controller, so \
                     the replicas may flap: shop/web, rhpa/shop/web";
    assert!(problems(&cluster).contains(&(Level::Error, contested.to_owned())));
    cluster.lease.holder = unheld(&cluster.lease.name);
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

/// The flags can't be read. hpa-rs has taken over since, and a dry run leaves the status as it was.
#[test]
fn only_a_recent_status_shows_that_another_controller_scales_the_target() {
    let mut dry_run = autoscaler("dry", healthy_conditions());
    dry_run.hpa.spec.scale_target_ref.name = "web".to_owned();
    annotate(&mut dry_run.hpa, "dry-run", "true");
    dry_run.controller.name = Some("kube-controller-manager".into());
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    cluster.autoscalers.push(dry_run);
    let mut found = |stored_at: &str| {
        cluster.autoscalers[1].controller.at = stored_at.parse().ok();
        cluster.set_acting_controllers();
        problems(&cluster)
    };
    let has = |found: &[(Level, String)], level: Level, text: &str| {
        found.iter().any(|one| one.0 == level && one.1.contains(text))
    };
    assert!(has(&found("2026-01-31T11:59:30Z"), Level::Error, "so the replicas may flap"));
    let old = found("2026-01-31T11:00:00Z");
    assert!(has(&old, Level::Warning, "with the target of another autoscaler"), "{old:?}");
    assert!(old.iter().all(|one| !one.1.contains("may flap")), "{old:?}");
}

#[test]
fn bounds_that_exclude_each_other_are_an_error_whatever_the_conditions_are() {
    let ambiguous = json!([condition("ScalingActive", "False", "AmbiguousSelector", "[...]")]);
    let [mut big, mut small] =
        [("big", ambiguous), ("small", healthy_conditions())].map(|(name, conditions)| {
            let mut one = autoscaler(name, conditions);
            one.hpa.spec.scale_target_ref.name = "duo".to_owned();
            one
        });
    (big.hpa.spec.min_replicas, big.hpa.spec.max_replicas) = (Some(6), 8);
    (small.hpa.spec.min_replicas, small.hpa.spec.max_replicas) = (Some(2), 4);
    let mut cluster = healthy();
    cluster.autoscalers = vec![big, small];
    cluster.set_acting_controllers();
    let conflict = "2 autoscalers with bounds that exclude those of another one of the target: \
                    shop/big, shop/small";
    assert_eq!(problems(&cluster), [(Level::Error, conflict.to_owned())]);
    let sentence = cluster.autoscalers[1]
        .short_report(&Settings::default(), &SettingPolicy::default())
        .sentence;
    let expected = "no metric is reported; conflicts by its bounds, 2 to 4 replicas, with shop/big \
                    (6 to 8): both scale Deployment duo to their own bounds, up and down, for as \
                    long as both exist with these bounds";
    assert_eq!(sentence, expected);

    // A schedule of hpa-rs can raise a maximum.
    let schedule = json!([{ "start": "00:00", "end": "00:00", "maxReplicas": 6 }]).to_string();
    annotate(&mut cluster.autoscalers[1].hpa, "bounds", &schedule);
    cluster.set_acting_controllers();
    assert!(cluster.autoscalers.iter().all(|one| one.bounds_conflict.is_none()));
    annotate(&mut cluster.autoscalers[1].hpa, "bounds", "[]");
    annotate(&mut cluster.autoscalers[1].hpa, "pause", "true");
    cluster.set_acting_controllers();
    assert!(cluster.autoscalers.iter().all(|one| one.bounds_conflict.is_none()));
}
