//! `hpa`: a HorizontalPodAutoscaler controller.
//!
//! Arguments, logging, wiring; what it does is in the crates below: `hpa-controller` (the shell),
//! `hpa-metrics-client` (the metrics APIs) and `hpa-calc` (the engine). `hpa demo` runs it against `hpa-testbed`.

mod args;
mod convert;
mod demo;
#[cfg(test)]
mod export_tests;
mod logging;
mod run;
mod serve;

use std::{io::Write, process::ExitCode};

use anyhow::Context;
use clap::Parser;

use crate::args::{Arguments, Command};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let (outcome, failure) = match command {
        Command::Run(arguments) => (run::run(*arguments).map(|()| ExitCode::SUCCESS), ExitCode::FAILURE),
        Command::Demo(arguments) => (demo::run(arguments), ExitCode::from(demo::EXIT_UNABLE)),
        Command::Crd => (print_definition().map(|()| ExitCode::SUCCESS), ExitCode::FAILURE),
        Command::Convert(arguments) => {
            (convert::run(&arguments).map(|()| ExitCode::SUCCESS), ExitCode::FAILURE)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("hpa: {error:#}");
        failure
    })
}

fn print_definition() -> anyhow::Result<()> {
    let manifest = hpa_crd::manifest()?;
    std::io::stdout().write_all(manifest.as_bytes()).context("cannot write")
}
