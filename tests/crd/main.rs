//! Custom resources on a real kube-apiserver: the definition of the custom API is valid, and
//! accepts and rejects the same specs as autoscaling/v2. Also the definitions of scaling schedules.
//!
//! `cargo test --test crd` finds the binaries as the control-plane suite does. Without them, it
//! reports the tests as skipped.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test runner, which stops at broken data and prints results"
)]
#![allow(dead_code, reason = "unused parts of the control-plane suite")]

mod cases;
#[path = "../control-plane/control_plane/mod.rs"]
mod control_plane;
#[path = "../control-plane/metrics.rs"]
mod metrics;
mod schedules;
#[path = "../control-plane/test_env.rs"]
mod test_env;
mod validation;
#[path = "../control-plane/wait.rs"]
mod wait;
#[path = "../control-plane/workload.rs"]
mod workload;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use flate2::read::GzDecoder;
use hpa_tests::report::Report;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionStatus,
};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    control_plane::{ControlPlane, PlaneKind},
    metrics::Metrics,
    validation::{Group, print_table_row, validate},
};

const NAMES: [&str; 4] =
    ["recorded_admission", "admission_as_in_the_core_api", "printed_table", "scaling_schedules"];
/// The deadline for a new kind to be served, on a busy machine.
const SERVED_TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let mut report = Report::default();
    match hpa_tests::kube_apiserver::assets::find() {
        Err(missing) => {
            for name in NAMES {
                report.skip_without("kube-apiserver", name, &missing);
            }
        }
        Ok(assets) => {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            for (name, result) in NAMES.iter().zip(runtime.block_on(run(&assets))) {
                report.add_result(name, result);
            }
        }
    }
    report.finish()
}

/// The results of the tests. All fail if the control plane does not start.
async fn run(assets: &Path) -> [Result<()>; 4] {
    let plane = match start(assets).await {
        Ok(plane) => plane,
        Err(error) => return NAMES.map(|_| Err(anyhow!("{error:#}"))),
    };
    let client = plane.client();
    [
        check_recorded_admission(&client).await,
        check_admission_as_in_the_core_api(&client).await,
        check_printed_table(&client).await,
        schedules::check_scaling_schedules(&client).await,
    ]
}

/// Starts a control plane that serves the custom API.
async fn start(assets: &Path) -> Result<Arc<dyn ControlPlane>> {
    // This suite reads no metrics.
    let metrics = Metrics::new(kube::runtime::reflector::store().0);
    let plane = PlaneKind::KubeApiserver(assets.to_owned()).start(metrics).await?;
    install_definition(&plane.client(), hpa_calc::crd::definition()?).await?;
    Ok(plane)
}

/// Creates a definition, and waits until its kind is served.
async fn install_definition(client: &Client, definition: Value) -> Result<()> {
    let definition: CustomResourceDefinition = control_plane::from_json(definition)?;
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let created =
        api.create(&PostParams::default(), &definition).await.context("create the definition")?;
    let name = created.metadata.name.unwrap_or_default();
    let seen = wait::object(&api, &name, "the kind to be established", SERVED_TIMEOUT, |object| {
        let status = object.status.as_ref();
        // NonStructuralSchema is set before Established.
        ["Established", "NonStructuralSchema"].iter().any(|kind| has_condition(status, kind))
    })
    .await?;
    let conditions = seen.status.as_ref().and_then(|status| status.conditions.as_ref());
    ensure!(
        !has_condition(seen.status.as_ref(), "NonStructuralSchema"),
        "the schema is not structural: {conditions:?}"
    );
    Ok(())
}

fn has_condition(status: Option<&CustomResourceDefinitionStatus>, kind: &str) -> bool {
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == kind && one.status == "True"))
}

/// Each input of `hpa_admission` has the recorded result and, if accepted, the recorded spec.
///
/// A rejection names the recorded fields, with one exception: if bounds or enumerations reject an
/// object, the server skips the validation rules, adds a cause without a field, and names only some
/// of the fields.
async fn check_recorded_admission(client: &Client) -> Result<()> {
    let lines = read_recorded_lines()?;
    let (mut same_fields, mut refused, mut wrong) = (0, 0, Vec::new());
    for (number, line) in lines.iter().enumerate() {
        let validation = validate(client, Group::Custom, &line["input"]).await?;
        let expected = validation::from_recorded_line(line);
        if let Some(difference) = validation.difference_from(&expected) {
            wrong.push(format!("line {}: {difference}", number + 1));
        }
        if let (Some(fields), Some(expected)) = (validation.fields(), expected.fields()) {
            refused += 1;
            same_fields += usize::from(fields == expected);
            if !fields.is_subset(expected) || (fields != expected && !validation.is_cut_short()) {
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

fn read_recorded_lines() -> Result<Vec<Value>> {
    let path = hpa_tests::repository_path("tests/conformance/hpa_admission.jsonl.gz");
    let file = std::fs::File::open(&path).with_context(|| path.display().to_string())?;
    BufReader::new(GzDecoder::new(file))
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect()
}

/// Specs beyond the recorded ones, compared between both APIs of the server.
async fn check_admission_as_in_the_core_api(client: &Client) -> Result<()> {
    let mut wrong = Vec::new();
    for (name, spec) in cases::specs() {
        let core = validate(client, Group::Core, &spec).await?;
        let custom = validate(client, Group::Custom, &spec).await?;
        if let Some(difference) = custom.difference_from(&core) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    for (name, spec) in cases::quantities_of_core_only() {
        let core = validate(client, Group::Core, &spec).await?;
        let custom = validate(client, Group::Custom, &spec).await?;
        if !core.is_accepted() || custom.is_accepted() {
            wrong.push(format!("{name}: core {core:?}, custom {custom:?}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n  "));
    Ok(())
}

/// The columns of `kubectl get`, except for the age.
async fn check_printed_table(client: &Client) -> Result<()> {
    let mut row = print_table_row(client, &cases::hpa_with_status()).await?;
    row["Age"] = Value::Null;
    let expected = json!({
        "Name": "web", "Reference": "web", "Targets": "cpu: 66%/50%, 20/30", "MinPods": 1,
        "MaxPods": 5, "Replicas": 3, "Age": null, "Kind": "Deployment",
    });
    ensure!(row == expected, "{row}");
    Ok(())
}
