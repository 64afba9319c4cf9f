//! The first line of an explanation.

use hpa_calc::{
    explain::{counted, list_first},
    suggestions::most_similar,
};
use hpa_metrics::resource::GroupResource;
use hpa_prometheus::{
    rules::explain::{Explanation, RuleOutcome, RuleReport},
    source::RuleInspection,
};

use crate::rules::outcome::{MAX_NAMED, Outcome, QueryProblem, unknown_value};

/// Puts the first line above an explanation: whether the metric has values, and from which rule.
pub(super) struct Headline<'e> {
    pub(super) metric: &'e str,
    pub(super) explanation: &'e Explanation,
    pub(super) inspected: &'e [RuleInspection],
    /// The numbers of objects of a custom metric, once their values have been read.
    pub(super) object_counts: Option<ObjectCounts>,
    /// The rules of the other list of the file: custom metrics for an external one, and vice versa.
    pub(super) other_rules: &'e [RuleInspection],
}

/// Numbers of objects with a custom metric.
#[derive(Clone, Copy)]
pub(super) struct ObjectCounts {
    /// The number of objects whose values were read.
    pub(super) read: usize,
    /// The number of objects that have the metric, or that `--name` names.
    pub(super) total: usize,
}

impl Headline<'_> {
    /// Adds the first line to an explanation, after the values were read. Also returns the outcome.
    /// `cause` is the reason why there is no value, if a rule describes the metric.
    pub(super) fn add_to(
        &self,
        text: &str,
        value_count: usize,
        cause: Option<&str>,
    ) -> (String, Outcome) {
        let Self { metric, explanation, inspected, .. } = self;
        if let Some(problem) = &explanation.request_problem {
            return (format!("{metric}: {problem}\n{text}"), Outcome::Failure);
        }
        let applied = explanation.applied().and_then(|report| inspected.get(report.index));
        let incomplete = self.object_counts.filter(|counts| counts.read < counts.total);
        let (headline, outcome) = match (applied, value_count) {
            (Some(rule), 0) => {
                let objects = incomplete
                    .map(|ObjectCounts { read, total }| format!(" for {read} of {total} objects"));
                let objects = objects.unwrap_or_default();
                let headline = match cause {
                    Some(cause) => format!("{metric} has no value{objects}: {cause}"),
                    None => format!(
                        "{metric} has no value{objects}, although {} serves it",
                        rule.status.rule
                    ),
                };
                (headline, Outcome::Failure)
            }
            (Some(rule), _) => {
                let (values, rule) = (counted(value_count, "value"), &rule.status.rule);
                let headline = match incomplete {
                    Some(ObjectCounts { read, total }) => format!(
                        "{metric} has at least {values} of {rule}: {read} of {total} objects were \
                         read"
                    ),
                    None => format!("{metric} has {values} of {rule}"),
                };
                (headline, Outcome::Success)
            }
            (None, _) => self.without_rule(cause),
        };
        (format!("{headline}\n{text}"), outcome)
    }

    /// Like [`Self::add_to`], after a read failed.
    pub(super) fn add_failure_to(&self, text: &str, problem: &QueryProblem) -> (String, Outcome) {
        match problem {
            QueryProblem::Unanswered(failure) if self.explanation.request_problem.is_none() => {
                let headline = unknown_value(self.metric, failure);
                (format!("{headline}\n{text}"), Outcome::Inconclusive)
            }
            QueryProblem::Unanswered(cause) | QueryProblem::Mistake(cause) => {
                self.add_to(text, 0, Some(cause))
            }
        }
    }

    /// The first line and the outcome if no rule applies.
    fn without_rule(&self, cause: Option<&str>) -> (String, Outcome) {
        let Self { metric, explanation, inspected, .. } = self;
        let failures = server_failures(inspected);
        if !failures.is_empty() {
            // A rule whose series are unknown may have the metric.
            let failures = list_first(&failures, MAX_NAMED, "; ");
            return (unknown_value(metric, &failures), Outcome::Inconclusive);
        }
        let rules = counted(inspected.len(), "rule");
        let share_of_rules = |count: usize| match inspected.len() {
            1 => "the only rule".to_owned(),
            _ => format!("{count} of {rules}"),
        };
        let unread_rules = inspected.len().saturating_sub(explanation.rules.len());
        let may_have =
            |index: usize| inspected.get(index).is_none_or(|rule| rule.definition.may_have(metric));
        let refused = explanation.rules.iter().filter_map(|report| match &report.outcome {
            RuleOutcome::Refused(error) if may_have(report.index) => Some(error),
            _ => None,
        });
        let refused: Vec<_> = refused.collect();
        let problem = query_problem(explanation, inspected)
            .or_else(|| resource_problem(explanation, inspected))
            .or_else(|| cause.map(str::to_owned));
        let headline = match (problem, refused.as_slice()) {
            (Some(problem), _) => format!("{metric} has no value: {problem}"),
            (None, _) if unread_rules > 0 => {
                let unread = share_of_rules(unread_rules);
                format!("{metric} isn't found: the series of {unread} can't be read")
            }
            (None, [error, others @ ..]) => {
                let are = if others.is_empty() { "is" } else { "are" };
                let (refused, mistake) = (share_of_rules(refused.len()), error.mistake());
                format!("{metric} isn't found: {refused} {are} refused: {error}: {mistake}")
            }
            (None, []) => {
                let reports = explanation.rules.iter();
                let is_empty =
                    |report: &&RuleReport| matches!(report.outcome, RuleOutcome::NoSeries { .. });
                let no_rule = || match (inspected.len(), reports.filter(is_empty).count()) {
                    (0, _) => "there are no rules".to_owned(),
                    (1, 0) => "the only rule doesn't have it".to_owned(),
                    (1, _) => "the only rule has no series now".to_owned(),
                    (_, 0) => format!("none of {rules} has it"),
                    (count, empty) if count == empty => format!("none of {rules} has series now"),
                    (_, empty) => format!("none of {rules} has it; {empty} without series now"),
                };
                let reason = metric_in(self.other_rules, metric)
                    .or_else(|| similar_metric(inspected, metric))
                    .unwrap_or_else(no_rule);
                format!("{metric} has no value: {reason}")
            }
        };
        (headline, Outcome::Failure)
    }
}

