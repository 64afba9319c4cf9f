//! Finds the schema of a field.

use serde_json::{Map, Value};

use crate::DefinitionError;

/// The schema at `path` below `root`, for example `spec.metrics[].object.target`; `[]` stands for the items of a list.
pub(crate) fn schema_at<'a>(
    root: &'a mut Value,
    path: &str,
) -> Result<&'a mut Map<String, Value>, DefinitionError> {
    let missing = || DefinitionError::NoSuchField(path.to_owned());
    let mut place = root;
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let (name, items) =
            segment.split_once("[]").map_or((segment, false), |(name, _)| (name, true));
        place =
            place.get_mut("properties").and_then(|all| all.get_mut(name)).ok_or_else(missing)?;
        if items {
            place = place.get_mut("items").ok_or_else(missing)?;
        }
    }
    place.as_object_mut().ok_or_else(missing)
}
