//! The decision engine of a HorizontalPodAutoscaler controller: every decision, no I/O, no clock, no async.
//!
//! It decides as the controller of kube-controller-manager does, and says why. One reconcile is three calls, with
//! the caller's I/O between them:
//!
//! ```text
//!  autoscaler, scale ──► Plan::new ──► queries ──► (the metrics APIs)
//!                                                        │ readings
//!  history, now ─────────────────► Plan::decide ◄────────┘
//!                                       │ scale_to ──► (the scale subresource)
//!                                       ▼                     │ written, or why not
//!                              Decision::conclude ◄───────────┘
//!                                       │
//!                                       ▼
//!                   status, events, explanation, history for the next time
//! ```
//!
//! So another operator can embed it, and a reconcile can be replayed, simulated and tested without a cluster:
//!
//! ```
//! use hpa_calc::{
//!     api::{HorizontalPodAutoscaler, Pod, Scale},
//!     history::History,
//!     plan::{Plan, SelectedPods},
//!     readings::{PodSample, PodSamples, Reading},
//!     settings::Settings,
//! };
//! # use jiff::{SignedDuration, Timestamp};
//! # let hpa: HorizontalPodAutoscaler = serde_json::from_value(serde_json::json!({
//! #     "metadata": { "name": "web", "namespace": "shop" },
//! #     "spec": { "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
//! #         "minReplicas": 1, "maxReplicas": 10,
//! #         "metrics": [{ "type": "Resource", "resource": { "name": "memory",
//! #             "target": { "type": "AverageValue", "averageValue": "100Mi" } } }] } }))?;
//! # let pod: Pod = serde_json::from_value(serde_json::json!({
//! #     "metadata": { "name": "web-1" }, "status": { "phase": "Running" } }))?;
//! # let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let settings = Settings::default();
//! let scale = Scale { spec_replicas: 1, status_replicas: 1, selector: "app=web".into() };
//! let plan = Plan::new(&hpa, Ok(scale), &settings, |_selector| SelectedPods {
//!     pods: vec![pod.into()],
//!     autoscalers: vec!["shop/web".into()],
//! });
//! // Ask your metrics source for each of `plan.queries()`; here it is one metric of each pod, in milli-units.
//! let sample = PodSample { value: 300 * 1024 * 1024 * 1000, timestamp: now, window: SignedDuration::from_secs(30) };
//! let readings = vec![Some(Ok(Reading::Pods(PodSamples::from_iter([("web-1", sample)]))))];
//! let decision = plan.decide(readings, History::default(), now);
//! assert_eq!(decision.scale_to(), Some(3));
//! println!("{}", decision.explanation()); // 1 -> 3: memory resource above target; …
//! // Write the scale, then store the status and keep the history for the next time.
//! let conclusion = decision.conclude(Ok(()), now);
//! assert_eq!(conclusion.status.desired_replicas, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The single calculations ([`replicas`]), API [`defaults`] and [`validation`], [`quantity`] and [`selector`] can be
//! used alone.

pub mod api;
mod combine;
pub mod conclude;
pub mod decide;
pub mod defaults;
pub mod event;
pub mod explain;
mod go_text;
pub mod history;
mod messages;
mod metric;
mod names;
mod normalize;
pub mod pause;
pub mod plan;
pub mod pods;
mod policies;
pub mod quantity;
pub mod readings;
pub mod replicas;
pub mod selector;
pub mod settings;
mod status;
pub mod validation;
