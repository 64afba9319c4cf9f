//! An editable tree of JSON.

use super::Document;

/// A JSON value. Names and leaves are text that may be invalid JSON.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Leaf(String),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Tree {
    pub(crate) fn parse(sample: &str) -> Self {
        Self::new(Document::parse(sample.as_bytes()).expect("a sample is JSON"))
    }

    fn new(document: Document<'_>) -> Self {
        if document.is_list() {
            let elements = document.elements().expect("a list");
            return Self::List(elements.into_iter().map(Self::new).collect());
        }
        if document.is_object() {
            let members = document.members().expect("an object").into_iter();
            return Self::Object(
                members.map(|(name, value)| (quote(&name), Self::new(value))).collect(),
            );
        }
        Self::Leaf(document.text().to_owned())
    }

    pub(crate) fn child_count(&self) -> usize {
        match self {
            Self::Leaf(_) => 0,
            Self::List(elements) => elements.len(),
            Self::Object(members) => members.len(),
        }
    }

    /// The number of nodes, this one included.
    pub(crate) fn node_count(&self) -> usize {
        1 + match self {
            Self::Leaf(_) => 0,
            Self::List(elements) => elements.iter().map(Self::node_count).sum(),
            Self::Object(members) => {
                members.iter().map(|(_, value)| value.node_count()).sum::<usize>()
            }
        }
    }

    /// A node by its position in the text. 0 is this one.
    pub(crate) fn node(&mut self, at: usize) -> &mut Self {
        let mut rest = at;
        self.find(&mut rest).expect("a node")
    }

    fn find(&mut self, rest: &mut usize) -> Option<&mut Self> {
        if *rest == 0 {
            return Some(self);
        }
        *rest -= 1;
        match self {
            Self::Leaf(_) => None,
            Self::List(elements) => elements.iter_mut().find_map(|it| it.find(rest)),
            Self::Object(members) => members.iter_mut().find_map(|(_, value)| value.find(rest)),
        }
    }

    /// All names in the text, in their order.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Leaf(_) => Vec::new(),
            Self::List(elements) => elements.iter().flat_map(Self::names).collect(),
            Self::Object(members) => members
                .iter()
                .flat_map(|(name, value)| [vec![name.clone()], value.names()].concat())
                .collect(),
        }
    }

    /// Writes the tree with `space` between the tokens, except in empty lists and objects.
    pub(crate) fn write(&self, text: &mut String, space: &str) {
        match self {
            Self::Leaf(leaf) => text.push_str(leaf),
            Self::List(elements) => {
                text.push('[');
                for (at, element) in elements.iter().enumerate() {
                    text.push_str(if at > 0 { "," } else { "" });
                    text.push_str(space);
                    element.write(text, space);
                    text.push_str(space);
                }
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    text.push_str(if at > 0 { "," } else { "" });
                    for part in [space, name, space, ":", space] {
                        text.push_str(part);
                    }
                    value.write(text, space);
                    text.push_str(space);
                }
                text.push('}');
            }
        }
    }
}

/// A string as JSON.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string serializes")
}

/// The JSON of a string with every character escaped. Other JSON is returned unchanged.
pub(crate) fn escape(json: &str) -> String {
    let Ok(text) = serde_json::from_str::<String>(json) else { return json.to_owned() };
    let escapes = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    format!("\"{}\"", escapes.collect::<String>())
}
