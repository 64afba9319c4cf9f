//! The controller that stored the status, and its lease.

use std::fs;

use axum::{Router, extract::Request};
use hpa_controller::INSTANCE_SCOPE;
use hpa_testbed::Testbed;
use hpa_tests::harness::{TestbedExt, objects};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    AUTOSCALER, Cluster, DEPLOYMENT, FIRST_POD, annotate, overwritten_event, set_status, web_with,
};

#[tokio::test]
async fn pause_is_ignored_if_kube_controller_manager_stored_the_status() {
    let pause = |all: &mut Vec<Value>| annotate(&mut all[AUTOSCALER], "pause", "true");
    let cluster = Cluster::new(web_with(4, objects::cpu_metric(30), pause)).await;
    cluster
        .expect(&[
            "shop/web is paused by annotation and stays at 4: ",
            "; without the pause, it would scale to 8",
            "scales to 8 without the pause",
        ])
        .await;
    let mut hpa = cluster.testbed.hpa("web").expect("an autoscaler");
    hpa["metadata"]["managedFields"] = status_fields_of("kube-controller-manager");
    let deployment = cluster.testbed.deployment("web").expect("a Deployment");
    let file = cluster.write_dump(vec![hpa, deployment]);
    let output = cluster.explain(&["-f", &file]).await;
    assert!(output.contains("kube-controller-manager stored the status at 2026"), "{output}");
    assert!(!output.contains("paused by annotation"), "{output}");
}

#[tokio::test]
async fn pause_that_kube_controller_manager_ignores_is_reported_with_its_lease() {
    let (now, old) = (Timestamp::now(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    let paused = |leases: Vec<Value>| {
        let mut all = controlled_by("kube-controller-manager");
        annotate(&mut all[AUTOSCALER], "pause", "true");
        Cluster::new(all.into_iter().chain(leases))
    };
    let held = |renewed| vec![lease("kube-system", "kube-controller-manager", renewed)];
    let advice = "Remove the annotation autoscaling.hpa-rs.dev/pause, unless hpa run is to handle \
                  the autoscaler: ";
    let ignores = "kube-controller-manager, which stored the status last, ignores the pause; ";
    for (leases, of_hpa_rs, state) in [
        (
            held(old),
            "hpa-rs would obey the pause; ",
            "no controller has renewed the lease kube-system/kube-controller-manager for ",
        ),
        (held(now), "", "its lease is held by a_1, renewed "),
        (Vec::new(), "", "it has no lease."),
    ] {
        let output = paused(leases).await.explain(&["shop/web"]).await;
        assert!(output.contains(&format!("{advice}{of_hpa_rs}{ignores}{state}")), "{output}");
        assert!(!output.contains("handles it, by its status"), "{output}");
    }
}

#[tokio::test]
async fn status_reads_the_lease_and_the_flags_of_kube_controller_manager() {
    let cluster = Cluster::new([]).await;
    let status = async || {
        let (output, error, _) = cluster.hpa(&["status"]).await;
        let mut lines = output.lines().filter(|line| line.contains("kube-controller-manager"));
        lines.next().unwrap_or_else(|| panic!("{output}{error}")).to_owned()
    };
    let unknown = "- whether kube-controller-manager runs is unknown: there is no lease \
                   kube-system/kube-controller-manager";
    assert_eq!(status().await, unknown);
    let now = Timestamp::now();
    let held = objects::lease("kube-system", "kube-controller-manager", "cp-1_7d1f", now);
    cluster.testbed.apply_all([held]);
    let line = status().await;
    let flags = "; its flags can't be read here, so its HPA controller may be on";
    assert!(line.starts_with("- kube-controller-manager holds its lease (cp-1, "), "{line}");
    assert!(line.ends_with(flags), "{line}");
    let command = ["kube-controller-manager", BUILT_IN_IS_OFF];
    let container = json!({ "name": "kube-controller-manager", "image": "k", "command": command });
    cluster.testbed.apply_all([json!({
        "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [container] },
        "metadata": { "name": "kube-controller-manager-cp-1", "namespace": "kube-system" },
    })]);
    let line = status().await;
    let off = "is off (flags of pod kube-system/kube-controller-manager-cp-1)";
    assert!(line.starts_with("√ ") && line.ends_with(off), "{line}");
}

/// The managed fields of an autoscaler whose status `manager` stored.
fn status_fields_of(manager: &str) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "subresource": "status",
        "apiVersion": "autoscaling/v2", "fieldsType": "FieldsV1", "fieldsV1": {},
        "time": "2026-01-01T00:00:00Z",
    }])
}

