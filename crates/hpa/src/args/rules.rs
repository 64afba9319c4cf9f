use clap::{Args, Subcommand};

use super::rules_compare::RulesCompareArguments;

#[derive(Args, Debug)]
pub(crate) struct RulesArguments {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Compare the metrics that two servers of the metrics APIs have, and their values
    Compare(Box<RulesCompareArguments>),
}
