use hpa_calc::Selector;
use hpa_metrics::{resource::GroupResource, test_doubles::resources};
use rstest::rstest;

use crate::rules::{Compat, Config, RuleSet, query::QueriedObjects};

/// The description of the mistake in a rule with these fields.
fn describe_rule(fields: &str) -> String {
    let rules = format!("rules:\n- seriesQuery: m\n  {fields}\n");
    let rules = RuleSet::compile(&Config::parse(&rules).unwrap(), &resources());
    rules.first_error().expect("a mistake").describe()
}

#[rstest]
#[case::unclosed("sum(<<.Series)", "`<<.Series` is not closed: write <<.Series>>")]
#[case::no_dot("<<Series>>", "the dot is missing: write <<.Series>>, not <<Series>>")]
#[case::similar("<<LabelMatcher>>", "there is no function LabelMatcher: did you mean")]
#[case::function("<<upper .Series>>", "there is no function upper: write a field, as in")]
#[case::brace("<<.Series}>>", "an action can't have '}' here: write only the field")]
#[case::symbol("<<€>>", "an action can't have '€' here: write only the field")]
#[case::no_end("<<if .Series>>a", "<<if>>, <<range>>, <<with>> or <<define>> is not closed")]
#[case::end("a<<end>>", "there is one <<end>> too many: remove it")]
#[case::empty("<< >>", "an action is empty: write a field, as in <<.Series>>, or")]
#[case::variable("<<$y>>", "the variable $y is not set: write, for example, <<range")]
#[case::paren("<<(.Series>>", "a parenthesis has no counterpart")]
#[case::quote("<<\"a>>", "a string has no closing quote: add it")]
#[case::unsupported("<<break>>", "<<break>> is not supported: rules can't use it")]
fn mistake_in_a_query_is_described_before_the_original_text(
    #[case] query: &str,
    #[case] expected: &str,
) {
    let text = describe_rule(&format!("metricsQuery: '{query}'"));
    let expected = format!("line 3, column 17: rules[0].metricsQuery: {expected}");
    assert!(text.starts_with(&expected), "{text}");
    let original = "(prometheus-adapter: unable to construct metrics query associated with";
    assert!(text.contains(original), "{text}");
}

#[rstest]
#[case::field(
    "resources: {template: <<.Resourc>>}",
    "template: labels have no <<.Resourc>>: did you mean <<.Resource>>?"
)]
#[case::constant(
    "resources: {template: x}",
    "template: the label doesn't depend on the resource: write, for example, kube_"
)]
#[case::label_regex(
    "resources: {template: '<<.Resource>>('}",
    "template: the label can't be matched: missing closing ) at"
)]
#[case::resource(
    "resources: {overrides: {a: {resource: as}}}",
    "overrides.a: the API has no resource `as`: write one that kubectl api-resources"
)]
#[case::similar_resource(
    "resources: {overrides: {a: {resource: podd}}}",
    "overrides.a: the API has no resource `podd`: did you mean `pods`?"
)]
#[case::no_resource(
    "resources: {overrides: {a: {}}}",
    "overrides.a: the label a has no resource: write, for example, {resource: pod}"
)]
#[case::filter(
    "seriesFilters: [{is: '('}]",
    "seriesFilters[0]: `(` is not a valid regular expression: "
)]
#[case::no_filter("seriesFilters: [{}]", "seriesFilters[0]: the filter has no expression")]
#[case::matches(
    "name: {matches: '('}",
    "name.matches: `(` is not a valid regular expression: missing closing ) at `(`. Correct it"
)]
#[case::groups("name: {matches: (a)(b)}", "name: name.matches has several groups: write")]
fn mistake_in_another_field_is_described(#[case] fields: &str, #[case] expected: &str) {
    let text = describe_rule(fields);
    let (mistake, original) = text.split_once(" (prometheus-adapter: ").expect(&text);
    assert!(mistake.contains(expected), "{text}");
    assert!(original.ends_with(')'), "{text}");
}

#[rstest]
#[case::field("<<.Serie>>", "queries have no <<.Serie>>: did you mean <<.Series>>?")]
#[case::of_text("<<.Series.X>>", "`.Series.X` has no value: only the template's data")]
#[case::call(
    "<<index .GroupBySlice 3>>",
    "`index .GroupBySlice 3` can't be used like this: index: index out of range: 3"
)]
fn query_that_fails_is_described(#[case] template: &str, #[case] expected: &str) {
    let rules = format!(
        "rules:\n- seriesQuery: m\n  resources: {{template: <<.Resource>>}}\n  metricsQuery: \
         '{template}'\n"
    );
    let rules = RuleSet::compile(&Config::parse(&rules).unwrap(), &resources());
    let rule = rules.custom[0].as_ref().unwrap();
    let pods = GroupResource::pods();
    let objects = QueriedObjects { resource: &pods, namespace: "a", names: &["b".to_owned()] };
    let all = Selector::everything();
    let resources = resources();
    let query = rule.custom_query("m", objects, &all, &resources, Compat::Off);
    let error = query.render().unwrap_err();
    let text = error.describe();
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains(" (prometheus-adapter: template: metrics-query:1:"), "{text}");
}
