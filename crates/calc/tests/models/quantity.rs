//! A model of quantities: strings of decimal digits, calculated digit by digit.

use hpa_calc::{
    MilliValue, Quantity,
    quantity::{Format, QuantityError},
};
use proptest::prelude::*;

/// ±`digits` × 10^-`places`.
#[derive(Clone, Debug)]
struct Decimal {
    is_negative: bool,
    /// The most significant one first.
    digits: Vec<u8>,
    places: i64,
}

impl Decimal {
    fn double(&mut self) {
        let mut carry = 0;
        for digit in self.digits.iter_mut().rev() {
            let doubled = *digit * 2 + carry;
            (*digit, carry) = (doubled % 10, doubled / 10);
        }
        self.digits.insert(0, carry);
    }

    /// The magnitude in units of 10^-`places`, rounded up, without leading zeros.
    fn magnitude(&self, places: i64) -> String {
        let mut digits = self.digits.clone();
        let mut is_inexact = false;
        for _ in places..self.places {
            is_inexact |= digits.pop().unwrap_or(0) != 0;
        }
        let zeros = usize::try_from(places - self.places).unwrap_or(0);
        digits.resize(digits.len() + zeros, 0);
        if is_inexact {
            digits.insert(0, 0);
            let last = digits.iter().rposition(|digit| *digit < 9).expect("a leading zero");
            digits[last] += 1;
            digits[last + 1..].fill(0);
        }
        let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        text.trim_start_matches('0').to_owned()
    }

    /// In units of 10^-`places`, rounded away from zero and limited to the bounds.
    fn rounded(&self, places: i64, min: i128, max: i128) -> i128 {
        let magnitude = self.magnitude(places);
        let limit = if self.is_negative { min } else { max };
        let sign = if self.is_negative { "-" } else { "" };
        let number = format!("{sign}0{magnitude}").parse().unwrap_or(limit);
        number.clamp(min, max)
    }

    fn nanos(&self) -> i128 {
        self.rounded(9, i128::MIN, i128::MAX)
    }

    fn in_64_bits(&self, places: i64) -> i128 {
        self.rounded(places, i64::MIN.into(), i64::MAX.into())
    }
}

/// The exponent of 1000 or 1024 that a unit's letter stands for: its position, counted from 1.
fn unit(letter: &str, letters: &str) -> Option<u32> {
    let index = letters.find(letter).filter(|_| letter.len() == 1)?;
    u32::try_from(index + 1).ok()
}

/// The value and format of a text by the documented grammar. A text without digits is not in the
/// model.
fn model(text: &str) -> Result<(Decimal, Format), QuantityError> {
    let (is_negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|char: char| !char.is_ascii_digit() && char != '.');
    let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || !has_suffix_form(suffix) {
        return Err(QuantityError::FormatWrong);
    }
    let digits = integer.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    let places = i64::try_from(fraction.len()).expect("a short text");
    let mut value = Decimal { is_negative, digits, places };
    // `E` and `Ei` alone are units.
    let format = if let Some(exponent) =
        suffix.strip_prefix(['e', 'E']).filter(|it| !matches!(*it, "" | "i"))
    {
        let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
        value.places -= exponent;
        Format::DecimalExponent
    } else if suffix.is_empty() {
        Format::DecimalSI
    } else if let Some(exponent) = unit(suffix, "kMGTPE") {
        value.places -= i64::from(3 * exponent);
        Format::DecimalSI
    } else if let Some(exponent) = unit(suffix, "mun") {
        value.places += i64::from(3 * exponent);
        Format::DecimalSI
    } else {
        let letter = suffix.strip_suffix('i').ok_or(QuantityError::Suffix)?;
        let exponent = unit(letter, "KMGTPE").ok_or(QuantityError::Suffix)?;
        (0..10 * exponent).for_each(|_| value.double());
        Format::BinarySI
    };
    // The smallest unit is a nano. With a binary suffix, the value is limited.
    let nanos = value.magnitude(9);
    let max = format!("{}000000000", i64::MAX);
    let is_limited =
        format == Format::BinarySI && (nanos.len(), nanos.as_str()) > (max.len(), max.as_str());
    let nanos = if is_limited { max } else { nanos };
    let digits = nanos.bytes().map(|digit| digit - b'0').collect();
    Ok((Decimal { is_negative, digits, places: 9 }, format))
}

