//! Shared and refused shapes of queries.

use rstest::rstest;

use super::*;

/// Checks a query. `$O` stands for the matchers of the object, as in a rendered query.
fn check(query: &str) -> Result<(), String> {
    let query = query.replace("$O", "namespace=\"shop\",pod=\"hpa-rs-object\"");
    check_query(&query, "pod").map_err(|reason| reason.to_string())
}

#[rstest]
#[case::selector_keeps_labels("m{$O}")]
#[case::selector_without_a_name("{__name__=\"m\",$O,}")]
#[case::further_matchers_are_constant("m{code=~\"5..\",pod!~\"x.*\",$O}")]
#[case::function_by_series("rate(m{$O}[5m])")]
#[case::times_are_equal_for_all("rate(m{$O}[5m] offset 1h @ 1700000000)")]
#[case::negative_offset("m{$O} offset -5m @ end()")]
#[case::grouped_by_the_label("sum by (pod) (m{$O})")]
#[case::grouped_at_the_end("sum(m{$O}) by (le, pod)")]
#[case::without_other_labels("avg without (container) (m{$O})")]
#[case::keyword_in_capitals("SUM(m{$O}) BY (pod)")]
#[case::quantile_with_a_constant("quantile by (pod) (0.9, m{$O})")]
#[case::largest_of_each_object("topk by (pod) (1, m{$O})")]
#[case::histogram("histogram_quantile(0.99, sum by (le, pod) (rate(m{$O}[5m])))")]
#[case::subquery("max_over_time(sum by (pod) (rate(m{$O}[1m]))[10m:30s])")]
#[case::subquery_with_default_step("avg_over_time(m{$O}[10m:])")]
#[case::arithmetic_with_numbers("-m{$O} * 1e-3 + 0x1F ^ 2 ^ m{$O} % Inf")]
#[case::comparison_with_a_number("m{$O} > bool 0 == 5")]
#[case::constant_scalar("m{$O} / scalar(sum(limits)) - time()")]
#[case::ratio_by_the_label("sum by (pod) (a{$O}) / sum by (pod) (b{$O} > 0)")]
#[case::on_the_label("a{$O} / on (namespace, pod) b{$O}")]
#[case::ignoring_other_labels("a{$O} / ignoring (code) b{$O}")]
#[case::group_left_on_the_label("a{$O} * on (pod) group_left (version) b{$O}")]
#[case::constant_matches_by_the_label("a{$O} / on (namespace, pod) group_left limits")]
#[case::constant_is_added_to_labels("a{$O} * on (node) group_left (zone) node_zone")]
#[case::constant_on_the_left("node_zone * on (node) group_right (zone) a{$O}")]
#[case::label_comes_from_the_selected_side(
    "sum by (pod) (usage{namespace=\"shop\"} * on (uid) group_left (pod) info{$O})"
)]
#[case::set_operators_by_the_label("a{$O} and b{$O} or on (pod) c{$O} unless on (pod) d{$O}")]
#[case::filter_by_a_constant("a{$O} and on () (up == 1) unless on (node) drained")]
#[case::constant_filtered_by_objects("limits and on (pod) a{$O}")]
#[case::label_replace_of_another_label("label_replace(m{$O}, \"dst\", \"$1\", \"pod\", \"(.*)\")")]
#[case::label_join_of_another_label("label_join(m{$O}, `dst`, '-', \"pod\", \"code\")")]
#[case::constant_topk("m{$O} * on (node) group_left () topk(1, weight)")]
#[case::constant_absent("m{$O} * scalar(absent(weight))")]
#[case::constant_unknown_function("m{$O} + on (pod) new_function(weight)")]
#[case::comment("# requests\nm{$O} # of pods")]
#[case::quoted_labels("sum by (\"pod\") ({\"m\",\"a.b\"=\"c\",$O})")]
#[case::matchers_like_keywords("m{$O,on=\"x\",by=\"y\"}")]
fn query_reads_each_object_on_its_own(#[case] query: &str) {
    assert_eq!(check(query), Ok(()), "{query}");
}

