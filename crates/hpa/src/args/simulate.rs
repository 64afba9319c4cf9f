use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The arguments of `hpa simulate`.
#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/simulate.txt").trim_ascii_end())]
pub(crate) struct SimulateArguments {
    /// Scenario in YAML: an autoscaler, its workload and the load. Can have variants to compare;
    /// "-" is standard input
    #[arg(value_name = "SCENARIO", required_unless_present = "schema")]
    pub(crate) scenario: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: SimulationFormat,
    /// Write a report with charts to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Also print every scaling with its reason
    #[arg(long)]
    pub(crate) steps: bool,
    /// Add every reconcile to the JSON output
    #[arg(long)]
    pub(crate) timeline: bool,
    /// Run only this variant. Can be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Vec<String>,
    /// Random seed [default: the scenario's]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Print the JSON Schema of scenarios and exit
    #[arg(long)]
    pub(crate) schema: bool,
}

/// The output of `hpa simulate`, `hpa replay` and `hpa forecast`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulationFormat {
    /// A line per variant
    #[default]
    Table,
    Json,
}
