//! Parses tokens to a tree, with the checks and messages of Go's `text/template/parse`.

mod pipeline;

use std::{borrow::Cow, collections::BTreeMap, mem};

use hpa_calc::go_text::Quoted;

use super::{
    MAX_NESTING, TemplateError,
    ast::{Branch, Node, TemplateCall},
    lexer::{Kind, Token, tokenize},
};

/// The trees of a template and of its definitions, by name.
pub(super) type Trees = BTreeMap<String, Vec<Node>>;

pub(super) fn parse(name: &'static str, text: &str) -> Result<Trees, TemplateError> {
    let (tokens, variables) = (tokenize(text), vec!["$".to_owned()]);
    let mut parser = Parser { name, tokens, variables, ..Parser::default() };
    let root = parser.parse_top_level()?;
    parser.add_tree(name.to_owned(), root)?;
    Ok(parser.trees)
}

#[derive(Default)]
struct Parser<'t> {
    name: &'static str,
    tokens: Vec<Token<'t>>,
    /// The index of the next token.
    next: usize,
    /// The variables in scope.
    variables: Vec<String>,
    /// The line on which the current action starts.
    action_line: Option<usize>,
    nesting: usize,
    trees: Trees,
}

/// A node, or the `end` or `else` that ends a list of nodes.
enum Item {
    Node(Node),
    End,
    Else,
}

