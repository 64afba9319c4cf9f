//! Checks of the controllers and their leases.

use super::*;
use crate::liveness::ReadLease;

/// The level and text of the check of kube-controller-manager.
fn check_of_built_in(cluster: &ClusterState) -> (Level, String) {
    let mut checks = checks_of(cluster).into_iter();
    let of_built_in = checks.find(|(_, text)| {
        text.contains("kube-controller-manager") && !text.contains("handles the autoscalers")
    });
    of_built_in.expect("a check")
}

/// A status write of kube-controller-manager.
fn built_in_write(at: &str) -> StatusWrite {
    let at = at.parse().expect("a time");
    StatusWrite { manager: "kube-controller-manager".into(), at }
}

/// The check of the status that kube-controller-manager stored.
fn check_of_built_in_writer(cluster: &ClusterState) -> Check {
    let mut checks = run_checks(cluster).sections.into_iter().flat_map(|section| section.checks);
    let start = "kube-controller-manager stored the status of 1 autoscaler last";
    checks.find(|check| check.text.starts_with(start)).expect("a check")
}

#[rstest]
#[case::beside(
    |_: &mut ClusterState| {},
    Level::Warning,
    "beside this one: both overwrite each other's decisions about 1 autoscaler (shop/web)"
)]
#[case::only_the_custom_api(
    |it: &mut ClusterState| it.autoscalers[0].api = AutoscalerApi::Custom,
    Level::Ok, "is on (flags of pod kube-system/k-cp-1)"
)]
#[case::holder_of_the_custom_api_only(
    |it: &mut ClusterState| set_apis(it, &[AutoscalerApi::Custom]),
    Level::Ok, "is on (flags of pod kube-system/k-cp-1)"
)]
#[case::alone(
    |it: &mut ClusterState| it.lease.holder = unheld(&it.lease.name),
    Level::Ok, "is on (flags of pod kube-system/k-cp-1)"
)]
#[case::flags_unread(
    |it: &mut ClusterState| it.built_in.flags = None,
    Level::Skipped, "so its HPA controller may be on"
)]
#[case::expired(
    |it: &mut ClusterState| {
        it.built_in.holder.as_mut().expect("a holder").renewed = EXPIRED.parse().ok();
    },
    Level::Ok,
    "no kube-controller-manager holds its lease: that of cp-1 has expired, renewed 16s ago"
)]
#[case::released(
    |it: &mut ClusterState| it.built_in.holder = unheld(&it.lease.name),
    Level::Ok,
    "no kube-controller-manager holds its lease"
)]
#[case::no_lease(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NoLease(LeaseKey::built_in())),
    Level::Skipped,
    "is unknown: there is no lease kube-system/kube-controller-manager"
)]
#[case::forbidden(
    |it: &mut ClusterState| {
        let (action, message) = ("get".to_owned(), "no".to_owned());
        it.built_in.holder = Err(Unavailable::Forbidden { action, message });
    },
    Level::Skipped,
    "whether kube-controller-manager runs is unknown: no"
)]
fn check_of_kube_controller_manager_depends_on_lease_and_flags(
    #[case] change: fn(&mut ClusterState),
    #[case] level: Level,
    #[case] end: &str,
) {
    let mut cluster = healthy();
    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    change(&mut cluster);
    let (found, text) = check_of_built_in(&cluster);
    assert!(found == level && text.ends_with(end), "{found:?} {text}");
}

#[rstest]
#[case::crashed(
    |it: &mut ClusterState| {
        holder_mut(it).renewed = EXPIRED.parse().ok();
    },
    "no controller has renewed the lease scaling/hpa for 16s, and kube-controller-manager's HPA \
     controller is off",
    (Level::Error, "it has expired after 15s, so no instance with this lease reconciles"),
)]
#[case::stopped(
    |it: &mut ClusterState| it.lease.holder = unheld(&it.lease.name),
    "no instance holds the lease scaling/hpa, and kube-controller-manager's HPA controller is off",
    (Level::Error, "no instance holds the lease scaling/hpa"),
)]
#[case::built_in_crashed(
    |it: &mut ClusterState| {
        it.autoscalers[0].controller.name = Some("kube-controller-manager".into());
        it.autoscalers[0].controller.at = "2026-01-31T11:59:40Z".parse().ok();
        it.lease.holder = Err(Unavailable::NoLease(it.lease.name.clone()));
        let built_in = it.built_in.holder.as_mut().expect("a holder");
        built_in.renewed = EXPIRED.parse().ok();
    },
    "no controller has renewed the lease kube-system/k for 16s",
    (
        Level::Warning,
        "no kube-controller-manager holds its lease: that of cp-1 has expired, renewed 16s ago",
    ),
)]
fn autoscalers_without_a_controller_are_the_first_problem(
    #[case] change: fn(&mut ClusterState),
    #[case] reason: &str,
    #[case] (level, end): (Level, &str),
) {
    let mut cluster = healthy();
    change(&mut cluster);
    let found = problems(&cluster);
    let first =
        format!("no controller with a known lease acts on 1 autoscaler (shop/web): {reason}");
    assert_eq!(found[0], (Level::Error, first.clone()));
    assert!(found.iter().any(|one| one.0 == level && one.1.ends_with(end)), "{found:?}");
    assert!(found.iter().all(|one| !one.1.contains("whether it still runs")), "{found:?}");
    let text = run_checks(&cluster).text(false);
    let headline = text.lines().next().unwrap_or_default();
    assert!(headline.starts_with("× 1 error, ") && headline.ends_with(&first), "{headline}");
}

#[test]
fn expired_lease_is_a_warning_beside_an_instance_without_leader_election() {
    let mut cluster = healthy();
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    cluster.autoscalers[0].controller.name = Some("hpa-controller".into());
    set_writers(&mut cluster);
    let found = problems(&cluster);
    let end = "it has expired after 15s, and whether an instance without leader election \
               reconciles is unknown";
    assert!(found.iter().any(|one| one.1.ends_with(end)), "{found:?}");
    assert!(found.iter().all(|one| one.0 < Level::Error), "{found:?}");
}

