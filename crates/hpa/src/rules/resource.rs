//! Checks and explains `resourceRules`, which provide `kubectl top` and metrics of type `Resource`.

use std::fmt::Write;

use anyhow::bail;
use hpa_calc::explain::counted;
use hpa_metrics::{describe, resource::GroupResource, stored_object::list_metadata};
use hpa_prometheus::{
    rules::{
        Compat, Config, RuleSet,
        query::on_one_line,
        resource_metrics::{ResourceMetrics, UsageResource},
    },
    source::PrometheusSource,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt, api::ListParams, core::ApiResource};

use super::{
    outcome::{ExplainOutcome, QueryProblem, UNCHECKED, unknown_value},
    sample::Labels,
    servers::RuleServers,
};

/// The maximum number of the cluster's objects of a kind that are compared with the results.
const MAX_OBJECTS: u32 = 500;
/// The maximum number of printed results.
const MAX_RESULTS: usize = 10;

/// The resources of `resourceRules`, with their names in metrics.
const USAGES: [(UsageResource, &str); 2] =
    [(UsageResource::Cpu, "cpu"), (UsageResource::Memory, "memory")];

/// The names of the cluster's objects.
#[derive(Default)]
pub(super) struct ClusterObjects {
    /// `None` without a cluster, and if they can't be listed.
    nodes: Option<Vec<String>>,
    /// `None` without a cluster, and if they can't be listed.
    pods: Option<Vec<String>>,
    /// The reasons why objects can't be listed.
    pub(super) failures: Vec<String>,
}

impl ClusterObjects {
    pub(super) async fn list(client: &kube::Client) -> Self {
        let parameters = ListParams::default().limit(MAX_OBJECTS);
        let list = async |resource: ApiResource| {
            let objects = list_metadata(client, &resource, None, &parameters).await;
            match objects {
                Ok(objects) => Ok(objects.iter().map(ResourceExt::name_any).collect::<Vec<_>>()),
                Err(error) => {
                    Err(format!("unable to list {}: {}", resource.plural, describe(&error)))
                }
            }
        };
        let nodes = list(ApiResource::erase::<Node>(&())).await;
        let pods = list(ApiResource::erase::<Pod>(&())).await;
        let failures =
            [&nodes, &pods].into_iter().filter_map(|names| names.as_ref().err().cloned());
        Self { failures: failures.collect(), nodes: nodes.ok(), pods: pods.ok() }
    }
}

/// The objects in the result of a query.
struct ResultObjects {
    count: usize,
    /// The name of one object.
    example: String,
}

/// A query of `resourceRules` for all objects, and the labels that its result must have.
struct UsageQuery {
    /// The field in `resourceRules`, such as `cpu.nodeQuery`.
    field: String,
    query: String,
    /// The label with the object's name.
    name_label: String,
    labels: Vec<String>,
}

/// The query for one of [`USAGES`], of pods or of nodes. An error has the field and the problem.
fn usage_query(
    metrics: &ResourceMetrics,
    source: &PrometheusSource,
    (usage, name): (UsageResource, &str),
    for_pods: bool,
) -> Result<UsageQuery, (String, String)> {
    let resources = source.resources();
    let resource = if for_pods { GroupResource::pods() } else { GroupResource::nodes() };
    let field = format!("{name}.{}", if for_pods { "containerQuery" } else { "nodeQuery" });
    let name_label = metrics.label(usage, &resource, &resources);
    let name_label = name_label.map_err(|error| (field.clone(), error.to_string()))?;
    let mut labels = vec![name_label.clone()];
    if for_pods {
        labels.push(metrics.container_label(usage).to_owned());
    }
    let query = metrics.query_of_all(usage, &resource, &resources, Compat::Off);
    let query = query.map_err(|error| {
        let mistake = error.template_mistake();
        (field.clone(), mistake.unwrap_or_else(|| error.to_string()))
    })?;
    Ok(UsageQuery { field, query, name_label, labels })
}

/// The findings about the queries of `resourceRules`.
#[derive(Default)]
pub(super) struct UsageFindings {
    /// A line for each query that works or got no answer.
    pub(super) lines: Vec<String>,
    pub(super) problems: Vec<String>,
    /// The reasons why the server didn't answer queries.
    pub(super) failures: Vec<String>,
}

/// Checks the queries of `resourceRules`.
pub(super) async fn check_queries(
    config: &Config,
    servers: &RuleServers<'_>,
    objects: &ClusterObjects,
) -> UsageFindings {
    let (mut findings, source) = (UsageFindings::default(), servers.source);
    let rules = RuleSet::compile(config, &source.resources());
    let (Some(Ok(metrics)), Some(definition)) = (rules.resource, &config.resource_rules) else {
        return findings;
    };
    let server = servers.server(&definition.server);
    for (for_pods, cluster_names) in [(true, &objects.pods), (false, &objects.nodes)] {
        for usage in USAGES {
            let query = match usage_query(&metrics, source, usage, for_pods) {
                Ok(query) => query,
                Err((field, problem)) => {
                    findings.problems.push(format!("{field}: {problem}"));
                    continue;
                }
            };
            let field = &query.field;
            let results = server.result_labels(&query.query).await;
            let checked = results.and_then(|results| {
                check_results(&results, &query, cluster_names.as_deref(), for_pods)
            });
            match checked {
                Ok(ResultObjects { count, example }) => {
                    let kind = if for_pods { "pods" } else { "nodes" };
                    findings.lines.push(format!("{field}: {kind}: {count}, such as {example}"));
                }
                Err(QueryProblem::Mistake(text)) => {
                    findings.problems.push(format!("{field}: {text}"));
                }
                Err(QueryProblem::Unanswered(failure)) => {
                    findings.lines.push(format!("{field}: {UNCHECKED}"));
                    findings.failures.push(failure);
                }
            }
        }
    }
    findings
}

