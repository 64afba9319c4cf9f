//! The page of the custom API's fields.

use serde_json::Value;

use super::{Page, code, read_yaml};

pub(super) fn custom_api() -> Page {
    let definition = read_yaml("charts/hpa-controller/files/crd.yaml");
    let version = &definition["spec"]["versions"][0];
    let group = definition["spec"]["group"].as_str().expect("a group");
    let name = version["name"].as_str().expect("a version");
    let mut page = Page::new(
        "custom-api.md",
        &format!("{group}/{name}"),
        "The fields of the [custom API](../custom-api.md): those of `autoscaling/v2`, and the \
         [settings](../settings.md).",
    );
    let schema = &version["schema"]["openAPIV3Schema"];
    for part in ["spec", "status"] {
        page.start_table(Some(&format!("## {part}")), &["field", "type", ""]);
        add_fields(&mut page, part, &schema["properties"][part]);
    }
    page
}

/// Adds a row for each field below `path`, depth first.
fn add_fields(page: &mut Page, path: &str, schema: &Value) {
    let Some(members) = schema["properties"].as_object() else { return };
    for (name, member) in members {
        let path = format!("{path}.{name}");
        let mut path_of_members = path.clone();
        let mut inner = member;
        let mut field_type = type_name(member);
        if member["type"] == "array" {
            inner = &member["items"];
            path_of_members += "[]";
            field_type = format!("list of {}", type_name(inner));
        }
        let description = member["description"].as_str().unwrap_or_default();
        let default = match member.get("default") {
            Some(default) if !default.is_array() && !default.is_object() => {
                format!(" Default: `{default}`.")
            }
            _ => String::new(),
        };
        page.add_row(&[&code(&path), &field_type, &format!("{description}{default}")]);
        page.names.push(path);
        add_fields(page, &path_of_members, inner);
    }
}

/// `quantity`, the allowed values, or a format or type of JSON Schema.
fn type_name(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "quantity".to_owned();
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| code(value.as_str().unwrap_or_default()));
        return values.collect::<Vec<_>>().join(", ");
    }
    schema["format"].as_str().or(schema["type"].as_str()).unwrap_or_default().to_owned()
}
