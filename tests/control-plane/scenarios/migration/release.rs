//! Replaces the kubelet: runs a controller with the arguments and service account of the release's
//! Deployment.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use hpa_tests::kube_apiserver::Process;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::test_env::TestEnv;

/// The namespace and name of the release in the guide.
pub(super) const NAMESPACE: &str = "autoscaling";
pub(super) const NAME: &str = "hpa-controller";
/// The flags that are replaced, because there is no pod with a service account and its own port.
const REPLACED_FLAGS: [&str; 2] = ["--in-cluster", "--metrics-port"];
const ADDED_FLAGS: [&str; 4] = [
    "--metrics-port=0",
    "--leader-elect-resource-namespace=autoscaling",
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=2s",
];
const GRACE_PERIOD: Duration = Duration::from_secs(15);
const LONGER_THAN_THE_TEST: Duration = Duration::from_hours(1);

/// A running release.
pub(super) struct Release {
    stop: CancellationToken,
    process: AbortOnDropHandle<Result<()>>,
}

impl Release {
    /// Starts the controller of the Deployment that helm has created.
    pub(super) async fn start(env: &TestEnv, deployments: &Api<Deployment>) -> Result<Self> {
        let kubeconfig = env.plane.account_kubeconfig(NAMESPACE, NAME).await?;
        let mut arguments = arguments(&deployments.get(NAME).await?)?;
        arguments.extend(ADDED_FLAGS.map(str::to_owned));
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let stop = CancellationToken::new();
        let process = tokio::spawn(run(env.clone(), arguments, stop.clone()));
        Ok(Self { stop, process: AbortOnDropHandle::new(process) })
    }

    /// Terminates the controller and waits for its exit.
    pub(super) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.process.await?
    }
}

/// The arguments of the first container that don't depend on a pod.
fn arguments(deployment: &Deployment) -> Result<Vec<String>> {
    let pod = deployment.spec.template.spec.as_ref();
    let container = pod.and_then(|pod| pod.containers.first()).context("no container")?;
    let arguments = container.args.iter().flatten();
    let kept = arguments.filter(|argument| {
        !REPLACED_FLAGS.contains(&argument.split('=').next().unwrap_or_default())
    });
    Ok(kept.cloned().collect())
}

/// Runs the controller until `stop` is cancelled, and restarts it whenever it exits.
async fn run(env: TestEnv, arguments: Vec<String>, stop: CancellationToken) -> Result<()> {
    loop {
        let mut command = Command::new(&env.binary);
        command.args(&arguments);
        let mut process = Process::start(env.plane.dir(), NAME, command)?;
        tokio::select! {
            () = stop.cancelled() => {
                let status = process.terminate(GRACE_PERIOD).await?;
                ensure!(status.success(), "{status}\n{}", process.tail(10, ""));
                return Ok(());
            }
            _ = process.wait(LONGER_THAN_THE_TEST) => {}
        }
    }
}
