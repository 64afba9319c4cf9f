use serde::{Deserialize, Serialize};

use super::{UnknownFields, open_enum::open_enum};
use crate::quantity::Quantity;

open_enum! {
    /// Which policy's change applies when several are given (`selectPolicy`).
    PolicySelect {
        /// No scaling in this direction.
        Disabled = "Disabled",
        /// The policy with the largest change.
        Max = "Max",
        /// The policy with the smallest change.
        Min = "Min",
    }
}

open_enum! {
    /// What a scaling policy's value counts.
    PolicyType {
        /// A percentage of the replicas at the start of the period.
        Percent = "Percent",
        /// A number of replicas.
        Pods = "Pods",
    }
}

/// `spec.behavior`: the rules of scaling in each direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Rules for scaling up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for scaling down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// The rules of one direction: a stabilization window, policies, a tolerance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Seconds of past recommendations that are considered, 0 to 3600. Unset when scaling down: the controller's
    /// downscale stabilization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stabilization_window_seconds: Option<i32>,
    /// Which policy applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<PolicySelect>,
    /// The policies; at least one where the rules are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<ScalingPolicy>>,
    /// How far the usage ratio may be from 1 without a change, as a fraction; unset: the controller's tolerance
    /// (KEP-4951).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Quantity>,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}

/// How much the replicas may change in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// What `value` counts.
    #[serde(default, rename = "type")]
    pub policy_type: PolicyType,
    /// The permitted change: replicas, or percent.
    #[serde(default)]
    pub value: i32,
    /// The length of the period in seconds, 1 to 1800.
    #[serde(default)]
    pub period_seconds: i32,
    /// Fields this crate does not know.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub unknown: UnknownFields,
}
