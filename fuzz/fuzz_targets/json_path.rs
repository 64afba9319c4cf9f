//! Any path and expression, evaluated for any document, gives a number or an error, and the same
//! again. Evaluation ends within its limits.
#![no_main]

use arbitrary::Arbitrary;
use hpa_collectors::jsonpath::{Aggregator, Extractor, Limits, Query};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input<'i> {
    text: &'i str,
    is_expression: bool,
    document: &'i [u8],
}

fuzz_target!(|input: Input<'_>| {
    let query = if input.is_expression {
        Query::expression(input.text)
    } else {
        let Ok(query) = Query::key(input.text) else { return };
        query
    };
    let limits = Limits { steps: 100_000, ..Limits::default() };
    let extractor = Extractor::new(query, Some(Aggregator::Sum)).with_limits(limits);
    for document in [input.document, br#"{"a":[1,{"b":2.5,"c":"x"},[3]],"d":{"e":null}}"#] {
        let bits = || extractor.extract(document).map(f64::to_bits);
        assert_eq!(bits(), bits());
    }
});
