//! Tests of the search for leases.

use hpa_controller::{HpaKey, INSTANCE_SCOPE, KEEPS_HISTORY, k8s::StatusWrite};
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{TestbedExt, objects};
use jiff::SignedDuration;
use rstest::rstest;

use super::*;
use crate::liveness::tests::{lease_key, renewed};

#[test]
fn held_lease_precedes_one_that_is_unread_and_that_precedes_one_without_a_holder() {
    let renewed = |second| Ok(renewed(second));
    let unread = || Err(Unavailable::Unreachable("refused".to_owned()));
    let ascending = [Err(Unavailable::NoLease(lease_key())), renewed(900), unread(), renewed(995)];
    let states = ascending.each_ref().map(LeaseState::of);
    assert!(states.is_sorted_by(|left, right| left < right), "{states:?}");
    let released = Err(Unavailable::NotHeld { lease: lease_key(), released: None });
    assert_eq!(LeaseState::of(&released), LeaseState::Lost);

    let index = |holders: [Result<LeaseHolder, Unavailable>; 3]| {
        let leases = holders.map(|holder| ReadLease { name: lease_key(), holder });
        preferred_index(&leases, |_| true)
    };
    let missing = || Err(Unavailable::NoLease(lease_key()));
    assert_eq!(index([unread(), renewed(995), missing()]), 0, "most statuses name it");
    assert_eq!(index([renewed(900), unread(), renewed(995)]), 2);
    assert_eq!(index([missing(), renewed(900), unread()]), 2);
    assert_eq!(index([missing(), renewed(900), missing()]), 0);
}

#[test]
fn clock_of_an_instance_precedes_that_of_the_holder_unless_it_is_behind() {
    let clock_lead = SignedDuration::from_mins(5);
    let lease = |second, may_answer_for_all| {
        let holder = Ok(LeaseHolder { clock_lead, ..renewed(second) });
        let lease = ReadLease { name: lease_key(), holder };
        let lease = ControllerLease::new(lease, Vec::new(), Vec::new());
        ControllerLease { may_answer_for_all, ..lease }
    };
    let of_instance = Some(SignedDuration::from_secs(2));
    assert_eq!(lease(995, true).clock_lead(of_instance), SignedDuration::from_secs(2));
    assert_eq!(lease(995, true).clock_lead(None), clock_lead);
    assert_eq!(lease(995, true).clock_lead(Some(-clock_lead)), clock_lead, "a simulation");
    assert_eq!(lease(900, true).clock_lead(None), SignedDuration::ZERO, "it has expired");
    assert_eq!(lease(995, false).clock_lead(None), SignedDuration::ZERO, "of a tenant");
}

/// `web` is in `bob`, whose status names `scaling/hpa`. The lease `eve/evil` is a tenant's.
#[rstest]
#[case::own_of_a_tenant("eve/evil", &["eve"], false)]
#[case::of_two_other_namespaces("eve/evil", &["eve", "mallory"], false)]
#[case::same_namespace("scaling/two", &["bob"], true)]
#[case::usual("autoscaling/hpa-controller", &[], true)]
#[case::first("scaling/hpa", &["bob"], true)]
fn lease_of_a_tenant_never_answers_for_other_namespaces(
    #[case] name: &str,
    #[case] namespaces: &[&str],
    #[case] expected: bool,
) {
    let named_by = |lease: &str, namespaces: &[&str]| ReportedLease {
        key: LeaseKey::of_manager(&format!("hpa-controller:{lease}")).expect("a lease"),
        namespaces: namespaces.iter().map(|namespace| (*namespace).to_owned()).collect(),
    };
    let (first, other) = (named_by("scaling/hpa", &["bob"]), named_by(name, namespaces));
    let named = [first.clone(), other.clone()];
    let bob = SearchedAutoscaler { namespace: "bob", manager: Some("hpa-controller:scaling/hpa") };
    for one in [None, Some(bob)] {
        assert_eq!(may_answer_for(&other.key, &first.key, one, &named), expected);
    }
    assert_eq!(first_named(Some(bob), &named), Some(first.key));
    let replaced = SearchedAutoscaler { manager: Some("kube-controller-manager"), ..bob };
    let unknown = first_named(Some(replaced), &[named_by("eve/evil", &["eve"])]);
    assert_eq!(unknown, None, "only the usual leases may answer");
}

fn namespace(name: &str) -> serde_json::Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    })
}

/// Each item is the namespace and the field manager of a status.
fn writers(statuses: &[(&str, &str)]) -> Vec<AutoscalerStatusWriter> {
    let writer = |(namespace, manager): &(&str, &str)| AutoscalerStatusWriter {
        key: HpaKey::new(*namespace, "web"),
        manager: (*manager).to_owned(),
        at: None,
        overwritten: Vec::new(),
        dry_run: false,
    };
    statuses.iter().map(writer).collect()
}

fn flags(namespace: Option<&str>) -> ControllerArguments {
    ControllerArguments {
        controller_namespace: namespace.map(ToOwned::to_owned),
        controller_lease: None,
        controller_url: None,
    }
}

