//! Renders converted documents. Unchanged documents are copied byte for byte, unless they contain
//! characters that could control the terminal.

use serde_json::Value;

use crate::{
    manifests::{Document, parse_document},
    terminal,
};

impl Document<'_> {
    /// Parses the document. An empty document is null.
    pub(super) fn parse(&self) -> anyhow::Result<Value> {
        let (line, text) = self.text();
        parse_document(&text, line)
    }

    /// Renders `after`. If it differs from `before` only in `apiVersion`, edits that line of the
    /// text to keep the comments.
    pub(super) fn render(&self, before: &Value, after: &Value) -> anyhow::Result<String> {
        let Self { separator, body, .. } = self;
        // Text that could control the terminal is escaped instead of copied.
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
