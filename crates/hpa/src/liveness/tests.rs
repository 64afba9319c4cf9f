//! Tests of the findings from leases and from the writers of statuses.

use std::sync::LazyLock;

use hpa_controller::{HpaKey, k8s::StatusWrite};
use hpa_dashboard::AutoscalerStatusWriter;
use rstest::rstest;

use super::*;

const OWN: &str = "hpa-controller:a/hpa";
const SHOP: Option<&str> = Some("shop");
const CORE: AutoscalerApi = AutoscalerApi::Core;
const UNREAD_FLAGS: &str = "no instance holds the lease a/hpa, and whether \
                            kube-controller-manager handles autoscalers is unknown: its flags \
                            can't be read";
const UNREAD_LEASE: &str = "no instance holds the lease a/hpa, and whether \
                            kube-controller-manager handles autoscalers is unknown: its lease \
                            can't be read";

const SWITCHED_OFF: &str = "no instance holds the lease a/hpa, and kube-controller-manager's HPA \
                            controller is off";
const DELETED_LEASE: &str = "the lease that hpa-rs' status names, a/hpa, does not exist, and \
                             kube-controller-manager's HPA controller is off";
const DELETED_AND_UNREAD: &str = "the lease that hpa-rs' status names, a/hpa, does not exist, and \
                                  whether kube-controller-manager handles autoscalers is unknown: \
                                  its flags can't be read";
const UNREADABLE_TIME: &str = "the time of the last renewal of the lease a/hpa can't be read";

/// kube-controller-manager acts, and stored the status.
const BUILT_IN: ActingController =
    ActingController::KubeControllerManager { is_status_of_kube_controller_manager: true };
/// Unknown. kube-controller-manager stored the status.
const UNKNOWN: ActingController =
    ActingController::Unknown { is_status_of_kube_controller_manager: true };
/// kube-controller-manager acts again, after hpa-rs stored the status.
const RETURNED: ActingController =
    ActingController::KubeControllerManager { is_status_of_kube_controller_manager: false };
/// Unknown. hpa-rs stored the status.
const MAYBE_RETURNED: ActingController =
    ActingController::Unknown { is_status_of_kube_controller_manager: false };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

pub(super) fn lease_key() -> LeaseKey {
    LeaseKey { namespace: "a".to_owned(), name: "hpa".to_owned() }
}

/// The instance handles the autoscalers of both APIs in all namespaces.
pub(super) fn renewed(second: i64) -> LeaseHolder {
    LeaseHolder {
        lease: lease_key(),
        requested_at: at(1000),
        identity: "x_1".to_owned(),
        acquired: None,
        renewed: Some(at(second)),
        has_unreadable_time: false,
        clock_lead: SignedDuration::ZERO,
        duration: SignedDuration::from_secs(15),
        transitions: 0,
        scope: Some(scope(AutoscalerApi::ALL.to_vec(), &[])),
    }
}

fn scope(apis: Vec<AutoscalerApi>, namespaces: &[&str]) -> InstanceScope {
    let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
    InstanceScope { holder: "x_1".to_owned(), apis, namespaces }
}

fn held() -> LeaseHolder {
    renewed(995)
}

fn expired() -> LeaseHolder {
    renewed(955)
}

/// The lease with a time after the last `Timestamp`.
fn unreadable() -> LeaseHolder {
    LeaseHolder { renewed: None, has_unreadable_time: true, ..held() }
}

fn released() -> HolderResult {
    Err(Unavailable::NotHeld { lease: lease_key(), released: None })
}

fn released_at(second: i64) -> HolderResult {
    Err(Unavailable::NotHeld { lease: lease_key(), released: Some(at(second)) })
}

fn missing() -> HolderResult {
    Err(Unavailable::NoLease(lease_key()))
}

fn unread() -> HolderResult {
    Err(Unavailable::Unreachable("refused".to_owned()))
}

/// A kube-controller-manager whose flags can't be read if `enables_hpa` is `None`.
fn controller_manager(holder: HolderResult, enables_hpa: Option<bool>) -> KubeControllerManager {
    let flags = enables_hpa.map(|enables_hpa| ManagerFlags { pod: String::new(), enables_hpa });
    KubeControllerManager { holder, flags, last_write: None }
}

pub(super) fn writer(
    api: AutoscalerApi,
    namespace: &str,
    manager: &str,
    at: Option<Timestamp>,
) -> AutoscalerStatusWriter {
    let key = HpaKey::for_api(api, namespace, "web");
    AutoscalerStatusWriter {
        key,
        manager: manager.to_owned(),
        at,
        overwritten: Vec::new(),
        dry_run: false,
    }
}

/// A status that hpa-rs stored after kube-controller-manager did so at a second.
fn overwritten_by_own(second: i64) -> AutoscalerStatusWriter {
    let write = StatusWrite { manager: KUBE_CONTROLLER_MANAGER.to_owned(), at: at(second) };
    AutoscalerStatusWriter { overwritten: vec![write], ..writer(CORE, "shop", OWN, None) }
}

fn lease(holder: HolderResult) -> ControllerLease {
    ControllerLease {
        name: lease_key(),
        holder,
        searched_namespaces: Vec::new(),
        others: Vec::new(),
        local: Vec::new(),
        may_answer_for_all: true,
    }
}

fn leases<'a>(lease: &'a ControllerLease, built_in: &'a KubeControllerManager) -> Leases<'a> {
    static NO_WRITERS: LazyLock<NamespaceWriters> = LazyLock::new(NamespaceWriters::default);
    let now = at(1000);
    Leases { lease, writers: &NO_WRITERS, built_in, now }
}

#[test]
fn findings_of_both_apis_about_one_lease_are_one() {
    let idle = |is_certain, built_in: Option<&str>| Idle {
        is_certain,
        cause: "no instance holds the lease a/hpa".to_owned(),
        built_in: built_in.map(str::to_owned),
        search: None,
        successor: None,
    };
    let core = idle(true, Some("kube-controller-manager's HPA controller is off"));
    let groups = group_by_finding([(idle(true, None), "custom"), (core.clone(), "core")]);
    assert_eq!(groups, [(core.clone(), vec!["core", "custom"])]);
    let groups = group_by_finding([(idle(false, None), "custom"), (core, "core")]);
    assert_eq!(groups.len(), 2, "one of them is uncertain");
}

