//! Tests that `hpa lint` reports an error for an autoscaler if, and only if, a real kube-apiserver
//! refuses the autoscaler. Without the programs of a control plane, the test prints that it is
//! skipped.
//!
//! The autoscalers are those of the conformance vectors and of the examples. The variable
//! `HPA_MANIFESTS` may name a directory with other manifests, such as those of public repositories.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a failed step fails the test"
)]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use hpa_tests::{
    kube_apiserver::{KubeApiserver, Options, assets},
    repository_path,
};
use http::Request;
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// An autoscaler and its origin: the file, and the line or document in it.
struct TestedAutoscaler {
    origin: String,
    object: Value,
}

fn recorded_autoscalers() -> Result<Vec<TestedAutoscaler>> {
    let path = repository_path("tests/conformance/hpa_admission.jsonl.gz");
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let autoscaler = |(index, line): (usize, std::io::Result<String>)| {
        let line: Value = serde_json::from_str(&line?)?;
        let object = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": { "name": "web" }, "spec": line["input"],
        });
        Ok(TestedAutoscaler { origin: format!("hpa_admission line {}", index + 1), object })
    };
    lines.enumerate().map(autoscaler).collect()
}

/// The autoscalers in the files of a directory, without its subdirectories. Documents that are not
/// YAML, such as templates, are left out.
fn autoscalers_in(directory: &Path) -> Result<Vec<TestedAutoscaler>> {
    let mut autoscalers = Vec::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .with_context(|| directory.display().to_string())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths.iter().filter(|path| path.is_file()) {
        let text = fs::read_to_string(path)?;
        for (index, document) in text.split("\n---").enumerate() {
            // Skip the rest of the separator's line.
            let document =
                if index == 0 { document } else { document.split_once('\n').unwrap_or_default().1 };
            let Ok(object) = serde_saphyr::from_str::<Value>(document) else { continue };
            if object["kind"] == "HorizontalPodAutoscaler" {
                let origin = format!("{}, document {}", path.display(), index + 1);
                autoscalers.push(TestedAutoscaler { origin, object });
            }
        }
    }
    Ok(autoscalers)
}

/// The API server's reason for rejecting an object. `None` if it accepts the object.
async fn refusal_reason(client: &Client, object: &Value) -> Result<Option<String>> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let path = format!(
        "/apis/{version}/namespaces/default/horizontalpodautoscalers?dryRun=All\
         &fieldValidation=Strict"
    );
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("namespace".to_owned(), "default".into());
    }
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(object.to_string().into_bytes()))?;
    let response = client.send(request).await?;
    let status = response.status();
    if status.is_success() {
        return Ok(None);
    }
    let body = response.into_body().collect_bytes().await?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(format!("{status}: {}", message["message"].as_str().unwrap_or_default())))
}

/// One of the errors that lint reports about each file of a directory, by file name.
fn lint_errors(directory: &Path) -> Result<BTreeMap<String, String>> {
    let output = Command::new(env!("CARGO_BIN_EXE_hpa"))
        .args(["lint", "-o", "json"])
        .arg(directory)
        .output()?;
    let findings: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    ensure!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let errors = findings.as_array().context("a list")?.iter();
    let errors = errors.filter(|finding| finding["severity"] == "error");
    let messages = errors.map(|one| {
        let message = format!("{}: {}", text(one, "field"), text(one, "message"));
        (text(one, "file").rsplit('/').next().unwrap_or_default().to_owned(), message)
    });
    Ok(messages.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_reports_errors_for_refused_autoscalers_only() -> Result<()> {
    let Some(assets) = assets::find_or_skip() else { return Ok(()) };
    let mut autoscalers = recorded_autoscalers()?;
    autoscalers.extend(autoscalers_in(&repository_path("examples/autoscalers"))?);
    let own_count = autoscalers.len();
    if let Some(directory) = std::env::var_os("HPA_MANIFESTS") {
        autoscalers.extend(autoscalers_in(Path::new(&directory))?);
    }
    let (server, files) = (tempfile::tempdir()?, tempfile::tempdir()?);
    for (index, autoscaler) in autoscalers.iter().enumerate() {
        fs::write(files.path().join(format!("{index:05}.json")), autoscaler.object.to_string())?;
    }
    let errors = lint_errors(files.path())?;
    // Before Kubernetes 1.37, the feature gate is off by default.
    let options = Options::new(&assets).flag("--feature-gates=HPAScaleToZero=true");
    let api = KubeApiserver::start(options, server.path()).await?;
    let client = api.client();
    let (mut differences, mut refused) = (Vec::new(), 0);
    for (index, TestedAutoscaler { origin, object }) in autoscalers.iter().enumerate() {
        let error = errors.get(&format!("{index:05}.json"));
        let refusal = refusal_reason(&client, object).await?;
        refused += usize::from(refusal.is_some());
        if error.is_some() != refusal.is_some() {
            differences.push(format!("{origin}: lint {error:?}, kube-apiserver {refusal:?}"));
        }
    }
    let extra = autoscalers.len() - own_count;
    let count = autoscalers.len();
    println!("{count} autoscalers, {extra} of them of HPA_MANIFESTS; {refused} are refused");
    ensure!(
        differences.is_empty(),
        "{} differ:\n  {}",
        differences.len(),
        differences.join("\n  ")
    );
    ensure!(refused > 0 && refused < count, "{refused} of {count} are refused");
    Ok(())
}
