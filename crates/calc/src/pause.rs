//! Pausing: what was decided is told, but the scale is left alone.

use std::{fmt, str::FromStr};

use crate::{
    api::{ConditionReason, ConditionType},
    decide::{Decision, Outcome},
    explain::Summary,
    history::Direction,
};

/// The directions in which an autoscaler is not to scale. Reads as `true` (both), `up`, `down` or `false` (none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Replicas are not to be added.
    pub up: bool,
    /// Replicas are not to be removed.
    pub down: bool,
}

/// A text that names no pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be \"true\", \"up\", \"down\" or \"false\"")]
pub struct InvalidPause;

impl Pause {
    /// No direction.
    pub const NONE: Self = Self { up: false, down: false };
    /// Both directions.
    pub const BOTH: Self = Self { up: true, down: true };

    /// Whether a direction is paused.
    pub fn holds(self, direction: Direction) -> bool {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

impl FromStr for Pause {
    type Err = InvalidPause;

    fn from_str(text: &str) -> Result<Self, InvalidPause> {
        match text {
            "true" => Ok(Self::BOTH),
            "up" => Ok(Self { up: true, down: false }),
            "down" => Ok(Self { up: false, down: true }),
            "false" => Ok(Self::NONE),
            _ => Err(InvalidPause),
        }
    }
}

/// What is paused, in words.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.up, self.down) {
            (true, true) => "scaling is paused",
            (true, false) => "scaling up is paused",
            (false, true) => "scaling down is paused",
            (false, false) => "nothing is paused",
        })
    }
}

impl Decision<'_> {
    /// The decision under a pause: a scale of a paused direction is not written, whatever asks for it, the bounds of
    /// the spec included. All else stays: recommendations are kept, `desiredReplicas` is what would be written, and
    /// conditions and events are those of the decision.
    ///
    /// The condition `Paused` is there as long as a direction is paused. The reference has none of that name, so that
    /// no alert or check that reads its conditions takes a pause for a fault. Without a pause nothing changes, but that
    /// the condition is removed.
    #[must_use]
    pub fn paused(mut self, pause: Pause) -> Self {
        if pause == Pause::NONE {
            self.draft.remove(&ConditionType::Paused);
            return self;
        }
        let mut message = pause.to_string();
        if let Outcome::Rescale { to, reason } = &self.outcome {
            let (to, reason) = (*to, reason.clone());
            let direction = if to > self.current { Direction::Up } else { Direction::Down };
            if pause.holds(direction) {
                message = format!("{message}: {to} replicas are wanted");
                self.explanation.summary = Summary::Paused(reason);
                self.outcome = Outcome::Held { to };
            }
        }
        self.draft.set(ConditionType::Paused, true, ConditionReason::PausedByAnnotation, message);
        self
    }
}