#[rstest]
#[case::crashed(
    OWN,
    Ok(expired()),
    missing(),
    None,
    "no controller has renewed the lease a/hpa for 45s"
)]
#[case::stopped(OWN, released(), missing(), None, "no instance holds the lease a/hpa")]
#[case::both_stopped(
    OWN,
    released(),
    Ok(expired()),
    None,
    "no instance holds the lease a/hpa, and no controller has renewed the lease a/hpa for 45s"
)]
#[case::built_in_is_off(OWN, released(), Ok(held()), Some(false), SWITCHED_OFF)]
#[case::built_in_is_unknown(OWN, released(), Ok(held()), None, UNREAD_FLAGS)]
#[case::built_in_is_unread(OWN, released(), unread(), None, UNREAD_LEASE)]
#[case::built_in_is_on(OWN, released(), Ok(held()), Some(true), "")]
#[case::runs(OWN, Ok(held()), Ok(expired()), None, "")]
#[case::unread(OWN, unread(), Ok(expired()), None, "")]
#[case::unreadable_time(OWN, Ok(unreadable()), missing(), None, UNREADABLE_TIME)]
#[case::lease_deleted(OWN, missing(), Ok(held()), Some(false), DELETED_LEASE)]
#[case::lease_deleted_and_flags_unread(OWN, missing(), Ok(held()), None, DELETED_AND_UNREAD)]
#[case::no_leases(OWN, missing(), missing(), None, "")]
#[case::other_lease_deleted("hpa-controller:b/hpa", missing(), Ok(held()), Some(false), "")]
#[case::other_lease("hpa-controller:b/hpa", released(), missing(), None, "")]
#[case::without_election("hpa-controller", released(), missing(), None, "")]
#[case::built_in_crashed(
    KUBE_CONTROLLER_MANAGER,
    missing(),
    Ok(expired()),
    None,
    "no controller has renewed the lease a/hpa for 45s"
)]
#[case::built_in_replaced(KUBE_CONTROLLER_MANAGER, Ok(held()), Ok(expired()), None, "")]
#[case::built_in_runs(KUBE_CONTROLLER_MANAGER, released(), Ok(held()), None, "")]
#[case::built_in_switched_off(
    KUBE_CONTROLLER_MANAGER,
    released(),
    Ok(held()),
    Some(false),
    SWITCHED_OFF
)]
fn no_controller_acts_if_the_leases_are_lost(
    #[case] manager: &str,
    #[case] holder: HolderResult,
    #[case] built_in: HolderResult,
    #[case] enables_hpa: Option<bool>,
    #[case] expected: &str,
) {
    let built_in = controller_manager(built_in, enables_hpa);
    let idle = leases(&lease(holder), &built_in).idle(CORE, "shop", manager);
    let (is_certain, reason) =
        idle.map(|idle| (idle.is_certain, idle.reason())).unwrap_or_default();
    assert_eq!(reason, expected);
    let uncertain =
        ["", UNREAD_FLAGS, UNREAD_LEASE, DELETED_LEASE, DELETED_AND_UNREAD, UNREADABLE_TIME];
    assert_eq!(is_certain, !uncertain.contains(&expected));
}

#[rstest]
#[case::other_api(
    &[],
    AutoscalerApi::Custom,
    "--autoscaler-api (chart: autoscalerApi) leaves out autoscaling.hpa-rs.dev/v2"
)]
#[case::other_namespace(&["blog"], CORE, "--namespace (chart: namespaces) leaves out shop")]
fn autoscaler_without_a_status_is_idle_if_each_instance_handles_others(
    #[case] namespaces: &[&str],
    #[case] api: AutoscalerApi,
    #[case] flag: &str,
) {
    let idle = |holder: HolderResult, enables_hpa| {
        let built_in = controller_manager(Ok(held()), Some(enables_hpa));
        leases(&lease(holder), &built_in).idle_without_status(api, "shop")
    };
    let of_others = || {
        let scope = Some(scope(vec![CORE], namespaces));
        Ok(LeaseHolder { scope, ..held() })
    };
    let found = idle(of_others(), false).expect("a finding");
    let expected = format!(
        "an instance with the lease a/hpa handles only other autoscalers (annotation of the \
         lease): {flag}"
    );
    assert_eq!((found.is_certain, found.reason()), (false, expected));
    let is_found = idle(of_others(), true).is_some();
    assert_eq!(
        is_found,
        api == AutoscalerApi::Custom,
        "kube-controller-manager handles the others"
    );
    for holder in [Ok(held()), Ok(LeaseHolder { scope: None, ..held() }), unread(), missing()] {
        assert_eq!(idle(holder, false), None);
    }
}

/// The instance for the namespace `shop` has stopped, and that for `blog` runs.
#[test]
fn lost_lease_and_no_flag_is_the_cause_for_an_autoscaler_without_a_status() {
    let of_blog = Some(scope(vec![CORE], &["blog"]));
    let of_shop = Some(scope(vec![CORE], &["shop"]));
    let mut lease = lease(Ok(LeaseHolder { scope: of_blog, ..held() }));
    let lost = LeaseKey { name: "shop".to_owned(), ..lease_key() };
    let holder = Ok(LeaseHolder { lease: lost.clone(), scope: of_shop, ..expired() });
    lease.others.push(ReadLease { name: lost, holder });
    let built_in = controller_manager(Ok(held()), Some(false));
    let idle = leases(&lease, &built_in).idle_without_status(CORE, "shop").expect("a finding");
    let expected = "no controller has renewed the lease a/shop for 45s, and an instance with the \
                    lease a/hpa handles only other autoscalers (annotation of the lease)";
    assert_eq!((idle.is_certain, idle.reason()), (false, expected.to_owned()));
}

/// A release for the namespace `shop` has replaced the one whose lease the status still names.
#[rstest]
#[case::replaced("shop", 900, "no controller has renewed the lease a/shop for 45s")]
#[case::expired_before("shop", 990, "no instance holds the lease a/hpa")]
#[case::other_namespace("blog", 900, "no instance holds the lease a/hpa")]
fn later_lease_of_the_namespace_is_the_cause(
    #[case] namespace: &str,
    #[case] lost_at: i64,
    #[case] expected: &str,
) {
    let mut lease = lease(released_at(lost_at));
    let later = LeaseKey { name: "shop".to_owned(), ..lease_key() };
    let scope = Some(scope(AutoscalerApi::ALL.to_vec(), &["shop"]));
    let holder = Ok(LeaseHolder { lease: later.clone(), scope, ..expired() });
    lease.others.push(ReadLease { name: later, holder });
    let built_in = controller_manager(missing(), None);
    for api in AutoscalerApi::ALL {
        let idle = leases(&lease, &built_in).idle(api, namespace, OWN).expect("a finding");
        assert_eq!(idle.reason(), expected);
    }
}

#[rstest]
#[case::missing(missing(), "no lease hpa was found in kube-system or autoscaling")]
#[case::released(released(), "no instance holds the lease a/hpa")]
#[case::expired(Ok(expired()), "no controller has renewed the lease a/hpa for 45s")]
fn guessed_lease_never_shows_for_certain_that_no_controller_acts(
    #[case] holder: HolderResult,
    #[case] search: &str,
) {
    let built_in = controller_manager(Ok(held()), Some(false));
    let searched_namespaces = ["kube-system", "autoscaling"].map(str::to_owned).to_vec();
    let lease = ControllerLease { searched_namespaces, ..lease(holder) };
    let leases = leases(&lease, &built_in);
    let idle = leases.idle(CORE, "shop", KUBE_CONTROLLER_MANAGER).expect("a finding");
    assert!(!idle.is_certain, "{idle:?}");
    let expected = format!(
        "Maybe no controller acts on it: kube-controller-manager's HPA controller is off, and \
         {search}; if hpa-rs runs elsewhere, add --controller-namespace"
    );
    assert_eq!(idle.sentence("it"), expected);
}

