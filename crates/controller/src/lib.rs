//! A HorizontalPodAutoscaler controller: the I/O around the decisions of [`hpa_calc`].
//!
//! ```text
//!            API server ◄─────────────────────┐  metrics APIs
//!   list, watch │    scale PUT, status PATCH, │     │
//!               ▼    events                   │     │ metric values
//!          informers                          │     │
//!               │                             │     │
//!       ┌───────┴───────┐                     │     ▼
//!       ▼               ▼                     │
//!  work queue         caches ─────────────► Reconciler
//!       │                                       ▲
//!       └───────────► workers ──────────────────┘
//!
//!  Reconciler: read scale ─► plan ─► read metrics ─► decide ─► write scale ─► conclude
//!              ─► write status, events, history
//! ```
//!
//! If an autoscaler is created or its spec changes, the informer queues it at once. Autoscalers
//! that are new in a list (at the start, after a relist) are queued with initial delays,
//! distributed over the sync period. A worker that has reconciled an autoscaler requeues it for the
//! next sync period, or earlier. [`run`] starts informers and workers.
//!
//! # Modules
//!
//! A module imports only modules above it in this table, and in the last row also those left of it.
//!
//! | module | contents |
//! |---|---|
//! | `key`, [`settings`], `hash` | basic types |
//! | `instance_scope` | the autoscalers that an instance handles, on its lease |
//! | [`k8s`] | access to the API server: clients, limits, requests, decoding |
//! | [`scale_target`] | maps a target's kind to its resource, reads and writes its scale |
//! | [`forecast`] | the past load of each autoscaler, and its forecast |
//! | [`shadow`] | comparison with a peer controller |
//! | [`cache`] | autoscalers, pods, selectors and scales in memory |
//! | [`queue`] | the work queue, and initial delays |
//! | [`informer`] | lists and watches that fill the caches and the queue |
//! | `peer_check` | looks for a peer controller at the start |
//! | [`reconcile`] | one reconcile: read, decide, write the scale and the status |
//! | `forecast_checks` | daily background checks whether forecasts help |
//! | `history_store` | histories for the next leader |
//! | [`metrics`] | Prometheus metrics, and probes |
//! | [`debug`] | the data of the debug API, and its use in the reports of commands |
//! | `config`, `worker`, `dependencies`, `leader`, `controller` | wiring |
//!
//! [`hpa_lease`] decides which instance may write.

pub mod cache;
mod config;
mod controller;
pub mod debug;
mod dependencies;
pub mod forecast;
mod forecast_checks;
mod hash;
mod history_store;
pub mod informer;
mod instance_scope;
pub mod k8s;
mod key;
mod leader;
pub mod metrics;
mod peer_check;
pub mod queue;
pub mod reconcile;
pub mod scale_target;
pub mod settings;
pub mod shadow;
mod worker;

/// The entry points of the fuzz targets.
#[cfg(fuzzing)]
pub mod fuzzing {
    use hpa_testbed::decoder_tests::fuzz_input;

    use crate::{
        history_store::differential as history, informer::differential as informed_scales,
        k8s::differential as objects, scale_target::differential as target_scale,
    };

    /// Compares the decoding of pods and autoscalers with the tests' plain decoder.
    pub fn check_objects(data: &[u8]) {
        objects::check_pod(&fuzz_input(&objects::PODS, data));
        objects::check_hpa(&fuzz_input(&objects::HPAS, data));
    }

    /// Compares the decoding and derivation of scales with the tests' plain decoder.
    pub fn check_scales(data: &[u8]) {
        target_scale::check_scale(&fuzz_input(&target_scale::SCALES, data));
        informed_scales::check_workload(&fuzz_input(&informed_scales::WORKLOADS, data));
        informed_scales::check_custom(&fuzz_input(&informed_scales::CUSTOM, data));
        informed_scales::check_definition(&fuzz_input(&informed_scales::DEFINITIONS, data));
    }

    /// Compares the decoding of the history store's shards with the tests' plain decoder.
    pub fn check_history(data: &[u8]) {
        history::check_header(&fuzz_input(&history::HEADERS, data));
        history::check_snapshot(&fuzz_input(&history::SNAPSHOTS, data));
    }
}

pub use config::Options;
pub use controller::run;
pub use dependencies::{Dependencies, RunError};
pub use hpa_lease::{Clock, Instants, LeaderContext, LeaderTask, SystemClock, events};
pub use instance_scope::{INSTANCE_SCOPE, InstanceScope};
pub use key::{AutoscalerApi, HpaKey, Scope};
pub use leader::KEEPS_HISTORY;
pub use metrics::{BuildInfo, HealthError, Telemetry, TelemetryOptions};
pub use peer_check::{ActivePeer, PeerWindow};
pub use reconcile::{FinishedReconcile, Observer, ReconcileBeforeStatusWrite};
pub use worker::NextMetricChange;
