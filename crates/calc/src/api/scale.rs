use serde::{Deserialize, Serialize};

use crate::selector::Selector;

/// The part of an autoscaling/v1 Scale that a decision reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Scale {
    /// `spec.replicas`: the replicas that the target should have. These are the current replicas of
    /// a decision.
    pub spec_replicas: i32,
    /// `status.replicas`: the replicas that the target has.
    pub status_replicas: i32,
    /// `status.selector`, the label selector of the target's pods as a string. Empty if there is
    /// none.
    pub selector: String,
}

impl Scale {
    /// The selector of the target's pods. `None` if it is invalid, or if it is empty and would
    /// select every pod.
    pub fn usable_selector(&self) -> Option<Selector> {
        let text = Some(&self.selector).filter(|text| !text.is_empty())?;
        Selector::parse(text).ok()
    }
}
