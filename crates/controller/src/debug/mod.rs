//! The data of the debug API: the last decisions, histories, cache ages and the queue.
//!
//! Without a [`DecisionRecorder`] among the observers, nothing is recorded, and a reconcile does
//! nothing for it.

mod recorder;
mod schema;
#[cfg(test)]
mod tests;
mod view;

pub use crate::cache::DecisionSample as Sample;
pub use recorder::DecisionRecorder;
pub use schema::{
    AutoscalerDetail, AutoscalerItem, AutoscalerList, ControllerStatus, Decision, DecisionMemory,
    DecisionSettings, QueueState, Run, effective_settings, fill_forecasts, fill_readings,
    settings_of_controller,
};
pub use view::{DebugView, ListFilter, ViewSettings};