#[test]
fn lease_with_an_unreadable_time_is_a_warning() {
    let mut cluster = healthy();
    for holder in [&mut cluster.lease.holder, &mut cluster.built_in.holder] {
        let holder = holder.as_mut().expect("a holder");
        (holder.renewed, holder.has_unreadable_time) = (None, true);
    }
    let found = problems(&cluster);
    let own = "the time of the last renewal of the lease scaling/hpa can't be read (holder: hpa-1)";
    assert!(found.contains(&(Level::Warning, own.to_owned())), "{found:?}");
    let built_in = "whether kube-controller-manager runs is unknown: the time of the last renewal \
                    of the lease kube-system/k can't be read";
    assert_eq!(check_of_built_in(&cluster), (Level::Skipped, built_in.to_owned()));
    assert!(found.iter().all(|one| one.0 < Level::Error), "{found:?}");
}

#[test]
fn recent_status_of_the_built_in_controller_shows_that_it_handles_autoscalers() {
    let mut cluster = healthy();
    cluster.lease.holder = unheld(&cluster.lease.name);
    cluster.built_in.flags = None;
    assert!(problems(&cluster)[0].1.starts_with("maybe no controller acts on 1 autoscaler"));
    let mut other = autoscaler("other", healthy_conditions());
    other.controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers.push(other);
    cluster = with_last_writes(cluster);
    let found = problems(&cluster);
    assert!(found.iter().all(|one| !one.1.contains(" acts on ")), "{found:?}");
}

#[rstest]
#[case::released(
    |it: &mut ClusterState| it.built_in.holder = unheld(&it.lease.name),
    Level::Ok, "; it holds no lease, so it no longer writes", ""
)]
#[case::without_a_successor(
    |it: &mut ClusterState| it.lease.holder = unheld(&it.lease.name),
    Level::Warning, "; it holds its lease", ""
)]
#[case::lease_unread(
    |it: &mut ClusterState| it.built_in.holder = Err(Unavailable::NoLease(it.lease.name.clone())),
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
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = "2026-01-31T11:00:00Z".parse().ok();
    change(&mut cluster);
    let found = check_of_built_in_writer(&cluster);
    assert!(found.level == level && found.text.ends_with(end), "{found:?}");
    let text = found.hint.unwrap_or_default();
    assert!(text.starts_with(hint) && !text.contains("overwrite"), "{text}");
}

#[rstest]
#[case::after_the_expiry(
    "11:59:58",
    Level::Warning,
    "but if the clocks agree, it has written without one"
)]
#[case::before_the_expiry("11:59:20", Level::Ok, "so it no longer writes")]
fn recent_write_after_the_lease_expired_is_a_warning(
    #[case] written: &str,
    #[case] level: Level,
    #[case] end: &str,
) {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    let holder = cluster.built_in.holder.as_mut().expect("a holder");
    holder.renewed = "2026-01-31T11:59:13Z".parse().ok();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = format!("2026-01-31T{written}Z").parse().ok();
    let found = check_of_built_in_writer(&cluster);
    let end = format!("; it holds no lease, {end}");
    assert!(found.level == level && found.text.ends_with(&end), "{found:?}");
}

/// The flags can't be read, and the status of a steady autoscaler doesn't change.
#[rstest]
#[case::after_the_write("2026-01-31T11:57:00Z", None, Level::Ok)]
#[case::within_the_difference_of_clocks("2026-01-31T11:55:30Z", None, Level::Warning)]
#[case::before_the_write("2026-01-31T11:50:00Z", None, Level::Warning)]
#[case::built_in_is_on("2026-01-31T11:57:00Z", Some(true), Level::Warning)]
fn status_before_the_acquisition_of_the_lease_is_no_problem(
    #[case] acquired: &str,
    #[case] enables_hpa: Option<bool>,
    #[case] level: Level,
) {
    let mut cluster = healthy();
    cluster.built_in.flags =
        enables_hpa.map(|enables_hpa| ManagerFlags { pod: "k-cp-1".into(), enables_hpa });
    holder_mut(&mut cluster).acquired = acquired.parse().ok();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = "2026-01-31T11:55:00Z".parse().ok();
    let found = check_of_built_in_writer(&cluster);
    assert_eq!(found.level, level, "{found:?}");
    let takeover = "before hpa-rs acquired the lease scaling/hpa";
    assert_eq!(found.text.contains(takeover), level == Level::Ok, "{found:?}");
}

/// The instance with the checked lease handles another namespace. The flags can't be read.
#[test]
fn status_before_the_acquisition_of_a_lease_is_a_problem_if_its_holder_handles_others() {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = "2026-01-31T11:55:00Z".parse().ok();
    let checked = holder_mut(&mut cluster);
    checked.acquired = "2026-01-31T11:57:00Z".parse().ok();
    let name = LeaseKey { name: "shop".into(), ..checked.lease.clone() };
    let own = LeaseHolder { lease: name.clone(), ..checked.clone() };
    checked.scope.as_mut().expect("a scope").namespaces = vec!["blog".to_owned()];
    let found = check_of_built_in_writer(&cluster);
    let is_explained = found.text.contains("before hpa-rs acquired");
    assert!(found.level == Level::Warning && !is_explained, "{found:?}");

    cluster.lease.others = vec![ReadLease { name: name.clone(), holder: Ok(own.clone()) }];
    let found = check_of_built_in_writer(&cluster);
    let takeover = ", before hpa-rs acquired the lease scaling/shop: ";
    assert!(found.level == Level::Ok && found.text.contains(takeover), "{found:?}");

    let stopped = LeaseHolder { renewed: EXPIRED.parse().ok(), ..own };
    cluster.lease.others = vec![ReadLease { name, holder: Ok(stopped) }];
    assert_eq!(check_of_built_in_writer(&cluster).level, Level::Warning);
    let (_, first) = &problems(&cluster)[0];
    let idle = "maybe no controller acts on 1 autoscaler (shop/web): no controller has renewed the \
                lease scaling/shop for 16s, and whether kube-controller-manager handles \
                autoscalers is unknown";
    assert!(first.starts_with(idle), "{first}");
}

