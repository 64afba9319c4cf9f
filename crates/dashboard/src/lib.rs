//! A local web page that lists the autoscalers of a cluster and explains their decisions.
//!
//! ```text
//! browser ── GET /, event streams ──► site ──► access: Host, token
//!                                      │
//!                 ┌────────────────────┴─────────────┐
//!                 ▼                                  ▼
//!            model::Board ◄── autoscalers:        detail: watches pods and events, reads scale
//!            rows, changes,   lists, watches      and metrics, runs the engine
//!            values over time
//! ```
//!
//! The dashboard reads with the permissions of the user who started it, and writes nothing to the
//! cluster. A module imports only modules before it in this list: `json`, `past`, `model`,
//! `access`, `assets`, `informer`, `probe`, `reporter`, `autoscalers`, `cluster`, `scales`,
//! `detail`, `server`, `site`.

mod access;
mod assets;
mod autoscalers;
mod cluster;
mod detail;
mod informer;
mod json;
mod model;
mod past;
mod probe;
mod reporter;
mod scales;
mod server;
mod site;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hpa_calc::{Settings, settings::SettingPolicy};
use hpa_controller::{AutoscalerApi, Clock, SystemClock, k8s::Clients};
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval},
};

use crate::{
    access::Access, autoscalers::AutoscalerWatcher, cluster::Cluster, model::Board, probe::Probe,
    site::Site,
};
pub use crate::{
    cluster::DecisionMetrics,
    past::{
        AutoscalerStatusWriter, ControllerActivity, ControllerRecords, IdleAutoscaler,
        PastDecision, RecordSource, UnstoredStatus, WrongClock, inactivity_limit,
    },
    reporter::Reporter,
};

/// The shortest time between two calls of [`RecordSource::activity`].
const MIN_ACTIVITY_INTERVAL: Duration = Duration::from_secs(5);

/// Options of a dashboard.
#[derive(Clone)]
pub struct Options {
    /// The port on 127.0.0.1. 0 is any free port.
    pub port: u16,
    /// The name of the cluster, as the page shows it.
    pub title: String,
    /// The only namespace to show. `None` for all.
    pub namespace: Option<String>,
    /// The controller's settings, on which decisions depend.
    pub settings: Settings,
    /// The settings that autoscalers may override.
    pub setting_policy: SettingPolicy,
    /// The controller's sync period. While a page shows an autoscaler, its metrics are read at this
    /// interval, but at most once per second, and also after each change.
    pub sync_period: Duration,
    /// The timeout of a request to the API server.
    pub request_timeout: Duration,
    /// The clock of the cluster. A simulated cluster has a clock of its own.
    pub clock: Arc<dyn Clock>,
    /// The source of the controller's records. `None` if they can't be read.
    pub records: Option<Arc<dyn RecordSource>>,
    /// The source of metrics for decisions. `None` for the metrics APIs.
    pub metrics: Option<Arc<dyn DecisionMetrics>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            title: String::new(),
            namespace: None,
            settings: Settings::default(),
            setting_policy: SettingPolicy::default(),
            sync_period: Duration::from_secs(15),
            request_timeout: Duration::from_secs(10),
            clock: Arc::new(SystemClock::default()),
            records: None,
            metrics: None,
        }
    }
}

/// The dashboard can't start: the port is in use, or the user may not listen on it.
#[derive(Debug, thiserror::Error)]
#[error("unable to listen on {address}")]
pub struct StartError {
    address: SocketAddr,
    source: io::Error,
}

/// At intervals, asks the source which controllers make no decisions, and which have replaced
/// another one. Updates the board.
async fn poll_activity(
    source: Arc<dyn RecordSource>,
    board: Arc<Board>,
    sync_period: Duration,
    clock: Arc<dyn Clock>,
) {
    let limit = inactivity_limit(sync_period);
    let mut period = interval(sync_period.max(MIN_ACTIVITY_INTERVAL));
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        board.wait_until_read().await;
        board.wait_until_up().await;
        let writers = board.status_writers();
        let activity = source.activity(&writers, limit).await;
        board.set_activity(activity, clock.now());
    }
}

/// A running dashboard. Dropping it closes the port and all connections, and stops the watches of
/// the list.
pub struct Dashboard {
    address: SocketAddr,
    token: String,
    launch_token: Option<String>,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    tasks: JoinSet<()>,
}

impl Dashboard {
    /// Starts to watch the autoscalers and to serve the page. Doesn't wait for the API server: the
    /// page reports if it doesn't answer.
    pub async fn start(clients: &Clients, options: Options) -> Result<Self, StartError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let error = |source| StartError { address, source };
        let listener = TcpListener::bind(address).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        let board = Arc::new(Board::new(
            &AutoscalerApi::ALL,
            options.settings.clone(),
            options.setting_policy.clone(),
        ));
        let mut tasks = JoinSet::new();
        let clock = options.clock.clone();
        let probe = Arc::new(Probe::new(
            clients,
            options.namespace.clone(),
            options.request_timeout,
            board.clone(),
            clock.clone(),
        ));
        tasks.spawn(probe.clone().run(options.sync_period));
        for api in AutoscalerApi::ALL {
            let watcher = AutoscalerWatcher {
                client: clients.api.clone(),
                api,
                namespace: options.namespace.clone(),
                uses_fallback: false,
                board: board.clone(),
                probe: probe.clone(),
                clock: clock.clone(),
            };
            tasks.spawn(watcher.run());
        }
        if let Some(source) = options.records.clone() {
            board.expect_activity();
            let activity = poll_activity(source, board.clone(), options.sync_period, clock.clone());
            tasks.spawn(activity);
        }
        let cluster = Arc::new(Cluster::new(clients, options, probe));
        tasks.spawn(scales::keep_up_to_date(cluster.clone(), board.clone()));
        let access = Access::new(address.port());
        let (token, launch_token) = (access.token().to_owned(), access.launch_token());
        let site = Site::new(access, board.clone(), cluster);
        let router = site::router(Arc::new(site));
        tasks.spawn(server::serve(listener, router));
        Ok(Self { address, token, launch_token, board, clock, tasks })
    }

    /// Returns a reporter of what can't be read, for a terminal.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.board.clone(), self.clock.clone())
    }

    /// The address of the page. Only the user may see it, because it contains the token.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// The address to start a browser with. It is valid once, because other users of the machine
    /// can see the browser's arguments.
    pub fn launch_url(&self) -> String {
        let token = self.launch_token.as_ref().unwrap_or(&self.token);
        format!("http://{}/?token={token}", self.address)
    }

    /// Waits until a task of the dashboard ends. Only a panic ends one.
    pub async fn ended(&mut self) -> Result<(), JoinError> {
        self.tasks.join_next().await.unwrap_or(Ok(()))
    }
}
