//! Results of checks, and their text.

use std::fmt::Write;

use hpa_calc::explain::counted;
use serde::Serialize;

use crate::terminal::escape_line;

/// The severity of a result, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Level {
    Ok,
    /// The check was not possible, or has no result yet. This doesn't affect the exit status.
    Skipped,
    Warning,
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) level: Level,
    /// The finding, in a line.
    pub(super) text: String,
    /// Advice, such as a command or a section of the documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    #[serde(skip)]
    pub(super) weight: Weight,
}

/// The weight of a problem in the headline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Normal,
    /// Other checks have the same problem. The headline doesn't count this one.
    Repetition,
    /// Several controllers act on the same autoscalers. The headline names this before other
    /// problems of its level.
    Conflict,
    /// Several controllers may act on the same autoscalers. The headline names this before other
    /// warnings, but not before errors.
    PossibleConflict,
}

/// Checks of the same subject.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) checks: Vec<Check>,
}

/// The results of all checks, with a headline.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    /// The most severe level of the checks. Skipped ones count as [`Level::Ok`], unless the user
    /// may not read all autoscalers or the state of the controller.
    pub(super) level: Level,
    pub(super) sections: Vec<Section>,
    #[serde(skip)]
    headline: String,
}

impl Check {
    pub(super) fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), hint: None, weight: Weight::Normal }
    }

    pub(super) fn with_weight(self, weight: Weight) -> Self {
        Self { weight, ..self }
    }

    /// Marks the check as a [`Weight::Repetition`], if it is one.
    pub(super) fn repeated_if(self, is_repeated: bool) -> Self {
        if is_repeated { self.with_weight(Weight::Repetition) } else { self }
    }

    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Report {
    pub(super) fn new(sections: Vec<Section>) -> Self {
        let levels = sections.iter().flat_map(|section| &section.checks).map(|check| check.level);
        let level = levels.max().filter(|level| *level > Level::Skipped).unwrap_or(Level::Ok);
        let mut report = Self { level, sections, headline: String::new() };
        report.headline = report.describe_problems().unwrap_or_else(|| report.describe_skipped());
        report
    }

    /// Changes the headline for a user who may not read all autoscalers, or the state of the
    /// controller: it begins with `summary` if there is no problem, and ends with the clauses
    /// `unread`.
    pub(super) fn with_unread(self, summary: String, unread: Vec<String>) -> Self {
        let start = self.describe_problems().unwrap_or(summary);
        let clauses: Vec<_> = [start].into_iter().chain(unread).collect();
        let level = self.level.max(Level::Skipped);
        Self { level, headline: clauses.join("; "), ..self }
    }

    /// The headline, one line for each check, and the hints.
    pub(super) fn text(&self, has_color: bool) -> String {
        let mut text = format!("{} {}\n\n", self.level.symbol(has_color), self.headline);
        // Writing to a string doesn't fail.
        for Section { name, checks } in &self.sections {
            let _ = writeln!(text, "{name}");
            for Check { level, text: finding, hint, .. } in checks {
                let _ = writeln!(text, "{} {}", level.symbol(has_color), escape_line(finding));
                if let Some(hint) = hint {
                    let _ = writeln!(text, "    {}", escape_line(hint));
                }
            }
            text.push('\n');
        }
        // The empty line after the last section.
        text.pop();
        text
    }

    /// The headline without problems.
    fn describe_skipped(&self) -> String {
        match self.of_level(Level::Skipped).count() {
            0 => "no problems found".to_owned(),
            skipped => format!("no problems found; {} skipped", counted(skipped, "check")),
        }
    }

    /// The number of problems, and one of them: two controllers that act on the same autoscalers,
    /// because that causes others, or else the first one of the most severe level. `None` without
    /// problems.
    fn describe_problems(&self) -> Option<String> {
        let errors = self.of_level(Level::Error).count();
        let warnings = self.of_level(Level::Warning).count();
        if errors + warnings == 0 {
            return None;
        }
        let problems = self.of_level(Level::Error).chain(self.of_level(Level::Warning));
        let mut conflicts = problems.filter(|check| match check.weight {
            Weight::Conflict => true,
            Weight::PossibleConflict => errors == 0,
            Weight::Normal | Weight::Repetition => false,
        });
        let first = || self.checks().find(|check| check.level == self.level);
        let worst = conflicts.next().or_else(first);
        let worst = worst.map(|check| escape_line(&check.text)).unwrap_or_default();
        let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
        Some(format!("{errors}, {warnings}: {worst}"))
    }

    fn checks(&self) -> impl Iterator<Item = &Check> {
        self.sections.iter().flat_map(|section| &section.checks)
    }

    /// The checks of a level, without repetitions.
    fn of_level(&self, level: Level) -> impl Iterator<Item = &Check> {
        let checks = self.checks().filter(move |check| check.level == level);
        checks.filter(|check| check.weight != Weight::Repetition)
    }
}

impl Level {
    /// The symbols of `linkerd check`.
    fn symbol(self, has_color: bool) -> String {
        let (symbol, color) = match self {
            Self::Ok => ("√", "32"),
            Self::Skipped => ("-", "2"),
            Self::Warning => ("‼", "33"),
            Self::Error => ("×", "31"),
        };
        if has_color { format!("\x1b[{color}m{symbol}\x1b[0m") } else { symbol.to_owned() }
    }
}

/// The text with its first letter in lower case.
pub(super) fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

pub(super) fn format_seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1}s") } else { format!("{seconds:.0}s") }
}
