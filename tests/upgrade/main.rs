//! A rolling upgrade from the previous release, and back: this version reads the state that the
//! release stored, and stores state of the same form.
//!
//! `stored/VERSION.json` has the objects of a [`cluster::Cluster`] in which a version ran until the
//! load had dropped and the leader was killed. `just stored-state` records them at a release: it
//! runs the ignored test.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed step fails the test"
)]

mod cluster;
mod stored;

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

use crate::{
    cluster::{
        Cluster, KILL_TIME, LEASE_DURATION, LOAD_DROP_TIME, POLICY_PERIOD, STABILIZATION_WINDOW,
        SYNC_PERIOD,
    },
    stored::{History, collect_shape},
};

fn stored_directory() -> PathBuf {
    hpa_tests::repository_path("tests/upgrade/stored")
}

/// Runs the scenario until the leader is killed, and returns the stored objects.
async fn stored_by_this_version() -> Vec<Value> {
    let cluster = Cluster::new();
    cluster.create_objects().await;
    let leader = cluster.start_controller("old");
    cluster.run_until_killed(leader).await;
    cluster.stored().await
}

/// The stored objects of each recorded release, with its version. The newest release is last.
fn releases() -> Vec<(String, Vec<Value>)> {
    let mut releases: Vec<(String, Vec<Value>)> = fs::read_dir(stored_directory())
        .expect("a directory")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let version = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a file");
            (version, serde_json::from_str(&text).expect("objects"))
        })
        .collect();
    let numbers = |version: &str| -> Vec<u64> {
        version.split('.').map(|number| number.parse().expect("a number")).collect()
    };
    releases.sort_by_cached_key(|(version, _)| numbers(version));
    assert!(!releases.is_empty(), "no release is recorded");
    releases
}

#[tokio::test(start_paused = true)]
#[ignore = "writes a file of the repository"]
async fn record_stored_state() {
    let stored = stored_by_this_version().await;
    let text = serde_json::to_string_pretty(&stored).expect("JSON") + "\n";
    let name = format!("{}.json", env!("CARGO_PKG_VERSION"));
    fs::write(stored_directory().join(name), text).expect("a file");
}

/// The successor scales at the time when the previous leader would have.
#[tokio::test(start_paused = true)]
async fn recommendations_and_scalings_of_the_previous_release_are_used() {
    for (version, stored) in releases() {
        let cluster = Cluster::restored(&stored).await;
        let _new = cluster.start_controller("new");
        for name in ["web", "own"] {
            let scaled = cluster.wait_for_scaling_from(name, 10).await;
            let expected = LOAD_DROP_TIME + STABILIZATION_WINDOW - SYNC_PERIOD
                ..=LOAD_DROP_TIME + STABILIZATION_WINDOW + SYNC_PERIOD + 1;
            assert!(expected.contains(&scaled), "{version}: {name} scaled at {scaled}");
        }
        // The policy allows one pod a period. The first pod was removed before the upgrade.
        let second = cluster.wait_for_scaling_from("limited", 9).await;
        let expected =
            LOAD_DROP_TIME + POLICY_PERIOD..=LOAD_DROP_TIME + POLICY_PERIOD + 2 * SYNC_PERIOD;
        assert!(expected.contains(&second), "{version}: limited scaled at {second}");
        assert_eq!(cluster.replicas("limited"), 8, "{version}");
        assert_eq!(cluster.replicas("paused"), 3, "{version}");
        let paused = cluster.hpa("paused").await;
        let conditions = &paused["status"]["conditions"];
        let conditions = conditions.as_array().expect("conditions");
        assert!(conditions.iter().any(|one| one["type"] == "Paused" && one["status"] == "True"));
    }
}

/// The lease is taken over after its duration, as between instances of one version.
#[tokio::test(start_paused = true)]
async fn lease_of_the_previous_release_is_taken_over() {
    for (version, stored) in releases() {
        let cluster = Cluster::restored(&stored).await;
        let before = cluster.lease().await;
        let _new = cluster.start_controller("new");
        cluster.wait_until(KILL_TIME + LEASE_DURATION + SYNC_PERIOD).await;
        let lease = cluster.lease().await;
        let holder = lease["spec"]["holderIdentity"].as_str().expect("a holder");
        assert!(holder.starts_with("new"), "{version}: {lease}");
        let transitions = |lease: &Value| lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
        assert_eq!(transitions(&lease), transitions(&before) + 1, "{version}");
    }
}

/// The state of this version has at least the fields of the previous release's state, with their
/// types. The previous release can therefore read it.
#[tokio::test(start_paused = true)]
async fn stored_state_can_be_read_by_the_previous_release() {
    let current = stored_by_this_version().await;
    let (version, previous) = releases().pop().expect("a release");
    let shapes = |objects: &[Value]| -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for object in objects {
            let kind = object["kind"].as_str().expect("a kind");
            collect_shape(kind, object, &mut paths);
        }
        paths
    };
    let (old, new) = (shapes(&previous), shapes(&current));
    let missing: Vec<_> = old.difference(&new).collect();
    assert!(missing.is_empty(), "fields of {version} are no longer stored: {missing:#?}");
    assert_eq!(
        History::by_autoscaler(&current),
        History::by_autoscaler(&previous),
        "the same run, so the same history"
    );
}

/// After a downgrade, the previous release must find its histories.
#[tokio::test(start_paused = true)]
async fn this_version_keeps_the_histories_of_the_previous_release() {
    let (_, previous) = releases().pop().expect("a release");
    let cluster = Cluster::restored(&previous).await;
    let new = cluster.start_controller("new");
    cluster.wait_until(KILL_TIME + LEASE_DURATION + 5 * SYNC_PERIOD).await;
    new.kill().await;
    let stored = cluster.stored().await;
    let before = History::by_autoscaler(&previous);
    let after = History::by_autoscaler(&stored);
    for (name, history) in &before {
        let kept = after.get(name).unwrap_or_else(|| panic!("{name} has no history: {after:?}"));
        assert!(kept.preserves(history), "{name}: {history:?} became {kept:?}");
    }
    assert_eq!(after.len(), before.len());
}
