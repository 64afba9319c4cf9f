use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn parsed(text: &str) -> Selector {
    Selector::parse(text).unwrap()
}

#[rstest]
#[case::empty("", "")]
#[case::only_spaces(" \t\r\n", "")]
#[case::exists("app", "app")]
#[case::absent("! app", "!app")]
#[case::operators_keep_their_spelling("a==1, b = 1, c != 1, d>1, e<1", "a==1,b=1,c!=1,d>1,e<1")]
#[case::sorted_by_key_stably("b=2,a,b=1,!a", "a,!a,b=2,b=1")]
#[case::values_are_a_sorted_set("a in (z,b,z)", "a in (b,z)")]
#[case::empty_set_is_the_empty_value("a in ()", "a in ()")]
#[case::empty_values_in_a_set("a notin (,x,)", "a notin (,x)")]
#[case::no_value_at_the_end("a=", "a=")]
#[case::no_value_before_a_comma("a= ,b", "a=,b")]
#[case::operator_words_as_names("in in (in,notin),notin=in", "in in (in,notin),notin=in")]
#[case::nul_ends_the_selector("app= \0,b", "app=")]
#[case::nul_after_a_token_is_skipped("app\0=\0web", "app=web")]
#[case::longest_key(
    "p123456789.p123456789/k12345678901234567890123456789012345678901234567890123456789012",
    "p123456789.p123456789/k12345678901234567890123456789012345678901234567890123456789012"
)]
fn selector_prints_its_canonical_form(#[case] text: &str, #[case] canonical: &str) {
    assert_eq!(parsed(text).to_string(), canonical);
}

#[rstest]
#[case::comma_at_the_start(",a", "found ',', expected: !, identifier, or 'end of string'")]
#[case::comma_at_the_end("a,", "found '', expected: identifier after ','")]
#[case::no_comma("a=b c", "found 'c', expected: ',' or 'end of string'")]
#[case::negated_with_a_value("!a=b", "found '=', expected: ',' or 'end of string'")]
#[case::negation_alone("!", "unable to parse requirement: found '', expected: identifier")]
#[case::name_for_an_operator(
    "a b",
    "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
)]
#[case::set_without_parentheses("a in b", "unable to parse requirement: found 'b' expected: '('")]
#[case::set_with_an_operator(
    "a in (=",
    "unable to parse requirement: found '=', expected: ',', ')' or identifier"
)]
#[case::open_set("a in (b", "unable to parse requirement: found '', expected: ',' or ')'")]
#[case::open_set_after_a_comma(
    "a in (b,",
    "unable to parse requirement: found '', expected: ',', or identifier"
)]
#[case::value_is_an_operator("a=(", "unable to parse requirement: found '(', expected: identifier")]
fn syntax_errors_are_those_of_the_api(#[case] text: &str, #[case] error: &str) {
    assert_eq!(Selector::parse(text).unwrap_err().to_string(), error);
}

#[rstest]
#[case::no_name(
    "a/",
    "<nil>: Invalid value: \"a/\": name part must be non-empty; name part must consist of"
)]
#[case::no_prefix("/a", "<nil>: Invalid value: \"/a\": prefix part must be non-empty")]
#[case::two_slashes("a/b/c", "<nil>: Invalid value: \"a/b/c\": a valid label key must consist of")]
#[case::upper_case_prefix(
    "A/b",
    "<nil>: Invalid value: \"A/b\": prefix part a lowercase RFC 1123 subdomain must"
)]
#[case::not_an_integer(
    "a>x",
    "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"
)]
#[case::an_integer_no_label_can_have(
    "a>-1",
    "values[0][a]: Invalid value: \"-1\": a valid label must be"
)]
#[case::two_errors_in_brackets(
    "a>-x",
    "[values[0]: Invalid value: \"-x\": for 'Gt', 'Lt' operators, the value must"
)]
#[case::quoted_as_go_does(
    "a=\u{7}\u{7f}\u{e9}\u{200b}",
    r#"values[0][a]: Invalid value: "\a\x7fé\u200b": a valid"#
)]
fn invalid_names_are_rejected_like_in_the_api(#[case] text: &str, #[case] start: &str) {
    let error = Selector::parse(text).unwrap_err().to_string();
    let error = error.strip_prefix("unable to parse requirement: ").unwrap();
    assert!(error.starts_with(start), "{error}");
}

