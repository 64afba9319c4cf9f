use serde::{Deserialize, Serialize};

/// What a decision reads of an autoscaling/v1 Scale.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scale {
    /// `spec.replicas`: what the target is asked to have. The reference calls it the current replicas.
    #[serde(default)]
    pub spec_replicas: i32,
    /// `status.replicas`: what the target reports to have.
    #[serde(default)]
    pub status_replicas: i32,
    /// `status.selector` in its string form; empty where the target has none.
    #[serde(default)]
    pub selector: String,
}
