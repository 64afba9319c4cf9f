//! Tables as `kubectl get` prints them.

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

/// A function that makes the cells of an object.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

const AGE: &[(&str, bool)] = &[("Name", false), ("Age", false)];

#[derive(Debug)]
enum Rows {
    BuiltIn(Cells),
    Custom(Vec<Value>),
}

/// How the objects of a resource are put into a table.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Rows,
    include: Include,
    now: Timestamp,
}

/// What of the object a row holds.
#[derive(Clone, Copy, Debug)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Table {
    pub(crate) fn new(target: &Target, include: &str, now: Timestamp) -> Result<Self, ApiError> {
        let include = match include {
            "None" => Include::Nothing,
            "" | "Metadata" => Include::Metadata,
            "Object" => Include::Object,
            other => {
                let why = "must be 'Metadata', 'Object', 'None', or empty";
                let text = format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": {why}"
                );
                return Err(ApiError::bad_request(text));
            }
        };
        let custom = &target.served()?.columns;
        let (columns, rows) = if custom.is_empty() {
            let (columns, cells) = built_in(&target.resource.group, &target.resource.plural);
            let columns = columns.iter().map(Column::built_in).collect();
            (columns, Rows::BuiltIn(cells))
        } else {
            (custom::columns(custom), Rows::Custom(custom.clone()))
        };
        Ok(Self { columns, rows, include, now })
    }

    /// A table with a row for each object.
    pub(crate) fn of<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: &Value,
    ) -> Value {
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object)).collect();
        let mut table = self.empty(metadata);
        json::set(&mut table, &["rows"], rows);
        table
    }

    /// A table without a row.
    pub(crate) fn empty(&self, metadata: &Value) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(Column::definition).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": columns, "rows": [],
        })
    }

    /// Ages are reckoned up to this time from now on.
    pub(crate) fn set_time(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// From now on tables have no columns.
    pub(crate) fn drop_columns(&mut self) {
        self.columns.clear();
    }

    fn row(&self, object: &Value) -> Value {
        let cells = match &self.rows {
            Rows::BuiltIn(cells) => cells(object, self.now),
            Rows::Custom(columns) => custom::cells(columns, object, self.now),
        };
        let object = match self.include {
            Include::Nothing => return json!({ "cells": cells }),
            Include::Metadata => metadata_of(object),
            Include::Object => object.clone(),
        };
        json!({ "cells": cells, "object": object })
    }
}

fn built_in(group: &str, plural: &str) -> (&'static [(&'static str, bool)], Cells) {
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
pub(crate) fn metadata_of(object: &Value) -> Value {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata })
}
