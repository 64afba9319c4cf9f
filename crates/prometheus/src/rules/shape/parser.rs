//! Parses PromQL and decides, for each expression, whether it is constant or reads each object on
//! its own.

use super::{
    MARKER, NotPerObject,
    functions::{AGGREGATIONS, BY_SERIES, OTHER_AGGREGATIONS, SCALARS, SELECTIONS},
    lexer::Token,
    matching::{self, Matching, Side},
    operand::{Class, Kind, Operand},
};

/// How deep expressions can be nested. The check uses the stack.
const MAX_NESTING: usize = 50;

/// Checks a query. `names` is how often the name of the object occurs in its text.
pub(super) fn check(tokens: &[Token<'_>], label: &str, names: usize) -> Result<(), NotPerObject> {
    let mut parser = Parser { tokens, next: 0, label, selected: 0, depth: 0 };
    let operand = parser.expression(0)?;
    if parser.peek().is_some() {
        return Err(parser.unexpected());
    }
    if names == 0 {
        return Err(NotPerObject::NotSelected);
    }
    if parser.selected != names {
        return Err(NotPerObject::NameElsewhere);
    }
    match operand.class {
        Class::PerObject => Ok(()),
        Class::Constant => Err(NotPerObject::NotSelected),
    }
}

struct Parser<'t, 'q> {
    tokens: &'t [Token<'q>],
    next: usize,
    label: &'t str,
    /// The number of selectors of the object.
    selected: usize,
    depth: usize,
}

/// The labels of `by` or `without`.
struct Grouping<'q> {
    is_by: bool,
    labels: Vec<&'q str>,
}

type Parsed<'q> = Result<Operand<'q>, NotPerObject>;

/// The precedence of a binary operator. A greater one binds more tightly.
fn precedence(token: Token<'_>) -> Option<(&str, u8)> {
    let (Token::Word(operator) | Token::Symbol(operator)) = token else {
        return None;
    };
    let precedence = match &*operator.to_ascii_lowercase() {
        "or" => 1,
        "and" | "unless" => 2,
        "==" | "!=" | "<=" | "<" | ">=" | ">" => 3,
        "+" | "-" => 4,
        "*" | "/" | "%" | "atan2" => 5,
        "^" => 7,
        _ => return None,
    };
    Some((operator, precedence))
}

/// The precedence of a sign: `-a ^ b` is `-(a ^ b)`.
const SIGN: u8 = 6;

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|own| word.eq_ignore_ascii_case(own))
}

