//! Converts samples to milli-units.

use hpa_calc::MilliValue;
use jiff::Timestamp;

use hpa_go_compat::truncate_to_i64;
use hpa_metrics::values::NoValue;

use crate::rules::Compat;

/// Converts a sample to the value of a custom metric. With compatibility, NaN becomes zero, and
/// infinite and too large samples become the smallest number, as in prometheus-adapter.
pub fn custom_value(sample: f64, compat: Compat) -> Result<MilliValue, NoValue> {
    match (milli(sample), compat) {
        (Err(NoValue::NotANumber), Compat::Reference) => Ok(MilliValue::ZERO),
        (milli, compat) => smallest_if_invalid(milli, compat),
    }
}

/// Converts a sample to the value of an external metric. With compatibility, NaN, infinite and too
/// large samples become the smallest number, as in prometheus-adapter.
pub fn external_value(sample: f64, compat: Compat) -> Result<MilliValue, NoValue> {
    smallest_if_invalid(milli(sample), compat)
}

/// Converts a sample of CPU usage in cores, or of memory usage in bytes. A negative number becomes
/// zero. Without compatibility, NaN, both infinities and too large samples are errors. With
/// compatibility, NaN and negative infinity become zero, and positive infinity and too large
/// samples become the smallest number.
pub fn usage_value(sample: f64, compat: Compat) -> Result<MilliValue, NoValue> {
    let is_zero = match compat {
        Compat::Off => sample.is_finite() && sample < 0.0,
        Compat::Reference => sample.is_nan() || sample < 0.0,
    };
    smallest_if_invalid(milli(if is_zero { 0.0 } else { sample }), compat)
}

/// With compatibility, converts an invalid value to the smallest number.
fn smallest_if_invalid(
    milli: Result<MilliValue, NoValue>,
    compat: Compat,
) -> Result<MilliValue, NoValue> {
    match compat {
        Compat::Off => milli,
        // On amd64, Go's conversion of such a float to an integer has this result.
        Compat::Reference => Ok(milli.unwrap_or(MilliValue::MIN)),
    }
}

/// The time of a sample, clamped to the range of timestamps.
pub(crate) fn timestamp(ms: i64) -> Timestamp {
    let limit = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(ms).unwrap_or(limit)
}

/// Converts to thousandths, truncated toward zero.
fn milli(sample: f64) -> Result<MilliValue, NoValue> {
    if sample.is_nan() {
        return Err(NoValue::NotANumber);
    }
    if sample.is_infinite() {
        return Err(NoValue::Infinite);
    }
    let milli = truncate_to_i64(sample * 1000.0).ok_or(NoValue::OutOfRange)?;
    Ok(MilliValue::from_milli(milli))
}

#[cfg(test)]
mod tests {
    use hpa_calc::{Quantity, quantity::Format};
    use rstest::rstest;

    use super::*;

    fn text(value: Result<MilliValue, NoValue>, format: Format) -> String {
        Quantity::from_milli(value.unwrap(), format).to_string()
    }

    fn decimal(value: Result<MilliValue, NoValue>) -> String {
        text(value, Format::DecimalSI)
    }

    const MIN: &str = "-9223372036854775808m";

    #[rstest]
    #[case::truncated(0.1239, "123m")]
    #[case::truncated_toward_zero(-0.1239, "-123m")]
    #[case::whole(1500.0, "1500")]
    #[case::large(9e15, "9P")]
    #[case::subnormal(5e-324, "0")]
    fn values_are_thousandths(#[case] sample: f64, #[case] expected: &str) {
        for compat in [Compat::Off, Compat::Reference] {
            assert_eq!(decimal(custom_value(sample, compat)), expected);
            assert_eq!(decimal(external_value(sample, compat)), expected);
        }
    }

    #[rstest]
    #[case::nan(f64::NAN, NoValue::NotANumber, "0", MIN, "0")]
    #[case::infinite(f64::INFINITY, NoValue::Infinite, MIN, MIN, MIN)]
    #[case::negative_infinite(f64::NEG_INFINITY, NoValue::Infinite, MIN, MIN, "0")]
    #[case::too_large(1e16, NoValue::OutOfRange, MIN, MIN, MIN)]
    fn sample_without_a_value_is_an_error_unless_compatible(
        #[case] sample: f64,
        #[case] reason: NoValue,
        #[case] custom: &str,
        #[case] external: &str,
        #[case] cpu: &str,
    ) {
        for value in [custom_value, external_value, usage_value] {
            assert_eq!(value(sample, Compat::Off), Err(reason));
        }
        let compat = Compat::Reference;
        assert_eq!(decimal(custom_value(sample, compat)), custom);
        assert_eq!(decimal(external_value(sample, compat)), external);
        assert_eq!(decimal(usage_value(sample, compat)), cpu);
    }

    #[test]
    fn usage_is_not_negative() {
        for compat in [Compat::Off, Compat::Reference] {
            assert_eq!(decimal(usage_value(-1.0, compat)), "0");
            assert_eq!(decimal(usage_value(0.25, compat)), "250m");
            assert_eq!(text(usage_value(1_048_576.0, compat), Format::BinarySI), "1Mi");
        }
    }
}