/// The flags can't be read. The lease was acquired at 11:50.
#[rstest]
#[case::after("2026-01-31T11:55:00Z", true)]
#[case::within_the_difference_of_clocks("2026-01-31T11:50:30Z", false)]
#[case::before("2026-01-31T11:45:00Z", false)]
fn time_of_a_status_after_the_acquisition_of_the_lease_is_reported(
    #[case] stored_at: &str,
    #[case] is_after: bool,
) {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    holder_mut(&mut cluster).acquired = "2026-01-31T11:50:00Z".parse().ok();
    cluster.built_in.last_write = stored_at.parse().ok();
    let (level, text) = check_of_built_in(&cluster);
    let end = "; its HPA controller may be on (a status stored 5m ago, after hpa-rs acquired the \
               lease scaling/hpa, names it)";
    assert_eq!((level, text.ends_with(end)), (Level::Skipped, is_after), "{text}");
}

/// The holder may be an instance on a developer's machine.
#[test]
fn holder_of_a_lease_without_a_pod_is_no_problem() {
    let mut cluster = healthy();
    let missing = Unavailable::NoPod { pod: "scaling/laptop".into() };
    (cluster.leader, cluster.status) = (Err(missing.clone()), Err(missing));
    let no_pod = "the holder of the lease has no pod scaling/laptop".to_owned();
    let found = problems(&cluster);
    assert!(found.contains(&(Level::Skipped, no_pod.clone())), "{found:?}");
    let text = run_checks(&cluster).text(false);
    assert!(text.starts_with("√ no problems found; 2 checks skipped\n"), "{text}");
    assert!(text.contains("outside of the cluster or in another namespace"), "{text}");
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    assert!(problems(&cluster).contains(&(Level::Warning, no_pod)));
}

#[test]
fn controllers_that_overwrite_each_other_are_the_headline() {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = "2026-01-31T11:59:51Z".parse().ok();
    let unreadable =
        || Unavailable::Forbidden { action: "get the pod".into(), message: "no".into() };
    cluster.leader = Err(unreadable());
    cluster.status = Err(unreadable());
    let first = &problems(&cluster)[0];
    assert!(first.1.starts_with("the pod of hpa-1_0b5c can't be read"), "{first:?}");
    let text = run_checks(&cluster).text(false);
    let headline = text.lines().next().unwrap_or_default();
    let conflict = "kube-controller-manager stored the status of 1 autoscaler last, most recently \
                    9s ago: shop/web; if it handles the same autoscalers as the holder of the \
                    lease, both overwrite each other's decisions";
    assert!(headline.starts_with("‼ ") && headline.ends_with(conflict), "{headline}");
}

#[test]
fn statuses_that_a_switched_off_controller_stored_before_the_migration_are_no_problem() {
    let mut cluster = healthy();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers[0].controller.at = "2026-01-31T11:00:00Z".parse().ok();
    assert_eq!(problems(&cluster), []);
    let text = run_checks(&cluster).text(false);
    assert!(text.contains("; its HPA controller is off, so it no longer writes"), "{text}");
    assert!(!text.contains("overwrite"), "{text}");

    cluster.lease.holder = Err(Unavailable::NoLease(cluster.lease.name.clone()));
    cluster.lease.searched_namespaces = ["kube-system", "autoscaling"].map(str::to_owned).to_vec();
    set_writers(&mut cluster);
    let found = problems(&cluster);
    let maybe = "maybe no controller acts on 1 autoscaler (shop/web): kube-controller-manager's \
                 HPA controller is off, and no lease hpa was found in kube-system or autoscaling; \
                 if hpa-rs runs elsewhere, add --controller-namespace";
    assert_eq!(found[0], (Level::Warning, maybe.to_owned()));
    let no_lease = "no lease hpa was found in kube-system or autoscaling";
    assert!(found.contains(&(Level::Warning, no_lease.to_owned())), "{found:?}");

    // Only one of three namespaces has the status of a controller without a lease.
    for namespace in ["one", "two"] {
        cluster.autoscalers.push(autoscaler_of(namespace, "web", &cluster.lease.name));
    }
    set_writers(&mut cluster);
    let found = problems(&cluster);
    assert!(found.contains(&(Level::Error, no_lease.to_owned())), "{found:?}");
}

#[test]
fn controller_without_election_is_ok_if_its_debug_api_answers() {
    let mut cluster = healthy();
    cluster.autoscalers[0].controller.name = Some("hpa-controller".into());
    set_writers(&mut cluster);
    let missing = Unavailable::NoLease(cluster.lease.name.clone());
    set_unavailable(&mut cluster, &missing);
    let text = run_checks(&cluster).text(false);
    assert!(!text.contains("overwrite"), "{text}");
    assert!(text.contains("it runs without leader election"), "{text}");
    assert_eq!(run_checks(&cluster).level, Level::Warning);
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    cluster.status = Ok(controller_status());
    cluster.reconciled_at_url = BTreeSet::from(["shop/web".to_owned()]);
    assert_eq!(problems(&cluster), [], "its debug API answers");
}

#[test]
fn error_of_the_url_names_the_holder_of_the_lease() {
    let mut cluster = healthy();
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    cluster.status = Err(Unavailable::Unreachable("no response".to_owned()));
    let error = "the debug API can't be read: the debug API can't be reached: no response";
    let holder = "; the lease scaling/hpa is held by hpa-1, renewed 2.0s ago";
    let expected = [(Level::Error, format!("{error}{holder}"))];
    let errors = |cluster: &ClusterState| {
        let found = problems(cluster).into_iter();
        found.filter(|(_, text)| text.starts_with("the debug API")).collect::<Vec<_>>()
    };
    assert_eq!(errors(&cluster), expected);
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    assert_eq!(errors(&cluster), [(Level::Error, error.to_owned())], "no instance holds it");
}

