//! Restricts queries of tenants to the series of their namespace, as prom-label-proxy does.

use super::{Node, SyntaxError, lexer::find_ambiguous_raw_string, parser::parse_without_regexes};

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
    let expr = parse_without_regexes(query)?;
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
    insertions.sort_by_key(|(at, _)| *at);
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
mod tests {
    use rstest::rstest;

    use super::{super::parse, *};

    #[rstest]
    #[case("up", r#"up{ns="shop"}"#)]
    #[case("up{}", r#"up{ns="shop"}"#)]
    #[case(r#"up{a="}"}"#, r#"up{ns="shop",a="}"}"#)]
    #[case("up # {\n{ a='b' }", "up # {\n{ns=\"shop\", a='b' }")]
    #[case(r#"{__name__=~".+"}"#, r#"{ns="shop",__name__=~".+"}"#)]
    #[case(r#"{"up"}"#, r#"{ns="shop","up"}"#)]
    #[case(r#"{"up", "a.b"='c'}"#, r#"{ns="shop","up", "a.b"='c'}"#)]
    #[case(r"x{a=`\\`, b='c'}", r#"x{ns="shop",a=`\\`, b='c'}"#)]
    #[case(r#"up{ns="bank"}"#, r#"up{ns="shop",ns="bank"}"#)]
    #[case("sum by (ns, job) (rate(x[5m]))", r#"sum by (ns, job) (rate(x{ns="shop"}[5m]))"#)]
    #[case("sum(x) without(a)", r#"sum(x{ns="shop"}) without(a)"#)]
    #[case("SUM BY (a) (x)", r#"SUM BY (a) (x{ns="shop"})"#)]
    #[case("topk(scalar(a), b)", r#"topk(scalar(a{ns="shop"}), b{ns="shop"})"#)]
    #[case("a / on (x) group_left (y) b", r#"a{ns="shop"} / on (x) group_left (y) b{ns="shop"}"#)]
    #[case("a == bool b", r#"a{ns="shop"} == bool b{ns="shop"}"#)]
    #[case("a or b unless c", r#"a{ns="shop"} or b{ns="shop"} unless c{ns="shop"}"#)]
    #[case("-a offset -5m", r#"-a{ns="shop"} offset -5m"#)]
    #[case("a[1h] offset 1d", r#"a{ns="shop"}[1h] offset 1d"#)]
    #[case("max_over_time(a[1h:5m] @ end())", r#"max_over_time(a{ns="shop"}[1h:5m] @ end())"#)]
    #[case("vector(1) + Inf + 1e-3 - time()", "vector(1) + Inf + 1e-3 - time()")]
    #[case("a # b\n+ c", "a{ns=\"shop\"} # b\n+ c{ns=\"shop\"}")]
    #[case("a # b\r\n+ c", "a{ns=\"shop\"} # b\r\n+ c{ns=\"shop\"}")]
    #[case("job:x:rate5m", r#"job:x:rate5m{ns="shop"}"#)]
    #[case(
        "label_replace(a, 'x', '$1', 'y', '(.*)')",
        r#"label_replace(a{ns="shop"}, 'x', '$1', 'y', '(.*)')"#
    )]
    // Metrics can have the names of keywords.
    #[case("sum", r#"sum{ns="shop"}"#)]
    #[case("by", r#"by{ns="shop"}"#)]
    #[case("or{a='b'}", r#"or{ns="shop",a='b'}"#)]
    #[case("x or or", r#"x{ns="shop"} or or{ns="shop"}"#)]
    fn each_selector_gets_the_label(#[case] query: &str, #[case] expected: &str) {
        assert_eq!(restrict(query, "ns", "shop").as_deref(), Ok(expected));
        parse(expected).expect("a valid query");
    }

    #[test]
    fn regular_expressions_are_not_compiled() {
        let matchers: Vec<_> =
            (0..3000).map(|at| format!(r#"a{at}=~"{at}\\p{{L}}{{300}}""#)).collect();
        let start = std::time::Instant::now();
        restrict(&format!("up{{{}}}", matchers.join(",")), "ns", "shop").expect("a query");
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }

    #[rstest]
    #[case("on{a='b'}")]
    #[case("bool")]
    #[case("x offset offset")]
    #[case("sum by")]
    #[case("sum by (a) by")]
    #[case("x y")]
    #[case("1 x")]
    #[case("info(x)")]
    #[case("Info(x)")]
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
    // Where a comment ends depends on the server.
    #[case("up # \r or secret")]
    #[case("up # \r\r\n or secret")]
    #[case("up\u{a0}")]
    #[case("up # a\n\u{2028} or secret")]
    // Syntax of other servers.
    #[case("x{a='b' or c='d'}")]
    #[case("WITH (a = x) a")]
    #[case("x keep_metric_names")]
    // In VictoriaMetrics, a backslash escapes a backquote, so `or secret` would be a part of the
    // query.
    #[case(r"x{a=`\`, b=`} or secret # `}")]
    #[case(r"x{a=`\\\`}")]
    fn invalid_or_ambiguous_query_is_refused(#[case] query: &str) {
        let refused = restrict(query, "ns", "shop");
        assert!(refused.is_err(), "{refused:?}");
    }

    #[test]
    fn value_is_quoted() {
        let restricted = restrict("x", "ns", "a\"b\\c\nd").unwrap();
        assert_eq!(restricted, r#"x{ns="a\"b\\c\nd"}"#);
    }

    /// The time of a refused query must not grow with the square of its selectors.
    #[test]
    fn number_of_selectors_is_bounded() {
        let query = format!("f({})", vec!["a"; 120_000].join(","));
        let start = std::time::Instant::now();
        let error = restrict(&query, "ns", "shop").unwrap_err().to_string();
        assert_eq!(error, "the query has more than 1000 selectors");
        restrict(&format!("f({})", vec!["a"; 1000].join(",")), "ns", "shop").unwrap();
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
    }
}
