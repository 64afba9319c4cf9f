//! Go's `text/template` with the delimiters `<<` and `>>`, for the templates in rules.
//!
//! ```text
//!  text ──► lexer ──► parser (tree) ──► execute ──► query, label
//!                                          │ functions: index, eq, printf, …
//! ```
//!
//! Syntax, functions, printed values and messages are those of Go. Templates in rules only insert
//! texts, so some features are not supported: `block`, `break`, `continue`, numbers other than
//! decimal integers, character constants, escapes in strings other than `\n`, `\r`, `\t`, `\\` and
//! `\"`, and verbs of `printf` other than `%s`, `%v`, `%q` and `%d`, or with flags. An error names
//! such a feature.
//!
//! Go doesn't limit the time and memory that a template needs. This module limits the length and
//! the nesting of a template, the steps to render it, and the lengths of the output and of all
//! texts that functions return.

mod ast;
mod execute;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, rc::Rc};

use ast::Node;
use hpa_calc::go_text::Quoted;

const LEFT_DELIMITER: &str = "<<";
const RIGHT_DELIMITER: &str = ">>";

/// The maximum length of a template in bytes.
pub const MAX_TEMPLATE_LEN: usize = 1 << 16;
/// The maximum length of the output in bytes, and of all texts that functions return.
const MAX_OUTPUT_LEN: usize = 1 << 24;
/// The maximum depth of nested blocks and parentheses, and of calls of templates.
const MAX_NESTING: usize = 64;
/// The maximum number of steps of a rendering: nodes, pipelines and iterations.
const MAX_STEPS: usize = 100_000;

/// A parsed template.
#[derive(Debug)]
pub struct Template {
    /// The name in error messages.
    name: &'static str,
    text: String,
    trees: parser::Trees,
}

impl Template {
    /// Parses a template. `name` is its name in error messages.
    pub fn parse(name: &'static str, text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE_LEN {
            return Err(TemplateError::TooLong { template: name });
        }
        Ok(Self { name, text: text.to_owned(), trees: parser::parse(name, text)? })
    }

    /// The template as it was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first action that does anything but insert one of `fields`, or insert the value
    /// of `LabelValuesByName` for a key that `is_key` accepts. `None` if there is no such action.
    pub fn first_action_other_than_insertion(
        &self,
        fields: &[&str],
        is_key: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let nodes = self.trees.get(self.name)?;
        nodes.iter().find_map(|node| match node {
            Node::Text(_) => None,
            Node::Action(pipeline) if pipeline.only_inserts(fields, &is_key) => None,
            Node::Action(pipeline) => Some(format!("<<{pipeline}>>")),
            Node::If(branch) => Some(format!("<<if {}>>", branch.pipeline)),
            Node::With(branch) => Some(format!("<<with {}>>", branch.pipeline)),
            Node::Range(branch) => Some(format!("<<range {}>>", branch.pipeline)),
            Node::Call(call) => Some(format!("<<template {}>>", Quoted(&call.name))),
        })
    }

    /// Renders the template with `data` as its dot. Fails if an action fails, or at a limit.
    pub fn render(&self, data: Value) -> Result<String, TemplateError> {
        execute::execute(self, data)
    }
}

/// An error with the text of Go's `text/template`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The syntax is wrong or not supported, or a function is unknown.
    #[error("template: {template}:{line}: {message}")]
    Syntax {
        /// The name of the template.
        template: &'static str,
        /// Starts at 1.
        line: usize,
        /// Go's message, or the name of the unsupported feature.
        message: String,
    },
    /// The template can't be rendered with this data.
    #[error(transparent)]
    Execution(Box<ExecutionError>),
    /// The template is too long. Go has no such limit.
    #[error("template: {template}: more than {MAX_TEMPLATE_LEN} bytes")]
    TooLong {
        /// The name of the template.
        template: &'static str,
    },
}

/// A failed action, with its position. `Display` writes Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "template: {template}:{line}:{column}: executing {} at <{node}>: {message}",
    Quoted(.definition)
)]
pub struct ExecutionError {
    /// The name of the template.
    pub template: &'static str,
    /// The name of the `define` that contains the action, or else that of the template.
    pub definition: String,
    /// Starts at 1.
    pub line: usize,
    /// In bytes, starts at 0.
    pub column: usize,
    /// The part of the template that failed, as Go prints it.
    pub node: String,
    /// The problem, without the position.
    pub message: String,
}

/// A value in a template. Its type in Go is part of messages, because Go evaluates templates by
/// reflection.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A missing map key, or `nil`.
    Missing,
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `string`.
    Text(Rc<str>),
    /// A `[]string`.
    List(Rc<[Rc<str>]>),
    /// A `map[string]string`.
    Map(Rc<BTreeMap<String, String>>),
    /// A `struct`.
    Struct(Rc<Struct>),
}

/// A struct of Go, such as the data of a template.
#[derive(Debug, PartialEq)]
pub struct Struct {
    /// The name of the type in Go, which is part of messages.
    pub type_name: &'static str,
    /// The fields by name, in the order in which Go prints them.
    pub fields: Vec<(&'static str, Value)>,
    /// The result of the method `String`. `None` if the type has no such method: then the fields
    /// are printed.
    pub string: Option<Rc<str>>,
}

impl Value {
    /// A `string`.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// A `[]string`.
    pub fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| item.as_ref().into()).collect())
    }

    /// The total length in bytes of all texts in the value.
    fn text_len(&self) -> usize {
        match self {
            Self::Missing | Self::Bool(_) | Self::Int(_) => 0,
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(|item| item.len()).sum(),
            Self::Map(entries) => entries.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Struct(data) => {
                let fields: usize = data.fields.iter().map(|(_, field)| field.text_len()).sum();
                fields + data.string.as_ref().map_or(0, |string| string.len())
            }
        }
    }

    /// The name of the value's type in Go.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Missing => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Text(_) => "string",
            Self::List(_) => "[]string",
            Self::Map(_) => "map[string]string",
            Self::Struct(data) => data.type_name,
        }
    }

    /// Whether `if` takes its first branch. Zero, false, nil and empty values don't count as true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Text(value) => !value.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Map(entries) => !entries.is_empty(),
            Self::Struct(_) => true,
        }
    }
}

/// Writes the value as Go's verb `%v` does.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&functions::format_value('v', self))
    }
}