#[test]
fn standby_at_the_url_is_no_problem_while_another_instance_holds_its_lease() {
    let mut cluster = healthy();
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    status_mut(&mut cluster).is_leader = false;
    let standby =
        "the instance is a standby; the lease scaling/hpa is held by hpa-1, renewed 2.0s ago";
    assert_eq!(problems(&cluster), [(Level::Skipped, standby.to_owned())]);
    let error = (Level::Error, "the instance is not the leader: it only stands by".to_owned());
    status_mut(&mut cluster).lease = Some("other".to_owned());
    assert_eq!(problems(&cluster), std::slice::from_ref(&error));
    status_mut(&mut cluster).lease = Some("hpa".to_owned());
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    assert!(problems(&cluster).contains(&error));
}

/// The instance at the URL is for one namespace.
#[test]
fn debug_api_at_a_url_answers_only_for_its_autoscalers() {
    let mut cluster = healthy();
    let lease = cluster.lease.name.clone();
    cluster.autoscalers.push(autoscaler_of("blog", "web", &lease));
    set_writers(&mut cluster);
    cluster.lease.holder = unheld(&lease);
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    cluster.reconciled_at_url = BTreeSet::from(["shop/web".to_owned()]);
    let idle = "no controller with a known lease acts on 1 autoscaler (blog/web): no instance \
                holds the lease scaling/hpa, and kube-controller-manager's HPA controller is off";
    assert_eq!(problems(&cluster)[0], (Level::Error, idle.to_owned()));
}

/// An autoscaler of a namespace whose status the hpa-rs with this lease stored 16 seconds ago.
fn autoscaler_of(namespace: &str, name: &str, lease: &LeaseKey) -> ListedAutoscaler {
    let mut one = autoscaler(name, healthy_conditions());
    one.name = format!("{namespace}/{name}");
    one.hpa.metadata.namespace = namespace.to_owned();
    one.controller.name = Some(format!("hpa-controller:{}/{}", lease.namespace, lease.name));
    one.controller.at = EXPIRED.parse().ok();
    one
}

/// hpa-rs was installed again under another name. The statuses of steady autoscalers still name the
/// earlier lease.
#[test]
fn steady_statuses_that_name_an_earlier_lease_are_no_problem_while_the_new_one_is_held() {
    let old = LeaseKey { namespace: "scaling".into(), name: "one".into() };
    let mut cluster = healthy();
    cluster.autoscalers[0].controller.at = EXPIRED.parse().ok();
    for holder in [
        Unavailable::NotHeld { lease: old.clone(), released: None },
        Unavailable::NoLease(old.clone()),
    ] {
        cluster.autoscalers.truncate(1);
        for name in ["a", "b"] {
            let mut steady = autoscaler_of("shop", name, &old);
            steady.controller.at = "2026-01-31T11:00:00Z".parse().ok();
            cluster.autoscalers.push(steady);
        }
        cluster.lease.others = vec![ReadLease { name: old.clone(), holder: Err(holder) }];
        set_writers(&mut cluster);
        assert_eq!(problems(&cluster), []);
        let stopped = "hpa-controller:scaling/one stored the status of 2 autoscalers last, most \
                       recently 1h ago: shop/a, shop/b; it holds no lease, so it no longer writes";
        assert!(checks_of(&cluster).contains(&(Level::Ok, stopped.to_owned())));

        cluster.autoscalers[0] = autoscaler_of("blog", "web", &cluster.lease.name);
        set_writers(&mut cluster);
        assert_eq!(problems(&cluster), [], "it published that it handles all namespaces");
        let scope = holder_mut(&mut cluster).scope.take();
        let found = problems(&cluster);
        assert_eq!(found.len(), 1, "{found:?}");
        let doubt = "whether an instance with the lease scaling/hpa acts instead is unknown";
        assert!(found[0].0 == Level::Warning && found[0].1.ends_with(doubt), "{found:?}");
        assert!(found[0].1.starts_with("maybe no controller acts on 2 autoscalers"), "{found:?}");
        holder_mut(&mut cluster).scope = scope;
        cluster.autoscalers[0] = autoscaler_of("shop", "web", &cluster.lease.name);
    }
}

/// hpa-rs was installed again under another name, and no status has changed since. The new lease
/// names no namespaces.
#[test]
fn held_lease_that_no_status_names_makes_a_lost_one_a_warning() {
    let new = |namespace: &str| LeaseKey { namespace: namespace.into(), name: "new".into() };
    let mut cluster = healthy();
    let mut expired = cluster.lease.holder.clone();
    expired.as_mut().expect("a holder").renewed = EXPIRED.parse().ok();
    let released = unheld(&cluster.lease.name);
    let unpublished = healthy().lease.holder.map(|holder| LeaseHolder { scope: None, ..holder });
    for lost in [expired, released] {
        let holder = std::mem::replace(&mut cluster.lease.holder, lost);
        cluster.lease.others =
            vec![ReadLease { name: new("scaling"), holder: unpublished.clone() }];
        let text = run_checks(&cluster).text(false);
        let first = "‼ 0 errors, 1 warning: maybe no controller acts on 1 autoscaler (shop/web): ";
        assert!(text.starts_with(first), "{text}");
        let doubt = "whether an instance with the lease scaling/new acts instead is unknown\n";
        let flags = "    an instance holds the lease scaling/new: --controller-namespace scaling \
                     --controller-lease new checks it\n";
        assert!(text.contains(doubt) && text.contains(flags), "{text}");

        cluster.lease.others[0].name = new("elsewhere");
        let is_error = |(level, text): &(Level, String)| {
            *level == Level::Error && text.contains("lease scaling/hpa")
        };
        assert!(problems(&cluster).iter().any(is_error), "its instance may have own namespaces");
        let mut elsewhere = healthy().lease.holder.expect("a holder");
        elsewhere.scope.as_mut().expect("a scope").namespaces = vec!["blog".to_owned()];
        cluster.lease.others = vec![ReadLease { name: new("scaling"), holder: Ok(elsewhere) }];
        assert!(problems(&cluster).iter().any(is_error), "its instance handles other namespaces");
        cluster.lease.holder = holder;
    }
}

