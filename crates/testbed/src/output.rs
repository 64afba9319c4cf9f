//! The forms in which objects are shown: as they are, their metadata alone, or as rows of a table.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    json,
    request::Call,
    store::Object,
    table::{Table, metadata_of},
    target::Target,
};

/// The media types that mean JSON.
const JSON: [&str; 3] = ["application/json", "application/*", "*/*"];

/// How to show objects.
#[derive(Debug)]
pub(crate) struct View {
    api_version: String,
    list_kind: String,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Whole,
    Metadata,
    Table(Table),
}

impl View {
    /// What the request accepts.
    pub(crate) fn new(call: &Call, target: &Target, now: Timestamp) -> Result<Self, ApiError> {
        if !is_acceptable(&call.accept) {
            let text = "406: Not Acceptable\n\nAvailable representations: application/json";
            return Err(ApiError::about_nothing(406, "NotAcceptable", text));
        }
        let form = match accepted_form(&call.accept) {
            "Table" => Form::Table(Table::new(target, call.parameter("includeObject"), now)?),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Form::Metadata,
            _ => Form::Whole,
        };
        let api_version = target.resource.api_version(&target.version);
        Ok(Self { api_version, list_kind: target.resource.list_kind.clone(), form })
    }

    /// Ages are reckoned up to this time from now on.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        if let Form::Table(table) = &mut self.form {
            table.set_time(now);
        }
    }

    /// Only the first table of a watch has columns.
    pub(crate) fn columns_sent(&mut self) {
        if let Form::Table(table) = &mut self.form {
            table.drop_columns();
        }
    }

    /// One object.
    pub(crate) fn one(&self, object: &Value) -> Value {
        let object = self.in_version(object);
        match &self.form {
            Form::Whole => object.into_owned(),
            Form::Metadata => metadata_of(&object),
            Form::Table(table) => {
                let version = json::str_at(&object, "/metadata/resourceVersion");
                table.of([&*object], &json!({ "resourceVersion": version }))
            }
        }
    }

    /// A bookmark, whose object has nothing but a version.
    pub(crate) fn bookmark(&self, bookmark: Value) -> Value {
        match &self.form {
            Form::Whole => bookmark,
            Form::Metadata => metadata_of(&bookmark),
            Form::Table(table) => table.empty(bookmark.get("metadata").unwrap_or(&Value::Null)),
        }
    }

    /// A list.
    pub(crate) fn list(&self, objects: &[Object], metadata: &Value) -> Value {
        let shown = objects.iter().map(|object| self.in_version(object));
        match &self.form {
            Form::Whole => {
                let items: Vec<Value> = shown.map(Cow::into_owned).collect();
                json!({ "kind": self.list_kind, "apiVersion": self.api_version, "metadata": metadata, "items": items })
            }
            Form::Metadata => {
                let items: Vec<Value> = shown.map(|object| metadata_of(&object)).collect();
                let (kind, version) = ("PartialObjectMetadataList", "meta.k8s.io/v1");
                json!({ "kind": kind, "apiVersion": version, "metadata": metadata, "items": items })
            }
            Form::Table(table) => {
                let shown: Vec<Cow<'_, Value>> = shown.collect();
                table.of(shown.iter().map(|object| &**object), metadata)
            }
        }
    }

    /// The object in the version that was asked for: versions differ in nothing but their name.
    fn in_version<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        if json::str_at(object, "/apiVersion") == self.api_version {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        json::set(&mut object, &["apiVersion"], self.api_version.as_str());
        Cow::Owned(object)
    }
}

/// Whether an answer in JSON will do.
fn is_acceptable(accept: &str) -> bool {
    let mut types = accept.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
    accept.trim().is_empty() || types.any(|one| JSON.contains(&one))
}

/// The `as` of the first media type that is known.
fn accepted_form(accept: &str) -> &str {
    for media_type in accept.split(',') {
        let mut parts = media_type.split(';').map(str::trim);
        if !parts.next().is_some_and(|media_type| JSON.contains(&media_type)) {
            continue;
        }
        let parameters: Vec<&str> = parts.collect();
        let form = parameters.iter().find_map(|parameter| parameter.strip_prefix("as="));
        match form {
            None => return "",
            Some(form) if parameters.contains(&"v=v1") => return form,
            Some(_) => {}
        }
    }
    ""
}
