//! `hpa explain` in the situations that users ask about most, beside this controller and beside
//! kube-controller-manager. The controller's status must agree with each explanation.

mod limits;
mod metrics;
mod pods;
mod targets;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use serde_json::Value;

use super::targets::define_kind;
use crate::metrics::Load;
use crate::test_env::{Hpa, Target, TestEnv, has_replicas};
use crate::workload::Kind;

/// The field managers of the controllers.
pub(super) const REFERENCE: &str = "kube-controller-manager";
pub(super) const CONTROLLER: &str = "hpa-controller";
/// A kind without a workload controller.
const UNMANAGED_KIND: Kind = Kind::new("explain.hpa-rs.test", "v1", "Gizmo", "gizmos");
/// Another one, because both scenarios share a control plane.
const UNMANAGED_KIND_BESIDE_REFERENCE: Kind =
    Kind::new("explain.hpa-rs.test", "v1", "Gadget", "gadgets");
/// The number of situations that are set up concurrently.
const CONCURRENCY: usize = 8;

/// The place of a situation: an autoscaler, and a target of the same name.
struct Site {
    env: TestEnv,
    name: String,
    /// The kind of targets that have no workload controller.
    unmanaged_kind: Kind,
    /// [`CONTROLLER`] or [`REFERENCE`].
    controller: &'static str,
}

/// The expectations for a site.
struct Expected {
    site: Site,
    /// A condition that the controller reports: type, status and reason.
    condition: [&'static str; 3],
    /// Parts of the explanation.
    texts: Vec<String>,
}

impl Site {
    fn expect(self, condition: [&'static str; 3], texts: &[&str]) -> Expected {
        let texts = texts.iter().map(|text| text.replace("NAME", &self.name)).collect();
        Expected { site: self, condition, texts }
    }

    async fn create_deployment(&self, replicas: i32) -> Result<Target> {
        self.env.create_deployment(&self.name, replicas).await
    }

    /// Sets the CPU usage of each pod, in percent of its request.
    fn set_cpu(&self, percent: i64) {
        self.env.set_cpu(&self.name, Load::PerPod(percent));
    }

    /// Waits until the controller has reported these replicas.
    async fn wait_for_reported_replicas(&self, replicas: i32) -> Result<()> {
        let has_replicas = |hpa: &Hpa| has_replicas(hpa, replicas);
        self.env.wait_for_hpa(&self.name, "the replicas in the status", has_replicas).await?;
        Ok(())
    }

    async fn create_hpa(&self, spec: Value) -> Result<()> {
        self.env.create_hpa(&self.name, spec).await.map(drop)
    }
}

type SetUp = fn(Site) -> BoxFuture<'static, Result<Expected>>;
/// A situation: its name and its setup.
type Situation = (&'static str, SetUp);

macro_rules! situations {
    ($($module:ident => $name:ident,)*) => {
        &[$((stringify!($name), |site| $module::$name(site).boxed()),)*]
    };
}

const SITUATIONS: &[Situation] = situations![
    limits => within_tolerance,
    limits => at_max_replicas,
    limits => at_min_replicas,
    limits => scale_up_disabled,
    limits => held_by_policy,
    limits => held_by_stabilization,
    limits => paused,
    limits => scaled_to_zero,
    pods => pending_pods,
    pods => starting_pods,
    pods => unready_pods,
    pods => request_missing,
    pods => foreign_pods,
    pods => surplus_pods,
    targets => disabled_at_zero,
    targets => target_missing,
    targets => kind_unknown,
    targets => selector_missing,
    targets => target_shared,
    metrics => one_metric_missing,
    metrics => metrics_api_down,
    metrics => no_samples,
    metrics => container_unknown,
];

pub(super) async fn explain_beside_this_controller(env: TestEnv) -> Result<()> {
    explain_all(&env, UNMANAGED_KIND, CONTROLLER).await
}

pub(super) async fn explain_beside_the_reference(env: TestEnv) -> Result<()> {
    let Some(_reference) = env.plane.start_reference()? else {
        return Ok(());
    };
    explain_all(&env, UNMANAGED_KIND_BESIDE_REFERENCE, REFERENCE).await
}

async fn explain_all(env: &TestEnv, unmanaged_kind: Kind, controller: &'static str) -> Result<()> {
    define_kind(env, unmanaged_kind, &["v1"]).await?;
    let tries = SITUATIONS.iter().map(|(name, set_up)| {
        let site =
            Site { env: env.clone(), name: name.replace('_', "-"), unmanaged_kind, controller };
        try_situation(site, *set_up)
    });
    let tries: Vec<_> = tries.collect();
    let results: Vec<Result<()>> =
        stream::iter(tries).buffer_unordered(CONCURRENCY).collect().await;
    let failures: Vec<String> =
        results.into_iter().filter_map(|result| Some(format!("{:#}", result.err()?))).collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

async fn try_situation(site: Site, set_up: SetUp) -> Result<()> {
    let name = site.name.clone();
    let explained = async { explain(&set_up(site).await.context("set up")?).await };
    explained.await.map_err(|error| anyhow!("{name}: {error:#}"))
}

/// Waits for the controller's decision, and compares the explanation with it.
async fn explain(expected: &Expected) -> Result<()> {
    let Expected { site, condition, texts } = expected;
    let Site { env, name, .. } = site;
    let [kind, status, reason] = *condition;
    let hpa = env.wait_for_condition(name, kind, status, reason).await?;
    let text = env.explain(name, &[]).await?;
    for part in texts.iter().map(String::as_str).chain([reason]) {
        ensure!(text.contains(part), "no {part:?} in:\n{text}");
    }
    check_next_step(&text)?;
    let report: Value = serde_json::from_str(&env.explain(name, &["--output=json"]).await?)?;
    check_agreement(&report, &hpa).with_context(|| text)?;
    let manager = &report["controller"]["name"];
    ensure!(manager == site.controller, "the status is of {manager}");
    Ok(())
}

/// The explanation must have a next step, or a change that would affect the decision.
fn check_next_step(text: &str) -> Result<()> {
    let sections = ["\nWhat to do\n  ", "\nWhat would change it"];
    ensure!(sections.iter().any(|section| text.contains(section)), "no next step in:\n{text}");
    Ok(())
}

/// The controller doesn't scale in these situations. The explanation must agree, or must say that
/// it doesn't know past recommendations and scalings.
fn check_agreement(report: &Value, hpa: &Hpa) -> Result<()> {
    // A zero is omitted.
    let current = hpa.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
    let explained = &report["currentReplicas"];
    if report["reason"] != "failed" {
        ensure!(explained == current, "explained {explained} replicas, the status has {current}");
    }
    let Some(to) = report["scaleTo"].as_i64() else { return Ok(()) };
    let advice = report["advice"].to_string();
    if !advice.contains("past recommendations and scalings are not known here") {
        bail!("the controller stays at {current}, the explanation scales to {to}");
    }
    Ok(())
}
