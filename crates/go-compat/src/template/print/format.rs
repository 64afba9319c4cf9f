//! `fmt.Sprintf`.

use hpa_calc::go_text::Quoted;

use super::{
    braced, default, float_with_digits, go_syntax, scientific, shortest_float, with_exponent,
};
use crate::template::value::Value;

/// The maximum width and precision, as in Go.
const MAX_NUMBER: usize = 1_000_000;
/// The maximum of a width that is rendered, which limits memory.
const MAX_PADDING: usize = 10_000;

/// Formats `arguments` like `fmt.Sprintf`. Mistakes show up in the text, as in Go.
pub(in crate::template) fn printf(format: &str, arguments: &[Value]) -> String {
    let mut state =
        State { rest: format, arguments, next: 0, reordered: false, output: String::new() };
    while let Some((before, after)) = state.rest.split_once('%') {
        state.output.push_str(before);
        state.rest = after;
        state.verb();
    }
    state.output.push_str(state.rest);
    state.extra();
    state.output
}

struct State<'a> {
    rest: &'a str,
    arguments: &'a [Value],
    next: usize,
    /// Whether a verb has an explicit index.
    reordered: bool,
    output: String,
}

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the syntax")]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`.
    with_names: bool,
    /// `%#v`.
    go_syntax: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Index {
    Absent,
    Valid,
    Invalid,
}

impl State<'_> {
    fn verb(&mut self) {
        let mut flags = self.flags();
        let mut index = self.index();
        // An index must be right before the verb or a star.
        let mut valid_index = true;
        let is_star = self.skip('*');
        if is_star {
            let width = self.star();
            flags.minus |= width.is_some_and(|width| width < 0);
            flags.width = width.map(|width| usize::try_from(width.unsigned_abs()).unwrap_or(0));
            if width.is_none() {
                self.output.push_str("%!(BADWIDTH)");
            }
        } else {
            flags.width = self.number();
            valid_index &= flags.width.is_none() || index == Index::Absent;
        }
        valid_index &= index != Index::Invalid;
        if self.skip('.') {
            valid_index &= index == Index::Absent || is_star;
            index = self.index();
            if self.skip('*') {
                let precision = self.star();
                flags.precision = precision.and_then(|precision| usize::try_from(precision).ok());
                if precision.is_none() {
                    self.output.push_str("%!(BADPREC)");
                }
                index = Index::Absent;
            } else {
                flags.precision = Some(self.number().unwrap_or(0));
            }
            valid_index &= index != Index::Invalid;
        }
        if index == Index::Absent || is_star {
            valid_index &= self.index() != Index::Invalid;
        }
        let Some(verb) = self.rest.chars().next() else {
            self.output.push_str("%!(NOVERB)");
            return;
        };
        self.rest = self.rest.get(verb.len_utf8()..).unwrap_or_default();
        if verb == '%' {
            self.output.push('%');
            return;
        }
        if verb == 'v' {
            flags.with_names = std::mem::take(&mut flags.plus);
            flags.go_syntax = std::mem::take(&mut flags.sharp);
        }
        let argument = self.arguments.get(self.next).filter(|_| valid_index);
        let formatted = match argument {
            Some(argument) => {
                self.next += 1;
                flags.format(verb, argument)
            }
            None if !valid_index => format!("%!{verb}(BADINDEX)"),
            None => format!("%!{verb}(MISSING)"),
        };
        self.output.push_str(&formatted);
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        loop {
            match self.rest.chars().next() {
                Some('+') => flags.plus = true,
                Some('-') => flags.minus = true,
                Some('#') => flags.sharp = true,
                Some(' ') => flags.space = true,
                Some('0') => flags.zero = true,
                _ => return flags,
            }
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
    }

    /// Parses the index of an argument, such as `[2]`.
    fn index(&mut self) -> Index {
        let Some(after) = self.rest.strip_prefix('[') else {
            return Index::Absent;
        };
        self.reordered = true;
        let Some((number, rest)) = after.split_once(']') else {
            self.rest = after;
            return Index::Invalid;
        };
        self.rest = rest;
        match number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
            Some(index) if index < self.arguments.len() => {
                self.next = index;
                Index::Valid
            }
            _ => Index::Invalid,
        }
    }

    fn skip(&mut self, char: char) -> bool {
        let rest = self.rest.strip_prefix(char);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn number(&mut self) -> Option<usize> {
        let digits = self.rest.len()
            - self.rest.trim_start_matches(|char: char| char.is_ascii_digit()).len();
        let (digits, rest) = self.rest.split_at_checked(digits)?;
        self.rest = rest;
        digits.parse().ok().filter(|number| *number <= MAX_NUMBER)
    }

    /// A width or a precision that is an argument.
    fn star(&mut self) -> Option<i64> {
        let argument = self.arguments.get(self.next);
        self.next += usize::from(argument.is_some());
        match argument {
            Some(Value::Int(number)) if number.unsigned_abs() <= MAX_NUMBER as u64 => Some(*number),
            Some(Value::Byte(number)) => Some((*number).into()),
            _ => None,
        }
    }

    /// Appends the arguments that no verb uses.
    fn extra(&mut self) {
        let unused = self.arguments.get(self.next..).unwrap_or_default();
        if self.reordered || unused.is_empty() {
            return;
        }
        let shown = |argument: &Value| match argument {
            Value::Missing => "<nil>".to_owned(),
            argument => format!("{}={}", argument.type_name(), default(argument)),
        };
        let unused: Vec<String> = unused.iter().map(shown).collect();
        for text in ["%!(EXTRA ", &unused.join(", "), ")"] {
            self.output.push_str(text);
        }
    }
}

