//! Any text is a regular expression or an error. The error quotes a part of the text, unless the
//! expression is too large. A translated expression compiles, and matches where it expands. A
//! template without references expands to itself.
#![no_main]

use hpa_go_compat::regex::{GoRegex, RegexProblem};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str)| {
    let (expression, text, template) = input;
    match GoRegex::new(expression) {
        Ok(regex) => {
            assert_eq!(regex.as_str(), expression);
            let expanded = regex.expand(template, text);
            assert_eq!(expanded.is_some(), regex.is_match(text));
            if let Some(expanded) = expanded.filter(|_| !template.contains('$')) {
                assert_eq!(expanded, template);
            }
            assert_eq!(regex.group(text, 0).is_some(), regex.is_match(text));
        }
        // Only a repetition or many classes can make the expression too large.
        Err(error) if error.problem == RegexProblem::TooLarge => {
            assert!(expression.contains('{') || expression.len() > 32, "{expression}");
        }
        Err(error) => assert!(expression.contains(&error.expression), "{error}"),
    }
});
