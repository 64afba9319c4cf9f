//! Quotes arguments of commands that people paste into a shell. Names in a cluster are written by
//! its tenants, and must not become other commands or options.

use std::borrow::Cow;

/// The argument as one word of a POSIX shell. It is quoted only if needed.
///
/// With a leading `-`, the command would take it as an option, quoted or not. The prefix `./`
/// prevents that: it names the same file, and no object has a name with a leading `-` or with `./`.
/// Metrics have such names: they need [`quote_operand`].
pub fn quote(argument: &str) -> Cow<'_, str> {
    if argument.starts_with('-') {
        return Cow::Owned(quote_operand(&format!("./{argument}")).into_owned());
    }
    quote_operand(argument)
}

/// The argument as one word of a POSIX shell, quoted only if needed. For arguments after `--`,
/// which no command takes as options.
pub fn quote_operand(argument: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return Cow::Borrowed(argument);
    }
    Cow::Owned(quote_always(argument))
}

/// The argument in single quotes, as one word of a POSIX shell. For values of options, such as
/// selectors.
pub fn quote_always(argument: &str) -> String {
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::name("web-1.example", "web-1.example")]
    #[case::qualified("shop/web", "shop/web")]
    #[case::empty("", "''")]
    #[case::commands("web;id>pwned;#", "'web;id>pwned;#'")]
    #[case::substitution("$(id)`id`", "'$(id)`id`'")]
    #[case::quote("a'b;id", r"'a'\''b;id'")]
    #[case::space("a b", "'a b'")]
    #[case::home("~root", "'~root'")]
    #[case::option("--server=evil", "./--server=evil")]
    #[case::file("-x.yaml", "./-x.yaml")]
    #[case::option_with_a_command("-x;id", "'./-x;id'")]
    #[case::not_ascii("wëb", "'wëb'")]
    fn argument_is_one_word(#[case] argument: &str, #[case] expected: &str) {
        assert_eq!(quote(argument), expected);
    }

    #[test]
    fn operand_keeps_a_leading_dash() {
        assert_eq!(quote_operand("-rf"), "-rf");
        assert_eq!(quote_operand("-x;id"), "'-x;id'");
    }

    #[test]
    fn selector_is_always_quoted() {
        assert_eq!(quote_always("app=web"), "'app=web'");
        assert_eq!(quote_always("a in (b'c)"), r"'a in (b'\''c)'");
    }
}
