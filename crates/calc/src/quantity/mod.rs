//! Quantities: exact decimal numbers with a unit suffix, such as `250m`, `1.5Gi` or `12e6`.
//!
//! The grammar, the limits and the printed form are those of the Kubernetes API's `Quantity`
//! (k8s.io/apimachinery/pkg/api/resource). A number is kept exactly down to 10⁻⁹ (nano); what is finer is rounded
//! away from zero when it is read.

mod format;
mod milli;
mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use milli::MilliValue;
use parse::Parsed;

/// The exponent of ten of a milli unit.
const MILLI: i32 = -3;
/// The exponent of ten of the finest unit a quantity can tell apart.
const NANO: i32 = -9;

/// Why a text is not a quantity. The texts are those of the API, but for [`QuantityError::TooLong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text is empty or holds a character that no quantity has there.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    FormatWrong,
    /// The text has no digit before its suffix.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is neither a unit nor an exponent that fits 64 bits.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The text is longer than [`MAX_TEXT_LEN`] bytes. The API has no such limit of its own.
    #[error("quantities must be no more than {MAX_TEXT_LEN} bytes")]
    TooLong,
}

/// The longest text that is read as a quantity, in bytes. Longer digits carry no meaning here and would be retained.
pub const MAX_TEXT_LEN: usize = 1 << 16;

/// How a quantity is printed; a quantity that was read keeps the kind of suffix it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A power of ten: `12e6`.
    DecimalExponent,
    /// A power of 1024: `12Mi`.
    BinarySI,
    /// A power of 1000: `12M`, `250m`.
    DecimalSI,
}

/// An exact decimal number and the way it is printed.
///
/// `Display` and serialization give the form the API server would answer: the text as it was read where the API
/// keeps it, else the canonical form (no fraction, largest suffix without loss). Like there, a value of 10²¹ or more
/// in [`Format::DecimalSI`] that is divisible by it has no suffix left and is printed without one.
///
/// Equality compares the numeric value alone: `1`, `1000m` and `1e0` are equal.
#[derive(Clone)]
pub struct Quantity(Repr);

/// 16 bytes; only forms that are rare on the wire live on the heap.
#[derive(Clone)]
enum Repr {
    /// Printed in canonical form.
    Scaled(Scaled),
    /// Printed as it was read, because that is not the canonical form (`1.500`, `1e3`, `+5`).
    Verbatim(Box<(Scaled, Box<str>)>),
    /// Does not fit 64 bits of its finest unit.
    Large(Box<Large>),
}

/// `value` × 10^`scale`; a scale below [`NANO`] does not occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scaled {
    value: i64,
    scale: i32,
    format: Format,
}

/// ±`digits` × 10^`exponent`, where `digits` neither starts nor ends with `0`, and `exponent` is not below [`NANO`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct Large {
    digits: Box<str>,
    exponent: i64,
    negative: bool,
    format: Format,
}

impl Quantity {
    /// A quantity that prints like Go's `resource.NewMilliQuantity(value, format)`: whole values
    /// below 1000 without a suffix, others with the largest suffix that loses nothing. `BinarySI`
    /// falls back to `DecimalSI` for values with a fraction and for values below 1024.
    pub const fn from_milli(value: MilliValue, format: Format) -> Self {
        Self(Repr::Scaled(Scaled { value: value.as_milli(), scale: MILLI, format }))
    }

    /// The value in milli-units, rounded away from zero and limited to 64 bits (`MilliValue` in
    /// the API's Go library, which leaves values out of range undefined).
    pub fn milli_value(&self) -> MilliValue {
        MilliValue::from_milli(self.rounded_to(MILLI))
    }

    /// The value in whole units, rounded away from zero and limited to 64 bits (`Value` in the
    /// API's Go library).
    pub fn value(&self) -> i64 {
        self.rounded_to(0)
    }

