//! The data of the debug API: the last decisions, histories, cache ages and the queue. Commands
//! that read it also use it to decide as the controller would.
//!
//! Decisions are recorded only if a [`DecisionRecorder`] is among the observers. Without one, they
//! cost a reconcile nothing.

mod live_report;
mod recorder;
mod schema;
mod settings;
#[cfg(test)]
mod tests;
mod view;

pub use crate::cache::DecisionSample;
pub use live_report::{StayDecision, fill_forecasts, fill_readings, replace_sentence};
pub use recorder::DecisionRecorder;
pub use schema::{
    AutoscalerActivity, AutoscalerDetail, AutoscalerItem, AutoscalerList, ControllerStatus,
    Decision, DecisionMemory, DecisionSettings, FailedStatusWrites, QueueState, RefusedRulesFile,
    RunDocument, clock_lag,
};
pub use settings::{ActingController, effective_settings, settings_of_controller};
pub use view::{DebugView, ListFilter};
