//! The values that a template can see.

use std::{collections::BTreeMap, rc::Rc};

/// A value with the type that it has in the reference, where templates are evaluated by reflection.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value: a missing map key, or `nil`.
    Missing,
    Bool(bool),
    Int(i64),
    /// A byte of an indexed string.
    Byte(u8),
    Float(f64),
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
    /// What the method `String` returns. If there is one, the struct is printed with it.
    pub string: Option<Rc<str>>,
}

impl Value {
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|item| item.as_ref().into()).collect())
    }

    /// The name of the type in Go.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Missing => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(_) => "[]string",
            Self::Map(_) => "map[string]string",
            Self::Struct(data) => data.type_name,
        }
    }

    /// Whether `if` takes its first branch: a value that is neither zero nor empty.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Missing => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Byte(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(value) => !value.is_empty(),
            Self::List(items) => !items.is_empty(),
            Self::Map(entries) => !entries.is_empty(),
            Self::Struct(_) => true,
        }
    }
}
