use serde::{Deserialize, Serialize};

use super::{UnknownFields, enums::open_enum};
use crate::quantity::Quantity;

open_enum! {
    /// Selects the policy that applies, or disables scaling in a direction (`selectPolicy`).
    PolicySelect {
        /// No scaling in this direction.
        Disabled = "Disabled",
        /// The policy that allows the largest change.
        Max = "Max",
        /// The policy that allows the smallest change.
        Min = "Min",
    }
}

open_enum! {
    /// The unit of a scaling policy's value.
    PolicyType {
        /// Percent of the replicas at the start of the period.
        Percent = "Percent",
        /// Replicas.
        Pods = "Pods",
    }
}

/// `spec.behavior`: the scaling rules of both directions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Behavior {
    /// The rules for scaling up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// The rules for scaling down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The scaling rules of one direction: stabilization window, policies, tolerance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingRules {
    /// The stabilization window in seconds, 0 to 3600. The default is 0 for scaling up, and the
    /// controller's downscale stabilization for scaling down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    /// The rule that selects among several policies. The default is `Max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<PolicySelect>,
    /// The policies, at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<ScalingPolicy>>,
    /// The maximum deviation of the ratio of usage to target from 1 that doesn't cause scaling, as
    /// a fraction. The default is the controller's tolerance (KEP-4951).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// A limit of the change of the replicas within a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingPolicy {
    /// The unit of `value`.
    #[serde(rename = "type")]
    pub policy_type: PolicyType,
    /// The allowed change, in replicas or percent.
    pub value: i32,
    /// The length of the period in seconds, 1 to 1800.
    pub period_seconds: i32,
    /// Fields that this crate doesn't know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
