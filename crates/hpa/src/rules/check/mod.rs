//! `hpa rules check`: mistakes in rules, and a sample of one metric of each rule.

mod report;

use std::{fmt::Write, iter, mem, process::ExitCode};

use anyhow::Context;
use hpa_calc::explain::counted;
use hpa_metrics::{resource::ApiResources, with_causes};
use hpa_prometheus::{
    rules::{
        Config, ConfigError, RuleSet,
        config::{Issues, ManifestRules},
        labels::AmbiguousLabel,
        lint::{lint, lint_each, merge_unknown_fields, query_warnings},
        query::on_one_line,
    },
    source::{PrometheusSource, RelistError},
};

use self::report::Report;
use super::{connect_cluster, connect_source, resource::ClusterObjects, resource_mapper};
use crate::{
    args::{CheckArguments, RulesConnection},
    lint::EXIT_NOT_CHECKED,
    manifests::file_name,
    rules_source::{read_configs, server_flags},
};

/// Part of the first line if no server was read.
const NOT_CHECKED: &str = "; not checked against Prometheus";

/// The outcome of a check, by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckOutcome {
    /// There may be warnings.
    NoProblems,
    Problems,
    /// Prometheus should have been read, but no server responded or accepted the credentials. There
    /// may be problems.
    NotChecked,
}

impl CheckOutcome {
    fn from_problems(problems: usize) -> Self {
        if problems == 0 { Self::NoProblems } else { Self::Problems }
    }

    pub(super) fn exit_code(self) -> ExitCode {
        match self {
            Self::NoProblems => ExitCode::SUCCESS,
            Self::Problems => ExitCode::FAILURE,
            Self::NotChecked => ExitCode::from(EXIT_NOT_CHECKED),
        }
    }
}

/// Checks the rules of a file. Returns the report and the outcome.
pub(super) async fn check_rules(
    arguments: &CheckArguments,
) -> anyhow::Result<(String, CheckOutcome)> {
    let all = read_configs(&arguments.file)?;
    let count = all.len();
    let (mut sections, mut failed_places, mut warnings) = (String::new(), Vec::new(), 0);
    let mut worst = CheckOutcome::NoProblems;
    for ManifestRules { place, config } in all {
        let config = config.with_context(|| file_name(&arguments.file));
        let CheckedRules { text, problems, warnings: of_place, outcome } = match config {
            Ok(config) => check_config(arguments, &config).await?,
            Err(error) => {
                let error = with_other_mistakes(error, &arguments.connection).await;
                if count == 1 {
                    return Err(error);
                }
                CheckedRules::new(format!("{error:#}\n"), 1, 0)
            }
        };
        if count == 1 {
            return Ok((text, outcome));
        }
        // Writing to a string can't fail.
        let _ = write!(sections, "\n{place}\n{text}");
        failed_places.extend((problems > 0).then_some(place));
        warnings += of_place;
        worst = worst.max(outcome);
    }
    let result = match failed_places.as_slice() {
        [] => count_findings(0, warnings),
        places => format!("{} with problems: {}", places.len(), places.join("; ")),
    };
    let is_checked = worst != CheckOutcome::NotChecked;
    let unchecked = if is_checked { "" } else { NOT_CHECKED };
    Ok((format!("rules in {count} places: {result}{unchecked}\n{sections}"), worst))
}

/// The report about the rules of one place.
struct CheckedRules {
    text: String,
    problems: usize,
    warnings: usize,
    outcome: CheckOutcome,
}

impl CheckedRules {
    fn new(text: String, problems: usize, warnings: usize) -> Self {
        Self { text, problems, warnings, outcome: CheckOutcome::from_problems(problems) }
    }
}

/// The numbers of problems and warnings, such as "no problems, 2 warnings".
fn count_findings(problems: usize, warnings: usize) -> String {
    let problems =
        if problems == 0 { "no problems".to_owned() } else { counted(problems, "problem") };
    match warnings {
        0 => problems,
        _ => format!("{problems}, {}", counted(warnings, "warning")),
    }
}

/// Checks the rules of one place, such as a file or a `ConfigMap` in it.
async fn check_config(arguments: &CheckArguments, config: &Config) -> anyhow::Result<CheckedRules> {
    let (flags, file) = (&arguments.connection, file_name(&arguments.file));
    let Some(source) = connect_source(config, flags).await? else {
        let resources = resource_mapper(flags).await?.load().await?;
        return Ok(check_offline(&file, config, &resources));
    };
    let objects = match connect_cluster(flags).await? {
        Some(client) if config.resource_rules.is_some() => ClusterObjects::list(client).await?,
        _ => ClusterObjects::default(),
    };
    match source.relist().await {
        Err(error @ RelistError::Mapper(_)) => anyhow::bail!("{}", with_causes(&error)),
        Err(RelistError::Unreachable { causes, .. }) => {
            return Ok(check_unreachable(&file, config, &source.resources(), &causes));
        }
        _ => {}
    }
    let compiled = RuleSet::compile(config, &source.resources());
    if let Some(cause) = failure_of_only_server(config, &compiled, &source).await {
        return Ok(check_unreachable(&file, config, &source.resources(), &[cause]));
    }
    let refused = compiled.errors().map(|error| (error.rule.clone(), error.describe())).collect();
    let findings = lint_each(config, &compiled, &source.resources());
    let mistakes = findings.iter().filter(|finding| !finding.is_warning);
    let mistakes = mistakes.map(|finding| finding.path.clone()).collect();
    let text = String::new();
    let mut report = Report { source: &source, refused, mistakes, text, problems: 0, warnings: 0 };
    let mut sections = Vec::new();
    for finding in merge_unknown_fields(findings) {
        report.problems += usize::from(!finding.is_warning);
        report.warnings += usize::from(finding.is_warning);
        sections.push((finding.position, format!("{finding}\n")));
    }
    for rules in [source.inspect_custom(), source.inspect_external()] {
        for (index, rule) in rules.iter().enumerate() {
            report.add_rule(&rules, index).await;
            sections.push((rule.position, mem::take(&mut report.text)));
        }
    }
    report.add_resource_rules(config, &objects).await;
    let Report { text, problems, warnings, .. } = report;
    sections.push((config.positions.get("resourceRules"), text));
    sections.sort_by_key(|(position, _)| *position);
    let counts = count_findings(problems, warnings);
    let sections: String = sections.into_iter().map(|(_, text)| text).collect();
    let text = format!("{file}: {counts}\n{sections}");
    Ok(CheckedRules::new(text, problems, warnings))
}

