//! The process: latency, restart, shutdown, invalid flags.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::cpu_metric;
use crate::metrics::Load;
use crate::test_env::{TestEnv, has_replicas};

/// Far above the expected latency, far below the sync period.
const MAX_LATENCY: Duration = Duration::from_secs(5);

pub(super) async fn spec_changes_are_reconciled_immediately(env: TestEnv) -> Result<()> {
    let _controller =
        env.start_controller("slow", &["--horizontal-pod-autoscaler-sync-period=60s"])?;
    let warm = env.create_deployment("warm", 1).await?;
    env.set_cpu("warm", Load::PerPod(50));
    env.create_hpa("warm", warm.hpa_spec(1, 5, cpu_metric(50))).await?;
    env.wait_until_settled("warm", 1).await?;

    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(50));
    let start = Instant::now();
    env.create_hpa("web", web.hpa_spec(1, 5, cpu_metric(50))).await?;
    env.wait_until_settled("web", 2).await?;
    let created = start.elapsed();

    let start = Instant::now();
    env.patch_hpa("web", json!({"spec": {"minReplicas": 3}})).await?;
    web.wait_for_replicas(3).await?;
    let changed = start.elapsed();
    env.wait_for_condition("web", "AbleToScale", "True", "SucceededRescale").await?;

    let start = Instant::now();
    env.delete_hpa("web").await?;
    env.create_hpa("web", web.hpa_spec(4, 5, cpu_metric(50))).await?;
    web.wait_for_replicas(4).await?;
    let recreated = start.elapsed();

    let ms = |time: Duration| time.as_millis();
    println!(
        "  latency: new {} ms, changed {} ms, recreated {} ms",
        ms(created),
        ms(changed),
        ms(recreated)
    );
    for (case, time) in [("new", created), ("changed", changed), ("recreated", recreated)] {
        ensure!(time < MAX_LATENCY, "{case}: {time:?}");
    }
    Ok(())
}

/// A busy controller shuts down cleanly on SIGTERM, and the next one continues from the stored
/// state.
pub(super) async fn successor_continues_after_sigterm(env: TestEnv) -> Result<()> {
    let worker = env.create_deployment("worker", 1).await?;
    env.metrics.set_external(&env.ns, "jobs", &[("", "0")]);
    env.create_hpa("worker", worker.hpa_spec(0, 10, super::external_metric("jobs", "10"))).await?;
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;

    // The autoscalers are older than the controller.
    let mut first = env.start_controller("first", &[])?;
    env.wait_until_settled("web", 2).await?;
    worker.wait_for_replicas(0).await?;
    env.wait_for_condition("worker", "ScaledToZero", "True", "ScaledToZero").await?;
    let start = Instant::now();
    let status = first.terminate(Duration::from_secs(10)).await?;
    println!("  shutdown: {} ms after SIGTERM", start.elapsed().as_millis());
    ensure!(status.success(), "SIGTERM: {status}\n{}", first.tail(10, ""));

    // No controller is running.
    env.metrics.set_external(&env.ns, "jobs", &[("", "20")]);
    env.set_cpu("web", Load::Total(200));
    let mut second =
        env.start_controller("second", &["--concurrent-horizontal-pod-autoscaler-syncs=1"])?;
    worker.wait_for_replicas(2).await?;
    web.wait_for_replicas(4).await?;
    env.wait_for_hpa("web", "the new size in the status", |hpa| has_replicas(hpa, 4)).await?;
    let status = second.terminate(Duration::from_secs(10)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", second.tail(10, ""));
    Ok(())
}

/// The error names the flag or the file.
pub(super) async fn invalid_flags_are_rejected(env: TestEnv) -> Result<()> {
    let kubeconfig = env.plane.controller_kubeconfig().display().to_string();
    for (flag, value) in [
        ("--concurrent-horizontal-pod-autoscaler-syncs", "0"),
        ("--concurrent-horizontal-pod-autoscaler-syncs", "many"),
        ("--horizontal-pod-autoscaler-sync-period", "soon"),
        ("--horizontal-pod-autoscaler-sync-period", "15"),
        ("--horizontal-pod-autoscaler-downscale-stabilization", "-1x"),
        ("--horizontal-pod-autoscaler-tolerance", "some"),
        ("--horizontal-pod-autoscaler-cpu-initialization-period", ""),
        ("--horizontal-pod-autoscaler-initial-readiness-delay", "1d"),
        ("--horizontal-pod-autoscaler-no-such-flag", "1"),
    ] {
        let assignment = format!("{flag}={value}");
        let text = error_of_run(&env, &["--kubeconfig", &kubeconfig, &assignment]).await?;
        ensure!(text.contains(flag), "{assignment}: not named in {text:?}");
    }
    let text = error_of_run(&env, &["--kubeconfig", "/does/not/exist"]).await?;
    ensure!(text.contains("/does/not/exist"), "{text}");
    Ok(())
}

/// The standard error of `hpa run`, which must fail at once.
async fn error_of_run(env: &TestEnv, flags: &[&str]) -> Result<String> {
    let mut command = Command::new(&env.binary);
    command.arg("run").args(flags).kill_on_drop(true);
    let output = timeout(Duration::from_secs(10), command.output()).await;
    let output = output.with_context(|| format!("{flags:?} were accepted"))??;
    ensure!(!output.status.success(), "{flags:?}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}