    /// The value in billionths, the finest unit a quantity keeps; exact but for the limits of `i128`.
    pub fn nano_value(&self) -> i128 {
        match self.parts() {
            Ok(scaled) => scaled.nanos(),
            Err(large) => large.nanos(),
        }
    }

    /// An approximation: the digits as a float × the power of ten as a float, hence at times an ulp off the nearest
    /// float; infinite out of range (`AsApproximateFloat64` in the API's Go library).
    pub fn as_f64(&self) -> f64 {
        match self.parts() {
            Ok(scaled) => scaled.as_f64(),
            Err(large) => large.as_f64(),
        }
    }

    /// -1, 0 or 1: the sign of the value.
    pub fn signum(&self) -> i32 {
        match self.parts() {
            Ok(scaled) => scaled.signum(),
            Err(large) => large.signum(),
        }
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// The kind of suffix the quantity was read or made with.
    pub fn format(&self) -> Format {
        match self.parts() {
            Ok(scaled) => scaled.format,
            Err(large) => large.format,
        }
    }

    fn parts(&self) -> Result<Scaled, &Large> {
        match &self.0 {
            Repr::Scaled(scaled) => Ok(*scaled),
            Repr::Verbatim(kept) => Ok(kept.0),
            Repr::Large(large) => Err(large),
        }
    }

    fn rounded_to(&self, scale: i32) -> i64 {
        match self.parts() {
            Ok(scaled) => scaled.rounded_to(scale),
            Err(large) => large.rounded_to(scale),
        }
    }
}

impl Scaled {
    const ZERO: Self = Self { value: 0, scale: 0, format: Format::DecimalSI };

    fn signum(self) -> i32 {
        match self.value {
            0 => 0,
            1.. => 1,
            _ => -1,
        }
    }

    /// The value in units of 10^`scale`, rounded away from zero, saturating.
    fn rounded_to(self, scale: i32) -> i64 {
        let Self { value, scale: own, .. } = self;
        let power = 10_i64.checked_pow(own.abs_diff(scale));
        if own < scale {
            // A divisor beyond 64 bits is larger than any value: what is not zero rounds to one.
            let Some(power) = power else { return value.signum() };
            value / power + (value % power).signum()
        } else {
            let limit = match value {
                0 => 0,
                1.. => i64::MAX,
                _ => i64::MIN,
            };
            power.and_then(|power| value.checked_mul(power)).unwrap_or(limit)
        }
    }

    /// The value in nanos, saturating.
    fn nanos(self) -> i128 {
        let limit = match self.signum() {
            0 => 0,
            1 => i128::MAX,
            _ => i128::MIN,
        };
        let power = 10_i128.checked_pow(self.scale.abs_diff(NANO));
        power.and_then(|power| power.checked_mul(self.value.into())).unwrap_or(limit)
    }

    fn as_f64(self) -> f64 {
        // Not 0 × ∞ for a zero with a huge exponent.
        if self.value == 0 || self.scale == 0 {
            return self.value as f64;
        }
        self.value as f64 * format::pow10(self.scale)
    }

    /// Without factors of ten, the form in which equal values are equal.
    fn normalized(self) -> (u64, i64) {
        let mut digits = self.value.unsigned_abs();
        let mut exponent = i64::from(self.scale);
        while digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        (digits, exponent)
    }
}

impl Large {
    fn signum(&self) -> i32 {
        if self.negative { -1 } else { 1 }
    }

    /// The magnitude in units of 10^`scale`, rounded up; `None` beyond 128 bits.
    fn magnitude(&self, scale: i32) -> Option<u128> {
        let shift = self.exponent - i64::from(scale);
        let zeros = u32::try_from(shift.max(0)).ok()?;
        let dropped = usize::try_from((-shift).max(0)).ok()?;
        let kept = self.digits.len().saturating_sub(dropped);
        let whole: u128 = if kept == 0 { 0 } else { self.digits.get(..kept)?.parse().ok()? };
        // The last digit is not zero, so whatever is dropped is not either.
        let whole = if dropped == 0 { whole } else { whole.checked_add(1)? };
        whole.checked_mul(10_u128.checked_pow(zeros)?)
    }

