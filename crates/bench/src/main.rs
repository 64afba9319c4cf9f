//! `hpa-bench` measures HorizontalPodAutoscaler controllers from outside: it populates an API
//! server with autoscalers, targets and pods, serves their metrics, and records the requests of the
//! controller.
//!
//! `hpa-bench serve` is the API server, in a separate process: the testbed, a kube-apiserver that
//! it starts, or a proxy to a running one. `hpa-bench run` starts a server and a controller, one
//! controller after the other, and compares them. `hpa-bench adapter` does the same with adapters
//! of the custom metrics API, in front of a fake Prometheus, which `hpa-bench prometheus` serves
//! alone.
//!
//! Modules by layer, lowest first. A module imports only modules that are listed before it:
//!
//! - [`controller`], [`adapter`], [`args`]: the measured programs, and the command line of
//!   `hpa-bench`
//! - [`objects`], [`load`]: the objects to create, and the load on them
//! - [`exposition`], [`request_info`], [`stats`]: metrics in the text format of Prometheus, and
//!   measured values
//! - [`prometheus`]: a fake Prometheus
//! - [`server`]: the API server
//! - [`rounds`]: the medians of several rounds
//! - [`measure`], [`report`]: measuring controllers and comparing them
//! - [`chart`]: the results for several numbers of autoscalers
//! - [`measure_adapter`]: measuring adapters and comparing them

mod adapter;
mod args;
mod chart;
mod controller;
mod exposition;
mod load;
mod measure;
mod measure_adapter;
mod objects;
mod prometheus;
mod report;
mod request_info;
mod rounds;
mod server;
mod stats;

use std::{fs, io::Write as _, path::Path, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use serde::Serialize;

use crate::{
    args::{AdapterArguments, Arguments, Command, RunArguments},
    measure::Outcome,
};

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
            Command::Adapter(arguments) => compare_adapters(&arguments).await,
            Command::Serve(arguments) => server::run(&arguments).await,
            Command::Prometheus(arguments) => prometheus::run(&arguments).await,
            Command::Chart(arguments) => print(&chart::run(&arguments.numbers)?),
        }
    })
}

async fn compare(arguments: &RunArguments) -> Result<()> {
    let measured = measure::run(arguments).await?;
    write_json(arguments.json.as_deref(), &measured)?;
    let outcomes: Vec<_> = measured.iter().map(|one| &one.median).collect();
    print(&report::table(arguments, &outcomes))?;
    arguments.require_due.map_or(Ok(()), |percent| require_due(percent, &outcomes))
}

fn require_due(percent: u32, outcomes: &[&Outcome]) -> Result<()> {
    for one in outcomes {
        let Outcome { controller, autoscalers, reconciles, reconciles_due, .. } = one;
        let decided = one.decided.count;
        ensure!(
            decided == *autoscalers,
            "{controller}: decided {decided} of {autoscalers} autoscalers"
        );
        ensure!(
            *reconciles as f64 >= reconciles_due * f64::from(percent) / 100.0,
            "{controller}: made {reconciles} of {reconciles_due} due reconciles"
        );
    }
    Ok(())
}

async fn compare_adapters(arguments: &AdapterArguments) -> Result<()> {
    let measured = measure_adapter::run(arguments).await?;
    write_json(arguments.json.as_deref(), &measured)?;
    let outcomes: Vec<_> = measured.iter().map(|one| &one.median).collect();
    print(&measure_adapter::table(arguments, &outcomes))
}

fn write_json(path: Option<&Path>, numbers: &impl Serialize) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    let text = serde_json::to_string_pretty(numbers)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}
