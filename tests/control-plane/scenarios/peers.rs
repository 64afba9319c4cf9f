//! A second controller on the same autoscalers: kube-controller-manager, or status writes in its
//! name if it is not installed.

use std::time::Duration;

use anyhow::{Result, ensure};
use hpa_tests::kube_apiserver::Process;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::cpu_metric;
use super::explain::{CONTROLLER, REFERENCE};
use crate::metrics::Load;
use crate::test_env::{Hpa, TestEnv, WAIT_LIMIT, has_utilization};

/// Longer than the peer's period of one second: the peer decides first.
const LONG_PERIOD: &str = "--horizontal-pod-autoscaler-sync-period=10s";

/// kube-controller-manager, or simulated status writes.
struct Peer {
    /// `None` if it is not installed.
    reference: Option<Process>,
}

impl Peer {
    fn start(env: &TestEnv) -> Result<Self> {
        let reference = env.plane.start_reference()?;
        if reference.is_none() {
            println!("  {}: without a peer, its status writes are simulated", env.ns);
        }
        Ok(Self { reference })
    }

    /// Changes the load of `web` to this percentage of its requests, and waits until the peer has
    /// written the percentage to the status.
    async fn write_status(&self, env: &TestEnv, percent: i64) -> Result<()> {
        env.set_cpu("web", Load::PerPod(percent));
        if self.reference.is_none() {
            let current = json!({ "averageUtilization": percent, "averageValue": "1" });
            let metric =
                json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } });
            let status = json!({ "status": {
                "currentReplicas": 2, "desiredReplicas": 2, "currentMetrics": [metric],
            } });
            let manager = Some(REFERENCE.to_owned());
            let params = PatchParams { field_manager: manager, ..PatchParams::default() };
            env.hpas().patch_status("web", &params, &Patch::Merge(status)).await?;
        }
        env.wait_for_hpa("web", "the peer's status", |hpa| has_utilization(hpa, percent)).await?;
        Ok(())
    }
}

/// Whether the controller under test has written to the autoscaler.
fn is_written_by_controller(hpa: &Hpa) -> bool {
    let mut entries = hpa.metadata.managed_fields.iter().flatten();
    entries.any(|entry| entry.manager.as_deref() == Some(CONTROLLER))
}

/// The controller doesn't start beside an active peer without `--allow-other-controller`.
pub(super) async fn start_is_refused_beside_an_active_peer(env: TestEnv) -> Result<()> {
    let peer = Peer::start(&env)?;
    let web = env.create_deployment("web", 2).await?;
    env.create_hpa("web", web.hpa_spec(2, 2, cpu_metric(50))).await?;
    peer.write_status(&env, 40).await?;

    let mut refused = env.start_controller("refused", &[LONG_PERIOD])?;
    let status = refused.wait(WAIT_LIMIT).await?;
    let log = || refused.tail(30, "");
    ensure!(status.code() == Some(1), "{status}\n{}", log());
    let error = refused.tail(1, "not started, because");
    let sentence = format!("{REFERENCE} wrote the status of autoscaler {}/web ", env.ns);
    let advice = "(two sync periods of the controller or of an autoscaler, at least 30s, since ";
    for part in [sentence.as_str(), advice, "--allow-other-controller"] {
        ensure!(error.contains(part), "no {part:?} in {error:?}\n{}", log());
    }
    let hpa = env.hpas().get("web").await?;
    ensure!(!is_written_by_controller(&hpa), "it wrote the status: {:?}", hpa.metadata);

    // The peer's status must be recent when the next controller starts.
    peer.write_status(&env, 45).await?;
    let mut allowed =
        env.start_controller("allowed", &[LONG_PERIOD, "--allow-other-controller"])?;
    env.set_cpu("web", Load::PerPod(30));
    env.wait_for_hpa("web", "a status of this controller", |hpa| {
        is_written_by_controller(hpa) || has_utilization(hpa, 30)
    })
    .await?;
    let status = allowed.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "{status}\n{}", allowed.tail(20, ""));
    let warning = allowed.tail(1, "another controller is active: ");
    ensure!(warning.contains(&sentence), "{warning:?}\n{}", allowed.tail(20, ""));
    Ok(())
}

/// A peer that becomes active while the controller runs is reported in an event and a log line.
pub(super) async fn peer_is_reported_while_running(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(40));
    env.create_hpa("web", web.hpa_spec(2, 2, cpu_metric(50))).await?;
    let controller = env.start_controller("running", &[LONG_PERIOD])?;
    env.wait_for_hpa("web", "a first status", |hpa| has_utilization(hpa, 40)).await?;
    let peer = Peer::start(&env)?;
    let event = env.wait_for_event("web", "ConflictingController", REFERENCE);
    let peer_writes = async {
        // This controller may write some of these values first.
        for percent in [30, 31, 32, 33, 34, 35, 36, 37, 38, 39] {
            peer.write_status(&env, percent).await?;
        }
        std::future::pending::<Result<()>>().await
    };
    let event = tokio::select! {
        event = event => event?,
        failed = peer_writes => return failed,
    };
    ensure!(event.count == Some(1), "{:?} events", event.count);
    let line = controller.tail(1, "another controller also writes the status");
    ensure!(line.contains(REFERENCE), "{line:?}\n{}", controller.tail(20, ""));
    Ok(())
}

/// If the peer stopped before the comparison, the report is inconclusive.
pub(super) async fn shadow_report_is_inconclusive_beside_a_stopped_peer(
    env: TestEnv,
) -> Result<()> {
    let mut peer = env.start_controller("peer", &[])?;
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 2).await?;
    peer.terminate(Duration::from_secs(15)).await?;

    let mut shadow = env.start_shadow_report("shadow", "9s", &[])?;
    let status = shadow.wait(WAIT_LIMIT).await?;
    let log = || shadow.tail(40, "");
    ensure!(status.code() == Some(2), "{status}\n{}", log());
    let line = shadow.tail(1, "wrote no status during the comparison, the last one ");
    let peer = format!("The peer ({CONTROLLER})");
    ensure!(line.contains(&peer), "{line:?}\n{}", log());
    let error = shadow.tail(1, "no difference could be found: --for is too short: the peer wrote");
    ensure!(!error.is_empty(), "{}", log());
    Ok(())
}

/// Differences are inconclusive before a stabilization window has passed.
pub(super) async fn shadow_report_is_inconclusive_if_too_short(env: TestEnv) -> Result<()> {
    let window = "--horizontal-pod-autoscaler-downscale-stabilization=5m";
    let _peer = env.start_controller("peer", &[window])?;
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    env.wait_until_settled("web", 2).await?;

    let mut shadow = env.start_shadow_report("shadow", "10s", &[window])?;
    for percent in [51, 52, 53, 51, 52, 53] {
        env.set_cpu("web", Load::PerPod(percent));
        env.wait_for_hpa("web", "the changed load", |hpa| has_utilization(hpa, percent)).await?;
    }
    let status = shadow.wait(WAIT_LIMIT).await?;
    let log = || shadow.tail(60, "");
    ensure!(status.code() == Some(2), "{status}\n{}", log());
    let warning = shadow.tail(1, "--for 10s may be too short");
    ensure!(warning.contains("Use at least --for 306s"), "{warning:?}\n{}", log());
    let line = shadow.tail(1, "1 autoscaler could not show a difference");
    ensure!(line.contains("(up to 5m)"), "{line:?}\n{}", log());
    let error = shadow.tail(1, "no difference could be found: --for is shorter");
    ensure!(!error.is_empty(), "{}", log());
    Ok(())
}
