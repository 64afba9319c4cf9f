//! `hpa rules`.

mod compare;

use std::process::ExitCode;

use crate::args::{RulesArguments, RulesCommand};

pub(crate) fn run(arguments: &RulesArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        RulesCommand::Compare(arguments) => compare::run(arguments),
    }
}