/// Says which of the rules for another API has a metric, with the command that explains it. Prefers
/// the metric of pods, and that of another object to that of its namespace.
fn metric_in(rules: &[RuleInspection], metric: &str) -> Option<String> {
    rules.iter().find_map(|rule| {
        let metrics = rule.metrics.iter().filter(|one| one.metric == metric);
        let preferred = metrics.min_by_key(|one| {
            let is_of = |resource| one.resource == Some(resource);
            (!is_of(GroupResource::pods()), is_of(GroupResource::namespaces()))
        });
        let (api, resource) = match &preferred?.resource {
            Some(resource) => ("custom", format!("{resource}/")),
            None => ("external", String::new()),
        };
        let rule = &rule.status.rule;
        Some(format!(
            "{rule} has it, but in another API: hpa rules explain {api} {resource}{metric}"
        ))
    })
}

/// Names the metric that may be meant, and its rule. `None` if no name is similar.
fn similar_metric(rules: &[RuleInspection], metric: &str) -> Option<String> {
    let names = rules.iter().flat_map(|rule| rule.metrics.iter().map(|one| one.metric.as_str()));
    let similar = most_similar(metric, names)?;
    let rule = rules.iter().find(|rule| rule.metrics.iter().any(|one| one.metric == similar))?;
    Some(format!("no rule has it; did you mean {similar} of {}?", rule.status.rule))
}

/// The distinct failures of servers that left the series of a rule unknown.
fn server_failures(inspected: &[RuleInspection]) -> Vec<&str> {
    let mut failures: Vec<&str> = Vec::new();
    for failure in inspected.iter().filter_map(|rule| rule.server_failure.as_deref()) {
        if !failures.contains(&failure) {
            failures.push(failure);
        }
    }
    failures
}

/// A sentence about a rule that has the metric, but whose query can't be built.
fn query_problem(explanation: &Explanation, inspected: &[RuleInspection]) -> Option<String> {
    explanation.rules.iter().find_map(|report| {
        let RuleOutcome::NoQuery { error, .. } = &report.outcome else { return None };
        let rule = rule_name(inspected.get(report.index)?);
        Some(match error.template_mistake() {
            Some(mistake) => format!("{rule} has it, but metricsQuery is wrong: {mistake}"),
            None => format!("{rule} has it, but its query can't be built: {error}"),
        })
    })
}

/// A sentence about a rule that has the metric, but not for the requested resource.
fn resource_problem(explanation: &Explanation, inspected: &[RuleInspection]) -> Option<String> {
    explanation.rules.iter().find_map(|report| {
        let RuleOutcome::OtherResources { expected, .. } = &report.outcome else { return None };
        let rule = rule_name(inspected.get(report.index)?);
        let reason = match expected {
            Ok(label) => format!("no series has the label `{label}`"),
            Err(_) => "no label is mapped to it".to_owned(),
        };
        Some(format!("{rule} has it, but not for this resource: {reason}"))
    })
}

/// Index and position of a rule: `rules[0] (line 2, column 3)`.
pub(super) fn rule_name(rule: &RuleInspection) -> String {
    let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
    format!("{}{position}", rule.status.rule)
}
