use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{Format, MILLI, Quantity, QuantityError, parse};

/// A number in milli-units (thousandths), the unit in which the HPA algorithm calculates.
///
/// 1.5 CPU cores are 1500 milli-units, `100Mi` of memory are 104 857 600 000. Values are 64 bits
/// wide, as in the reference controller; conversions saturate instead of overflowing.
///
/// `Display` prints the decimal form of a [`Quantity`] (`1500m`, `2`, `1k`), `FromStr` reads any
/// quantity. Serde reads and writes the plain number of milli-units.
///
/// ```
/// use hpa_calc::MilliValue;
///
/// let cpu: MilliValue = "1.5".parse()?;
/// assert_eq!(cpu, MilliValue::from_milli(1500));
/// assert_eq!(cpu.to_string(), "1500m");
/// assert_eq!("100Mi".parse::<MilliValue>()?, MilliValue::from_units(100 * 1024 * 1024));
/// # Ok::<(), hpa_calc::quantity::QuantityError>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MilliValue(i64);

impl MilliValue {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// The smallest value, to which sums and conversions saturate.
    pub const MIN: Self = Self(i64::MIN);
    /// The largest value, to which sums and conversions saturate.
    pub const MAX: Self = Self(i64::MAX);

    /// Creates a value from a number of milli-units: 1500 is 1.5.
    pub const fn from_milli(milli: i64) -> Self {
        Self(milli)
    }

    /// Creates a value from a number of whole units, saturating.
    pub const fn from_units(units: i64) -> Self {
        Self(units.saturating_mul(1000))
    }

    /// The number of milli-units.
    pub const fn as_milli(self) -> i64 {
        self.0
    }

    /// The value in units, as a float.
    pub fn as_f64(self) -> f64 {
        Quantity::from(self).as_f64()
    }

    /// The value in units as a decimal number, for example `29.999`. Exact, unlike printing
    /// [`Self::as_f64`], which can give more digits.
    #[must_use]
    pub fn to_decimal(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let milli = self.0.unsigned_abs();
        match (milli / 1000, milli % 1000) {
            (whole, 0) => format!("{sign}{whole}"),
            (whole, rest) => format!("{sign}{whole}.{rest:03}").trim_end_matches('0').to_owned(),
        }
    }

    /// The sum, limited to the range of 64 bits.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<MilliValue> for Quantity {
    /// Prints in [`Format::DecimalSI`].
    fn from(value: MilliValue) -> Self {
        Self::from_milli(value, Format::DecimalSI)
    }
}

impl FromStr for MilliValue {
    type Err = QuantityError;

    /// Parses a quantity and rounds it away from zero to milli-units, like
    /// [`Quantity::milli_value`], but without storing the text.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if let Some(milli) = parse::parse_common_milli(text) {
            return Ok(Self(milli));
        }
        Ok(Self(match parse::parse(text)? {
            parse::ParsedQuantity::Scaled { scaled, .. } => scaled.rounded_to(MILLI),
            parse::ParsedQuantity::Large(large) => large.rounded_to(MILLI),
        }))
    }
}

impl fmt::Display for MilliValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quantity::from(*self).fmt(f)
    }
}