type Result<T, E = TemplateError> = std::result::Result<T, E>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        let token = self.tokens.get(self.next).or(self.tokens.last());
        token.cloned().unwrap_or(Token { kind: Kind::End, at: 0, line: 1, text: Cow::Borrowed("") })
    }

    fn advance(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn advance_non_space(&mut self) -> Token<'t> {
        self.skip_spaces();
        self.advance()
    }

    fn peek_non_space(&mut self) -> Token<'t> {
        self.skip_spaces();
        self.peek()
    }

    fn skip_spaces(&mut self) {
        while self.peek().kind == Kind::Space {
            self.next += 1;
        }
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        let line = self.tokens.get(self.next.saturating_sub(1)).or(self.tokens.last());
        let line = line.map_or(1, |token| token.line);
        Err(TemplateError::Syntax { template: self.name, line, message: message.into() })
    }

    fn unexpected<T>(&self, token: &Token<'_>, context: &str) -> Result<T> {
        match token.kind {
            Kind::Error => {
                let message = token.describe();
                let Some(line) = self.action_line.filter(|line| *line != token.line) else {
                    return self.error(message);
                };
                let relation = if message.ends_with(" action") { "" } else { " in action" };
                self.error(format!("{message}{relation} started at {}:{line}", self.name))
            }
            _ => self.error(format!("unexpected {} in {context}", token.describe())),
        }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<()> {
        let token = self.advance_non_space();
        if token.kind == kind { Ok(()) } else { self.unexpected(&token, context) }
    }

    /// Calls `parse` one level deeper. Fails at the maximum depth, which fits a small stack.
    fn with_nesting<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.nesting == MAX_NESTING {
            return self.error("max expression depth exceeded");
        }
        self.nesting += 1;
        let result = parse(self);
        self.nesting -= 1;
        result
    }

    fn parse_top_level(&mut self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::End {
            if self.peek().kind == Kind::LeftDelimiter && self.parse_definition()? {
                continue;
            }
            match self.parse_text_or_action()? {
                Item::Node(node) => nodes.push(node),
                Item::End => return self.error("unexpected {{end}}"),
                Item::Else => return self.error("unexpected {{else}}"),
            }
        }
        Ok(nodes)
    }

    /// Parses a `define`, and returns whether there was one. Outer variables are not visible in its
    /// body.
    fn parse_definition(&mut self) -> Result<bool> {
        let start = self.next;
        self.next += 1;
        if !self.advance_non_space().is_keyword("define") {
            self.next = start;
            return Ok(false);
        }
        let token = self.advance_non_space();
        let name = self.parse_template_name(&token, "define clause")?;
        self.expect(Kind::RightDelimiter, "define clause")?;
        let variables = mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let (nodes, end) = self.with_nesting(Self::parse_nodes)?;
        if matches!(end, Item::Else) {
            return self.error("unexpected {{else}} in define clause");
        }
        self.variables = variables;
        self.add_tree(name, nodes)?;
        Ok(true)
    }

    fn add_tree(&mut self, name: String, nodes: Vec<Node>) -> Result<()> {
        match self.trees.get(&name) {
            Some(existing) if !is_empty_tree(existing) => {
                if is_empty_tree(&nodes) {
                    return Ok(());
                }
                let quoted = Quoted(&name);
                self.error(format!("template: multiple definition of template {quoted}"))
            }
            _ => {
                self.trees.insert(name, nodes);
                Ok(())
            }
        }
    }

    /// Parses nodes up to an `end` or `else`, and returns it as well.
    fn parse_nodes(&mut self) -> Result<(Vec<Node>, Item)> {
        let mut nodes = Vec::new();
        while self.peek_non_space().kind != Kind::End {
            match self.parse_text_or_action()? {
                Item::Node(node) => nodes.push(node),
                end => return Ok((nodes, end)),
            }
        }
        self.error("unexpected EOF")
    }

    fn parse_text_or_action(&mut self) -> Result<Item> {
        let token = self.advance_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.into_owned()))),
            Kind::LeftDelimiter => {
                self.action_line = Some(token.line);
                let item = self.parse_action();
                self.action_line = None;
                item
            }
            _ => self.unexpected(&token, "input"),
        }
    }

    fn parse_action(&mut self) -> Result<Item> {
        let token = self.peek_non_space();
        if token.kind != Kind::Keyword {
            let pipeline = self.parse_pipeline("command", Kind::RightDelimiter)?;
            return Ok(Item::Node(Node::Action(pipeline)));
        }
        self.next += 1;
        Ok(Item::Node(match &*token.text {
            "if" => Node::If(self.parse_branch("if")?),
            "with" => Node::With(self.parse_branch("with")?),
            "range" => Node::Range(self.parse_branch("range")?),
            "template" => Node::Call(self.parse_template_call()?),
            unsupported @ ("block" | "break" | "continue") => {
                return self.error(format!("{{{{{unsupported}}}}} is not supported"));
            }
            "end" => {
                self.expect(Kind::RightDelimiter, "end")?;
                return Ok(Item::End);
            }
            "else" => {
                // `parse_branch_body` parses `else if` and `else with`.
                let next = self.peek_non_space();
                if !next.is_keyword("if") && !next.is_keyword("with") {
                    self.expect(Kind::RightDelimiter, "else")?;
                }
                return Ok(Item::Else);
            }
            _ => return self.unexpected(&token, "command"),
        }))
    }

    fn parse_branch(&mut self, keyword: &'static str) -> Result<Branch> {
        let in_scope = self.variables.len();
        let branch = self.with_nesting(|parser| parser.parse_branch_body(keyword))?;
        self.variables.truncate(in_scope);
        Ok(branch)
    }

    fn parse_branch_body(&mut self, keyword: &'static str) -> Result<Branch> {
        let pipeline = self.parse_pipeline(keyword, Kind::RightDelimiter)?;
        let (body, end) = self.parse_nodes()?;
        if matches!(end, Item::End) {
            return Ok(Branch { pipeline, body, else_body: Vec::new() });
        }
        let is_chained = keyword != "range" && self.peek().is_keyword(keyword);
        let else_body = if is_chained {
            self.next += 1;
            let chained = self.parse_branch(keyword)?;
            vec![if keyword == "if" { Node::If(chained) } else { Node::With(chained) }]
        } else {
            let (nodes, end) = self.parse_nodes()?;
            if matches!(end, Item::Else) {
                return self.error("expected end; found {{else}}");
            }
            nodes
        };
        Ok(Branch { pipeline, body, else_body })
    }

    fn parse_template_call(&mut self) -> Result<TemplateCall> {
        let token = self.advance_non_space();
        let name = self.parse_template_name(&token, "template clause")?;
        let pipeline = if self.peek_non_space().kind == Kind::RightDelimiter {
            self.next += 1;
            None
        } else {
            Some(self.parse_pipeline("template clause", Kind::RightDelimiter)?)
        };
        Ok(TemplateCall { at: token.at, name, pipeline })
    }

    fn parse_template_name(&mut self, token: &Token<'_>, context: &str) -> Result<String> {
        match token.kind {
            Kind::StringLiteral => self.parse_text_literal(token),
            _ => self.unexpected(token, context),
        }
    }

    fn parse_text_literal(&mut self, token: &Token<'_>) -> Result<String> {
        match unquote(&token.text) {
            Some(text) => Ok(text),
            None => self.error(format!("unsupported escape in {}", token.text)),
        }
    }
}

/// The text of a string literal. `None` if it has an escape that is not supported.
fn unquote(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`') {
        return Some(raw.strip_suffix('`')?.replace('\r', ""));
    }
    let mut chars = literal.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut text = String::new();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                escaped @ ('\\' | '"') => escaped,
                _ => return None,
            },
            char => char,
        });
    }
    Some(text)
}

/// Whether a definition consists of white space. Such a definition doesn't replace an earlier one.
fn is_empty_tree(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}
