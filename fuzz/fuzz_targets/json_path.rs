//! Any key or expression gives a number or an error for any document, and the same result the
//! second time. Evaluation ends within its limits: even in instrumented code, a text of at most
//! 4 KiB takes less than three seconds for a document of 64 KiB.
#![no_main]

use std::time::{Duration, Instant};

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
    if input.text.len() <= 4 << 10 {
        // A document of 64 KiB, with the default limits.
        let element = std::str::from_utf8(input.document).unwrap_or("1");
        let count = (64 << 10) / (element.len() + 1);
        let document = format!("[{}]", vec![element; count].join(","));
        let extractor = Extractor::new(query.clone(), Some(Aggregator::Sum));
        let start = Instant::now();
        let _ = extractor.extract(document.as_bytes());
        assert!(start.elapsed() < Duration::from_secs(3), "took {:?}", start.elapsed());
    }
    let limits = Limits { steps: 100_000, ..Limits::default() };
    let extractor = Extractor::new(query, Some(Aggregator::Sum)).with_limits(limits);
    for document in [input.document, br#"{"a":[1,{"b":2.5,"c":"x"},[3]],"d":{"e":null}}"#] {
        let bits = || extractor.extract(document).map(f64::to_bits);
        assert_eq!(bits(), bits());
    }
});
