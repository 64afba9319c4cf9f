//! `hpa`: a HorizontalPodAutoscaler controller.
//!
//! Arguments, logging, wiring; what it does is in the crates below: `hpa-controller` (the shell),
//! `hpa-metrics-client` (the metrics APIs) and `hpa-calc` (the engine).

mod args;
mod logging;
mod run;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    let outcome = match command {
        Command::Run(arguments) => run::run(*arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hpa: {error:#}");
            ExitCode::FAILURE
        }
    }
}
