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
pub mod cache;
pub mod clock;
pub mod controller;
pub mod events;
pub mod health;
pub mod history_store;
pub mod informer;
pub mod k8s;
pub mod key;
pub mod leader_election;
pub mod metrics;
pub mod queue;
pub mod reconcile;
pub mod scale_target;
pub mod scope;
pub mod shadow;
pub mod trace;
