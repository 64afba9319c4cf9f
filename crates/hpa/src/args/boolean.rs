//! The form that all boolean flags have: `--flag`, `--flag true`, `--flag=false`.

use clap::{Arg, ArgAction, builder::BoolishValueParser};

/// The value name of boolean flags.
pub(super) const BOOL: &str = "BOOL";

/// Makes a flag whose value name is [`BOOL`] accept an optional boolean.
pub(super) fn accept_boolean(argument: Arg) -> Arg {
    let is_boolean =
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == BOOL));
    if !is_boolean {
        return argument;
    }
    argument
        .action(ArgAction::Set)
        .num_args(0..=1)
        .default_missing_value("true")
        .value_parser(BoolishValueParser::new())
}
