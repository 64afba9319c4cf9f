//! Colored lines of text, cut to the width of the terminal.

use std::fmt::Write;

use hpa_calc::explain::is_format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
}

impl Style {
    /// The parameter of the escape sequence that selects the style.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
            Self::Red => Some("31"),
        }
    }
}

/// A line, in parts of one style each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    parts: Vec<(Style, String)>,
}

impl Line {
    /// Appends text. Control and format characters are replaced by `?`, because names and errors
    /// come from other clients.
    pub(super) fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let is_replaced = |c: char| c.is_control() || is_format(c);
        let text = text.as_ref().chars().map(|c| if is_replaced(c) { '?' } else { c }).collect();
        self.parts.push((style, text));
        self
    }

    /// Appends text without a style.
    pub(super) fn plain(self, text: impl AsRef<str>) -> Self {
        self.with(Style::Plain, text)
    }

    /// Appends text in as many lines as it needs, broken between words. The lines after the first
    /// start at column `indent`, or in the middle if `indent` is beyond it.
    pub(super) fn with_wrapped(
        self,
        style: Style,
        text: &str,
        columns: usize,
        indent: usize,
    ) -> Vec<Self> {
        let indent = indent.min(columns / 2);
        let (mut lines, mut line, mut part) = (Vec::new(), self, String::new());
        let width = |text: &str| text.chars().count();
        for word in text.split_inclusive(' ') {
            let with_word = line.width() + width(&part) + width(word.trim_end());
            if !part.is_empty() && with_word > columns {
                lines.push(line.with(style, part.trim_end()));
                line = Self::default().plain(" ".repeat(indent));
                part.clear();
            }
            part.push_str(word);
        }
        lines.push(line.with(style, part));
        lines
    }

    pub(super) fn width(&self) -> usize {
        self.parts.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line cut to `width` columns, with escape sequences if `has_color` is set.
    pub(super) fn render(&self, width: usize, has_color: bool) -> String {
        let (mut rendered, mut remaining) = (String::new(), width);
        let is_cut = self.width() > width;
        for (style, text) in &self.parts {
            let mut visible: String = text.chars().take(remaining).collect();
            remaining -= visible.chars().count();
            if is_cut && remaining == 0 && visible.pop().is_some() {
                visible.push('…');
            }
            match style.code().filter(|_| has_color && !visible.is_empty()) {
                Some(code) => _ = write!(rendered, "\x1b[{code}m{visible}\x1b[0m"),
                None => rendered.push_str(&visible),
            }
            if remaining == 0 {
                break;
            }
        }
        rendered
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn line() -> Line {
        Line::default().with(Style::Bold, "web").plain(" 2 -> 5").with(Style::Red, "!")
    }

    #[rstest]
    #[case(80, "web 2 -> 5!")]
    #[case(11, "web 2 -> 5!")]
    #[case(10, "web 2 -> …")]
    #[case(3, "we…")]
    #[case(1, "…")]
    #[case(0, "")]
    fn line_is_cut_to_the_width(#[case] width: usize, #[case] expected: &str) {
        assert_eq!(line().render(width, false), expected);
        let colored = line().render(width, true);
        let plain = ["\x1b[0m", "\x1b[1m", "\x1b[31m"]
            .iter()
            .fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(plain, expected);
    }

    #[rstest]
    #[case(80, &["web: policies allow 4 for now"])]
    #[case(29, &["web: policies allow 4 for now"])]
    #[case(28, &["web: policies allow 4 for", "     now"])]
    #[case(19, &["web: policies allow", "     4 for now"])]
    #[case(14, &["web: policies", "     allow 4", "     for now"])]
    #[case(4, &["web: policies", "  allow", "  4", "  for", "  now"])]
    fn text_is_wrapped_between_words(#[case] columns: usize, #[case] expected: &[&str]) {
        let line = Line::default().with(Style::Bold, "web: ");
        let lines = line.with_wrapped(Style::Plain, "policies allow 4 for now", columns, 5);
        let lines: Vec<String> = lines.iter().map(|line| line.render(80, false)).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn styles_are_reset() {
        assert_eq!(line().render(6, true), "\x1b[1mweb\x1b[0m 2…");
    }

    #[test]
    fn control_characters_are_replaced() {
        let text = "a\x1b[2Jb\u{202e}\n";
        assert_eq!(Line::default().plain(text).render(80, true), "a?[2Jb??");
    }
}
