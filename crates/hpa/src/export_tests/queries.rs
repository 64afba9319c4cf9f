//! What a query of Prometheus names: enough of the language for the dashboard and the alerts.

/// The words that stand before a list of labels in brackets.
const BEFORE_LABELS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// The words that are neither metrics nor labels.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

/// What a query names.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// Metrics, and the labels that are matched of them.
    pub(super) selectors: Vec<(String, Vec<String>)>,
    /// The labels that are grouped by, or asked for by a dashboard's variable.
    pub(super) grouping: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(char),
}

/// Words and signs; texts, numbers and ranges are left out.
fn tokens(query: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = query.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => skip_text(&mut characters),
            '[' => while characters.next().is_some_and(|next| next != ']') {},
            first if first.is_ascii_alphanumeric() || first == '_' => {
                let mut word = String::from(first);
                while let Some(next) =
                    characters.next_if(|next| next.is_ascii_alphanumeric() || "_:.".contains(*next))
                {
                    word.push(next);
                }
                if !first.is_ascii_digit() {
                    tokens.push(Token::Word(word));
                }
            }
            sign if sign.is_whitespace() => {}
            sign => tokens.push(Token::Sign(sign)),
        }
    }
    tokens
}

/// Skips a text whose opening quote was read.
fn skip_text(characters: &mut impl Iterator<Item = char>) {
    while let Some(character) = characters.next() {
        match character {
            '"' => return,
            '\\' => _ = characters.next(),
            _ => {}
        }
    }
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        let tokens = tokens(query);
        let is_variable = tokens.first() == Some(&Token::Word("label_values".to_owned()));
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            let Token::Word(word) = token else { continue };
            let is_called = match rest.peek() {
                Some(Token::Sign(sign)) => *sign == '(',
                // An aggregation.
                Some(Token::Word(next)) => matches!(next.as_str(), "by" | "without"),
                None => false,
            };
            if BEFORE_LABELS.contains(&word.as_str()) {
                if rest.next_if_eq(&Token::Sign('(')).is_some() {
                    parsed.grouping.extend(words_until(&mut rest, ')'));
                }
            } else if is_called || OPERATORS.contains(&word.as_str()) {
                // A function or an operator.
            } else if is_variable && !parsed.selectors.is_empty() {
                parsed.grouping.push(word);
            } else {
                let braces = rest.next_if_eq(&Token::Sign('{')).is_some();
                let matchers = if braces { words_until(&mut rest, '}') } else { Vec::new() };
                parsed.selectors.push((word, matchers));
            }
        }
        parsed
    }
}

fn words_until(tokens: &mut impl Iterator<Item = Token>, end: char) -> Vec<String> {
    let inside = tokens.take_while(|token| *token != Token::Sign(end));
    inside
        .filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None })
        .collect()
}
