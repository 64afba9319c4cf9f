//! The values of a chart: names and defaults of `values.yaml` with its comments, types of its
//! schema.

use serde_json::Value;

use super::{Page, code, read, read_yaml};

pub(super) fn values(chart: &str, file: &'static str) -> Page {
    let mut page = Page::new(
        file,
        &format!("Values of {chart}"),
        "With the default `null`, the flag keeps its own default, which is in parentheses.",
    );
    let directory = format!("charts/{chart}");
    let values = read_yaml(&format!("{directory}/values.yaml"));
    let schema: Value = serde_json::from_str(&read(&format!("{directory}/values.schema.json")))
        .expect("a JSON schema");
    page.table(None, &["value", "type", "default", ""]);
    for entry in entries(&read(&format!("{directory}/values.yaml"))) {
        let default = values.pointer(&entry.pointer()).cloned().unwrap_or_default();
        let is_group =
            default.as_object().is_some_and(|members| !members.is_empty()) && entry.has_members;
        let name = entry.path.join(".");
        if is_group {
            if !entry.comment.is_empty() {
                page.row(&[&code(&format!("{name}.*")), "", "", &entry.comment]);
            }
            continue;
        }
        let mut default_cell = code(&default.to_string());
        if let Some(flag) = &entry.trailing {
            default_cell = format!("{default_cell} ({flag})");
        }
        page.row(&[&code(&name), &kind(&schema, &entry.path), &default_cell, &entry.comment]);
        page.names.push(format!("{chart} {name}"));
    }
    page
}

/// A key of `values.yaml`.
struct Entry {
    path: Vec<String>,
    /// The comment lines before the key.
    comment: String,
    /// The comment after the value, in the same line.
    trailing: Option<String>,
    /// Whether keys with a deeper indentation follow.
    has_members: bool,
}

impl Entry {
    fn pointer(&self) -> String {
        let parts: Vec<String> = self.path.iter().map(|part| part.replace('/', "~1")).collect();
        format!("/{}", parts.join("/"))
    }
}

/// Parses the keys of block mappings. Items of lists are part of the key before them.
fn entries(text: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut open_keys: Vec<(usize, String)> = Vec::new();
    let mut comment = Vec::new();
    let mut list = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if content.is_empty() {
            comment.clear();
            continue;
        }
        if list.is_some_and(|list| indent > list) && !content.starts_with('#') {
            continue;
        }
        if content.starts_with("- ") {
            list = Some(indent);
            continue;
        }
        if let Some(words) = content.strip_prefix('#') {
            comment.push(words.trim().to_owned());
            continue;
        }
        list = None;
        let Some((key, rest)) = content.split_once(':') else { continue };
        open_keys.retain(|(outer, _)| *outer < indent);
        if let Some(parent) =
            found.iter_mut().rev().find(|entry| entry.path.len() == open_keys.len())
        {
            parent.has_members = !open_keys.is_empty();
        }
        open_keys.push((indent, key.trim_matches('"').to_owned()));
        let trailing = rest.split_once(" # ").map(|(_, words)| words.trim().to_owned());
        let path = open_keys.iter().map(|(_, key)| key.clone()).collect();
        let comment = std::mem::take(&mut comment).join(" ");
        found.push(Entry { path, comment, trailing, has_members: false });
    }
    found
}

/// The type of a value, in the words of JSON Schema.
fn kind(schema: &Value, path: &[String]) -> String {
    let (mut node, mut name) = (schema, None);
    for part in path {
        (name, node) = resolve(schema, &node["properties"][part]);
    }
    if let Some(name) = name {
        return name;
    }
    let words = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        list.iter()
            .filter(|one| !one.is_null() && one.as_str() != Some("null"))
            .map(|one| one.as_str().map_or_else(|| one.to_string(), ToOwned::to_owned))
            .collect()
    };
    if node.get("enum").is_some() {
        return words(&node["enum"]).iter().map(|one| code(one)).collect::<Vec<_>>().join(", ");
    }
    words(&node["type"]).join(" or ")
}

/// Follows a reference to a definition, and returns its name.
fn resolve<'a>(schema: &'a Value, node: &'a Value) -> (Option<String>, &'a Value) {
    let name = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/"));
    match name {
        Some(name) => (Some(name.to_owned()), &schema["definitions"][name]),
        None => (None, node),
    }
}
