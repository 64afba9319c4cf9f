//! The positions of fields in a YAML document, and the errors of scenario files.

use std::{collections::HashMap, fmt};

use granit_parser::{Event, Marker, Parser};
use serde_saphyr::{MessageFormatter as _, UserMessageFormatter};

use crate::workload::samples_file::SamplesError;

/// A position in a file. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The positions of fields, by their paths, such as `workload.load.sum[0]`.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<String, Position>);

/// A sequence or a mapping whose end has not been read yet.
struct OpenNode {
    path: String,
    /// The index of the next item, or `None` for a mapping.
    item: Option<usize>,
    /// The path of the member whose key was read last. `None` once its value was read.
    member: Option<String>,
}

impl Positions {
    /// Reads the positions of the first document, up to its first syntax error.
    pub(super) fn new(text: &str) -> Self {
        let mut positions = Self::default();
        let mut open: Vec<OpenNode> = Vec::new();
        for event in Parser::new_from_str(text) {
            let Ok((event, span)) = event else { break };
            let at = position(span.start);
            match event {
                Event::Scalar(text, ..) => {
                    positions.add_scalar(&mut open, &text, at);
                }
                Event::Alias(_) => {
                    positions.add_value(&mut open, at);
                }
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    let path = positions.add_value(&mut open, at);
                    let item = matches!(event, Event::SequenceStart(..)).then_some(0);
                    open.push(OpenNode { path, item, member: None });
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                }
                Event::DocumentEnd => break,
                _ => {}
            }
        }
        positions
    }

    fn add_scalar(&mut self, open: &mut [OpenNode], text: &str, at: Position) {
        if let Some(mapping) = open.last_mut().filter(|one| one.is_at_key()) {
            let separator = if mapping.path.is_empty() { "" } else { "." };
            let path = format!("{}{separator}{text}", mapping.path);
            self.0.insert(path.clone(), at);
            mapping.member = Some(path);
        } else {
            self.add_value(open, at);
        }
    }

    /// Adds an item or the value of a member. Returns its path.
    fn add_value(&mut self, open: &mut [OpenNode], at: Position) -> String {
        let Some(parent) = open.last_mut() else { return String::new() };
        match &mut parent.item {
            Some(index) => {
                let path = format!("{}[{index}]", parent.path);
                *index += 1;
                self.0.insert(path.clone(), at);
                path
            }
            None => parent.member.take().unwrap_or_default(),
        }
    }

    /// The position of a field or, if the field is not in the document, of its closest ancestor.
    /// Also returns the length of that field's path.
    pub(super) fn find(&self, path: &str) -> Option<(usize, Position)> {
        let mut path = path;
        loop {
            if let Some(position) = self.0.get(path) {
                return Some((path.len(), *position));
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }
}

impl OpenNode {
    fn is_at_key(&self) -> bool {
        self.item.is_none() && self.member.is_none()
    }
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

#[derive(Debug, thiserror::Error)]
pub enum ScenarioFileError {
    #[error("{}{message}", prefix(*position))]
    Syntax { position: Option<Position>, message: String },
    #[error("the file has {0} documents, but a scenario must be a single one")]
    Documents(usize),
    #[error("{}{path}: {message}", prefix(*position))]
    Field {
        /// The position of the field, or of its closest ancestor in the file.
        position: Option<Position>,
        path: String,
        message: String,
    },
    #[error("{file}: {message}")]
    File { file: String, message: String },
    #[error("{file}")]
    Samples { file: String, source: SamplesError },
}

impl ScenarioFileError {
    pub(super) fn syntax(text: &str, error: &serde_saphyr::Error) -> Self {
        let events = Parser::new_from_str(text).map_while(Result::ok);
        let starts = events.filter(|(event, _)| matches!(event, Event::DocumentStart(..)));
        let documents = starts.count();
        if documents > 1 {
            return Self::Documents(documents);
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
        Self::Syntax { position, message }
    }
}

fn prefix(position: Option<Position>) -> String {
    position.map(|position| format!("{position}: ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_field_has_the_position_of_its_closest_ancestor() {
        let positions = Positions::new("a:\n  b: [1, {c: 2}]\nd:\n- x\n- e: 1\n");
        let find = |path: &str| positions.find(path).map(|(_, at)| (at.line, at.column));
        assert_eq!(find("a.b"), Some((2, 3)));
        assert_eq!(find("a.b[1].c"), Some((2, 11)));
        assert_eq!(find("d[1].e"), Some((5, 3)));
        assert_eq!(find("d[1].missing.too"), Some((5, 3)));
        assert_eq!(find("missing"), None);
    }
}
