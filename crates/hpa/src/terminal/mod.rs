//! Prints on standard output and standard error.

mod ordered;

use std::{
    env, fmt,
    hash::{BuildHasher, RandomState},
    io::{self, IsTerminal, Write},
};

use anyhow::Context;
use hpa_calc::explain::{escape_chars, is_format, list_first, one_line};
use serde::Serialize;

use self::ordered::OrderedValue;
use crate::args::ReportFormat;

/// The maximum number of names in a list.
const MAX_NAMES: usize = 3;

/// Prints a text with [`escape_control`], because names and messages in a cluster can contain any
/// character, and must not control the terminal of the user.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write(escape_control(text))
}

/// Prints JSON, with the characters escaped that [`print()`] escapes.
pub(crate) fn print_json(text: &str) -> anyhow::Result<()> {
    write(escape_json(text))
}

/// Prints a report in a format. `text` returns the report as text, with colors if its argument is
/// true. It must escape all text from a cluster.
pub(crate) fn print_report(
    format: ReportFormat,
    report: &impl Serialize,
    text: impl FnOnce(bool) -> String,
) -> anyhow::Result<()> {
    match format {
        ReportFormat::Json => print_json(&json(report)?),
        ReportFormat::Yaml => write(to_yaml(report)?),
        ReportFormat::Text => write(text(has_color())),
    }
}

/// Indented JSON with a line end.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("unable to write JSON")? + "\n")
}

/// Encodes a value as YAML without characters that [`print()`] escapes. Strings with such
/// characters become double-quoted scalars with escape sequences.
pub(crate) fn to_yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(value).context("unable to write YAML")?;
    if !yaml.contains(is_format) {
        return Ok(yaml);
    }
    // The YAML library doesn't escape format characters. Encode such strings as placeholders,
    // then insert the escaped strings. Unlike `Value`, `OrderedValue` keeps the order of fields.
    let mut ordered: OrderedValue = serde_json::from_str(&serde_json::to_string(value)?)?;
    // The name is random, so no text from a cluster contains it.
    let placeholder = format!("escaped-scalar-{:x}-", RandomState::new().hash_one(()));
    let mut scalars = Vec::new();
    ordered.replace_strings(&mut |text| {
        if text.contains(is_format) {
            let name = format!("{placeholder}{}x", scalars.len());
            scalars.push(escape(&serde_json::to_string(text)?, yaml_escape));
            *text = name;
        }
        anyhow::Ok(())
    })?;
    let yaml = serde_saphyr::to_string(&ordered).context("unable to write YAML")?;
    let mut parts = yaml.split(placeholder.as_str());
    let mut escaped = parts.next().unwrap_or_default().to_owned();
    for (scalar, part) in scalars.iter().zip(parts) {
        // The part starts with the number of the placeholder and an `x`.
        let (_, rest) = part.split_once('x').unwrap_or(("", part));
        escaped += scalar;
        escaped += rest;
    }
    Ok(escaped)
}

/// Whether YAML has characters that [`print()`] escapes. CRLF line ends don't count.
pub(crate) fn needs_escapes(yaml: &str) -> bool {
    yaml.replace("\r\n", "\n").contains(is_escaped)
}

/// Writes a text or bytes to standard output, with escape sequences such as those for colors. The
/// caller must pass all text from a cluster through [`escape_control`] or [`to_yaml`].
pub(crate) fn write(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.context("unable to write to standard output")
}

/// Prints `hpa: ` and a text as a line on standard error. Ignores errors such as a closed pipe.
pub(crate) fn warn(text: impl fmt::Display) {
    let text = escape_control(&format!("hpa: {text}"));
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether the cause of an error is a closed pipe: the reader of standard output, such as `head`,
/// has exited.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Formats a table. Aligns the first column left and the others right.
pub(crate) fn aligned(rows: &[Vec<String>], separator: &str) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let line = cells.collect::<Vec<_>>().join(separator);
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// The bar for a value, in eighths of the height for `max`, rounded up. For zero, a dot that
/// differs from the lowest bar.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is positive, and the cast saturates"
)]
pub(crate) fn bar(value: f64, max: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if value <= 0.0 || max <= 0.0 {
        return '·';
    }
    let eighths = (value / max * 8.0).ceil() as usize;
    BARS.get(eighths.saturating_sub(1)).copied().unwrap_or('█')
}

