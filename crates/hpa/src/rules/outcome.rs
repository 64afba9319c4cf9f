//! The outcomes of queries and of subcommands. If a server doesn't answer, the rules may still be
//! correct.

use std::{fmt, process::ExitCode};

use hpa_metrics::describe;
use hpa_prometheus::{
    client::{Client, QueryFailure},
    rules::query::with_single_spaces,
};

use crate::EXIT_INCONCLUSIVE;

/// The first line names at most this many causes, places or rules, and counts the rest.
pub(super) const MAX_NAMED: usize = 3;
/// Written in place of a result that could not be read. The first line has the cause.
pub(super) const UNCHECKED: &str = "not checked (see the first line)";

/// The reason why a query has no usable result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueryProblem {
    /// Prometheus rejected the query, or its result is wrong.
    Mistake(String),
    /// The server didn't answer the query, which may be correct. The text names the server.
    Unanswered(String),
}

impl QueryProblem {
    pub(super) fn new(failure: &QueryFailure, client: &Client) -> Self {
        if failure.is_caused_by_query() {
            return Self::Mistake(with_single_spaces(&describe(failure)));
        }
        let url = client.settings().url_without_credentials();
        Self::Unanswered(with_single_spaces(&failure.describe_with_server(&url)))
    }
}

impl fmt::Display for QueryProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Mistake(text) | Self::Unanswered(text)) = self;
        f.write_str(text)
    }
}

/// The result of a subcommand, by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The rules have no problems (there may be warnings), the metric has a value, or the servers
    /// don't differ.
    Success,
    /// The rules have problems, the metric has no value, or the servers differ.
    Failure,
    /// A server that should have been read didn't answer or refused a request, or there was nothing
    /// to compare.
    Inconclusive,
}

impl Outcome {
    pub(super) fn exit_code(self) -> ExitCode {
        match self {
            Self::Success => ExitCode::SUCCESS,
            Self::Failure => ExitCode::FAILURE,
            Self::Inconclusive => ExitCode::from(EXIT_INCONCLUSIVE),
        }
    }
}

/// The first line if a server didn't answer. `failure` names the server.
pub(super) fn unknown_value(metric: &str, failure: &str) -> String {
    format!("{metric}: the value is unknown: {}", with_single_spaces(failure))
}
