//! Tests of the search for leases.

use hpa_controller::{INSTANCE_SCOPE, KEEPS_HISTORY, k8s::StatusWrite};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{TestbedExt, objects};
use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::liveness::tests::{lease_key, renewed, writer};

/// The field manager of a status that names the lease of an operator.
const MANAGER: &str = "hpa-controller:scaling/hpa";

/// The field manager of a status that names the lease of a tenant.
const TENANT_MANAGER: &str = "hpa-controller:eve/evil";

fn missing() -> HolderResult {
    Err(Unavailable::NoLease(lease_key()))
}

fn unread() -> HolderResult {
    Err(Unavailable::Unreachable("refused".to_owned()))
}

#[test]
fn unread_lease_ranks_below_a_held_one_and_above_a_lost_one() {
    let ascending = [missing(), Ok(renewed(900)), unread(), Ok(renewed(995))];
    let states = ascending.each_ref().map(LeaseState::of);
    assert!(states.is_sorted_by(|left, right| left < right), "{states:?}");
    let released = Err(Unavailable::NotHeld { lease: lease_key(), released: None });
    assert_eq!(LeaseState::of(&released), LeaseState::Lost);
}

#[test]
fn first_lease_is_preferred_unless_it_is_lost_and_another_may_be_held() {
    let renewed = |second| Ok(renewed(second));
    let index = |holders: [HolderResult; 3]| {
        let leases = holders.map(|holder| ReadLease { name: lease_key(), holder });
        preferred_index(&leases, |_| true)
    };
    assert_eq!(index([unread(), renewed(995), missing()]), 0, "most statuses name it");
    assert_eq!(index([renewed(900), unread(), renewed(995)]), 2);
    assert_eq!(index([missing(), renewed(900), unread()]), 2);
    assert_eq!(index([missing(), renewed(900), missing()]), 0);
}

#[test]
fn clock_of_an_instance_precedes_that_of_the_holder_unless_it_is_behind() {
    let clock_lead = SignedDuration::from_mins(5);
    let lease_with = |clock_lead, second, may_answer_for_all| {
        let holder = Ok(LeaseHolder { clock_lead, ..renewed(second) });
        let lease = ReadLease { name: lease_key(), holder };
        let lease = ControllerLease::new(lease, Vec::new(), Vec::new());
        ControllerLease { may_answer_for_all, ..lease }
    };
    let lease = |second, may_answer| lease_with(clock_lead, second, may_answer);
    let instance_lead = SignedDuration::from_secs(2);
    assert_eq!(lease(995, true).clock_lead(Some(instance_lead)), instance_lead);
    assert_eq!(lease(995, true).clock_lead(None), clock_lead);
    assert_eq!(lease(995, true).clock_lead(Some(-clock_lead)), clock_lead, "a simulation");
    assert_eq!(lease(900, true).clock_lead(None), SignedDuration::ZERO, "it has expired");
    assert_eq!(lease(995, false).clock_lead(None), SignedDuration::ZERO, "of a tenant");
    // The API server may have hung when the holder renewed the lease.
    let late = lease_with(-clock_lead, 995, true);
    assert_eq!(late.clock_lead(None), SignedDuration::ZERO);
    let instance_lead = -SignedDuration::from_secs(1);
    assert_eq!(late.clock_lead(Some(instance_lead)), instance_lead, "its time is right");
    assert_eq!(late.clock_lead(Some(-clock_lead)), -clock_lead, "both are behind");
}

fn named_by(lease: &str, namespaces: &[&str]) -> NamedLease {
    NamedLease {
        key: LeaseKey::of_manager(&format!("hpa-controller:{lease}")).expect("a lease"),
        namespaces: namespaces.iter().map(|namespace| (*namespace).to_owned()).collect(),
    }
}

