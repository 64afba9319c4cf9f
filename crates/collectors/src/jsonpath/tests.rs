use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::jsonpath::{budget::Budget, document::Document, error::EvalError, operands::Evaluation};

const DOCUMENT: &str = r#"{
    "rps": 12.5, "list": [3, 4, 5], "empty": [], "text": "7", "flag": true, "nothing": null,
    "queues": [{"name": "a", "len": 5}, {"name": "b", "len": 7.5}, {"name": "c", "len": "x"}],
    "a b": {"c.d": 1}, "deep": {"x": {"len": 1}, "y": {"len": 2}}, "huge": 1e999
}"#;

fn extract_path(path: &str, aggregator: &str) -> Result<f64, ExtractError> {
    Extractor::new(Query::key(path)?, Aggregator::new(aggregator)).extract(DOCUMENT.as_bytes())
}

fn extract_expression(text: &str) -> Result<f64, ExtractError> {
    Extractor::new(Query::expression(text), None).extract(DOCUMENT.as_bytes())
}

#[rstest]
#[case("$.rps", "", 12.5)]
#[case("$['a b']['c.d']", "", 1.0)]
#[case("$.list", "sum", 12.0)]
#[case("$.list[*]", "avg", 4.0)]
#[case("$.list[-1]", "", 5.0)]
#[case("$.list[(@.length-1)]", "", 5.0)]
#[case("$.list[0:2]", "max", 4.0)]
#[case("$.list[::-2]", "min", 3.0)]
#[case("$.list.length", "", 3.0)]
#[case("$.queues[?(@.name=='b')].len", "", 7.5)]
#[case("$.queues[0,1].len", "sum", 12.5)]
#[case("$.deep..len", "sum", 3.0)]
#[case("$.empty", "max", f64::NEG_INFINITY)]
fn path_selects_expected_numbers(
    #[case] path: &str,
    #[case] aggregator: &str,
    #[case] expected: f64,
) {
    assert_eq!(extract_path(path, aggregator), Ok(expected));
}

#[rstest]
#[case("$.rps * 2 + 1", 26.0)]
#[case("1 + 2 * 3 ** 2", 19.0)]
#[case("2 ** 3 ** 2", 512.0)]
// On the left of another operator, ajson applies `^` first.
#[case("1 ^ 2 * 3", 9.0)]
#[case("sum($.list) / length($.list)", 4.0)]
#[case("7 % 4", 3.0)]
#[case("1 << 70", 0.0)]
#[case("pow10(3)", 1000.0)]
#[case("factorial(5)", 120.0)]
#[case("exp(1) - e", 0.0)]
#[case("exp(0)", 1.0)]
#[case("exp(0-800)", 0.0)]
#[case("exp(710)", f64::INFINITY)]
#[case("length(parent($.list[0]))", 3.0)]
fn expression_has_the_result_of_the_reference(#[case] text: &str, #[case] expected: f64) {
    assert_eq!(extract_expression(text), Ok(expected), "{text}");
}

#[test]
fn expression_without_a_result_is_null() {
    assert_eq!(extract_expression("avg($..len[0])"), Err(ExtractError::Type("null")));
}

#[rstest]
#[case("$.nothing", ExtractError::Type("null"))]
#[case("$.text", ExtractError::Type("a string"))]
#[case("$.flag", ExtractError::Type("a boolean"))]
#[case("$.deep", ExtractError::Type("an object"))]
#[case("$.list", ExtractError::NoAggregator)]
#[case("$.none", ExtractError::Empty)]
#[case("$.huge", ExtractError::TooLarge)]
#[case("$a", ExtractError::Path { position: 1, problem: "expected a dot or a bracket" })]
#[case("$.a[", ExtractError::Path { position: 3, problem: "the bracket is not closed" })]
fn invalid_paths_and_results_are_errors(#[case] path: &str, #[case] expected: ExtractError) {
    assert_eq!(extract_path(path, ""), Err(expected));
}

#[test]
fn text_among_aggregated_values_is_an_error() {
    assert_eq!(extract_path("$.queues[*].len", "sum"), Err(ExtractError::NotNumeric));
}

