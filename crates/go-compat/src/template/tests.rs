use std::collections::BTreeMap;

use rstest::rstest;

use super::*;

fn data() -> Value {
    let values: BTreeMap<String, String> =
        [("namespace", "shop"), ("pod", "a|b")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    Value::Struct(
        Struct {
            type_name: "naming.queryTemplateArgs",
            fields: vec![
                ("Series", Value::text("requests")),
                ("LabelMatchers", Value::text(r#"pod="a""#)),
                ("LabelValuesByName", Value::Map(values.into())),
                ("GroupBy", Value::text("pod,container")),
                ("GroupBySlice", Value::list(["pod", "container"])),
            ],
            string: None,
        }
        .into(),
    )
}

fn render(text: &str) -> Result<String, String> {
    let template = Template::parse("t", text).map_err(|error| error.to_string())?;
    template.render(data()).map_err(|error| error.to_string())
}

#[rstest]
#[case::text("a {{ > b", "a {{ > b")]
#[case::fields("<<.Series>>{<<.LabelMatchers>>}", r#"requests{pod="a"}"#)]
#[case::trimmed("a <<- .Series ->> \n b", "arequestsb")]
#[case::comment("<</* nothing */>>a<<- /* x */ ->> b", "ab")]
#[case::list("<<.GroupBySlice>>", "[pod container]")]
#[case::map("<<.LabelValuesByName>>", "map[namespace:shop pod:a|b]")]
#[case::map_field("<<.LabelValuesByName.pod>>", "a|b")]
#[case::missing_map_field("<<.LabelValuesByName.x>>", "<no value>")]
#[case::index("<<index .LabelValuesByName \"pod\">>", "a|b")]
#[case::missing_index("[<<index .LabelValuesByName \"x\">>]", "[]")]
#[case::list_index("<<index .GroupBySlice 1>>", "container")]
#[case::condition("<<if eq .Series \"x\">>a<<else if .GroupBy>>b<<else>>c<<end>>", "b")]
#[case::with("<<with .GroupBy>>by (<<.>>)<<end>>", "by (pod,container)")]
#[case::with_else("<<with .LabelValuesByName.x>>a<<else with .Series>><<.>><<end>>", "requests")]
#[case::range("<<range .GroupBySlice>>[<<.>>]<<end>>", "[pod][container]")]
#[case::range_variables(
    "<<range $i, $g := .GroupBySlice>><<if $i>>, <<end>><<$g>><<end>>",
    "pod, container"
)]
#[case::range_map(
    "<<range $k, $v := .LabelValuesByName>><<$k>>=<<$v>>;<<end>>",
    "namespace=shop;pod=a|b;"
)]
#[case::range_else("<<range slice .GroupBySlice 2>>x<<else>>none<<end>>", "none")]
#[case::definition("<<define \"x\">>(<<.>>)<<end>><<template \"x\" .Series>>", "(requests)")]
#[case::pipeline("<<.Series | printf \"%s_%s\" \"a\" | len>>", "10")]
#[case::parentheses("<<(index .GroupBySlice 0) | print \"x\">>", "xpod")]
#[case::and_or("<<or \"\" .Series>> <<and .Series \"\">>|<<not 0>>", "requests |true")]
#[case::lazy_or("<<or .Series (index .GroupBySlice 9)>>", "requests")]
#[case::comparison(
    "<<lt 1 2>> <<ge \"b\" \"a\">> <<eq 1 2 3 1>> <<ne \"a\" \"a\">>",
    "true true true false"
)]
#[case::print("<<print 1 2 \"x\" 3 4>>", "1 2x3 4")]
#[case::println("<<println 1 \"x\">>", "1 x\n")]
#[case::printf(
    "<<printf \"%q %d|%s 100%% %v %v\" \"a\" 7 \"b\" true .GroupBySlice>>",
    "\"a\" 7|b 100% true [pod container]"
)]
#[case::printf_mistakes("<<printf \"%d %s %q\" \"a\" 5>>", "%!d(string=a) %!s(int=5) %!q(MISSING)")]
#[case::printf_extra("<<printf \"x\" 1 \"a\">>", "x%!(EXTRA int=1, string=a)")]
#[case::printf_values(
    "<<printf \"%q %s\" .GroupBySlice .LabelValuesByName>>",
    "[\"pod\" \"container\"] map[namespace:shop pod:a|b]"
)]
#[case::escapes(
    "<<html \"<a&'b\\\">\">> <<js \"it's\">> <<urlquery \"a b/c\">>",
    "&lt;a&amp;&#39;b&#34;&gt; it\\'s a+b%2Fc"
)]
#[case::raw_string("<<`a\\n`>>", "a\\n")]
#[case::numbers("<<-5>> <<+0>> <<9223372036854775807>>", "-5 0 9223372036854775807")]
#[case::string_escapes("<<\"a\\t\\\"\\\\\">>", "a\t\"\\")]
#[case::assignment("<<$x := 1>><<range .GroupBySlice>><<$x = .>><<end>><<$x>>", "container")]
#[case::slice("<<slice .Series 0 3>><<slice .Series 7>>", "reqs")]
#[case::dollar("<<with .GroupBy>><<$.Series>><<end>>", "requests")]
#[case::root(
    "<<.>>",
    "{requests pod=\"a\" map[namespace:shop pod:a|b] pod,container [pod container]}"
)]
fn templates_render_like_in_go(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(render(text).unwrap(), expected);
}

