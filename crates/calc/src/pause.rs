//! Pausing an autoscaler: it still decides and reports, but doesn't write the scale.

use std::{fmt, str::FromStr};

use crate::{
    api::{ConditionReason, ConditionType},
    decision::{Decision, Outcome},
    explain::{Summary, counted},
    history::Direction,
};

/// The directions in which an autoscaler must not scale. Parses from `true` (both), `up`, `down` or
/// `false` (none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Whether scaling up is paused.
    pub up: bool,
    /// Whether scaling down is paused.
    pub down: bool,
}

/// A text that is not a [`Pause`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be \"true\", \"up\", \"down\" or \"false\"")]
pub struct InvalidPause;

impl Pause {
    /// No direction is paused.
    pub const NONE: Self = Self { up: false, down: false };
    /// Both directions are paused.
    pub const BOTH: Self = Self { up: true, down: true };

    /// Whether a direction is paused.
    pub fn applies_to(self, direction: Direction) -> bool {
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

/// Prints the start of the condition's message.
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
    /// Applies the pause of the settings: the scale is not written in a paused direction, not even
    /// to bring it within `minReplicas` and `maxReplicas`.
    ///
    /// Recommendations are recorded as without a pause. `desiredReplicas` has the replicas that
    /// would be written. Conditions and events are those of the decision.
    ///
    /// While a direction is paused, the status has the condition `Paused=True`, which the reference
    /// doesn't have. All other conditions are unaffected, so that alerts on them don't mistake a
    /// pause for a failure. Without a pause, `Paused` is removed.
    pub(crate) fn apply_pause(&mut self) {
        let pause = self.settings.pause;
        if pause == Pause::NONE {
            self.draft.remove(&ConditionType::Paused);
            return;
        }
        let mut message = pause.to_string();
        if let Outcome::Rescale { to, reason } = &self.outcome {
            let to = *to;
            if pause.applies_to(Outcome::direction(self.current, to)) {
                message = format!("{message}: {} desired", counted(to, "replica"));
                self.explanation.summary = Summary::Paused(reason.clone());
                self.outcome = Outcome::Paused { to };
            }
        }
        self.draft.set(ConditionType::Paused, true, ConditionReason::PausedByAnnotation, message);
    }
}
