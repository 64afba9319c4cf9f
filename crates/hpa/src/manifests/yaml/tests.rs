use rstest::rstest;
use serde_json::json;

use super::*;

#[test]
fn fields_have_positions() {
    let text = "a:\n  b: [1, {c: 2}]\nmetadata:\n  annotations:\n    x.y/z: on\n";
    let (value, fields) = parse(text, 11).unwrap();
    assert_eq!(value["metadata"]["annotations"]["x.y/z"], true);
    let at = |field: &str| fields.positions.get(field).map(|at| (at.line, at.column));
    assert_eq!(at("a.b"), Some((12, 3)));
    assert_eq!(at("a.b[1].c"), Some((12, 11)));
    assert_eq!(at("a.b[1].missing[0].member"), Some((12, 10)));
    assert_eq!(at("metadata.annotations[x.y/z]"), Some((15, 5)));
    assert_eq!(at("missing"), None);
}

#[test]
fn last_of_equal_keys_counts_and_the_lost_value_is_recorded() {
    let (value, fields) = parse("a: {b: 1, c: 2}\nd: 3\na: {c: 4}\n", 1).unwrap();
    assert_eq!(value, json!({ "a": { "c": 4 }, "d": 3 }));
    let at = |line, column| Position { line, column };
    assert_eq!(
        fields.duplicates,
        [DuplicateKey {
            field: "a".to_owned(),
            lost_value: json!({ "b": 1, "c": 2 }),
            position: at(1, 1),
            last_position: at(3, 1),
        }]
    );
    assert_eq!(fields.positions.get("a.b"), Some(at(3, 1)));
}

#[test]
fn fields_beside_a_duplicate_keep_their_positions() {
    let (_, fields) = parse("a: {b: [{c: 1}]}\na-b: {c: 1}\nab: [1]\na: {}\n", 1).unwrap();
    let paths: Vec<&str> = fields.positions.0.keys().map(String::as_str).collect();
    assert_eq!(paths, ["a", "a-b", "a-b.c", "ab", "ab[0]"]);
}

#[test]
fn duplicates_take_time_in_proportion_and_are_recorded_up_to_a_limit() {
    let mapping = |name: &dyn Fn(usize) -> String| -> String {
        (0..20_000).map(|index| name(index) + ": {a: 1}\n").collect()
    };
    let timed = |text: &str| {
        let start = std::time::Instant::now();
        let (_, fields) = parse(text, 1).unwrap();
        (start.elapsed(), fields.duplicates.len())
    };
    let half = mapping(&|index| format!("k{index}"));
    let other_half = mapping(&|index| format!("l{index}"));
    let (distinct, none) = timed(&(half.clone() + &other_half));
    let (repeated, recorded) = timed(&half.repeat(2));
    assert_eq!((none, recorded), (0, MAX_DUPLICATES));
    assert!(repeated < distinct * 10, "{repeated:?}, but {distinct:?} without duplicates");
}

/// The expected values are those of `kubectl label --local -o json`.
#[rstest]
#[case("yes", json!(true))]
#[case("'yes'", json!("yes"))]
#[case("0x1f", json!(31))]
#[case("017", json!(15))]
#[case("08", json!(8))]
#[case("-0", json!(0))]
#[case("1_000", json!(1000))]
#[case("1e3", json!(1000))]
#[case("5.0", json!(5))]
#[case("0.5", json!(0.5))]
#[case("18446744073709551615", json!(18_446_744_073_709_551_615_u64))]
#[case("12:30", json!("12:30"))]
#[case("0x", json!("0x"))]
#[case("500m", json!("500m"))]
#[case("2026-01-01", json!("2026-01-01"))]
#[case("!!str 5", json!("5"))]
#[case("~", Value::Null)]
fn scalars_are_those_of_kubectl(#[case] text: &str, #[case] expected: Value) {
    assert_eq!(parse(&format!("a: {text}"), 1).unwrap().0["a"], expected);
}

#[test]
fn document_is_read_to_its_end() {
    assert!(parse("I---\nkind: Pod\n", 1).is_err());
    assert!(parse("{a: 1}\n}\n", 1).is_err());
}

#[test]
fn merged_members_replace_those_before_them() {
    let text = "a: &a {p: 1, q: 2}\nb: {<<: *a, q: 3}\nc: {q: 3, <<: [{q: 4}, *a]}\n";
    let (value, fields) = parse(text, 1).unwrap();
    assert_eq!(value["b"], json!({ "p": 1, "q": 3 }));
    assert_eq!(value["c"], json!({ "p": 1, "q": 4 }));
    assert_eq!(fields.duplicates, []);
}

#[test]
fn json_with_tabs_is_read() {
    let (value, fields) = parse("{\n\t\"a\": [\n\t\t{\"b\": \"\\u00e9\"}\n\t]\n}\n", 1).unwrap();
    assert_eq!(value, json!({ "a": [{ "b": "é" }] }));
    assert_eq!(fields.positions.get("a[0].b").map(|at| at.line), Some(3));
}

#[test]
fn aliases_cannot_multiply_without_limit() {
    use std::fmt::Write;

    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        let aliases = [alias.as_str(); 10].join(", ");
        let _ = writeln!(text, "a{level}: &a{level} [{aliases}]");
    }
    assert_eq!(parse(&text, 1).unwrap_err().message, "too many values");
    let deep = "[".repeat(100_000);
    assert!(parse(&deep, 1).is_err());
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..64 {
        let _ = writeln!(text, "a{level}: &a{level} [*a{}]", level - 1);
    }
    assert_eq!(parse(&text, 1).unwrap_err().message, "nested too deeply");
}