#[rstest]
#[case::unclosed("a\n<<.Series", "template: t:2: unclosed action")]
#[case::function("<<join .GroupBySlice>>", "template: t:1: function \"join\" not defined")]
#[case::no_end("<<if .Series>>a", "template: t:1: unexpected EOF")]
#[case::end("<<end>>", "template: t:1: unexpected {{end}}")]
#[case::empty("<< >>", "template: t:1: missing value for command")]
#[case::variable("<<$y>>", "template: t:1: undefined variable \"$y\"")]
#[case::scope("<<if $x := 1>><<end>><<$x>>", "template: t:1: undefined variable \"$x\"")]
#[case::stage("<<.Series | 5>>", "template: t:1: non executable command in pipeline stage 2")]
#[case::paren("<<(.Series>>", "template: t:1: unclosed left paren")]
#[case::right_paren("<<.Series)>>", "template: t:1: unexpected right paren")]
#[case::comment("<</* a>>", "template: t:1: unclosed comment")]
#[case::string("<<\"a>>", "template: t:1: unterminated quoted string")]
#[case::superscript("<<.Series²>>", "template: t:1: bad character U+00B2 '²'")]
#[case::keyword("<<.Series end>>", "template: t:1: unexpected <end> in operand")]
#[case::twice(
    "<<define \"x\">>a<<end>><<define \"x\">>b<<end>>",
    "template: t:1: template: multiple definition of template \"x\""
)]
fn invalid_templates_are_refused_like_in_go(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(render(text).unwrap_err(), expected);
}

#[rstest]
#[case::field(".Serie", ".Serie", "can't evaluate field Serie in type naming.queryTemplateArgs")]
#[case::text_field(".Series.X", ".Series.X", "can't evaluate field X in type string")]
#[case::nil("nil", "nil", "nil is not a command")]
#[case::argument(".Series 1", ".Series", "Series has arguments but cannot be invoked as function")]
#[case::call(
    "call .Series",
    "call .Series",
    "error calling call: non-function .Series of type string"
)]
#[case::index(
    "index .GroupBySlice 3",
    "index .GroupBySlice 3",
    "error calling index: index out of range: 3"
)]
#[case::count("len", "len", "wrong number of args for len: want 1 got 0")]
#[case::compare(
    "eq .Series 1",
    "eq .Series 1",
    "error calling eq: incompatible types for comparison: string and int"
)]
#[case::format("printf 1", "1", "expected string; found 1")]
#[case::template("template \"x\"", "{{template \"x\"}}", "template \"x\" not defined")]
fn failing_templates_fail_like_in_go(
    #[case] text: &str,
    #[case] node: &str,
    #[case] expected: &str,
) {
    let error = render(&format!("<<{text}>>")).unwrap_err();
    let (start, message) = error.split_once(": executing \"t\" at ").unwrap();
    assert!(start.starts_with("template: t:1:"), "{error}");
    assert_eq!(message, format!("<{node}>: {expected}"));
}

