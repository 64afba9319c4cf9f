//! A HorizontalPodAutoscaler controller: the I/O around the decisions of [`hpa_calc`].
//!
//! ```text
//!            API server                          metrics APIs
//!   list, watch │  ▲ scale PUT, status PATCH,        │
//!               ▼  │ events, lease, histories        │ metric queries
//!          informers                                 │
//!               │                                    │
//!       ┌───────┴───────┐                            │
//!       ▼               ▼                            ▼
//!  work queue ──────► caches ─────────────────► Reconciler
//!       │                                            ▲
//!       └───────────► workers ───────────────────────┘
//!
//!  Reconciler: read scale ─► plan ─► read metrics ─► decide ─► write scale ─► conclude
//!              ─► write status, events, history
//! ```
//!
//! If an autoscaler is created or its spec changes, the informer queues it at once. It queues the
//! new autoscalers of a list with initial delays. A worker that has reconciled an autoscaler
//! requeues it for the next sync period, or earlier. [`run`] starts informers and workers.
//!
//! # Modules
//!
//! A module imports only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `key`, [`settings`], `hash` | basic types |
//! | [`k8s`] | access to the API server: clients, limits, requests, decoding |
//! | [`scale_target`] | maps a target's kind to its resource, reads and writes its scale |
//! | [`forecast`] | loads of autoscalers, and their forecasts |
//! | [`cache`] | autoscalers, pods, selectors and scales in memory |
//! | [`queue`] | the work queue, and initial delays |
//! | [`informer`] | lists and watches that fill the caches and the queue |
//! | [`shadow`] | comparison with a peer controller |
//! | `peer_check` | looks for a peer controller at the start |
//! | [`reconcile`] | one reconcile: read, decide, write the scale and the status |
//! | `forecast_checks` | daily background checks whether forecasts help |
//! | `history_store` | histories for the next leader |
//! | `health` | probes |
//! | [`metrics`] | Prometheus metrics |
//! | [`debug`] | the data of the debug API |
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
mod health;
mod history_store;
pub mod informer;
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
        history_store::differential as history, informer::differential as scales,
        k8s::differential as objects, scale_target::differential as scale,
    };

    /// Compares the decoding of pods and autoscalers with the tests' plain decoder.
    pub fn check_objects(data: &[u8]) {
        objects::check_pod(&fuzz_input(&objects::PODS, data));
        objects::check_hpa(&fuzz_input(&objects::HPAS, data));
    }

    /// Compares the decoding and derivation of scales with the tests' plain decoder.
    pub fn check_scales(data: &[u8]) {
        scale::check_scale(&fuzz_input(&scale::SCALES, data));
        scales::check_workload(&fuzz_input(&scales::WORKLOADS, data));
        scales::check_custom(&fuzz_input(&scales::CUSTOM, data));
        scales::check_definition(&fuzz_input(&scales::DEFINITIONS, data));
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
pub use health::HealthError;
pub use hpa_lease::{Clock, Instants, LeaderContext, LeaderTask, SystemClock, events};
pub use key::{AutoscalerApi, HpaKey, Scope};
pub use metrics::{BuildInfo, Telemetry, TelemetryOptions};
pub use peer_check::{ActivePeer, PeerWindow};
pub use reconcile::{ConcludedReconcile, FinishedReconcile, Observer};
pub use worker::KnownMetricChanges;