#[rstest]
#[case::name_of_63(63, 1, true)]
#[case::name_of_64(64, 1, false)]
#[case::prefix_of_253(1, 253, true)]
#[case::prefix_of_254(1, 254, false)]
fn key_length_is_limited(#[case] name: usize, #[case] prefix: usize, #[case] valid: bool) {
    let key = format!("{}/{}", "p".repeat(prefix), "n".repeat(name));
    assert_eq!(Selector::parse(&key).is_ok(), valid);
}

#[rstest]
#[case::value_of_63(63, true)]
#[case::value_of_64(64, false)]
fn value_length_is_limited(#[case] len: usize, #[case] valid: bool) {
    assert_eq!(Selector::parse(&format!("a={}", "v".repeat(len))).is_ok(), valid);
}

#[rstest]
#[case::equal("a=1", true)]
#[case::equal_to_another("a=2", false)]
#[case::equal_needs_the_key("b=", false)]
#[case::not_equal_without_the_key("b!=1", true)]
#[case::in_set("a in (1,2)", true)]
#[case::not_in_set("a notin (1,2)", false)]
#[case::not_in_without_the_key("b notin (1)", true)]
#[case::exists("a", true)]
#[case::absent("!a", false)]
#[case::greater_is_strict("a>1", false)]
#[case::greater("a>0", true)]
#[case::less_is_strict("a<1", false)]
#[case::less("a<2", true)]
#[case::less_needs_the_key("b<2", false)]
#[case::less_needs_a_number("word<2", false)]
#[case::all_must_hold("a=1,b", false)]
fn selector_matches_labels_by_its_operators(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(parsed(text).matches(&labels(&[("a", "1"), ("word", "x")])), expected);
}

#[test]
fn slices_and_options_implement_labels() {
    let selector = parsed("a=1");
    assert!(selector.matches(&[("a", "1")][..]));
    assert!(selector.matches(&Some(labels(&[("a", "1")]))));
    assert!(!selector.matches(&None::<BTreeMap<String, String>>));
}

/// The error of a selector that is too large.
fn too_large(size: usize, unit: &str, limit: usize) -> String {
    format!("the selector has {size} {unit}, at most {limit} are supported")
}

/// An expression with this many values.
fn values(count: usize) -> LabelSelector {
    let expression = LabelSelectorRequirement {
        key: "a".to_owned(),
        operator: "NotIn".to_owned(),
        values: (0..count).map(|at| format!("{at:04}")).collect(),
        ..Default::default()
    };
    LabelSelector { match_expressions: vec![expression], ..Default::default() }
}

#[test]
fn requirements_are_limited() {
    let labels = |count: usize| LabelSelector {
        match_labels: (0..count).map(|at| (format!("l{at}"), String::new())).collect(),
        ..Default::default()
    };
    let text = labels(MAX_REQUIREMENTS).to_selector().unwrap().to_string();
    assert_eq!(parsed(&text).requirements().len(), MAX_REQUIREMENTS);
    let expected = too_large(20_000, "requirements", 100);
    assert_eq!(labels(20_000).to_selector().unwrap_err().to_string(), expected);
    let error = Selector::parse(&format!("{text},!x")).unwrap_err();
    assert_eq!(error.to_string(), too_large(101, "requirements", 100));
}

#[test]
fn values_are_limited() {
    let text = values(MAX_VALUES).to_selector().unwrap().to_string();
    assert_eq!(parsed(&text).to_string(), text);
    let expected = too_large(70_000, "values", 1000);
    assert_eq!(values(70_000).to_selector().unwrap_err().to_string(), expected);
    let error = Selector::parse(&format!("{text},b=1")).unwrap_err();
    assert_eq!(error.to_string(), too_large(1001, "values", 1000));
}

