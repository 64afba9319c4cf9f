//! A parser and type checker for PromQL.
//!
//! ```text
//!  query ──► lexer ──► parser (tree) ◄── functions (types of arguments)
//!                        ├──► rules::lint        mistakes in the queries of rules
//!                        ├──► rules::per_object  whether objects can share a query
//!                        └──► restrict           a label for all selectors
//! ```
//!
//! [`parse`] accepts the queries that Prometheus accepts, with few exceptions, such as
//! arithmetic in durations, and too deep nesting or too many operators. It also accepts unknown
//! functions with any arguments, because compatible servers have additional functions.
//! [`Expr::unknown_functions`] reports them.

mod functions;
mod lexer;
mod parser;
mod restrict;
#[cfg(test)]
mod tests;

pub(crate) use functions::{depends_on_other_groups, is_by_series};
pub use parser::{is_one_of, parse, parse_without_regex_checks};
pub use restrict::restrict;

/// The comparison operators.
pub(crate) const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
/// The set operators. Their case doesn't matter.
pub const SET_OPERATORS: [&str; 3] = ["and", "or", "unless"];

/// A mistake in a query, with its byte offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    pub at: usize,
    pub message: String,
}

/// The type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Scalar,
    InstantVector,
    RangeVector,
    Text,
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scalar => "a scalar",
            Self::InstantVector => "an instant vector",
            Self::RangeVector => "a range vector",
            Self::Text => "a string",
        })
    }
}

/// An expression of a query.
#[derive(Clone, Debug)]
pub struct Expr<'q> {
    /// The byte offset of the binary operator or the opening bracket of a range or subquery, or
    /// else of the start of the expression.
    pub at: usize,
    pub node: Node<'q>,
    pub result: Type,
    pub has_offset: bool,
    pub has_at_modifier: bool,
}

#[derive(Clone, Debug)]
pub enum Node<'q> {
    Number,
    /// The contents of a string literal, with escapes.
    Text(&'q str),
    Selector(Selector<'q>),
    /// A selector with a range, a subquery, a signed expression, or one in parentheses.
    Wrapped(Wrapper, Box<Expr<'q>>),
    Call(&'q str, Vec<Expr<'q>>),
    Aggregation(&'q str, Option<Grouping<'q>>, Vec<Expr<'q>>),
    Binary(&'q str, Matching<'q>, Box<[Expr<'q>; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    Range,
    Subquery,
    Sign,
    Parentheses,
}

#[derive(Clone, Debug, Default)]
pub struct Selector<'q> {
    /// The metric name before the braces. Empty if there is none.
    pub name: &'q str,
    pub matchers: Vec<Matcher<'q>>,
    /// The byte offset after the opening brace. `None` without braces.
    pub first_matcher_at: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct Matcher<'q> {
    pub label: &'q str,
    pub operator: &'q str,
    /// The contents of a string literal, with escapes.
    pub value: &'q str,
    /// Whether the matcher accepts series without the label. `false` for a regular expression that
    /// the parser hasn't compiled.
    pub accepts_empty: bool,
    /// The matcher's source text. For a metric name in braces, only the name.
    pub source: &'q str,
}

/// The modifier `by` or `without` of an aggregation.
#[derive(Clone, Debug)]
pub struct Grouping<'q> {
    pub is_by: bool,
    pub labels: Vec<&'q str>,
}

/// The modifiers of a binary operator.
#[derive(Clone, Debug, Default)]
pub struct Matching<'q> {
    /// `true` for `on`, `false` for `ignoring`. Without either modifier, series match on all
    /// labels, and this is `false`.
    pub is_on: bool,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<&'q str>,
    /// The "many" side of `group_left` and `group_right`. Several of its series can match one
    /// series of the other side.
    pub many: Option<Side>,
    /// The labels of `group_left` or `group_right`.
    pub include: Vec<&'q str>,
    /// Whether a comparison has the modifier `bool`: its values are then 0 and 1.
    pub has_bool: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

impl<'q> Expr<'q> {
    /// Calls `visit` with this expression, then with its subexpressions in the order of the query.
    pub fn visit(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        match &self.node {
            Node::Number | Node::Text(_) | Node::Selector(_) => {}
            Node::Wrapped(_, inner) => inner.visit(visit),
            Node::Call(_, arguments) | Node::Aggregation(_, _, arguments) => {
                for argument in arguments {
                    argument.visit(visit);
                }
            }
            Node::Binary(_, _, operands) => {
                for operand in &**operands {
                    operand.visit(visit);
                }
            }
        }
    }

    /// The reason why the result can't be the value of a metric. `None` for a scalar and an instant
    /// vector.
    pub fn value_problem(&self) -> Option<String> {
        matches!(self.result, Type::RangeVector | Type::Text).then(|| {
            let result = self.result;
            format!(
                "the result is {result}, which has no current value: use a function, such as rate"
            )
        })
    }

    /// The functions that Prometheus doesn't have, once for each call.
    pub fn unknown_functions(&self) -> Vec<&'q str> {
        let mut unknown = Vec::new();
        self.visit(&mut |expr| {
            if let Node::Call(name, _) = &expr.node
                && functions::parameters(name).is_none()
            {
                unknown.push(*name);
            }
        });
        unknown
    }

    /// The selectors, in the order of the query.
    pub fn selectors(&self) -> Vec<Selector<'q>> {
        let mut selectors = Vec::new();
        self.visit(&mut |expr| {
            if let Node::Selector(selector) = &expr.node {
                selectors.push(selector.clone());
            }
        });
        selectors
    }
}

impl<'q> Selector<'q> {
    /// The metric name, if the selector has a constant one.
    pub fn metric_name(&self) -> Option<&'q str> {
        if !self.name.is_empty() {
            return Some(self.name);
        }
        let mut matchers = self.matchers.iter();
        let is_name = |matcher: &&Matcher| matcher.label == "__name__" && matcher.operator == "=";
        matchers.find(is_name).map(|matcher| matcher.value)
    }
}
