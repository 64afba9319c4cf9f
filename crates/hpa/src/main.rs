//! `hpa`: a HorizontalPodAutoscaler controller.
//!
//! Arguments, logging, wiring; what it does is in the crates below: `hpa-controller` (the shell),
//! `hpa-metrics-client` (the metrics APIs) and `hpa-calc` (the engine).

mod args;
mod convert;
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
    let outcome = match command {
        Command::Run(arguments) => run::run(*arguments),
        Command::Crd => print_definition(),
        Command::Convert(arguments) => convert::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hpa: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print_definition() -> anyhow::Result<()> {
    let manifest = hpa_crd::manifest()?;
    std::io::stdout().write_all(manifest.as_bytes()).context("cannot write")
}