#[test]
fn text_length_is_limited() {
    let text = "a".to_owned() + &" ".repeat(MAX_TEXT_BYTES - 1);
    assert_eq!(parsed(&text).to_string(), "a");
    let error = Selector::parse(&(text + " ")).unwrap_err();
    assert_eq!(error.to_string(), too_large(65_537, "bytes", 65_536));

    let mut long = values(MAX_VALUES - 10);
    for (at, value) in long.match_expressions[0].values.iter_mut().enumerate() {
        *value = format!("{at:063}");
    }
    long.match_labels =
        (0..9).map(|at| (format!("{}/{at}", "p".repeat(253)), String::new())).collect();
    let error = long.to_selector().unwrap_err().to_string();
    assert!(error.ends_with(" bytes, at most 65536 are supported"), "{error}");
}

#[test]
fn message_names_at_most_a_hundred_invalid_values() {
    let mut selector = values(5000);
    for value in &mut selector.match_expressions[0].values {
        value.push('-');
    }
    let error = selector.to_selector().unwrap_err().to_string();
    assert_eq!(error.matches("Invalid value").count(), 100);
}

#[rstest]
#[case::few(MAX_LABELS, 1, false)]
#[case::too_many(MAX_LABELS + 1, 1, true)]
#[case::short(MAX_LABEL_BYTES / 64, 63, false)]
#[case::too_long(MAX_LABEL_BYTES / 64, 64, true)]
fn labels_are_limited(#[case] count: usize, #[case] value_len: usize, #[case] expected: bool) {
    let value = "v".repeat(value_len);
    assert_eq!(exceed_label_limits((0..count).map(|_| ("k", value.as_str()))), expected);
}

#[test]
fn nothing_matches_no_labels_and_everything_matches_all() {
    let (nothing, everything) = (Selector::nothing(), Selector::everything());
    assert_ne!(nothing, everything);
    assert_eq!((nothing.to_string(), everything.to_string()), (String::new(), String::new()));
    assert!(!nothing.matches(&labels(&[])) && everything.matches(&labels(&[])));
    assert!(!nothing.is_empty() && nothing.is_nothing());
    assert!(everything.is_empty() && !everything.is_nothing());
    assert_eq!(everything, parsed(""));
}

#[test]
fn selectors_with_equal_canonical_forms_are_equal() {
    assert_eq!(parsed("b,a in (y,x)"), parsed("a in (x,y,x),b"));
    assert_ne!(parsed("a=1"), parsed("a==1"));
}

#[test]
fn required_pairs_come_from_single_values() {
    let selector = parsed("a=1,b==2,c in (3),d in (4,5),e!=6,f,g notin (7),h>8");
    assert_eq!(selector.required_pairs().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "3")]);
}

#[test]
fn requirements_are_sorted_by_key() {
    let selector = parsed("tier in (b,a),app=shop,!canary");
    let parts: Vec<_> = selector
        .requirements()
        .iter()
        .map(|one| (one.key(), one.operator(), one.values().collect::<Vec<_>>()))
        .collect();
    assert_eq!(
        parts,
        [
            ("app", Operator::Equals, vec!["shop"]),
            ("canary", Operator::DoesNotExist, vec![]),
            ("tier", Operator::In, vec!["a", "b"]),
        ]
    );
    assert!(Selector::nothing().requirements().is_empty());
}

#[rstest]
#[case::empty(
    json!({}),
    "",
    "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}"
)]
#[case::nulls(
    json!({
        "matchLabels": null,
        "matchExpressions": [{"key": "a", "operator": "Exists", "values": null}],
    }),
    "a",
    "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{\
     LabelSelectorRequirement{Key:a,Operator:Exists,Values:[],},},}"
)]
#[case::duplicates_are_kept(
    json!({
        "matchLabels": {"b": "1"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x", "y"]}],
    }),
    "a in (x,y,y),b=1",
    "&LabelSelector{MatchLabels:map[string]string{b: 1,},\
     MatchExpressions:[]LabelSelectorRequirement{\
     LabelSelectorRequirement{Key:a,Operator:In,Values:[y x y],},},}"
)]
fn label_selector_converts_and_prints(
    #[case] object: serde_json::Value,
    #[case] canonical: &str,
    #[case] go: &str,
) {
    let object: LabelSelector = serde_json::from_value(object).unwrap();
    assert_eq!(object.to_selector().unwrap().to_string(), canonical);
    assert_eq!(go_string(Some(&object)), go);
}

