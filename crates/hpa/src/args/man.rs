use clap::Args;

const EXAMPLES: &str = "\
Examples:
  Read the manual of hpa run:
    hpa man run | man -l -

  Install both pages:
    hpa man > ~/.local/share/man/man1/hpa.1
    hpa man run > ~/.local/share/man/man1/hpa-run.1
";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArguments {
    /// Command to document [default: hpa itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}