#[tokio::test]
async fn held_lease_of_a_tenant_does_not_replace_a_lost_one() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling"), namespace("eve")]);
    let now = Timestamp::now();
    let released = objects::lease("scaling", "hpa", "", now);
    testbed.apply_all([released, objects::lease("eve", "evil", "fake-0_1", now)]);
    let (real, evil) = ("hpa-controller:scaling/hpa", "hpa-controller:eve/evil");
    let statuses = [("eve", evil), ("bob", real)];
    let bob = SearchedAutoscaler { namespace: "bob", manager: Some(real) };
    let client = testbed.client();
    for one in [None, Some(bob)] {
        let found = ControllerLease::find(&client, &flags(None), one, &writers(&statuses)).await;
        assert_eq!((&*found.name.namespace, &*found.name.name), ("scaling", "hpa"));
        assert!(is_lost(&found.holder));
        assert_eq!(found.local, [LeaseKey::of_manager(evil).expect("a lease")]);
    }
    // Two namespaces of the tenant name it, and one that is not the tenant's.
    let of_two = [("eve", evil), ("eve-2", evil), ("bob", real)];
    for (statuses, may_answer) in [(&of_two[..], false), (&of_two[..2], true)] {
        let found = ControllerLease::find(&client, &flags(None), None, &writers(statuses)).await;
        assert!(found.name.name == "evil" && found.local.is_empty());
        assert_eq!(found.may_answer_for_all, may_answer, "{statuses:?}");
    }
    let found = ControllerLease::find(&client, &flags(Some("eve")), None, &writers(&of_two)).await;
    assert!(found.name.name == "evil" && found.may_answer_for_all, "the reader named it");
    // Its own autoscalers may rely on it, as in a release for one namespace.
    let eve = SearchedAutoscaler { namespace: "eve", manager: Some(evil) };
    let found = ControllerLease::find(&client, &flags(None), Some(eve), &writers(&statuses)).await;
    assert!(found.name.name == "evil" && is_held(&found.holder));
    let found =
        ControllerLease::find(&client, &flags(None), None, &writers(&[("eve", evil)])).await;
    assert!(found.name.name == "evil" && is_held(&found.holder));
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
    let manager = "hpa-controller:scaling/hpa".to_owned();
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

/// The release has a new name, and no status has changed since.
#[tokio::test]
async fn held_lease_that_no_status_names_is_found_beside_a_lost_one() {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([namespace("scaling"), namespace("eve")]);
    let now = Timestamp::now();
    let of_hpa_rs = |(namespace, name, annotation, value): (&str, &str, &str, &str)| {
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
    testbed.apply_all(leases.map(of_hpa_rs));
    let other_operator = objects::lease("scaling", "other", "other-0_1", now);
    testbed.apply_all([other_operator, objects::lease("scaling", "hpa", "", now)]);
    let client = testbed.client();
    let unnamed = async |namespace: Option<&str>, status_namespace: &str| {
        let statuses = [(status_namespace, "hpa-controller:scaling/hpa")];
        let found =
            ControllerLease::find(&client, &flags(namespace), None, &writers(&statuses)).await;
        assert!(found.name.name == "hpa" && is_lost(&found.holder));
        let names = found.others.iter().map(|lease| lease.name.name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(unnamed(None, "shop").await, ["usual", "new"]);
    assert_eq!(unnamed(Some("scaling"), "shop").await, [""; 0], "the reader named it");
    assert_eq!(unnamed(None, "scaling").await, ["usual"], "the lease may be a tenant's");
    // Beside a held lease, another instance may have replaced kube-controller-manager.
    let of_shop = ("shop", "hpa-controller:scaling/new");
    for (manager, unnamed) in [(KUBE_CONTROLLER_MANAGER, &["usual"][..]), ("k3s", &[])] {
        let statuses = writers(&[of_shop, ("blog", manager)]);
        let found = ControllerLease::find(&client, &flags(None), None, &statuses).await;
        let names = found.others.iter().map(|lease| lease.name.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), unnamed);
        let scopes = found.holders().flatten().filter_map(|holder| holder.scope.as_ref());
        let namespaces: Vec<_> = scopes.map(|scope| scope.namespaces.as_slice()).collect();
        assert_eq!(namespaces, [["shop"]]);
    }
    let found = ControllerLease::find(&client, &flags(None), None, &[]).await;
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
    let of_first = ("first", "hpa-controller:scaling/first");
    for (namespace, expected) in [("shop", &["stopped"][..]), ("blog", &[])] {
        let statuses = writers(&[of_first, (namespace, KUBE_CONTROLLER_MANAGER)]);
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
        let mut one = objects::lease("scaling", "one", "a_1", now);
        let scope =
            serde_json::json!({ "holder": "a_1", "apis": ["core"], "namespaces": [namespace] });
        one["metadata"]["annotations"] = serde_json::json!({ INSTANCE_SCOPE: scope.to_string() });
        let mut new = objects::lease("scaling", "two", "b_1", now);
        new["metadata"]["annotations"] = serde_json::json!({ KEEPS_HISTORY: "true" });
        testbed.apply_all([one, new]);
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
    let mut of_api = writers(&[("shop", "hpa-controller:scaling/hpa")]);
    for one in &mut of_api {
        one.key.api = AutoscalerApi::Custom;
    }
    assert_eq!(lease.missing_api(&client, &of_api).await, None, "a status is of the API");
}