#[rstest]
#[case::unknown_operator("B\"", &[], r#""B\"" is not a valid label selector operator"#)]
#[case::no_values(
    "In",
    &[],
    "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
)]
#[case::values_with_exists(
    "Exists",
    &["x", "<"],
    "[values: Invalid value: [\"x\",\"\\u003c\"]: values set must be empty for exists and does not \
     exist, values[1][a]: "
)]
fn invalid_label_selectors_are_rejected(
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] start: &str,
) {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    let expression = LabelSelectorRequirement {
        key: "a".to_owned(),
        operator: operator.to_owned(),
        values,
        ..Default::default()
    };
    let selector = LabelSelector { match_expressions: vec![expression], ..Default::default() };
    let error = selector.to_selector().unwrap_err().to_string();
    assert!(error.starts_with(start), "{error}");
}

#[test]
fn message_about_many_values_of_a_long_key_is_limited() {
    let expression = LabelSelectorRequirement {
        key: "k".repeat(10_000),
        operator: "In".to_owned(),
        values: vec!["<".to_owned(); 100],
        ..Default::default()
    };
    let selector = LabelSelector { match_expressions: vec![expression], ..Default::default() };
    let error = selector.to_selector().unwrap_err().to_string();
    assert!(error.len() < 80_000, "{}", error.len());
}

#[test]
fn absent_label_selector_selects_nothing() {
    assert!(Selector::from_label_selector(None).unwrap().is_nothing());
    assert_eq!(go_string(None), "nil");
    assert!(Selector::from_label_selector(Some(&LabelSelector::default())).unwrap().is_empty());
}

#[test]
fn unknown_fields_round_trip() {
    let object = json!({
        "matchExpressions": [{"key": "a", "operator": "Exists", "new": 1}],
        "newer": {"x": []},
    });
    let selector: LabelSelector = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(serde_json::to_value(selector).unwrap(), object);
}

#[cfg(feature = "schema")]
#[test]
fn schema_requires_key_and_operator() {
    let schema = schemars::schema_for!(LabelSelectorRequirement).to_value();
    assert_eq!(schema.get("required"), Some(&json!(["key", "operator"])));
    assert!(!schema.to_string().contains("default"), "{schema}");
    assert_eq!(schema.pointer("/properties/unknown"), None);
}

fn selector_text() -> impl Strategy<Value = String> {
    let word = "in|notin|[a-c]|a\\.b/c|[0-9]{1,3}|";
    let requirement = (word, "=|==|!=|>|<| in \\(| notin \\(|", word, ",[a-c]|,|", "\\)|")
        .prop_map(|(key, operator, value, more, end)| format!("{key}{operator}{value}{more}{end}"));
    prop::collection::vec(requirement, 0..4).prop_map(|all| all.join(","))
}

proptest! {
    #[test]
    fn canonical_form_parses_to_the_same_selector(
        text in selector_text(),
        value in "[a-c]|[0-9]{1,3}|",
    ) {
        if let Ok(selector) = Selector::parse(&text) {
            let again = parsed(&selector.to_string());
            prop_assert_eq!(&again, &selector);
            prop_assert_eq!(again.to_string(), selector.to_string());
            for key in ["a", "in", "a.b/c", "x"] {
                let labels = [(key, value.as_str())];
                prop_assert_eq!(again.matches(&labels[..]), selector.matches(&labels[..]));
            }
        }
    }

    #[test]
    fn labels_without_a_required_pair_do_not_match(text in selector_text()) {
        if let Ok(selector) = Selector::parse(&text) {
            for (key, value) in selector.required_pairs() {
                let other = format!("{value}0");
                prop_assert!(!selector.matches_by(|asked| (asked != key).then_some("a")));
                let changed = |asked: &str| if asked == key { other.as_str() } else { "a" };
                prop_assert!(!selector.matches_by(|asked| Some(changed(asked))));
            }
        }
    }

    #[test]
    fn parsing_any_text_does_not_panic(text in any::<String>()) {
        let _ = Selector::parse(&text);
    }
}
