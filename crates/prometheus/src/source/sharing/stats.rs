//! Counts queries of custom metrics by rule.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The queries of a rule of custom metrics since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// The rule, such as `rules[0]`.
    pub rule: String,
    pub server: String,
    /// Queries for the objects of one request.
    pub single: u64,
    /// Queries for all objects of a namespace.
    pub shared: u64,
    /// Requests that used the result of an earlier shared query.
    pub reused: u64,
}

/// A rule by its position in the file, and the name of its server.
type RuleKey = (usize, String);

#[derive(Default)]
pub(crate) struct Stats(Mutex<BTreeMap<RuleKey, QueryCounts>>);

impl Stats {
    /// Adds one to a count.
    pub(crate) fn count(
        &self,
        (index, server): (usize, &str),
        field: impl Fn(&mut QueryCounts) -> &mut u64,
    ) {
        let mut counts = self.0.lock();
        let key = (index, server.to_owned());
        let counts = counts.entry(key).or_insert_with(|| QueryCounts {
            rule: format!("rules[{index}]"),
            server: server.to_owned(),
            ..QueryCounts::default()
        });
        *field(counts) += 1;
    }

    pub(crate) fn all(&self) -> Vec<QueryCounts> {
        self.0.lock().values().cloned().collect()
    }
}
