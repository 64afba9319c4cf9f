//! `hpa rules check`: mistakes in rules, and a sample of one metric of each rule.

mod report;
mod samples;

use std::{fmt::Write, iter, mem};

use anyhow::Context;
use hpa_calc::explain::{counted, list_first};
use hpa_metrics::{resource::ApiResources, with_causes};
use hpa_prometheus::{
    rules::{
        Config, ConfigError, RuleSet,
        config::{Issues, ManifestRules, Position, ResourceRules},
        labels::AmbiguousLabel,
        lint::{lint, lint_each, merge_unknown_fields, query_warnings},
        query::on_one_line,
    },
    source::{RelistError, ServerError, server_mistakes},
};

use self::report::{Report, UncheckedRules};
use super::{
    connect_cluster, connect_source,
    outcome::{Outcome, QueryProblem},
    resource::ClusterObjects,
    resource_mapper,
    servers::RuleServers,
};
use crate::{
    args::{RulesCheckArguments, RulesConnection},
    manifests::file_name,
    rules_source::{notify_of_delay, read_configs, server_flags, warn_of_delay},
};

/// Part of the first line if a server could not be read, before the cause.
const PROMETHEUS_UNREAD: &str = "; not checked against Prometheus";
/// Part of the first line if the resources of the API server could not be read, before the cause.
const CLUSTER_UNREAD: &str = "; not checked against the cluster";
/// Part of the first line about several places if one of them could not be checked.
const PARTLY_CHECKED: &str = "; not all checked";
/// The reason why Prometheus is not read if a server or a reference to one has a mistake.
const INVALID_SERVERS: &str = "correct the servers first";
/// The first line names at most this many unchecked rules for each cause.
const MAX_UNCHECKED_RULES: usize = 10;

/// Checks the rules of a file. Returns the report and the outcome.
pub(super) async fn check_rules(
    arguments: &RulesCheckArguments,
) -> anyhow::Result<(String, Outcome)> {
    let all = read_configs(&arguments.file)?;
    let count = all.len();
    let (mut sections, mut failed_places, mut all_warning_count) = (String::new(), Vec::new(), 0);
    let mut worst = Outcome::Success;
    for ManifestRules { place, config } in all {
        let config = config.with_context(|| file_name(&arguments.file));
        let checked = match config {
            Ok(config) => check_config(arguments, &config).await?,
            Err(error) => {
                let error = with_other_mistakes(error, &arguments.connection).await;
                if count == 1 {
                    return Err(error);
                }
                let text = format!("{error:#}\n");
                CheckedRules { text, problem_count: 1, warning_count: 0, is_complete: true }
            }
        };
        let outcome = checked.outcome();
        if count == 1 {
            return Ok((checked.text, outcome));
        }
        // Writing to a string can't fail.
        let _ = write!(sections, "\n{place}\n{}", checked.text);
        failed_places.extend((checked.problem_count > 0).then_some(place));
        all_warning_count += checked.warning_count;
        worst = worst.max(outcome);
    }
    let result = match failed_places.as_slice() {
        [] => describe_counts(0, all_warning_count),
        places => format!("{} with problems: {}", places.len(), places.join("; ")),
    };
    let unchecked = if worst == Outcome::Inconclusive { PARTLY_CHECKED } else { "" };
    Ok((format!("rules in {count} places: {result}{unchecked}\n{sections}"), worst))
}

/// The report about the rules of one place.
struct CheckedRules {
    text: String,
    problem_count: usize,
    warning_count: usize,
    /// Whether all servers that should have been read answered.
    is_complete: bool,
}

impl CheckedRules {
    fn outcome(&self) -> Outcome {
        match self {
            Self { is_complete: false, .. } => Outcome::Inconclusive,
            Self { problem_count: 0, .. } => Outcome::Success,
            _ => Outcome::Failure,
        }
    }
}

