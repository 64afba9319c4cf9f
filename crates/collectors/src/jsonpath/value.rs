//! The values of an evaluation.

use std::sync::Arc;

use crate::jsonpath::document::{Document, Kind, NodeId};

/// A value of the document or of a calculation.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// No value, for example of a path that selects nothing.
    Missing,
    Null,
    Bool(bool),
    /// `None` if out of the range of 64-bit floats.
    Number(Option<f64>),
    Text(Arc<[u8]>),
    /// A value of the document.
    Node(NodeId),
    /// Several values that a path selects.
    Several(Arc<[Value]>),
    /// A value of the document that was reached through [`Self::Several`]. As in ajson, it is part
    /// of a copy.
    Copy {
        /// The values of [`Self::Several`]: the root of the copy.
        array: Arc<[Value]>,
        /// The element of `array` that contains `node`, or `node` itself.
        element: NodeId,
        node: NodeId,
    },
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

/// The reason that a value is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoNumber {
    OtherType,
    /// Out of the range of 64-bit floats.
    TooLarge,
}

/// The children of a value, in the order of their indices or keys.
pub(crate) struct Children<'v> {
    value: &'v Value,
    nodes: Nodes<'v>,
}

enum Nodes<'v> {
    None,
    Items(&'v [NodeId]),
    Members(&'v [(Vec<u8>, NodeId)]),
    Values(&'v Arc<[Value]>),
}

impl Value {
    pub(crate) fn text(bytes: &[u8]) -> Self {
        Self::Text(bytes.into())
    }

    /// The node of the document, unless the value was calculated.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node(node) | Self::Copy { node, .. } => Some(*node),
            _ => None,
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// The value in the document, unless this value was calculated.
    fn kind<'d>(&self, document: &'d Document) -> Option<&'d Kind> {
        Some(&document.node(self.node()?).kind)
    }

    /// The type. A missing value has the type null.
    pub(crate) fn value_type(&self, document: &Document) -> Type {
        match self {
            Self::Missing | Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Number(_) => Type::Number,
            Self::Text(_) => Type::Text,
            Self::Several(_) => Type::Array,
            Self::Node(node) | Self::Copy { node, .. } => match document.node(*node).kind {
                Kind::Null => Type::Null,
                Kind::Bool(_) => Type::Bool,
                Kind::Number(_) => Type::Number,
                Kind::Text(_) => Type::Text,
                Kind::Array(_) => Type::Array,
                Kind::Object(_) => Type::Object,
            },
        }
    }

    pub(crate) fn is_container(&self, document: &Document) -> bool {
        matches!(self.value_type(document), Type::Array | Type::Object)
    }

    pub(crate) fn number(&self, document: &Document) -> Result<f64, NoNumber> {
        match (self, self.kind(document)) {
            (_, Some(Kind::Number(number))) | (Self::Number(number), _) => {
                number.ok_or(NoNumber::TooLarge)
            }
            _ => Err(NoNumber::OtherType),
        }
    }

    pub(crate) fn as_text<'v>(&'v self, document: &'v Document) -> Option<&'v [u8]> {
        match (self, self.kind(document)) {
            (_, Some(Kind::Text(text))) => Some(text),
            (Self::Text(text), _) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_bool(&self, document: &Document) -> Option<bool> {
        match (self, self.kind(document)) {
            (_, Some(Kind::Bool(value))) | (Self::Bool(value), _) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn children<'v>(&'v self, document: &'v Document) -> Children<'v> {
        let nodes = match (self, self.kind(document)) {
            (_, Some(Kind::Array(items))) => Nodes::Items(items),
            (_, Some(Kind::Object(members))) => Nodes::Members(members),
            (Self::Several(values), _) => Nodes::Values(values),
            _ => Nodes::None,
        };
        Children { value: self, nodes }
    }

    /// A child by its key, which is its index in an array.
    pub(crate) fn child(&self, key: &[u8], document: &Document) -> Option<Self> {
        let children = self.children(document);
        if let Nodes::Members(members) = children.nodes {
            let at = members.binary_search_by(|(other, _)| other.as_slice().cmp(key)).ok()?;
            return members.get(at).map(|(_, node)| self.with_node(*node));
        }
        // Only canonical numbers are keys: `1`, but not `01`.
        let index: usize = std::str::from_utf8(key).ok()?.parse().ok()?;
        if index.to_string().as_bytes() == key { children.get(index) } else { None }
    }

    /// Another node of the same root, such as a child or the parent.
    fn with_node(&self, node: NodeId) -> Self {
        match self {
            Self::Copy { array, element, .. } => {
                Self::Copy { array: array.clone(), element: *element, node }
            }
            _ => Self::Node(node),
        }
    }

    pub(crate) fn parent(&self, document: &Document) -> Option<Self> {
        match self {
            Self::Copy { array, element, node } if element == node => {
                Some(Self::Several(array.clone()))
            }
            _ => document.node(self.node()?).parent.map(|parent| self.with_node(parent)),
        }
    }

    pub(crate) fn root(&self) -> Self {
        match self {
            Self::Copy { array, .. } => Self::Several(array.clone()),
            Self::Node(_) => Self::Node(Document::ROOT),
            other => other.clone(),
        }
    }
}

impl Children<'_> {
    pub(crate) fn len(&self) -> usize {
        match self.nodes {
            Nodes::None => 0,
            Nodes::Items(items) => items.len(),
            Nodes::Members(members) => members.len(),
            Nodes::Values(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        match self.nodes {
            Nodes::None => None,
            Nodes::Items(items) => items.get(index).map(|node| self.value.with_node(*node)),
            Nodes::Members(members) => {
                members.get(index).map(|(_, node)| self.value.with_node(*node))
            }
            Nodes::Values(values) => values.get(index).map(|value| match value.node() {
                Some(node) => Value::Copy { array: values.clone(), element: node, node },
                None => value.clone(),
            }),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The key of a member of an object.
    pub(crate) fn key_at(&self, index: usize) -> Option<&[u8]> {
        let Nodes::Members(members) = self.nodes else { return None };
        members.get(index).map(|(key, _)| key.as_slice())
    }

    /// The key of the member that is this node.
    pub(crate) fn key_of(&self, node: NodeId) -> Option<&[u8]> {
        let Nodes::Members(members) = self.nodes else { return None };
        members.iter().find(|(_, other)| *other == node).map(|(key, _)| key.as_slice())
    }
}
