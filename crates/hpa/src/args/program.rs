//! Commands about the program itself.

use clap::Args;
use clap_complete::Shell;

use super::ReportFormat;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  Enable completion in this bash session:
    source <(hpa completions bash)

  Install for bash, zsh or fish:
    hpa completions bash > ~/.local/share/bash-completion/completions/hpa
    hpa completions zsh > \"${fpath[1]}/_hpa\"
    hpa completions fish > ~/.config/fish/completions/hpa.fish
";

#[derive(Args, Debug)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// Shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  Read the manual of hpa run:
    hpa man run | man -l -

  Install both pages:
    hpa man > ~/.local/share/man/man1/hpa.1
    hpa man run > ~/.local/share/man/man1/hpa-run.1
";

#[derive(Args, Debug)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArguments {
    /// Command to document [default: hpa itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

const VERSION_EXAMPLES: &str = "\
Examples:
  Print the git revision of the binary:
    hpa version -o json | jq -r .gitCommit
";

#[derive(Args, Debug)]
#[command(after_help = VERSION_EXAMPLES)]
pub(crate) struct VersionArguments {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "text")]
    pub(crate) format: ReportFormat,
}
