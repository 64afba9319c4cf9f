//! `hpa convert`: converts manifests of autoscalers between `autoscaling/v2` and the custom API,
//! and from older versions.

mod object;
mod settings;
pub(crate) mod stored_fields;
#[cfg(test)]
mod tests;

pub(crate) use self::settings::fields_to_annotations;

use std::process::ExitCode;

use anyhow::Context;
use hpa_calc::explain::counted;
use hpa_controller::AutoscalerApi;
use serde_json::{Value, json};

use crate::{
    EXIT_INCONCLUSIVE,
    args::{ConvertArguments, ConvertFormat},
    lint,
    manifests::{
        Document, Input, combined_error, file_name, parse_document, read_file, split_documents,
    },
    terminal,
};

/// Converts a manifest to standard output. Writes nothing if any object fails to convert. Without
/// an autoscaler, it writes nothing either, because a pipe may apply the output, and the exit code
/// is [`EXIT_INCONCLUSIVE`].
pub(crate) fn run(arguments: &ConvertArguments) -> anyhow::Result<ExitCode> {
    let input = read_file(arguments.path())?;
    let file = file_name(arguments.path());
    let output = convert(&input, arguments.to, arguments.output).with_context(|| file.clone())?;
    let parsed = Input::from_stream(&file, &input);
    let missing =
        lint::missing_autoscaler_problem(&[arguments.path().to_owned()], &parsed, "hpa convert");
    if missing.is_none() {
        match arguments.output {
            ConvertFormat::Yaml => terminal::write(&output)?,
            ConvertFormat::Json => terminal::print_json(&output)?,
        }
    }
    for warning in lint::conversion_warnings(parsed.manifests) {
        terminal::warn(warning);
    }
    if let Some(problem) = missing {
        terminal::warn(problem);
        return Ok(ExitCode::from(EXIT_INCONCLUSIVE));
    }
    if arguments.output == ConvertFormat::Yaml {
        warn_of_lost_comments(&file, &input, &output);
    }
    Ok(ExitCode::SUCCESS)
}

fn warn_of_lost_comments(file: &str, input: &str, output: &str) {
    let lost = lost_comments(input, output);
    if let Some(first) = lost.first() {
        terminal::warn(format_args!(
            "{file}: the output loses {} (the first in line {first}): objects in which more than \
             the apiVersion changes are rewritten",
            counted(lost.len(), "comment")
        ));
    }
}

/// The numbers of the lines of the input whose comments are not in the output.
fn lost_comments(input: &str, output: &str) -> Vec<usize> {
    let comment = |line: &str| {
        let mut splits = line.match_indices('#').map(|(index, _)| line.split_at(index));
        let is_start = |before: &str| before.is_empty() || before.ends_with([' ', '\t']);
        Some(splits.find(|(before, _)| is_start(before))?.1.trim_end().to_owned())
    };
    let comments = input.lines().zip(1..).filter_map(|(line, number)| {
        let comment = comment(line)?;
        // A `#` inside a string is no comment, and the output has the string.
        (!output.contains(&comment)).then_some(number)
    });
    comments.collect()
}

fn convert(input: &str, to: AutoscalerApi, format: ConvertFormat) -> anyhow::Result<String> {
    let mut converted = Vec::new();
    let mut errors = Vec::new();
    for (index, document) in split_documents(input)?.into_iter().enumerate() {
        match document.parse() {
            Ok(before) => {
                let mut after = before.clone();
                let object_errors = object::convert(&mut after, to);
                errors.extend(
                    object_errors.into_iter().map(|error| format!("document {}{error}", index + 1)),
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
        ConvertFormat::Yaml => render_yaml(&converted),
        ConvertFormat::Json => render_json(converted.into_iter().map(|(.., after)| after)),
    }
}

fn render_yaml(documents: &[(Document<'_>, Value, Value)]) -> anyhow::Result<String> {
    let mut output = String::new();
    for (document, before, after) in documents {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&document.render(before, after)?);
    }
    Ok(output)
}

fn render_json(objects: impl Iterator<Item = Value>) -> anyhow::Result<String> {
    let objects: Vec<Value> = objects.filter(|object| !object.is_null()).collect();
    match objects.as_slice() {
        [only] => terminal::json(only),
        several => terminal::json(&json!({ "apiVersion": "v1", "kind": "List", "items": several })),
    }
}

impl Document<'_> {
    /// Parses the document. An empty document is null.
    fn parse(&self) -> anyhow::Result<Value> {
        let (line, text) = self.text();
        parse_document(&text, line)
    }

    /// Renders `after`. If it differs from `before` only in `apiVersion`, edits that line of the
    /// text to keep the comments. An unchanged document is copied byte for byte, unless it contains
    /// characters that could control the terminal.
    fn render(&self, before: &Value, after: &Value) -> anyhow::Result<String> {
        let Self { separator, body, .. } = self;
        let can_be_copied = !terminal::needs_escapes(separator) && !terminal::needs_escapes(body);
        if before == after && can_be_copied {
            return Ok(format!("{separator}{body}"));
        }
        if can_be_copied
            && let Some(edited) = replace_api_version(body, after)
            && parse_document(&edited, 1).is_ok_and(|value| value == *after)
        {
            return Ok(format!("{separator}{edited}"));
        }
        let separator = if separator.is_empty() { "" } else { "---\n" };
        let body = terminal::to_yaml(after)?;
        Ok(format!("{separator}{body}"))
    }
}

/// Replaces the `apiVersion:` line of `body`. `None` if it has no such line.
fn replace_api_version(body: &str, object: &Value) -> Option<String> {
    let api_version = object.get("apiVersion")?.as_str()?;
    let line = body.lines().find(|line| line.starts_with("apiVersion:"))?;
    Some(body.replacen(line, &format!("apiVersion: {api_version}"), 1))
}
