//! `hpa-bench`: populates an API server with autoscalers, their targets and pods, serves their metrics, and measures a
//! HorizontalPodAutoscaler controller from outside.
//!
//! The server is in a process of its own (`hpa-bench serve`), which notes what it is asked and when: the testbed, a
//! kube-apiserver that it starts, or a way into one that runs already.
//! `hpa-bench run` starts server and controller, one controller after the other, and compares.

mod args;
mod cluster;
mod controller;
mod exposition;
mod front;
mod kube_apiserver;
mod kubeconfig;
mod load;
mod measure;
mod median;
mod objects;
mod outcome;
mod own_metrics;
mod percentiles;
mod populate;
mod process;
mod record;
mod report;
mod request;
mod scaling;
mod serve;
mod server;
mod store;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

use crate::args::{Arguments, Command};

fn main() -> ExitCode {
    let Arguments { command } = Arguments::parse();
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hpa-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Run(arguments) => measure::run(&arguments).await,
            Command::Serve(arguments) => serve::run(&arguments).await,
            Command::ExitWithParent(arguments) => process::become_tied(&arguments.command),
        }
    })
}
