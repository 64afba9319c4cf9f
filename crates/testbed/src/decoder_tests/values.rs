//! Values, names and bytes that decoders may treat differently.

use std::sync::LazyLock;

/// Valid and invalid JSON values, one per line. `␁` stands for the control character U+0001.
const VALUE_LINES: &str = include_str!("values.txt");

/// [`VALUE_LINES`], the empty text, and nesting below and above the limit of 128 levels of
/// `serde_json`.
pub(crate) static VALUES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let nested = |open: &str, close: &str, levels| open.repeat(levels) + &close.repeat(levels);
    let deep = [60, 300].into_iter().flat_map(|levels| {
        [nested("[", "]", levels), nested("{\"a\":", "}", levels).replace(":}", ":1}")]
    });
    let values = VALUE_LINES.lines().map(|value| value.replace('␁', "\u{1}"));
    values.chain([String::new()]).chain(deep).collect()
});

/// Names that no decoder reads, the last two of them invalid.
pub(crate) const NAMES: &[&str] = &[r#""x""#, r#""""#, r#""a\u0000""#, r#""\ud800""#, "x"];

/// Bytes with a meaning in JSON, control characters, and bytes outside ASCII.
pub(crate) const BYTES: &[u8] = b"\"\\{}[],:0- \n\x00\x1f\x80\xc3\xed\xff";
