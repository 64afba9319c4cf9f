//! Columns of tables.

use serde_json::{Value, json};

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// `string`, `integer`, `date`.
    pub(super) holds: String,
    /// Only `-o wide` shows it.
    pub(super) is_wide: bool,
}

impl Column {
    /// A column of a built-in table, by its name and whether only `-o wide` shows it; one of whole numbers has a name
    /// that begins with `#`.
    pub(super) fn built_in((name, is_wide): &(&str, bool)) -> Self {
        let (name, holds) =
            name.strip_prefix('#').map_or((*name, "string"), |name| (name, "integer"));
        Self { name: name.to_owned(), holds: holds.to_owned(), is_wide: *is_wide }
    }

    /// The column as a `Table` defines it.
    pub(super) fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        json!({
            "name": self.name, "type": self.holds, "format": format, "description": self.name,
            "priority": i32::from(self.is_wide),
        })
    }
}
