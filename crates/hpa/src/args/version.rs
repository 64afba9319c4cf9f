use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  Print the git revision of the binary:
    hpa version -o json | jq -r .gitCommit
";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VersionArguments {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: VersionFormat,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum VersionFormat {
    #[default]
    Text,
    Json,
    Yaml,
}
