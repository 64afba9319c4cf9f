//! Encodes the data of the page as JSON without control and format characters.

use std::{borrow::Cow, io};

use hpa_calc::explain::one_line;
use serde::{Serialize, ser::Error as _};
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};

/// Encodes a value as JSON. All strings and keys are escaped with [`one_line`], because names and
/// messages in a cluster can contain any character.
pub(crate) fn to_json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut json = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut json, OneLineStrings))?;
    String::from_utf8(json).map_err(serde_json::Error::custom)
}

/// Compact JSON. Instead of a control character, a string has its escape sequence as text.
struct OneLineStrings;

impl Formatter for OneLineStrings {
    /// `fragment` is a part of a string without characters that JSON escapes.
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        match one_line(fragment) {
            Cow::Borrowed(plain) => writer.write_all(plain.as_bytes()),
            // All backslashes are from `one_line`, and JSON escapes them.
            Cow::Owned(escaped) => writer.write_all(escaped.replace('\\', r"\\").as_bytes()),
        }
    }

    fn write_char_escape<W>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let control = match escape {
            CharEscape::Quote | CharEscape::ReverseSolidus | CharEscape::Solidus => {
                return CompactFormatter.write_char_escape(writer, escape);
            }
            CharEscape::Backspace => b'\x08',
            CharEscape::FormFeed => b'\x0c',
            CharEscape::LineFeed => b'\n',
            CharEscape::CarriageReturn => b'\r',
            CharEscape::Tab => b'\t',
            CharEscape::AsciiControl(byte) => byte,
        };
        self.write_string_fragment(writer, char::from(control).encode_utf8(&mut [0; 4]))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn strings_and_keys_have_escape_sequences_instead_of_control_and_format_characters() {
        let text = "é\u{202e}a\n\t\r\u{8}\u{c}\u{1b}[31m\u{7f}\u{9b}\"\\n/\u{2066}√";
        let json = to_json(&json!({ (text): [text, 1.5, null, "plain"] })).unwrap();
        let line = one_line(text);
        assert!(line.contains(r"\u{202e}a\n\t\r\u{8}\u{c}\u{1b}[31m\u{7f}\u{9b}"), "{line}");
        let decoded: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(decoded, json!({ (&*line): [&*line, 1.5, null, "plain"] }));
    }
}
