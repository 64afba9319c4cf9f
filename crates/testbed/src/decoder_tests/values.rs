//! Values, names and bytes that decoders may treat differently.

use std::sync::LazyLock;

const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "1e3",
    "1E+2",
    "1e400",
    "-1e400",
    "1e-400",
    "2147483647",
    "2147483648",
    "-2147483649",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1234567890123456789012345678901234567890123456789012345678901234567890",
    r#""""#,
    r#""x""#,
    r#""1""#,
    r#"" 100m ""#,
    r#""1Ki""#,
    r#""1m30s""#,
    r#""2026-01-01T00:00:00Z""#,
    r#""2026-01-01T02:00:00.5+02:00""#,
    r#""9999-12-31T23:59:59Z""#,
    r#""Status""#,
    r#""status""#,
    r#""True""#,
    r#""\u0000""#,
    r#""\"\\\/\b\f\n\r\t""#,
    r#""\ud83d\ude00 é""#,
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\u12""#,
    r#""\x""#,
    "\"\u{1}\"",
    "[]",
    "{}",
    "[null]",
    "[1,2]",
    "[[1,2]]",
    r#"["a","b"]"#,
    "[{}]",
    r#"{"a":1}"#,
    r#"{"a":"b"}"#,
    r#"{"a":"b","a":"c"}"#,
    r#"{"a":null}"#,
    r#"{"":{}}"#,
    r#"{"a":"1e400","b":1e400}"#,
    "01",
    "+1",
    ".5",
    "1.",
    "-",
    "nan",
    "nul",
    "'x'",
    "\"open",
    "[1,]",
    "{\"a\":}",
    "{a:1}",
    "",
];

/// [`VALUES`], and nesting below and above the limit of 128 levels of `serde_json`.
pub(crate) static ALL: LazyLock<Vec<String>> = LazyLock::new(|| {
    let nested = |open: &str, close: &str, levels| open.repeat(levels) + &close.repeat(levels);
    let deep = [60, 300].into_iter().flat_map(|levels| {
        [nested("[", "]", levels), nested("{\"a\":", "}", levels).replace(":}", ":1}")]
    });
    VALUES.iter().map(|value| (*value).to_owned()).chain(deep).collect()
});

/// Names that no decoder reads, the last two of them invalid.
pub(crate) const NAMES: &[&str] = &[r#""x""#, r#""""#, r#""a\u0000""#, r#""\ud800""#, "x"];

/// Bytes with a meaning in JSON, control characters, and bytes outside ASCII.
pub(crate) const BYTES: &[u8] = b"\"\\{}[],:0- \n\x00\x1f\x80\xc3\xed\xff";
