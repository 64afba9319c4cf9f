//! `hpa rules check`: mistakes in rules, and a sample of one metric of each rule.

mod formats;
mod report;
mod samples;

use std::{fmt::Write, iter, mem};

use hpa_calc::explain::{counted, list_first};
use hpa_metrics::{resource::ApiResources, with_causes};
use hpa_prometheus::{
    rules::{
        Config, ConfigError, RuleSet,
        config::{FieldErrors, Finding, ManifestRules, ResourceRules},
        lint::{lint, query_warnings},
        query::with_single_spaces,
    },
    source::{PrometheusSource, RelistError, RuleStatus, server_mistakes},
};

use self::report::{Report, UncheckedRules};
use super::{
    connect_cluster, connect_source,
    outcome::{MAX_NAMED, Outcome, QueryProblem},
    resource::ClusterObjects,
    resource_mapper,
    servers::RuleServers,
};
use crate::{
    args::{LintFormat, RulesCheckArguments, RulesConnection},
    manifests::file_name,
    rules_source::{notify_of_delay, read_configs, server_flags, warn_of_delay},
    terminal,
};

/// Part of the first line if a server could not be read, before the cause.
const PROMETHEUS_UNREAD: &str = "not checked against Prometheus";
/// Part of the first line if the resources of the API server could not be read, before the cause.
const CLUSTER_UNREAD: &str = "not checked against the cluster";
/// Part of the first line if none of several rules has series.
const WITHOUT_SERIES: &str =
    "no rule has series: Prometheus may be empty, or another server or tenant is meant";
/// Part of the first line about several places if one of them could not be checked.
const PARTLY_CHECKED: &str = "; not all checked";
/// The reason why Prometheus is not read if a server or a reference to one has a mistake.
const INVALID_SERVERS: &str = "correct the servers first";

/// Checks the rules of a file. Returns the report in the format of the arguments, and the outcome.
pub(super) async fn check_rules(
    arguments: &RulesCheckArguments,
) -> anyhow::Result<(String, Outcome)> {
    let file = file_name(&arguments.file);
    let all = read_configs(&arguments.file).or_else(|error| {
        let config = Err(error.downcast::<ConfigError>()?);
        anyhow::Ok(vec![ManifestRules { place: String::new(), config }])
    })?;
    let is_only = all.len() == 1;
    let mut places = Vec::new();
    for ManifestRules { place, config } in all {
        let checked = match config {
            Ok(config) => check_config(arguments, &config).await?,
            Err(error) => {
                let findings = mistakes_of_error(&error, &arguments.connection).await;
                let error = describe_error(&file, error, &findings);
                if is_only && arguments.output == LintFormat::Text {
                    return Err(error);
                }
                let text = format!("{error:#}\n");
                CheckedRules { text, findings, ..CheckedRules::default() }
            }
        };
        places.push(CheckedRules { place, ..checked });
    }
    let worst = places.iter().map(CheckedRules::outcome).max().unwrap_or(Outcome::Success);
    let problems = formats::problems(&file, &places);
    if arguments.output != LintFormat::Text {
        for problem in &problems {
            terminal::warn(problem);
        }
    }
    let text = match arguments.output {
        LintFormat::Text => match places.as_slice() {
            [only] => only.text.clone(),
            places => report_of_places(places, worst),
        },
        LintFormat::Json => formats::json(&file, &places)?,
        LintFormat::Sarif => formats::sarif(&file, &places, &problems)?,
    };
    Ok((text, worst))
}

/// The report about several places of a file.
fn report_of_places(places: &[CheckedRules], worst: Outcome) -> String {
    let failed = places.iter().filter(|checked| has_problems(&checked.findings));
    let failed: Vec<&str> = failed.map(|checked| checked.place.as_str()).collect();
    let result = if failed.is_empty() {
        describe_counts(places.iter().flat_map(|checked| &checked.findings))
    } else {
        format!("{} with problems: {}", failed.len(), list_first(&failed, MAX_NAMED, "; "))
    };
    let unchecked = if worst == Outcome::Inconclusive { PARTLY_CHECKED } else { "" };
    let mut text = format!("rules in {} places: {result}{unchecked}\n", places.len());
    for checked in places {
        // Writing to a string can't fail.
        let _ = write!(text, "\n{}\n{}", checked.place, checked.text);
    }
    text
}

/// The report about the rules of one place.
#[derive(Default)]
struct CheckedRules {
    /// As in [`ManifestRules::place`]. The caller of [`check_config`] sets it.
    place: String,
    text: String,
    findings: Vec<Finding>,
    /// The parts of the first line about servers that should have been read and didn't answer.
    unread: Vec<String>,
}

impl CheckedRules {
    fn outcome(&self) -> Outcome {
        if !self.unread.is_empty() {
            return Outcome::Inconclusive;
        }
        if has_problems(&self.findings) { Outcome::Failure } else { Outcome::Success }
    }
}