#[test]
fn number_out_of_range_is_zero_if_compatible() {
    let extractor = Extractor::new(Query::key("$.huge").expect("a path"), None);
    let compatible = extractor.with_compat(Compat::Reference);
    assert_eq!(compatible.extract(DOCUMENT.as_bytes()), Ok(0.0));
}

#[test]
fn factorial_wraps_around_if_compatible() {
    let factorial = Extractor::new(Query::expression("factorial(21)"), None);
    factorial.extract(b"0").expect_err("too large");
    // ajson multiplies in u64: 21! modulo 2^64.
    let compatible = factorial.with_compat(Compat::Reference);
    assert_eq!(compatible.extract(b"0"), Ok(14_197_454_024_290_336_768.0));
}

#[rstest]
#[case::remainder_of_zero("$.rps % 0")]
#[case::remainder_of_zero_literal("1 % 0")]
#[case::random_number_below_zero("randint(0)")]
#[case::factorial_overflows_the_stack("factorial(1000000000)")]
fn expression_that_panics_in_the_reference_is_an_error(#[case] text: &str) {
    for compat in [Compat::Off, Compat::Reference] {
        let extractor = Extractor::new(Query::expression(text), None).with_compat(compat);
        let error = extractor.extract(DOCUMENT.as_bytes()).expect_err(text);
        assert!(matches!(error, ExtractError::Evaluation(_)), "{error}");
    }
}

#[rstest]
#[case::remainder_of_zero("$.list[?(@ % 0 == 1)]")]
// A true script leaves a missing value, which the name selects.
#[case::filter_after_missing_value("$.list[(true)].x[?(@)]")]
#[case::descent_after_missing_value("$.list[(true)].x..y")]
#[case::script_after_missing_value("$.list[(true)].x[(1)]")]
#[case::missing_value("$.list[(true)].x")]
fn path_that_panics_in_the_reference_is_an_error(#[case] path: &str) {
    let error = extract_path(path, "").expect_err(path);
    assert!(matches!(error, ExtractError::Evaluation(_)), "{error}");
}

#[test]
fn random_numbers_are_refused() {
    let text = extract_expression("rand(1)").expect_err("random").to_string();
    assert!(text.contains("must not be random"), "{text}");
}

