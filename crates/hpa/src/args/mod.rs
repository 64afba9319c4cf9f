//! The command line: kube-controller-manager's flag names, and an environment variable for each.

#![expect(clippy::doc_markdown, reason = "the comments of flags are shown as they are")]

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

/// A HorizontalPodAutoscaler controller: scales as the one in kube-controller-manager does, and says why.
#[derive(Debug, Parser)]
#[command(name = "hpa", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the controller at work on a simulated cluster: load rises and falls, replicas follow.
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run the controller against a cluster, until it is told to stop.
    Run(Box<RunArguments>),
    /// Compare decisions with those of the controller that runs, writing nothing, and report the differences
    ShadowReport(Box<ShadowReportArguments>),
    /// Print the CustomResourceDefinition of our own API, with the schema of autoscaling/v2
    Crd,
    /// Turn HorizontalPodAutoscalers of Kubernetes' own API into ones of ours, and back
    Convert(ConvertArguments),
    /// Print what lets a shell complete the arguments of this program
    Completions(CompletionsArguments),
    /// Print a manual page
    Man(ManArguments),
}