/// The numbers of problems and warnings, such as "no problems, 2 warnings".
fn describe_counts(problem_count: usize, warning_count: usize) -> String {
    let problems = match problem_count {
        0 => "no problems".to_owned(),
        _ => counted(problem_count, "problem"),
    };
    match warning_count {
        0 => problems,
        _ => format!("{problems}, {}", counted(warning_count, "warning")),
    }
}

/// Checks the rules of one place, such as a file or a `ConfigMap` in it.
async fn check_config(
    arguments: &RulesCheckArguments,
    config: &Config,
) -> anyhow::Result<CheckedRules> {
    let (flags, file) = (&arguments.connection, file_name(&arguments.file));
    let mistakes = server_mistakes(config, &flags.prometheus.server_permissions());
    let source = if mistakes.is_empty() { connect_source(config, flags).await? } else { None };
    let Some(source) = source else {
        let may_connect = flags.connect || flags.prometheus.prometheus_url.is_some();
        let cause = (may_connect && !mistakes.is_empty()).then_some(INVALID_SERVERS);
        let mut checked = match resource_mapper(flags).await?.load().await {
            Ok(resources) => check_syntax(&file, config, &resources, cause, &mistakes),
            Err(error) => check_without_resources(&file, config, &with_causes(&error), &mistakes),
        };
        // The mistakes are certain, and remain in a later check.
        checked.is_complete |= cause.is_some();
        return Ok(checked);
    };
    match notify_of_delay(source.relist(), || warn_of_delay(&source)).await {
        Err(error @ RelistError::Mapper(_)) => {
            return Ok(check_without_resources(&file, config, &with_causes(&error), &[]));
        }
        Err(RelistError::ServersFailed { causes, .. }) => {
            let cause = causes.join("; ");
            return Ok(check_syntax(&file, config, &source.resources(), Some(&cause), &[]));
        }
        _ => {}
    }
    let objects = match connect_cluster(flags).await? {
        Some(client) if config.resource_rules.is_some() => ClusterObjects::list(&client).await,
        _ => ClusterObjects::default(),
    };
    let servers = RuleServers::new(&source);
    let compiled = RuleSet::compile(config, &source.resources());
    if let Some(cause) = failure_of_only_server(config, &compiled, &servers).await {
        return Ok(check_syntax(&file, config, &source.resources(), Some(&cause), &[]));
    }
    let refused = compiled.errors().map(|error| (error.rule.clone(), error.describe())).collect();
    let findings = lint_each(config, &compiled, &source.resources());
    let mistakes = findings.iter().filter(|finding| !finding.is_warning);
    let mistakes = mistakes.map(|finding| finding.path.clone()).collect();
    let mut report = Report {
        servers: &servers,
        refused,
        findings: merge_unknown_fields(findings),
        mistakes,
        text: String::new(),
        problem_count: 0,
        warning_count: 0,
        unchecked: Vec::new(),
        cluster_failures: Vec::new(),
    };
    let mut sections = Vec::new();
    for rules in [source.inspect_custom(), source.inspect_external()] {
        for (index, rule) in rules.iter().enumerate() {
            report.add_rule(&rules, index).await;
            sections.push((rule.position, mem::take(&mut report.text)));
        }
    }
    report.add_resource_rules(config, &compiled, &objects).await;
    let Report { text, problem_count, warning_count, unchecked, cluster_failures, .. } = report;
    sections.push((config.positions.get("resourceRules"), text));
    let counts = describe_counts(problem_count, warning_count);
    let sections = in_file_order(sections).concat();
    let unchecked = describe_unchecked(&unchecked) + &describe_cluster_failures(&cluster_failures);
    let headline = format!("{file}: {counts}{unchecked}");
    let text = servers.add_notes(format!("{headline}\n{sections}"));
    Ok(CheckedRules { text, problem_count, warning_count, is_complete: unchecked.is_empty() })
}

/// The texts in the order of their positions in the file.
fn in_file_order(mut texts: Vec<(Option<Position>, String)>) -> Vec<String> {
    texts.sort_by_key(|(position, _)| *position);
    texts.into_iter().map(|(_, text)| text).collect()
}

