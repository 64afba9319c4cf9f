//! Table columns.

use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// `string`, `integer`, `date`.
    pub(super) data_type: String,
    /// Only `-o wide` shows it.
    pub(super) is_wide: bool,
}

impl Column {
    /// A column of a built-in table, by name and `is_wide`. A name with the prefix `#` makes it a
    /// column of integers.
    pub(super) fn built_in((name, is_wide): &(&str, bool)) -> Self {
        let (name, data_type) =
            name.strip_prefix('#').map_or((*name, "string"), |name| (name, "integer"));
        Self { name: name.to_owned(), data_type: data_type.to_owned(), is_wide: *is_wide }
    }

    /// The column definition in the `Table`.
    pub(super) fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        json!({
            "name": self.name, "type": self.data_type, "format": format, "description": self.name,
            "priority": i32::from(self.is_wide),
        })
    }
}
