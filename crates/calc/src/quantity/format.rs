//! The canonical form of a quantity.

use std::fmt;

use super::{Format, LargeDecimal, ScaledInteger};

/// The suffix of a power of ten. Empty for other exponents: the API then prints the number without
/// one.
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
