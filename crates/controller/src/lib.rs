//! The imperative shell of a HorizontalPodAutoscaler controller: all the I/O around the decisions of [`hpa_calc`].
//!
//! ```text
//!  watches ──► caches: autoscalers, pods (by namespace and label), selectors
//!     │ new, changed                    │
//!     ▼                                 ▼
//!  WorkQueue ──► worker ──► Reconciler::reconcile
//!     ▲                        │  scale GET ─► Plan::new ─► metrics ─► decide ─► scale PUT ─► conclude
//!     └── again in a period ───┘                                                    │
//!                                                       status patch, events ◄──────┘
//! ```
//!
//! [`run::run`] wires it. Each part stands alone: [`queue`], [`pods`], [`selectors`], [`targets`], [`events`],
//! [`client`]. Of several instances the one that [`leader`] elects writes; it [`keep`]s the histories for the next.
//! [`clock`] tells it the time, and an [`observer`] is told of every reconcile; [`telemetry`] is the one that makes
//! Prometheus metrics of it.

pub mod annotations;
mod answered;
pub mod api;
pub mod autoscalers;
pub mod client;
pub mod clock;
pub mod events;
mod feed;
pub mod keep;
pub mod leader;
pub mod observer;
pub mod pods;
pub mod queue;
pub mod reconcile;
pub mod run;
pub mod scales;
pub mod selectors;
pub mod shadow;
pub mod spread;
mod status;
pub mod targets;
pub mod telemetry;
pub mod trace;
pub mod watch;
pub mod watched;