fn has_problems(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| !finding.is_warning)
}

/// The numbers of problems and warnings, such as "no problems, 2 warnings".
fn describe_counts<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> String {
    let (mut problem_count, mut warning_count) = (0, 0);
    for finding in findings {
        let count = if finding.is_warning { &mut warning_count } else { &mut problem_count };
        *count += 1;
    }
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
    if mistakes.is_empty()
        && let Some(source) = connect_source(config, flags).await?
    {
        return check_with_source(&file, config, flags, &source).await;
    }
    let may_connect = flags.connect || flags.prometheus.prometheus_url.is_some();
    let cause = (may_connect && !mistakes.is_empty()).then_some(INVALID_SERVERS);
    let mut checked = match resource_mapper(flags).await?.load().await {
        Ok(resources) => check_syntax(&file, config, &resources, cause, &mistakes),
        Err(error) => check_without_resources(&file, config, &with_causes(&error), &mistakes),
    };
    // The mistakes are certain, and remain in a later check.
    if cause.is_some() {
        checked.unread.clear();
    }
    Ok(checked)
}

/// Checks rules with the series of their servers, as far as these answer.
async fn check_with_source(
    file: &str,
    config: &Config,
    flags: &RulesConnection,
    source: &PrometheusSource,
) -> anyhow::Result<CheckedRules> {
    match notify_of_delay(source.relist(), || warn_of_delay(source)).await {
        Err(error @ RelistError::Mapper(_)) => {
            return Ok(check_without_resources(file, config, &with_causes(&error), &[]));
        }
        Err(RelistError::ServersFailed { causes, .. }) => {
            let cause = list_first(&causes, MAX_NAMED, "; ");
            return Ok(check_syntax(file, config, &source.resources(), Some(&cause), &[]));
        }
        // The report has the errors of single rules.
        Ok(()) | Err(_) => {}
    }
    let objects = match connect_cluster(flags).await? {
        Some(client) if config.resource_rules.is_some() => ClusterObjects::list(&client).await,
        _ => ClusterObjects::default(),
    };
    let servers = RuleServers::new(source);
    let compiled = RuleSet::compile(config, &source.resources());
    if let Some(cause) = failure_of_only_server(config, &compiled, &servers).await {
        return Ok(check_syntax(file, config, &source.resources(), Some(&cause), &[]));
    }
    let mut report = Report::new(&servers, config, &compiled);
    let mut sections = Vec::new();
    for rules in [source.inspect_custom(), source.inspect_external()] {
        for (index, rule) in rules.iter().enumerate() {
            report.add_rule(&rules, index).await;
            sections.push((rule.position, mem::take(&mut report.text)));
        }
    }
    report.add_resource_rules(config, &compiled, &objects).await;
    let Report { text, mut findings, unchecked, cluster_failures, .. } = report;
    sections.push((config.positions.get("resourceRules"), text));
    sections.sort_by_key(|(position, _)| *position);
    findings.sort_by_key(|finding| finding.position);
    let unread = [describe_unchecked(&unchecked), describe_cluster_failures(&cluster_failures)];
    let unread: Vec<String> = unread.into_iter().flatten().collect();
    let has_no_series = |rule: &RuleStatus| {
        rule.last_success.is_some() && rule.error.is_none() && rule.series_count == 0
    };
    let rules = source.rule_status();
    let is_empty =
        config.resource_rules.is_none() && rules.len() > 1 && rules.iter().all(has_no_series);
    let empty = is_empty.then(|| WITHOUT_SERIES.to_owned());
    let counts = format!("{file}: {}", describe_counts(&findings));
    let headline = iter::once(counts).chain(empty).chain(unread.iter().cloned());
    let mut text = headline.collect::<Vec<_>>().join("; ") + "\n";
    text.extend(sections.into_iter().map(|(_, section)| section));
    let text = servers.add_notes(text);
    Ok(CheckedRules { text, findings, unread, ..CheckedRules::default() })
}

/// The part of the first line about rules whose servers didn't answer. `None` if there are none.
fn describe_unchecked(unchecked: &[UncheckedRules]) -> Option<String> {
    let causes = unchecked.iter().map(|UncheckedRules { cause, rules }| {
        format!("{}: {cause}", list_first(rules, MAX_NAMED, ", "))
    });
    let causes: Vec<String> = causes.collect();
    (!causes.is_empty())
        .then(|| format!("{PROMETHEUS_UNREAD}: {}", list_first(&causes, MAX_NAMED, "; ")))
}

/// The part of the first line about objects that could not be compared with those of the cluster.
/// `None` if there are none.
fn describe_cluster_failures(failures: &[String]) -> Option<String> {
    (!failures.is_empty()).then(|| with_single_spaces(&list_first(failures, MAX_NAMED, "; ")))
}

