//! The process: how soon it acts, how it starts again, how it ends, what it refuses.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use super::cpu;
use crate::metrics::Load;
use crate::world::{World, at, is};

/// Generous: what is measured is far below, a period far above.
const AT_ONCE: Duration = Duration::from_secs(5);

/// New and changed specifications do not wait for the period.
pub(super) async fn immediate(w: World) -> Result<()> {
    let _controller = w.controller("slow", &["--horizontal-pod-autoscaler-sync-period=60s"])?;
    let warm = w.deployment("warm", 1).await?;
    w.cpu("warm", Load::PerPod(50));
    w.hpa("warm", warm.hpa(1, 5, cpu(50))).await?;
    w.settled("warm", 1).await?;

    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::PerPod(50));
    let start = Instant::now();
    w.hpa("web", web.hpa(1, 5, cpu(50))).await?;
    w.settled("web", 2).await?;
    let created = start.elapsed();

    let start = Instant::now();
    w.patch_hpa("web", json!({"spec": {"minReplicas": 3}})).await?;
    web.at(3).await?;
    let changed = start.elapsed();
    w.hpa_until("web", "the status of the change", |hpa| {
        is(hpa, "AbleToScale", "True", "SucceededRescale")
    })
    .await?;

    let start = Instant::now();
    w.delete_hpa("web").await?;
    w.hpa("web", web.hpa(4, 5, cpu(50))).await?;
    web.at(4).await?;
    let recreated = start.elapsed();

    let ms = |time: Duration| time.as_millis();
    println!(
        "  immediate: new {} ms, changed {} ms, made again {} ms",
        ms(created),
        ms(changed),
        ms(recreated)
    );
    for (what, time) in [("new", created), ("changed", changed), ("made again", recreated)] {
        ensure!(time < AT_ONCE, "{what}: {time:?}");
    }
    Ok(())
}

/// SIGTERM ends it soon and well, in the middle of work too; the next one goes on from what is stored.
pub(super) async fn restart(w: World) -> Result<()> {
    let worker = w.deployment("worker", 1).await?;
    w.metrics.set_external(&w.ns, "jobs", &[("", "0")]);
    w.hpa("worker", worker.hpa(0, 10, super::external("jobs", "10"))).await?;
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::Total(100));
    w.hpa("web", web.hpa(1, 10, cpu(50))).await?;

    // These autoscalers are older than their controller.
    let mut first = w.controller("first", &[])?;
    w.settled("web", 2).await?;
    worker.at(0).await?;
    w.hpa_until("worker", "its zero", |hpa| is(hpa, "ScaledToZero", "True", "ScaledToZero"))
        .await?;
    let start = Instant::now();
    let status = first.terminate(Duration::from_secs(10)).await?;
    println!("  restart: ended {} ms after SIGTERM", start.elapsed().as_millis());
    ensure!(status.success(), "SIGTERM: {status}\n{}", first.tail(10, ""));

    // While nobody looks.
    w.metrics.set_external(&w.ns, "jobs", &[("", "20")]);
    w.cpu("web", Load::Total(200));
    let mut second = w.controller("second", &["--concurrent-horizontal-pod-autoscaler-syncs=1"])?;
    worker.at(2).await?;
    web.at(4).await?;
    w.hpa_until("web", "the new size in the status", |hpa| at(hpa, 4)).await?;
    let status = second.terminate(Duration::from_secs(10)).await?;
    ensure!(status.success(), "SIGTERM: {status}\n{}", second.tail(10, ""));
    Ok(())
}

/// A bad flag is refused by name before anything else happens.
pub(super) async fn refused_flags(w: World) -> Result<()> {
    let kubeconfig = w.plane.controller_kubeconfig().display().to_string();
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
        let mut command = Command::new(&w.binary);
        command
            .args(["run", "--kubeconfig", &kubeconfig, &format!("{flag}={value}")])
            .kill_on_drop(true);
        let output = timeout(Duration::from_secs(10), command.output())
            .await
            .with_context(|| format!("{flag}={value} was accepted"))??;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{flag}={value}: {}", output.status);
        ensure!(text.contains(flag), "{flag}={value}: its name is not in {text:?}");
    }
    let mut command = Command::new(&w.binary);
    command.args(["run", "--kubeconfig", "/does/not/exist"]).kill_on_drop(true);
    let output = timeout(Duration::from_secs(10), command.output())
        .await
        .context("a kubeconfig that is not there")??;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.status.success() && text.contains("/does/not/exist"),
        "{}: {text}",
        output.status
    );
    Ok(())
}