/// Checks the labels in the result of a query. At least one of the objects must be in
/// `cluster_names`, if these are known.
fn check_results(
    results: &[Labels],
    query: &UsageQuery,
    cluster_names: Option<&[String]>,
    for_pods: bool,
) -> Result<ResultObjects, QueryProblem> {
    let UsageQuery { query, name_label, labels, .. } = query;
    let mistake = |text| Err(QueryProblem::Mistake(text));
    if results.is_empty() {
        return mistake(format!("no result: check names and labels in `{}`", on_one_line(query)));
    }
    // A result for a whole pod has no label for the container.
    let is_missing = |label: &&String| results.iter().all(|labels| !labels.contains_key(*label));
    if let Some(missing) = labels.iter().find(is_missing) {
        return mistake(format!(
            "the result has no label `{missing}`: group by (<<.GroupBy>>), and check \
             resources.overrides and containerLabel"
        ));
    }
    let mut names: Vec<&str> =
        results.iter().filter_map(|labels| labels.get(name_label)).map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let (kind, example) = (if for_pods { "pods" } else { "nodes" }, names.first().unwrap_or(&""));
    let has_match = |cluster_names: &[String]| {
        names.iter().any(|name| cluster_names.iter().any(|cluster_name| cluster_name == name))
    };
    match cluster_names {
        Some(cluster_names) if !has_match(cluster_names) => {
            let actual = cluster_names.first().map_or("", String::as_str);
            return mistake(format!(
                "`{name_label}` is {example}, but the {kind} of the cluster have names \
                 such as {actual}: map the label that has the names, or add one by relabeling"
            ));
        }
        None if !for_pods && example.contains(':') => {
            return mistake(format!(
                "`{name_label}` is {example}, an address and not the name of a node: map \
                 the label that has the name, or add one by relabeling"
            ));
        }
        _ => {}
    }
    Ok(ResultObjects { count: names.len(), example: (*example).to_owned() })
}

/// Explains `pods/cpu`, `pods/memory`, `nodes/cpu` or `nodes/memory`. Returns the explanation and
/// the outcome.
pub(super) async fn explain_metric(
    config: &Config,
    servers: &RuleServers<'_>,
    metric: &str,
) -> anyhow::Result<(String, ExplainOutcome)> {
    let source = servers.source;
    let (kind, usage) = metric.split_once('/').unwrap_or_default();
    let usage = USAGES.into_iter().find(|(_, name)| *name == usage);
    let (Some(usage), "pods" | "nodes") = (usage, kind) else {
        bail!("{metric} must be pods/cpu, pods/memory, nodes/cpu or nodes/memory");
    };
    let no_value = |reason: &str| format!("{metric} has no value: {reason}\n");
    let none = ExplainOutcome::NoValue;
    let rules = RuleSet::compile(config, &source.resources());
    let (Some(metrics), Some(definition)) = (rules.resource, &config.resource_rules) else {
        return Ok((no_value("the file has no resourceRules"), none));
    };
    let metrics = match metrics {
        Ok(metrics) => metrics,
        Err(error) => {
            let headline =
                no_value(&format!("resourceRules are refused: {error}: {}", error.mistake()));
            return Ok((format!("{headline}{}\n", error.describe()), none));
        }
    };
    let server = servers.server(&definition.server);
    let query = match usage_query(&metrics, source, usage, kind == "pods") {
        Ok(query) => query,
        Err((field, problem)) => {
            let reason = format!("resourceRules.{field} has no query: {problem}");
            return Ok((no_value(&reason), none));
        }
    };
    let UsageQuery { field, query: text, .. } = &query;
    let (results, checked) = match server.result_labels(text).await {
        Ok(results) => {
            let checked = check_results(&results, &query, None, kind == "pods");
            (results, checked)
        }
        Err(problem) => (Vec::new(), Err(problem)),
    };
    let (mut report, outcome) = match checked {
        Ok(ResultObjects { count, .. }) => {
            let objects = counted(count, kind.trim_end_matches('s'));
            let headline = format!("{metric} has values of {objects}, by resourceRules.{field}\n");
            (headline, ExplainOutcome::HasValue)
        }
        Err(QueryProblem::Mistake(text)) => {
            (no_value(&format!("resourceRules.{field}: {text}")), none)
        }
        Err(QueryProblem::Unanswered(failure)) => {
            (format!("{}\n", unknown_value(metric, &failure)), ExplainOutcome::Unknown)
        }
    };
    // Writing to a string can't fail.
    let _ = writeln!(report, "resourceRules.{field}: {}", on_one_line(text));
    for labels in results.iter().take(MAX_RESULTS) {
        let _ = writeln!(report, "  {labels:?}");
    }
    Ok((report, outcome))
}