/// The mistakes in a file with undecodable fields, in the order of the file. Includes those in all
/// other fields. Any other error is the only mistake.
async fn mistakes_of_error(error: &ConfigError, flags: &RulesConnection) -> Vec<Finding> {
    let ConfigError::Fields(FieldErrors { errors, valid_fields }) = error else {
        let position = match error {
            ConfigError::Syntax(error) => Some(error.position),
            _ => None,
        };
        let (path, message) = (String::new(), error.to_string());
        return vec![Finding { path, position, is_warning: false, message }];
    };
    let mut findings = errors.clone();
    let Ok(mapper) = resource_mapper(flags).await else { return findings };
    let Ok(resources) = mapper.load().await else { return findings };
    let rules = RuleSet::compile(valid_fields, &resources);
    let servers = server_mistakes(valid_fields, &flags.prometheus.server_permissions());
    // The name of a server, or all servers, may be in a misspelled field.
    let are_servers_known =
        !errors.iter().any(|error| error.path.is_empty() || error.path.starts_with("servers"));
    let servers = servers
        .into_iter()
        .filter(|mistake| are_servers_known || !mistake.path.ends_with(".server"));
    let others = rules.errors().map(Finding::from);
    let others = others.chain(lint(valid_fields, &rules, &resources)).chain(servers);
    // If a field is misspelled, another field may be missing or incomplete, which is no separate
    // mistake.
    findings.extend(others.filter(|finding| {
        let path = finding.path.as_str();
        valid_fields.positions.0.contains_key(path)
            && !errors.iter().any(|error| error.path.starts_with(path))
    }));
    findings.sort_by_key(|finding| finding.position);
    findings
}

/// The error of a file with these mistakes. If there are several, the first line has their number.
fn describe_error(file: &str, error: ConfigError, findings: &[Finding]) -> anyhow::Error {
    if findings.len() == 1 {
        return anyhow::Error::new(error).context(file.to_owned());
    }
    let headline = format!("{file}: {}", describe_counts(findings));
    let lines = findings.iter().map(ToString::to_string);
    anyhow::Error::msg(iter::once(headline).chain(lines).collect::<Vec<_>>().join("\n"))
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
/// the mistakes that don't depend on them. `mistakes` are the [`server_mistakes`].
fn check_without_resources(
    file: &str,
    config: &Config,
    cause: &str,
    mistakes: &[Finding],
) -> CheckedRules {
    let errors = RuleSet::syntax_errors(config);
    let missing = config.resource_rules.as_ref().and_then(ResourceRules::missing_rule);
    let missing = missing.map(|path| Finding {
        path: path.to_owned(),
        position: config.positions.get("resourceRules"),
        is_warning: false,
        message: "it is missing".to_owned(),
    });
    let findings = errors.iter().map(Finding::from).chain(missing);
    let findings = findings.chain(mistakes.iter().cloned()).collect();
    let unread = format!("{CLUSTER_UNREAD}: {}", with_single_spaces(cause));
    report_of_file(file, config, findings, "", Some(unread))
}

/// Checks rules without a Prometheus server. `cause` is the reason why none can be read. `None` if
/// no flag allows reading one. `mistakes` are the [`server_mistakes`].
fn check_syntax(
    file: &str,
    config: &Config,
    resources: &ApiResources,
    cause: Option<&str>,
    mistakes: &[Finding],
) -> CheckedRules {
    let rules = RuleSet::compile(config, resources);
    let findings = rules.errors().map(Finding::from);
    let findings = findings.chain(lint(config, &rules, resources));
    let findings = findings.chain(query_warnings(config, &rules, resources));
    let findings: Vec<Finding> = findings.chain(mistakes.iter().cloned()).collect();
    let hint = if cause.is_none() && !has_problems(&findings) {
        format!("To check against series, add {}\n", server_flags(config))
    } else {
        String::new()
    };
    let unread = cause.map(|cause| format!("{PROMETHEUS_UNREAD}: {}", with_single_spaces(cause)));
    report_of_file(file, config, findings, &hint, unread)
}

/// The report of a check that read only the file, with a `hint` as its end. The first line has the
/// numbers of findings and of rules. It ends with `unread`, if a server should have been read.
fn report_of_file(
    file: &str,
    config: &Config,
    mut findings: Vec<Finding>,
    hint: &str,
    unread: Option<String>,
) -> CheckedRules {
    findings.sort_by_key(|finding| finding.position);
    let (counts, rules) = (describe_counts(&findings), rule_counts(config));
    let headline = match &unread {
        Some(unread) => format!("{file}: {counts} in the file ({rules}); {unread}"),
        None => format!("{file}: {counts} ({rules})"),
    };
    let lines = findings.iter().map(ToString::to_string);
    let text: String = iter::once(headline).chain(lines).map(|line| line + "\n").collect();
    let (text, unread) = (text + hint, unread.into_iter().collect());
    CheckedRules { text, findings, unread, ..CheckedRules::default() }
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
