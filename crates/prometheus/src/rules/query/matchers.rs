//! The label matchers of a query.

use std::{borrow::Cow, collections::BTreeMap};

use hpa_calc::{
    Selector,
    go_text::Quoted,
    selector::{Operator, Requirement},
};

use super::QueryError;
use crate::rules::compat::Compat;

/// Label matchers in the order in which they are added.
pub(super) struct Matchers {
    compat: Compat,
    expressions: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Matchers {
    pub(super) fn new(compat: Compat) -> Self {
        Self { compat, expressions: Vec::new(), values: BTreeMap::new() }
    }

    /// The matchers, separated by commas, and the values of each label, separated by bars.
    pub(super) fn finish(self) -> (String, BTreeMap<String, String>) {
        (self.expressions.join(","), self.values)
    }

    pub(super) fn add_equal(&mut self, label: &str, value: &str) {
        self.add(label, "=", value.to_owned());
    }

    /// Selects objects by name.
    pub(super) fn add_names(&mut self, label: &str, names: &[String]) {
        match names {
            [name] => self.add_equal(label, name),
            [] => self.add_equal(label, ""),
            names => {
                let names = self.alternatives(names.iter().map(String::as_str));
                self.add(label, "=~", names);
            }
        }
    }

    /// Selects all objects.
    pub(super) fn add_any_name(&mut self, label: &str) {
        self.add(label, "!=", String::new());
    }

    pub(super) fn add_selector(&mut self, selector: &Selector) -> Result<(), QueryError> {
        selector.requirements().iter().try_for_each(|requirement| self.add_requirement(requirement))
    }

    fn add_requirement(&mut self, requirement: &Requirement) -> Result<(), QueryError> {
        let mut values: Vec<&str> = requirement.values().collect();
        values.dedup();
        let is_one = values.len() == 1;
        let matcher = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals if is_one => "=",
            Operator::NotEquals if is_one => "!=",
            Operator::Equals | Operator::DoubleEquals | Operator::In => "=~",
            Operator::NotEquals | Operator::NotIn => "!~",
            Operator::Exists => "!=",
            Operator::DoesNotExist => "=",
            Operator::GreaterThan | Operator::LessThan => {
                return Err(QueryError::UnsupportedOperator);
            }
        };
        let value = match matcher {
            "=~" | "!~" => self.alternatives(values),
            _ => values.join("|"),
        };
        self.add(requirement.key(), matcher, value);
        Ok(())
    }

    /// A regular expression for any of the values. Without compatibility, a dot is only a dot. It
    /// is escaped without a backslash, which templates would have to escape once more.
    fn alternatives<'v>(&self, values: impl IntoIterator<Item = &'v str>) -> String {
        let escaped = |value: &'v str| match self.compat {
            Compat::Off if value.contains('.') => Cow::Owned(value.replace('.', "[.]")),
            _ => Cow::Borrowed(value),
        };
        values.into_iter().map(escaped).collect::<Vec<_>>().join("|")
    }

    fn add(&mut self, label: &str, operator: &str, value: String) {
        self.expressions.push(format!("{label}{operator}{}", Quoted(&value)));
        self.values.insert(label.to_owned(), value);
    }
}
