//! Splits a YAML stream into documents and keeps their text. Documents that don't change are copied
//! byte for byte.

use serde_json::Value;

use crate::{manifests::parse_document, terminal};

/// A document and its separator line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// The whole `---` line; empty if the first document has none.
    separator: &'a str,
    body: &'a str,
}

/// Splits a stream at its `---` lines.
pub(super) fn split(stream: &str) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut separator, mut start, mut offset) = ("", 0, 0);
    for line in stream.split_inclusive('\n') {
        if line.starts_with("---")
            && line.get(3..).is_some_and(|rest| rest.trim_start().len() < rest.len())
            || line == "---"
        {
            documents
                .push(Document { separator, body: stream.get(start..offset).unwrap_or_default() });
            separator = line;
            start = offset + line.len();
        }
        offset += line.len();
    }
    documents.push(Document { separator, body: stream.get(start..).unwrap_or_default() });
    // A leading separator has an empty document before it.
    documents.retain(|document| !document.separator.is_empty() || !document.body.trim().is_empty());
    documents
}

impl Document<'_> {
    /// Parses the document. An empty document is null.
    pub(super) fn parse(&self) -> anyhow::Result<Value> {
        let after_dashes = self.separator.trim_start_matches('-');
        let text = format!("{after_dashes}{}", self.body);
        parse_document(&text)
    }

    /// Renders `after`. If it differs from `before` only in `apiVersion`, edits that line of the
    /// text, which keeps comments.
    pub(super) fn with(&self, before: &Value, after: &Value) -> anyhow::Result<String> {
        let Self { separator, body } = self;
        // Text that could control the terminal is escaped instead of copied.
        let can_be_copied = !terminal::needs_escapes(separator) && !terminal::needs_escapes(body);
        if before == after && can_be_copied {
            return Ok(format!("{separator}{body}"));
        }
        let edited = with_api_version(body, after).filter(|_| can_be_copied);
        if edited
            .as_ref()
            .is_some_and(|body| parse_document(body).is_ok_and(|edited| edited == *after))
        {
            return Ok(format!("{separator}{}", edited.unwrap_or_default()));
        }
        let separator = if separator.is_empty() { "" } else { "---\n" };
        let body = terminal::to_yaml(after)?;
        Ok(format!("{separator}{body}"))
    }
}

/// Replaces the `apiVersion:` line of `body`, if there is one.
fn with_api_version(body: &str, object: &Value) -> Option<String> {
    let api_version = object.get("apiVersion")?.as_str()?;
    let line = body.lines().find(|line| line.starts_with("apiVersion:"))?;
    Some(body.replacen(line, &format!("apiVersion: {api_version}"), 1))
}