impl<'q> Parser<'_, 'q> {
    fn peek(&self) -> Option<Token<'q>> {
        self.tokens.get(self.next).copied()
    }

    fn take(&mut self) -> Option<Token<'q>> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn unexpected(&self) -> NotPerObject {
        NotPerObject::Syntax(match self.peek() {
            Some(Token::Word(text) | Token::Number(text) | Token::Symbol(text)) => text.to_owned(),
            Some(Token::Text(text)) => format!("{text:?}"),
            None => "the end".to_owned(),
        })
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.peek() == Some(Token::Symbol(symbol));
        self.next += usize::from(found);
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(own)) if own.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), NotPerObject> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn expression(&mut self, min: u8) -> Parsed<'q> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.unexpected());
        }
        let mut left = self.signed()?;
        while let Some((operator, precedence)) = self.peek().and_then(precedence)
            && precedence >= min
        {
            self.next += 1;
            let matching = self.matching()?;
            // Only `^` is right-associative.
            let right =
                self.expression(if operator == "^" { precedence } else { precedence + 1 })?;
            if left.kind == Kind::Text || right.kind == Kind::Text {
                return Err(NotPerObject::Syntax(operator.to_owned()));
            }
            left = matching::binary(operator, &matching, &left, &right, self.label)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn signed(&mut self) -> Parsed<'q> {
        if self.accept("-") || self.accept("+") {
            return self.expression(SIGN);
        }
        let operand = self.primary()?;
        self.modifiers()?;
        Ok(operand)
    }

    fn primary(&mut self) -> Parsed<'q> {
        let constant = |kind| Operand::new(Class::Constant, kind);
        match self.peek() {
            Some(Token::Number(_)) => {
                self.next += 1;
                Ok(constant(Kind::Scalar))
            }
            Some(Token::Text(text)) => {
                self.next += 1;
                Ok(Operand { text, ..constant(Kind::Text) })
            }
            Some(Token::Symbol("(")) => {
                self.next += 1;
                let operand = self.expression(0)?;
                self.expect(")")?;
                Ok(operand)
            }
            Some(Token::Symbol("{")) => self.selector(),
            Some(Token::Word(word)) => self.word(word),
            _ => Err(self.unexpected()),
        }
    }

    /// A function, an aggregation, a selector or a number.
    fn word(&mut self, word: &'q str) -> Parsed<'q> {
        let following = self.tokens.get(self.next + 1).copied();
        let is_call = following == Some(Token::Symbol("("));
        let is_grouped =
            matches!(following, Some(Token::Word(word)) if is_one_of(word, &["by", "without"]));
        let is_aggregation = [&AGGREGATIONS[..], &SELECTIONS, &OTHER_AGGREGATIONS]
            .into_iter()
            .any(|names| is_one_of(word, names));
        if is_aggregation && (is_call || is_grouped) {
            self.next += 1;
            return self.aggregation(word);
        }
        if is_call {
            self.next += 1;
            return self.function(word);
        }
        if is_one_of(word, &["inf", "nan"]) {
            self.next += 1;
            return Ok(Operand::new(Class::Constant, Kind::Scalar));
        }
        // Prometheus accepts some keywords as names of metrics.
        let keywords =
            ["by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset"];
        if is_one_of(word, &keywords) || precedence(Token::Word(word)).is_some() {
            return Err(self.unexpected());
        }
        self.next += 1;
        self.selector()
    }

    /// The matchers of a selector, whose name has been read.
    fn selector(&mut self) -> Parsed<'q> {
        let mut class = Class::Constant;
        if self.accept("{") {
            while !self.accept("}") {
                let Some(Token::Word(label)) = self.take() else {
                    self.next -= 1;
                    return Err(self.unexpected());
                };
                let operator = self.take();
                let is_matcher = ["=", "!=", "=~", "!~"]
                    .into_iter()
                    .any(|symbol| operator == Some(Token::Symbol(symbol)));
                let Some(Token::Text(value)) = self.take().filter(|_| is_matcher) else {
                    self.next -= 1;
                    return Err(self.unexpected());
                };
                if value.contains(MARKER) {
                    let selects = label == self.label && value == MARKER;
                    if !selects || operator != Some(Token::Symbol("=")) {
                        return Err(NotPerObject::NameElsewhere);
                    }
                    self.selected += 1;
                    class = Class::PerObject;
                }
                if !self.accept(",") && self.peek() != Some(Token::Symbol("}")) {
                    return Err(self.unexpected());
                }
            }
        }
        Ok(Operand::new(class, Kind::Vector))
    }

    /// Ranges, `offset` and `@`, which select the same times for all series.
    fn modifiers(&mut self) -> Result<(), NotPerObject> {
        loop {
            if self.accept("[") {
                while !self.accept("]") {
                    if !self.accept(":") {
                        self.number()?;
                    }
                }
            } else if self.accept_word("offset") {
                self.accept("-");
                self.number()?;
            } else if self.accept("@") {
                if self.accept_word("start") || self.accept_word("end") {
                    self.expect("(")?;
                    self.expect(")")?;
                } else {
                    self.accept("-");
                    self.number()?;
                }
            } else {
                return Ok(());
            }
        }
    }

    fn number(&mut self) -> Result<(), NotPerObject> {
        match self.peek() {
            Some(Token::Number(_)) => {
                self.next += 1;
                Ok(())
            }
            _ => Err(self.unexpected()),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Operand<'q>>, NotPerObject> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        while !self.accept(")") {
            arguments.push(self.expression(0)?);
            if !self.accept(",") && self.peek() != Some(Token::Symbol(")")) {
                return Err(self.unexpected());
            }
        }
        Ok(arguments)
    }

    /// A list of labels in parentheses.
    fn labels(&mut self) -> Result<Vec<&'q str>, NotPerObject> {
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.accept(")") {
            let Some(Token::Word(label)) = self.peek() else {
                return Err(self.unexpected());
            };
            self.next += 1;
            labels.push(label);
            if !self.accept(",") && self.peek() != Some(Token::Symbol(")")) {
                return Err(self.unexpected());
            }
        }
        Ok(labels)
    }

    fn matching(&mut self) -> Result<Matching<'q>, NotPerObject> {
        self.accept_word("bool");
        let mut matching = Matching { is_on: self.accept_word("on"), ..Matching::default() };
        if !matching.is_on && !self.accept_word("ignoring") {
            return Ok(matching);
        }
        matching.labels = self.labels()?;
        matching.many = if self.accept_word("group_left") {
            Some(Side::Left)
        } else if self.accept_word("group_right") {
            Some(Side::Right)
        } else {
            None
        };
        if matching.many.is_some() && self.peek() == Some(Token::Symbol("(")) {
            let start = self.next;
            // `group_left (a)` can be followed by an operand in parentheses, not by labels.
            match self.labels() {
                Ok(labels) => matching.include = labels,
                Err(_) => self.next = start,
            }
        }
        Ok(matching)
    }

    fn grouping(&mut self) -> Result<Option<Grouping<'q>>, NotPerObject> {
        let is_by = self.accept_word("by");
        if !is_by && !self.accept_word("without") {
            return Ok(None);
        }
        Ok(Some(Grouping { is_by, labels: self.labels()? }))
    }

    fn aggregation(&mut self, name: &str) -> Parsed<'q> {
        let before = self.grouping()?;
        let arguments = self.arguments()?;
        let grouping = if before.is_some() { before } else { self.grouping()? };
        if arguments.iter().all(|argument| argument.class == Class::Constant) {
            return Ok(Operand::new(Class::Constant, Kind::Vector));
        }
        if is_one_of(name, &OTHER_AGGREGATIONS) {
            return Err(NotPerObject::Function(name.to_owned()));
        }
        let has_parameter = is_one_of(name, &SELECTIONS) || name.eq_ignore_ascii_case("quantile");
        if arguments.len() != 1 + usize::from(has_parameter) {
            return Err(NotPerObject::Syntax(name.to_owned()));
        }
        let by_object = grouping
            .is_some_and(|grouping| grouping.labels.contains(&self.label) == grouping.is_by);
        if !by_object {
            let (aggregation, label) = (name.to_owned(), self.label.to_owned());
            return Err(NotPerObject::Aggregation { aggregation, label });
        }
        Ok(Operand::new(Class::PerObject, Kind::Vector))
    }

    fn function(&mut self, name: &str) -> Parsed<'q> {
        let arguments = self.arguments()?;
        if arguments.iter().all(|argument| argument.class == Class::Constant) {
            let kind = if SCALARS.contains(&name) { Kind::Scalar } else { Kind::Vector };
            return Ok(Operand::new(Class::Constant, kind));
        }
        let per_object = Ok(Operand::new(Class::PerObject, Kind::Vector));
        match name {
            // It removes the label `le`.
            "histogram_quantile" => per_object,
            "label_replace" | "label_join" => {
                let target = arguments.get(1).map_or("", |argument| argument.text);
                let is_other = target != self.label && !target.is_empty() && !target.contains('\\');
                if is_other { per_object } else { Err(self.relabeled(name)) }
            }
            _ if BY_SERIES.contains(&name) => per_object,
            _ => Err(NotPerObject::Function(name.to_owned())),
        }
    }

    fn relabeled(&self, function: &str) -> NotPerObject {
        NotPerObject::Relabeled { function: function.to_owned(), label: self.label.to_owned() }
    }
}
