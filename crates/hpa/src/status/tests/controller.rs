//! Checks of the controllers and their leases.

use super::*;

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
    cluster.built_in.flags = None;
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
fn statuses_that_a_switched_off_controller_stored_before_the_migration_are_no_problem() {
    let mut cluster = healthy();
    cluster.autoscalers[0].manager = Some("kube-controller-manager".into());
    cluster.autoscalers[0].status_stored_at = "2026-01-31T11:00:00Z".parse().ok();
    assert_eq!(problems(&cluster), []);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("; its HPA controller is off, so it no longer writes"), "{text}");
    assert!(!text.contains("overwrite"), "{text}");

    cluster.holder = Err(Unavailable::NoLease(cluster.lease.clone()));
    cluster.searched_namespaces = ["kube-system", "autoscaling"].map(str::to_owned).to_vec();
    let found = problems(&cluster);
    let maybe = "maybe no controller acts on 1 autoscaler (shop/web): kube-controller-manager's HPA \
                 controller is off, and no lease hpa was found in kube-system or autoscaling; if \
                 hpa-rs runs elsewhere, add --controller-namespace";
    assert_eq!(found[0], (Level::Warning, maybe.to_owned()));
    let no_lease = "no lease hpa was found in kube-system or autoscaling";
    assert!(found.contains(&(Level::Warning, no_lease.to_owned())), "{found:?}");
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