/// The objects of [`super::web`] with half of the needed pods, and a status that `manager` stored.
fn controlled_by(manager: &str) -> Vec<Value> {
    web_with(2, objects::cpu_metric(30), |all| {
        all[AUTOSCALER]["metadata"]["managedFields"] = status_fields_of(manager);
    })
}

fn namespace_object(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn lease(namespace: &str, name: &str, renewed: Timestamp) -> Value {
    objects::lease(namespace, name, "a_1", renewed)
}

/// The lease of an instance of hpa-rs that handles the autoscalers of the core API in these
/// namespaces, or in all namespaces if the list is empty.
fn lease_for(namespaces: &[&str], mut lease: Value) -> Value {
    let scope = json!({ "holder": "a_1", "apis": ["core"], "namespaces": namespaces });
    lease["metadata"]["annotations"][INSTANCE_SCOPE] = scope.to_string().into();
    lease
}

/// A pod of kube-controller-manager that the holder `a_1` of a [`lease`] names.
fn built_in_pod(arguments: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "kube-controller-manager-a", "namespace": "kube-system" },
        "spec": { "containers": [
            { "name": "kube-controller-manager", "image": "k", "args": arguments },
        ] },
    })
}

const BUILT_IN_IS_OFF: &str = "--controllers=*,-horizontal-pod-autoscaler-controller";

fn released_lease(namespace: &str, name: &str, renewed: Timestamp) -> Value {
    objects::lease(namespace, name, "", renewed)
}

