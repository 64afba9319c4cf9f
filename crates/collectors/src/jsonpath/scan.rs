//! Reads numbers, strings, operators, variables and names, as ajson does.

/// The operators, longer ones first.
const OPERATORS: [&str; 21] = [
    "**", "<<", ">>", "&^", "==", "!=", "<=", ">=", "=~", "&&", "||", "*", "/", "%", "&", "+", "-",
    "|", "^", "<", ">",
];

/// Reads a document, path or expression from left to right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<'t> {
    text: &'t [u8],
    position: usize,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self { text, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    pub(crate) fn advance(&mut self) {
        self.position += 1;
    }

    /// The text from a position to the current one.
    pub(crate) fn since(&self, start: usize) -> &'t [u8] {
        self.text.get(start..self.position.min(self.text.len())).unwrap_or_default()
    }

    /// Skips white space. Returns the byte after it.
    pub(crate) fn skip_space(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.position += 1;
        }
        self.peek()
    }

    /// Takes `expected` if it comes next. Returns whether it did.
    pub(crate) fn take(&mut self, expected: &[u8]) -> bool {
        let follows = self.text.get(self.position..).is_some_and(|rest| rest.starts_with(expected));
        if follows {
            self.position += expected.len();
        }
        follows
    }

    pub(crate) fn take_operator(&mut self) -> Option<&'static str> {
        OPERATORS.into_iter().find(|operator| self.take(operator.as_bytes()))
    }

    /// Takes a number in JSON's syntax. `None` if it is incomplete (`1.` or `1e`), or if a control
    /// character other than white space follows.
    pub(crate) fn take_number(&mut self) -> Option<&'t str> {
        let start = self.position;
        self.take(b"-");
        if !self.take(b"0") {
            self.take_digits()?;
        }
        if self.take(b".") {
            self.take_digits()?;
        }
        if self.take(b"e") || self.take(b"E") {
            let _ = self.take(b"+") || self.take(b"-");
            self.take_digits()?;
        }
        if self.peek().is_some_and(is_control_except_space) {
            return None;
        }
        std::str::from_utf8(self.since(start)).ok()
    }

    fn take_digits(&mut self) -> Option<()> {
        let start = self.position;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        (self.position > start).then_some(())
    }

    /// Takes a quoted string, with its quotes. The escapes are those of JSON; in single quotes,
    /// `\'` replaces `\"`.
    pub(crate) fn take_quoted(&mut self, quote: u8) -> Option<&'t [u8]> {
        let start = self.position;
        self.position += 1;
        loop {
            let byte = self.peek()?;
            self.position += 1;
            match byte {
                _ if byte == quote => return Some(self.since(start)),
                b'\\' => self.take_escape(quote)?,
                0..b' ' => return None,
                _ => {}
            }
        }
    }

    fn take_escape(&mut self, quote: u8) -> Option<()> {
        let byte = self.peek()?;
        self.position += 1;
        match byte {
            b'u' => {
                let digits = self.text.get(self.position..self.position + 4)?;
                self.position += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            _ => (byte == quote).then_some(()),
        }
    }

    /// Whether an odd number of backslashes precedes the current byte.
    pub(crate) fn is_escaped(&self) -> bool {
        let before = self.text.get(..self.position).unwrap_or_default();
        before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
    }

    /// Takes a variable, which is a path that starts with `$` or `@`. Its brackets and parentheses
    /// must match. Any character between them belongs to the path.
    pub(crate) fn take_variable(&mut self) -> Option<&'t [u8]> {
        let start = self.position;
        let mut open = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'"' | b'\'' => self.skip_to_quote(byte)?,
                b'[' | b'(' => open.push(byte),
                b']' | b')' => match (open.pop(), byte) {
                    (None, _) => break,
                    (Some(b'['), b']') | (Some(b'('), b')') => {}
                    _ => return None,
                },
                b'.' | b'@' | b'$' | b'?' | b'*' => {}
                _ if is_name(byte) || !open.is_empty() => {}
                _ => break,
            }
            self.position += 1;
        }
        open.is_empty().then(|| self.since(start))
    }

    /// Advances from an opening quote to the closing one.
    fn skip_to_quote(&mut self, quote: u8) -> Option<()> {
        self.position += 1;
        let mut is_escaped = false;
        loop {
            let byte = self.peek()?;
            if byte == quote && !is_escaped {
                return Some(());
            }
            is_escaped = byte == b'\\' && !is_escaped;
            self.position += 1;
        }
    }

    /// Takes the name of a function or constant, up to the first byte that can't be in a name.
    /// Returns whether a parenthesis follows.
    pub(crate) fn take_name(&mut self) -> (&'t [u8], bool) {
        let start = self.position;
        while self.peek().is_some_and(is_name) {
            self.position += 1;
        }
        (self.since(start), self.peek() == Some(b'('))
    }
}

/// The value of a number in JSON's syntax. `None` if it is out of the range of floats.
pub(crate) fn number_value(number: &str) -> Option<f64> {
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

fn is_control_except_space(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r')
}

/// Whether a name may contain the byte. As in ajson, `A..=z` includes brackets, `\`, `^`, `_` and
/// the backtick.
pub(crate) fn is_name(byte: u8) -> bool {
    matches!(byte, b'A'..=b'z' | b'0'..=b'9')
}

/// Whether an operator can start with the byte.
pub(crate) fn starts_operator(byte: u8) -> bool {
    b"*/%<>&|^+-=!".contains(&byte)
}
