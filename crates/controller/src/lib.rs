//! A HorizontalPodAutoscaler controller: the I/O around the decisions of [`hpa_calc`].
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
//! # Modules
//!
//! A module imports only modules above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | [`key`], [`scope`], [`clock`], [`annotations`], `hash`, [`trace`] | basic types |
//! | [`k8s`] | access to the API server: clients, limits, requests, decoding |
//! | [`scale_target`] | kinds to resources, and their scales |
//! | [`cache`] | autoscalers, pods, selectors and scales in memory |
//! | [`queue`] | which autoscaler to reconcile when |
//! | [`informer`] | lists and watches that fill the caches and the queue |
//! | [`events`] | Kubernetes events |
//! | [`shadow`] | comparison with a peer controller |
//! | [`reconcile`] | one reconcile: read, decide, write |
//! | [`leader_election`] | which instance may write |
//! | [`history_store`] | histories for the next leader |
//! | [`metrics`], [`health`] | Prometheus metrics and probes |
//! | [`controller`] | wiring |

#![allow(missing_docs, reason = "not a library for others: names say what they are")]

pub mod annotations;
pub mod cache;
pub mod clock;
pub mod controller;
pub mod events;
mod hash;
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
