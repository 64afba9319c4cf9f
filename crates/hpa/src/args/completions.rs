use clap::Args;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  In this bash session:
    source <(hpa completions bash)

  Install for bash, zsh or fish:
    hpa completions bash > ~/.local/share/bash-completion/completions/hpa
    hpa completions zsh > \"${fpath[1]}/_hpa\"
    hpa completions fish > ~/.config/fish/completions/hpa.fish
";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