/// The searched autoscaler is in `bob`. Its status names `scaling/hpa`. The lease `eve/evil` is a
/// tenant's.
#[rstest]
#[case::own_namespace_of_a_tenant("eve/evil", &["eve"], false)]
#[case::two_namespaces_of_a_tenant("eve/evil", &["eve", "mallory"], false)]
#[case::same_namespace("scaling/two", &["bob"], true)]
#[case::usual("autoscaling/hpa-controller", &[], true)]
#[case::first("scaling/hpa", &["bob"], true)]
fn lease_answers_if_it_is_usual_or_named_in_the_same_namespace(
    #[case] name: &str,
    #[case] namespaces: &[&str],
    #[case] expected: bool,
) {
    let (first, other) = (named_by("scaling/hpa", &["bob"]), named_by(name, namespaces));
    let named = [first.clone(), other.clone()];
    let searched = SearchedAutoscaler { namespace: "bob", manager: Some(MANAGER) };
    for autoscaler in [None, Some(searched)] {
        assert_eq!(may_answer_for(&other.key, &first.key, autoscaler, &named), expected);
    }
    assert_eq!(first_named(Some(searched), &named), Some(first.key));
}

#[test]
fn usual_lease_is_searched_if_the_status_was_overwritten() {
    let manager = Some(KUBE_CONTROLLER_MANAGER);
    let overwritten = SearchedAutoscaler { namespace: "bob", manager };
    let first = first_named(Some(overwritten), &[named_by("eve/evil", &["eve"])]);
    assert_eq!(first, None, "only the usual leases may answer");
}

fn namespace(name: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    })
}

/// Each item is the namespace and the field manager of a status.
fn writers(statuses: &[(&str, &str)]) -> Vec<AutoscalerStatusWriter> {
    let writer =
        |(namespace, manager): &(&str, &str)| writer(AutoscalerApi::Core, namespace, manager, None);
    statuses.iter().map(writer).collect()
}

fn flags(namespace: Option<&str>) -> ControllerArguments {
    ControllerArguments {
        controller_namespace: namespace.map(ToOwned::to_owned),
        controller_lease: None,
        controller_url: None,
    }
}

/// The lease `scaling/hpa` has no holder. A tenant holds `eve/evil`.
fn testbed_with_a_lease_of_a_tenant() -> Testbed {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling"), namespace("eve")]);
    let now = Timestamp::now();
    let released = objects::lease("scaling", "hpa", "", now);
    testbed.apply_all([released, objects::lease("eve", "evil", "fake-0_1", now)]);
    testbed
}

#[tokio::test]
async fn held_lease_of_a_tenant_does_not_replace_a_lost_one() {
    let testbed = testbed_with_a_lease_of_a_tenant();
    let statuses = writers(&[("eve", TENANT_MANAGER), ("bob", MANAGER)]);
    let bob = SearchedAutoscaler { namespace: "bob", manager: Some(MANAGER) };
    let client = testbed.client();
    for autoscaler in [None, Some(bob)] {
        let found = ControllerLease::find(&client, &flags(None), autoscaler, &statuses).await;
        assert_eq!((&*found.name.namespace, &*found.name.name), ("scaling", "hpa"));
        assert!(is_lost(&found.holder));
        assert_eq!(found.local, [LeaseKey::of_manager(TENANT_MANAGER).expect("a lease")]);
    }
}

#[tokio::test]
async fn lease_may_answer_for_all_if_a_flag_or_statuses_of_all_namespaces_name_it() {
    let testbed = testbed_with_a_lease_of_a_tenant();
    let client = testbed.client();
    // Two namespaces of the tenant name eve/evil, and bob names scaling/hpa. Without bob, every
    // status names eve/evil.
    let tenant_and_bob = [("eve", TENANT_MANAGER), ("eve-2", TENANT_MANAGER), ("bob", MANAGER)];
    for (statuses, may_answer) in [(&tenant_and_bob[..], false), (&tenant_and_bob[..2], true)] {
        let found = ControllerLease::find(&client, &flags(None), None, &writers(statuses)).await;
        assert!(found.name.name == "evil" && found.local.is_empty());
        assert_eq!(found.may_answer_for_all, may_answer, "{statuses:?}");
    }
    let statuses = writers(&tenant_and_bob);
    let found = ControllerLease::find(&client, &flags(Some("eve")), None, &statuses).await;
    assert!(found.name.name == "evil" && found.may_answer_for_all, "a flag names it");
}

