//! The decision engine of a HorizontalPodAutoscaler controller: every decision, without I/O, clock
//! or async runtime.
//!
//! With the default settings, it decides like the controller in kube-controller-manager ("the
//! reference"), and it explains every decision. Use it to embed horizontal autoscaling in an
//! operator, or to replay, simulate and test decisions without a cluster. One reconcile is three
//! calls, with the caller's I/O in between:
//!
//! ```text
//!  autoscaler, scale ──► Plan::new ──► queries ──► (metrics APIs)
//!                                                       │ readings
//!  history, now ────────────────► Plan::decide ◄────────┘
//!                                      │ scale_to ──► (scale subresource)
//!                                      ▼                     │ written, or an error
//!                             Decision::conclude ◄───────────┘
//!                                      │
//!                                      ▼
//!                 status, events, explanation, history for the next reconcile
//! ```
//!
//! ```
//! use hpa_calc::{
//!     History, HorizontalPodAutoscaler, Plan, Pod, PodSample, PodSamples, Reading, Scale,
//!     SelectedPods, Settings,
//! };
//! # use jiff::{SignedDuration, Timestamp};
//! # let hpa: HorizontalPodAutoscaler = serde_json::from_value(serde_json::json!({
//! #     "metadata": { "name": "web", "namespace": "shop" },
//! #     "spec": {
//! #         "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
//! #         "minReplicas": 1, "maxReplicas": 10,
//! #         "metrics": [{ "type": "Resource", "resource": { "name": "memory",
//! #             "target": { "type": "AverageValue", "averageValue": "100Mi" } } }] } }))?;
//! # let pod: Pod = serde_json::from_value(serde_json::json!({
//! #     "metadata": { "name": "web-1" }, "status": { "phase": "Running" } }))?;
//! # let now: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let settings = Settings::default();
//! let scale = Scale { spec_replicas: 1, status_replicas: 1, selector: "app=web".into() };
//! let plan = Plan::new(&hpa, Ok(scale), &settings, |_selector| SelectedPods::new([pod]));
//!
//! // Read `plan.queries()` from a metrics source. Here, it is the memory of each pod.
//! let window = SignedDuration::from_secs(30);
//! let sample = PodSample { value: "300Mi".parse()?, timestamp: now, window };
//! let samples = PodSamples::from_iter([("web-1", sample)]);
//! let readings = plan.readings_by_name([("memory", Ok(Reading::Pods(samples)))]);
//!
//! let decision = plan.decide(readings, History::default(), now);
//! assert_eq!(decision.scale_to(), Some(3));
//! println!("{}", decision.explanation()); // 1 -> 3; *memory resource …
//!
//! // Write the scale, then store the status, and keep the history for the next reconcile.
//! let conclusion = decision.conclude(Ok(()), now);
//! assert_eq!(conclusion.status.desired_replicas, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Some modules are useful on their own: [`replicas`] calculates the proposal of one metric,
//! [`defaults`] and [`validation`] do what the API server does with a spec, and [`quantity`] and
//! [`selector`] parse.
//!
//! # Stability
//!
//! Enums that a later version may extend, and the settings, are `#[non_exhaustive]`.
//! [`MetricQuery`] and [`Reading`] are not: a metrics source has to handle every query, so adding
//! one is deliberately a breaking change.

#![warn(missing_docs)]

pub mod api;
pub mod behavior;
mod combine;
pub mod conclude;
#[cfg(feature = "schema")]
pub mod crd;
pub mod decide;
mod decision;
pub mod defaults;
pub mod event;
pub mod explain;
mod fallback;
mod forecast;
pub mod go_duration;
pub mod go_text;
pub mod history;
mod messages;
mod metric;
mod names;
mod normalize;
mod ownership;
pub mod pause;
pub mod plan;
pub mod pods;
pub mod quantity;
pub mod readings;
pub mod replicas;
pub mod report;
pub mod selector;
pub mod settings;
pub mod shell;
mod status;
pub mod suggestions;
mod time;
pub mod validation;
mod zero;

pub use api::{HorizontalPodAutoscaler, Pod, Scale};
pub use behavior::EffectiveBehavior;
pub use conclude::{Conclusion, ScaleWriteError};
pub use decide::{Decision, ReconcileError};
pub use event::Event;
pub use explain::Explanation;
pub use history::History;
pub use pause::Pause;
pub use plan::{Plan, ScaleReadError, SelectedPods};
pub use quantity::{MilliValue, Quantity};
pub use readings::{
    ForecastReason, LoadForecast, MetricForecast, MetricQuery, MetricsApi, PodSample, PodSamples,
    ReadError, Reading, Readings, Sample,
};
pub use report::{Inputs, Report};
pub use selector::Selector;
pub use settings::Settings;
