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
    let matchers: Vec<_> = (0..3000).map(|at| format!(r#"a{at}=~"{at}\\p{{L}}{{300}}""#)).collect();
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
