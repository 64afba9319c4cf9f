//! Lines of text with colors, that are cut to a width.

use std::fmt::Write;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As usual.
    Plain,
    /// What to look at first.
    Bold,
    /// What to look at last.
    Dim,
    /// More, or all is well.
    Green,
    /// Less, or take care.
    Yellow,
    /// Trouble.
    Red,
}

impl Style {
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

/// A line in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pieces: Vec<(Style, String)>,
}

impl Line {
    /// Adds a piece. Control characters, which a name from elsewhere may have, are shown as `?`.
    pub(crate) fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let text = text.as_ref().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        self.pieces.push((style, text));
        self
    }

    /// Adds a piece that looks as usual.
    pub(crate) fn plain(self, text: impl AsRef<str>) -> Self {
        self.with(Style::Plain, text)
    }

    /// How many columns it takes.
    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The line with escapes for colors, if wanted, cut to so many columns.
    pub(crate) fn render(&self, width: usize, has_color: bool) -> String {
        let (mut rendered, mut left) = (String::new(), width);
        let is_cut = self.width() > width;
        for (style, text) in &self.pieces {
            let mut shown: String = text.chars().take(left).collect();
            left -= shown.chars().count();
            if is_cut && left == 0 && shown.pop().is_some() {
                shown.push('…');
            }
            match style.code().filter(|_| has_color && !shown.is_empty()) {
                Some(code) => _ = write!(rendered, "\x1b[{code}m{shown}\x1b[0m"),
                None => rendered.push_str(&shown),
            }
            if left == 0 {
                break;
            }
        }
        rendered
    }
}

/// A time since the start as minutes and seconds, hours if there are such: `4:05`, `1:04:05`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub(crate) fn clock(second: f64) -> String {
    let all = second as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A number with as many digits as a person needs: `1234`, `56.7`, `0.25`.
pub(crate) fn number(value: f64) -> String {
    let text = if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    match text.split_once('.') {
        Some((whole, digits)) => {
            let digits =
                if value.abs() >= 10.0 { digits.get(..1).unwrap_or(digits) } else { digits };
            let digits = digits.trim_end_matches('0');
            if digits.is_empty() { whole.to_owned() } else { format!("{whole}.{digits}") }
        }
        None => text,
    }
}

/// A part of a whole as a percentage.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.1}%", part / whole * 100.0) } else { "-".to_owned() }
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
    fn lines_are_cut(#[case] width: usize, #[case] expected: &str) {
        assert_eq!(line().render(width, false), expected);
        let colored = line().render(width, true);
        let plain = ["\x1b[0m", "\x1b[1m", "\x1b[31m"]
            .iter()
            .fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(plain, expected);
    }

    #[test]
    fn every_color_ends() {
        assert_eq!(line().render(6, true), "\x1b[1mweb\x1b[0m 2…");
    }

    #[test]
    fn escapes_from_elsewhere_do_nothing() {
        assert_eq!(Line::default().plain("a\x1b[2Jb\n").render(80, true), "a?[2Jb?");
    }

    #[rstest]
    #[case(0.4, "0:00")]
    #[case(65.9, "1:05")]
    #[case(3_845.0, "1:04:05")]
    fn times(#[case] second: f64, #[case] expected: &str) {
        assert_eq!(clock(second), expected);
    }

    #[rstest]
    #[case(0.0, "0")]
    #[case(0.25, "0.25")]
    #[case(5.0, "5")]
    #[case(12.34, "12.3")]
    #[case(100.0, "100")]
    #[case(1234.5, "1234")]
    fn numbers(#[case] value: f64, #[case] expected: &str) {
        assert_eq!(number(value), expected);
    }
}
