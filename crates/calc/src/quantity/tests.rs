use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn parsed(text: &str) -> Quantity {
    text.parse().unwrap()
}

#[rstest]
#[case::float_would_be_inexact(29_999, "29.999")]
#[case::whole(30_000, "30")]
#[case::trailing_zeros(10_500, "10.5")]
#[case::zeros_after_the_point(-1_005, "-1.005")]
#[case::below_one(-1, "-0.001")]
#[case::zero(0, "0")]
#[case::smallest(i64::MIN, "-9223372036854775.808")]
fn decimal_is_exact(#[case] milli: i64, #[case] expected: &str) {
    assert_eq!(MilliValue::from_milli(milli).to_decimal(), expected);
}

#[test]
fn quantity_takes_16_bytes() {
    assert_eq!(size_of::<Quantity>(), 16);
}

#[rstest]
#[case::zero("0", "0")]
#[case::zeros("-000.000Ki", "0")]
#[case::zero_with_a_huge_exponent("0e2147483647", "0")]
#[case::no_digit_is_zero("-", "0")]
#[case::unit_alone_is_zero("k", "0")]
#[case::no_digit_before_the_point(".5", "500m")]
#[case::no_digit_after_the_point("5.", "5.")]
#[case::kept_fraction_of_three_digits("1.500", "1.500")]
#[case::fraction_ending_in_000("1.5000", "1500m")]
#[case::kept_leading_zeros("001", "001")]
#[case::kept_plus("+1", "+1")]
#[case::kept_exponent_form("1E+03", "1E+03")]
#[case::exponent_not_of_three("1e4", "10e3")]
#[case::nano_on_the_fast_path("1n", "1n")]
#[case::finer_than_nano_rounds_up("1e-10", "1e-9")]
#[case::far_finer_than_nano_rounds_up("-1e-2000000000", "-1e-9")]
#[case::rounding_carries("0.9999999999", "1")]
#[case::rounding_carries_over_many_digits("999999999999999999.9999999999", "1E")]
#[case::most_digits_of_the_fast_path("999999999999999999", "999999999999999999")]
#[case::one_digit_more_than_the_fast_path("1000000000000000000", "1E")]
#[case::more_than_64_bits("123456789123456789123456789", "123456789123456789123456789")]
#[case::decimals_are_not_limited("1234567890123456789e1000", "12345678901234567890e999")]
#[case::no_suffix_above_exa("1000E", "1")]
#[case::exponent_wraps_at_32_bits("1e4294967297", "10")]
#[case::binary_on_the_fast_path("99999999999Ki", "99999999999Ki")]
#[case::binary_divisible_by_8("8192Ki", "8Mi")]
#[case::binary_with_fraction("1.5Gi", "1536Mi")]
#[case::binary_below_1024("0.5Ki", "512")]
#[case::binary_not_whole("0.1Mi", "104857600m")]
#[case::binary_below_one("0.0001Ki", "102400u")]
#[case::binary_finer_than_nano("0.0000000000001Ki", "1n")]
#[case::largest_binary("7.9999999999999999999Ei", "9223372036854775807")]
#[case::limited_binary("8Ei", "9223372036854775807")]
#[case::limited_negative_binary("-99999999999999999999999Ki", "-9223372036854775807")]
fn quantity_prints_like_the_api(#[case] text: &str, #[case] printed: &str) {
    assert_eq!(parsed(text).to_string(), printed);
}

#[rstest]
#[case::empty("", QuantityError::FormatWrong)]
#[case::space("1 ", QuantityError::FormatWrong)]
#[case::two_points("1.2.3", QuantityError::FormatWrong)]
#[case::two_signs("1--5", QuantityError::FormatWrong)]
#[case::two_leading_signs("--1", QuantityError::Suffix)]
#[case::letter_after_exponent("1e3k", QuantityError::FormatWrong)]
#[case::not_ascii("1µ", QuantityError::FormatWrong)]
#[case::wrong_case("1K", QuantityError::Suffix)]
#[case::exponent_without_digits("1e", QuantityError::Suffix)]
#[case::exponent_of_a_sign("1e+", QuantityError::Suffix)]
#[case::largest_exponent_and_one("1e9223372036854775808", QuantityError::Suffix)]
#[case::digits_after_a_sign("1+5", QuantityError::Suffix)]
#[case::no_digit_on_the_exact_path("Pi", QuantityError::Numeric)]
#[case::only_a_point_on_the_exact_path("-.Ei", QuantityError::Numeric)]
fn invalid_texts_are_rejected(#[case] text: &str, #[case] error: QuantityError) {
    assert_eq!(text.parse::<Quantity>().unwrap_err(), error);
    assert_eq!(text.parse::<MilliValue>(), Err(error));
}

