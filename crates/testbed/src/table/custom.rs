//! Tables of custom resources, from `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    cell::{name, since},
    column::Column,
};
use crate::json;

pub(super) fn columns(definitions: &[Value]) -> Vec<Column> {
    let first = [Column::built_in(&("Name", false))];
    let rest = definitions.iter().map(|column| {
        let is_wide = json::i64_at(column, "/priority").unwrap_or_default() > 0;
        let [name, data_type] =
            ["/name", "/type"].map(|field| json::str_at(column, field).to_owned());
        Column { name, data_type, is_wide }
    });
    first.into_iter().chain(rest).collect()
}

pub(super) fn cells(columns: &[Value], object: &Value, now: Timestamp) -> Vec<Value> {
    let rest = columns.iter().map(|column| {
        let pointer = json::pointer_from_json_path(json::str_at(column, "/jsonPath"));
        let value = object.pointer(&pointer);
        match (json::str_at(column, "/type"), value) {
            ("date", Some(Value::String(time))) => since(time, now).into(),
            (_, value) => value.cloned().unwrap_or_default(),
        }
    });
    [name(object)].into_iter().chain(rest).collect()
}
