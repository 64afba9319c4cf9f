//! `Table` responses, as printed by `kubectl get`.

mod autoscaler;
mod cell;
mod column;
mod custom;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::{
    cell::{age, name},
    column::Column,
};
use crate::{error::ApiError, json, target::Target};

/// Computes the cells of an object.
type CellsFn = fn(&Value, Timestamp) -> Vec<Value>;

const AGE: &[(&str, bool)] = &[("Name", false), ("Age", false)];

#[derive(Debug)]
enum RowPrinter {
    BuiltIn(CellsFn),
    Crd(Vec<Value>),
}

/// Prints objects of one resource as rows of a `Table`.
#[derive(Debug)]
pub(crate) struct TablePrinter {
    columns: Vec<Column>,
    rows: RowPrinter,
    include: Include,
    target: Target,
    now: Timestamp,
}

/// Which part of the object a row includes.
#[derive(Clone, Copy, Debug)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

impl TablePrinter {
    pub(crate) fn new(target: &Target, include: &str, now: Timestamp) -> Result<Self, ApiError> {
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
            let (columns, cells) = built_in(&target.resource.group, &target.resource.plural);
            let columns = columns.iter().map(Column::built_in).collect();
            (columns, RowPrinter::BuiltIn(cells))
        } else {
            (custom::columns(custom), RowPrinter::Crd(custom.clone()))
        };
        Ok(Self { columns, rows, include, target: target.clone(), now })
    }

    /// A table with one row per object.
    pub(crate) fn print<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: &Value,
    ) -> Value {
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object)).collect();
        let mut table = self.empty(metadata);
        json::set(&mut table, &["rows"], rows);
        table
    }

    /// A table without rows.
    pub(crate) fn empty(&self, metadata: &Value) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(Column::definition).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": columns, "rows": [],
        })
    }

    /// Sets the time that ages refer to.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Leaves out the column definitions from now on.
    pub(crate) fn omit_columns(&mut self) {
        self.columns.clear();
    }

    fn row(&self, object: &Value) -> Value {
        let cells = match &self.rows {
            RowPrinter::BuiltIn(cells) => cells(object, self.now),
            RowPrinter::Crd(columns) => custom::cells(columns, object, self.now),
        };
        let object = match self.include {
            Include::Nothing => return json!({ "cells": cells }),
            Include::Metadata => partial_metadata(object),
            Include::Object => self.target.in_requested_version(object).into_owned(),
        };
        json!({ "cells": cells, "object": object })
    }
}

fn built_in(group: &str, plural: &str) -> (&'static [(&'static str, bool)], CellsFn) {
    match (group, plural) {
        ("autoscaling", "horizontalpodautoscalers") => (autoscaler::COLUMNS, autoscaler::cells),
        ("apps", "deployments") => (workload::DEPLOYMENT, workload::deployment),
        ("apps", "statefulsets") => (workload::STATEFUL_SET, workload::stateful_set),
        ("apps", "replicasets") | ("", "replicationcontrollers") => {
            (workload::REPLICA_SET, workload::replica_set)
        }
        ("", "pods") => (workload::POD, workload::pod),
        ("", "namespaces") => (workload::NAMESPACE, workload::namespace),
        ("", "configmaps") => (workload::CONFIG_MAP, workload::config_map),
        ("", "events") => (workload::EVENT, workload::event),
        _ => (AGE, |object, now| vec![name(object), age(object, now)]),
    }
}

/// The `PartialObjectMetadata` of an object.
pub(crate) fn partial_metadata(object: &Value) -> Value {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}
