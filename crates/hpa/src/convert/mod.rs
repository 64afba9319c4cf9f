//! `hpa convert`.

mod document;
mod object;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use self::document::Document;

const EXAMPLES: &str = "\
Examples:
  Convert the autoscalers of a manifest to autoscaling.hpa-rs.dev/v2:
    hpa convert -f autoscaler.yaml | kubectl apply -f -

  Convert them back to autoscaling/v2:
    hpa convert -f autoscaler.yaml --to core

  Convert all autoscalers of a namespace:
    kubectl get hpa --namespace shop -o yaml | hpa convert | kubectl apply -f -

Objects of other kinds pass through unchanged. autoscaling/v1 and v2beta2 become v2. v2beta1
is rejected, and so is a v1 object that has metrics or behavior in annotations: get it as
autoscaling/v2. The status and metadata that the API server sets (uid, resourceVersion,
managedFields, ...) are dropped.";

/// The arguments of `hpa convert`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArguments {
    /// Manifest in YAML or JSON, of one or more documents; - reads standard input
    #[arg(long, short = 'f', value_name = "FILE", default_value = "-")]
    pub(crate) filename: PathBuf,
    /// API to convert the autoscalers to
    #[arg(long, value_name = "API", default_value = "custom")]
    pub(crate) to: TargetApi,
    /// Output format
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: Format,
}

/// An API that serves autoscalers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetApi {
    /// autoscaling/v2
    Core,
    /// autoscaling.hpa-rs.dev/v2 (see hpa crd); own is an alias
    #[value(alias = "own")]
    Custom,
}

impl TargetApi {
    fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Custom => hpa_crd::API_VERSION,
        }
    }
}

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One YAML document per object.
    Yaml,
    /// One JSON object, or a List of several
    Json,
}

/// Converts a manifest to standard output. Writes nothing if any object fails to convert.
pub(crate) fn run(arguments: &ConvertArguments) -> anyhow::Result<()> {
    let input = read(&arguments.filename)?;
    let output = convert(&input, arguments.to, arguments.output)?;
    std::io::stdout().write_all(output.as_bytes()).context("unable to write to standard output")
}

fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("unable to read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path).with_context(|| format!("unable to read {}", path.display()))
}

fn convert(input: &str, to: TargetApi, format: Format) -> anyhow::Result<String> {
    let mut converted = Vec::new();
    let mut errors = Vec::new();
    for (index, document) in document::split(input).into_iter().enumerate() {
        match document.parse() {
            Ok(before) => {
                let mut after = before.clone();
                let found = object::convert(&mut after, to);
                errors.extend(
                    found.into_iter().map(|error| format!("document {}{error}", index + 1)),
                );
                converted.push((document, before, after));
            }
            Err(error) => errors.push(format!("document {}: {error}", index + 1)),
        }
    }
    if !errors.is_empty() {
        bail!(errors.join("\n"));
    }
    match format {
        Format::Yaml => yaml(&converted),
        Format::Json => json_text(converted.into_iter().map(|(.., after)| after)),
    }
}

fn yaml(documents: &[(Document<'_>, Value, Value)]) -> anyhow::Result<String> {
    let mut output = String::new();
    for (document, before, after) in documents {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&document.with(before, after)?);
    }
    Ok(output)
}

fn json_text(objects: impl Iterator<Item = Value>) -> anyhow::Result<String> {
    let objects: Vec<Value> = objects.filter(|object| !object.is_null()).collect();
    let text = match objects.as_slice() {
        [only] => serde_json::to_string_pretty(only)?,
        several => {
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": several });
            serde_json::to_string_pretty(&list)?
        }
    };
    Ok(text + "\n")
}
