use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::values::number_in;

/// The arguments of `hpa recommend`.
#[derive(Args, Debug)]
#[command(after_help = include_str!("examples/recommend.txt").trim_ascii_end())]
pub(crate) struct RecommendArguments {
    /// Scenarios in YAML, as for `hpa simulate`; "-" is standard input. Variants are ignored
    #[arg(value_name = "SCENARIO", required = true)]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: RecommendationFormat,
    /// Number of combinations of settings to try
    #[arg(long, value_name = "NUMBER", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) candidates: u32,
    /// Number of random seeds with which each of the best candidates is simulated
    #[arg(long, value_name = "NUMBER", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) seeds: u32,
    /// Factors for the load. Each seed is run with each factor
    #[arg(long, value_name = "FACTORS", value_delimiter = ',', default_value = "1,1.15",
        value_parser = factor)]
    pub(crate) load_factors: Vec<f64>,
    /// Accepted risk: the 99th percentile of the overload over all runs, as a percentage of the
    /// load. If the default behavior has a lower risk, that risk is the limit. The cheapest
    /// settings within the limit are suggested, or the settings with the lowest risk if none is
    /// within the limit
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, value_parser = percentage)]
    pub(crate) max_risk: f64,
}

/// The output of `hpa recommend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RecommendationFormat {
    /// The suggestion, its reason, and the best trade-offs
    #[default]
    Text,
    Json,
    /// Only the merge patch of the suggestion
    Patch,
    /// A table that compares the default behavior and the suggestion, with a row per scenario
    Markdown,
}

fn factor(text: &str) -> Result<f64, String> {
    let error = "must be more than 0 and at most 100";
    number_in(text.trim(), |factor| factor > 0.0 && factor <= 100.0, error)
}

fn percentage(text: &str) -> Result<f64, String> {
    number_in(text, |percent| (0.0..=100.0).contains(&percent), "must be a number from 0 to 100")
}