#[tokio::test]
async fn controller_with_an_expired_lease_scales_nothing() {
    let (now, old) = (Timestamp::now(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    let held = |manager, leases: &[Value]| {
        Cluster::new(controlled_by(manager).into_iter().chain(leases.to_vec()))
    };
    let own = |renewed| lease("shop", "hpa", renewed);
    let built_in = |renewed| lease("kube-system", "kube-controller-manager", renewed);
    let dead = "shop/web would scale from 2 to 4: cpu is at 60% of requests, target 30%; no \
                controller has renewed the lease ";
    let cluster = held("hpa-controller:shop/hpa", &[own(old)]).await;
    let advice = "No controller with a known lease acts on this autoscaler: no controller has \
                  renewed the lease shop/hpa";
    cluster.expect(&[&format!("{dead}shop/hpa for "), advice]).await;
    let all = cluster.explain(&["-A"]).await;
    let first = "No controller with a known lease acts on 1 autoscaler (shop/web): no controller \
                 has renewed the lease shop/hpa for ";
    assert!(all.starts_with(first), "{all}");
    let released = released_lease("shop", "hpa", old);
    let cluster = held("hpa-controller:shop/hpa", &[released]).await;
    let first = "No controller with a known lease acts on 1 autoscaler (shop/web): no instance \
                 holds the lease shop/hpa. ";
    let end = "target 30%; no instance holds the lease shop/hpa\n";
    cluster.expect(&[end, &first.replace("1 autoscaler (shop/web)", "this autoscaler")]).await;
    let all = cluster.explain(&["-A"]).await;
    assert!(all.starts_with(first), "{all}");
    let cluster = held("kube-controller-manager", &[built_in(old)]).await;
    let first = format!("{dead}kube-system/kube-controller-manager for ");
    let search = ", and no lease hpa-controller was found in kube-system or autoscaling";
    let maybe = "Maybe no controller acts on this autoscaler: no controller has renewed";
    let elsewhere = format!("{search}; if hpa-rs runs elsewhere, add --controller-namespace");
    cluster.expect(&[&first, search, maybe, &elsewhere]).await;

    let successor = lease_for(&[], lease("kube-system", "hpa-controller", now));
    for (manager, leases) in [
        ("hpa-controller:shop/hpa", [own(now)].as_slice()),
        ("kube-controller-manager", &[built_in(now)]),
        ("kube-controller-manager", &[built_in(old), successor]),
        // These managers have a lease of another name, or none.
        ("k3s", &[]),
        ("hpa-controller", &[]),
    ] {
        let output = held(manager, leases).await.explain(&["shop/web"]).await;
        assert!(!output.contains("has renewed"), "{manager}: {output}");
        let all = held(manager, leases).await.explain(&["-A"]).await;
        assert!(!all.contains("has renewed"), "{manager}: {all}");
    }
}

/// A reinstallation under another name: steady autoscalers keep the field manager of the old lease.
#[tokio::test]
async fn held_lease_takes_precedence_over_a_released_one() {
    let now = Timestamp::now();
    let released = released_lease("shop", "one", now);
    let objects = |namespace_of_two: &str| {
        let mut all = controlled_by("hpa-controller:shop/one");
        let mut steady = all[AUTOSCALER].clone();
        let mut written = controlled_by("hpa-controller:shop/two").remove(AUTOSCALER);
        for (hpa, name) in [(&mut steady, "steady"), (&mut written, "written")] {
            hpa["metadata"]["name"] = json!(name);
            hpa["spec"]["scaleTargetRef"]["name"] = json!(name);
        }
        written["metadata"]["namespace"] = json!(namespace_of_two);
        all.extend([steady, written, lease("shop", "two", now)]);
        all.insert(0, namespace_object("other"));
        all
    };
    // The old lease is deleted or released.
    for old in [Vec::new(), vec![released.clone()]] {
        let cluster = Cluster::new(objects("shop").into_iter().chain(old)).await;
        let (status, ..) = cluster.hpa(&["status"]).await;
        assert!(status.contains("√ lease shop/two is held by a, renewed "), "{status}");
        assert!(status.contains("; it holds no lease, so it no longer writes"), "{status}");
        for arguments in [["status"].as_slice(), &["explain", "-A"], &["explain", "shop/web"]] {
            let (output, ..) = cluster.hpa(arguments).await;
            assert!(!output.contains(" acts on "), "{arguments:?}: {output}");
            assert!(!output.contains("shop/one does not exist"), "{arguments:?}: {output}");
        }
    }
    // The instance may handle only the namespace in which it stored a status.
    let cluster = Cluster::new(objects("other").into_iter().chain([released])).await;
    let doubt = "no instance holds the lease shop/one, and whether an instance with the lease \
                 shop/two acts instead is unknown";
    let maybe = format!("Maybe no controller acts on this autoscaler: {doubt}");
    cluster.expect(&[&format!("; {doubt}\n"), &maybe]).await;
    let all = cluster.explain(&["-A"]).await;
    let maybe = "Maybe no controller acts on 2 autoscalers (";
    assert!(all.starts_with(maybe) && all.contains(&format!("): {doubt}. ")), "{all}");
    let (status, ..) = cluster.hpa(&["status"]).await;
    let maybe = "‼ maybe no controller acts on 2 autoscalers (";
    assert!(status.contains(maybe) && status.contains(&format!("): {doubt}\n")), "{status}");
}

/// The tenant has the namespaces `eve` and `eve-2`, one more than the others.
#[tokio::test]
async fn answers_of_a_forged_lease_are_read_only_if_a_flag_names_it() {
    let mut all = controlled_by("hpa-controller:shop/hpa");
    let mut forged = controlled_by("hpa-controller:eve/forged").remove(AUTOSCALER);
    for namespace in ["eve", "eve-2"] {
        all.push(namespace_object(namespace));
        forged["metadata"]["namespace"] = json!(namespace);
        all.push(forged.clone());
    }
    all.push(lease("eve", "forged", Timestamp::now()));
    // The holder of the lease.
    let mut pod = objects::pod("web", 0);
    pod["metadata"]["namespace"] = json!("eve");
    pod["metadata"]["name"] = json!("a");
    all.push(pod);
    let cluster = Cluster::new(all).await;
    let (status, ..) = cluster.hpa(&["status"]).await;
    let unread = "- the debug API of the lease's holder is not used: a tenant may have created the \
                  lease eve/forged, because not all namespaces with autoscalers name it. \
                  --controller-namespace eve uses it\n";
    assert!(status.contains(unread), "{status}");
    let (status, ..) = cluster.hpa(&["status", "--controller-namespace=eve"]).await;
    assert!(status.contains("- the debug API is off: pod eve/a has no port"), "{status}");
}

/// An instance of another name has taken over within the last minute.
#[tokio::test]
async fn controller_that_has_just_released_its_lease_is_no_conflict() {
    let now = Timestamp::now();
    let mut objects = controlled_by("hpa-controller:shop/one");
    objects[AUTOSCALER]["metadata"]["managedFields"][0]["time"] = json!(format!("{now:.0}"));
    let mut other = objects[AUTOSCALER].clone();
    other["metadata"]["name"] = json!("other");
    other["metadata"]["managedFields"][0]["manager"] = json!("hpa-controller:shop/two");
    other["spec"]["scaleTargetRef"]["name"] = json!("other");
    objects.extend([other, lease("shop", "two", now), released_lease("shop", "one", now)]);
    let cluster = Cluster::new(objects).await;
    let all = cluster.explain(&["-A"]).await;
    assert!(!all.contains(" both act on "), "{all}");
    let (status, ..) = cluster.hpa(&["status"]).await;
    assert!(status.contains("; it holds no lease, so it no longer writes"), "{status}");
    assert!(!status.contains("both overwrite"), "{status}");
}

/// After a migration, no status changes, so hpa-rs stores none. With a dry run it never does.
#[tokio::test]
async fn lease_of_the_successor_is_found_in_other_namespaces() {
    let (now, old) = (Timestamp::now(), "2026-01-01T00:00:00Z".parse().expect("a time"));
    let mut objects = controlled_by("kube-controller-manager");
    annotate(&mut objects[AUTOSCALER], "dry-run", "true");
    objects.push(lease("kube-system", "kube-controller-manager", old));
    let mut other = controlled_by("hpa-controller:scaling/hpa").remove(AUTOSCALER);
    other["metadata"]["namespace"] = json!("other");
    for successor in [
        vec![lease_for(&[], lease("autoscaling", "hpa-controller", now))],
        vec![other, lease_for(&["shop", "other"], lease("scaling", "hpa", now))],
    ] {
        let namespaces = ["kube-system", "autoscaling", "other", "scaling"].map(namespace_object);
        let all = namespaces.into_iter().chain(objects.iter().cloned()).chain(successor);
        let cluster = Cluster::new(all).await;
        let first = "shop/web is in dry run by annotation and would scale from 2 to 4: ";
        cluster.expect(&[first]).await;
        let output = cluster.explain(&["shop/web"]).await;
        assert!(!output.contains("ignores") && !output.contains(" acts on "), "{output}");
        let all = cluster.explain(&["-A"]).await;
        assert!(!all.contains("ignores") && !all.contains(" acts on "), "{all}");
        let arguments = ["status", "-n", "shop"];
        let (status, ..) = cluster.hpa(&arguments).await;
        let dry_run = "1 autoscaler in dry run, so nothing is written: shop/web";
        assert!(status.contains(dry_run) && !status.contains(" acts on "), "{status}");
    }
}

/// `helm install` with `--set namespaces={blog}`, after the HPA controller of
/// kube-controller-manager was switched off. In the first case, the lease doesn't have the
/// namespaces, as with an earlier version of hpa-rs.
#[tokio::test]
async fn instance_for_other_namespaces_acts_on_no_autoscaler_of_this_one() {
    let now = Timestamp::now();
    let mut all = controlled_by("kube-controller-manager");
    all.insert(0, namespace_object("autoscaling"));
    all.extend([
        lease("kube-system", "kube-controller-manager", now),
        built_in_pod(&[BUILT_IN_IS_OFF]),
    ]);
    let cluster = Cluster::new(all).await;
    let off = "kube-controller-manager's HPA controller is off";
    let held = || lease("autoscaling", "hpa-controller", now);
    for (lease, symbol, start, clause) in [
        (
            held(),
            '‼',
            "aybe no controller",
            "whether an instance with the lease autoscaling/hpa-controller acts instead is unknown",
        ),
        (
            lease_for(&["blog"], held()),
            '×',
            "o controller with a known lease",
            "an instance with the lease autoscaling/hpa-controller handles only other autoscalers \
             (annotation of the lease)",
        ),
    ] {
        cluster.testbed.apply_all([lease]);
        let reason = format!("{off}, and {clause}");
        // The first letter of `start` is a capital in some of the outputs.
        let advice = format!("{start} acts on this autoscaler: {reason}. ");
        cluster.expect(&["shop/web would scale from 2 to 4: ", &advice]).await;
        let all = format!("{start} acts on 1 autoscaler (shop/web): {reason}");
        let output = cluster.explain(&["-A"]).await;
        assert!(
            output.get(1..).is_some_and(|rest| rest.starts_with(&format!("{all}. "))),
            "{output}"
        );
        let status = ["status", "-n", "shop"];
        let (output, ..) = cluster.hpa(&status).await;
        let line = output.lines().find(|line| line.ends_with(&all));
        assert!(line.is_some_and(|line| line.starts_with(symbol)), "{output}");
    }
    cluster.testbed.apply_all([lease_for(&["blog", "shop"], held())]);
    let output = cluster.explain(&["shop/web"]).await;
    assert!(output.starts_with("shop/web would scale from 2 to 4: "), "{output}");
    assert!(!output.contains("no controller acts"), "{output}");
}

#[tokio::test]
async fn unreadable_controller_url_is_reported_above_all_autoscalers() {
    let mut objects = controlled_by("hpa-controller:shop/hpa");
    objects.push(lease("shop", "hpa", Timestamp::now()));
    let cluster = Cluster::new(objects).await;
    let all = cluster.explain(&["-A", "--controller-url=http://127.0.0.1:1"]).await;
    let expected = "Whether the controller of --controller-url makes decisions is unknown: the \
                    debug API can't be reached: http://127.0.0.1:1: Connection refused.\n";
    assert!(all.starts_with(expected), "{all}");
}

#[tokio::test]
async fn several_controllers_are_reported_while_they_run() {
    let objects = |stored_at: Timestamp| {
        let mut objects = controlled_by("hpa-controller:shop/hpa");
        objects[AUTOSCALER]["metadata"]["managedFields"][0]["time"] =
            json!(format!("{stored_at:.0}"));
        let mut other = objects[AUTOSCALER].clone();
        other["metadata"]["name"] = json!("other");
        other["metadata"]["managedFields"][0]["manager"] = json!("kube-controller-manager");
        let now = Timestamp::now();
        let leases = [("shop", "hpa"), ("kube-system", "kube-controller-manager")];
        objects.push(other);
        objects.extend(leases.map(|(namespace, name)| lease(namespace, name, now)));
        objects
    };
    let past: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let cluster = Cluster::new(objects(past)).await;
    let all = cluster.explain(&["-A"]).await;
    assert!(!all.contains(" both act on "), "a status keeps its writer: {all}");
    let cluster = Cluster::new(objects(Timestamp::now())).await;
    let all = cluster.explain(&["-A"]).await;
    let expected = "hpa-controller:shop/hpa and kube-controller-manager both act on 2 autoscalers \
                    (shop/other, shop/web) and overwrite each other's decisions. hpa status says \
                    more.\n";
    assert!(all.starts_with(expected), "{all}");
    let cluster = Cluster::new(objects(past)).await;
    cluster.testbed.apply_all([lease("kube-system", "kube-controller-manager", past)]);
    let all = cluster.explain(&["-A"]).await;
    assert!(!all.contains(" both act on "), "it no longer writes: {all}");
    let (status, ..) = cluster.hpa(&["status"]).await;
    let line = status.lines().find(|line| line.contains("kube-controller-manager stored"));
    assert!(
        line.is_some_and(|line| line.ends_with("it holds no lease, so it no longer writes")),
        "{status}"
    );
}

/// Each of the two controllers has stored the status of one autoscaler.
#[tokio::test]
async fn pause_is_ignored_while_two_controllers_without_a_lease_act() {
    let set_writer = |hpa: &mut Value, manager: &str| {
        hpa["metadata"]["managedFields"][0]["manager"] = json!(manager);
        hpa["metadata"]["managedFields"][0]["time"] = json!(format!("{:.0}", Timestamp::now()));
    };
    for (first, second) in [
        ("hpa-controller", "kube-controller-manager"),
        ("kube-controller-manager", "hpa-controller"),
    ] {
        let mut all = controlled_by(first);
        set_writer(&mut all[AUTOSCALER], first);
        annotate(&mut all[AUTOSCALER], "pause", "true");
        let mut other = all[AUTOSCALER].clone();
        other["metadata"]["name"] = json!("other");
        other["spec"]["scaleTargetRef"]["name"] = json!("other");
        set_writer(&mut other, second);
        all.push(other);
        let cluster = Cluster::new(all).await;
        let both = "hpa-controller and kube-controller-manager both act on ";
        let ignores = "; hpa-rs would obey the pause; kube-controller-manager, which may act now, \
                       ignores the pause";
        let output = cluster.explain(&["shop/web"]).await;
        let line = output.lines().next().unwrap_or_default();
        assert!(line.contains(both) && line.contains(ignores), "{output}");
        assert!(!output.contains("is paused") && !output.contains("to let the"), "{output}");
        let all = cluster.explain(&["-A"]).await;
        let start = format!("{both}2 autoscalers (shop/other, shop/web)");
        assert!(all.starts_with(&start), "{all}");
        assert!(!all.contains("paused by annotation"), "{all}");
    }
}

#[tokio::test]
async fn settings_that_kube_controller_manager_ignores_are_named() {
    let mut all = controlled_by("kube-controller-manager");
    annotate(&mut all[AUTOSCALER], "sync-period", "30s");
    set_status(&mut all[AUTOSCALER], 2, &[["AbleToScale", "True", "ReadyForNewScale", ""]]);
    let cluster = Cluster::new(all).await;
    let text = "the setting sync-period has no effect: kube-controller-manager, which stored the \
                status last, ignores it";
    cluster
        .expect(&[&format!("unless hpa run is to handle the autoscaler: {text}; it has no lease.")])
        .await;
    let output = cluster.explain(&["-A"]).await;
    assert!(output.contains(&format!("; {text}\n")), "{output}");
}

/// hpa-rs was uninstalled, and kube-controller-manager has written no status since.
#[tokio::test]
async fn pause_has_no_effect_once_kube_controller_manager_has_replaced_hpa_rs() {
    let mut all = controlled_by("hpa-controller:shop/hpa");
    annotate(&mut all[AUTOSCALER], "pause", "true");
    let conditions = [
        ["AbleToScale", "True", "ReadyForNewScale", ""],
        ["Paused", "True", "PausedByAnnotation", ""],
    ];
    set_status(&mut all[AUTOSCALER], 2, &conditions);
    let now = Timestamp::now();
    let released = released_lease("shop", "hpa", now);
    all.extend([released, lease("kube-system", "kube-controller-manager", now)]);
    let cluster = Cluster::new(all).await;
    let status = async || cluster.hpa(&["status", "-n", "shop"]).await.0;

    // The flags of kube-controller-manager can't be read.
    let unknown = "hpa-rs would obey the pause; kube-controller-manager, which may act now, \
                   ignores the pause";
    cluster.expect(&[&format!("{unknown}; its lease is held by a_1, renewed ")]).await;
    let output = cluster.explain(&["shop/web"]).await;
    let first = output.lines().next().unwrap_or_default();
    let clause = "; no instance holds the lease shop/hpa, and whether kube-controller-manager ";
    assert!(first.contains(clause) && first.contains(&format!("; {unknown}")), "{output}");
    let output = cluster.explain(&["-A"]).await;
    assert!(output.contains(&format!("shop/web  {unknown}; ")), "{output}");
    let problem = "1 autoscaler with a pause that kube-controller-manager, which";
    let output = status().await;
    let maybe = "may act now, ignores and hpa-rs would obey: shop/web";
    assert!(output.contains(&format!("{problem} {maybe}")), "{output}");

    cluster.testbed.apply_all([built_in_pod(&[])]);
    let known = "kube-controller-manager, which acts now, ignores the pause";
    let first = "shop/web scales from 2 to 4: ";
    let leases = format!(": {known}; its lease is held by a_1, renewed ");
    let none = "s ago, and no instance holds the lease shop/hpa.";
    cluster.expect(&[first, &leases, none]).await;
    let output = cluster.explain(&["-A"]).await;
    assert!(output.contains(&format!("shop/web  {known}; ")), "{output}");
    let output = status().await;
    assert!(output.contains(&format!("{problem} acts now, ignores: shop/web")), "{output}");

    // The lease is held again, so both act.
    cluster.testbed.apply_all([lease("shop", "hpa", now)]);
    cluster.expect(&[&format!("{unknown}; its lease is held by a_1, renewed ")]).await;
    let output = cluster.explain(&["shop/web"]).await;
    let first = output.lines().next().unwrap_or_default();
    assert!(first.contains(&format!("; {unknown}")) && !first.contains("paused by"), "{first}");
    let output = status().await;
    assert!(output.contains(&format!("{problem} {maybe}")), "{output}");

    cluster.testbed.apply_all([built_in_pod(&[BUILT_IN_IS_OFF])]);
    let paused = "shop/web is paused by annotation since 2026-01-01T00:00:00Z and stays at 2: ";
    cluster.expect(&[paused]).await;
    let output = status().await;
    assert!(output.contains("1 autoscaler paused by annotation: shop/web"), "{output}");
}

/// kube-controller-manager before 1.36 scales a target from any zero if `minReplicas` is 0, and
/// has no condition `ScaledToZero`.
#[tokio::test]
async fn old_kube_controller_manager_scales_a_target_at_zero() {
    let objects = |active: [&str; 2]| {
        let mut all = controlled_by("kube-controller-manager");
        all.truncate(FIRST_POD);
        all[DEPLOYMENT] = objects::running_deployment("web", 0);
        all[AUTOSCALER]["spec"]["minReplicas"] = json!(0);
        all[AUTOSCALER]["spec"]["metrics"] = json!([objects::external_metric("queue", "10")]);
        let [status, reason] = active;
        set_status(&mut all[AUTOSCALER], 0, &[["ScalingActive", status, reason, ""]]);
        all
    };
    let cluster = Cluster::new(objects(["True", "ValidMetricFound"])).await;
    cluster.expect(&["shop/web scales from 0 to 4: queue is at 40, target "]).await;
    let cluster = Cluster::new(objects(["False", "ScalingDisabled"])).await;
    cluster.expect(&["shop/web stays at 0: autoscaling is off"]).await;
}

/// Serves the testbed with a `Date` that is ahead of this machine's clock. Returns the path of a
/// kubeconfig.
async fn serve_ahead(cluster: &Cluster, difference: SignedDuration) -> String {
    let client = cluster.testbed.client();
    let forward = move |request: Request| {
        let client = client.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.expect("a body");
            let request = http::Request::from_parts(head, body.to_vec().into());
            let mut response = client.send(request).await.expect("a response");
            let date = rfc2822::DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&(Timestamp::now() + difference));
            let date = date.expect("a date").parse().expect("a header");
            response.headers_mut().insert(http::header::DATE, date);
            response.map(axum::body::Body::new)
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let kubeconfig = Testbed::kubeconfig(listener.local_addr().expect("an address"));
    tokio::spawn(async { axum::serve(listener, Router::new().fallback(forward)).await });
    let path = cluster.served.dir.path().join("ahead");
    fs::write(&path, kubeconfig).expect("a kubeconfig file");
    path.display().to_string()
}

/// The clock of the lease's holder is 5 minutes ahead, so a scheduled minimum holds for it already,
/// and its newest event has a later time.
#[tokio::test]
async fn wrong_clock_of_the_lease_holder_decides_and_is_reported() {
    let now = Timestamp::now();
    let minutes = |minutes: i64| now + SignedDuration::from_mins(minutes);
    let time = |at: i64| minutes(at).strftime("%H:%M").to_string();
    let mut all = controlled_by("hpa-controller:shop/hpa");
    let bounds = json!([{ "start": time(3), "end": time(30), "minReplicas": 7 }]);
    annotate(&mut all[AUTOSCALER], "bounds", &bounds.to_string());
    set_status(&mut all[AUTOSCALER], 2, &[["ScalingActive", "True", "ValidMetricFound", ""]]);
    let mut lease = lease("shop", "hpa", minutes(5));
    lease["metadata"]["managedFields"] = json!([{
        "manager": "hpa", "operation": "Update", "apiVersion": "coordination.k8s.io/v1",
        "time": format!("{now:.0}"), "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:renewTime": {} } },
    }]);
    all.push(lease);
    all.push(overwritten_event(minutes(5)));
    let cluster = Cluster::new(all).await;
    let output = cluster.explain(&["shop/web"]).await;
    let first = output.lines().next().unwrap_or_default();
    let wrong = "controller misjudges times: its clock is 5m ahead of that of the API server";
    assert!(first.contains(" from 2 to 7: "), "{output}");
    assert!(first.ends_with(&format!("; the {wrong}")), "{output}");
    assert!(output.contains("Correct the clock of the controller's node: "), "{output}");
    let all = cluster.explain(&["-A"]).await;
    assert!(all.starts_with(&format!("The {wrong}.")), "{all}");
    let overwritten = "; another client has changed the replicas after at least 3 scalings";
    assert!(first.contains(overwritten) && all.contains(overwritten), "{output}\n{all}");
}