#[rstest]
#[case::block("<<block \"x\" .>>a<<end>>", "{{block}} is not supported")]
#[case::break_action("<<range .GroupBySlice>><<break>><<end>>", "{{break}} is not supported")]
#[case::continue_action(
    "<<range .GroupBySlice>><<continue>><<end>>",
    "{{continue}} is not supported"
)]
#[case::float("<<1.5>>", "bad number syntax: \"1.5\": only decimal integers are supported")]
#[case::hexadecimal("<<0x1F>>", "bad number syntax: \"0x1F\": only decimal integers are supported")]
#[case::octal("<<010>>", "bad number syntax: \"010\": only decimal integers are supported")]
#[case::overflow("<<9223372036854775808>>", "integer overflow: \"9223372036854775808\"")]
#[case::character("<<'a'>>", "character constants are not supported")]
#[case::escape("<<\"\\x41\">>", "unsupported escape in \"\\x41\"")]
#[case::width("<<printf \"%5d\" 1>>", "printf: %5d is not supported: use %s, %v, %q or %d")]
#[case::verb("<<printf \"a%xb\" 1>>", "printf: %x is not supported: use %s, %v, %q or %d")]
#[case::no_verb("<<printf \"100%\">>", "printf: % is not supported: use %s, %v, %q or %d")]
#[case::function("<<.Series | upper>>", "function \"upper\" not defined")]
fn unsupported_syntax_is_refused_by_name(#[case] text: &str, #[case] expected: &str) {
    let error = Template::parse("t", text).unwrap_err();
    assert_eq!(error.to_string(), format!("template: t:1: {expected}"));
}

/// A template with nested blocks, which renders `body` 2 to the power of `depth` times.
fn nested(depth: usize, body: &str) -> String {
    let (start, end) = ("<<range .GroupBySlice>><<with $>>", "<<end>><<end>>");
    format!("{}{body}{}", start.repeat(depth), end.repeat(depth))
}

// 2^20 iterations exceed 100,000 steps, and 2^13 times 4000 bytes exceed 16 MiB.
#[rstest]
#[case::steps(&nested(20, ""), "maximum number of steps")]
#[case::output(&nested(13, &"x".repeat(4000)), "maximum output length")]
#[case::recursion(
    "<<define \"x\">><<template \"x\">><<end>><<template \"x\">>",
    "maximum template depth (64)"
)]
#[case::parentheses(
    &format!("<<{}1{}>>", "(".repeat(100), ")".repeat(100)),
    "max expression depth exceeded"
)]
#[case::blocks(&"<<if 1>>".repeat(100), "max expression depth exceeded")]
fn templates_are_limited(#[case] text: &str, #[case] expected: &str) {
    let error = render(text).unwrap_err();
    assert!(error.contains(expected), "{error}");
}

/// A template that doubles `$x`, which has 8 bytes, this many times.
fn doubled(times: usize) -> String {
    format!("<<$x := \"aaaaaaaa\">>{}", "<<$x = printf \"%s%s\" $x $x>>".repeat(times))
}

// The limit of all texts is 16 MiB. After 17 doublings, `$x` has 1 MiB, and after 20, 8 MiB.
#[rstest]
#[case::one_text(&doubled(23))]
#[case::many_arguments(&format!("{}<<len (print{})>>", doubled(17), " $x".repeat(20)))]
#[case::many_variables(&format!("{}{}", doubled(17), "<<$y := print $x>>".repeat(20)))]
#[case::escaped(&format!("{}<<len (html (print $x \"&\"))>>", doubled(20)))]
fn texts_in_variables_and_arguments_are_limited(#[case] text: &str) {
    let error = render(text).unwrap_err();
    assert!(error.contains("exceeded maximum length of texts"), "{error}");
}

#[test]
fn long_templates_are_refused() {
    let error = render(&"x".repeat(MAX_TEMPLATE_LEN + 1)).unwrap_err();
    assert_eq!(error, "template: t: more than 65536 bytes");
}

#[test]
fn many_comments_need_no_stack() {
    assert_eq!(render(&"<</**/>>".repeat(8000)).unwrap(), "");
}
