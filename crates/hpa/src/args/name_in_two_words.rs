//! A tip for an autoscaler that is named in two words, as kubectl names objects by type and name.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use hpa_calc::crd::{KIND, PLURAL, SHORT_NAME};
use hpa_calc::shell::quote;

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
    let [before, first] = arguments.get(at.checked_sub(2)?..at)? else { return None };
    let (before, Some(first)) = (before.to_string_lossy(), first.to_str()) else {
        return generic();
    };
    // The first word may be the value of a flag, as in `web -n shop api`.
    if first.starts_with('-') || before.starts_with('-') && !before.contains('=') {
        return generic();
    }
    let is_resource =
        [KIND, PLURAL, SHORT_NAME, "hpa"].iter().any(|name| first.eq_ignore_ascii_case(name));
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

    #[rstest]
    #[case::namespace("explain shop web", "write NAMESPACE/NAME: hpa explain shop/web")]
    #[case::kind("explain hpa web", "leave out the type: hpa explain web")]
    #[case::plural("replay horizontalpodautoscalers web", "leave out the type: hpa replay web")]
    #[case::after_a_flag("explain -n shop hpa web", "leave out the type: hpa explain web")]
    #[case::other_command("forecast shop web", "write NAMESPACE/NAME: hpa forecast shop/web")]
    #[case::shell("explain shop $(x)", "write NAMESPACE/NAME: hpa explain 'shop/$(x)'")]
    #[case::value_of_a_flag("explain web -n shop api", "as one word: NAMESPACE/NAME")]
    fn error_about_a_second_word_has_a_tip(#[case] line: &str, #[case] tip: &str) {
        let arguments: Vec<OsString> =
            ["hpa"].into_iter().chain(line.split(' ')).map(Into::into).collect();
        let error = Arguments::try_parse_checked(&arguments).expect_err("two words").to_string();
        assert!(error.contains("unexpected argument") && error.contains(tip), "{error}");
    }

    #[rstest]
    #[case::flag("explain shop --nme")]
    #[case::other_command("status shop web")]
    #[case::missing("explain")]
    fn other_errors_have_no_tip_about_names(#[case] line: &str) {
        let arguments: Vec<OsString> =
            ["hpa"].into_iter().chain(line.split(' ')).map(Into::into).collect();
        let error = Arguments::try_parse_checked(&arguments).expect_err("an error").to_string();
        assert!(!error.contains("NAMESPACE/NAME:") && !error.contains("as one word"), "{error}");
    }
}