#[rstest]
#[case::longest(MAX_TEXT_LEN, None)]
#[case::too_long(MAX_TEXT_LEN + 1, Some(QuantityError::TooLong))]
fn text_longer_than_the_limit_is_rejected(
    #[case] len: usize,
    #[case] error: Option<QuantityError>,
) {
    assert_eq!("9".repeat(len).parse::<Quantity>().err(), error);
}

#[rstest]
#[case::rounds_up("1.0001", 1001, 2)]
#[case::rounds_away_from_zero("-1.0001", -1001, -2)]
#[case::nano("1n", 1, 1)]
#[case::negative_nano("-1n", -1, -1)]
#[case::largest_milli("9223372036854775807m", i64::MAX, 9_223_372_036_854_776)]
#[case::saturates_milli("9223372036854775808m", i64::MAX, 9_223_372_036_854_776)]
#[case::smallest_milli("-9223372036854775808m", i64::MIN, -9_223_372_036_854_776)]
#[case::largest_value("9223372036854775807", i64::MAX, i64::MAX)]
#[case::saturates_value("9223372036854775807.1", i64::MAX, i64::MAX)]
#[case::saturates_negative("-1e30", i64::MIN, i64::MIN)]
#[case::saturates_by_exponent("1e2000000000", i64::MAX, i64::MAX)]
#[case::saturates_many_digits("-1234567890123456789012e2000000000", i64::MIN, i64::MIN)]
fn values_are_rounded_away_from_zero_and_saturate(
    #[case] text: &str,
    #[case] milli: i64,
    #[case] value: i64,
) {
    let quantity = parsed(text);
    let milli = MilliValue::from_milli(milli);
    assert_eq!((quantity.milli_value(), quantity.value()), (milli, value));
    assert_eq!(text.parse::<MilliValue>(), Ok(milli));
}

#[rstest]
#[case::zero_with_a_huge_exponent("0e400", 0.0)]
#[case::whole("3", 3.0)]
#[case::digits_times_power("808.056m", 808_056.0 * 1e-6)]
#[case::limited_binary("9Ei", 9_223_372_036_854_775_807.0)]
#[case::nanos_of_the_exact_path("1Pi", 1_125_899_906_842_624e9 * 1e-9)]
#[case::above_the_range("-1e400", f64::NEG_INFINITY)]
#[case::many_digits_above_the_range("1234567890123456789012e400", f64::INFINITY)]
fn as_f64_is_the_product_of_digits_and_power(#[case] text: &str, #[case] expected: f64) {
    assert_eq!(parsed(text).as_f64().to_bits(), expected.to_bits());
}

#[rstest]
#[case::zero(0, "0", "0")]
#[case::milli(1, "1m", "1m")]
#[case::whole(-1000, "-1", "-1")]
#[case::kilo(1_000_000, "1k", "1k")]
#[case::below_binary(1_023_000, "1023", "1023")]
#[case::binary(1_024_000, "1024", "1Ki")]
#[case::binary_with_fraction(1_024_001, "1024001m", "1024001m")]
#[case::largest(i64::MAX, "9223372036854775807m", "9223372036854775807m")]
#[case::smallest(i64::MIN, "-9223372036854775808m", "-9223372036854775808m")]
#[case::largest_whole(9_223_372_036_854_775_000, "9223372036854775", "9223372036854775")]
fn milli_values_print_like_the_api(
    #[case] milli: i64,
    #[case] decimal: &str,
    #[case] binary: &str,
) {
    let milli = MilliValue::from_milli(milli);
    assert_eq!(milli.to_string(), decimal);
    assert_eq!(Quantity::from_milli(milli, Format::DecimalSI).to_string(), decimal);
    assert_eq!(Quantity::from_milli(milli, Format::BinarySI).to_string(), binary);
}