    /// The value in units of 10^`scale`, rounded away from zero, saturating.
    fn scaled(&self, scale: i32) -> i128 {
        let magnitude = self.magnitude(scale).and_then(|magnitude| i128::try_from(magnitude).ok());
        match (magnitude, self.negative) {
            (Some(magnitude), false) => magnitude,
            (Some(magnitude), true) => -magnitude,
            (None, false) => i128::MAX,
            (None, true) => i128::MIN,
        }
    }

    fn nanos(&self) -> i128 {
        self.scaled(NANO)
    }

    fn rounded_to(&self, scale: i32) -> i64 {
        let limit = if self.negative { i64::MIN } else { i64::MAX };
        i64::try_from(self.scaled(scale)).unwrap_or(limit)
    }

    fn as_f64(&self) -> f64 {
        // The API's digits of such a value count nanos. A float literal of any length is read to the nearest float.
        let nanos = format!("{}e{}", self.digits, self.exponent - i64::from(NANO));
        let magnitude = nanos.parse().unwrap_or(f64::INFINITY) * format::pow10(NANO);
        if self.negative { -magnitude } else { magnitude }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        match (self.parts(), other.parts()) {
            (Ok(one), Ok(two)) if one.scale == two.scale => one.value == two.value,
            (Ok(one), Ok(two)) if one.value == 0 || two.value == 0 => one.value == two.value,
            (Ok(one), Ok(two)) => {
                one.signum() == two.signum() && one.normalized() == two.normalized()
            }
            (Err(one), Err(two)) => {
                (one.negative, one.exponent, &one.digits)
                    == (two.negative, two.exponent, &two.digits)
            }
            (Ok(scaled), Err(large)) | (Err(large), Ok(scaled)) => {
                let (digits, exponent) = scaled.normalized();
                scaled.signum() == large.signum()
                    && exponent == large.exponent
                    && large.digits.parse() == Ok(digits)
            }
        }
    }
}

impl Eq for Quantity {}

impl Default for Quantity {
    /// Zero.
    fn default() -> Self {
        Self(Repr::Scaled(Scaled::ZERO))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Reads a quantity by the grammar of the API (`resource.ParseQuantity`): exact, rounded away from zero to nanos,
    /// and for binary suffixes limited to ±(2⁶³ − 1). Takes time and memory linear in the text, whatever its exponent.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Ok(Self(match parse::parse(text)? {
            Parsed::Scaled { scaled, verbatim: false } => Repr::Scaled(scaled),
            Parsed::Scaled { scaled, verbatim: true } => {
                Repr::Verbatim(Box::new((scaled, text.into())))
            }
            Parsed::Large(large) => Repr::Large(Box::new(large)),
        }))
    }
}

impl TryFrom<&str> for Quantity {
    type Error = QuantityError;

    fn try_from(text: &str) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Scaled(scaled) => scaled.fmt(f),
            Repr::Verbatim(kept) => f.write_str(&kept.1),
            Repr::Large(large) => large.fmt(f),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quantity({self})")
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    /// Reads a JSON string, around which white space is allowed, or a JSON number. A number that is not an integer
    /// is read by its shortest decimal form. `null` is zero, as in the API; use an `Option` to tell it apart.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a string or a number")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                // Plain digits as long as they are short, as JSON writers do.
                let plain = number == 0.0 || (1e-6..1e21).contains(&number.abs());
                self.visit_str(&if plain { format!("{number}") } else { format!("{number:e}") })
            }

            fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
                Ok(Quantity::default())
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Quantity {
    fn inline_schema() -> bool {
        // A structural schema of a CustomResourceDefinition has no references.
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            // Keeps texts out of storage that could not be read back; it binds strings only.
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}