/// An instance of another name has taken over within the last minute.
#[test]
fn recent_writes_before_the_loss_of_a_lease_are_no_conflict() {
    let old = LeaseKey { namespace: "scaling".into(), name: "one".into() };
    let released =
        |at: &str| Unavailable::NotHeld { lease: old.clone(), released: at.parse().ok() };
    let mut cluster = healthy();
    cluster.autoscalers.push(autoscaler_of("shop", "a", &old));
    set_writers(&mut cluster);
    let mut expired = cluster.lease.holder.clone();
    expired.as_mut().expect("a holder").renewed = EXPIRED.parse().ok();
    for holder in
        [Err(released("2026-01-31T11:59:45Z")), expired, Err(Unavailable::NoLease(old.clone()))]
    {
        cluster.lease.others = vec![ReadLease { name: old.clone(), holder }];
        assert_eq!(problems(&cluster), []);
        let stopped = "hpa-controller:scaling/one stored the status of 1 autoscaler last, most \
                       recently 16s ago: shop/a; it holds no lease, so it no longer writes";
        assert!(checks_of(&cluster).contains(&(Level::Ok, stopped.to_owned())));
    }

    let holder = Err(released("2026-01-31T11:58:40Z"));
    cluster.lease.others = vec![ReadLease { name: old.clone(), holder }];
    let later = "hpa-controller:scaling/one stored the status of 1 autoscaler last, most recently \
                 16s ago: shop/a";
    let both = "hpa-controller:scaling/hpa and hpa-controller:scaling/one both act on 2 \
                autoscalers (shop/a, shop/web) and overwrite each other's decisions";
    assert_eq!(problems(&cluster), [both, later].map(|text| (Level::Warning, text.to_owned())));
}

#[test]
fn writers_beside_a_lost_lease_are_not_the_first_problem() {
    let mut cluster = healthy();
    let lease = cluster.lease.name.clone();
    for manager in ["hpa-controller", "k3s"] {
        let mut other = autoscaler_of("blog", manager, &lease);
        other.controller.name = Some(manager.to_owned());
        cluster.autoscalers.push(other);
    }
    set_writers(&mut cluster);
    let assert_first = |cluster: &ClusterState, expected: &str| {
        let text = run_checks(cluster).text(false);
        assert!(text.lines().next().is_some_and(|first| first.contains(expected)), "{text}");
    };
    assert_first(
        &cluster,
        "hpa-controller and hpa-controller:scaling/hpa both act on 2 autoscalers",
    );
    cluster.lease.holder = Err(Unavailable::Unreachable("refused".to_owned()));
    assert_first(&cluster, "the lease can't be read");
    let possible = "k3s stored the status of 1 autoscaler last, most recently 16s ago: blog/k3s; \
                    if it handles the same autoscalers as the holder of the lease, both overwrite";
    assert!(problems(&cluster).iter().any(|(_, text)| text.starts_with(possible)));
    cluster.lease.holder = unheld(&lease);
    assert_first(&cluster, "no controller with a known lease acts on 1 autoscaler (shop/web)");
}

/// The instance at the URL runs without leader election.
#[test]
fn writer_beside_the_instance_at_the_url_is_the_headline() {
    let mut cluster = healthy();
    let lease = cluster.lease.name.clone();
    cluster.autoscalers[0].controller.name = Some("hpa-controller".to_owned());
    let mut other = autoscaler_of("shop", "other", &lease);
    other.controller.name = Some("k3s".to_owned());
    cluster.autoscalers.push(other);
    set_writers(&mut cluster);
    cluster.lease.holder = Err(Unavailable::NoLease(lease));
    cluster.url = Some("http://127.0.0.1:1".to_owned());
    cluster.reconciled_at_url = BTreeSet::from(["shop/web".to_owned()]);
    let text = run_checks(&cluster).text(false);
    let first = text.lines().next().unwrap_or_default();
    let conflict = "; if it handles the same autoscalers as another controller, both overwrite \
                    each other's decisions";
    assert!(first.ends_with(conflict), "{text}");
}

#[test]
fn holder_of_an_expired_lease_overwrites_nothing() {
    let mut cluster = healthy();
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.built_in.holder = Err(Unavailable::NoLease(LeaseKey::built_in()));
    cluster.built_in.flags = None;
    let text = |cluster: &ClusterState| run_checks(cluster).text(false);
    assert!(text(&cluster).contains("both overwrite"), "the lease is held");
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    assert!(!text(&cluster).contains("both overwrite"), "{}", text(&cluster));
    assert!(text(&cluster).contains("whether it still runs is unknown"), "{}", text(&cluster));
}

/// The flags can't be read, and hpa-rs has stored the only status since.
#[rstest]
#[case::recent("2026-01-31T11:59:30Z", Level::Warning)]
#[case::old("2026-01-31T11:58:30Z", Level::Skipped)]
fn overwritten_status_shows_that_the_built_in_controller_is_on(
    #[case] built_in_stored_at: &str,
    #[case] expected: Level,
) {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    cluster.autoscalers[0].controller.overwritten = vec![built_in_write(built_in_stored_at)];
    cluster.built_in = cluster.built_in.with_statuses(&status_writers(&cluster.autoscalers));
    let (level, text) = check_of_built_in(&cluster);
    assert_eq!(level, expected, "{text}");
    assert_eq!(text.contains("both overwrite"), level == Level::Warning, "{text}");
}

/// The flags can't be read, as on managed clusters.
#[test]
fn recent_status_shows_in_each_check_that_the_built_in_controller_is_on() {
    let on = "; its HPA controller is on (a status stored 10s ago names it)";
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    let mut other = autoscaler("other", healthy_conditions());
    other.controller.name = Some("kube-controller-manager".into());
    cluster.autoscalers.push(other);
    cluster = with_last_writes(cluster);
    let (level, text) = check_of_built_in(&cluster);
    let conflict = format!(
        "{on} beside this one: both overwrite each other's decisions about 2 autoscalers \
         (shop/other, shop/web)"
    );
    assert!(level == Level::Warning && text.ends_with(&conflict), "{text}");
    let report = run_checks(&cluster).text(false);
    let once = format!("‼ 0 errors, 1 warning: {text}\n");
    assert!(report.starts_with(&once) && !report.contains("may be on"), "{report}");

    // Errors may be a consequence: kube-controller-manager doesn't know the rules of hpa-rs.
    let failed = condition("ScalingActive", "False", "FailedGetPodsMetric", "no custom metrics");
    cluster.autoscalers.push(autoscaler("failing", json!([failed])));
    let (_, text) = check_of_built_in(&cluster);
    let report = run_checks(&cluster).text(false);
    let first = format!("× 1 error, 1 warning: {text}\n");
    assert!(report.starts_with(&first), "{report}");
    cluster.autoscalers.pop();

    cluster.lease.holder = unheld(&cluster.lease.name);
    let (level, text) = check_of_built_in(&cluster);
    assert!(level == Level::Ok && text.ends_with(on), "{text}");
    let report = run_checks(&cluster).text(false);
    assert!(!report.contains("may be on"), "{report}");
}

