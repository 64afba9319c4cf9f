//! Go's `text/template` with the delimiters `<<` and `>>`, for the data that rules have.
//!
//! Syntax, functions, printed values and messages are those of Go. Not supported are complex and
//! hexadecimal floating-point numbers, and `#`, `%b` and `%x` for floating-point numbers. Sizes are
//! limited, because Go's limits don't protect a process: the length of a template, its nesting, the
//! steps to render it, and its output.

mod ast;
mod error;
mod execute;
mod functions;
mod lexer;
mod literal;
mod parser;
mod print;
#[cfg(test)]
mod tests;
mod value;

use ast::Node;
pub use error::{ExecutionError, TemplateError};
pub use value::{Struct, Value};

const LEFT_DELIMITER: &str = "<<";
const RIGHT_DELIMITER: &str = ">>";

/// The maximum length of a template in bytes.
pub const MAX_TEMPLATE_LEN: usize = 1 << 16;
/// The maximum length of what a template renders in bytes.
pub const MAX_OUTPUT_LEN: usize = 1 << 24;
/// The maximum depth of blocks, parentheses and calls.
const MAX_NESTING: usize = 64;
/// The maximum number of actions that are executed.
const MAX_STEPS: usize = 100_000;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    name: &'static str,
    text: String,
    trees: parser::Trees,
}

impl Template {
    /// Parses a template. The name is part of messages.
    pub fn parse(name: &'static str, text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE_LEN {
            return Err(TemplateError::TooLong { template: name });
        }
        Ok(Self { name, text: text.to_owned(), trees: parser::parse(name, text)? })
    }

    /// The text that was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first action that does more than to insert one of these fields, or a value by a key.
    pub fn first_action_beyond(
        &self,
        fields: &[&str],
        is_key: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let nodes = self.trees.get(self.name)?;
        nodes.iter().find_map(|node| match node {
            Node::Text(_) => None,
            Node::Action(pipeline) if pipeline.inserts(fields, &is_key) => None,
            Node::Action(pipeline) => Some(format!("<<{pipeline}>>")),
            Node::If(branch) => Some(format!("<<if {}>>", branch.pipeline)),
            Node::With(branch) => Some(format!("<<with {}>>", branch.pipeline)),
            Node::Range(branch) => Some(format!("<<range {}>>", branch.pipeline)),
            Node::Call(call) => Some(format!("<<template {:?}>>", call.name)),
            Node::Break | Node::Continue => Some("<<break>>".to_owned()),
        })
    }

    pub fn render(&self, data: Value) -> Result<String, TemplateError> {
        execute::execute(self, data)
    }
}
