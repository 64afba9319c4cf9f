//! Renders objects in responses: full objects, metadata only, or tables.

use std::{borrow::Cow, sync::Arc};

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::{
    clock::Clock,
    error::ApiError,
    json_fields,
    request::ApiRequest,
    request_target::RequestTarget,
    response,
    store::Object,
    table::{TablePrinter, partial_metadata},
};

/// The media types in an `Accept` header that allow JSON.
const JSON_TYPES: [&str; 3] = ["application/json", "application/*", "*/*"];

/// The representation that a request accepts.
pub(crate) struct OutputFormat {
    target: RequestTarget,
    format: Format,
}

enum Format {
    Object,
    PartialMetadata,
    Table(TablePrinter),
}

impl OutputFormat {
    /// Negotiates the representation by the `Accept` header.
    pub(crate) fn new(
        request: &ApiRequest,
        target: &RequestTarget,
        clock: &Clock,
    ) -> Result<Self, ApiError> {
        if !is_acceptable(&request.accept) {
            let text = "406: Not Acceptable\n\nAvailable representations: application/json";
            return Err(ApiError::with_empty_details(406, "NotAcceptable", text));
        }
        let format = match negotiate_format(&request.accept) {
            "Table" => {
                let include = request.parameter("includeObject");
                Format::Table(TablePrinter::new(target, include, Arc::clone(clock))?)
            }
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Format::PartialMetadata,
            _ => Format::Object,
        };
        Ok(Self { target: target.clone(), format })
    }

    /// Leaves out the column definitions of tables. In a watch, only the first table has them.
    pub(crate) fn omit_columns(&mut self) {
        if let Format::Table(table) = &mut self.format {
            table.omit_columns();
        }
    }

    /// A response with an object.
    pub(crate) fn respond(&self, object: &Value, code: StatusCode) -> Response<Body> {
        response::json(code, &self.render_object(object))
    }

    pub(crate) fn render_object<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        let rendered = match &self.format {
            Format::Object => return self.target.in_requested_version(object),
            Format::PartialMetadata => partial_metadata(&self.target.in_requested_version(object)),
            Format::Table(table) => {
                let version = json_fields::str_at(object, "/metadata/resourceVersion");
                table.print([object], &json!({ "resourceVersion": version }))
            }
        };
        Cow::Owned(rendered)
    }

    /// Renders the object of a `BOOKMARK` event.
    pub(crate) fn render_bookmark(&self, bookmark: Value) -> Value {
        match &self.format {
            Format::Object => bookmark,
            Format::PartialMetadata => partial_metadata(&bookmark),
            Format::Table(table) => {
                table.print_empty(bookmark.get("metadata").unwrap_or(&Value::Null))
            }
        }
    }

    pub(crate) fn render_list(&self, objects: &[Object], metadata: &Value) -> Value {
        let versioned = objects.iter().map(|object| self.target.in_requested_version(object));
        match &self.format {
            Format::Object => {
                let items: Vec<Value> = versioned.map(Cow::into_owned).collect();
                let resource = &self.target.resource;
                json!({
                    "kind": resource.list_kind,
                    "apiVersion": resource.api_version(&self.target.version),
                    "metadata": metadata,
                    "items": items,
                })
            }
            Format::PartialMetadata => {
                let items: Vec<Value> = versioned.map(|object| partial_metadata(&object)).collect();
                let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                json!({ "kind": kind, "apiVersion": version, "metadata": metadata, "items": items })
            }
            Format::Table(table) => table.print(objects.iter().map(|object| &**object), metadata),
        }
    }
}

/// Whether the `Accept` header allows JSON.
fn is_acceptable(accept: &str) -> bool {
    let mut types = accept.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
    accept.trim().is_empty() || types.any(|one| JSON_TYPES.contains(&one))
}

/// The `as` parameter of the first JSON media type that is served: one with `v=v1`, or one without
/// `as`, for which the result is `""` (the full object).
fn negotiate_format(accept: &str) -> &str {
    for media_type in accept.split(',') {
        let mut parts = media_type.split(';').map(str::trim);
        if !parts.next().is_some_and(|media_type| JSON_TYPES.contains(&media_type)) {
            continue;
        }
        let parameters: Vec<&str> = parts.collect();
        let format = parameters.iter().find_map(|parameter| parameter.strip_prefix("as="));
        match format {
            None => return "",
            Some(format) if parameters.contains(&"v=v1") => return format,
            Some(_) => {}
        }
    }
    ""
}
