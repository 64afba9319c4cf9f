//! The replicas to propose while a metric can't be read.

use serde::{Deserialize, Serialize};

/// The shortest failure, in seconds, after which a fallback applies: two sync periods of the
/// default length.
pub(super) const MIN_FAILURE_SECONDS: u32 = 30;
/// The default of the failure after which a fallback applies, in seconds.
pub(super) const DEFAULT_FAILURE_SECONDS: u32 = 180;
/// The longest failure that a fallback can wait for: a day.
pub(super) const MAX_FAILURE_SECONDS: u32 = 86_400;

/// The proposal of an External, Object or Pods metric that has failed for long. The names are those
/// of KEP-5679, and the behaviors those of KEDA's fallback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fallback {
    /// The proposed replicas.
    pub replicas: i32,
    /// The time for which the metric must have failed, in seconds: 30 to 86,400. The default is
    /// 180.
    #[serde(default = "default_failure_seconds")]
    pub failure_duration_seconds: u32,
    /// Whether the proposal depends on the current replicas. The default is `static`.
    #[serde(default)]
    pub behavior: FallbackBehavior,
}

/// The proposed replicas of a fallback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FallbackBehavior {
    /// The fallback's replicas.
    #[default]
    Static,
    /// The current replicas.
    CurrentReplicas,
    /// The current replicas if they are more than the fallback's, else the fallback's.
    CurrentReplicasIfHigher,
    /// The current replicas if they are fewer than the fallback's, else the fallback's.
    CurrentReplicasIfLower,
}

const fn default_failure_seconds() -> u32 {
    DEFAULT_FAILURE_SECONDS
}

impl Fallback {
    /// The reason why the fallback is invalid, if it is.
    pub(crate) fn problem(&self) -> Option<String> {
        if self.replicas < 0 {
            return Some("replicas must not be negative".to_owned());
        }
        let range = MIN_FAILURE_SECONDS..=MAX_FAILURE_SECONDS;
        (!range.contains(&self.failure_duration_seconds)).then(|| {
            format!(
                "failureDurationSeconds must be from {MIN_FAILURE_SECONDS} to {MAX_FAILURE_SECONDS}"
            )
        })
    }
}
