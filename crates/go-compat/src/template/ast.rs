//! The tree of a parsed template.

use std::fmt;

use hpa_calc::go_text::Quoted;

/// The offset of a byte in the template's text.
pub(crate) type Offset = usize;

#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Call(TemplateCall),
}

/// An `if`, `with` or `range`.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipeline: Pipeline,
    pub(crate) body: Vec<Node>,
    /// Empty without an `else`.
    pub(crate) else_body: Vec<Node>,
}

/// `template "name" pipeline`.
#[derive(Debug)]
pub(crate) struct TemplateCall {
    pub(crate) at: Offset,
    pub(crate) name: String,
    pub(crate) pipeline: Option<Pipeline>,
}

/// A list of commands, and the variables that get the last result. Each command gets the result of
/// the one before it.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: Offset,
    /// The variables that are declared or assigned, with their `$`.
    pub(crate) variables: Vec<String>,
    pub(crate) is_assignment: bool,
    pub(crate) commands: Vec<Command>,
}

/// An operand, or a function and its arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) first: Operand,
    pub(crate) arguments: Vec<Operand>,
}

#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) at: Offset,
    pub(crate) term: Term,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Int {
        text: String,
        value: i64,
    },
    Text {
        /// The literal as the template has it.
        quoted: String,
        text: String,
    },
    /// `.A.B`
    Field(Vec<String>),
    /// `$x.A.B`: the name with its `$`, and the fields.
    Variable(String, Vec<String>),
    Function(String),
    /// A pipeline in parentheses.
    Pipeline(Pipeline),
    /// Fields of another term: `(pipeline).A`.
    Chain(Box<Operand>, Vec<String>),
}

impl Pipeline {
    /// Whether the pipeline only inserts one of `fields`, or `index .LabelValuesByName "KEY"` with
    /// a key that `is_key` accepts.
    pub(crate) fn only_inserts(&self, fields: &[&str], is_key: impl Fn(&str) -> bool) -> bool {
        let [command] = &*self.commands else {
            return false;
        };
        let is_field = |term: &Term, names: &[&str]| match term {
            Term::Field(path) => matches!(&**path, [name] if names.contains(&name.as_str())),
            _ => false,
        };
        let is_insertion = match (&command.first.term, &*command.arguments) {
            (first, []) => is_field(first, fields),
            (Term::Function(function), [map, Operand { term: Term::Text { text, .. }, .. }]) => {
                function == "index" && is_field(&map.term, &["LabelValuesByName"]) && is_key(text)
            }
            _ => false,
        };
        is_insertion && self.variables.is_empty()
    }
}

// Formats nodes for error messages.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot => f.write_str("."),
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int { text, .. } => f.write_str(text),
            Self::Text { quoted, .. } => f.write_str(quoted),
            Self::Field(fields) => write_fields(f, fields),
            Self::Variable(name, fields) => {
                f.write_str(name)?;
                write_fields(f, fields)
            }
            Self::Function(name) => f.write_str(name),
            Self::Pipeline(pipeline) => write!(f, "({pipeline})"),
            Self::Chain(operand, fields) => {
                write!(f, "{}", operand.term)?;
                write_fields(f, fields)
            }
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first.term)?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.term))
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            let operator = if self.is_assignment { "=" } else { ":=" };
            write!(f, "{} {operator} ", self.variables.join(", "))?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            let separator = if index > 0 { " | " } else { "" };
            write!(f, "{separator}{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for TemplateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", Quoted(&self.name))?;
        if let Some(pipeline) = &self.pipeline {
            write!(f, " {pipeline}")?;
        }
        f.write_str("}}")
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, fields: &[String]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