#[rstest]
#[case::replaced(Ok(held()), Some(false), false, ActingController::HpaRs)]
#[case::answers(missing(), Some(false), true, ActingController::HpaRs)]
#[case::beside(Ok(held()), Some(true), false, MAYBE_RETURNED)]
#[case::flags_unread(missing(), None, true, UNKNOWN)]
#[case::lease_unread(unread(), None, false, UNKNOWN)]
#[case::unreadable_time(Ok(unreadable()), None, false, UNKNOWN)]
#[case::switched_off(missing(), Some(false), false, UNKNOWN)]
#[case::expired(Ok(expired()), None, false, BUILT_IN)]
#[case::alone(missing(), Some(true), false, BUILT_IN)]
fn successor_of_the_built_in_controller_is_known_if_only_one_may_run(
    #[case] holder: HolderResult,
    #[case] enables_hpa: Option<bool>,
    #[case] hpa_rs_answers: bool,
    #[case] expected: ActingController,
) {
    let built_in = controller_manager(Ok(held()), enables_hpa);
    let lease = lease(holder);
    let leases = leases(&lease, &built_in);
    let manager = Some(KUBE_CONTROLLER_MANAGER);
    assert_eq!(leases.acting_controller(CORE, SHOP, manager, hpa_rs_answers), expected);
}

#[rstest]
#[case::released(released(), Ok(held()), Some(true), RETURNED)]
#[case::expired(Ok(expired()), Ok(held()), Some(true), RETURNED)]
#[case::missing(missing(), Ok(held()), Some(true), RETURNED)]
#[case::flags_unread(released(), Ok(held()), None, MAYBE_RETURNED)]
#[case::built_in_unread(released(), unread(), None, MAYBE_RETURNED)]
#[case::unreadable_time(Ok(unreadable()), Ok(held()), Some(true), MAYBE_RETURNED)]
#[case::switched_off(released(), Ok(held()), Some(false), ActingController::HpaRs)]
#[case::built_in_stopped(released(), Ok(expired()), Some(true), ActingController::HpaRs)]
#[case::without_built_in(released(), missing(), None, ActingController::HpaRs)]
#[case::both_run(Ok(held()), Ok(held()), Some(true), MAYBE_RETURNED)]
#[case::runs(Ok(held()), Ok(held()), Some(false), ActingController::HpaRs)]
#[case::unread(unread(), Ok(held()), Some(true), MAYBE_RETURNED)]
fn built_in_controller_that_runs_succeeds_an_hpa_rs_without_its_lease(
    #[case] holder: HolderResult,
    #[case] built_in: HolderResult,
    #[case] enables_hpa: Option<bool>,
    #[case] expected: ActingController,
) {
    let built_in = controller_manager(built_in, enables_hpa);
    let lease = lease(holder);
    let leases = leases(&lease, &built_in);
    let acting = |api, manager, answers| leases.acting_controller(api, SHOP, manager, answers);
    assert_eq!(acting(CORE, Some(OWN), false), expected);
    for others in [acting(AutoscalerApi::Custom, Some(OWN), false), acting(CORE, None, false)] {
        assert_eq!(others, ActingController::HpaRs);
    }
    // kube-controller-manager acts beside an instance that answers or may run.
    let is_beside = leases.built_in_handles_autoscalers(SHOP) == Some(true);
    let expected = if is_beside { MAYBE_RETURNED } else { ActingController::HpaRs };
    for others in [
        acting(CORE, Some(OWN), true),
        acting(CORE, Some("hpa-controller:b/hpa"), false),
        acting(CORE, Some("hpa-controller"), false),
    ] {
        assert_eq!(others, expected);
    }
}