impl Flags {
    fn format(self, verb: char, value: &Value) -> String {
        match (verb, value) {
            ('T' | 'v', Value::Missing) => self.pad("<nil>".to_owned()),
            ('T', _) => self.text(value.type_name()),
            ('v', _) if self.go_syntax => go_syntax(value),
            ('v', Value::Struct(data)) if self.with_names && data.string.is_none() => {
                braced(data, |name, field| format!("{name}:{}", self.format(verb, field)))
            }
            (_, Value::Missing) => format!("%!{verb}(<nil>)"),
            (_, Value::Bool(bool)) => match verb {
                't' | 'v' => self.pad(bool.to_string()),
                _ => self.invalid(verb, value),
            },
            (_, Value::Text(text)) => self.string(verb, text),
            (_, Value::Int(int)) => {
                self.int(verb, (*int).into()).unwrap_or_else(|| self.invalid(verb, value))
            }
            (_, Value::Byte(byte)) => {
                self.int(verb, (*byte).into()).unwrap_or_else(|| self.invalid(verb, value))
            }
            (_, Value::Float(float)) => {
                self.float(verb, *float).unwrap_or_else(|| self.invalid(verb, value))
            }
            (_, Value::List(items)) => {
                let items: Vec<String> = items.iter().map(|item| self.string(verb, item)).collect();
                format!("[{}]", items.join(" "))
            }
            (_, Value::Map(entries)) => {
                let entry = |(key, value): (&String, &String)| {
                    format!("{}:{}", self.string(verb, key), self.string(verb, value))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("map[{}]", entries.join(" "))
            }
            (_, Value::Struct(data)) => match &data.string {
                Some(string) => self.string(verb, string),
                None => braced(data, |_, field| self.format(verb, field)),
            },
        }
    }

    fn string(self, verb: char, text: &str) -> String {
        match verb {
            's' | 'v' => self.text(text),
            'q' => {
                let text = self.truncated(text);
                let can_backquote = !text.contains(|char: char| {
                    char == '`' || char == '\u{feff}' || char.is_control() && char != '\t'
                });
                if self.sharp && can_backquote {
                    return self.pad(format!("`{text}`"));
                }
                let quoted = Quoted(&text).to_string();
                self.pad(if self.plus { ascii(&quoted) } else { quoted })
            }
            'x' | 'X' => {
                let bytes = text.bytes().take(self.precision.unwrap_or(usize::MAX));
                let digits = bytes.map(|byte| format!("{byte:02x}"));
                let prefix = if self.sharp { "0x" } else { "" };
                let hex = if self.space {
                    digits.map(|digits| format!("{prefix}{digits}")).collect::<Vec<_>>().join(" ")
                } else {
                    let hex: String = digits.collect();
                    if hex.is_empty() { hex } else { format!("{prefix}{hex}") }
                };
                self.pad(if verb == 'X' { hex.to_uppercase() } else { hex })
            }
            _ => self.invalid(verb, &Value::text(text)),
        }
    }

    fn int(self, verb: char, value: i128) -> Option<String> {
        let magnitude = value.unsigned_abs();
        let (prefix, digits) = match verb {
            'd' | 'v' => ("", magnitude.to_string()),
            'b' => (if self.sharp { "0b" } else { "" }, format!("{magnitude:b}")),
            'o' => (if self.sharp { "0" } else { "" }, format!("{magnitude:o}")),
            'O' => ("0o", format!("{magnitude:o}")),
            'x' => (if self.sharp { "0x" } else { "" }, format!("{magnitude:x}")),
            'X' => (if self.sharp { "0X" } else { "" }, format!("{magnitude:X}")),
            'c' | 'q' | 'U' => return Some(self.character(verb, value)),
            _ => return None,
        };
        let digits = match self.precision {
            Some(0) if value == 0 => String::new(),
            Some(precision) => format!("{digits:0>0$}", precision.min(MAX_PADDING)),
            None => digits,
        };
        let sign = self.sign(value < 0);
        if self.zero && !self.minus && self.precision.is_none() {
            let width = self.width.unwrap_or(0).min(MAX_PADDING);
            let width = width.saturating_sub(sign.len());
            return Some(format!("{sign}{prefix}{digits:0>width$}"));
        }
        Some(Self { zero: false, ..self }.pad(format!("{sign}{prefix}{digits}")))
    }

    fn sign(self, is_negative: bool) -> &'static str {
        match (is_negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn character(self, verb: char, value: i128) -> String {
        let char = u32::try_from(value).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
        match verb {
            'c' => self.pad(char.to_string()),
            'q' => {
                let quoted = Quoted(&char.to_string()).to_string();
                let inner = quoted.trim_start_matches('"').trim_end_matches('"');
                let inner = match char {
                    '\'' => "\\'",
                    '"' => "\"",
                    _ => inner,
                };
                self.pad(format!("'{inner}'"))
            }
            _ => {
                let shown = if self.sharp { format!(" '{char}'") } else { String::new() };
                self.pad(format!("U+{value:04X}{shown}"))
            }
        }
    }

    fn float(self, verb: char, value: f64) -> Option<String> {
        let precision = self.precision.unwrap_or(6).min(MAX_PADDING);
        let magnitude = value.abs();
        let digits = match verb {
            'v' | 'g' | 'G' => match self.precision {
                Some(precision) => float_with_digits(magnitude, precision.min(MAX_PADDING)),
                None => shortest_float(magnitude),
            },
            'f' | 'F' => format!("{magnitude:.precision$}"),
            'e' | 'E' => {
                let (digits, exponent) = scientific(&format!("{magnitude:.precision$e}"));
                with_exponent(&digits, exponent)
            }
            _ => return None,
        };
        let digits = if verb.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        let sign = self.sign(value.is_sign_negative());
        if self.zero && !self.minus {
            let width = self.width.unwrap_or(0).min(MAX_PADDING).saturating_sub(sign.len());
            return Some(format!("{sign}{digits:0>width$}"));
        }
        Some(self.pad(format!("{sign}{digits}")))
    }

    /// A value with a verb that its type doesn't have.
    fn invalid(self, verb: char, value: &Value) -> String {
        format!("%!{verb}({}={})", value.type_name(), self.format('v', value))
    }

    fn text(self, text: &str) -> String {
        self.pad(self.truncated(text))
    }

    fn truncated(self, text: &str) -> String {
        text.chars().take(self.precision.unwrap_or(usize::MAX)).collect()
    }

    fn pad(self, text: String) -> String {
        let width = self.width.unwrap_or(0).min(MAX_PADDING);
        if self.minus {
            format!("{text:<width$}")
        } else if self.zero {
            format!("{text:0>width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

fn ascii(quoted: &str) -> String {
    let escape = |char: char| match char {
        char if char.is_ascii() => char.to_string(),
        ..='\u{ffff}' => format!("\\u{:04x}", u32::from(char)),
        _ => format!("\\U{:08x}", u32::from(char)),
    };
    quoted.chars().map(escape).collect()
}