/// kube-controller-manager acquired its lease only 20 s before the status that names it, so its
/// predecessor may have stored the status. hpa-rs acquired its own lease before that.
#[test]
fn built_in_controller_that_has_just_started_may_act_beside_hpa_rs() {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    holder_mut(&mut cluster).acquired = "2026-01-31T11:00:00Z".parse().ok();
    let holder = cluster.built_in.holder.as_mut().expect("a holder");
    holder.acquired = "2026-01-31T11:59:20Z".parse().ok();
    let write = built_in_write("2026-01-31T11:59:40Z");
    cluster.autoscalers[0].controller.overwritten = vec![write];
    cluster = with_last_writes(cluster);
    let (level, text) = check_of_built_in(&cluster);
    let end = "; if it is, both overwrite each other's decisions about 1 autoscaler (shop/web)";
    let start = "; its HPA controller may be on (a status stored 20s ago names it";
    assert!(level == Level::Warning && text.contains(start) && text.ends_with(end), "{text}");
}

/// An instance without a lease has replaced hpa-rs and the former kube-controller-manager.
#[test]
fn lost_lease_is_no_problem_while_a_built_in_controller_without_a_lease_writes() {
    let mut cluster = healthy();
    cluster.lease.holder = unheld(&cluster.lease.name);
    cluster.built_in.holder = Err(Unavailable::NoLease(LeaseKey::built_in()));
    cluster.built_in.flags = None;
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    let replaced = "no instance holds the lease scaling/hpa: kube-controller-manager handles the \
                    autoscalers";
    for (stored_at, level) in
        [("2026-01-31T11:59:50Z", Level::Ok), ("2026-01-31T11:58:50Z", Level::Warning)]
    {
        cluster.autoscalers[0].controller.at = stored_at.parse().ok();
        set_writers(&mut cluster);
        let is_replaced = checks_of(&cluster).contains(&(Level::Ok, replaced.to_owned()));
        assert_eq!(is_replaced, level == Level::Ok, "{:?}", checks_of(&cluster));
    }
}

/// Another kube-controller-manager without a lease may have stored the status, and stopped.
#[test]
fn old_status_shows_only_that_the_built_in_controller_may_be_on() {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    let holder = cluster.built_in.holder.as_mut().expect("a holder");
    holder.acquired = "2026-01-31T11:00:00Z".parse().ok();
    let write = built_in_write("2026-01-31T11:55:00Z");
    cluster.autoscalers[0].controller.overwritten = vec![write];
    cluster = with_last_writes(cluster);
    let (level, text) = check_of_built_in(&cluster);
    let end = "; its HPA controller may be on (a status stored 5m ago names it); if it is, both \
               overwrite each other's decisions about 1 autoscaler (shop/web)";
    assert!(level == Level::Warning && text.ends_with(end), "{text}");

    // A recent status of one namespace, which its users can forge, is not that of most namespaces.
    let lease = cluster.lease.name.clone();
    for (namespace, at) in [("blog", "2026-01-31T11:55:00Z"), ("evil", "2026-01-31T11:59:50Z")] {
        let mut other = autoscaler_of(namespace, "web", &lease);
        other.controller.overwritten = vec![built_in_write(at)];
        cluster.autoscalers.push(other);
    }
    cluster = with_last_writes(cluster);
    let (_, text) = check_of_built_in(&cluster);
    let start = "; its HPA controller may be on (a status stored 5m ago names it); if it is, both";
    assert!(text.contains(start), "{text}");
}

#[test]
fn instances_for_different_namespaces_are_no_problem() {
    let other = LeaseKey { namespace: "scaling".into(), name: "blog".into() };
    let mut cluster = healthy();
    cluster.autoscalers.push(autoscaler_of("blog", "web", &other));
    let published = cluster.lease.holder.clone();
    holder_mut(&mut cluster).scope = None;
    cluster.lease.others =
        vec![ReadLease { name: other.clone(), holder: cluster.lease.holder.clone() }];
    set_writers(&mut cluster);
    assert_eq!(problems(&cluster), []);
    let held = "hpa-controller:scaling/blog stored the status of 1 autoscaler last, most recently \
                16s ago: blog/web; it holds its lease, and no other hpa-rs stored a status in \
                these namespaces";
    assert!(checks_of(&cluster).contains(&(Level::Ok, held.to_owned())));

    cluster.autoscalers.push(autoscaler_of("shop", "other", &other));
    set_writers(&mut cluster);
    let both = "hpa-controller:scaling/blog and hpa-controller:scaling/hpa both act on 2 \
                autoscalers (shop/other, shop/web) and overwrite each other's decisions";
    let stored = "hpa-controller:scaling/blog stored the status of 2 autoscalers last, most \
                  recently 16s ago: blog/web, shop/other";
    assert_eq!(problems(&cluster), [both, stored].map(|text| (Level::Warning, text.to_owned())));

    // Both handle all namespaces, whichever of them stored a status.
    cluster.lease.holder = published.clone();
    cluster.lease.others[0].holder = published;
    let report = run_checks(&cluster).text(false);
    let first = "‼ 0 errors, 1 warning: hpa-controller:scaling/blog and hpa-controller:scaling/hpa \
                 both act on 3 autoscalers (blog/web, shop/other, shop/web) and overwrite each \
                 other's decisions\n";
    assert!(report.starts_with(first), "{report}");
}