/// Adds the mistakes in all other fields to an error about undecodable fields. If there are
/// several mistakes, the first line counts them, and the others are in the order of the file.
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
    let warnings = findings.iter().filter(|finding| finding.is_warning).count();
    let undecodable = issues.iter().map(|issue| (Some(issue.position), issue.to_string()));
    let mut lines: Vec<_> = undecodable
        .chain(rejected.map(|error| (error.position, error.describe())))
        .chain(findings.iter().map(|finding| (finding.position, finding.to_string())))
        .collect();
    if lines.len() == 1 {
        return error;
    }
    lines.sort_by_key(|(position, _)| *position);
    // The outermost context is the name of the file.
    let headline = format!("{error}: {}", count_findings(lines.len() - warnings, warnings));
    let lines = lines.into_iter().map(|(_, line)| line);
    let text: Vec<String> = iter::once(headline).chain(lines).collect();
    anyhow::Error::msg(text.join("\n"))
}

/// Checks rules without a server, because no flag allows one.
fn check_offline(file: &str, config: &Config, resources: &ApiResources) -> CheckedRules {
    let mut checked = check_syntax(file, config, resources, None);
    if checked.problems == 0 {
        // Writing to a string can't fail.
        let _ = writeln!(checked.text, "To check against series, add {}", server_flags(config));
    }
    checked
}

/// The reason why the server of `resourceRules` can't be read, if the file has no other rules. A
/// relist reads only the servers of other rules.
async fn failure_of_only_server(
    config: &Config,
    compiled: &RuleSet,
    source: &PrometheusSource,
) -> Option<String> {
    let has_other_rules = !config.rules.is_empty() || !config.external_rules.is_empty();
    let is_valid = matches!(compiled.resource, Some(Ok(_)));
    let server = &config.resource_rules.as_ref()?.server;
    if has_other_rules || !is_valid {
        return None;
    }
    let failure = source.query_server(server, "vector(1)").await?.err()?;
    failure.is_unanswered().then(|| with_causes(&failure))
}

/// Checks rules without the servers that didn't respond or refused the credentials.
fn check_unreachable(
    file: &str,
    config: &Config,
    resources: &ApiResources,
    causes: &[String],
) -> CheckedRules {
    let causes = on_one_line(&causes.join("; "));
    let checked = check_syntax(file, config, resources, Some(&causes));
    CheckedRules { outcome: CheckOutcome::NotChecked, ..checked }
}

/// Checks rules without a server. The first line has the numbers of findings and of rules, and the
/// cause if a server should have been read. The findings follow in the order of the file.
fn check_syntax(
    file: &str,
    config: &Config,
    resources: &ApiResources,
    cause: Option<&str>,
) -> CheckedRules {
    let rules = RuleSet::compile(config, resources);
    let findings = lint(config, &rules, resources);
    let mistakes = findings.iter().filter(|finding| !finding.is_warning).count();
    let problems = rules.errors().count() + mistakes;
    let refused = rules.errors().map(|error| (error.position, error.describe()));
    let warnings = query_warnings(config, &rules, resources);
    let others = findings.iter().chain(&warnings).map(|one| (one.position, one.to_string()));
    let mut lines: Vec<_> = refused.chain(others).collect();
    lines.sort_by_key(|(position, _)| *position);
    let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let labels = rules.custom.iter().chain(&rules.external).flatten();
    let ambiguous = labels.flat_map(|rule| rule.labels().ambiguous());
    let ambiguous: Vec<String> = ambiguous
        .map(|AmbiguousLabel { resource, used, unused }| {
            format!("warning: {resource} has two labels: queries use {used}, not {unused}")
        })
        .collect();
    let all_warnings = findings.iter().chain(&warnings).filter(|finding| finding.is_warning);
    let warnings = all_warnings.count() + ambiguous.len();
    lines.extend(ambiguous);
    let counts = count_findings(problems, warnings);
    let rules = rule_counts(config);
    let headline = match cause {
        None => format!("{file}: {counts} ({rules})"),
        Some(cause) => format!("{file}: {counts} in the file ({rules}){NOT_CHECKED}: {cause}"),
    };
    let lines = iter::once(headline).chain(lines);
    CheckedRules::new(lines.map(|line| line + "\n").collect(), problems, warnings)
}

/// The numbers of rules, such as "1 rule, 2 external rules, resourceRules".
fn rule_counts(config: &Config) -> String {
    let count = |count: usize, name: &str| (count > 0).then(|| counted(count, name));
    let counts = [
        count(config.default_rules, "default rule"),
        count(config.rules.len().saturating_sub(config.default_rules), "rule"),
        count(config.external_rules.len(), "external rule"),
        config.resource_rules.as_ref().map(|_| "resourceRules".to_owned()),
    ];
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    if counts.is_empty() { "no rules".to_owned() } else { counts.join(", ") }
}
