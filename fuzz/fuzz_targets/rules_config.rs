//! Any text is a rules file or an error. The positions of errors are in the text, and the rules of
//! a valid file can be compiled.
#![no_main]

use hpa_metrics::resource::ApiResources;
use hpa_prometheus::rules::{
    Config, ConfigError, RuleSet,
    config::{FieldErrors, Finding, parse_duration},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = parse_duration(text);
    // A carriage return or a Unicode line break also ends a line.
    let lines = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() + 2;
    match Config::parse(text) {
        Ok(config) => {
            let rules = RuleSet::compile(&config, &ApiResources::default());
            assert_eq!(rules.custom.len(), config.rules.len());
            for error in rules.errors() {
                assert!(error.path.starts_with(&error.rule), "{error}");
                assert!(error.position.is_some_and(|position| position.line <= lines), "{error}");
            }
        }
        Err(ConfigError::Fields(FieldErrors { errors, .. })) => {
            assert!(!errors.is_empty());
            let is_in_file = |error: &Finding| error.position.is_some_and(|at| at.line <= lines);
            assert!(errors.iter().all(is_in_file), "{errors:?}");
        }
        Err(ConfigError::Syntax(error)) => assert!(error.position.line <= lines, "{error}"),
        Err(_) => {}
    }
});
