//! The canonical form of a quantity, and powers of ten as floats.

use std::fmt;

use super::{Format, LargeDecimal, ScaledInteger};

/// The suffix of a power of ten. If there is none, it is empty, and the API prints the bare number.
fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

fn write_decimal(
    f: &mut fmt::Formatter<'_>,
    number: impl fmt::Display,
    exponent: i64,
    format: Format,
) -> fmt::Result {
    match format {
        Format::DecimalExponent if exponent != 0 => write!(f, "{number}e{exponent}"),
        Format::DecimalExponent => write!(f, "{number}"),
        Format::DecimalSI | Format::BinarySI => write!(f, "{number}{}", decimal_suffix(exponent)),
    }
}

/// Writes `whole` with the largest binary suffix. Below 1024 it writes nothing and returns `None`,
/// since the API prints such numbers in decimal form.
fn write_binary(f: &mut fmt::Formatter<'_>, mut whole: i128) -> Option<fmt::Result> {
    if whole.unsigned_abs() < 1024 {
        return None;
    }
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next()?;
    while whole % 1024 == 0 {
        whole /= 1024;
        suffix = suffixes.next()?;
    }
    Some(write!(f, "{whole}{suffix}"))
}

impl ScaledInteger {
    /// The value, if it is a whole number.
    fn whole(self) -> Option<i128> {
        let power = 10_i128.checked_pow(self.scale.unsigned_abs())?;
        let value = i128::from(self.value);
        if self.scale >= 0 {
            value.checked_mul(power)
        } else {
            (value % power == 0).then(|| value / power)
        }
    }
}

impl fmt::Display for ScaledInteger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value == 0 {
            return f.write_str("0");
        }
        if self.format == Format::BinarySI
            && let Some(written) = self.whole().and_then(|whole| write_binary(f, whole))
        {
            return written;
        }
        let mut number = i128::from(self.value);
        // The API's exponents have 32 bits and wrap.
        let mut exponent = self.scale;
        while number % 10 == 0 {
            number /= 10;
            exponent = exponent.wrapping_add(1);
        }
        while exponent % 3 != 0 {
            number *= 10;
            exponent = exponent.wrapping_sub(1);
        }
        write_decimal(f, number, exponent.into(), self.format)
    }
}

impl fmt::Display for LargeDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        if self.format == Format::BinarySI && self.exponent >= 0 {
            // Binary quantities are limited to 64 bits when they are parsed.
            let whole = i128::from(self.rounded_to(0));
            if let Some(written) = write_binary(f, whole) {
                return written;
            }
        }
        let excess = self.exponent.rem_euclid(3);
        let zeros = match excess {
            0 => "",
            1 => "0",
            _ => "00",
        };
        write_decimal(
            f,
            format_args!("{sign}{}{zeros}", self.digits),
            self.exponent - excess,
            self.format,
        )
    }
}

/// The first of the two tables whose entries Go's `math.Pow10` multiplies or divides. Powers of ten
/// that are computed in any other way could differ in the last bit.
const SMALL_POWERS: [f64; 32] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31,
];
/// The second table: 10^(32 × index), and its reciprocal.
const POWERS_OF_1E32: [(f64, f64); 11] = [
    (1e0, 1e0),
    (1e32, 1e-32),
    (1e64, 1e-64),
    (1e96, 1e-96),
    (1e128, 1e-128),
    (1e160, 1e-160),
    (1e192, 1e-192),
    (1e224, 1e-224),
    (1e256, 1e-256),
    (1e288, 1e-288),
    (f64::INFINITY, 1e-320),
];

/// 10^`exponent` like Go's `math.Pow10`: ∞ above 10³⁰⁸ and 0 below 10⁻³²³.
pub(super) fn pow10(exponent: i32) -> f64 {
    let magnitude = exponent.unsigned_abs() as usize;
    let small = SMALL_POWERS.get(magnitude % 32).copied().unwrap_or(1.0);
    let out_of_range = if exponent < 0 { 0.0 } else { f64::INFINITY };
    match POWERS_OF_1E32.get(magnitude / 32) {
        Some((_, power)) if (-323..0).contains(&exponent) => power / small,
        Some((power, _)) if (0..=308).contains(&exponent) => power * small,
        _ => out_of_range,
    }
}
