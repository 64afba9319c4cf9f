//! Parses YAML documents to trees with positions. As in Go's YAML libraries, scalars without quotes
//! have the types of YAML 1.1: `yes` is a boolean.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    rc::Rc,
};

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Tag};

/// The maximum depth of a tree. Aliases count as the trees that they refer to.
const MAX_DEPTH: usize = 64;

/// A position in a file. Lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The number of the line.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The positions of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions(
    /// By the path of the field, such as `rules[0].name.matches`.
    pub BTreeMap<String, Position>,
);

impl Positions {
    /// The position of a field or, if it is not in the document, of its closest ancestor.
    pub fn get(&self, path: &str) -> Option<Position> {
        self.closest(path).map(|(_, position)| position)
    }

    /// Like [`Self::get`], but also returns the length of the path of the found field.
    pub fn closest(&self, path: &str) -> Option<(usize, Position)> {
        let mut path = path;
        loop {
            if let Some(position) = self.0.get(path) {
                return Some((path.len(), *position));
            }
            let start = if path.ends_with(']') { path.rfind('[') } else { path.rfind('.') };
            path = path.get(..start?)?;
        }
    }
}

/// The error of a text that can't be read as YAML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: unable to read YAML: {message}")]
pub struct YamlError {
    /// The position at which the parser stopped.
    pub position: Position,
    /// The problem, without the position.
    pub message: String,
}

/// A node of a document. An alias shares the node of its anchor.
#[derive(Debug)]
pub struct Node {
    /// The position at which the node starts. For an alias, that of its anchor's node.
    pub position: Position,
    /// The depth of the tree that starts at this node, including aliases. 1 for a scalar.
    depth: usize,
    /// The node's scalar or children.
    pub content: Content,
}

/// A scalar, or the children of a collection.
#[derive(Debug)]
pub enum Content {
    /// A single value.
    Scalar(Scalar),
    /// The elements of a list.
    Sequence(Vec<Rc<Node>>),
    /// The keys and the values of a mapping, in the order of the document.
    Mapping(Vec<(Rc<Node>, Rc<Node>)>),
}

/// A single value of a document.
#[derive(Debug)]
pub struct Scalar {
    /// The text without quotes and escapes.
    pub text: String,
    /// Whether the scalar is written without quotes and not as a block.
    pub is_plain: bool,
    /// The suffix of a tag that YAML defines, such as `int` of `!!int`. `str` for any other tag,
    /// and `None` without a tag.
    pub tag: Option<String>,
}

/// The types of scalars that Go's decoding of configurations distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    /// An empty text, `~` or `null`.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites.
    Bool(bool),
    /// Any other text, also a number or a text in quotes.
    Text,
    /// The tag is `null` or `bool` and does not fit the text, or it is `binary`.
    Invalid,
}

impl Scalar {
    /// The type of the scalar, which depends on its text, its quotes and its tag.
    pub fn scalar_type(&self) -> ScalarType {
        match self.tag.as_deref() {
            None if self.is_plain => self.plain_type(),
            Some("null") if self.plain_type() == ScalarType::Null => ScalarType::Null,
            Some("bool") if matches!(self.plain_type(), ScalarType::Bool(_)) => self.plain_type(),
            Some("null" | "bool" | "binary") => ScalarType::Invalid,
            _ => ScalarType::Text,
        }
    }

    /// The type that the text has without quotes and tag.
    pub fn plain_type(&self) -> ScalarType {
        match &*self.text {
            "" | "~" | "null" | "Null" | "NULL" => ScalarType::Null,
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
                ScalarType::Bool(true)
            }
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off"
            | "OFF" => ScalarType::Bool(false),
            _ => ScalarType::Text,
        }
    }

    /// Whether this key is `<<`, which copies the members of another mapping.
    pub fn is_merge_key(&self) -> bool {
        self.text == "<<" && self.is_plain && self.tag.is_none()
            || self.tag.as_deref() == Some("merge")
    }
}

/// Parses the first document. `None` if it is empty or missing.
pub fn parse(text: &str) -> Result<Option<Rc<Node>>, YamlError> {
    parse_documents(text, 1).map(|documents| documents.into_iter().next())
}

