//! `hpa-bench` measures HorizontalPodAutoscaler controllers from outside: it populates an API
//! server with autoscalers, targets and pods, serves their metrics, and records the requests of the
//! controller.
//!
//! `hpa-bench serve` is the API server, in a process of its own: the testbed, a kube-apiserver that
//! it starts, or a proxy to a running one. `hpa-bench run` starts a server and a controller, one
//! controller after the other, and compares them.
//!
//! Modules by layer, lowest first. A module imports only modules that are listed before it:
//!
//! - [`controller`], [`args`]: command lines, of the controllers and of `hpa-bench`
//! - [`objects`], [`load`]: the objects to create, and the load on them
//! - [`exposition`], [`summary`], [`usage`], [`request_info`], [`stats`]: measured values
//! - [`object_store`], [`server`]: the API server
//! - [`measure`], [`report`]: running both and comparing

mod args;
mod controller;
mod exposition;
mod load;
mod measure;
mod object_store;
mod objects;
mod report;
mod request_info;
mod server;
mod stats;
mod summary;
mod usage;

use std::{fs, io::Write as _, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::args::{Arguments, Command, RunArguments};

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

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        match command {
            Command::Run(arguments) => compare(&arguments).await,
            Command::Serve(arguments) => server::run(&arguments).await,
        }
    })
}

async fn compare(arguments: &RunArguments) -> Result<()> {
    let measured = measure::run(arguments).await?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&measured)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let outcomes: Vec<_> = measured.iter().map(|one| &one.median).collect();
    std::io::stdout()
        .write_all(report::table(arguments, &outcomes).as_bytes())
        .context("cannot write to standard output")
}