#[rstest]
#[case::sum_over_objects("sum(m{$O})", "`sum` aggregates over objects")]
#[case::count_without_by("count(m{$O}) by (namespace)", "`count` aggregates over objects")]
#[case::without_the_label("sum without (pod) (m{$O})", "`sum` aggregates over objects")]
#[case::inner_sum_that_is_joined(
    "a{$O} / on (namespace) group_left sum by (namespace) (a{$O})",
    "`sum` aggregates over objects"
)]
#[case::topk_compares_objects("topk(3, m{$O})", "`topk` aggregates over objects")]
#[case::topk_by_namespace("bottomk by (namespace) (3, m{$O})", "`bottomk` aggregates over")]
#[case::quantile_over_objects("quantile(0.9, m{$O})", "`quantile` aggregates over objects")]
#[case::limitk("limitk by (pod) (1, m{$O})", "the result of `limitk` can depend")]
#[case::count_values("count_values by (pod) (\"pod\", m{$O})", "the result of `count_values`")]
#[case::scalar_of_one_object("a{$O} * scalar(b{$O})", "the result of `scalar` can depend")]
#[case::absent_is_about_all("absent(m{$O})", "the result of `absent` can depend")]
#[case::absent_over_time("m{$O} or absent_over_time(m{$O}[5m])", "`absent_over_time` can depend")]
#[case::vector_of_a_scalar("vector(scalar(m{$O}))", "the result of `scalar` can depend")]
#[case::unknown_function("new_function(m{$O})", "the result of `new_function` can depend")]
#[case::label_replace_of_the_label(
    "label_replace(m{$O}, \"pod\", \"x\", \"\", \"\")",
    "`label_replace` changes the label `pod`"
)]
#[case::label_replace_with_an_escape(
    "label_replace(m{$O}, \"po\\x64\", \"x\", \"\", \"\")",
    "`label_replace` changes the label `pod`"
)]
#[case::label_join_of_the_label("label_join(m{$O}, \"pod\", \"-\", \"a\")", "`label_join` changes")]
#[case::not_matched_by_the_label("a{$O} / on (namespace) b{$O}", "`/` can match series of diff")]
#[case::matched_by_nothing("a{$O} * on () group_left b{$O}", "`*` can match series of different")]
#[case::ignoring_the_label("a{$O} - ignoring (pod) group_left b{$O}", "`-` can match series")]
#[case::filter_by_another_object("a{$O} and on (namespace) b{$O}", "`and` can match series of")]
#[case::constant_takes_the_label_away("a{$O} / on (node) limits", "`/` can match series of diff")]
#[case::constant_replaces_the_label(
    "a{$O} * on (node) group_left (pod) owner",
    "`*` can match series of different objects"
)]
#[case::constant_is_always_there("a{$O} or vector(0)", "the result of `or` contains samples")]
#[case::unmatched_constants_stay(
    "limits unless on (pod) a{$O}",
    "the result of `unless` contains samples"
)]
#[case::no_selector("sum by (pod) (m)", "the query doesn't select objects")]
#[case::name_in_another_label("m{owner=\"hpa-rs-object\"}", "used outside of selectors")]
#[case::name_in_an_expression("m{pod=~\"hpa-rs-object.*\"}", "used outside of selectors")]
#[case::name_excluded("m{pod!=\"hpa-rs-object\"}", "used outside of selectors")]
#[case::name_in_a_text(
    "label_replace(m{$O}, \"a\", \"hpa-rs-object\", \"\", \"\")",
    "used outside of selectors"
)]
#[case::name_in_a_comment("m{$O} # hpa-rs-object", "used outside of selectors")]
#[case::not_promql("m{$O} default 0", "isn't PromQL of Prometheus: `default` instead of the end")]
#[case::alternatives_of_matchers("m{$O or a=\"b\"}", "`or` instead of `,` or `}`")]
#[case::quoted_label_with_an_escape("sum without (\"p\\x6fd\") (m{$O})", "instead of the name")]
#[case::not_closed("sum by (pod) (m{$O}", "the query ends where `,` or `)` is expected")]
#[case::open_text("m{$O,a=\"b}", "a quote is missing")]
#[case::several_arguments("sum by (pod) (a{$O}, b{$O})", "sum needs 1 argument, not 2")]
fn query_without_a_proof_is_refused(#[case] query: &str, #[case] reason: &str) {
    let error = check(query).unwrap_err();
    assert!(error.contains(reason), "{query}: {error}");
}

#[test]
fn nesting_is_limited() {
    let nested = |depth: usize| format!("{}m{{$O}}{}", "(".repeat(depth), ")".repeat(depth));
    assert!(check(&nested(40)).is_ok());
    assert!(check(&nested(100_000)).is_err());
    assert!(check(&format!("{}m{{$O}}", "-".repeat(100_000))).is_err());
}

#[test]
fn labels_that_functions_remove_cannot_name_objects() {
    for label in ["le", "__name__"] {
        let query = format!("histogram_quantile(0.9, m{{{label}=\"{MARKER}\"}})");
        assert_eq!(check_query(&query, label), Err(NotPerObject::Label(label.to_owned())));
    }
}

#[rstest]
#[case("sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)", None)]
#[case("<</* requests */>><<- .Series >>{<<index .LabelValuesByName \"namespace\">>}", None)]
#[case("<<index .LabelValuesByName \"pod\">>", Some("<<index .LabelValuesByName \"pod\">>"))]
#[case("<<.LabelMatchers | len>>", Some("<<.LabelMatchers | len>>"))]
#[case("<<if eq .LabelMatchers \"\">>a<<end>>", Some("<<if eq .LabelMatchers \"\">>"))]
#[case("<<range .LabelValuesByName>>a<<end>>", Some("<<range .LabelValuesByName>>"))]
#[case("<<with $x := .LabelMatchers>><<end>>", Some("<<with $x := .LabelMatchers>>"))]
#[case("<<.LabelValuesByName>>", Some("<<.LabelValuesByName>>"))]
#[case("<<$x := .Series>>", Some("<<$x := .Series>>"))]
#[case("<<define \"a\">><<.LabelMatchers>><<end>><<template \"a\" .>>", Some("<<template \"a\">>"))]
fn template_may_only_insert_fields(#[case] text: &str, #[case] refused: Option<&str>) {
    let template = Template::parse("metrics-query", text).unwrap();
    let refused = refused.map(|action| NotPerObject::Template(action.to_owned()));
    assert_eq!(check_template(&template, "pod").err(), refused);
}

#[test]
fn truncated_query_does_not_panic() {
    let query = "sum by (pod, le) (-rate(m{pod=\"hpa-rs-object\",a=~'x|y'}[5m:30s] offset -1h @ \
                 end())) * on (pod) group_left (x) label_replace(a, `b`, \"\\\\\", \"c\", \"d\") \
                 ^ 1e-3";
    for (index, _) in query.char_indices() {
        let (start, end) = query.split_at(index);
        let _ = (check(start), check(end));
    }
}
