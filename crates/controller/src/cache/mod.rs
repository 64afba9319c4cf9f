//! The controller's view of the cluster: autoscalers, pods, selectors and scales.

pub mod hpas;
pub mod pods;
pub mod scales;
pub mod selectors;
