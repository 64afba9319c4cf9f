//! The data of the debug API: the last decisions, histories, cache ages and the queue.
//!
//! Decisions are recorded only if a [`DecisionRecorder`] is among the observers. Without one, they
//! cost a reconcile nothing.

mod recorder;
mod schema;
#[cfg(test)]
mod tests;
mod view;

pub use crate::cache::DecisionSample;
pub use recorder::DecisionRecorder;
pub use schema::{
    ActingController, AutoscalerDetail, AutoscalerItem, AutoscalerList, ControllerStatus, Decision,
    DecisionMemory, DecisionSettings, FailedStatusWrites, LastDecision, QueueState,
    RefusedRulesFile, RunDocument, StayDecision, clock_lag, effective_settings, fill_forecasts,
    fill_readings, replace_sentence, settings_of_controller,
};
pub use view::{DebugView, ListFilter};
