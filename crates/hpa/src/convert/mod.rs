//! `hpa convert`.

mod document;
mod object;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use self::document::Document;
use crate::args::{ConvertArguments, Format, TargetApi};

/// Converts a manifest to standard output. Writes nothing if any object fails to convert.
pub(crate) fn run(arguments: &ConvertArguments) -> anyhow::Result<()> {
    let input = read(&arguments.filename)?;
    let output = convert(&input, arguments.to, arguments.output)?;
    std::io::stdout().write_all(output.as_bytes()).context("unable to write to standard output")
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("unable to read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(path).with_context(|| format!("unable to read {}", path.display()))
}

/// The objects of a manifest, with the items of lists.
pub(crate) fn objects(input: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for (index, document) in document::split(input).into_iter().enumerate() {
        let object = document.parse().with_context(|| format!("document {}", index + 1))?;
        flatten(object, &mut objects);
    }
    Ok(objects)
}

fn flatten(object: Value, objects: &mut Vec<Value>) {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    match object.get("items") {
        Some(Value::Array(items)) if kind.ends_with("List") => {
            for item in items.clone() {
                flatten(item, objects);
            }
        }
        _ if object.is_null() => {}
        _ => objects.push(object),
    }
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