/// Lists the first [`MAX_NAMES`] names, and the number of the rest.
pub(crate) fn shorten_names(names: &[String]) -> String {
    list_first(names, MAX_NAMES, ", ")
}

/// Whether to color standard output. See <https://no-color.org>.
pub(crate) fn has_color() -> bool {
    io::stdout().is_terminal()
        && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Escapes characters that control a terminal, are invisible or change the direction of text,
/// except line ends and tabs.
pub(crate) fn escape_control(text: &str) -> String {
    escape_chars(text, is_escaped).into_owned()
}

/// Like [`escape_control`], but for JSON, which stays valid and keeps its values.
fn escape_json(text: &str) -> String {
    escape(text, |c| {
        let mut buffer = [0; 2];
        let units = c.encode_utf16(&mut buffer).iter();
        units.map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat()
    })
}

/// The escape sequence of a character in a double-quoted scalar of YAML.
fn yaml_escape(c: char) -> String {
    match u32::from(c) {
        code @ 0x1_0000.. => format!("\\U{code:08x}"),
        code => format!("\\u{code:04x}"),
    }
}

/// Replaces each character that must be escaped.
fn escape(text: &str, replacement: impl Fn(char) -> String) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
            result += &replacement(c);
        } else {
            result.push(c);
        }
    }
    result
}

/// Like [`escape_control`], but also escapes line ends and tabs, as [`one_line`] does.
pub(crate) fn escape_line(text: &str) -> String {
    one_line(text).into_owned()
}

fn is_escaped(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || is_format(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |first: &str, second: &str| vec![first.to_owned(), second.to_owned()];
        let text = aligned(&[row("HPA", "N"), row("w", "100"), row("x", "")], "  ");
        assert_eq!(text, "HPA    N\nw    100\nx\n");
    }

    #[test]
    fn control_characters_are_visible() {
        assert_eq!(escape_control("a\x1b[31mb\r\x07\u{9b}c\u{202e}"), {
            "a\\u{1b}[31mb\\r\\u{7}\\u{9b}c\\u{202e}"
        });
        assert_eq!(escape_control("we\u{200b}b\u{ad}\u{feff}\u{e0041}\u{2028}"), {
            "we\\u{200b}b\\u{ad}\\u{feff}\\u{e0041}\\u{2028}"
        });
        let text = "Zürich √\n\tlines and tabs";
        assert_eq!(escape_control(text), text);
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let value = serde_json::json!({ "name": "a\u{1b}\u{9b}\u{7f}\u{202e}\u{e0041}\n\t√" });
        let escaped = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(escaped.contains(r"\u001b\u009b\u007f\u202e\udb40\udc41\n\t√"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn yaml_has_the_same_value_without_format_characters() {
        #[derive(Serialize)]
        struct Report {
            z: Vec<&'static str>,
            a: std::collections::BTreeMap<&'static str, &'static str>,
            number: f64,
        }
        let report = Report {
            z: vec![
                "a\u{202e}b: \"c\"\\\u{1b}",
                "\u{200f}two\n\u{e0041}lines\n",
                "plain √",
                "null",
            ],
            a: [("key\u{2066}", "escaped-scalar0x"), ("b", "\u{9b}")].into(),
            number: 0.1,
        };
        let yaml = to_yaml(&report).unwrap();
        assert!(yaml.starts_with("z:") && !needs_escapes(&yaml), "{yaml}");
        assert!(yaml.contains(r#""a\u202eb: \"c\"\\\u001b""#), "{yaml}");
        let value: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(value, serde_json::to_value(&report).unwrap());
        let plain = serde_json::json!({ "a": ["b", 1, true, null] });
        assert_eq!(to_yaml(&plain).unwrap(), serde_saphyr::to_string(&plain).unwrap());
    }

    #[test]
    fn closed_pipe_is_found_among_the_causes() {
        let error = |kind| anyhow::Error::from(io::Error::from(kind)).context("unable to write");
        assert!(is_closed_pipe(&error(io::ErrorKind::BrokenPipe)));
        assert!(!is_closed_pipe(&error(io::ErrorKind::NotFound)));
    }
}
