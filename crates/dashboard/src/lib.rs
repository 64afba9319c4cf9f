//! A local web page of the autoscalers of a cluster, with the reasons for their decisions.
//!
//! ```text
//! browser ── GET /, event streams ──► site ──► access: Host, token
//!                                      │
//!                 ┌────────────────────┴─────────────┐
//!                 ▼                                  ▼
//!            model::Board ◄── autoscalers         detail: watches pods and events, reads scale
//!            rows, changes,   lists, watches      and metrics, runs the engine
//!            values over time
//! ```
//!
//! It reads with the permissions of the user who started it, and writes nothing. A module imports
//! only modules before it in this list: `past`, `model`, `access`, `assets`, `follow`, `probe`,
//! `reporter`, `autoscalers`, `cluster`, `scales`, `detail`, `site`.

mod access;
mod assets;
mod autoscalers;
mod cluster;
mod detail;
mod follow;
mod model;
mod past;
mod probe;
mod reporter;
mod scales;
mod site;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::serve::ListenerExt;
use hpa_calc::{Settings, settings::SettingPolicy};
use hpa_controller::{AutoscalerApi, Clock, SystemClock, k8s::Clients};
use tokio::{
    net::TcpListener,
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval},
};

use crate::{
    access::Access, autoscalers::AutoscalerFeed, cluster::Cluster, model::Board, probe::Probe,
    site::Site,
};
pub use crate::{
    cluster::DecisionMetrics,
    past::{Overdue, Past, PastDecision, PastSample, PastSource, silence_limit},
    reporter::Reporter,
};

/// The shortest time between two calls of [`PastSource::silence`].
const MIN_SILENCE_INTERVAL: Duration = Duration::from_secs(5);

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
    /// Interval at which the metrics of a shown autoscaler are read.
    pub sync_period: Duration,
    /// The timeout of a request to the API server.
    pub request_timeout: Duration,
    /// The clock of the cluster. A simulated cluster has its own.
    pub clock: Arc<dyn Clock>,
    /// The source of past decisions, if there is one.
    pub past: Option<Arc<dyn PastSource>>,
    /// The source of metrics. `None` for the metrics APIs.
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
            past: None,
            metrics: None,
        }
    }
}

/// An error that prevents the start of the dashboard.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or may not be used.
    #[error("unable to listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// Updates the board's information about controllers that make no decisions.
async fn follow_silence(
    source: Arc<dyn PastSource>,
    board: Arc<Board>,
    sync_period: Duration,
    clock: Arc<dyn Clock>,
) {
    let limit = silence_limit(sync_period);
    let mut period = interval(sync_period.max(MIN_SILENCE_INTERVAL));
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        board.synced().await;
        board.up().await;
        let managers = board.managers();
        let silence = source.silence(&managers, limit).await;
        let overdue = match &silence {
            Some(_) => source.overdue(&managers, limit).await,
            None => Vec::new(),
        };
        board.set_silence(silence);
        board.set_overdue(overdue, clock.now());
    }
}

/// A running dashboard. It ends when dropped.
pub struct Dashboard {
    address: SocketAddr,
    token: String,
    launch_token: Option<String>,
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    tasks: JoinSet<()>,
}

impl Dashboard {
    /// Starts to watch the autoscalers and to serve the page. A cluster that doesn't answer is
    /// reported on the page.
    pub async fn start(clients: &Clients, options: Options) -> Result<Self, StartError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let error = |source| StartError::Listen { address, source };
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
            let feed = AutoscalerFeed {
                client: clients.api.clone(),
                api,
                namespace: options.namespace.clone(),
                fallback: clients.api.default_namespace().to_owned(),
                is_fallback: false,
                board: board.clone(),
                probe: probe.clone(),
                clock: options.clock.clone(),
            };
            tasks.spawn(feed.run());
        }
        if let Some(source) = options.past.clone() {
            let clock = options.clock.clone();
            tasks.spawn(follow_silence(source, board.clone(), options.sync_period, clock));
        }
        let title = options.title.clone();
        let cluster = Arc::new(Cluster::new(clients, options, probe));
        tasks.spawn(scales::follow(cluster.clone(), board.clone()));
        let access = Access::new(address.port());
        let (token, launch_token) = (access.token().to_owned(), access.launch_token());
        let site = Site::new(access, board.clone(), cluster, title);
        let router = site::router(Arc::new(site));
        // Without TCP_NODELAY, a response would wait for the ACK of its first segment.
        let listener = listener.tap_io(|connection| _ = connection.set_nodelay(true));
        tasks.spawn(async move { _ = axum::serve(listener, router).await });
        Ok(Self { address, token, launch_token, board, clock, tasks })
    }

    /// Reports what can't be read, for example on a terminal.
    pub fn reporter(&self) -> Reporter {
        Reporter::new(self.board.clone(), self.clock.clone())
    }

    /// The address of the page, for the user only: it contains the token.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// The address of the page, for a browser to open. It is valid once.
    pub fn launch_url(&self) -> String {
        let token = self.launch_token.as_ref().unwrap_or(&self.token);
        format!("http://{}/?token={token}", self.address)
    }

    /// Waits until the dashboard ends on its own, which only a panic causes.
    pub async fn ended(&mut self) -> Result<(), JoinError> {
        self.tasks.join_next().await.unwrap_or(Ok(()))
    }
}