#[rstest]
#[case::same_scale("1", "1", true)]
#[case::other_scale("1", "1000m", true)]
#[case::other_form("1Ki", "1024", true)]
#[case::other_sign("1", "-1000m", false)]
#[case::zeros("0", "0e300", true)]
#[case::zero_and_one("0", "1n", false)]
#[case::scaled_and_large("1e21", "1000000000000000000000", true)]
#[case::scaled_and_large_not_equal("1e21", "1000000000000000000001", false)]
#[case::large("1234567890123456789012", "12345678901234567890.12e2", true)]
fn equality_compares_values(#[case] one: &str, #[case] two: &str, #[case] equal: bool) {
    assert_eq!(parsed(one) == parsed(two), equal);
    assert_eq!(parsed(two) == parsed(one), equal);
}

#[rstest]
#[case::text(json!("1500m"), "1500m")]
#[case::spaces_around(json!(" 1\n"), "1")]
#[case::integer(json!(-5000), "-5k")]
#[case::above_i64(json!(u64::MAX), "18446744073709551615")]
#[case::fraction(json!(0.25), "250m")]
#[case::large_float(json!(1e21), "1e21")]
#[case::small_float(json!(1e-7), "100e-9")]
#[case::null_is_zero(json!(null), "0")]
fn json_values_deserialize(#[case] value: serde_json::Value, #[case] canonical: &str) {
    let quantity: Quantity = serde_json::from_value(value).unwrap();
    assert_eq!(serde_json::to_value(&quantity).unwrap(), json!(canonical));
}

#[rstest]
#[case::boolean(json!(true))]
#[case::list(json!([]))]
#[case::not_a_quantity(json!("x"))]
fn json_other_than_texts_and_numbers_is_rejected(#[case] value: serde_json::Value) {
    assert!(serde_json::from_value::<Quantity>(value).is_err());
}

#[cfg(feature = "schema")]
#[test]
fn schema_is_int_or_string() {
    let schema = schemars::schema_for!(Quantity).to_value();
    assert_eq!(schema.get("anyOf"), Some(&json!([{ "type": "integer" }, { "type": "string" }])));
    assert_eq!(schema.get("x-kubernetes-int-or-string"), Some(&json!(true)));
}

fn quantity_text() -> impl Strategy<Value = String> {
    "[+-]?[0-9]{0,24}(\\.[0-9]{0,24})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
}

proptest! {
    #[test]
    fn printed_form_has_the_same_value(text in quantity_text()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            prop_assert_eq!(text.parse::<MilliValue>(), Ok(quantity.milli_value()));
            let printed = quantity.to_string();
            let again = parsed(&printed);
            // A binary quantity without a suffix reads back as a decimal one.
            prop_assert!(again.to_string() == printed || again.format() != quantity.format());
            // From zetta on there is no suffix left to print.
            if quantity.format() != Format::DecimalSI || quantity.as_f64().abs() < 1e21 {
                prop_assert_eq!(&again, &quantity);
            }
        }
    }

    #[test]
    fn whole_milli_and_nano_values_agree(text in quantity_text()) {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let (value, milli) = (quantity.value(), quantity.milli_value().as_milli());
            let nano = quantity.nano_value();
            prop_assert_eq!(i64::from(quantity.signum()), value.signum());
            if value.checked_mul(1000).is_some() {
                prop_assert_eq!(i128::from(milli), nano / 1_000_000 + (nano % 1_000_000).signum());
                prop_assert_eq!(value, milli / 1000 + (milli % 1000).signum());
            }
        }
    }

    #[test]
    fn milli_value_survives_printing_and_parsing(milli: i64, shift in 0_u32..64, binary: bool) {
        let milli = MilliValue::from_milli(milli >> shift);
        let format = if binary { Format::BinarySI } else { Format::DecimalSI };
        let quantity = Quantity::from_milli(milli, format);
        prop_assert_eq!(quantity.milli_value(), milli);
        prop_assert_eq!(parsed(&quantity.to_string()), quantity);
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in any::<String>()) {
        let _ = text.parse::<Quantity>();
    }
}
