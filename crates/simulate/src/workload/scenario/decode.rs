//! Decoding of scenario files: the positions of fields, and errors.

use std::fmt::Display;

use hpa_calc::crd::FieldError;
use hpa_go_compat::yaml::{self, Content, Node, Position, Positions};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::workload::field::field_error;

/// The positions of the fields in a document.
pub(crate) fn positions(text: &str) -> Positions {
    let mut positions = Positions::default();
    if let Ok(Some(document)) = yaml::parse(text) {
        add_fields(&mut positions, &document, "", document.position);
    }
    positions
}

/// Adds the fields of a node. `parent` is the position of its closest ancestor outside of aliases.
/// The fields in an alias get this position, because their own one, in the anchor, precedes it.
fn add_fields(positions: &mut Positions, node: &Node, path: &str, parent: Position) {
    match &node.content {
        Content::Scalar(_) => {}
        Content::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                let (path, at) = (format!("{path}[{index}]"), item.position.max(parent));
                positions.0.insert(path.clone(), at);
                add_fields(positions, item, &path, at);
            }
        }
        Content::Mapping(members) => {
            for (key, value) in members {
                let Some(name) = key.text() else { continue };
                let separator = if path.is_empty() { "" } else { "." };
                let (path, at) = (format!("{path}{separator}{name}"), key.position.max(parent));
                positions.0.insert(path.clone(), at);
                add_fields(positions, value, &path, at);
            }
        }
    }
}

/// Reads a scenario file as YAML.
pub(crate) fn read_yaml(text: &str) -> Result<Value, ScenarioFileError> {
    serde_saphyr::from_str(text).map_err(|error| ScenarioFileError::syntax(text, &error))
}

/// Decodes a document of a scenario file.
pub(crate) fn decode<T: DeserializeOwned>(document: Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path();
        let field = if path.iter().len() == 0 { "scenario".to_owned() } else { path.to_string() };
        field_error(field, error.inner())
    })
}

/// The error of a scenario file or of a file that it refers to, with the position or the file.
#[derive(Debug, thiserror::Error)]
#[error("{prefix}{message}")]
pub struct ScenarioFileError {
    /// The position with a colon, or nothing.
    prefix: String,
    message: String,
}

impl ScenarioFileError {
    pub(crate) fn new(position: Option<Position>, message: impl Display) -> Self {
        let prefix = position.map(|position| format!("{position}: ")).unwrap_or_default();
        Self { prefix, message: message.to_string() }
    }

    /// The error without line and column, for a text that the user didn't write.
    pub fn message(&self) -> &str {
        &self.message
    }

    fn syntax(text: &str, error: &serde_saphyr::Error) -> Self {
        let documents = yaml::parse_all(text).map_or(0, |documents| documents.len());
        if documents > 1 {
            let message =
                format!("the file has {documents} documents, but a scenario must be a single one");
            return Self::new(None, message);
        }
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let position = error
            .location()
            .map(|at| Position { line: number(at.line()), column: number(at.column()) });
        let message = match error.without_snippet() {
            serde_saphyr::Error::NonFiniteFloat { value, .. } => {
                format!("{value} is not a finite number: put a quantity in quotes")
            }
            other => format!("unable to read YAML: {}", UserMessageFormatter.format_message(other)),
        };
        Self::new(position, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_field_has_the_position_of_its_closest_ancestor() {
        let positions = positions("a:\n  b: [1, {c: 2}]\nd:\n- x\n- e: 1\n");
        let find = |path: &str| positions.get(path).map(|at| (at.line, at.column));
        assert_eq!(find("a.b"), Some((2, 3)));
        assert_eq!(find("a.b[1].c"), Some((2, 11)));
        assert_eq!(find("d[1].e"), Some((5, 3)));
        assert_eq!(find("d[1].missing.too"), Some((5, 3)));
        assert_eq!(find("missing"), None);
    }

    #[test]
    fn fields_of_an_alias_have_the_position_of_its_closest_ancestor() {
        let positions = positions("a: &x {b: 1}\nc: [*x]\nd: *x\n");
        let find = |path: &str| positions.get(path).map(|at| (at.line, at.column));
        assert_eq!(find("a.b"), Some((1, 8)));
        assert_eq!((find("c[0].b"), find("d.b")), (Some((2, 1)), Some((3, 1))));
        // The field itself is found, not its ancestor.
        assert_eq!(positions.closest("d.b").map(|(length, _)| length), Some(3));
    }
}
