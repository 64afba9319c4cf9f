//! Paths of fields in a schema.

use serde_json::{Map, Value};

use super::DefinitionError;

/// Finds the schema of the field at `path` in the schema `root`. In `metrics[].object.target`, `[]`
/// stands for the items of the list. An empty path is `root` itself.
pub fn schema_at<'a>(
    root: &'a mut Value,
    path: &str,
) -> Result<&'a mut Map<String, Value>, DefinitionError> {
    let missing = || DefinitionError::NoSuchField(path.to_owned());
    let mut schema = root;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, is_list) =
            segment.split_once("[]").map_or((segment, false), |(name, _)| (name, true));
        schema =
            schema.get_mut("properties").and_then(|all| all.get_mut(name)).ok_or_else(missing)?;
        if is_list {
            schema = schema.get_mut("items").ok_or_else(missing)?;
        }
    }
    schema.as_object_mut().ok_or_else(missing)
}
