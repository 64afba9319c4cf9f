//! Splits a YAML stream into its documents.

use std::borrow::Cow;

use anyhow::ensure;

/// The maximum number of documents in a stream.
const MAX_DOCUMENTS: usize = 100_000;

/// A document with its separator, unchanged from the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Document<'a> {
    /// The whole `---` line; empty if the first document has none.
    pub(crate) separator: &'a str,
    pub(crate) body: &'a str,
    /// The number of the separator's line or, without one, of the body's first line.
    line: usize,
}

/// Splits a stream at its `---` lines. Fails if there are more than [`MAX_DOCUMENTS`] documents.
pub(crate) fn split_documents(stream: &str) -> anyhow::Result<Vec<Document<'_>>> {
    let mut documents = Vec::new();
    let (mut separator, mut line, mut start, mut offset) = ("", 1, 0, 0);
    let body = |start, end| stream.get(start..end).unwrap_or_default();
    for (index, text) in stream.split_inclusive('\n').enumerate() {
        let rest = text.strip_prefix("---");
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            documents.push(Document { separator, body: body(start, offset), line });
            (separator, line, start) = (text, index + 1, offset + text.len());
        }
        offset += text.len();
    }
    documents.push(Document { separator, body: body(start, offset), line });
    // A stream that begins with a separator has an empty first document.
    documents.retain(|document| !document.separator.is_empty() || !document.body.trim().is_empty());
    let count = documents.len();
    ensure!(
        count <= MAX_DOCUMENTS,
        "{count} documents, but a file may have at most {MAX_DOCUMENTS}"
    );
    Ok(documents)
}

impl<'a> Document<'a> {
    /// The document's text with the number of its first line. Text after `---` in the separator's
    /// line is part of the document.
    pub(crate) fn text(&self) -> (usize, Cow<'a, str>) {
        let Self { separator, body, line } = self;
        let rest = separator.strip_prefix("---").unwrap_or_default();
        match rest.trim() {
            "" if separator.is_empty() => (*line, Cow::Borrowed(*body)),
            rest if rest.is_empty() || rest.starts_with('#') => (line + 1, Cow::Borrowed(*body)),
            _ => (*line, Cow::Owned(format!("{rest}{body}"))),
        }
    }
}
