//! Objects in files: YAML streams, JSON, and lists of any kind.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::Value;

/// An object, and where it was read.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) file: String,
    /// The first line of the object's document.
    pub(crate) line: usize,
    pub(crate) object: Value,
}

impl Manifest {
    pub(crate) fn kind(&self) -> &str {
        text(&self.object, "/kind")
    }
}

/// A member of an object as text; empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Reads all objects of files. `-` is the standard input. The items of lists count as objects.
pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let stream = read_file(file)?;
        manifests.extend(parse(&name, &stream)?);
    }
    Ok(manifests)
}

fn read_file(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("unable to read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("unable to read {}", file.display()))
}

/// Parses a YAML stream, of which JSON is a part.
pub(crate) fn parse(file: &str, stream: &str) -> anyhow::Result<Vec<Manifest>> {
    let mut manifests = Vec::new();
    for (line, document) in split(stream) {
        let is_empty = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
        if document.lines().all(is_empty) {
            continue;
        }
        let object: Value = if document.trim_start().starts_with('{') {
            serde_json::from_str(&document).with_context(|| format!("{file}:{line}: not JSON"))?
        } else {
            serde_saphyr::from_str(&document)
                .map_err(|error| anyhow::anyhow!("{file}:{line}: not YAML: {error}"))?
        };
        flatten(file, line, object, &mut manifests);
    }
    Ok(manifests)
}

/// The documents of a stream with their first lines. A text after `---` belongs to its document.
fn split(stream: &str) -> Vec<(usize, String)> {
    let mut documents = vec![(1, String::new())];
    for (index, line) in stream.split_inclusive('\n').enumerate() {
        let rest = line.strip_prefix("---");
        match rest.filter(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace)) {
            Some(rest) => documents.push((index + 2, rest.trim_start().to_owned())),
            None => documents.last_mut().into_iter().for_each(|(_, text)| text.push_str(line)),
        }
    }
    documents
}

fn flatten(file: &str, line: usize, object: Value, manifests: &mut Vec<Manifest>) {
    match object {
        Value::Null => {}
        Value::Object(mut members) if is_list(&members) => {
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
            let kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
            let api_version = members.get("apiVersion").cloned().unwrap_or_default();
            let Some(Value::Array(items)) = members.remove("items") else { return };
            for mut item in items {
                // The items of a typed list have no kind of their own.
                if let Some(item) = item.as_object_mut().filter(|_| !kind.is_empty()) {
                    item.entry("kind").or_insert_with(|| kind.clone().into());
                    item.entry("apiVersion").or_insert_with(|| api_version.clone());
                }
                flatten(file, line, item, manifests);
            }
        }
        object => manifests.push(Manifest { file: file.to_owned(), line, object }),
    }
}

fn is_list(members: &serde_json::Map<String, Value>) -> bool {
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("List") && members.get("items").is_some_and(Value::is_array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_items_are_objects_with_their_lines() {
        let stream = "# a comment\n---\nkind: Pod\n--- # second\nkind: List\nitems:\n- kind: Pod\n\
                      - kind: Service\n---\n---\napiVersion: v1\nkind: PodList\nitems: [{}]\n";
        let found = parse("f", stream).expect("manifests");
        let found: Vec<_> = found.iter().map(|one| (one.line, one.kind())).collect();
        assert_eq!(found, [(3, "Pod"), (5, "Pod"), (5, "Service"), (11, "Pod")]);
    }

    #[test]
    fn error_names_file_and_line() {
        let error = parse("f.yaml", "---\nkind: [").expect_err("invalid").to_string();
        assert!(error.starts_with("f.yaml:2: not YAML"), "{error}");
    }
}
