//! Our own API group against a real kube-apiserver: the definition installs, and what it accepts and refuses is what
//! autoscaling/v2 accepts and refuses.
//!
//! `cargo test --test crd`; the binaries are found as the control-plane suite finds them, and without them this one says
//! so and skips.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner: it may stop where the data is broken, and it prints"
)]
#![allow(dead_code, reason = "parts of the control-plane suite that are not needed here")]

mod cases;
#[path = "../control-plane/control_plane/mod.rs"]
mod control_plane;
mod judge;
#[path = "../control-plane/metrics.rs"]
mod metrics;
#[path = "../control-plane/wait.rs"]
mod wait;
#[path = "../control-plane/workload.rs"]
mod workload;
#[path = "../control-plane/world.rs"]
mod world;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use flate2::read::GzDecoder;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    control_plane::{ControlPlane, Kind},
    judge::{Group, judge, table},
    metrics::Metrics,
};

const NAMES: [&str; 3] = ["recorded_admission", "more_admission", "printed_table"];
/// What a slow, loaded machine may need to serve a new kind.
const SERVED: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    match hpa_kube_apiserver::assets::find() {
        Err(missing) => {
            println!("\nNO CONTROL PLANE TO TEST AGAINST: {missing}\n");
            for name in NAMES {
                println!("test {name} ... skipped");
                skipped += 1;
            }
        }
        Ok(assets) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            for (name, result) in NAMES.iter().zip(runtime.block_on(run(&assets))) {
                match result {
                    Ok(()) => {
                        println!("test {name} ... ok");
                        passed += 1;
                    }
                    Err(error) => {
                        println!("test {name} ... FAILED\n  {error:#}");
                        failed += 1;
                    }
                }
            }
        }
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run(assets: &Path) -> Vec<Result<()>> {
    let plane = match start(assets).await {
        Ok(plane) => plane,
        Err(error) => return vec![Err(error)],
    };
    let client = plane.client();
    vec![
        recorded_admission(&client).await,
        more_admission(&client).await,
        printed_table(&client).await,
    ]
}

/// A control plane that serves our kind.
async fn start(assets: &Path) -> Result<Arc<dyn ControlPlane>> {
    // Nobody asks for metrics.
    let metrics = Metrics::new(kube::runtime::reflector::store().0);
    let plane = Kind::KubeApiserver(assets.to_owned()).start(metrics).await?;
    let definition: CustomResourceDefinition = control_plane::from(hpa_crd::definition()?)?;
    let api = Api::<CustomResourceDefinition>::all(plane.client());
    let created =
        api.create(&PostParams::default(), &definition).await.context("create the definition")?;
    let name = created.metadata.name.unwrap_or_default();
    let seen = wait::object(&api, &name, "the kind to be established", SERVED, |object| {
        let status = object.status.as_ref();
        // Structural or not is told at once; established comes after it.
        ["Established", "NonStructuralSchema"].iter().any(|kind| condition(status, kind))
    })
    .await?;
    let told = seen.status.as_ref().and_then(|status| status.conditions.as_ref());
    ensure!(
        !condition(seen.status.as_ref(), "NonStructuralSchema"),
        "the schema is not structural: {told:?}"
    );
    Ok(plane)
}

fn condition(
    status: Option<
        &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionStatus,
    >,
    kind: &str,
) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == kind && one.status == "True"))
}

/// Every line of `hpa_admission`: the same verdict, and for an accepted one the same spec.
///
/// A refusal names the same fields. Where bounds or an enumeration refuse an object the server does not go on to the
/// rules, says so in a cause of no field, and names some of them.
async fn recorded_admission(client: &Client) -> Result<()> {
    let lines = recorded()?;
    let (mut same_fields, mut refused, mut wrong) = (0, 0, Vec::new());
    for (number, line) in lines.iter().enumerate() {
        let verdict = judge(client, Group::Own, &line["input"]).await?;
        let expected = judge::recorded(line);
        if let Some(difference) = verdict.differs_from(&expected) {
            wrong.push(format!("line {}: {difference}", number + 1));
        }
        if let (Some(fields), Some(expected)) = (verdict.fields(), expected.fields()) {
            refused += 1;
            same_fields += usize::from(fields == expected);
            if !fields.is_subset(expected) || (fields != expected && !verdict.is_cut_short()) {
                wrong
                    .push(format!("line {}: fields {fields:?}, expected {expected:?}", number + 1));
            }
        }
    }
    println!(
        "hpa_admission: {} lines; of {refused} refused, {same_fields} name the same fields",
        lines.len()
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n  "));
    ensure!(lines.len() >= 400, "only {} lines", lines.len());
    Ok(())
}

fn recorded() -> Result<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/hpa_admission.jsonl.gz");
    let file = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect()
}

/// What the recorded lines do not have, asked of both APIs of this server.
async fn more_admission(client: &Client) -> Result<()> {
    let mut wrong = Vec::new();
    for (name, spec) in cases::specs() {
        let core = judge(client, Group::Core, &spec).await?;
        let own = judge(client, Group::Own, &spec).await?;
        if let Some(difference) = own.differs_from(&core) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    for (name, spec) in cases::quantities_of_core_only() {
        let core = judge(client, Group::Core, &spec).await?;
        let own = judge(client, Group::Own, &spec).await?;
        if !core.is_accepted() || own.is_accepted() {
            wrong.push(format!("{name}: core {core:?}, own {own:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n  "));
    Ok(())
}

/// What `kubectl get` shows, the age aside.
async fn printed_table(client: &Client) -> Result<()> {
    let mut table = table(client, &cases::shown()).await?;
    table["Age"] = Value::Null;
    let expected = json!({
        "Name": "web", "Reference": "web", "Targets": "50", "Current": "66", "MinPods": 1, "MaxPods": 5,
        "Replicas": 3, "Age": null, "Kind": "Deployment",
    });
    ensure!(table == expected, "{table}");
    Ok(())
}
