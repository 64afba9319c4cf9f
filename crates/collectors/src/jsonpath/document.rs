//! Parses JSON documents.

use crate::jsonpath::{
    ExtractError, Limits,
    quote::unquote,
    scan::{Scanner, number_value},
};

/// Identifies a value of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeId(u32);

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) parent: Option<NodeId>,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    /// `None` if out of the range of 64-bit floats.
    Number(Option<f64>),
    Text(Vec<u8>),
    Array(Vec<NodeId>),
    /// Members sorted by key. Of equal keys, the last one is kept.
    Object(Vec<(Vec<u8>, NodeId)>),
}

/// The values of a document. The first one is the root.
#[derive(Debug)]
pub(crate) struct Document {
    nodes: Vec<Node>,
}

impl Document {
    pub(crate) const ROOT: NodeId = NodeId(0);

    pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Self, ExtractError> {
        if bytes.len() > limits.document_bytes {
            return Err(ExtractError::Document { position: 0, problem: "too large" });
        }
        let scanner = Scanner::new(bytes);
        let mut parser = Parser { scanner, nodes: Vec::new(), depth: 0, limits };
        parser.parse_root()?;
        parser.sort_members();
        Ok(Self { nodes: parser.nodes })
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        // Never used, because IDs are only those of this document's nodes.
        const NULL: Node = Node { parent: None, kind: Kind::Null };
        self.nodes.get(id.0 as usize).unwrap_or(const { &NULL })
    }
}

struct Parser<'d> {
    scanner: Scanner<'d>,
    nodes: Vec<Node>,
    depth: usize,
    limits: &'d Limits,
}

impl Parser<'_> {
    fn error(&self, problem: &'static str) -> ExtractError {
        ExtractError::Document { position: self.scanner.position(), problem }
    }

    fn parse_root(&mut self) -> Result<(), ExtractError> {
        self.parse_value(None)?;
        // ajson accepts further values after a root array or object, and adds them to it.
        while self.scanner.skip_space().is_some() {
            self.expect(b',')?;
            self.parse_member(Document::ROOT)?;
        }
        Ok(())
    }

    /// Sorts the members of objects by key. Of equal keys, keeps the last one.
    fn sort_members(&mut self) {
        for node in &mut self.nodes {
            if let Kind::Object(members) = &mut node.kind {
                members.reverse();
                members.sort_by(|(left, _), (right, _)| left.cmp(right));
                members.dedup_by(|(removed, _), (kept, _)| removed == kept);
            }
        }
    }

    /// Parses an element or a member.
    fn parse_member(&mut self, parent: NodeId) -> Result<(), ExtractError> {
        let key = match self.kind_of(parent) {
            Some(Kind::Array(_)) => None,
            Some(Kind::Object(_)) => Some(self.parse_key()?),
            _ => return Err(self.error("unexpected comma")),
        };
        let child = self.parse_value(Some(parent))?;
        match (self.nodes.get_mut(parent.0 as usize).map(|node| &mut node.kind), key) {
            (Some(Kind::Array(items)), _) => items.push(child),
            (Some(Kind::Object(members)), Some(key)) => members.push((key, child)),
            _ => {}
        }
        Ok(())
    }

    fn kind_of(&self, id: NodeId) -> Option<&Kind> {
        self.nodes.get(id.0 as usize).map(|node| &node.kind)
    }

    fn parse_value(&mut self, parent: Option<NodeId>) -> Result<NodeId, ExtractError> {
        let first = self.scanner.skip_space();
        let simple = match first {
            None => return Err(self.error("unexpected end")),
            Some(b'{') => return self.parse_container(parent, Kind::Object(Vec::new()), b'}'),
            Some(b'[') => return self.parse_container(parent, Kind::Array(Vec::new()), b']'),
            Some(b'"') => Kind::Text(self.parse_string()?),
            Some(b'-' | b'0'..=b'9') => {
                let number = self.scanner.take_number();
                let number = number.ok_or_else(|| self.error("invalid number"))?;
                Kind::Number(number_value(number))
            }
            Some(b't') => self.parse_word("true", Kind::Bool(true))?,
            Some(b'f') => self.parse_word("false", Kind::Bool(false))?,
            Some(b'n') => self.parse_word("null", Kind::Null)?,
            Some(_) => return Err(self.error("unexpected character")),
        };
        self.push_node(parent, simple)
    }

    fn push_node(&mut self, parent: Option<NodeId>, kind: Kind) -> Result<NodeId, ExtractError> {
        let id =
            u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < self.limits.values);
        let id = NodeId(id.ok_or_else(|| self.error("too many values"))?);
        self.nodes.push(Node { parent, kind });
        Ok(id)
    }

    /// Parses an array or object. Recursion is bounded by `limits.depth`.
    fn parse_container(
        &mut self,
        parent: Option<NodeId>,
        kind: Kind,
        end: u8,
    ) -> Result<NodeId, ExtractError> {
        self.scanner.advance();
        if self.depth >= self.limits.depth {
            return Err(self.error("nested too deeply"));
        }
        let id = self.push_node(parent, kind)?;
        self.depth += 1;
        self.parse_members(id, end)?;
        self.depth -= 1;
        Ok(id)
    }

    fn parse_members(&mut self, id: NodeId, end: u8) -> Result<(), ExtractError> {
        if self.scanner.skip_space() == Some(end) {
            self.scanner.advance();
            return Ok(());
        }
        loop {
            self.parse_member(id)?;
            if self.scanner.skip_space() == Some(end) {
                self.scanner.advance();
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn parse_key(&mut self) -> Result<Vec<u8>, ExtractError> {
        if self.scanner.skip_space() != Some(b'"') {
            return Err(self.error("expected a key"));
        }
        let key = self.parse_string()?;
        self.scanner.skip_space();
        self.expect(b':')?;
        Ok(key)
    }

    fn parse_string(&mut self) -> Result<Vec<u8>, ExtractError> {
        let quoted = self.scanner.take_quoted(b'"').and_then(|quoted| unquote(quoted, b'"'));
        quoted.ok_or_else(|| self.error("invalid string"))
    }

    fn parse_word(&mut self, word: &str, kind: Kind) -> Result<Kind, ExtractError> {
        if self.scanner.take(word.as_bytes()) { Ok(kind) } else { Err(self.error("invalid word")) }
    }

    fn expect(&mut self, byte: u8) -> Result<(), ExtractError> {
        if self.scanner.take(&[byte]) { Ok(()) } else { Err(self.error("unexpected character")) }
    }
}
