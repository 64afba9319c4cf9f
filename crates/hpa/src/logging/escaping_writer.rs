//! Escapes line breaks and other control characters in lines of the text log.

use std::{borrow::Cow, io};

use hpa_calc::explain::{escape_chars, is_format};

/// The first character of color sequences. tracing-subscriber escapes it in values.
const ESCAPE: char = '\u{1b}';

/// Escapes the control characters in each line. Values such as metric names come from users, and
/// their line breaks would look like separate lines of the log. Expects a whole line in each call
/// of `write`.
pub(super) struct EscapingWriter<W>(pub(super) W);

impl<W: io::Write> io::Write for EscapingWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write_all(&escape(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes all control characters except tabs, colors and the line break at the end.
fn escape(line: &[u8]) -> Cow<'_, [u8]> {
    let Ok(text) = std::str::from_utf8(line) else { return Cow::Borrowed(line) };
    let (text, end) = text.strip_suffix('\n').map_or((text, ""), |text| (text, "\n"));
    match escape_chars(text, is_escaped) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(escaped) => Cow::Owned((escaped + end).into_bytes()),
    }
}

fn is_escaped(character: char) -> bool {
    (character.is_control() && character != ESCAPE && character != '\t') || is_format(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_except_the_last_line_break_are_escaped() {
        let escaped =
            escape("\u{1b}[32mINFO\u{1b}[0m a\nb\r\n\u{85}\u{2028}\u{202e}\u{0}é\tc\n".as_bytes());
        let text = String::from_utf8_lossy(&escaped);
        assert_eq!(
            text,
            "\u{1b}[32mINFO\u{1b}[0m a\\nb\\r\\n\\u{85}\\u{2028}\\u{202e}\\u{0}é\tc\n"
        );
    }

    #[test]
    fn lines_without_control_characters_are_not_copied() {
        assert!(matches!(escape(b"INFO a=\"b\"\n"), Cow::Borrowed(_)));
    }
}
