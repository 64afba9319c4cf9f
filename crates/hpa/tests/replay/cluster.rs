//! The simulated cluster of `examples/replay`, with the real controller, for an hour in virtual
//! time. Each scrape by Prometheus advances it by 15 seconds.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, SyncSender, TryRecvError},
    },
    thread,
    time::Duration,
};

use axum::{Router, http::StatusCode, routing::get};
use hpa_controller::{
    Dependencies, Options,
    k8s::{ClientLimits, Clients},
};
use hpa_testbed::{
    Testbed,
    clock::SimulatedClock,
    workload::{Simulation, scenario::Scenario},
};
use hpa_tests::harness::{ControllerClock, RunningController, controller_options};
use jiff::Timestamp;
use tokio::runtime::Runtime;

const SCENARIO: &str = include_str!("../../../../examples/replay/cluster.yaml");
const SCRAPE_SECONDS: f64 = 15.0;
const HOUR_SECONDS: f64 = 3600.0;

/// A cluster that Prometheus can scrape.
pub(crate) struct Cluster {
    runtime: Runtime,
    /// The address that Prometheus scrapes.
    pub(crate) address: SocketAddr,
    /// Receives the objects when the hour is over.
    completed: Receiver<Testbed>,
    /// Receives a signal when Prometheus has stored the last page.
    scraped: Receiver<()>,
}

impl Cluster {
    /// Starts a cluster whose hour begins at `start`.
    pub(crate) fn start(start: Timestamp) -> Self {
        let (pages_sender, pages) = mpsc::sync_channel(1);
        let (completed_sender, completed) = mpsc::sync_channel(1);
        thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
            let testbed = runtime.block_on(run_cluster(start, &pages_sender));
            completed_sender.send(testbed).expect("the test waits for it");
        });
        let runtime = Runtime::new().expect("a runtime");
        let (scraped_sender, scraped) = mpsc::sync_channel(1);
        let address = runtime.block_on(serve(pages, scraped_sender));
        Self { runtime, address, completed, scraped }
    }

    /// Waits until Prometheus has the whole hour, then serves the cluster's objects. Returns a
    /// kubeconfig.
    pub(crate) fn finish_and_serve(&self) -> String {
        self.scraped.recv().expect("Prometheus scrapes the cluster");
        let testbed = self.completed.recv().expect("the hour ends");
        let (address, handle) = self
            .runtime
            .block_on(testbed.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
            .expect("a port");
        // The server runs until the process ends.
        std::mem::forget(handle);
        Testbed::kubeconfig(address)
    }
}

/// Runs the cluster, at most one page ahead of Prometheus. While two pages wait for their scrapes,
/// virtual time stands still.
async fn run_cluster(start: Timestamp, pages: &SyncSender<String>) -> Testbed {
    let scenario = Scenario::parse(SCENARIO).expect("a scenario");
    let clock = SimulatedClock::new(start, 1.0);
    let simulation = Simulation::new(scenario, clock.clone());
    let testbed = Testbed::new(simulation.config());
    let running = simulation.start(&testbed).expect("the objects are valid");
    let limits = ClientLimits::default();
    let clients = Clients::from_service(testbed.service_named("hpa-rs"), &limits);
    let options = Options { sync_period: Duration::from_secs(15), ..controller_options() };
    let dependencies = Dependencies {
        clock: Arc::new(ControllerClock::new(clock.clone(), start)),
        ..Dependencies::new(clients, &options)
    };
    let controller = RunningController::start(dependencies, options);
    let mut scrape_at = 0.0;
    while scrape_at <= HOUR_SECONDS {
        simulation.wait_for(|state| state.second >= scrape_at).await;
        // As real scrapes do, these happen between the steps of the simulation.
        clock.sleep(0.5).await;
        pages.send(simulation.exposition(&testbed)).expect("Prometheus scrapes");
        scrape_at += SCRAPE_SECONDS;
    }
    controller.kill().await;
    drop(running);
    testbed
}

/// Serves a page for each scrape. Repeats the last page if there is no new one yet. After the hour,
/// responds with 410.
async fn serve(pages: Receiver<String>, scraped: SyncSender<()>) -> SocketAddr {
    let pages = Mutex::new((pages, String::new()));
    let page = move || {
        let (pages, last) = &mut *pages.lock().expect("not poisoned");
        match pages.try_recv() {
            Ok(page) => *last = page,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                // Prometheus has stored the last page before it asks for another one.
                let _ = scraped.try_send(());
                return (StatusCode::GONE, String::new());
            }
        }
        (StatusCode::OK, last.clone())
    };
    let page = Arc::new(page);
    let router = Router::new().route("/metrics", get(move || async move { page() }));
    hpa_tests::harness::serve(router).await
}
