//! Quantities of the Kubernetes API, and their values in milli-units.

#![expect(clippy::print_stdout, reason = "example")]

use hpa_calc::{
    MilliValue, Quantity,
    quantity::{Format, QuantityError},
};

fn main() -> Result<(), QuantityError> {
    for text in ["250m", "1.5", "0.5Gi", "12e6", "1000001n"] {
        let quantity: Quantity = text.parse()?;
        let milli = quantity.milli_value().as_milli();
        println!("{text}: canonical {quantity}, {milli} milli-units, {} units", quantity.value());
    }
    let bytes = MilliValue::from_units(3 << 30);
    println!("binary: {}", Quantity::from_milli(bytes, Format::BinarySI));
    if let Err(error) = "1.5 GB".parse::<Quantity>() {
        println!("error: {error}");
    }
    Ok(())
}