/// Sets the APIs that the lease holder handles, if its scope is known.
fn set_apis(cluster: &mut ClusterState, apis: &[AutoscalerApi]) {
    if let Some(scope) = &mut holder_mut(cluster).scope {
        scope.apis = apis.to_vec();
    }
}

/// The custom API on a managed cluster, where flags can't be read.
#[rstest]
#[case::recent("2026-01-31T11:59:50Z", true)]
#[case::old("2026-01-31T11:58:06Z", true)]
#[case::unpublished("2026-01-31T11:58:06Z", false)]
fn built_in_controller_beside_an_instance_for_the_custom_api_is_no_problem(
    #[case] stored_at: &str,
    #[case] is_published: bool,
) {
    let mut cluster = healthy();
    cluster.built_in.flags = None;
    cluster.autoscalers[0].api = AutoscalerApi::Custom;
    let mut core = autoscaler("core", healthy_conditions());
    core.controller.name = Some("kube-controller-manager".into());
    core.controller.at = stored_at.parse().ok();
    cluster.autoscalers.push(core);
    cluster = with_last_writes(cluster);
    set_apis(&mut cluster, &[AutoscalerApi::Custom]);
    if !is_published {
        holder_mut(&mut cluster).scope = None;
    }
    let found = problems(&cluster);
    assert!(found.iter().all(|one| one.0 == Level::Skipped), "{found:?}");
    let end = "shop/core; as far as is known, hpa-rs handles only the custom API";
    let is_ok = |(level, text): &(Level, String)| *level == Level::Ok && text.ends_with(end);
    assert!(checks_of(&cluster).iter().any(is_ok));
    set_apis(&mut cluster, &AutoscalerApi::ALL);
    let is_conflict = run_checks(&cluster).text(false).contains("both overwrite");
    assert_eq!(is_conflict, is_published, "it handles both");
}

/// A tenant's autoscaler names a lease in the same namespace, which a pod of the tenant holds.
#[test]
fn lease_of_a_tenant_hides_no_lost_lease() {
    let evil = LeaseKey { namespace: "eve".into(), name: "evil".into() };
    let held = |identity: &str| {
        healthy().lease.holder.map(|holder| LeaseHolder { identity: identity.to_owned(), ..holder })
    };
    let mut cluster = healthy();
    cluster.lease.holder = unheld(&cluster.lease.name);
    cluster.autoscalers.push(autoscaler_of("eve", "web", &evil));
    cluster.lease.others = vec![ReadLease { name: evil.clone(), holder: held("fake-0_1") }];
    cluster.lease.local = vec![evil.clone()];
    set_writers(&mut cluster);
    let lost = "no controller with a known lease acts on 1 autoscaler (shop/web): no instance \
                holds the lease scaling/hpa, and kube-controller-manager's HPA controller is off";
    assert_eq!(problems(&cluster)[0], (Level::Error, lost.to_owned()));
    let local = "autoscalers of eve name the lease eve/evil, which fake-0 holds";
    assert!(checks_of(&cluster).contains(&(Level::Ok, local.to_owned())));

    // The tenant has a second namespace, so the lease is the one of most statuses.
    let real = std::mem::replace(&mut cluster.lease.name, evil.clone());
    let released = unheld(&real);
    cluster.lease.others = vec![ReadLease { name: real, holder: released }];
    (cluster.lease.holder, cluster.lease.local) = (held("fake-0_1"), Vec::new());
    cluster.autoscalers.push(autoscaler_of("mallory", "web", &evil));
    set_writers(&mut cluster);
    let lost = "no instance holds the lease scaling/hpa, which the status of 1 autoscaler names: \
                shop/web";
    assert!(problems(&cluster).contains(&(Level::Error, lost.to_owned())));
}

/// The last holder of the lease published that it handles all autoscalers.
#[test]
fn expired_lease_of_a_tenant_says_nothing_about_other_namespaces() {
    let evil = LeaseKey { namespace: "eve".into(), name: "evil".into() };
    let mut cluster = healthy();
    let expired = cluster.lease.holder.clone().map(|holder| LeaseHolder {
        lease: evil.clone(),
        renewed: EXPIRED.parse().ok(),
        ..holder
    });
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    cluster.lease.holder = Err(Unavailable::NoLease(cluster.lease.name.clone()));
    cluster.lease.searched_namespaces = ["kube-system", "autoscaling"].map(str::to_owned).to_vec();
    cluster.lease.others = vec![ReadLease { name: evil.clone(), holder: expired }];
    cluster.lease.local = vec![evil];
    set_writers(&mut cluster);
    let found = problems(&cluster);
    assert!(found.iter().all(|(_, text)| !text.contains("eve/evil")), "{found:?}");
}

/// The way back of docs/migration.md: hpa-rs is stopped or uninstalled.
#[test]
fn lost_lease_is_no_problem_once_the_built_in_controller_handles_all_autoscalers() {
    let mut cluster = healthy();
    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    let released = Unavailable::NotHeld { lease: cluster.lease.name.clone(), released: None };
    let deleted = Unavailable::NoLease(cluster.lease.name.clone());
    for (error, text) in [
        (released, "no instance holds the lease scaling/hpa"),
        (deleted, "there is no lease scaling/hpa"),
    ] {
        set_unavailable(&mut cluster, &error);
        let text = format!("{text}: kube-controller-manager handles the autoscalers");
        for manager in ["hpa-controller:scaling/hpa", "kube-controller-manager"] {
            cluster.autoscalers[0].controller.name = Some(manager.to_owned());
            let found = problems(&cluster);
            assert!(found.iter().all(|one| one.0 == Level::Skipped), "{manager}: {found:?}");
            assert!(checks_of(&cluster).contains(&(Level::Ok, text.clone())), "{manager}");
        }
        cluster.autoscalers[0].controller.name = Some("hpa-controller:scaling/hpa".to_owned());
        let mut custom = cluster.autoscalers[0].clone();
        custom.api = AutoscalerApi::Custom;
        cluster.autoscalers.push(custom);
        let found = problems(&cluster);
        assert!(found.iter().any(|one| one.0 >= Level::Warning), "no other API: {found:?}");
        cluster.autoscalers.truncate(1);
    }
    cluster.lease.holder = healthy().lease.holder;
    holder_mut(&mut cluster).renewed = EXPIRED.parse().ok();
    let expired = problems(&cluster);
    let end = "it has expired after 15s, but kube-controller-manager handles the autoscalers";
    assert!(expired.iter().any(|one| one.0 == Level::Warning && one.1.ends_with(end)));
    assert!(expired.iter().all(|one| !one.1.contains("beside this one")), "{expired:?}");
}

