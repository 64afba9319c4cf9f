//! Builds `Table` responses for `kubectl get`.

mod autoscaler;
mod builtin;
mod cell;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::cell::{age, name, since};
use crate::{clock::Clock, error::ApiError, json_fields, request_target::RequestTarget};

/// Computes the cells of an object.
type CellsFn = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of resources without a table of their own.
const DEFAULT_COLUMNS: &str = "Name|Age";

enum RowPrinter {
    BuiltIn(CellsFn),
    /// The `additionalPrinterColumns` of a CRD.
    Crd(Vec<Value>),
}

/// Prints objects of one resource as rows of a `Table`.
pub(crate) struct TablePrinter {
    columns: Vec<Value>,
    rows: RowPrinter,
    include: Include,
    target: RequestTarget,
    clock: Clock,
}

/// The part of the object that a row includes.
#[derive(Clone, Copy, Debug)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

impl TablePrinter {
    pub(crate) fn new(
        target: &RequestTarget,
        include: &str,
        clock: Clock,
    ) -> Result<Self, ApiError> {
        let include = match include {
            "None" => Include::Nothing,
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            other => {
                let rule = "must be 'Metadata', 'Object', 'None', or empty";
                let text = format!(
                    "Unable to convert to Table as requested: includeObject: \
                      Invalid value: \"{other}\": {rule}"
                );
                return Err(ApiError::bad_request(text));
            }
        };
        let custom = &target.served_version()?.columns;
        let (columns, rows) = if custom.is_empty() {
            let (columns, cells) = built_in_table(&target.resource.group, &target.resource.plural);
            let columns = columns.split('|').map(built_in_column).collect();
            (columns, RowPrinter::BuiltIn(cells))
        } else {
            (custom_columns(custom), RowPrinter::Crd(custom.clone()))
        };
        Ok(Self { columns, rows, include, target: target.clone(), clock })
    }

    /// A table with one row per object.
    pub(crate) fn print<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: &Value,
    ) -> Value {
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object)).collect();
        let mut table = self.print_empty(metadata);
        json_fields::set(&mut table, &["rows"], rows);
        table
    }

    /// A table without rows.
    pub(crate) fn print_empty(&self, metadata: &Value) -> Value {
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": self.columns, "rows": [],
        })
    }

    /// Leaves out the column definitions from now on.
    pub(crate) fn omit_columns(&mut self) {
        self.columns.clear();
    }

    fn row(&self, object: &Value) -> Value {
        let now = (self.clock)();
        let cells = match &self.rows {
            RowPrinter::BuiltIn(cells) => cells(object, now),
            RowPrinter::Crd(columns) => custom_cells(columns, object, now),
        };
        let object = match self.include {
            Include::Nothing => return json!({ "cells": cells }),
            Include::Metadata => partial_metadata(object),
            Include::Object => self.target.in_requested_version(object).into_owned(),
        };
        json!({ "cells": cells, "object": object })
    }
}

/// The column names of a built-in resource, separated by bars, and the function for its cells.
fn built_in_table(group: &str, plural: &str) -> (&'static str, CellsFn) {
    match (group, plural) {
        ("autoscaling", "horizontalpodautoscalers") => (autoscaler::COLUMNS, autoscaler::cells),
        ("apps", "deployments") => (builtin::DEPLOYMENT_COLUMNS, builtin::deployment_cells),
        ("apps", "statefulsets") => (builtin::STATEFUL_SET_COLUMNS, builtin::stateful_set_cells),
        ("apps", "replicasets") | ("", "replicationcontrollers") => {
            (builtin::REPLICA_SET_COLUMNS, builtin::replica_set_cells)
        }
        ("", "pods") => (builtin::POD_COLUMNS, builtin::pod_cells),
        ("", "namespaces") => (builtin::NAMESPACE_COLUMNS, builtin::namespace_cells),
        ("", "configmaps") => (builtin::CONFIG_MAP_COLUMNS, builtin::config_map_cells),
        ("", "events") => (builtin::EVENT_COLUMNS, builtin::event_cells),
        _ => (DEFAULT_COLUMNS, |object, now| vec![name(object), age(object, now)]),
    }
}

pub(crate) fn partial_metadata(object: &Value) -> Value {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}

/// The definition of a column in a response.
fn column(name: &str, data_type: &str, is_wide: bool) -> Value {
    let format = if name == "Name" { "name" } else { "" };
    json!({
        "name": name, "type": data_type, "format": format, "description": name,
        "priority": i32::from(is_wide),
    })
}

/// Parses a column name. The prefix `#` marks integers, `+` a column of `-o wide` only.
fn built_in_column(name: &str) -> Value {
    let data_type = if name.starts_with('#') { "integer" } else { "string" };
    column(name.trim_start_matches(['#', '+']), data_type, name.starts_with('+'))
}

fn custom_columns(definitions: &[Value]) -> Vec<Value> {
    let rest = definitions.iter().map(|definition| {
        let is_wide = json_fields::i64_at(definition, "/priority").unwrap_or_default() > 0;
        let [name, data_type] =
            ["/name", "/type"].map(|field| json_fields::str_at(definition, field));
        column(name, data_type, is_wide)
    });
    [built_in_column("Name")].into_iter().chain(rest).collect()
}

fn custom_cells(columns: &[Value], object: &Value, now: Timestamp) -> Vec<Value> {
    let rest = columns.iter().map(|column| {
        let pointer = json_fields::pointer_from_json_path(json_fields::str_at(column, "/jsonPath"));
        let value = object.pointer(&pointer);
        match (json_fields::str_at(column, "/type"), value) {
            ("date", Some(Value::String(time))) => since(time, now).into(),
            (_, value) => value.cloned().unwrap_or_default(),
        }
    });
    [name(object)].into_iter().chain(rest).collect()
}
