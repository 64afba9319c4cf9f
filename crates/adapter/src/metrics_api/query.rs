//! The query of a URL.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters of a query, as Go's `url.Values` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Parses a query. As in Go, invalid parameters are left out.
    pub fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        let pairs = pairs.filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode_component(key)?, decode_component(value)?))
        });
        Self { pairs: pairs.collect() }
    }

    /// The first value of a parameter. Further ones don't count.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }
}

fn decode_component(text: &str) -> Option<String> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { text.into() };
    decode(&text)
}

/// Decodes percent-encoded text. `None` if an escape is incomplete, or the text is not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let has_invalid_escape = text.split('%').skip(1).any(|part| {
        let digits = part.get(..2).unwrap_or_default();
        digits.len() != 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if has_invalid_escape {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_value_counts() {
        let query = Query::parse("a=1&b=x%3Dy+z&a=2&c");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.get("b"), Some("x=y z"));
        assert_eq!(query.get("c"), Some(""));
        assert_eq!(query.get("d"), None);
    }

    #[test]
    fn invalid_parameters_are_left_out() {
        let query = Query::parse("a=%zz&b=%4&c=1;d=2&%ff=1&e=3");
        assert_eq!(query, Query::parse("e=3"));
    }
}
