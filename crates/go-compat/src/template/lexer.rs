//! Splits a template into tokens.

use std::borrow::Cow;

use hpa_calc::go_text::Quoted;

use super::{LEFT_DELIMITER, RIGHT_DELIMITER};
use crate::is_word_char;

const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];
const TRIM_MARKER: char = '-';
/// The length of a trim marker together with the space between it and the action.
const TRIM_MARKER_LEN: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    LeftDelimiter,
    RightDelimiter,
    Space,
    Assign,
    Declare,
    Pipe,
    LeftParen,
    RightParen,
    /// A name that is not a keyword.
    Identifier,
    Keyword,
    Bool,
    Nil,
    Dot,
    /// `.name`
    Field,
    /// `$name`
    Variable,
    /// A text in `"` or in backquotes.
    StringLiteral,
    Number,
    /// Any other printable ASCII character, such as a comma.
    Char,
    /// An error, with its message as the token's text.
    Error,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    /// The offset in the template.
    pub(super) at: usize,
    /// Starts at 1. [`tokenize`] sets it.
    pub(super) line: usize,
    pub(super) text: Cow<'t, str>,
}

impl Token<'_> {
    /// Formats the token for error messages.
    pub(super) fn describe(&self) -> String {
        match self.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Error => self.text.to_string(),
            Kind::Keyword | Kind::Nil | Kind::Dot => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                format!("{}...", Quoted(&start))
            }
            _ => Quoted(&self.text).to_string(),
        }
    }

    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        self.kind == Kind::Keyword && self.text == keyword
    }
}

/// Returns all tokens. The last one is [`Kind::End`] or [`Kind::Error`].
pub(super) fn tokenize(template: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { rest: template, template, start: 0, in_action: false, open_parens: 0 };
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut counted_until = 0;
    loop {
        let mut token = lexer.read_token();
        line += template.get(counted_until..token.at).unwrap_or_default().matches('\n').count();
        counted_until = token.at;
        token.line = line;
        let is_last = matches!(token.kind, Kind::End | Kind::Error);
        tokens.push(token);
        if is_last {
            return tokens;
        }
    }
}

struct Lexer<'t> {
    template: &'t str,
    /// The text that has not been read.
    rest: &'t str,
    /// The offset at which the current token starts.
    start: usize,
    in_action: bool,
    open_parens: usize,
}

