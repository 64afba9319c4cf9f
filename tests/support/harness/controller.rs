//! Runs the controller as a task.

use std::time::Duration;

use hpa_calc::settings::{SettingPolicy, Settings};
use hpa_controller::{Dependencies, Options, RunError, k8s::Clients, run};
use hpa_lease::{Election, ElectionConfig};
use kube::Client;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// Timeout of waits for the controller's exit, longer than the grace period of a shutdown.
const EXIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A controller that runs as a task of the test.
#[derive(Debug)]
pub struct RunningController {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl RunningController {
    pub fn start(dependencies: Dependencies, options: Options) -> Self {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(dependencies, options, shutdown.clone()));
        Self { shutdown, task }
    }

    /// Stops the controller, like SIGTERM. The shutdown must be orderly.
    pub async fn stop(self) {
        self.terminate().await.expect("an orderly shutdown");
    }

    /// Stops the controller, like SIGTERM, and returns its result.
    ///
    /// # Errors
    /// If the controller failed before or during the shutdown.
    pub async fn terminate(self) -> Result<(), RunError> {
        self.shutdown.cancel();
        self.wait_for_exit().await
    }

    /// Aborts the controller at once, like SIGKILL.
    pub async fn kill(self) {
        self.task.abort();
        _ = self.task.await;
    }

    /// Waits until the controller exits on its own.
    pub async fn wait_for_exit(self) -> Result<(), RunError> {
        timeout(EXIT_TIMEOUT, self.task).await.expect("the controller exits").expect("no panic")
    }

    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

/// Options with two workers, short deadlines, and no minimum interval between status writes. The
/// other values are the flags' defaults.
pub fn controller_options() -> Options {
    Options {
        settings: Settings::default(),
        setting_policy: SettingPolicy::default(),
        sync_period: Duration::from_secs(15),
        workers: 2,
        namespaces: Vec::new(),
        shutdown_grace: Duration::from_secs(10),
        request_timeout: Duration::from_secs(10),
        allows_active_peer: false,
        watch_scales: true,
        status_interval: Duration::ZERO,
    }
}

/// Clients without the limits of [`Clients::from_service`].
pub fn clients(client: Client) -> Clients {
    let server = String::new();
    Clients { api: client.clone(), metrics: client, server, uses_service_account: false }
}

/// Leader election with the default durations.
pub fn election(client: Client, namespace: &str, identity: &str) -> Election {
    let config = ElectionConfig {
        namespace: namespace.into(),
        name: "hpa-controller".into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    Election { client, config }
}