/// As in a release for one namespace.
#[tokio::test]
async fn autoscalers_in_the_namespace_of_a_lease_may_rely_on_it() {
    let testbed = testbed_with_a_lease_of_a_tenant();
    let client = testbed.client();
    let eve = SearchedAutoscaler { namespace: "eve", manager: Some(TENANT_MANAGER) };
    let eve_and_bob = [("eve", TENANT_MANAGER), ("bob", MANAGER)];
    for (autoscaler, statuses) in [(Some(eve), &eve_and_bob[..]), (None, &eve_and_bob[..1])] {
        let statuses = writers(statuses);
        let found = ControllerLease::find(&client, &flags(None), autoscaler, &statuses).await;
        assert!(found.name.name == "evil" && is_held(&found.holder));
    }
}

/// kube-controller-manager runs without leader election and has just replaced hpa-rs, whose release
/// was uninstalled.
#[tokio::test]
async fn controller_of_an_overwritten_status_has_stopped_if_its_lease_has_no_holder() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling")]);
    let (client, now) = (testbed.client(), Timestamp::now());
    let mut statuses = writers(&[("bob", KUBE_CONTROLLER_MANAGER)]);
    statuses[0].at = Some(now);
    let manager = MANAGER.to_owned();
    statuses[0].overwritten = vec![StatusWrite { manager, at: now }];
    let built_in = KubeControllerManager {
        holder: Err(Unavailable::NoLease(LeaseKey::built_in())),
        flags: None,
        last_write: Some(now),
    };
    let by_namespace = NamespaceWriters::new(&statuses);
    for (identity, conflicts) in [(None, 0), (Some(""), 0), (Some("hpa-0_1"), 1)] {
        testbed.apply_all(identity.map(|holder| objects::lease("scaling", "hpa", holder, now)));
        let found = ControllerLease::find(&client, &flags(None), None, &statuses).await;
        let leases = found.with(&built_in, &by_namespace, now);
        assert_eq!(leases.conflicts(&statuses).len(), conflicts, "{identity:?}");
    }
}

/// The leases `scaling/new` and `kube-system/usual` are held, and `eve/evil` of a tenant. The lease
/// `scaling/hpa` has no holder.
fn testbed_with_unnamed_leases() -> Testbed {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling"), namespace("eve")]);
    let now = Timestamp::now();
    let held_lease = |(namespace, name, annotation, value): (&str, &str, &str, &str)| {
        let mut lease = objects::lease(namespace, name, "new-0_1", now);
        lease["metadata"]["annotations"][annotation] = value.into();
        lease
    };
    // One stores no histories, and the others are of an earlier version.
    let scope = r#"{"holder":"new-0_1","apis":["core"],"namespaces":["shop"]}"#;
    let leases = [
        ("scaling", "new", INSTANCE_SCOPE, scope),
        ("kube-system", "usual", KEEPS_HISTORY, "true"),
        ("eve", "evil", KEEPS_HISTORY, "true"),
    ];
    testbed.apply_all(leases.map(held_lease));
    let other_operator = objects::lease("scaling", "other", "other-0_1", now);
    testbed.apply_all([other_operator, objects::lease("scaling", "hpa", "", now)]);
    testbed
}