impl<'t> Lexer<'t> {
    fn read_token(&mut self) -> Token<'t> {
        loop {
            self.start = self.position();
            if self.in_action {
                return self.read_action_token();
            }
            if let Some(token) = self.read_text() {
                return token;
            }
        }
    }

    fn position(&self) -> usize {
        self.template.len() - self.rest.len()
    }

    fn token(&self, kind: Kind) -> Token<'t> {
        let text = self.template.get(self.start..self.position()).unwrap_or_default();
        Token { kind, at: self.start, line: 0, text: Cow::Borrowed(text) }
    }

    fn error(&self, message: impl Into<String>) -> Token<'t> {
        Token { kind: Kind::Error, at: self.start, line: 0, text: Cow::Owned(message.into()) }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_while(&mut self, is_skipped: impl Fn(char) -> bool) {
        self.rest = self.rest.trim_start_matches(is_skipped);
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip_if(&mut self, is_skipped: impl Fn(char) -> bool) -> bool {
        let skipped = self.peek().filter(|char| is_skipped(*char));
        self.skip(skipped.map_or(0, char::len_utf8));
        skipped.is_some()
    }

    /// Reads the text before an action. If there is none, reads the left delimiter of the action.
    /// Returns `None` after a comment.
    fn read_text(&mut self) -> Option<Token<'t>> {
        let Some((text, after)) = self.rest.split_once(LEFT_DELIMITER) else {
            self.skip(self.rest.len());
            let kind = if self.start == self.template.len() { Kind::End } else { Kind::Text };
            return Some(self.token(kind));
        };
        let trimmed =
            if has_left_trim_marker(after) { text.trim_end_matches(SPACES) } else { text };
        self.skip(trimmed.len());
        if !trimmed.is_empty() {
            let token = self.token(Kind::Text);
            self.skip(text.len() - trimmed.len());
            return Some(token);
        }
        self.skip(text.len());
        self.start = self.position();
        self.read_left_delimiter()
    }

    fn read_left_delimiter(&mut self) -> Option<Token<'t>> {
        self.skip(LEFT_DELIMITER.len());
        let token = self.token(Kind::LeftDelimiter);
        if has_left_trim_marker(self.rest) {
            self.skip(TRIM_MARKER_LEN);
        }
        if self.rest.starts_with("/*") {
            return self.skip_comment();
        }
        self.in_action = true;
        self.open_parens = 0;
        Some(token)
    }

    /// Skips a comment. Returns a token only if the comment is invalid.
    fn skip_comment(&mut self) -> Option<Token<'t>> {
        let Some((_, after)) = self.rest.split_once("*/") else {
            return Some(self.error("unclosed comment"));
        };
        self.rest = after;
        let Some(trims) = self.next_right_delimiter_trims() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        self.read_right_delimiter(trims);
        None
    }

    /// Whether the right delimiter that comes next trims the text after it. `None` if none comes
    /// next.
    fn next_right_delimiter_trims(&self) -> Option<bool> {
        if let Some(after) = self.rest.strip_prefix(SPACES)
            && let Some(after) = after.strip_prefix(TRIM_MARKER)
            && after.starts_with(RIGHT_DELIMITER)
        {
            return Some(true);
        }
        self.rest.starts_with(RIGHT_DELIMITER).then_some(false)
    }

    /// Reads a token inside of an action.
    fn read_action_token(&mut self) -> Token<'t> {
        if let Some(trims) = self.next_right_delimiter_trims() {
            return self.read_right_delimiter(trims);
        }
        let Some(char) = self.peek() else {
            return self.error("unclosed action");
        };
        if is_space(char) {
            return self.read_space();
        }
        let after = self.rest.get(char.len_utf8()..).unwrap_or_default();
        match char {
            '+' | '-' | '0'..='9' => return self.read_number(),
            '.' if after.starts_with(|next: char| next.is_ascii_digit()) => {
                return self.read_number();
            }
            _ if is_word_char(char) => return self.read_word(),
            _ => self.skip(char.len_utf8()),
        }
        match char {
            '=' => self.token(Kind::Assign),
            ':' if self.skip_if(|next| next == '=') => self.token(Kind::Declare),
            ':' => self.error("expected :="),
            '|' => self.token(Kind::Pipe),
            '"' => self.read_quoted_string(),
            '\'' => self.error("character constants are not supported"),
            '`' => self.read_raw_string(),
            '$' => self.read_field_or_variable(Kind::Variable, Kind::Variable),
            '.' => self.read_field_or_variable(Kind::Dot, Kind::Field),
            '(' => {
                self.open_parens += 1;
                self.token(Kind::LeftParen)
            }
            ')' if self.open_parens == 0 => self.error("unexpected right paren"),
            ')' => {
                self.open_parens -= 1;
                self.token(Kind::RightParen)
            }
            ' '..='~' => self.token(Kind::Char),
            _ => {
                self.error(format!("unrecognized character in action: {}", code_point(Some(char))))
            }
        }
    }

    fn read_right_delimiter(&mut self, trims: bool) -> Token<'t> {
        if self.open_parens > 0 {
            return self.error("unclosed left paren");
        }
        self.in_action = false;
        self.skip(if trims { TRIM_MARKER_LEN } else { 0 });
        self.start = self.position();
        self.skip(RIGHT_DELIMITER.len());
        let token = self.token(Kind::RightDelimiter);
        if trims {
            self.skip_while(is_space);
        }
        token
    }

    fn read_space(&mut self) -> Token<'t> {
        // The space in front of a trimming delimiter belongs to the delimiter.
        while self.next_right_delimiter_trims() != Some(true) && self.skip_if(is_space) {}
        self.token(Kind::Space)
    }

    fn read_word(&mut self) -> Token<'t> {
        self.skip_while(is_word_char);
        if !self.is_at_terminator() {
            return self.bad_character_error();
        }
        let token = self.token(Kind::Identifier);
        let kind = match &*token.text {
            "nil" => Kind::Nil,
            "true" | "false" => Kind::Bool,
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range"
            | "template" | "with" => Kind::Keyword,
            _ => Kind::Identifier,
        };
        Token { kind, ..token }
    }

    /// Reads the name after a dot or a dollar. Returns a token of the kind `alone` if no name
    /// follows, and of the kind `named` otherwise.
    fn read_field_or_variable(&mut self, alone: Kind, named: Kind) -> Token<'t> {
        if self.is_at_terminator() {
            return self.token(alone);
        }
        self.skip_while(is_word_char);
        if self.is_at_terminator() { self.token(named) } else { self.bad_character_error() }
    }

    fn bad_character_error(&self) -> Token<'t> {
        self.error(format!("bad character {}", code_point(self.peek())))
    }

    /// Whether a name can end here.
    fn is_at_terminator(&self) -> bool {
        self.peek()
            .is_none_or(|char| is_space(char) || matches!(char, '.' | ',' | '|' | ':' | ')' | '('))
            || self.rest.starts_with(RIGHT_DELIMITER)
    }

    fn read_quoted_string(&mut self) -> Token<'t> {
        loop {
            let char = self.peek();
            self.skip(char.map_or(0, char::len_utf8));
            match char {
                Some('"') => return self.token(Kind::StringLiteral),
                Some('\\') if self.skip_if(|escaped| escaped != '\n') => {}
                None | Some('\n' | '\\') => return self.error("unterminated quoted string"),
                Some(_) => {}
            }
        }
    }

    fn read_raw_string(&mut self) -> Token<'t> {
        let Some((_, after)) = self.rest.split_once('`') else {
            return self.error("unterminated raw quoted string");
        };
        self.rest = after;
        self.token(Kind::StringLiteral)
    }

    fn read_number(&mut self) -> Token<'t> {
        self.skip_if(is_sign);
        let has_leading_zero = self.rest.starts_with('0');
        let digits_start = self.position();
        self.skip_while(|char| char.is_ascii_digit());
        let is_octal = has_leading_zero && self.position() > digits_start + 1;
        let continues = |char| is_word_char(char) || is_sign(char) || char == '.';
        if !is_octal && !self.peek().is_some_and(continues) {
            return self.token(Kind::Number);
        }
        self.skip_while(continues);
        let number = self.token(Kind::Number).text;
        let problem = "only decimal integers are supported";
        self.error(format!("bad number syntax: {}: {problem}", Quoted(&number)))
    }
}

fn is_sign(char: char) -> bool {
    matches!(char, '+' | '-')
}

fn has_left_trim_marker(after_delimiter: &str) -> bool {
    after_delimiter.strip_prefix(TRIM_MARKER).is_some_and(|rest| rest.starts_with(SPACES))
}

fn is_space(char: char) -> bool {
    SPACES.contains(&char)
}

/// A character as Go's verb `%#U` prints it. `None` is the end of the template.
fn code_point(char: Option<char>) -> String {
    match char {
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
        Some(char) => format!("U+{:04X} '{char}'", u32::from(char)),
    }
}
