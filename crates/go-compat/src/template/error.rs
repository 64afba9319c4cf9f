//! Errors of templates, with the texts of Go's `text/template`.

use std::{error::Error, fmt};

use hpa_calc::go_text::Quoted;

use super::MAX_TEMPLATE_LEN;

/// Why a template can't be parsed or rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The template's syntax is wrong, or it calls an unknown function.
    #[error("template: {template}:{line}: {message}")]
    Syntax {
        /// The name of the template.
        template: &'static str,
        /// The line in the template, starting at 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template can't be rendered with this data.
    #[error(transparent)]
    Execution(Box<ExecutionError>),
    /// The template is longer than [`MAX_TEMPLATE_LEN`]. Go has no limit.
    #[error("template: {template}: more than {MAX_TEMPLATE_LEN} bytes")]
    TooLong {
        /// The name of the template.
        template: &'static str,
    },
}

/// Why a template can't be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionError {
    /// The name of the template.
    pub template: &'static str,
    /// The name of the definition inside of the template, or that of the template.
    pub definition: String,
    /// The line in the template, starting at 1.
    pub line: usize,
    /// The column in bytes, starting at 0.
    pub column: usize,
    /// The part of the template that failed.
    pub node: String,
    /// What is wrong.
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
