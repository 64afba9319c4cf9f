//! The numbers of quantities.

use super::{Format, NANO};

/// `value` × 10^`scale`. The scale is at least [`NANO`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScaledInteger {
    pub(super) value: i64,
    pub(super) scale: i32,
    pub(super) format: Format,
}

/// ±`digits` × 10^`exponent`. `digits` neither start nor end with `0`, and `exponent` is at least
/// [`NANO`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LargeDecimal {
    pub(super) digits: Box<str>,
    pub(super) exponent: i64,
    pub(super) negative: bool,
    pub(super) format: Format,
}

impl ScaledInteger {
    pub(super) const ZERO: Self = Self { value: 0, scale: 0, format: Format::DecimalSI };

    pub(super) fn signum(self) -> i32 {
        match self.value {
            0 => 0,
            1.. => 1,
            _ => -1,
        }
    }

    /// The value in units of 10^`scale`, rounded away from zero, saturating.
    pub(super) fn rounded_to(self, scale: i32) -> i64 {
        let power = 10_i64.checked_pow(self.scale.abs_diff(scale));
        let value = self.value;
        if self.scale < scale {
            // If the divisor exceeds 64 bits, the quotient is below 1 and rounds to ±1 or 0.
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
    pub(super) fn nanos(self) -> i128 {
        let limit = match self.signum() {
            0 => 0,
            1 => i128::MAX,
            _ => i128::MIN,
        };
        let power = 10_i128.checked_pow(self.scale.abs_diff(NANO));
        power.and_then(|power| power.checked_mul(self.value.into())).unwrap_or(limit)
    }

    pub(super) fn as_f64(self) -> f64 {
        // 0 × ∞ would be NaN.
        if self.value == 0 || self.scale == 0 {
            return self.value as f64;
        }
        self.value as f64 * pow10(self.scale)
    }

    /// The magnitude as digits, without trailing zeros, and an exponent of ten. Equal magnitudes
    /// have equal results.
    pub(super) fn normalized(self) -> (u64, i64) {
        let mut digits = self.value.unsigned_abs();
        let mut exponent = i64::from(self.scale);
        while digits != 0 && digits.is_multiple_of(10) {
            digits /= 10;
            exponent += 1;
        }
        (digits, exponent)
    }
}

impl LargeDecimal {
    pub(super) fn signum(&self) -> i32 {
        if self.negative { -1 } else { 1 }
    }

    /// The magnitude in units of 10^`scale`, rounded up, or `None` if it exceeds 128 bits.
    fn magnitude(&self, scale: i32) -> Option<u128> {
        let shift = self.exponent - i64::from(scale);
        let zeros = u32::try_from(shift.max(0)).ok()?;
        let dropped = usize::try_from((-shift).max(0)).ok()?;
        let whole_len = self.digits.len().saturating_sub(dropped);
        let whole: u128 =
            if whole_len == 0 { 0 } else { self.digits.get(..whole_len)?.parse().ok()? };
        // The last digit is not zero, so any dropped digits round up.
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

    pub(super) fn nanos(&self) -> i128 {
        self.scaled(NANO)
    }

    pub(super) fn rounded_to(&self, scale: i32) -> i64 {
        let limit = if self.negative { i64::MIN } else { i64::MAX };
        i64::try_from(self.scaled(scale)).unwrap_or(limit)
    }

    pub(super) fn as_f64(&self) -> f64 {
        // The API's library computes a large value from its number of nanos. Parsing gives the
        // float that is nearest to this number, regardless of its length.
        let nanos = format!("{}e{}", self.digits, self.exponent - i64::from(NANO));
        let magnitude = nanos.parse().unwrap_or(f64::INFINITY) * pow10(NANO);
        if self.negative { -magnitude } else { magnitude }
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
fn pow10(exponent: i32) -> f64 {
    let magnitude = exponent.unsigned_abs() as usize;
    let small = SMALL_POWERS.get(magnitude % 32).copied().unwrap_or(1.0);
    let out_of_range = if exponent < 0 { 0.0 } else { f64::INFINITY };
    match POWERS_OF_1E32.get(magnitude / 32) {
        Some((_, power)) if (-323..0).contains(&exponent) => power / small,
        Some((power, _)) if (0..=308).contains(&exponent) => power * small,
        _ => out_of_range,
    }
}