/// By the clock of this machine, both leases were renewed in the future, and the status is forged.
#[tokio::test]
async fn leases_and_statuses_are_judged_by_the_clock_of_the_api_server() {
    let difference = SignedDuration::from_mins(10);
    let seconds_ago = |seconds| Timestamp::now() + difference - SignedDuration::from_secs(seconds);
    let mut all = controlled_by("hpa-controller:kube-system/hpa-controller");
    all[AUTOSCALER]["metadata"]["managedFields"][0]["time"] =
        json!(format!("{:.0}", seconds_ago(90)));
    let mut expired = lease("kube-system", "hpa-controller", seconds_ago(80));
    expired["spec"]["leaseDurationSeconds"] = json!(15);
    all.extend([expired, lease("kube-system", "kube-controller-manager", seconds_ago(3))]);
    all.push(built_in_pod(&[BUILT_IN_IS_OFF]));
    let cluster = Cluster::new(all).await;
    let kubeconfig = serve_ahead(&cluster, difference).await;
    let arguments = ["explain", "shop/web", "--kubeconfig", &kubeconfig];
    let output = Command::new(env!("CARGO_BIN_EXE_hpa")).args(arguments).output().await;
    let output = String::from_utf8(output.expect("the program runs").stdout).expect("UTF-8");
    let expected = "no controller has renewed the lease kube-system/hpa-controller for 1m";
    assert!(output.contains(expected), "{output}");
    assert!(
        output.contains("No controller with a known lease acts on this autoscaler"),
        "{output}"
    );
}
