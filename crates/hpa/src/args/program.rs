//! Commands about the program itself.

use clap::Args;
use clap_complete::Shell;

use super::ReportFormat;

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/completions.txt").trim_ascii_end())]
pub(crate) struct CompletionsArguments {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/man.txt").trim_ascii_end())]
pub(crate) struct ManArguments {
    /// Command to document [default: hpa itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/version.txt").trim_ascii_end())]
pub(crate) struct VersionArguments {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReportFormat,
}
