//! Restricts queries of tenants to the series of their namespace, as prom-label-proxy does.

use super::{
    Node, SyntaxError, lexer::find_ambiguous_raw_string, parser::parse_without_regex_checks,
};

/// The maximum number of selectors, because each of them makes the restricted query longer.
const MAX_SELECTORS: usize = 1000;

/// Adds `label="value"` to each selector of a query. Unknown syntax is an error, because a selector
/// that is overlooked would read the series of all namespaces.
///
/// ```
/// use hpa_prometheus::promql::restrict;
///
/// let query = restrict("sum(rate(requests[5m]))", "namespace", "shop")?;
/// assert_eq!(query, r#"sum(rate(requests{namespace="shop"}[5m]))"#);
/// # Ok::<(), hpa_prometheus::promql::SyntaxError>(())
/// ```
pub fn restrict(query: &str, label: &str, value: &str) -> Result<String, SyntaxError> {
    let fail = |at, message: String| Err(SyntaxError { at, message });
    if let Some(at) = find_ambiguous_raw_string(query)? {
        return fail(at, "a string in backquotes must not end with a backslash".to_owned());
    }
    let expr = parse_without_regex_checks(query)?;
    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let matcher = format!("{label}=\"{value}\"");
    let mut insertions = Vec::new();
    let mut info_call = None;
    expr.visit(&mut |expr| match &expr.node {
        Node::Selector(selector) => insertions.push(match selector.first_matcher_at {
            Some(at) if selector.matchers.is_empty() => (at, ["", &matcher, ""]),
            Some(at) => (at, ["", &matcher, ","]),
            None => (expr.at + selector.name.len(), ["{", &matcher, "}"]),
        }),
        // `info` reads additional series without a selector.
        Node::Call(name, _) if name.eq_ignore_ascii_case("info") => info_call = Some(expr.at),
        _ => {}
    });
    if let Some(at) = info_call {
        return fail(at, "the function info is not permitted".to_owned());
    }
    if insertions.len() > MAX_SELECTORS {
        return fail(0, format!("the query has more than {MAX_SELECTORS} selectors"));
    }
    // `visit` reaches selectors in the order of the query.
    let (mut restricted, mut copied) = (String::new(), 0);
    for (at, texts) in insertions {
        restricted.push_str(query.get(copied..at).unwrap_or_default());
        restricted.extend(texts);
        copied = at;
    }
    restricted.push_str(query.get(copied..).unwrap_or_default());
    Ok(restricted)
}

#[cfg(test)]
mod tests;
