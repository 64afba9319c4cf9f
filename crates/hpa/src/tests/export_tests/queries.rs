//! Extracts metric and label names from the subset of `PromQL` in the dashboard and the alerts.

/// Keywords before a list of labels in parentheses.
const LABEL_KEYWORDS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Keywords without labels.
const OPERATORS: [&str; 5] = ["and", "or", "unless", "offset", "bool"];

/// The names in a query.
#[derive(Debug, Default)]
pub(super) struct Query {
    /// Metrics, each with the labels that it is filtered by.
    pub(super) selectors: Vec<(String, Vec<String>)>,
    /// Labels that results are grouped by, or that a dashboard variable lists.
    pub(super) grouping: Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Symbol(char),
}

/// Words and symbols. Strings, numbers and ranges are skipped.
fn tokenize(query: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = query.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' => skip_string(&mut characters),
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
            space if space.is_whitespace() => {}
            symbol => tokens.push(Token::Symbol(symbol)),
        }
    }
    tokens
}

/// Skips a string after its opening quote.
fn skip_string(characters: &mut impl Iterator<Item = char>) {
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
        let tokens = tokenize(query);
        let is_variable = tokens.first() == Some(&Token::Word("label_values".to_owned()));
        let mut rest = tokens.into_iter().peekable();
        while let Some(token) = rest.next() {
            let Token::Word(word) = token else { continue };
            let is_function = match rest.peek() {
                Some(Token::Symbol(symbol)) => *symbol == '(',
                // An aggregation, as in `sum by (label) (…)`.
                Some(Token::Word(next)) => matches!(next.as_str(), "by" | "without"),
                None => false,
            };
            if LABEL_KEYWORDS.contains(&word.as_str()) {
                if rest.next_if_eq(&Token::Symbol('(')).is_some() {
                    parsed.grouping.extend(words_until(&mut rest, ')'));
                }
            } else if is_function || OPERATORS.contains(&word.as_str()) {
                // Functions and operators are neither metrics nor labels.
            } else if is_variable && !parsed.selectors.is_empty() {
                parsed.grouping.push(word);
            } else {
                let braces = rest.next_if_eq(&Token::Symbol('{')).is_some();
                let matchers = if braces { words_until(&mut rest, '}') } else { Vec::new() };
                parsed.selectors.push((word, matchers));
            }
        }
        parsed
    }
}

fn words_until(tokens: &mut impl Iterator<Item = Token>, end: char) -> Vec<String> {
    let inside = tokens.take_while(|token| *token != Token::Symbol(end));
    inside
        .filter_map(|token| if let Token::Word(word) = token { Some(word) } else { None })
        .collect()
}