/// The release has a new name, and no status has changed since.
#[rstest]
#[case::named_by_a_status(None, "shop", &["usual", "new"])]
#[case::named_by_a_flag(Some("scaling"), "shop", &[])]
#[case::lost_lease_may_be_of_a_tenant(None, "scaling", &["usual"])]
#[tokio::test]
async fn held_lease_that_no_status_names_is_found_beside_a_lost_one(
    #[case] flag: Option<&str>,
    #[case] status_namespace: &str,
    #[case] expected: &[&str],
) {
    let testbed = testbed_with_unnamed_leases();
    let (client, statuses) = (testbed.client(), writers(&[(status_namespace, MANAGER)]));
    let found = ControllerLease::find(&client, &flags(flag), None, &statuses).await;
    assert!(found.name.name == "hpa" && is_lost(&found.holder));
    let names = found.others.iter().map(|lease| lease.name.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// Another instance may have replaced kube-controller-manager.
#[tokio::test]
async fn held_lease_that_no_status_names_is_found_beside_a_status_of_the_built_in_controller() {
    let testbed = testbed_with_unnamed_leases();
    let client = testbed.client();
    let shop_status = ("shop", "hpa-controller:scaling/new");
    for (manager, expected) in [(KUBE_CONTROLLER_MANAGER, &["usual"][..]), ("k3s", &[])] {
        let statuses = writers(&[shop_status, ("blog", manager)]);
        let found = ControllerLease::find(&client, &flags(None), None, &statuses).await;
        let names = found.others.iter().map(|lease| lease.name.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let scopes = found.holders().flatten().filter_map(|holder| holder.scope.as_ref());
        let namespaces: Vec<_> = scopes.map(|scope| scope.namespaces.as_slice()).collect();
        assert_eq!(namespaces, [["shop"]]);
    }
}

#[tokio::test]
async fn held_lease_is_found_in_a_usual_namespace_without_statuses() {
    let testbed = testbed_with_unnamed_leases();
    let found = ControllerLease::find(&testbed.client(), &flags(None), None, &[]).await;
    let is_found = found.others.iter().any(|lease| lease.name.name == "usual");
    assert!(is_found && !found.searched_namespaces.is_empty());
}

/// kube-controller-manager stored a status before the instance, which has stopped, replaced it.
#[tokio::test]
async fn expired_lease_that_names_the_namespace_of_a_built_in_status_is_found() {
    let testbed = Testbed::new(Config::default());
    let now = Timestamp::now();
    let long_ago = now - SignedDuration::from_hours(2);
    let mut stopped = objects::lease("kube-system", "stopped", "old-0_1", long_ago);
    let scope = r#"{"holder":"old-0_1","apis":["core"],"namespaces":["shop"]}"#;
    stopped["metadata"]["annotations"][INSTANCE_SCOPE] = scope.into();
    testbed.apply_all([namespace("scaling"), stopped]);
    testbed.apply_all([objects::lease("scaling", "first", "first-0_1", now)]);
    let client = testbed.client();
    let first_status = ("first", "hpa-controller:scaling/first");
    for (namespace, expected) in [("shop", &["stopped"][..]), ("blog", &[])] {
        let statuses = writers(&[first_status, (namespace, KUBE_CONTROLLER_MANAGER)]);
        let found = ControllerLease::find(&client, &flags(None), None, &statuses).await;
        assert!(found.name.name == "first" && is_held(&found.holder));
        let names = found.others.iter().map(|lease| lease.name.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), expected);
    }
}

/// The instance with the lease `scaling/one` no longer handles `shop`. A new one has stored no
/// status.
#[tokio::test]
async fn lease_that_no_status_names_is_found_if_an_instance_handles_other_namespaces() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling")]);
    let now = Timestamp::now();
    let statuses = writers(&[("shop", "hpa-controller:scaling/one")]);
    let client = testbed.client();
    for (namespace, count) in [("shop", 0), ("blog", 1)] {
        let mut named = objects::lease("scaling", "one", "a_1", now);
        let scope =
            serde_json::json!({ "holder": "a_1", "apis": ["core"], "namespaces": [namespace] });
        named["metadata"]["annotations"] = serde_json::json!({ INSTANCE_SCOPE: scope.to_string() });
        let mut unnamed = objects::lease("scaling", "two", "b_1", now);
        unnamed["metadata"]["annotations"] = serde_json::json!({ KEEPS_HISTORY: "true" });
        testbed.apply_all([named, unnamed]);
        let found = ControllerLease::find(&client, &flags(None), None, &statuses).await;
        assert_eq!((&*found.name.name, found.others.len()), ("one", count), "{namespace}");
    }
}

#[tokio::test]
async fn missing_api_is_reported_by_the_lease_of_a_known_controller() {
    let testbed = Testbed::new(Config::default());
    let client = testbed.client();
    let read = ReadLease { name: lease_key(), holder: Ok(renewed(995)) };
    let mut lease = ControllerLease::new(read, Vec::new(), Vec::new());
    assert_eq!(lease.missing_api(&client, &[]).await, None, "a tenant may have created it");
    lease.may_answer_for_all = true;
    let missing = lease.missing_api(&client, &[]).await.unwrap_or_default();
    assert!(missing.starts_with("autoscaling.hpa-rs.dev/v2 is not installed"), "{missing}");
    let mut custom_statuses = writers(&[("shop", MANAGER)]);
    custom_statuses[0].key.api = AutoscalerApi::Custom;
    assert_eq!(lease.missing_api(&client, &custom_statuses).await, None, "a status is of the API");
}
