//! Restricts queries of tenants to the series of their namespace, as prom-label-proxy does.

/// Words that apply to operands, followed by their matching or grouping labels.
const AGGREGATIONS: [&str; 14] = [
    "avg",
    "bottomk",
    "count",
    "count_values",
    "group",
    "limit_ratio",
    "limitk",
    "max",
    "min",
    "quantile",
    "stddev",
    "stdvar",
    "sum",
    "topk",
];
const SET_OPERATORS: [&str; 4] = ["and", "or", "unless", "atan2"];
const LABEL_LISTS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const NUMBERS: [&str; 2] = ["inf", "nan"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Text,
    Symbol(char),
}

/// A token, and the position after it.
#[derive(Clone, Copy, Debug)]
struct Token<'q> {
    kind: Kind,
    text: &'q str,
    end: usize,
}

/// Adds `label="value"` to each selector of a query. A query that isn't understood completely is
/// refused: a selector that is overlooked would read the series of all namespaces.
pub(crate) fn restrict(query: &str, label: &str, value: &str) -> Result<String, &'static str> {
    let tokens = tokens(query)?;
    check_brackets(&tokens)?;
    let matcher = format!("{label}=\"{}\"", value.replace('\\', r"\\").replace('"', "\\\""));
    let mut restricted = String::with_capacity(query.len() + matcher.len());
    let mut copied = 0;
    for insertion in insertions(&tokens)? {
        restricted.push_str(query.get(copied..insertion.position).unwrap_or_default());
        let (before, after) = match insertion.place {
            Place::WithoutBraces => ("{", "}"),
            Place::EmptyBraces => ("", ""),
            Place::Braces => ("", ","),
        };
        restricted.extend([before, &matcher, after]);
        copied = insertion.position;
    }
    restricted.push_str(query.get(copied..).unwrap_or_default());
    Ok(restricted)
}

/// A problem of the syntax that no server accepts.
pub(crate) fn syntax_problem(query: &str) -> Option<&'static str> {
    tokens(query).and_then(|tokens| check_brackets(&tokens)).err()
}

struct Insertion {
    position: usize,
    place: Place,
}

enum Place {
    WithoutBraces,
    EmptyBraces,
    Braces,
}

