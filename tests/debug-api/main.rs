//! The debug API of two instances behind a real kube-apiserver. `hpa explain` and `hpa status` read
//! the leader's debug API through the pod proxy, before and after a leader change. If they can't,
//! they report the reason. Without kube-apiserver, or without an address other than loopback, the
//! test is reported as skipped.

#![allow(clippy::indexing_slicing, reason = "a missing field is null")]

use std::net::{IpAddr, UdpSocket};

use anyhow::{Context, Result, ensure};
use hpa_tests::{kube_apiserver::assets, programs};
use serde_json::Value;

mod cluster;

use cluster::{Cluster, LEASE, READER_RULES};

#[tokio::test(flavor = "multi_thread")]
async fn debug_api_of_the_leader_is_read_through_the_api_server() -> Result<()> {
    let Some(assets) = assets::find_or_skip() else { return Ok(()) };
    let Some(address) = find_address() else {
        programs::skip("address", "kube-apiserver's proxy refuses loopback, and there is no other");
        return Ok(());
    };
    let mut cluster = Cluster::start(assets, address).await?;
    cluster.start_instances().await?;
    let leader = cluster.wait_for_leader(None).await?;
    check_rights(&cluster).await?;
    check_documents(&cluster, &leader).await?;
    check_tokens(&cluster, &leader).await?;

    cluster.kill(&leader).await?;
    let successor = cluster.wait_for_leader(Some(&leader)).await?;
    ensure!(successor != leader, "{successor} is still the leader");
    check_documents(&cluster, &successor).await?;

    cluster.remove_port(&successor).await?;
    let text = cluster.explain().await?;
    let off = format!("the debug API is off: pod scaling/{successor} has no port \"debug\"");
    ensure!(text.contains(&off), "{text}");
    Ok(())
}

/// The report names the first missing right, and is otherwise complete.
async fn check_rights(cluster: &Cluster) -> Result<()> {
    let missing = [
        "not permitted to get the lease scaling/hpa-controller: ",
        "not permitted to get the pod scaling/hpa-",
        "not permitted to create a token for the ServiceAccount scaling/hpa-controller-debug: ",
        "not permitted to read pod scaling/hpa-",
    ];
    for (granted_count, missing) in missing.into_iter().enumerate() {
        cluster.grant(READER_RULES.get(..granted_count).unwrap_or_default()).await?;
        let text = cluster.explain().await?;
        let consequence = match granted_count {
            0 => "Whether a controller is active is not known, and its past decisions are missing",
            _ => "The controller's past decisions are missing",
        };
        let expected = format!("{consequence}: {missing}");
        ensure!(text.contains(&expected), "{expected:?} is not in:\n{text}");
        ensure!(text.starts_with("shop/web stays at 3: cpu cannot be read"), "{text}");
    }
    cluster.grant(&READER_RULES).await
}

/// Checks the history of the autoscaler and the state of the leader.
async fn check_documents(cluster: &Cluster, leader: &str) -> Result<()> {
    let text = cluster.explain().await?;
    ensure!(text.contains("Earlier decisions (times are UTC)"), "{text}");
    ensure!(text.contains("stays at 3 ("), "{text}");
    ensure!(!text.contains("are missing"), "{text}");
    let is_first = text.contains("scales from 1 to 3: Current number of replicas below");
    let is_successor = text.contains("are not recorded");
    ensure!(is_first || is_successor, "{text}");

    let (output, is_success) = cluster.run_hpa(&["status", "-o", "json"]).await?;
    ensure!(!is_success, "an autoscaler fails: {output}");
    let report: Value = serde_json::from_str(&output).with_context(|| output.clone())?;
    let checks = report["sections"].as_array().into_iter().flatten();
    let checks: Vec<&Value> =
        checks.filter_map(|section| section["checks"].as_array()).flatten().collect();
    let level = |text: &str| {
        let check = checks
            .iter()
            .find(|check| check["text"].as_str().is_some_and(|found| found.contains(text)));
        check.and_then(|check| check["level"].as_str()).unwrap_or("no such check").to_owned()
    };
    for (text, expected) in [
        (&*format!("lease scaling/hpa-controller is held by {leader}"), "ok"),
        (&*format!("pod scaling/{leader} is ready"), "ok"),
        (" answers", "ok"),
        ("the leader reconciles", "ok"),
        ("queue: ", "ok"),
        ("caches confirmed: ", "ok"),
        ("histories are stored", "ok"),
        ("metrics.k8s.io is not installed, but needed by shop/web", "error"),
        ("1 of 1 autoscaler can't scale", "error"),
        ("FailedGetResourceMetric: 1 autoscaler (shop/web)", "error"),
    ] {
        ensure!(level(text) == expected, "{text:?} is {}:\n{output}", level(text));
    }
    Ok(())
}

/// Each header accepts only tokens of its audience: `authorization` those for the API server,
/// `hpa-debug-authorization` those for the debug API. The API server rejects debug tokens. A valid
/// token of a user without the right gets 403.
async fn check_tokens(cluster: &Cluster, leader: &str) -> Result<()> {
    let debug_token = cluster.create_token(LEASE, Some("debug.hpa-rs.dev")).await?;
    let api_token = cluster.create_token(LEASE, None).await?;
    let user_token = cluster.create_user_token().await?;
    let header = "hpa-debug-authorization";
    let rows = [
        ("no token", None, 401),
        ("debug token", Some((header, debug_token.as_str())), 200),
        ("the account's token for the API server", Some(("authorization", &api_token)), 200),
        ("debug token for the API server", Some(("authorization", &debug_token)), 401),
        ("token for the API server as debug token", Some((header, &api_token)), 401),
        ("a user without the right", Some(("authorization", &user_token)), 403),
        ("a user's token as debug token", Some((header, &user_token)), 401),
        ("an invalid token", Some(("authorization", "x")), 401),
    ];
    for (case, token, expected) in rows {
        let status = cluster.get_directly(leader, "/debug/v1/status", token).await?;
        ensure!(status == expected, "{case}: {status} instead of {expected}");
    }
    let refused = cluster.get_from_api_server(&debug_token).await?;
    ensure!(refused == 401, "kube-apiserver answers {refused} to a debug token");
    Ok(())
}

/// An address of this machine that is not loopback. No packet is sent.
fn find_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
