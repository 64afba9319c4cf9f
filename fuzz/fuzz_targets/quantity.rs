#![no_main]
//! Any text is a quantity or an error. A quantity prints a text that is a quantity of the same value, as long as
//! there is a suffix for it, and that prints itself.

use hpa_calc::quantity::{Format, Quantity, QuantityError, parse_milli};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = text.parse::<Quantity>();
    assert_eq!(
        parse_milli(text),
        parsed.as_ref().map(Quantity::milli_value).map_err(|error| *error)
    );
    let Ok(quantity) = parsed else { return };

    // Where the API's exponents wrap at 32 bits, and where there is no suffix, the printed value is another.
    let huge = quantity.as_f64().abs();
    let wraps = quantity.format() == Format::DecimalExponent && huge > 1e300;
    let has_suffix = quantity.format() != Format::DecimalSI || huge < 1e21;
    let printed = quantity.to_string();
    match printed.parse::<Quantity>() {
        _ if wraps => {}
        Ok(again) => {
            // A binary quantity without a suffix reads back as a decimal one.
            assert!(
                again.to_string() == printed || again.format() != quantity.format(),
                "{text} {printed}"
            );
            assert!(again == quantity || !has_suffix, "{text} {printed}");
        }
        // A canonical text may outgrow the limit by its sign, zeros or suffix.
        Err(error) => assert_eq!(error, QuantityError::TooLong),
    }

    let milli = quantity.milli_value();
    for format in [Format::DecimalSI, Format::BinarySI, Format::DecimalExponent] {
        let made = Quantity::from_milli(milli, format);
        assert_eq!(made.milli_value(), milli);
        assert_eq!(made.to_string().parse(), Ok(made));
    }
});