#[test]
fn invalid_expression_is_an_error_of_the_evaluation() {
    let error = extract_expression("sum(").expect_err("incomplete");
    assert_eq!(error.to_string(), r#"evaluation failed: unbalanced parentheses in "sum(""#);
    let error = extract_expression("1 % 0").expect_err("no result");
    assert_eq!(error.to_string(), "evaluation failed: division by zero");
    let error = extract_expression("max($.a)").expect_err("no such function");
    assert_eq!(error.to_string(), r#"evaluation failed: "max" is not a function"#);
}

#[test]
fn depth_and_size_of_documents_are_bounded() {
    let extractor = || Extractor::new(Query::key("$..x").expect("a path"), None);
    // The default limit of the depth is 200.
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(extractor().extract(nested(200).as_bytes()), Err(ExtractError::Empty));
    let error = extractor().extract(nested(201).as_bytes()).expect_err("too deep");
    let expected = "the response can't be read as JSON: nested too deeply at byte 201";
    assert_eq!(error.to_string(), expected);
    let limits = Limits { values: 3, ..Limits::default() };
    let error = extractor().with_limits(limits).extract(b"[1,2,3]").expect_err("too many");
    assert!(error.to_string().contains("too many values"), "{error}");
    let limits = Limits { document_bytes: 3, ..Limits::default() };
    let error = extractor().with_limits(limits).extract(b"[1,2]").expect_err("too large");
    assert!(error.to_string().contains("too large"), "{error}");
}

#[test]
fn steps_of_an_evaluation_are_bounded() {
    let document = format!("[{}]", vec!["[[[]]]"; 50].join(","));
    // Each descent repeats the containers of the previous one.
    let path = format!("${}", "..".repeat(40));
    let limits = Limits { steps: 10_000, ..Limits::default() };
    let error = Extractor::new(Query::key(&path).expect("a path"), None)
        .with_limits(limits)
        .extract(document.as_bytes())
        .expect_err("too many steps");
    assert_eq!(error.to_string(), "evaluation failed: more than 10000 steps");
    let budget = Budget::new(Limits { steps: 2, ..Limits::default() }, Compat::Off);
    assert_eq!(budget.spend(3), Err(EvalError::TooManySteps(2)));
}

#[test]
fn nesting_of_expressions_is_bounded() {
    let nested = (0..40).fold("@".to_owned(), |inner, _| format!("$[?({inner})]"));
    let error = extract_path(&nested, "").expect_err("too deep").to_string();
    assert_eq!(error, "evaluation failed: expressions are nested too deeply");
}

#[test]
fn size_of_paths_and_expressions_is_bounded() {
    let long = "(".repeat(20_000);
    let error = extract_expression(&long).expect_err("too long").to_string();
    assert_eq!(error, "evaluation failed: the expression has more than 16 KiB");
    let error = extract_path(&format!("$['{long}']"), "").expect_err("too long").to_string();
    assert_eq!(error, "invalid path at byte 16384: more than 16 KiB");
    let error = extract_expression(&"(".repeat(16_000)).expect_err("unbalanced").to_string();
    assert!(error.len() < 200, "{error}");
}

#[test]
fn inverse_of_the_error_function_is_precise() {
    for number in [1e-300, 1e-9, 0.1, 0.49, 0.5, 0.9, 0.999, 1.0 - 1e-9] {
        let root = extract_expression(&format!("erfinv({number})")).expect("a number");
        let error = (libm::erf(root) - number).abs() / number;
        assert!(error < 1e-14, "{number}: {error}");
    }
}

#[rstest]
#[case(1.5, "1.5")]
#[case(-0.0001, "-0.0001")]
#[case(0.00001, "1e-05")]
#[case(1_234_567.5, "1.2345675e+06")]
#[case(f64::NEG_INFINITY, "-Inf")]
fn float_is_formatted_as_by_go(#[case] number: f64, #[case] expected: &str) {
    assert_eq!(math::format_shortest(number), expected);
}

/// An array of strings, 62 KiB in total.
fn texts() -> Vec<u8> {
    serde_json::to_vec(&vec!["abcd"; 9000]).unwrap()
}

fn sum_of_path(path: &str, document: &[u8]) -> Result<f64, ExtractError> {
    Extractor::new(Query::key(path)?, Some(Aggregator::Sum)).extract(document)
}

/// Without limits, compiling large expressions for each element would take minutes of CPU.
#[test]
fn regular_expression_is_limited_and_compiled_once() {
    let large = sum_of_path(r"$[?(@ =~ '\\pL{200}')]", &texts()).unwrap_err().to_string();
    assert_eq!(large, "evaluation failed: invalid regular expression: expression too large");
    assert_eq!(sum_of_path("$[?(@ =~ '^x')]", &texts()), Err(ExtractError::Empty));
    assert_eq!(sum_of_path("$[?(@ =~ '^ab*c')]", &texts()), Err(ExtractError::NotNumeric));
    let long = format!("$[?(@ =~ '{}')]", "a".repeat(2000));
    let long = sum_of_path(&long, &texts()).unwrap_err().to_string();
    assert_eq!(long, "evaluation failed: a regular expression has more than 1 KiB");
}

#[test]
fn patterns_from_the_document_are_limited_and_not_in_errors() {
    let pairs: Vec<_> = (0..9).map(|index| [format!("x{index}"), format!("x{index}")]).collect();
    let path = "$[?(@[0] =~ @[1])]";
    let few = sum_of_path(path, &serde_json::to_vec(&pairs[..8]).unwrap());
    assert_eq!(few, Err(ExtractError::NotNumeric));
    let many = sum_of_path(path, &serde_json::to_vec(&pairs).unwrap()).unwrap_err().to_string();
    assert_eq!(many, "evaluation failed: more than 8 regular expressions");
    let error = sum_of_path(path, br#"[["a", "(hunter2"]]"#).unwrap_err().to_string();
    assert_eq!(error, "evaluation failed: invalid regular expression: missing closing )");
}

/// Inputs with much work per step, or growing lists and strings.
#[rstest]
#[case::concatenation(&format!("$[({})]", ["@[0]"; 700].join("+")), 50_000)]
#[case::descents(&format!("${}*", "..".repeat(1000)), 20)]
#[case::children(&format!("${}", "[*,*]".repeat(20)), 4)]
#[case::filters(&format!("$[?({})]", ["@=~'(a|b|ab)*c'"; 200].join("||")), 4)]
#[case::copied_key(&format!("$[?(@['({})'] == 1)]", "1+".repeat(1900)), 4)]
#[case::constants(&format!("$[?('{}' == @)]", "x".repeat(4000)), 4)]
fn work_of_an_evaluation_is_bounded(#[case] path: &str, #[case] bytes: usize) {
    let count = (64 << 10) / (bytes + 3);
    let nested = format!("{}1{}", "[".repeat(90), "]".repeat(90));
    let flat = serde_json::to_vec(&vec!["x".repeat(bytes); count]).unwrap();
    let limits = Limits::default();
    for document in [flat.as_slice(), nested.as_bytes()] {
        let (_, steps, created) = spend(path, document);
        // The last operation may exceed a limit: a regular expression costs up to 160 steps for
        // each byte of a string.
        assert!(steps <= limits.steps + 160 * (64 << 10), "{steps}");
        assert!(created <= limits.bytes + (4 << 20), "{created}");
    }
}

/// Steps bound the time, so bytes that are copied, parsed or compared must cost steps: at least one
/// for 256 bytes.
#[rstest]
#[case::index(&format!("$[*]['{}']", "0".repeat(4000)), &vec![json!([]); 100])]
#[case::text_of_a_script(
    "$[1:][($[0])]",
    &[vec![json!("0".repeat(4000))], vec![json!([]); 100]].concat()
)]
#[case::key_in_a_comparison("$[?(@ == $[0])]", &vec![json!({"x".repeat(4000): 1}); 100])]
fn bytes_cost_steps(#[case] path: &str, #[case] document: &[Value]) {
    let (result, steps, _) = spend(path, json!(document).to_string().as_bytes());
    result.unwrap();
    assert!(steps > 100 * 4000 / 256, "{steps}");
}

/// Values that an evaluation selects or creates must cost bytes.
#[rstest]
#[case::filter("$[?(true)]", &Value::from(vec![1; 1000]), 1000 * size_of::<value::Value>())]
#[case::names("$[0,0,0,0,0,0,0,0,0,0]", &json!([1]), 10 * size_of::<value::Value>())]
#[case::script(
    "$[*][(@.length-1)]",
    &Value::from(vec![json!([1]); 100]),
    200 * size_of::<value::Value>()
)]
#[case::text_of_a_key("$.*[?(key(@) == 'y')]", &json!({"a": {"x".repeat(4000): 1}}), 4000)]
fn selected_values_cost_bytes(#[case] path: &str, #[case] document: &Value, #[case] min: usize) {
    let (result, _, bytes) = spend(path, document.to_string().as_bytes());
    result.unwrap();
    assert!(bytes >= min, "{bytes} of {min}");
}

/// Evaluates a path within the default limits. Returns the result, the spent steps, and the size of
/// the created values in bytes.
fn spend(path: &str, document: &[u8]) -> (Result<Vec<value::Value>, EvalError>, u64, usize) {
    let limits = Limits::default();
    let budget = Budget::new(limits, Compat::Off);
    let document = Document::parse(document, &limits).unwrap();
    let path = syntax::Path::parse(path.as_bytes(), 0).unwrap();
    let evaluation = Evaluation { document: &document, budget: &budget };
    let result = evaluation.select_values(&path, &value::Value::Node(Document::ROOT));
    let (steps, bytes) = budget.spent();
    (result, steps, bytes)
}