/// Parses all documents that aren't empty.
pub fn parse_all(text: &str) -> Result<Vec<Rc<Node>>, YamlError> {
    parse_documents(text, usize::MAX)
}

/// Parses at most `max` documents. Leaves out empty ones, but counts them.
fn parse_documents(text: &str, max: usize) -> Result<Vec<Rc<Node>>, YamlError> {
    let mut builder = Builder { anchors: HashMap::new(), open: Vec::new() };
    let mut documents = Vec::new();
    let mut document_ends = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let start = position(*error.marker());
            let tab = match error.kind() {
                ErrorKind::TabInPlainScalar => indenting_tab(text, start),
                _ => None,
            };
            YamlError { position: tab.unwrap_or(start), message: error.info() }
        })?;
        document_ends += usize::from(matches!(event, Event::DocumentEnd));
        documents.extend(builder.add(event, position(span.start))?);
        if document_ends == max || documents.len() == max {
            break;
        }
    }
    Ok(documents)
}

/// The first tab in an indentation below the start of a scalar. The parser reports the start.
fn indenting_tab(text: &str, start: Position) -> Option<Position> {
    let mut lines = text.lines().enumerate().skip(start.line);
    lines.find_map(|(index, line)| {
        let indented = line.trim_start_matches(' ');
        let is_tab = indented.starts_with('\t') && !indented.trim().is_empty();
        let column = line.len() - indented.len() + 1;
        is_tab.then_some(Position { line: index + 1, column })
    })
}

impl Node {
    /// The value of a member, by its key. `None` if there is no such key, or if the node is not a
    /// mapping.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Content::Mapping(members) = &self.content else { return None };
        let (_, value) = members.iter().find(|(key, _)| key.text() == Some(name))?;
        Some(value)
    }

    /// The text of a scalar. `None` for sequences and mappings.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }
}

fn position(marker: Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// Builds trees from the events of the parser.
struct Builder {
    anchors: HashMap<usize, Rc<Node>>,
    open: Vec<OpenCollection>,
}

/// A sequence or a mapping that is not complete.
struct OpenCollection {
    position: Position,
    anchor: usize,
    is_mapping: bool,
    nodes: Vec<Rc<Node>>,
}

impl Builder {
    /// Adds an event. Returns the document if this event completes it.
    fn add(&mut self, event: Event<'_>, position: Position) -> Result<Option<Rc<Node>>, YamlError> {
        let error = |message: &str| YamlError { position, message: message.to_owned() };
        let too_deep = || error("nested too deeply");
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let scalar = Scalar { text: text.into_owned(), is_plain, tag: tag_suffix(tag) };
                (Rc::new(Node { position, depth: 1, content: Content::Scalar(scalar) }), anchor)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                Some(node) => (node.clone(), 0),
                None => return Err(error("an anchor contains itself")),
            },
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                if self.open.len() == MAX_DEPTH {
                    return Err(too_deep());
                }
                let is_mapping = matches!(event, Event::MappingStart(..));
                self.open.push(OpenCollection { position, anchor, is_mapping, nodes: Vec::new() });
                return Ok(None);
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => open.close().ok_or_else(too_deep)?,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            Some(open) => {
                open.nodes.push(node);
                Ok(None)
            }
            None => Ok(Some(node)),
        }
    }
}

impl OpenCollection {
    /// Returns the complete node and its anchor. `None` if the tree is too deep.
    fn close(self) -> Option<(Rc<Node>, usize)> {
        let depth = self.nodes.iter().map(|node| node.depth).max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return None;
        }
        let content = if self.is_mapping {
            let mut nodes = self.nodes.into_iter();
            let mut members = Vec::new();
            while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
                members.push((key, value));
            }
            Content::Mapping(members)
        } else {
            Content::Sequence(self.nodes)
        };
        Some((Rc::new(Node { position: self.position, depth, content }), self.anchor))
    }
}

/// The suffix of a tag that YAML defines, or `str` for any other tag.
fn tag_suffix(tag: Option<Cow<'_, Tag>>) -> Option<String> {
    let tag = tag?;
    Some(tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or("str".into()).into_owned())
}
