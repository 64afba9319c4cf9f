//! Starts and stops the controller, in simulated time.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use hpa_calc::settings::{SettingPolicy, Settings};
use hpa_controller::{
    Clock, Dependencies, HpaKey, Instants, Observer, Options, RunError, Telemetry,
    debug::{DebugView, DecisionRecorder},
    forecast::{ForecastSource, PastLoads},
    k8s::Clients,
};
use hpa_dashboard::{ControllerRecords, RecordSource};
use hpa_testbed::clock::SimulatedClock;
use jiff::Timestamp;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

/// The sync period in simulated seconds.
const SYNC_PERIOD: f64 = 15.0;
/// The shortest sync period in real time.
const MIN_SYNC_PERIOD: Duration = Duration::from_millis(20);
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
const WORKERS: usize = 5;

/// Simulated time. It has no clock steps, so wall-clock and monotonic time advance together.
pub(super) struct DemoClock {
    clock: SimulatedClock,
    pub(super) start: Timestamp,
}

impl DemoClock {
    /// A clock whose monotonic time starts now.
    pub(super) fn new(clock: SimulatedClock) -> Self {
        let start = clock.now();
        Self { clock, start }
    }

    /// Simulated seconds since the start.
    pub(super) fn second(&self) -> f64 {
        self.instants().monotonic.as_secs_f64()
    }
}

impl Clock for DemoClock {
    fn instants(&self) -> Instants {
        let wall = self.clock.now();
        let monotonic = Duration::try_from(wall.duration_since(self.start)).unwrap_or_default();
        Instants { wall, monotonic }
    }
}

/// The inputs for starting a controller of the demo.
pub(super) struct ControllerSetup {
    pub(super) clients: Clients,
    pub(super) clock: Arc<DemoClock>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) telemetry: Arc<Telemetry>,
    /// The loads before the start.
    pub(super) past_loads: Arc<dyn PastLoads>,
}

/// A running controller.
pub(crate) struct Controller {
    task: JoinHandle<Result<(), RunError>>,
    shutdown: CancellationToken,
}

impl ControllerSetup {
    /// The documents of the debug API.
    pub(super) fn debug_view(&self, recorder: Arc<DecisionRecorder>) -> DebugView {
        DebugView {
            telemetry: self.telemetry.clone(),
            recorder,
            clock: self.clock.clone(),
            sync_period: Duration::from_secs_f64(SYNC_PERIOD),
            decision_settings: settings(),
            dry_run: false,
            keep_history: false,
            refused_rules_file: Box::new(|| None),
        }
    }

    /// Starts a controller. `speed` is simulated seconds per real second.
    pub(super) fn start(&self, speed: f64) -> Controller {
        let options = options(speed);
        let past = Some(self.past_loads.clone());
        let dependencies = Dependencies {
            clock: self.clock.clone(),
            forecasts: ForecastSource { past, ..ForecastSource::default() },
            observer: self.observer.clone(),
            ..Dependencies::with_telemetry(
                self.clients.clone(),
                &options,
                self.telemetry.clone(),
                false,
                None,
            )
        };
        let shutdown = CancellationToken::new();
        let run = hpa_controller::run(dependencies, options, shutdown.clone());
        Controller { task: tokio::spawn(run), shutdown }
    }
}

impl Controller {
    /// Waits until the controller exits on its own, which is always an error.
    pub(crate) async fn wait_for_exit(&mut self) -> Result<Result<(), RunError>, JoinError> {
        (&mut self.task).await
    }

    /// Shuts the controller down, within its grace period.
    pub(super) async fn stop(&mut self) {
        self.shutdown.cancel();
        if !self.task.is_finished() {
            let _ = (&mut self.task).await;
        }
    }
}

/// The records of the demo's controller, for the dashboard: from the documents of the debug API,
/// without a request.
pub(super) struct DemoRecordSource(pub(super) Arc<DebugView>);

#[async_trait]
impl RecordSource for DemoRecordSource {
    async fn records(
        &self,
        autoscaler: &HpaKey,
        _: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<ControllerRecords, String> {
        let Some(detail) = self.0.autoscaler(autoscaler, None) else {
            return Ok(ControllerRecords::default());
        };
        let mut records = ControllerRecords::from(detail);
        records.samples.retain(|sample| after.is_none_or(|after| sample.at > after));
        Ok(records)
    }
}

/// The sync period in real time.
pub(super) fn sync_period(speed: f64) -> Duration {
    Duration::from_secs_f64(SYNC_PERIOD / speed).max(MIN_SYNC_PERIOD)
}

/// The settings of the demo's controller.
pub(super) fn settings() -> Settings {
    Settings::default().with(|settings| settings.strict_scale_to_zero = true)
}

fn options(speed: f64) -> Options {
    Options {
        settings: settings(),
        setting_policy: SettingPolicy::default(),
        sync_period: sync_period(speed),
        workers: WORKERS,
        namespaces: Vec::new(),
        shutdown_grace: SHUTDOWN_GRACE,
        request_timeout: REQUEST_TIMEOUT,
        allows_active_peer: false,
        watch_scales: true,
        status_interval: Duration::ZERO,
    }
}
