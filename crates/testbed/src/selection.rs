//! Selects objects for lists, watches and `deletecollection`.

use hpa_calc::selector::Selector;
use serde_json::Value;

use crate::{
    error::ApiError, json_fields, registry::Resource, request::ApiRequest, store::ObjectId,
};

/// The namespace, label selector and field selector of a request.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    namespace: String,
    labels: Selector,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug)]
struct FieldRequirement {
    pointer: String,
    value: String,
    /// Whether the field must have this value. Otherwise, it must not have it.
    must_equal: bool,
}

impl Selection {
    pub(crate) fn new(request: &ApiRequest, resource: &Resource) -> Result<Self, ApiError> {
        let terms = request.parameter("fieldSelector").split(',').filter(|term| !term.is_empty());
        let fields = terms.map(|term| parse_field_requirement(term, resource));
        Ok(Self {
            namespace: request.info.namespace.clone(),
            labels: parse_label_selector(request.parameter("labelSelector"))?,
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn matches(&self, id: &ObjectId, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == id.0)
            && matches_labels(&self.labels, object)
            && self.fields.iter().all(|field| {
                (json_fields::str_at(object, &field.pointer) == field.value) == field.must_equal
            })
    }
}

pub(crate) fn matches_labels(selector: &Selector, object: &Value) -> bool {
    if selector.is_empty() {
        return true;
    }
    let labels = object.pointer("/metadata/labels");
    selector.matches_by(|key| labels?.get(key)?.as_str())
}

pub(crate) fn parse_label_selector(text: &str) -> Result<Selector, ApiError> {
    Selector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))
}

fn parse_field_requirement(term: &str, resource: &Resource) -> Result<FieldRequirement, ApiError> {
    let (name, value, must_equal) = if let Some((name, value)) = term.split_once("!=") {
        (name, value, false)
    } else if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (name, value, true)
    } else {
        let text = format!("invalid selector: '{term}'; can't understand '{term}'");
        return Err(ApiError::bad_request(text));
    };
    if !is_selectable(name, resource) {
        return Err(ApiError::bad_request(not_selectable(name, resource)));
    }
    // Events are selected by the component of their source.
    let path = if name == "source" { "source.component" } else { name };
    Ok(FieldRequirement {
        pointer: format!("/{}", path.replace('.', "/")),
        value: value.to_owned(),
        must_equal,
    })
}

/// The error message for a field that can't be selected. As in kube-apiserver, its text depends on
/// the resource.
fn not_selectable(field: &str, resource: &Resource) -> String {
    let with_field_labels = ["pods", "namespaces", "services", "events", "replicationcontrollers"];
    if resource.is_custom || with_field_labels.contains(&resource.plural.as_str()) {
        return format!("field label not supported: {field}");
    }
    let selectable = "only \"metadata.name\", \"metadata.namespace\"";
    format!("\"{field}\" is not a known field selector: {selectable}")
}

fn is_selectable(field: &str, resource: &Resource) -> bool {
    match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced,
        "status.phase" => resource.is("", "pods") || resource.is("", "namespaces"),
        "spec.nodeName" | "spec.restartPolicy" | "status.podIP" => resource.is("", "pods"),
        "reason" | "type" | "source" | "reportingComponent" => resource.is("", "events"),
        "spec.clusterIP" | "spec.type" => resource.is("", "services"),
        "status.replicas" => resource.is("", "replicationcontrollers"),
        _ => resource.is("", "events") && field.starts_with("involvedObject."),
    }
}
