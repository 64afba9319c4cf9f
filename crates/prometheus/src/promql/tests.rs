//! Accepted and refused queries. `tests/prometheus` compares more queries with a server.

use rstest::rstest;

use super::*;

#[rstest]
#[case::range("rate(m[5m])", Type::InstantVector)]
#[case::selector_only("m{a=\"b\",}", Type::InstantVector)]
#[case::range_vector("m[1h30m] offset -5m @ end()", Type::RangeVector)]
#[case::escapes(r#"m{a=~"caf\u00e9\x2b\054\\d\U0001F600\t"}"#, Type::InstantVector)]
#[case::raw(r"m{a=~`C:\\`}", Type::InstantVector)]
#[case::matcher_rejects_empty_values(r#"{a!~"\\d*"}"#, Type::InstantVector)]
#[case::scalar("1 + 2 > bool 3", Type::Scalar)]
#[case::underscores("1_000.5e1_0 + 0x_1f_ff", Type::Scalar)]
#[case::hexadecimal("0x1E-1 + 0X1E+1", Type::Scalar)]
#[case::text("\"a\"", Type::Text)]
#[case::unknown_function("median_over_time(m[5m])", Type::InstantVector)]
#[case::recorded_name("job:requests:rate5m / :sum", Type::InstantVector)]
fn query_has_a_type(#[case] query: &str, #[case] expected: Type) {
    assert_eq!(parse(query).unwrap().result, expected);
}

#[rstest]
#[case::no_range("rate(m)", "rate needs a range vector, not an instant vector: add a range")]
#[case::range_of_a_sum("rate(sum(m)[5m])", "a range must follow a selector: for an expression")]
#[case::empty_matcher("m{, a=\"b\"}", "`,` instead of the name of a label")]
#[case::stray_quote("sum(m{a=\"b\"}) by (pod)'", "unterminated string that starts with '")]
#[case::missing_parenthesis("sum(rate(m[5m])", "the query ends where `,` or `)` is expected")]
#[case::octal_escape(r#"m{a="\400"}"#, "the escape \\4 is not a valid character")]
#[case::surrogate(r#"m{a="\ud800"}"#, "the escape \\u is not a valid character")]
#[case::beyond_unicode(r#"m{a="\UFFFFFFFF"}"#, "the escape \\U is not a valid character")]
#[case::short_escape(r#"m{a="\x4"}"#, "the escape \\x needs more digits")]
#[case::escape("m{a=~\"\\d+\"}", "strings have no escape \\d: write \\\\d for a backslash")]
#[case::regex("m{a=~\"(\"}", "missing closing )")]
#[case::raw_regex(r"m{a=~`\\(`,b=~`(`}", "missing closing )")]
#[case::no_break_space("m\u{a0}", "unexpected character")]
#[case::duration("m[5]x", "`x` instead of the end of the query")]
#[case::double_underscore("1__0", "`1__0` is neither a number nor a duration")]
#[case::last_underscore("1_", "`1_` is neither a number nor a duration")]
#[case::no_matcher("{}", "a selector needs a name")]
#[case::regex_that_matches_nothing("{a=~\".*\"}", "a selector needs a name")]
#[case::name_twice("m{__name__=\"n\"}", "the name is set twice")]
#[case::arguments("label_replace(m, \"a\")", "label_replace needs 5 arguments, not 2")]
#[case::too_many("day_of_month(m, m)", "day_of_month needs at most 1 argument, not 2")]
#[case::some("label_join(m)", "label_join needs at least 3 arguments, not 1")]
#[case::sum_of_scalar("sum(1)", "sum needs an instant vector, not a scalar")]
#[case::comparison("1 > 2", "a comparison of scalars needs `> bool`")]
#[case::set("m or 1", "`or` needs instant vectors, not a scalar")]
#[case::text_operand("m + \"a\"", "`+` needs scalars or instant vectors, not a string")]
#[case::operators(&vec!["1"; 600].join("+"), "more than 500 operators")]
#[case::nesting(&"(".repeat(100), "nested too deeply")]
fn mistakes_are_named(#[case] query: &str, #[case] expected: &str) {
    let error = parse(query).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn unknown_functions_are_reported() {
    let expr = parse("sum(median_over_time(m[5m])) / histogram_share(1, m)").unwrap();
    assert_eq!(expr.unknown_functions(), ["median_over_time", "histogram_share"]);
}