/// The part of the first line about rules whose servers didn't answer. Empty if there are none.
fn describe_unchecked(unchecked: &[UncheckedRules]) -> String {
    if unchecked.is_empty() {
        return String::new();
    }
    let causes = unchecked.iter().map(|UncheckedRules { cause, rules }| {
        format!("{}: {cause}", list_first(rules, MAX_UNCHECKED_RULES, ", "))
    });
    format!("{PROMETHEUS_UNREAD}: {}", causes.collect::<Vec<_>>().join("; "))
}

/// The part of the first line about objects that could not be compared with those of the cluster.
/// Empty if there are none.
fn describe_cluster_failures(failures: &[String]) -> String {
    if failures.is_empty() {
        return String::new();
    }
    format!("; {}", on_one_line(&failures.join("; ")))
}

/// Adds the mistakes in all other fields to an error about undecodable fields. If there are
/// several mistakes, the first line has their number, and all follow in the order of the file.
async fn with_other_mistakes(error: anyhow::Error, flags: &RulesConnection) -> anyhow::Error {
    let Some(ConfigError::Fields(Issues { issues, rest })) = error.downcast_ref() else {
        return error;
    };
    let Ok(mapper) = resource_mapper(flags).await else { return error };
    let Ok(resources) = mapper.load().await else { return error };
    let rules = RuleSet::compile(rest, &resources);
    // If a field is misspelled, another field may be missing or incomplete, which is no separate
    // mistake.
    let is_independent = |path: &str| {
        rest.positions.0.contains_key(path)
            && !issues.iter().any(|issue| issue.path.starts_with(path))
    };
    let rejected = rules.errors().filter(|error| is_independent(&error.path));
    let findings = lint(rest, &rules, &resources).into_iter();
    let findings: Vec<_> = findings.filter(|finding| is_independent(&finding.path)).collect();
    let warning_count = findings.iter().filter(|finding| finding.is_warning).count();
    let servers = server_mistakes(rest, &flags.prometheus.server_permissions()).into_iter();
    // The name of a server, or all servers, may be in a misspelled field.
    let are_servers_known =
        !issues.iter().any(|issue| issue.path.is_empty() || issue.path.starts_with("servers"));
    let servers = servers.filter(|mistake| {
        let is_reference = mistake.path.ends_with(".server");
        is_independent(&mistake.path) && (are_servers_known || !is_reference)
    });
    let undecodable = issues.iter().map(|issue| (Some(issue.position), issue.to_string()));
    let lines: Vec<_> = undecodable
        .chain(rejected.map(|error| (error.position, error.describe())))
        .chain(findings.iter().map(|finding| (finding.position, finding.to_string())))
        .chain(servers.map(|mistake| (mistake.position, mistake.to_string())))
        .collect();
    if lines.len() == 1 {
        return error;
    }
    // The outermost context is the name of the file.
    let counts = describe_counts(lines.len() - warning_count, warning_count);
    let headline = format!("{error}: {counts}");
    let text: Vec<String> = iter::once(headline).chain(in_file_order(lines)).collect();
    anyhow::Error::msg(text.join("\n"))
}

/// The reason why the server of `resourceRules` can't be read, if the file has no other rules. A
/// relist reads only the servers of other rules.
async fn failure_of_only_server(
    config: &Config,
    compiled: &RuleSet,
    servers: &RuleServers<'_>,
) -> Option<String> {
    let has_other_rules = !config.rules.is_empty() || !config.external_rules.is_empty();
    let is_valid = matches!(compiled.resource, Some(Ok(_)));
    let server = &config.resource_rules.as_ref()?.server;
    if has_other_rules || !is_valid {
        return None;
    }
    match servers.server(server).samples("vector(1)").await {
        Err(QueryProblem::Unanswered(failure)) => Some(failure),
        _ => None,
    }
}