#[rstest]
#[case::recently(960, RETURNED)]
#[case::long_ago(900, MAYBE_RETURNED)]
fn recent_write_shows_that_the_built_in_controller_has_replaced_hpa_rs(
    #[case] second: i64,
    #[case] expected: ActingController,
) {
    let last_write = Some(at(second));
    let built_in = KubeControllerManager { holder: Ok(held()), flags: None, last_write };
    let lease = lease(released());
    let write = writer(CORE, "shop", KUBE_CONTROLLER_MANAGER, last_write);
    let writers = NamespaceWriters::new(&[write]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    assert_eq!(leases.acting_controller(CORE, SHOP, Some(OWN), false), expected);
}

/// The status that hpa-rs stored last doesn't show that it is the only controller.
#[rstest]
#[case::recently(960, MAYBE_RETURNED)]
#[case::long_ago(900, ActingController::HpaRs)]
fn built_in_controller_whose_status_was_overwritten_acts_beside_hpa_rs(
    #[case] second: i64,
    #[case] expected: ActingController,
) {
    let built_in = controller_manager(Ok(held()), None);
    let lease = lease(Ok(held()));
    let write = overwritten_by_own(second);
    let writers = NamespaceWriters::new(&[write]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    for answers in [true, false] {
        assert_eq!(leases.acting_controller(CORE, SHOP, Some(OWN), answers), expected);
    }
}

/// kube-controller-manager acquired its lease less than a minute before its first status, and its
/// flags can't be read.
#[rstest]
#[case::recently(990, true)]
#[case::long_ago(939, false)]
fn built_in_controller_that_has_just_started_may_act_beside_hpa_rs(
    #[case] second: i64,
    #[case] may_act: bool,
) {
    let [acquired, last_write] = [second - 37, second].map(|second| Some(at(second)));
    let holder = Ok(LeaseHolder { acquired, ..held() });
    let built_in = KubeControllerManager { holder, flags: None, last_write };
    let lease = lease(Ok(held()));
    let writers = NamespaceWriters::new(&[overwritten_by_own(second)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    assert_eq!(leases.built_in_handles_autoscalers(SHOP), None);
    assert_eq!(leases.may_built_in_act(SHOP), may_act);
    let expected = if may_act { MAYBE_RETURNED } else { ActingController::HpaRs };
    for answers in [true, false] {
        assert_eq!(leases.acting_controller(CORE, SHOP, Some(OWN), answers), expected);
    }
}

#[rstest]
#[case::released(released(), Some("no instance holds the lease a/hpa"))]
#[case::expired(Ok(expired()), Some("no controller has renewed the lease a/hpa for 45s"))]
#[case::missing(missing(), Some("no lease hpa was found in a"))]
#[case::held(Ok(held()), None)]
fn lease_that_its_manager_lost_is_described(
    #[case] holder: HolderResult,
    #[case] expected: Option<&str>,
) {
    let built_in = controller_manager(missing(), None);
    let lease = lease(holder);
    let leases = leases(&lease, &built_in);
    assert_eq!(leases.describe_lost(OWN).as_deref(), expected);
    assert_eq!(leases.describe_lost(KUBE_CONTROLLER_MANAGER), None);
}

#[rstest]
#[case::recently(960, true)]
#[case::long_ago(900, false)]
fn built_in_controller_that_holds_its_lease_and_writes_handles_autoscalers(
    #[case] second: i64,
    #[case] handles: bool,
) {
    let last_write = Some(at(second));
    let built_in = KubeControllerManager { holder: Ok(held()), flags: None, last_write };
    let lease = lease(released());
    for (namespace, counts) in [("shop", true), ("of-a-tenant", false)] {
        let forged = writer(CORE, namespace, KUBE_CONTROLLER_MANAGER, last_write);
        let writers = NamespaceWriters::new(&[writer(CORE, "shop", OWN, None), forged]);
        let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
        let idle = leases.idle(CORE, "shop", OWN);
        assert_eq!(idle.is_none(), handles && counts, "{namespace}: {idle:?}");
    }
}

/// kube-controller-manager may have been restarted without its HPA controller.
#[rstest]
#[case::before(965, None)]
#[case::within_the_difference_of_clocks(955, None)]
#[case::after(880, Some(true))]
fn status_that_an_earlier_holder_may_have_stored_says_nothing_about_the_holder(
    #[case] acquired: i64,
    #[case] expected: Option<bool>,
) {
    let holder = LeaseHolder { acquired: Some(at(acquired)), ..held() };
    let last_write = Some(at(960));
    let built_in = KubeControllerManager { holder: Ok(holder), flags: None, last_write };
    let now = at(1000);
    assert_eq!(built_in.is_hpa_controller_on(now), expected);
    let write = last_write.filter(|_| expected.is_some());
    let clause = built_in.describe_hpa_controller(write, true, now);
    assert_eq!(clause.contains("may be on"), expected.is_none(), "{clause}");
}

#[test]
fn built_in_controller_handles_no_autoscaler_of_the_custom_api() {
    let built_in = controller_manager(Ok(held()), Some(true));
    let idle = leases(&lease(released()), &built_in).idle(AutoscalerApi::Custom, "shop", OWN);
    assert!(idle.is_some_and(|idle| idle.is_certain));
    let idle = leases(&lease(missing()), &built_in).idle(AutoscalerApi::Custom, "shop", OWN);
    let maybe = "Maybe no controller acts on it: the lease that hpa-rs' status names, a/hpa, does \
                 not exist";
    assert_eq!(idle.map(|idle| idle.sentence("it")).as_deref(), Some(maybe));
}

#[rstest]
#[case::old_write(OWN, released_at(930), Some(900), true)]
#[case::write_before_the_release(OWN, released_at(990), Some(985), true)]
#[case::write_after_the_release_by_less_than_clocks_differ(OWN, released_at(935), Some(995), true)]
#[case::write_after_the_release(OWN, released_at(934), Some(995), false)]
#[case::write_before_the_expiry(OWN, Ok(renewed(980)), Some(990), true)]
#[case::write_after_the_expiry(OWN, Ok(renewed(900)), Some(990), false)]
#[case::lease_deleted(OWN, missing(), Some(995), true)]
#[case::own_runs(OWN, Ok(held()), Some(900), false)]
#[case::built_in_runs(KUBE_CONTROLLER_MANAGER, released(), Some(900), false)]
#[case::unknown("k3s", released(), Some(900), false)]
fn controller_that_lost_its_lease_no_longer_writes(
    #[case] manager: &str,
    #[case] holder: HolderResult,
    #[case] newest: Option<i64>,
    #[case] expected: bool,
) {
    let built_in = controller_manager(Ok(held()), None);
    let newest = newest.map(at);
    let lease = lease(holder);
    assert_eq!(leases(&lease, &built_in).no_longer_writes(manager, newest), expected);
}

#[test]
fn controller_whose_lease_has_an_unreadable_time_may_run() {
    let built_in = controller_manager(Ok(unreadable()), None);
    let lease = lease(Ok(unreadable()));
    let leases = leases(&lease, &built_in);
    assert_eq!([OWN, KUBE_CONTROLLER_MANAGER].map(|manager| leases.is_running(manager)), [None; 2]);
}

const OTHER: &str = "hpa-controller:b/hpa";
const DOUBT: &str = ", and whether an instance with the lease b/hpa acts instead is unknown";
const NO_ELECTION: &str =
    ", and whether an instance without leader election acts instead is unknown";

fn other_lease_key() -> LeaseKey {
    LeaseKey { namespace: "b".to_owned(), ..lease_key() }
}

fn other(holder: HolderResult) -> Vec<ReadLease> {
    vec![ReadLease { name: other_lease_key(), holder }]
}

/// The other lease is that of a release with another name. Most statuses name the first lease.
#[rstest]
#[case::held(released(), Ok(held()), &[("other", OTHER)], Some(DOUBT))]
#[case::unread(released(), unread(), &[("shop", OTHER)], Some(DOUBT))]
#[case::held_and_writes_here(released(), Ok(held()), &[("shop", OTHER)], None)]
#[case::deleted_and_other_writes_here(missing(), Ok(held()), &[("shop", OTHER)], None)]
#[case::lost(released(), released(), &[("shop", OTHER)], Some(""))]
#[case::missing(released(), missing(), &[("shop", OTHER)], Some(""))]
#[case::without_election(released(), missing(), &[("shop", "hpa-controller")], Some(NO_ELECTION))]
#[case::forged_elsewhere(released(), missing(), &[("other", "hpa-controller")], Some(""))]
fn autoscaler_of_a_lost_lease_is_not_certainly_idle_if_another_hpa_rs_may_act(
    #[case] holder: HolderResult,
    #[case] other_holder: HolderResult,
    #[case] writers: &[(&str, &str)],
    #[case] doubt: Option<&str>,
) {
    let built_in = controller_manager(Ok(held()), Some(false));
    let lease = ControllerLease { others: other(other_holder), ..lease(holder) };
    let writers = writers.iter().chain(&[("shop", OWN)]);
    let writers = writers.map(|(namespace, manager)| writer(CORE, namespace, manager, None));
    let writers = NamespaceWriters::new(&writers.collect::<Vec<_>>());
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let idle = leases.idle(CORE, "shop", OWN);
    let expected = doubt.map(|doubt| SWITCHED_OFF.to_owned() + doubt);
    assert_eq!(idle.as_ref().map(Idle::reason), expected);
    assert_eq!(idle.is_some_and(|idle| idle.is_certain), doubt == Some(""));
}

#[test]
fn instance_without_leader_election_may_act_after_the_built_in_controller() {
    let built_in = controller_manager(Ok(held()), Some(false));
    let lease = lease(released());
    let writers = NamespaceWriters::new(&[writer(CORE, "shop", "hpa-controller", None)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let idle = leases.idle(CORE, "shop", KUBE_CONTROLLER_MANAGER).expect("a finding");
    assert!(!idle.is_certain && idle.reason().contains("without leader election"), "{idle:?}");
    let at = Some(at(990));
    let writers = NamespaceWriters::new(&[writer(CORE, "shop", "hpa-controller", at)]);
    let leases = Leases { writers: &writers, ..leases };
    let is_idle = |manager: &str| leases.idle(CORE, "shop", manager).is_some();
    assert_eq!([OWN, KUBE_CONTROLLER_MANAGER].map(is_idle), [false; 2], "it has just written");
}

#[test]
fn idle_finding_stays_certain_beside_an_instance_for_other_namespaces() {
    let built_in = controller_manager(Ok(expired()), None);
    let scope = Some(scope(vec![CORE], &["blog"]));
    let others = other(Ok(LeaseHolder { scope, ..held() }));
    let lease = ControllerLease { others, ..lease(released()) };
    let leases = leases(&lease, &built_in);
    for manager in [OWN, KUBE_CONTROLLER_MANAGER] {
        let idle = leases.idle(CORE, "shop", manager).expect("a finding");
        let elsewhere = "an instance with the lease b/hpa handles only other autoscalers";
        assert!(idle.is_certain && idle.reason().contains(elsewhere), "{idle:?}");
    }
}

/// The lease that most statuses name is held, but not that of the autoscaler.
#[test]
fn each_autoscaler_is_judged_by_the_lease_that_its_status_names() {
    let built_in = controller_manager(missing(), None);
    let others = other(Err(Unavailable::NotHeld { lease: other_lease_key(), released: None }));
    let lease = ControllerLease { others, ..lease(Ok(held())) };
    let leases = leases(&lease, &built_in);
    assert_eq!(leases.idle(CORE, "shop", OWN), None);
    let idle = leases.idle(CORE, "shop", OTHER).expect("a finding");
    let maybe = "Maybe no controller acts on it: no instance holds the lease b/hpa, and whether an \
                 instance with the lease a/hpa acts instead is unknown";
    assert_eq!(idle.sentence("it"), maybe);
    assert_eq!([OWN, OTHER].map(|manager| leases.is_running(manager)), [Some(true), Some(false)]);
    assert_eq!(leases.describe_lost(OTHER).as_deref(), Some("no instance holds the lease b/hpa"));
}

#[rstest]
#[case::lost(released(), RETURNED)]
#[case::held(Ok(held()), MAYBE_RETURNED)]
#[case::unread(unread(), MAYBE_RETURNED)]
fn another_hpa_rs_may_act_beside_the_built_in_controller(
    #[case] other_holder: HolderResult,
    #[case] expected: ActingController,
) {
    let built_in = controller_manager(Ok(held()), Some(true));
    let lease = ControllerLease { others: other(other_holder), ..lease(released()) };
    let leases = leases(&lease, &built_in);
    assert_eq!(leases.acting_controller(CORE, SHOP, Some(OWN), false), expected);
    assert_eq!(leases.is_built_in_alone(), expected == RETURNED);
}

#[rstest]
#[case::own_namespaces("blog", CORE, false)]
#[case::same_namespace("shop", CORE, true)]
#[case::other_api("shop", AutoscalerApi::Custom, false)]
fn instances_share_a_namespace_if_both_stored_statuses_there(
    #[case] namespace: &str,
    #[case] api: AutoscalerApi,
    #[case] expected: bool,
) {
    let built_in = controller_manager(missing(), None);
    let both_run = ControllerLease { others: other(Ok(held())), ..lease(Ok(held())) };
    let other_writer = writer(api, namespace, OTHER, None);
    let writers = NamespaceWriters::new(&[writer(CORE, "shop", OWN, None), other_writer]);
    let leases = Leases { writers: &writers, ..leases(&both_run, &built_in) };
    assert_eq!([OWN, OTHER].map(|manager| leases.shares_namespace(manager)), [expected; 2]);
    let other_stopped = ControllerLease { others: other(released()), ..lease(Ok(held())) };
    let leases = Leases { lease: &other_stopped, ..leases };
    assert!(!leases.shares_namespace(OWN));
}

/// A tenant holds the lease `b/hpa`, and only statuses of `b` name it.
#[test]
fn lease_of_a_tenant_says_nothing_about_other_namespaces() {
    let built_in = controller_manager(Ok(held()), Some(false));
    let of_tenant = |holder| {
        let local = vec![other_lease_key()];
        ControllerLease { others: other(holder), local, ..lease(released()) }
    };
    let held_by_tenant = of_tenant(Ok(held()));
    let leases = leases(&held_by_tenant, &built_in);
    let found = |leases: &Leases<'_>, manager: &str| {
        leases.idle(CORE, "shop", manager).map(|idle| (idle.is_certain, idle.reason()))
    };
    let certain = Some((true, SWITCHED_OFF.to_owned()));
    assert_eq!(found(&leases, OWN), certain);
    assert_eq!(found(&leases, KUBE_CONTROLLER_MANAGER), certain);
    assert_eq!(leases.idle(CORE, "b", KUBE_CONTROLLER_MANAGER), None);
    assert_eq!(leases.idle(CORE, "b", OTHER), None, "it is the lease of its own autoscalers");
    let acting =
        |namespace| leases.acting_controller(CORE, namespace, Some(KUBE_CONTROLLER_MANAGER), false);
    assert_eq!(acting(SHOP), UNKNOWN);
    assert_eq!(acting(Some("b")), ActingController::HpaRs);
    assert!(leases.is_local(OTHER) && !leases.is_local(OWN));

    let unreadable = of_tenant(Ok(unreadable()));
    assert_eq!(found(&Leases { lease: &unreadable, ..leases }, OWN), certain);
}

/// A release for some namespaces. kube-controller-manager, whose HPA controller is off, stored the
/// status.
#[rstest]
#[case::all_namespaces(Some(""), AutoscalerApi::Core, None, None, true)]
#[case::this_namespace(Some("blog,shop"), AutoscalerApi::Core, None, None, true)]
#[case::other_namespaces(Some("blog"), AutoscalerApi::Core, Some("shop"), Some(990), false)]
#[case::other_api(Some(""), AutoscalerApi::Custom, None, None, false)]
#[case::took_over_just_now(Some(""), AutoscalerApi::Core, None, Some(995), true)]
#[case::took_over_long_ago(Some(""), AutoscalerApi::Core, None, Some(100), true)]
#[case::other_namespaces_and_new(Some("blog"), AutoscalerApi::Core, None, Some(995), false)]
#[case::unknown_and_writes_here(None, AutoscalerApi::Core, Some("shop"), None, true)]
#[case::unknown_and_writes_elsewhere(None, AutoscalerApi::Core, Some("blog"), None, false)]
#[case::unknown_and_new(None, AutoscalerApi::Core, None, Some(880), true)]
#[case::unknown_and_old(None, AutoscalerApi::Core, None, Some(879), false)]
fn held_lease_counts_only_for_the_namespaces_of_its_instance(
    #[case] namespaces: Option<&str>,
    #[case] api: AutoscalerApi,
    #[case] writes_in: Option<&str>,
    #[case] acquired: Option<i64>,
    #[case] acts: bool,
) {
    let built_in = controller_manager(Ok(held()), Some(false));
    let acquired = acquired.map(at);
    let published = namespaces.map(|namespaces| {
        let namespaces = namespaces.split(',').filter(|namespace| !namespace.is_empty());
        scope(vec![api], &namespaces.collect::<Vec<_>>())
    });
    // A search in the usual namespaces found it.
    let searched_namespaces = vec!["a".to_owned()];
    let holder = Ok(LeaseHolder { acquired, scope: published, ..held() });
    let lease = ControllerLease { searched_namespaces, ..lease(holder) };
    let statuses = writes_in.map(|namespace| writer(CORE, namespace, OWN, None));
    let writers = NamespaceWriters::new(statuses.as_slice());
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let idle = leases.idle(CORE, "shop", KUBE_CONTROLLER_MANAGER);
    let (start, clause) = match namespaces {
        Some(_) => (
            "No controller with a known lease",
            "an instance with the lease a/hpa handles only other autoscalers (annotation of the \
             lease)",
        ),
        None => (
            "Maybe no controller",
            "whether an instance with the lease a/hpa acts instead is unknown",
        ),
    };
    let sentence = format!(
        "{start} acts on it: kube-controller-manager's HPA controller is off, and {clause}"
    );
    let expected = (!acts).then_some(sentence);
    assert_eq!(idle.map(|idle| idle.sentence("it")), expected);
    let acting = leases.acting_controller(CORE, SHOP, Some(KUBE_CONTROLLER_MANAGER), false);
    assert_eq!(acting, if acts { ActingController::HpaRs } else { UNKNOWN });

    // The same instance stored the status, before it was restarted with other flags.
    let idle = leases.idle(CORE, "shop", OWN).map(|idle| idle.sentence("it"));
    let sentence = format!("{start} acts on it: {clause}");
    assert_eq!(idle, (!acts && namespaces.is_some()).then_some(sentence));
}

/// The release of the checked lease handles another namespace. kube-controller-manager, whose flags
/// can't be read, stored the status.
#[rstest]
#[case::this_namespace(&["blog", "shop"], 700, true)]
#[case::all_namespaces(&[], 700, true)]
#[case::other_namespaces(&["pay"], 700, false)]
#[case::built_in_stored_a_status_since(&["shop"], 900, false)]
fn expired_lease_that_names_the_namespace_leaves_its_autoscalers_idle(
    #[case] namespaces: &[&str],
    #[case] built_in_at: i64,
    #[case] is_idle: bool,
) {
    let at = Some(at(built_in_at));
    let built_in = KubeControllerManager { holder: Ok(held()), flags: None, last_write: at };
    let published = Some(scope(vec![CORE], namespaces));
    let expired = LeaseHolder { lease: other_lease_key(), scope: published, ..renewed(800) };
    let checked = LeaseHolder { scope: Some(scope(vec![CORE], &["first"])), ..held() };
    let lease = ControllerLease { others: other(Ok(expired)), ..lease(Ok(checked)) };
    let writers = NamespaceWriters::new(&[writer(CORE, "shop", KUBE_CONTROLLER_MANAGER, at)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let idle = leases.idle(CORE, "shop", KUBE_CONTROLLER_MANAGER).map(|idle| idle.sentence("it"));
    let maybe = "Maybe no controller acts on it: no controller has renewed the lease b/hpa for 3m, \
                 and whether kube-controller-manager handles autoscalers is unknown: its flags \
                 can't be read, and an instance with the lease a/hpa handles only other \
                 autoscalers (annotation of the lease)";
    assert_eq!(idle.as_deref(), is_idle.then_some(maybe));
}

/// The holder of the lease handles only the custom API.
#[rstest]
#[case::custom_api(AutoscalerApi::Custom, true)]
#[case::core_api(CORE, false)]
fn instance_without_leader_election_may_handle_the_core_api(
    #[case] api: AutoscalerApi,
    #[case] is_custom_only: bool,
) {
    let built_in = controller_manager(Ok(held()), None);
    let scope = Some(scope(vec![AutoscalerApi::Custom], &[]));
    let lease = lease(Ok(LeaseHolder { scope, ..held() }));
    let writers = NamespaceWriters::new(&[writer(api, "shop", "hpa-controller", None)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    assert_eq!(leases.runs_for_custom_api_only(), is_custom_only);
}

/// A status keeps naming the lease of an earlier release while it doesn't change.
#[rstest]
#[case::same_namespace("a", &[], true)]
#[case::usual_namespace("kube-system", &["shop"], true)]
#[case::other_namespaces("a", &["blog"], false)]
#[case::lease_that_a_tenant_may_have_created("b", &[], false)]
fn instance_that_published_the_namespace_succeeds_one_that_lost_its_lease(
    #[case] lease_namespace: &str,
    #[case] namespaces: &[&str],
    #[case] acts: bool,
) {
    let built_in = controller_manager(Ok(held()), Some(false));
    let scope = Some(scope(vec![CORE], namespaces));
    let name = LeaseKey { namespace: lease_namespace.to_owned(), name: "new".to_owned() };
    let others = vec![ReadLease { name, holder: Ok(LeaseHolder { scope, ..held() }) }];
    let lease = ControllerLease { others, ..lease(released()) };
    let idle = leases(&lease, &built_in).idle(CORE, "shop", OWN);
    assert_eq!(idle.is_none(), acts, "{idle:?}");
    assert_eq!(idle.is_some_and(|idle| idle.is_certain), namespaces == ["blog"]);
}

/// The first namespaces of a migration: kube-controller-manager still handles the others.
#[rstest]
#[case::other_namespaces(&["blog"], BUILT_IN, RETURNED)]
#[case::this_namespace(&["shop"], MAYBE_RETURNED, MAYBE_RETURNED)]
fn instance_for_other_namespaces_does_not_act_beside_the_built_in_controller(
    #[case] namespaces: &[&str],
    #[case] after_built_in: ActingController,
    #[case] after_own: ActingController,
) {
    let built_in = controller_manager(Ok(held()), Some(true));
    let scope = Some(scope(vec![CORE], namespaces));
    let lease = lease(Ok(LeaseHolder { scope, ..held() }));
    let leases = leases(&lease, &built_in);
    let acting = |manager| leases.acting_controller(CORE, SHOP, Some(manager), false);
    assert_eq!([KUBE_CONTROLLER_MANAGER, OWN].map(acting), [after_built_in, after_own]);
    assert!(!leases.is_built_in_alone(), "the instance runs");
}

/// A tenant can't hide that kube-controller-manager has replaced hpa-rs.
#[test]
fn built_in_controller_is_alone_beside_the_lease_of_a_tenant() {
    let built_in = controller_manager(Ok(held()), Some(true));
    let (others, local) = (other(Ok(held())), vec![other_lease_key()]);
    let lease = ControllerLease { others, local, ..lease(released()) };
    let leases = leases(&lease, &built_in);
    assert!(leases.is_built_in_alone());
    assert_eq!(leases.acting_controller(CORE, SHOP, Some(OWN), false), RETURNED);
}

#[test]
fn age_of_a_future_write_is_just_now() {
    let now = at(1000);
    let age = |seconds| describe_age(now - SignedDuration::from_secs(seconds), now);
    let ages = [-30, 0, 9, 7200].map(age);
    assert_eq!(ages, ["just now", "just now", "9s ago", "2h ago"]);
}

/// The result is the same whichever of the two controllers stored the status last.
#[rstest]
#[case::built_in_is_on(CORE, Some(true), &[], Some("kube-controller-manager"))]
#[case::built_in_is_off(CORE, Some(false), &[], None)]
#[case::built_in_is_unknown(CORE, None, &[], None)]
#[case::custom_api(AutoscalerApi::Custom, Some(true), &[], None)]
#[case::other_namespaces(CORE, Some(true), &["blog"], None)]
#[case::this_namespace(CORE, Some(true), &["blog", "shop"], Some("kube-controller-manager"))]
fn controllers_that_both_act_are_a_conflict(
    #[case] api: AutoscalerApi,
    #[case] enables_hpa: Option<bool>,
    #[case] namespaces: &[&str],
    #[case] other: Option<&str>,
) {
    let built_in = controller_manager(Ok(held()), enables_hpa);
    let scope = Some(scope(AutoscalerApi::ALL.to_vec(), namespaces));
    let lease = lease(Ok(LeaseHolder { scope, ..held() }));
    let leases = leases(&lease, &built_in);
    for manager in [KUBE_CONTROLLER_MANAGER, OWN] {
        let status = writer(api, "shop", manager, None);
        let conflicts = leases.conflicts(slice::from_ref(&status));
        let sentence = conflicts.first().map(Conflict::describe);
        let expected = other.map(|_| {
            "hpa-controller:a/hpa and kube-controller-manager both act on 1 autoscaler (shop/web) \
             and overwrite each other's decisions"
        });
        assert_eq!(sentence.as_deref(), expected);
        let acting = leases.acting_controller(api, SHOP, Some(manager), false);
        assert_eq!(acting == MAYBE_RETURNED, other.is_some(), "{acting:?}");
        let dry_run = AutoscalerStatusWriter { dry_run: true, ..status };
        assert_eq!(leases.conflicts(&[dry_run]), []);
    }
}

/// A kube-controller-manager with `--leader-elect=false` has no lease.
#[rstest]
#[case::wrote(CORE, missing(), 800, 995, true)]
#[case::wrote_long_ago(CORE, missing(), 800, 900, false)]
#[case::may_have_written_before_hpa_rs_took_over(CORE, missing(), 980, 985, false)]
#[case::lease_can_not_be_read(CORE, unread(), 800, 995, false)]
#[case::custom_api(AutoscalerApi::Custom, missing(), 800, 995, false)]
fn built_in_controller_without_a_lease_is_in_a_conflict_if_it_writes(
    #[case] api: AutoscalerApi,
    #[case] holder: HolderResult,
    #[case] acquired: i64,
    #[case] wrote: i64,
    #[case] is_conflict: bool,
) {
    let built_in = controller_manager(holder, None);
    let acquired = Some(at(acquired));
    let lease = lease(Ok(LeaseHolder { acquired, ..held() }));
    let at = at(wrote);
    let overwritten = vec![StatusWrite { manager: KUBE_CONTROLLER_MANAGER.to_owned(), at }];
    // The result is the same whichever of the two wrote last.
    let own = AutoscalerStatusWriter { overwritten, ..writer(api, "shop", OWN, None) };
    let other = writer(api, "shop", KUBE_CONTROLLER_MANAGER, Some(at));
    for status in [own, other] {
        let conflicts = leases(&lease, &built_in).conflicts(&[status]);
        assert_eq!(conflicts.iter().any(Conflict::has_built_in), is_conflict, "{conflicts:?}");
    }
}

/// The second lease is that of a release whose scope overlaps, or of a version without scopes.
#[rstest]
#[case::overlap(Some("shop"), None, true)]
#[case::all(Some(""), None, true)]
#[case::other_namespaces(Some("blog"), None, false)]
#[case::unknown(None, None, false)]
#[case::unknown_but_wrote(None, Some(990), true)]
#[case::unknown_and_wrote_long_ago(None, Some(900), false)]
fn instances_that_both_handle_an_autoscaler_are_a_conflict(
    #[case] namespace: Option<&str>,
    #[case] wrote: Option<i64>,
    #[case] is_conflict: bool,
) {
    let built_in = controller_manager(Ok(held()), Some(false));
    let scope = namespace.map(|name| match name {
        "" => scope(vec![CORE], &[]),
        name => scope(vec![CORE], &[name]),
    });
    let name = LeaseKey { namespace: "kube-system".to_owned(), name: "new".to_owned() };
    let others =
        vec![ReadLease { name: name.clone(), holder: Ok(LeaseHolder { scope, ..held() }) }];
    let lease = ControllerLease { others, ..lease(Ok(held())) };
    let write =
        |second| StatusWrite { manager: name.manager().as_str().to_owned(), at: at(second) };
    let overwritten = wrote.map(write).into_iter().collect();
    let status = AutoscalerStatusWriter { overwritten, ..writer(CORE, "shop", OWN, None) };
    let conflicts = leases(&lease, &built_in).conflicts(&[status]);
    let managers: Vec<_> = conflicts.iter().flat_map(|conflict| &conflict.managers).collect();
    let both = ["hpa-controller:a/hpa", "hpa-controller:kube-system/new"];
    assert_eq!(managers, if is_conflict { both.to_vec() } else { Vec::new() });
}

/// A tenant publishes that its instance handles all autoscalers, and names the lease in statuses of
/// both of its namespaces.
#[test]
fn scope_on_the_lease_of_a_tenant_counts_only_where_statuses_name_it() {
    let built_in = controller_manager(Ok(held()), Some(false));
    let evil = LeaseKey { namespace: "eve".to_owned(), name: "evil".to_owned() };
    let others = vec![ReadLease { name: evil.clone(), holder: Ok(held()) }];
    let lease = ControllerLease { others, ..lease(Ok(held())) };
    let forged = writer(CORE, "mallory", evil.manager().as_str(), None);
    let statuses = [writer(CORE, "shop", OWN, None), forged];
    let writers = NamespaceWriters::new(&statuses);
    let conflicts = Leases { writers: &writers, ..leases(&lease, &built_in) }.conflicts(&statuses);
    let autoscalers: Vec<_> = conflicts.iter().flat_map(|one| &one.autoscalers).collect();
    assert_eq!(autoscalers, ["mallory/web"]);
}

/// A tenant names another field manager in each of its statuses.
#[test]
fn forged_conflicts_are_bounded_and_follow_those_of_more_autoscalers() {
    let built_in = controller_manager(Ok(held()), Some(false));
    let lease = lease(Ok(held()));
    let status = |namespace: &str, name: String, manager: String| {
        let write = StatusWrite { manager, at: at(990) };
        let key = HpaKey::new(namespace, name.as_str());
        let own = writer(CORE, namespace, OWN, None);
        AutoscalerStatusWriter { key, overwritten: vec![write], ..own }
    };
    let real = ["a", "b"].map(|name| status("shop", name.into(), "hpa-controller".into()));
    let forge = |index| format!("hpa-controller:eve/{index}");
    let forged = (0..20).map(|index: usize| status("eve", index.to_string(), forge(index)));
    let statuses: Vec<_> = forged.chain(real).collect();
    let conflicts = leases(&lease, &built_in).conflicts(&statuses);
    assert_eq!(conflicts.len(), 8);
    assert_eq!(conflicts[0].autoscalers, ["shop/a", "shop/b"]);
}

/// Only one of three namespaces has a status of kube-controller-manager.
#[test]
fn old_status_counts_only_where_no_other_tenant_can_forge_it() {
    let holder = Ok(LeaseHolder { acquired: Some(at(100)), ..held() });
    let last_write = Some(at(500));
    let built_in = KubeControllerManager { holder, flags: None, last_write };
    let lease = lease(Ok(held()));
    let [a, b] = ["a", "b"].map(|namespace| writer(CORE, namespace, OWN, None));
    let writers = NamespaceWriters::new(&[overwritten_by_own(500), a, b]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let of = |namespace| leases.built_in_handles_autoscalers(namespace);
    assert_eq!([of(SHOP), of(Some("a")), of(None)], [Some(true), None, None]);
    assert_eq!(built_in.is_hpa_controller_on(leases.now), None);
    // A kube-controller-manager without a lease may have stored it, and stopped.
    let conflicts = leases.conflicts(&[overwritten_by_own(500)]);
    let sentence = conflicts.first().map(Conflict::describe).unwrap_or_default();
    let start = "hpa-controller:a/hpa and kube-controller-manager may both act on 1 autoscaler \
                 (shop/web): a status stored ";
    let end = " ago names kube-controller-manager, whose flags can't be read";
    assert!(sentence.starts_with(start) && sentence.ends_with(end), "{sentence}");
}

/// kube-controller-manager runs with `--leader-elect=false`. An earlier instance of it has left its
/// lease.
#[rstest]
#[case::writes(990, None)]
#[case::has_written(
    880,
    Some(
        "no instance holds the lease a/hpa, and no controller has renewed the lease a/hpa for 5m, \
         but a status stored 2m ago names kube-controller-manager"
    )
)]
#[case::wrote_while_it_held_the_lease(
    700,
    Some(
        "no instance holds the lease a/hpa, and no controller has renewed the lease a/hpa for 5m"
    )
)]
fn built_in_controller_without_a_lease_may_act(
    #[case] written: i64,
    #[case] expected: Option<&str>,
) {
    let left = controller_manager(Ok(renewed(700)), None);
    let missing = controller_manager(missing(), None);
    let lease = lease(released());
    let writers = NamespaceWriters::new(&[overwritten_by_own(written)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &left) };
    for manager in [OWN, KUBE_CONTROLLER_MANAGER] {
        let idle = leases.idle(CORE, "shop", manager);
        assert_eq!(idle.as_ref().map(Idle::reason).as_deref(), expected);
        assert!(idle.is_none_or(|idle| idle.is_certain == (written == 700)));
    }
    let of_custom = leases.idle(AutoscalerApi::Custom, "shop", OWN);
    assert!(of_custom.is_some_and(|idle| idle.is_certain), "it handles only the core API");
    assert_eq!(leases.is_built_in_alone(), written == 990);
    let leases = Leases { built_in: &missing, ..leases };
    assert_eq!(leases.idle(CORE, "shop", OWN).is_none(), written == 990);
}

/// kube-controller-manager may have been restarted with `--leader-elect=false`. Its lease, renewed
/// last at 955, expired at 970.
#[rstest]
#[case::after_the_expiry(990, Some("10s"))]
#[case::after_the_last_renewal(960, Some("40s"))]
#[case::before(950, None)]
fn recent_status_since_the_last_renewal_is_in_the_reason(
    #[case] written: i64,
    #[case] age: Option<&str>,
) {
    let built_in = controller_manager(Ok(expired()), None);
    let lease = lease(released());
    let writers = NamespaceWriters::new(&[overwritten_by_own(written)]);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    for manager in [OWN, KUBE_CONTROLLER_MANAGER] {
        let idle = leases.idle(CORE, "shop", manager).expect("a finding");
        let hint =
            age.map(|age| format!(", but a status stored {age} ago names kube-controller-manager"));
        let lost = "no instance holds the lease a/hpa, and no controller has renewed the lease \
                    a/hpa for 45s";
        assert_eq!(idle.reason(), lost.to_owned() + &hint.unwrap_or_default());
        assert_eq!(idle.is_certain, age.is_none());
    }
    let acting = leases.acting_controller(CORE, SHOP, Some(OWN), false);
    let may_act = written == 990;
    assert_eq!(acting, if may_act { MAYBE_RETURNED } else { ActingController::HpaRs });
}

/// Neither has a lease. Each stores only the statuses that it changes, and both are recent if
/// kube-controller-manager's is.
#[rstest]
#[case::recent(990, true)]
#[case::old(900, false)]
fn controllers_without_a_lease_both_act_on_all_autoscalers_of_a_namespace(
    #[case] written: i64,
    #[case] both_act: bool,
) {
    let built_in = controller_manager(Ok(renewed(700)), None);
    let lease = lease(missing());
    let own = FieldManager::default();
    let status = |namespace: &str, name: &str, manager: &str, second| {
        let at = Some(at(second));
        let key = HpaKey::new(namespace, name);
        AutoscalerStatusWriter { key, ..writer(CORE, namespace, manager, at) }
    };
    let statuses = [
        status("shop", "a", KUBE_CONTROLLER_MANAGER, written),
        status("shop", "b", own.as_str(), 985),
        // Of another hpa-rs, as far as is known.
        status("blog", "c", KUBE_CONTROLLER_MANAGER, written),
    ];
    let writers = NamespaceWriters::new(&statuses);
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let sentences: Vec<_> = leases.conflicts(&statuses).iter().map(Conflict::describe).collect();
    let both = "hpa-controller and kube-controller-manager both act on 2 autoscalers (shop/a, \
                shop/b) and overwrite each other's decisions";
    assert_eq!(sentences, if both_act { vec![both] } else { Vec::new() });
    let single = statuses.each_ref().map(|one| leases.conflicts(slice::from_ref(one)).len());
    assert_eq!(single, if both_act { [1, 1, 0] } else { [0; 3] }, "as hpa explain NAME");
    let acting = |manager| leases.acting_controller(CORE, SHOP, Some(manager), false);
    let expected = if both_act { MAYBE_RETURNED } else { ActingController::HpaRs };
    assert_eq!([KUBE_CONTROLLER_MANAGER, own.as_str()].map(acting), [expected; 2]);
}

/// The flags of kube-controller-manager can't be read, and it acquired its lease 20 s before its
/// status.
#[rstest]
#[case::status_after_the_takeover(100, true)]
#[case::status_may_be_from_before_the_takeover(960, false)]
fn recent_status_of_a_new_holder_shows_that_both_may_act(
    #[case] acquired: i64,
    #[case] may_act: bool,
) {
    let holder = Ok(LeaseHolder { acquired: Some(at(970)), ..held() });
    let built_in = KubeControllerManager { holder, flags: None, last_write: Some(at(990)) };
    let lease = lease(Ok(LeaseHolder { acquired: Some(at(acquired)), ..held() }));
    let status = overwritten_by_own(990);
    let writers = NamespaceWriters::new(slice::from_ref(&status));
    let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
    let sentence = leases.conflicts(&[status]).first().map(Conflict::describe);
    let both = "hpa-controller:a/hpa and kube-controller-manager may both act on 1 autoscaler \
                (shop/web): a status stored 10s ago names kube-controller-manager, whose flags \
                can't be read";
    assert_eq!(sentence.as_deref(), may_act.then_some(both));
}

/// kube-controller-manager's flags can't be read, and no instance of hpa-rs handles the namespace.
#[rstest]
#[case::after_the_status(900, true)]
#[case::before_the_status(700, false)]
fn built_in_controller_may_have_been_switched_off_since_its_last_status(
    #[case] acquired: i64,
    #[case] is_idle: bool,
) {
    let [acquired, written] = [acquired, 800].map(|second| Some(at(second)));
    let holder = Ok(LeaseHolder { acquired, ..held() });
    let built_in = KubeControllerManager { holder, flags: None, last_write: written };
    let write = writer(CORE, "shop", KUBE_CONTROLLER_MANAGER, written);
    let writers = NamespaceWriters::new(&[write]);
    let scope = Some(scope(vec![CORE], &["blog"]));
    for (holder, is_known) in [(Ok(LeaseHolder { scope, ..held() }), true), (missing(), false)] {
        let lease = lease(holder);
        let leases = Leases { writers: &writers, ..leases(&lease, &built_in) };
        let idle = leases.idle(CORE, "shop", KUBE_CONTROLLER_MANAGER);
        let reason = idle.map(|idle| idle.reason()).unwrap_or_default();
        let expected = "whether kube-controller-manager handles autoscalers is unknown: its flags \
                        can't be read, and it has stored no status since it acquired its lease";
        assert_eq!(reason.starts_with(expected), is_idle && is_known, "{reason}");
    }
}
