//! Metrics that follow a schedule: `ScalingSchedule` and `ClusterScalingSchedule` of
//! `zalando.org/v1`, as kube-metrics-adapter defines them. Except for [`source`], these are pure
//! functions without clock or async runtime.
//!
//! [`ScheduledMetric::new`] compiles a spec. The value at a time is the largest value of its
//! entries. An entry has its full value in its windows. Before and after a window, the value rises
//! and falls in steps, over the duration of a ramp. At other times, it is 0.
//!
//! ```
//! use hpa_collectors::schedules::{ScalingScheduleSpec, ScheduledMetric, Settings};
//!
//! let spec: ScalingScheduleSpec = serde_json::from_str(
//!     r#"{"schedules": [{
//!         "type": "Repeating", "value": 100,
//!         "period": {"startTime": "22:00", "endTime": "02:00", "days": ["Fri"], "timezone": "UTC"}
//!     }]}"#,
//! )?;
//! let metric = ScheduledMetric::new(&spec, &Settings::default())?;
//! // Saturday, in the window that started on Friday.
//! assert_eq!(metric.value_at("2026-11-28T01:00:00Z".parse()?)?, 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Compatibility
//!
//! kube-metrics-adapter evaluates a repeating entry only for the current day: it loses the part of
//! a window or ramp beyond midnight, and a window whose end is before its start is empty. By
//! default, such a window ends on the next day, and windows continue across midnight.
//! [`Compat::Reference`] selects the behavior of kube-metrics-adapter, and changes nothing else.

mod changes;
pub mod definition;
mod entry;
mod error;
mod evaluation;
mod metric;
pub mod source;
mod spec;
#[cfg(test)]
mod tests;
mod zone;

pub use changes::Change;
pub use entry::Window;
pub use error::{EntryProblem, ScheduleError};
pub(crate) use evaluation::Evaluation;
pub use hpa_go_compat::Compat;
pub use metric::{MAX_ENTRIES, ScheduledMetric, Settings};
pub use spec::{
    ScalingScheduleSpec, ScalingScheduleStatus, Schedule, ScheduleDay, SchedulePeriod, ScheduleType,
};
