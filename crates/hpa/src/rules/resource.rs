//! Checks and explains `resourceRules`, which provide `kubectl top` and metrics of type `Resource`.

use std::fmt::Write;

use anyhow::{Context, bail};
use hpa_calc::explain::counted;
use hpa_metrics::resource::GroupResource;
use hpa_prometheus::{
    rules::{
        Compat, Config, RuleSet,
        query::on_one_line,
        resource_metrics::{ResourceMetrics, UsageResource},
    },
    source::PrometheusSource,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams};

use super::sample::PrometheusServer;

/// The maximum number of the cluster's objects of a kind that are compared with the results.
const MAX_OBJECTS: u32 = 500;
/// The maximum number of printed results.
const MAX_RESULTS: usize = 10;

/// The resources of `resourceRules`, with their names in metrics.
const USAGES: [(UsageResource, &str); 2] =
    [(UsageResource::Cpu, "cpu"), (UsageResource::Memory, "memory")];

/// The names of the cluster's objects. `None` without a cluster.
#[derive(Default)]
pub(super) struct ClusterObjects {
    nodes: Option<Vec<String>>,
    pods: Option<Vec<String>>,
}

impl ClusterObjects {
    pub(super) async fn list(client: kube::Client) -> anyhow::Result<Self> {
        let parameters = ListParams::default().limit(MAX_OBJECTS);
        let nodes = Api::<Node>::all(client.clone()).list_metadata(&parameters).await;
        let pods = Api::<Pod>::all(client).list_metadata(&parameters).await;
        let nodes = nodes.context("unable to list nodes")?.items.into_iter();
        let pods = pods.context("unable to list pods")?.items.into_iter();
        Ok(Self {
            nodes: Some(nodes.filter_map(|node| node.metadata.name).collect()),
            pods: Some(pods.filter_map(|pod| pod.metadata.name).collect()),
        })
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

/// Checks the queries of `resourceRules`. Returns a line for each working query, and the problems.
pub(super) async fn check_queries(
    config: &Config,
    source: &PrometheusSource,
    objects: &ClusterObjects,
) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut problems) = (Vec::new(), Vec::new());
    let rules = RuleSet::compile(config, &source.resources());
    let (Some(Ok(metrics)), Some(definition)) = (rules.resource, &config.resource_rules) else {
        return (lines, problems);
    };
    let server = PrometheusServer { source, name: &definition.server };
    for (for_pods, cluster_names) in [(true, &objects.pods), (false, &objects.nodes)] {
        for usage in USAGES {
            let query = match usage_query(&metrics, source, usage, for_pods) {
                Ok(query) => query,
                Err((field, problem)) => {
                    problems.push(format!("{field}: {problem}"));
                    continue;
                }
            };
            let field = &query.field;
            match check_query(&server, &query, cluster_names.as_deref(), for_pods).await {
                Ok(ResultObjects { count, example }) => {
                    let kind = if for_pods { "pods" } else { "nodes" };
                    lines.push(format!("{field}: {kind}: {count}, such as {example}"));
                }
                Err(problem) => problems.push(format!("{field}: {problem}")),
            }
        }
    }
    (lines, problems)
}

/// Runs a query and checks its labels. At least one of the objects must be in `cluster_names`, if
/// these are known.
async fn check_query(
    server: &PrometheusServer<'_>,
    query: &UsageQuery,
    cluster_names: Option<&[String]>,
    for_pods: bool,
) -> Result<ResultObjects, String> {
    let UsageQuery { query, name_label, labels, .. } = query;
    let results = server.result_labels(query).await?;
    if results.is_empty() {
        return Err(format!("no result: check names and labels in `{}`", on_one_line(query)));
    }
    // A result for a whole pod has no label for the container.
    let is_missing = |label: &&String| results.iter().all(|labels| !labels.contains_key(*label));
    if let Some(missing) = labels.iter().find(is_missing) {
        return Err(format!(
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
            return Err(format!(
                "`{name_label}` is {example}, but the {kind} of the cluster have names \
                 such as {actual}: map the label that has the names, or add one by relabeling"
            ));
        }
        None if !for_pods && example.contains(':') => {
            return Err(format!(
                "`{name_label}` is {example}, an address and not the name of a node: map \
                 the label that has the name, or add one by relabeling"
            ));
        }
        _ => {}
    }
    Ok(ResultObjects { count: names.len(), example: (*example).to_owned() })
}

/// Explains `pods/cpu`, `pods/memory`, `nodes/cpu` or `nodes/memory`. Returns the explanation, and
/// whether the metric has values.
pub(super) async fn explain_metric(
    config: &Config,
    source: &PrometheusSource,
    metric: &str,
) -> anyhow::Result<(String, bool)> {
    let (kind, usage) = metric.split_once('/').unwrap_or_default();
    let usage = USAGES.into_iter().find(|(_, name)| *name == usage);
    let (Some(usage), "pods" | "nodes") = (usage, kind) else {
        bail!("{metric} must be pods/cpu, pods/memory, nodes/cpu or nodes/memory");
    };
    let no_value = |reason: &str| format!("{metric} has no value: {reason}\n");
    let rules = RuleSet::compile(config, &source.resources());
    let (Some(metrics), Some(definition)) = (rules.resource, &config.resource_rules) else {
        return Ok((no_value("the file has no resourceRules"), false));
    };
    let metrics = match metrics {
        Ok(metrics) => metrics,
        Err(error) => {
            let headline =
                no_value(&format!("resourceRules are refused: {error}: {}", error.mistake()));
            return Ok((format!("{headline}{}\n", error.describe()), false));
        }
    };
    let server = PrometheusServer { source, name: &definition.server };
    let query = match usage_query(&metrics, source, usage, kind == "pods") {
        Ok(query) => query,
        Err((field, problem)) => {
            let reason = format!("resourceRules.{field} has no query: {problem}");
            return Ok((no_value(&reason), false));
        }
    };
    let UsageQuery { field, query: text, .. } = &query;
    let checked = check_query(&server, &query, None, kind == "pods").await;
    let mut report = match &checked {
        Ok(ResultObjects { count, .. }) => {
            let objects = counted(*count, kind.trim_end_matches('s'));
            format!("{metric} has values of {objects}, by resourceRules.{field}\n")
        }
        Err(problem) => no_value(&format!("resourceRules.{field}: {problem}")),
    };
    // Writing to a string can't fail.
    let _ = writeln!(report, "resourceRules.{field}: {}", on_one_line(text));
    for labels in server.result_labels(text).await.unwrap_or_default().iter().take(MAX_RESULTS) {
        let _ = writeln!(report, "  {labels:?}");
    }
    Ok((report, checked.is_ok()))
}
