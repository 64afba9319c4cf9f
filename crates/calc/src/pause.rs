//! Pausing an autoscaler: it still decides and reports, but doesn't write the scale.

use std::{fmt, str::FromStr};

use crate::history::Direction;

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
