//! Any text is a selector or an error. The canonical string of a selector parses to an equal
//! selector, prints unchanged and selects the same labels.
#![no_main]

use std::collections::BTreeMap;

use hpa_calc::Selector;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, BTreeMap<String, String>)| {
    let (text, labels) = input;
    let Ok(selector) = Selector::parse(text) else { return };

    let printed = selector.to_string();
    let again = Selector::parse(&printed).expect("a canonical string is a selector");
    assert_eq!(again, selector);
    assert_eq!(again.to_string(), printed);
    assert_eq!(again.matches(&labels), selector.matches(&labels));
    if selector.matches(&labels) {
        assert!(
            selector
                .required_pairs()
                .all(|(key, value)| labels.get(key).is_some_and(|actual| actual == value))
        );
    }
    if selector.is_empty() {
        assert!(printed.is_empty() && selector.matches(&labels));
    }
});
