//! A tip for an autoscaler that is named in two words, as kubectl names objects by type and name.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use hpa_calc::{crd::SHORT_NAME, shell::quote};

use crate::autoscaler_name::{RESOURCE_NAMES, SHORT_RESOURCE_NAME};

/// The commands that take an autoscaler as `[NAMESPACE/]NAME`.
const COMMANDS: [&str; 3] = ["explain", "replay", "forecast"];

/// Adds a tip to the error about the second word of `hpa explain shop web`, or of `hpa explain hpa
/// web`.
pub(super) fn suggest_one_word(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if let Some(tip) = tip(&error, arguments) {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn tip(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let command = arguments.get(1)?.to_str().filter(|name| COMMANDS.contains(name))?;
    let Some(ContextValue::String(second)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument || second.starts_with('-') {
        return None;
    }
    let generic = || Some("write the autoscaler as one word: NAMESPACE/NAME".to_owned());
    let at = arguments.iter().rposition(|argument| argument == second.as_str())?;
    let [preceding, first] = arguments.get(at.checked_sub(2)?..at)? else { return None };
    let (preceding, Some(first)) = (preceding.to_string_lossy(), first.to_str()) else {
        return generic();
    };
    // The first word may be the value of a flag, as in `web -n shop api`.
    if first.starts_with('-') || preceding.starts_with('-') && !preceding.contains('=') {
        return generic();
    }
    // The short name of the custom API is a prefix, which must stay.
    if first.eq_ignore_ascii_case(SHORT_NAME) {
        let namespace = if second.contains('/') { "" } else { "NAMESPACE/" };
        let name = format!("{SHORT_NAME}/{namespace}{second}");
        return Some(format!("write {SHORT_NAME}/NAMESPACE/NAME: hpa {command} {}", quote(&name)));
    }
    let mut resources = RESOURCE_NAMES.into_iter().chain([SHORT_RESOURCE_NAME]);
    let is_resource = resources.any(|name| first.eq_ignore_ascii_case(name));
    if !is_resource && (first.contains('/') || second.contains('/')) {
        return generic();
    }
    Some(if is_resource {
        format!("leave out the type: hpa {command} {}", quote(second))
    } else {
        format!("write NAMESPACE/NAME: hpa {command} {}", quote(&format!("{first}/{second}")))
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use rstest::rstest;

    use crate::args::Arguments;

    fn parse_error(line: &str) -> String {
        let words = ["hpa"].into_iter().chain(line.split(' '));
        let arguments: Vec<OsString> = words.map(Into::into).collect();
        Arguments::try_parse_checked(&arguments).expect_err("an invalid line").to_string()
    }

    #[rstest]
    #[case::namespace("explain shop web", "write NAMESPACE/NAME: hpa explain shop/web")]
    #[case::kind("explain hpa web", "leave out the type: hpa explain web")]
    #[case::plural("replay horizontalpodautoscalers web", "leave out the type: hpa replay web")]
    #[case::after_a_flag("explain -n shop hpa web", "leave out the type: hpa explain web")]
    #[case::other_command("forecast shop web", "write NAMESPACE/NAME: hpa forecast shop/web")]
    #[case::shell("explain shop $(x)", "write NAMESPACE/NAME: hpa explain 'shop/$(x)'")]
    #[case::value_of_a_flag("explain web -n shop api", "as one word: NAMESPACE/NAME")]
    #[case::two_full_names("explain shop/web shop/api", "as one word: NAMESPACE/NAME")]
    #[case::other_kind("explain deployment shop/web", "as one word: NAMESPACE/NAME")]
    #[case::full_name("explain hpa shop/web", "leave out the type: hpa explain shop/web")]
    #[case::custom("explain rhpa web", "rhpa/NAMESPACE/NAME: hpa explain rhpa/NAMESPACE/web")]
    #[case::full_custom("explain rhpa shop/web", "rhpa/NAMESPACE/NAME: hpa explain rhpa/shop/web")]
    fn error_about_a_second_word_has_a_tip(#[case] line: &str, #[case] tip: &str) {
        let error = parse_error(line);
        assert!(error.contains("unexpected argument") && error.contains(tip), "{error}");
    }

    #[rstest]
    #[case::flag("explain shop --nme")]
    #[case::other_command("status shop web")]
    #[case::missing("explain")]
    fn other_errors_have_no_tip_about_names(#[case] line: &str) {
        let error = parse_error(line);
        assert!(!error.contains("NAMESPACE/NAME:") && !error.contains("as one word"), "{error}");
    }
}