/// The lease of an instance that could not release it, on the way back of docs/migration.md.
#[test]
fn lease_left_over_beside_the_built_in_controller_is_no_problem() {
    let problems_of = |renewed: &str, manager: &str| {
        let mut cluster = healthy();
        cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
        holder_mut(&mut cluster).renewed = renewed.parse().ok();
        let gone = Unavailable::NoPod { pod: "vm".to_owned() };
        (cluster.leader, cluster.status) = (Err(gone.clone()), Err(gone));
        cluster.autoscalers[0].controller.name = Some(manager.to_owned());
        set_writers(&mut cluster);
        problems(&cluster).into_iter().filter(|one| one.0 > Level::Skipped).collect::<Vec<_>>()
    };
    let long_ago = "2026-01-31T11:58:00Z";
    assert_eq!(problems_of(long_ago, "kube-controller-manager"), []);
    for (renewed, manager) in
        [(EXPIRED, "kube-controller-manager"), (long_ago, "hpa-controller:scaling/hpa")]
    {
        let found = problems_of(renewed, manager);
        assert!(found.iter().any(|one| one.1.contains("it has expired")), "{found:?}");
    }
}

/// A tenant forged a status of kube-controller-manager, whose flags can't be read.
#[test]
fn forged_status_of_one_namespace_is_not_the_headline() {
    let mut cluster = healthy();
    let lease = cluster.lease.name.clone();
    cluster.built_in.flags = None;
    for namespace in ["blog", "pay"] {
        cluster.autoscalers.push(autoscaler_of(namespace, "web", &lease));
    }
    let forged = built_in_write("2026-01-31T11:59:50Z");
    cluster.autoscalers[0].controller.overwritten = vec![forged];
    cluster = with_last_writes(cluster);
    let (level, text) = check_of_built_in(&cluster);
    let end = "; its HPA controller may be on (a status stored 10s ago names it, which users who \
               may update the autoscaler can forge); if it is, both overwrite each other's \
               decisions about 1 autoscaler (shop/web)";
    assert!(level == Level::Warning && text.ends_with(end), "{text}");
    let failed = condition("AbleToScale", "False", "FailedGetScale", "no scale");
    cluster.autoscalers.push(autoscaler("failing", json!([failed])));
    let report = run_checks(&cluster).text(false);
    let first = "× 1 error, 1 warning: 1 of 4 autoscalers can't scale\n";
    assert!(report.starts_with(first), "{report}");
}

/// The instance handles another namespace than that of the autoscalers.
#[test]
fn built_in_controller_alone_in_a_namespace_is_no_conflict() {
    let mut cluster = healthy();
    cluster.built_in.flags.as_mut().expect("flags").enables_hpa = true;
    cluster.autoscalers[0].controller.name = Some("kube-controller-manager".into());
    let scope = holder_mut(&mut cluster).scope.as_mut();
    scope.expect("a scope").namespaces = vec!["blog".to_owned()];
    set_writers(&mut cluster);
    cluster.set_acting_controllers();
    assert_eq!(problems(&cluster), []);
    let report = run_checks(&cluster).text(false);
    assert!(report.contains(", 1 leader change; it handles only other autoscalers\n"), "{report}");
    assert!(report.contains(": shop/web; no known hpa-rs handles these autoscalers\n"), "{report}");
}

/// kube-controller-manager runs with `--leader-elect=false`. hpa-rs stored the status last.
#[rstest]
#[case::in_the_only_namespace(
    &[], "‼ 0 errors, 1 warning: kube-controller-manager holds no lease, but"
)]
#[case::in_one_of_three_namespaces(&["a", "b"], "‼ 0 errors, 1 warning: kube-controller-manager")]
fn built_in_controller_without_a_lease_that_writes_is_a_conflict(
    #[case] other_namespaces: &[&str],
    #[case] headline: &str,
) {
    let mut cluster = healthy();
    let lease = cluster.lease.name.clone();
    for namespace in other_namespaces {
        cluster.autoscalers.push(autoscaler_of(namespace, "web", &lease));
    }
    cluster.built_in = KubeControllerManager {
        holder: Err(Unavailable::NoLease(LeaseKey::built_in())),
        flags: None,
        last_write: None,
    };
    let write = built_in_write("2026-01-31T11:59:40Z");
    cluster.autoscalers[0].controller.overwritten = vec![write];
    let text = run_checks(&cluster).text(false);
    assert!(text.starts_with(headline), "{text}");
    assert!(text.contains("both overwrite each other's decisions about 1 autoscaler (shop/web)"));
    // Only a conflict in most namespaces precedes errors: a tenant can forge it.
    let failing = json!([condition("ScalingActive", "False", "FailedGetScale", "none")]);
    cluster.autoscalers.push(autoscaler("failing", failing));
    let text = run_checks(&cluster).text(false);
    let is_first = text.contains(": kube-controller-manager holds no lease, but");
    assert_eq!(is_first, other_namespaces.is_empty(), "{text}");
    let mut holder = healthy().built_in.holder.expect("a holder");
    (holder.renewed, holder.has_unreadable_time) = (None, true);
    cluster.built_in.holder = Ok(holder);
    let text = run_checks(&cluster).text(false);
    let unreadable = "kube-controller-manager stores statuses beside this one, and the time of \
                      the last renewal of the lease kube-system/k can't be read: both overwrite ";
    assert!(text.contains(unreadable) && !text.contains("holds no lease"), "{text}");
}
