//! `hpa-bench serve`: the server that a controller is measured against.

use std::{
    fs,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::AtomicU32},
};

use anyhow::{Context as _, Result};
use hpa_testbed::{Config, Testbed};
use jiff::Timestamp;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{
    args::{Population, ServeArguments},
    front::Front,
    load::Load,
    objects,
    record::{EXTRA, EXTRA_NAMESPACE, Record},
    scaling,
};

/// Populates, prints the path of the kubeconfig, and serves until it is told to end.
pub(crate) async fn run(arguments: &ServeArguments) -> Result<()> {
    let load = Arc::new(Load::new(&arguments.population));
    let testbed = Testbed::new(Config { metrics: Some(Arc::<Load>::clone(&load)), ..Config::default() });
    let (scaled, to_follow) = mpsc::unbounded_channel();
    let front = Front {
        testbed: testbed.clone(),
        load: Arc::clone(&load),
        record: Arc::new(Record::new()),
        scaled,
        population: arguments.population.clone(),
        extra: arguments.extra,
        added: Arc::new(AtomicU32::new(0)),
    };
    populate(&front)?;
    eprintln!("hpa-bench: populated in {:.1?}", front.record.elapsed());
    tokio::spawn(scaling::follow(testbed, load, to_follow));
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    fs::write(&arguments.kubeconfig, Testbed::kubeconfig(listener.local_addr()?))
        .context("cannot write the kubeconfig")?;
    let mut output = std::io::stdout();
    writeln!(output, "{}", arguments.kubeconfig.display())?;
    output.flush()?;
    tokio::select! {
        served = axum::serve(listener, front.router()) => served.context("cannot serve"),
        ended = told_to_end() => ended,
    }
}

async fn told_to_end() -> Result<()> {
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}

fn populate(front: &Front) -> Result<()> {
    let population: &Population = &front.population;
    let namespaces = objects::namespaces(population);
    for namespace in &namespaces {
        front.testbed.apply(objects::namespace(namespace))?;
    }
    for (index, namespace) in (0..population.autoscalers).zip(namespaces.iter().cycle()) {
        let name = format!("app-{index}");
        add_target(front, namespace, &name, index)?;
        add_autoscaler(front, namespace, &name)?;
    }
    // Long before their autoscalers: else a controller could see these before the pods.
    for index in 0..front.extra {
        let place = population.autoscalers.saturating_add(index);
        add_target(front, EXTRA_NAMESPACE, &format!("{EXTRA}{index}"), place)?;
    }
    Ok(())
}

/// Creates a Deployment and its pods.
fn add_target(front: &Front, namespace: &str, name: &str, index: u32) -> Result<()> {
    let Front { testbed, load, population, .. } = front;
    testbed.apply(objects::deployment(namespace, name, population.pods))?;
    for pod in 0..population.pods {
        testbed.apply(objects::pod(namespace, name, pod, Timestamp::now()))?;
    }
    load.add(namespace, name, index);
    Ok(())
}

/// Creates the autoscaler of a Deployment.
pub(crate) fn add_autoscaler(front: &Front, namespace: &str, name: &str) -> Result<()> {
    front.record.creates(namespace, name);
    front.testbed.apply(objects::autoscaler(namespace, name, &front.population))?;
    Ok(())
}
