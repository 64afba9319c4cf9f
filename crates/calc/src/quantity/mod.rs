//! Quantities: exact decimal numbers with a unit suffix, such as `250m`, `1.5Gi` or `12e6`.
//!
//! The grammar, the limits and the printed form are those of `Quantity` in the Kubernetes API
//! (k8s.io/apimachinery/pkg/api/resource). Numbers are exact down to 10⁻⁹ (nano). Finer ones are
//! rounded away from zero when they are parsed.
//!
//! ```
//! use hpa_calc::{Quantity, quantity::Format};
//!
//! let memory: Quantity = "1.5Gi".parse()?;
//! assert_eq!(memory.value(), 1_610_612_736);
//! assert_eq!(memory.to_string(), "1536Mi"); // the canonical form has no fraction
//! assert_eq!(memory, "1610612736".parse()?);
//!
//! let usage = "0.25".parse::<Quantity>()?.milli_value();
//! assert_eq!(Quantity::from_milli(usage, Format::DecimalSI).to_string(), "250m");
//! # Ok::<(), hpa_calc::quantity::QuantityError>(())
//! ```

mod format;
mod milli;
mod number;
mod parse;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use self::Number::{Large, Scaled};
pub use milli::MilliValue;
use number::{LargeDecimal, ScaledInteger};
use parse::ParsedQuantity;
pub(crate) use parse::split_digits;

/// The decimal exponent of a milli-unit.
const MILLI: i32 = -3;
/// The decimal exponent of a nano-unit, the smallest one.
const NANO: i32 = -9;

/// The error of a text that is not a quantity. The messages are those of the API, except for
/// [`QuantityError::TooLong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text is empty or has a character that is not allowed at its position.
    #[error(
        "quantities must match the regular expression \
            '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    FormatWrong,
    /// The text has no digits, and its suffix is `Pi`, `Ei` or an exponent below -9. With any other
    /// suffix or none, such a text is 0, as in the API.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is neither a unit nor an exponent of at most 64 bits.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The text is longer than [`MAX_TEXT_LEN`] bytes. The API has no such limit.
    #[error("quantities must be no more than {MAX_TEXT_LEN} bytes")]
    TooLong,
}

/// The maximum length of a quantity's text in bytes, which limits the memory that a hostile text
/// takes.
pub const MAX_TEXT_LEN: usize = 1 << 16;

/// The format in which a quantity is printed. A parsed quantity has the format of its suffix. As in
/// the API, there is an exception: a quantity between -1 and 1, other than 0, with a binary suffix
/// has [`Format::DecimalSI`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A power of ten: `12e6`.
    DecimalExponent,
    /// A power of 1024: `12Mi`.
    BinarySI,
    /// A power of 1000: `12M`, `250m`.
    DecimalSI,
}

/// An exact decimal number and its printed form.
///
/// `Display` and serialization give the form that the API server would respond with: the parsed
/// text if the API keeps it, else the canonical form, which has no fraction and the largest suffix
/// that loses nothing. As in the API, a multiple of 10²¹ in [`Format::DecimalSI`] loses its
/// exponent, because there is no suffix for it: `1000E` is printed as `1`.
///
/// Equality compares the numeric values: `1`, `1000m` and `1e0` are equal.
#[derive(Clone)]
pub struct Quantity(Repr);

/// 16 bytes. Only forms that are rare on the wire are on the heap.
#[derive(Clone)]
enum Repr {
    /// Printed in its canonical form.
    Scaled(ScaledInteger),
    /// Printed as it was parsed, because that differs from the canonical form (`1.500`, `1e3`,
    /// `+5`).
    Verbatim(Box<(ScaledInteger, Box<str>)>),
    /// A number of nanos that doesn't fit 64 bits.
    Large(Box<LargeDecimal>),
}

/// The number without its printed form.
enum Number<'a> {
    Scaled(ScaledInteger),
    Large(&'a LargeDecimal),
}

