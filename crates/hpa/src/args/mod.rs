//! The command line. Flags that kube-controller-manager has keep its names; each flag of
//! `hpa run` has an environment variable.

#![expect(clippy::doc_markdown, reason = "clap shows these comments verbatim in --help")]

#[cfg(feature = "demo")]
mod demo;
mod run;
#[cfg(test)]
mod tests;
#[cfg(feature = "otlp")]
mod traces;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use self::{
    run::{
        AutoscalingArguments, ClusterArguments, LogArguments, LogFormat, ObservationArguments,
        RunArguments,
    },
    values::{positive_duration, to_std},
};

#[cfg(feature = "demo")]
pub(crate) use self::demo::DemoArguments;
#[cfg(feature = "otlp")]
pub(crate) use self::traces::TraceArguments;
use crate::{
    completions::CompletionsArguments, convert::ConvertArguments, man::ManArguments,
    shadow::ShadowReportArguments,
};

/// A HorizontalPodAutoscaler controller: decides like kube-controller-manager and explains why.
#[derive(Debug, Parser)]
#[command(name = "hpa", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the controller on a simulated cluster and show how replicas follow the load
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run the controller against a cluster
    Run(Box<RunArguments>),
    /// Compare decisions with the controller of the cluster, write nothing, and report differences
    ShadowReport(Box<ShadowReportArguments>),
    /// Print the CustomResourceDefinition of autoscaling.hpa-rs.dev/v2
    Crd,
    /// Convert HorizontalPodAutoscalers between autoscaling/v2 and autoscaling.hpa-rs.dev/v2
    Convert(ConvertArguments),
    /// Print a shell completion script
    Completions(CompletionsArguments),
    /// Print a manual page
    Man(ManArguments),
}