/// Checks rules without the resources of the API server, because they could not be read: finds only
/// the mistakes that don't depend on them.
fn check_without_resources(
    file: &str,
    config: &Config,
    cause: &str,
    servers: &[ServerError],
) -> CheckedRules {
    let errors = RuleSet::syntax_errors(config);
    let missing = config.resource_rules.as_ref().and_then(ResourceRules::missing_rule);
    let missing = missing.map(|path| (None, format!("{path} is missing")));
    let errors = errors.iter().map(|error| (error.position, error.describe()));
    let servers = servers.iter().map(|mistake| (mistake.position, mistake.to_string()));
    let lines: Vec<_> = errors.chain(missing).chain(servers).collect();
    let problem_count = lines.len();
    let unread = format!("{CLUSTER_UNREAD}: {}", on_one_line(cause));
    report_of_file(file, config, in_file_order(lines), problem_count, 0, &unread)
}

/// Checks rules without a Prometheus server. `cause` is the reason why those that should have been
/// read can't be read. `None` if no flag allows one. `servers`: the [`server_mistakes`].
fn check_syntax(
    file: &str,
    config: &Config,
    resources: &ApiResources,
    cause: Option<&str>,
    servers: &[ServerError],
) -> CheckedRules {
    let rules = RuleSet::compile(config, resources);
    let findings = lint(config, &rules, resources);
    let mistake_count = findings.iter().filter(|finding| !finding.is_warning).count();
    let problem_count = rules.errors().count() + mistake_count + servers.len();
    let refused = rules.errors().map(|error| (error.position, error.describe()));
    let warnings = query_warnings(config, &rules, resources);
    let others = findings.iter().chain(&warnings).map(|one| (one.position, one.to_string()));
    let servers = servers.iter().map(|mistake| (mistake.position, mistake.to_string()));
    let mut lines = in_file_order(refused.chain(others).chain(servers).collect());
    let labels = rules.custom.iter().chain(&rules.external).flatten();
    let ambiguous = labels.flat_map(|rule| rule.labels.ambiguous());
    let ambiguous: Vec<String> = ambiguous
        .map(|AmbiguousLabel { resource, used, unused }| {
            format!("warning: {resource} has two labels: queries use {used}, not {unused}")
        })
        .collect();
    let all_warnings = findings.iter().chain(&warnings).filter(|finding| finding.is_warning);
    let warning_count = all_warnings.count() + ambiguous.len();
    lines.extend(ambiguous);
    if cause.is_none() && problem_count == 0 {
        lines.push(format!("To check against series, add {}", server_flags(config)));
    }
    let unread = cause.map(|cause| format!("{PROMETHEUS_UNREAD}: {}", on_one_line(cause)));
    let unread = unread.unwrap_or_default();
    report_of_file(file, config, lines, problem_count, warning_count, &unread)
}

/// The report of a check that read only the file. The first line has the numbers of findings and of
/// rules. It ends with `unread`, which is empty if no server should have been read.
fn report_of_file(
    file: &str,
    config: &Config,
    lines: Vec<String>,
    problem_count: usize,
    warning_count: usize,
    unread: &str,
) -> CheckedRules {
    let (counts, rules) = (describe_counts(problem_count, warning_count), rule_counts(config));
    let is_complete = unread.is_empty();
    let in_the_file = if is_complete { "" } else { " in the file" };
    let headline = format!("{file}: {counts}{in_the_file} ({rules}){unread}");
    let text = iter::once(headline).chain(lines).map(|line| line + "\n").collect();
    CheckedRules { text, problem_count, warning_count, is_complete }
}

/// The numbers of rules, such as "1 rule, 2 external rules, resourceRules".
fn rule_counts(config: &Config) -> String {
    let count = |count: usize, name: &str| (count > 0).then(|| counted(count, name));
    let counts = [
        count(config.default_rule_count, "default rule"),
        count(config.rules.len().saturating_sub(config.default_rule_count), "rule"),
        count(config.external_rules.len(), "external rule"),
        config.resource_rules.as_ref().map(|_| "resourceRules".to_owned()),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() { "no rules".to_owned() } else { counts.join(", ") }
}