fn insertions(tokens: &[Token<'_>]) -> Result<Vec<Insertion>, &'static str> {
    const UNKNOWN: &str = "its syntax is not understood";
    let mut insertions = Vec::new();
    let kind_at = |index: usize| tokens.get(index).map(|token| token.kind);
    // Whether the last token ends an operand.
    let mut after_operand = false;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let next = kind_at(index + 1);
        let is_call = next == Some(Kind::Symbol('('));
        let word = token.text.to_ascii_lowercase();
        let is_in = |words: &[&str]| words.contains(&word.as_str());
        match token.kind {
            Kind::Word if is_in(&LABEL_LISTS) => {
                // A metric can have this name.
                let is_modifier = index > 0 && is_call;
                index = if is_modifier {
                    end_of_list(tokens, index + 2)?
                } else {
                    return Err(UNKNOWN);
                };
                continue;
            }
            Kind::Word if is_in(&AGGREGATIONS) => {
                let next_word = tokens.get(index + 1).map(|next| next.text.to_ascii_lowercase());
                let is_grouped = next_word.is_some_and(|word| word == "by" || word == "without");
                if after_operand || !is_call && !is_grouped {
                    return Err(UNKNOWN);
                }
            }
            Kind::Word if is_in(&SET_OPERATORS) && after_operand => after_operand = false,
            Kind::Word if word == "bool" && !after_operand && index > 0 => {}
            Kind::Word if word == "offset" && after_operand => {
                if !matches!(next, Some(Kind::Number | Kind::Symbol('-'))) {
                    return Err(UNKNOWN);
                }
                // The duration follows the operand.
                after_operand = false;
            }
            Kind::Word if is_in(&SET_OPERATORS) || is_in(&["bool", "offset"]) => {
                return Err(UNKNOWN);
            }
            // It reads other series without a selector.
            Kind::Word if word == "info" => return Err("the function info is not permitted"),
            Kind::Word if after_operand => return Err(UNKNOWN),
            Kind::Word if is_call => {}
            Kind::Word if is_in(&NUMBERS) && next != Some(Kind::Symbol('{')) => {
                after_operand = true;
            }
            Kind::Word | Kind::Symbol('{') => {
                let has_braces = token.kind != Kind::Word || next == Some(Kind::Symbol('{'));
                if after_operand {
                    return Err(UNKNOWN);
                }
                if has_braces {
                    let open = if token.kind == Kind::Word { index + 1 } else { index };
                    let position = tokens.get(open).map_or(token.end, |brace| brace.end);
                    let is_empty = kind_at(open + 1) == Some(Kind::Symbol('}'));
                    let place = if is_empty { Place::EmptyBraces } else { Place::Braces };
                    insertions.push(Insertion { position, place });
                    let rest = tokens.get(open..).unwrap_or_default();
                    let close = rest.iter().position(|token| token.kind == Kind::Symbol('}'));
                    index = open + close.ok_or(UNKNOWN)?;
                } else {
                    insertions.push(Insertion { position: token.end, place: Place::WithoutBraces });
                }
                after_operand = true;
            }
            Kind::Number | Kind::Text => {
                if after_operand {
                    return Err(UNKNOWN);
                }
                after_operand = true;
            }
            Kind::Symbol(')' | ']') => after_operand = true,
            Kind::Symbol('[') => {
                // A range belongs to the operand before it, and has no selector.
                let rest = tokens.get(index..).unwrap_or_default();
                let close = rest.iter().position(|token| token.kind == Kind::Symbol(']'));
                index += close.filter(|_| after_operand).ok_or(UNKNOWN)?;
            }
            Kind::Symbol(_) => after_operand = false,
        }
        index += 1;
    }
    Ok(insertions)
}

/// The index after a list of labels, which has no operand.
fn end_of_list(tokens: &[Token<'_>], start: usize) -> Result<usize, &'static str> {
    for (index, token) in tokens.iter().enumerate().skip(start) {
        match token.kind {
            Kind::Symbol(')') => return Ok(index + 1),
            Kind::Word | Kind::Text | Kind::Symbol(',') => {}
            _ => break,
        }
    }
    Err("a list of labels is not understood")
}

fn check_brackets(tokens: &[Token<'_>]) -> Result<(), &'static str> {
    let mut open = Vec::new();
    for token in tokens {
        match token.kind {
            Kind::Symbol('(') => open.push(')'),
            Kind::Symbol('[') => open.push(']'),
            Kind::Symbol('{') => open.push('}'),
            Kind::Symbol(close @ (')' | ']' | '}')) if open.pop() != Some(close) => {
                return Err("a bracket is closed that is not open");
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err("a bracket is not closed") }
}

fn tokens(query: &str) -> Result<Vec<Token<'_>>, &'static str> {
    let mut tokens = Vec::new();
    let mut position = 0;
    while let Some(rest) = query.get(position..).filter(|rest| !rest.is_empty()) {
        let first = rest.chars().next().unwrap_or_default();
        let while_matches =
            |accept: fn(char) -> bool| rest.find(|char| !accept(char)).unwrap_or(rest.len());
        let (kind, len) = match first {
            char if char.is_ascii_whitespace() => {
                position += 1;
                continue;
            }
            '#' => {
                position += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            '"' | '\'' | '`' => (Kind::Text, text_len(rest, first)?),
            '0'..='9' | '.' => (Kind::Number, number_len(rest)),
            'a'..='z' | 'A'..='Z' | '_' | ':' => {
                let is_word = |char: char| char.is_ascii_alphanumeric() || "_:".contains(char);
                // In a range, a colon separates durations.
                let len = if first == ':' { 1 } else { while_matches(is_word) };
                (if first == ':' { Kind::Symbol(':') } else { Kind::Word }, len)
            }
            '+' | '-' | '*' | '/' | '%' | '^' | '<' | '>' | '=' | '!' | '~' | '(' | ')' | '{'
            | '}' | '[' | ']' | ',' | '@' => (Kind::Symbol(first), 1),
            _ => return Err("it has a character that no query has"),
        };
        let end = position + len;
        tokens.push(Token { kind, text: rest.get(..len).unwrap_or_default(), end });
        position = end;
    }
    Ok(tokens)
}

/// The length of a text with its quotes.
fn text_len(rest: &str, quote: char) -> Result<usize, &'static str> {
    let mut is_escaped = false;
    for (index, char) in rest.char_indices().skip(1) {
        match char {
            _ if is_escaped => is_escaped = false,
            // Backquotes have no escapes.
            '\\' if quote != '`' => is_escaped = true,
            _ if char == quote => return Ok(index + 1),
            '\n' if quote != '`' => break,
            _ => {}
        }
    }
    Err("a quote is not closed")
}

/// The length of a number or duration, such as `0x1F`, `1e-3` or `1h30m`.
fn number_len(rest: &str) -> usize {
    let is_part = |char: char| char.is_ascii_alphanumeric() || "._".contains(char);
    let len = rest.find(|char| !is_part(char)).unwrap_or(rest.len());
    let (number, after) = rest.split_at(len);
    let has_exponent = number.ends_with(['e', 'E']) && !number.starts_with("0x");
    match after.strip_prefix(['+', '-']).filter(|_| has_exponent) {
        Some(digits) => {
            len + 1 + digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len())
        }
        None => len,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("up", r#"up{ns="shop"}"#)]
    #[case("up{}", r#"up{ns="shop"}"#)]
    #[case(r#"up{a="}"}"#, r#"up{ns="shop",a="}"}"#)]
    #[case(r#"{__name__=~".+"}"#, r#"{ns="shop",__name__=~".+"}"#)]
    #[case(r#"up{ns="bank"}"#, r#"up{ns="shop",ns="bank"}"#)]
    #[case("sum by (ns, job) (rate(x[5m]))", r#"sum by (ns, job) (rate(x{ns="shop"}[5m]))"#)]
    #[case("sum(x) without(a)", r#"sum(x{ns="shop"}) without(a)"#)]
    #[case("SUM BY (a) (x)", r#"SUM BY (a) (x{ns="shop"})"#)]
    #[case("a / on (x) group_left (y) b", r#"a{ns="shop"} / on (x) group_left (y) b{ns="shop"}"#)]
    #[case("a == bool b", r#"a{ns="shop"} == bool b{ns="shop"}"#)]
    #[case("a or b unless c", r#"a{ns="shop"} or b{ns="shop"} unless c{ns="shop"}"#)]
    #[case("a offset -5m", r#"a{ns="shop"} offset -5m"#)]
    #[case("a[1h] offset 1d", r#"a{ns="shop"}[1h] offset 1d"#)]
    #[case("max_over_time(a[1h:5m] @ end())", r#"max_over_time(a{ns="shop"}[1h:5m] @ end())"#)]
    #[case("vector(1) + Inf + 1e-3 - time()", "vector(1) + Inf + 1e-3 - time()")]
    #[case("a # b\n+ c", "a{ns=\"shop\"} # b\n+ c{ns=\"shop\"}")]
    #[case("job:x:rate5m", r#"job:x:rate5m{ns="shop"}"#)]
    #[case(
        "label_replace(a, 'x', '$1', 'y', '(.*)')",
        r#"label_replace(a{ns="shop"}, 'x', '$1', 'y', '(.*)')"#
    )]
    fn each_selector_gets_the_label(#[case] query: &str, #[case] expected: &str) {
        assert_eq!(restrict(query, "ns", "shop").as_deref(), Ok(expected));
    }

    /// Metrics can have the names of keywords.
    #[rstest]
    #[case("sum")]
    #[case("by")]
    #[case("on{a='b'}")]
    #[case("or{a='b'}")]
    #[case("x or or")]
    #[case("bool")]
    #[case("x offset offset")]
    #[case("sum by")]
    #[case("sum by (a) by")]
    #[case("x y")]
    #[case("1 x")]
    #[case("info(x)")]
    #[case("x[y]z")]
    #[case("[x]")]
    #[case("by (x{})")]
    #[case("inf{a='b'} x")]
    #[case("(x")]
    #[case("x)")]
    #[case("x{a='b}")]
    #[case("x{a=\"b\n\"}")]
    #[case("\u{fc}")]
    #[case("sum(x) by (a{b='c'})")]
    fn query_that_is_not_understood_is_refused(#[case] query: &str) {
        let refused = restrict(query, "ns", "shop");
        assert!(refused.is_err(), "{refused:?}");
    }

    #[test]
    fn value_is_quoted() {
        assert_eq!(restrict("x", "ns", r#"a"b\c"#).unwrap(), r#"x{ns="a\"b\\c"}"#);
    }

    #[rstest]
    #[case("sum(x", Some("a bracket is not closed"))]
    #[case("sum(x))", Some("a bracket is closed that is not open"))]
    #[case("x{a=\"b}", Some("a quote is not closed"))]
    #[case("sum(rate(x{a=~\"(\"}[5m]))", None)]
    fn syntax_is_checked(#[case] query: &str, #[case] expected: Option<&'static str>) {
        assert_eq!(syntax_problem(query), expected);
    }
}