/// Letters, then a sign, then digits; each may be missing.
fn has_suffix_form(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|char| "eEinumkKMGTP".contains(char));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_digit(text: &str) -> bool {
    let number = text.trim_start_matches(['+', '-']).trim_start_matches('.');
    number.starts_with(|char: char| char.is_ascii_digit())
}

/// Compares a text with its model.
fn compare(text: &str) -> Result<(), TestCaseError> {
    let (parsed, model) = (text.parse::<Quantity>(), model(text));
    let (quantity, value, format) = match (parsed, model) {
        (Ok(quantity), Ok((value, format))) => (quantity, value, format),
        (parsed, model) => {
            prop_assert_eq!(parsed.err(), model.err(), "{}", text);
            return Ok(());
        }
    };
    let milli = MilliValue::from_milli(value.in_64_bits(3).try_into().expect("64 bits"));
    prop_assert_eq!(quantity.nano_value(), value.nanos(), "{}", text);
    prop_assert_eq!(quantity.milli_value(), milli, "{}", text);
    prop_assert_eq!(text.parse::<MilliValue>(), Ok(milli), "{}", text);
    prop_assert_eq!(i128::from(quantity.value()), value.in_64_bits(0), "{}", text);
    let is_zero = value.digits.iter().all(|digit| *digit == 0);
    let sign = if value.is_negative { -1 } else { 1 };
    prop_assert_eq!(quantity.signum(), if is_zero { 0 } else { sign }, "{}", text);
    // The API turns binary quantities below 1 into decimal ones.
    let is_below_one = value.magnitude(9).len() < 10;
    if !is_below_one {
        prop_assert_eq!(quantity.format(), format, "{}", text);
    }
    // From zetta (10^30 nanos) on, the API prints no suffix.
    if value.magnitude(9).len() <= 30 || format != Format::DecimalSI {
        let printed = quantity.to_string();
        let (again, _) = self::model(&printed).expect("a quantity");
        prop_assert_eq!(again.magnitude(9), value.magnitude(9), "{} {}", text, printed);
        prop_assert_eq!(again.is_negative || is_zero, value.is_negative || is_zero);
    }
    Ok(())
}

const VALID: &str = "[+-]?(0{0,3}[0-9]{1,22}|[0-9]{0,3}\\.[0-9]{1,24}|[0-9]{1,20}\\.[0-9]{0,12})\
    ([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?";

/// Around the limits of 64 bits, of nanos and of the binary units.
const AT_LIMITS: &str = "-?(9223372036854775807|9223372036854775808|9007199254740992|8191|8192|\
    8796093022207|7\\.99999999999999999999|0\\.000000000[0-9]{1,3}|999999999999999999|\
    1000000000000000000|0\\.[0-9]{1,3}|1(0){0,30})([num]|[kMGTPE]|[KMGTPE]i|e-?[0-9]{1,2}|)";

/// Texts of which most are invalid.
const NEARLY_VALID: &str =
    "[+-]{0,2}[0-9]{1,3}\\.{0,2}[0-9]{0,3}[eEinumkKMGTP]{0,3}[+-]{0,2}[0-9]{0,2}[ x]?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn parsed_value_equals_the_model(text in VALID) {
        compare(&text)?;
    }

    #[test]
    fn parsed_value_at_a_limit_equals_the_model(text in AT_LIMITS) {
        compare(&text)?;
    }

    #[test]
    fn parse_error_equals_the_model(text in NEARLY_VALID) {
        prop_assume!(has_digit(&text));
        compare(&text)?;
    }

    #[test]
    fn quantities_are_equal_if_their_values_are(
        one in AT_LIMITS, two in AT_LIMITS, zeros in "0{1,3}",
    ) {
        let sign = usize::from(one.starts_with('-'));
        let same = format!("{}{zeros}{}", &one[..sign], &one[sign..]);
        let value = |text: &str| {
            let (value, _) = model(text).expect("a quantity");
            let magnitude = value.magnitude(9);
            (value.is_negative && !magnitude.is_empty(), magnitude)
        };
        let quantity = |text: &str| text.parse::<Quantity>().expect("a quantity");
        for other in [two, same] {
            let is_equal = value(&one) == value(&other);
            prop_assert_eq!(quantity(&one) == quantity(&other), is_equal, "{} {}", one, other);
        }
    }
}
