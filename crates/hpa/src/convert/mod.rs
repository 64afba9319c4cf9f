//! `hpa convert`.

mod document;
mod object;
mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod versions;

pub(crate) use self::settings::fields_to_annotations;

use serde_json::{Value, json};

use crate::{
    args::{ConvertArguments, Format, TargetApi},
    manifests::{Document, combined_error, read_file, split},
    terminal,
};

/// Converts a manifest to standard output. Writes nothing if any object fails to convert.
pub(crate) fn run(arguments: &ConvertArguments) -> anyhow::Result<()> {
    let input = read_file(arguments.path())?;
    let output = convert(&input, arguments.to, arguments.output)?;
    match arguments.output {
        Format::Yaml => terminal::print_yaml(&output),
        Format::Json => terminal::print_json(&output),
    }
}

fn convert(input: &str, to: TargetApi, format: Format) -> anyhow::Result<String> {
    let mut converted = Vec::new();
    let mut errors = Vec::new();
    for (index, document) in split(input).into_iter().enumerate() {
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
        return Err(combined_error(&errors));
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
