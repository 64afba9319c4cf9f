//! Go's `text/template` with the delimiters `<<` and `>>`, for the data of rules.
//!
//! ```text
//!  text ──► lexer ──► parser (tree) ──► execute ──► query, label
//!                                          │ functions: index, eq, printf, …
//! ```
//!
//! Syntax, functions, printed values and messages are those of Go. Templates of rules only insert
//! texts. The parser rejects features that they don't need, and names the feature in the error:
//! `block`, `break`, `continue`, numbers other than decimal integers, characters, and verbs of
//! `printf` other than `%s`, `%v`, `%q` and `%d` or with flags.
//!
//! Go's own limits don't protect a process. This module therefore limits the length and the nesting
//! of a template, the steps to render it, and the lengths of the output and of all texts that
//! functions return.

mod ast;
mod execute;
mod functions;
mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, error::Error, fmt, rc::Rc};

use ast::Node;
use hpa_calc::go_text::Quoted;

const LEFT_DELIMITER: &str = "<<";
const RIGHT_DELIMITER: &str = ">>";

/// The maximum length of a template in bytes.
pub const MAX_TEMPLATE_LEN: usize = 1 << 16;
/// The maximum length of the output in bytes, and of all texts that functions return.
pub const MAX_OUTPUT_LEN: usize = 1 << 24;
/// The maximum depth of blocks, parentheses and calls.
const MAX_NESTING: usize = 64;
/// The maximum number of actions that are executed.
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
    pub fn parse(name: &'static str, text: &str) -> Result<Self, TemplateError> {
        if text.len() > MAX_TEMPLATE_LEN {
            return Err(TemplateError::TooLong { template: name });
        }
        Ok(Self { name, text: text.to_owned(), trees: parser::parse(name, text)? })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first action that does more than insert one of these fields, or the value of
    /// `LabelValuesByName` for a key that `is_key` accepts.
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
        })
    }

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
    Syntax { template: &'static str, line: usize, message: String },
    /// The template can't be rendered with this data.
    #[error(transparent)]
    Execution(Box<ExecutionError>),
    /// The template is too long. Go has no such limit.
    #[error("template: {template}: more than {MAX_TEMPLATE_LEN} bytes")]
    TooLong { template: &'static str },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionError {
    pub template: &'static str,
    /// The name of the definition inside the template, or that of the template.
    pub definition: String,
    /// Starts at 1.
    pub line: usize,
    /// In bytes, starts at 0.
    pub column: usize,
    /// The part of the template that failed.
    pub node: String,
    pub message: String,
}

impl fmt::Display for ExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { template, definition, line, column, node, message } = self;
        let definition = Quoted(definition);
        write!(f, "template: {template}:{line}:{column}: ")?;
        write!(f, "executing {definition} at <{node}>: {message}")
    }
}

impl Error for ExecutionError {}

/// A value with its type in the reference, where templates are evaluated by reflection.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A missing map key, or `nil`.
    Missing,
    Bool(bool),
    Int(i64),
    Text(Rc<str>),
    List(Rc<[Rc<str>]>),
    Map(Rc<BTreeMap<String, String>>),
    Struct(Rc<Struct>),
}

/// The data of a template.
#[derive(Debug, PartialEq)]
pub struct Struct {
    /// The name of the type in the reference, which is part of its messages.
    pub type_name: &'static str,
    pub fields: Vec<(&'static str, Value)>,
    /// The result of the method `String`, which prints the struct if there is one.
    pub string: Option<Rc<str>>,
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| item.as_ref().into()).collect())
    }

    /// The length of all texts in bytes.
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

    /// The name of the type in Go.
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

    /// Whether `if` takes its first branch: the value is neither zero nor empty.
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

/// Go's `%v`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("<nil>"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::List(items) => write!(f, "[{}]", items.join(" ")),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{key}:{value}"));
                write!(f, "map[{}]", entries.collect::<Vec<_>>().join(" "))
            }
            Self::Struct(data) => {
                if let Some(string) = &data.string {
                    return f.write_str(string);
                }
                let fields = data.fields.iter().map(|(_, field)| field.to_string());
                write!(f, "{{{}}}", fields.collect::<Vec<_>>().join(" "))
            }
        }
    }
}
