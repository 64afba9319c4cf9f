//! Aggregates several numbers.

use std::str::FromStr;

/// Combines several numbers into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregator {
    /// The mean. NaN without numbers.
    Average,
    /// The smallest number. Infinity without numbers.
    Minimum,
    /// The largest number. Negative infinity without numbers.
    Maximum,
    Sum,
}

/// An unknown aggregator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown aggregator {0:?}: must be avg, min, max or sum")]
pub struct UnknownAggregator(pub String);

impl FromStr for Aggregator {
    type Err = UnknownAggregator;

    fn from_str(name: &str) -> Result<Self, UnknownAggregator> {
        match name {
            "avg" => Ok(Self::Average),
            "min" => Ok(Self::Minimum),
            "max" => Ok(Self::Maximum),
            "sum" => Ok(Self::Sum),
            _ => Err(UnknownAggregator(name.to_owned())),
        }
    }
}

impl Aggregator {
    /// Aggregates in the order of the numbers. NaN is never the smallest or largest.
    pub fn apply(self, numbers: &[f64]) -> f64 {
        let numbers_sum = || numbers.iter().fold(0.0, |sum, number| sum + number);
        match self {
            Self::Average => numbers_sum() / numbers.len() as f64,
            Self::Sum => numbers_sum(),
            Self::Minimum => numbers
                .iter()
                .fold(f64::INFINITY, |min, number| if *number < min { *number } else { min }),
            Self::Maximum => numbers
                .iter()
                .fold(f64::NEG_INFINITY, |max, number| if *number > max { *number } else { max }),
        }
    }
}
