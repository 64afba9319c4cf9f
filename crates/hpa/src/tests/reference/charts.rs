//! The pages of chart values. Names, defaults and descriptions are from `values.yaml` and its
//! comments, types from `values.schema.json`.

use serde_json::Value;

use super::{Page, code, read_file, read_yaml};

pub(super) fn values(chart: &str, file: &'static str) -> Page {
    let mut page = Page::new(
        file,
        &format!("Values of {chart}"),
        "If a value is `null`, the chart does not set its flag. The flag's own default is in \
         parentheses.",
    );
    let directory = format!("charts/{chart}");
    let values = read_yaml(&format!("{directory}/values.yaml"));
    let schema: Value =
        serde_json::from_str(&read_file(&format!("{directory}/values.schema.json")))
            .expect("a JSON schema");
    page.start_table(None, &["value", "type", "default", ""]);
    for entry in entries(&read_file(&format!("{directory}/values.yaml"))) {
        let default = values.pointer(&entry.pointer()).cloned().unwrap_or_default();
        let is_group =
            default.as_object().is_some_and(|members| !members.is_empty()) && entry.has_members;
        let name = entry.path.join(".");
        if is_group {
            if !entry.comment.is_empty() {
                page.add_row(&[&code(&format!("{name}.*")), "", "", &entry.comment]);
            }
            continue;
        }
        let mut default_cell = code(&default.to_string());
        if let Some(flag_default) = &entry.trailing_comment {
            default_cell = format!("{default_cell} ({flag_default})");
        }
        page.add_row(&[
            &code(&name),
            &type_name(&schema, &entry.path),
            &default_cell,
            &entry.comment,
        ]);
        page.names.push(format!("{chart} {name}"));
    }
    page
}

/// A key of `values.yaml`.
struct Entry {
    path: Vec<String>,
    /// The comment lines before the key.
    comment: String,
    /// After the value, in the same line: the default of the flag, if the value is `null`.
    trailing_comment: Option<String>,
    /// Whether the next key is indented deeper.
    has_members: bool,
}

impl Entry {
    /// The JSON pointer of the value.
    fn pointer(&self) -> String {
        let parts: Vec<String> = self.path.iter().map(|part| part.replace('/', "~1")).collect();
        format!("/{}", parts.join("/"))
    }
}

/// Parses the keys of block mappings. Skips the items of lists: they are the default of the key
/// before them.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut open_keys: Vec<(usize, String)> = Vec::new();
    let mut comment = Vec::new();
    let mut list_indent = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let content = line.trim();
        if content.is_empty() {
            comment.clear();
            continue;
        }
        if list_indent.is_some_and(|list_indent| indent > list_indent) && !content.starts_with('#')
        {
            continue;
        }
        if content.starts_with("- ") {
            list_indent = Some(indent);
            continue;
        }
        if let Some(words) = content.strip_prefix('#') {
            comment.push(words.trim().to_owned());
            continue;
        }
        list_indent = None;
        let Some((key, rest)) = content.split_once(':') else { continue };
        open_keys.retain(|(outer, _)| *outer < indent);
        if let Some(parent) =
            entries.iter_mut().rev().find(|entry| entry.path.len() == open_keys.len())
        {
            parent.has_members = true;
        }
        open_keys.push((indent, key.trim_matches('"').to_owned()));
        let trailing_comment = rest.split_once(" # ").map(|(_, words)| words.trim().to_owned());
        let path = open_keys.iter().map(|(_, key)| key.clone()).collect();
        let comment = std::mem::take(&mut comment).join(" ");
        entries.push(Entry { path, comment, trailing_comment, has_members: false });
    }
    entries
}

/// The type of a value: the name of its definition, its allowed values, or a type of JSON Schema.
fn type_name(schema: &Value, path: &[String]) -> String {
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

/// Follows `$ref`. Returns the definition and its name, or the node itself.
fn resolve<'a>(schema: &'a Value, node: &'a Value) -> (Option<String>, &'a Value) {
    let name = node["$ref"].as_str().and_then(|path| path.strip_prefix("#/definitions/"));
    match name {
        Some(name) => (Some(name.to_owned()), &schema["definitions"][name]),
        None => (None, node),
    }
}