impl Quantity {
    /// A quantity that prints like Go's `resource.NewMilliQuantity(value, format)`: whole values
    /// below 1000 without a suffix, others with the largest suffix that loses nothing. `BinarySI`
    /// falls back to `DecimalSI` for values with a fraction and for magnitudes below 1024.
    pub const fn from_milli(value: MilliValue, format: Format) -> Self {
        Self(Repr::Scaled(ScaledInteger { value: value.as_milli(), scale: MILLI, format }))
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

    /// The value in nano-units. It is exact, but limited to 128 bits.
    pub fn nano_value(&self) -> i128 {
        match self.number() {
            Scaled(scaled) => scaled.nanos(),
            Large(large) => large.nanos(),
        }
    }

    /// The value as a float, or infinity if it is out of range. It is the product of two floats,
    /// the digits and a power of ten, so it can differ from the nearest float by an ulp
    /// (`AsApproximateFloat64` in the API's Go library).
    pub fn as_f64(&self) -> f64 {
        match self.number() {
            Scaled(scaled) => scaled.as_f64(),
            Large(large) => large.as_f64(),
        }
    }

    /// The sign of the value: -1, 0 or 1.
    pub fn signum(&self) -> i32 {
        match self.number() {
            Scaled(scaled) => scaled.signum(),
            Large(large) => large.signum(),
        }
    }

    /// Whether the value is zero.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// The format in which the quantity is printed.
    pub fn format(&self) -> Format {
        match self.number() {
            Scaled(scaled) => scaled.format,
            Large(large) => large.format,
        }
    }

    fn number(&self) -> Number<'_> {
        match &self.0 {
            Repr::Scaled(scaled) => Scaled(*scaled),
            Repr::Verbatim(verbatim) => Scaled(verbatim.0),
            Repr::Large(large) => Large(large),
        }
    }

    fn rounded_to(&self, scale: i32) -> i64 {
        match self.number() {
            Scaled(scaled) => scaled.rounded_to(scale),
            Large(large) => large.rounded_to(scale),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        match (self.number(), other.number()) {
            (Scaled(one), Scaled(two)) if one.scale == two.scale => one.value == two.value,
            (Scaled(one), Scaled(two)) if one.value == 0 || two.value == 0 => {
                one.value == two.value
            }
            (Scaled(one), Scaled(two)) => {
                one.signum() == two.signum() && one.normalized() == two.normalized()
            }
            (Large(one), Large(two)) => {
                (one.negative, one.exponent, &one.digits)
                    == (two.negative, two.exponent, &two.digits)
            }
            (Scaled(scaled), Large(large)) | (Large(large), Scaled(scaled)) => {
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
        Self(Repr::Scaled(ScaledInteger::ZERO))
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    /// Parses a quantity by the grammar of the API (`resource.ParseQuantity`). The value is rounded
    /// away from zero to nanos, and with a binary suffix limited to ±(2⁶³ − 1). Time and memory are
    /// linear in the length of the text, for any exponent.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Ok(Self(match parse::parse(text)? {
            ParsedQuantity::Scaled { scaled, verbatim: false } => Repr::Scaled(scaled),
            ParsedQuantity::Scaled { scaled, verbatim: true } => {
                Repr::Verbatim(Box::new((scaled, text.into())))
            }
            ParsedQuantity::Large(large) => Repr::Large(Box::new(large)),
        }))
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Scaled(scaled) => scaled.fmt(f),
            Repr::Verbatim(verbatim) => f.write_str(&verbatim.1),
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
    /// Deserializes a string, with optional white space around it, or a number. Numbers that are
    /// not integers are parsed from their shortest decimal form. `null` is zero, as in the API; use
    /// an `Option` to distinguish it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_result(deserializer)?.map_err(de::Error::custom)
    }
}

/// Limits a sum to the range of `i64` (kubernetes#142192).
pub(crate) fn saturate(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// Deserializes like [`Quantity`]. If a text is not a quantity, the inner result is an error, which
/// the caller may accept.
pub(crate) fn deserialize_result<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Result<Quantity, QuantityError>, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Result<Quantity, QuantityError>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a quantity: a string or a number")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(text.trim().parse())
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
            // Like JSON serializers, prints no exponent in this range.
            let is_plain = number == 0.0 || (1e-6..1e21).contains(&number.abs());
            self.visit_str(&if is_plain { format!("{number}") } else { format!("{number:e}") })
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(Ok(Quantity::default()))
        }
    }

    deserializer.deserialize_any(Visitor)
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Quantity {
    fn inline_schema() -> bool {
        // The structural schema of a CustomResourceDefinition must not have references.
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            // The pattern applies to strings only. It rejects texts that can't be parsed.
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
            "x-kubernetes-int-or-string": true,
        })
    }
}
