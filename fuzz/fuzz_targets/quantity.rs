//! Any text is a quantity or an error. The printed text of a quantity parses to the same value and
//! prints unchanged, apart from the exceptions that the code lists.
#![no_main]

use hpa_calc::quantity::{Format, MilliValue, Quantity, QuantityError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parsed = text.parse::<Quantity>();
    let milli = parsed.as_ref().map(Quantity::milli_value).map_err(|error| *error);
    assert_eq!(text.parse::<MilliValue>(), milli);
    let Ok(quantity) = parsed else { return };

    // Two kinds of values may read back differently: those whose printed exponent overflows 32
    // bits, and those that are too large for a decimal suffix.
    let magnitude = quantity.as_f64().abs();
    let overflows = quantity.format() == Format::DecimalExponent && magnitude > 1e300;
    let has_suffix = quantity.format() != Format::DecimalSI || magnitude < 1e21;
    let printed = quantity.to_string();
    match printed.parse::<Quantity>() {
        _ if overflows => {}
        Ok(again) => {
            // A binary quantity without a suffix reads back as a decimal one.
            let is_fixed_point = again.to_string() == printed;
            assert!(is_fixed_point || again.format() != quantity.format(), "{text} {printed}");
            assert!(again == quantity || !has_suffix, "{text} {printed}");
        }
        // The canonical text may exceed the limit by its sign, zeros or suffix.
        Err(error) => assert_eq!(error, QuantityError::TooLong),
    }

    let milli = quantity.milli_value();
    for format in [Format::DecimalSI, Format::BinarySI, Format::DecimalExponent] {
        let quantity = Quantity::from_milli(milli, format);
        assert_eq!(quantity.milli_value(), milli);
        assert_eq!(quantity.to_string().parse(), Ok(quantity));
    }
});
