//! Checks and explains `resourceRules`, which provide `kubectl top` and metrics of type `Resource`.

use std::{collections::BTreeSet, fmt::Write};

use anyhow::bail;
use hpa_calc::explain::{counted, list_first};
use hpa_metrics::{describe, resource::GroupResource, stored_object::list_metadata};
use hpa_prometheus::{
    promql::{self, Selector},
    rules::{
        Compat, Config, RuleSet,
        query::{QueriedObjects, with_single_spaces},
        resource_metrics::{ResourceMetrics, UsageResource},
    },
    source::PrometheusSource,
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{ResourceExt, api::ListParams, core::ApiResource};

use super::{
    outcome::{Outcome, QueryProblem, unknown_value},
    series::Labels,
    servers::{PrometheusServer, RuleServers},
};

/// The number of objects in a page of a list. The client may reduce it.
const PAGE_SIZE: u32 = 500;
/// At most this many pages of the cluster's objects of a kind are compared with the results.
const MAX_PAGES: usize = 200;
/// The maximum number of printed results.
const MAX_RESULTS: usize = 10;

/// The names of the cluster's objects.
#[derive(Default)]
pub(super) struct ClusterObjects {
    /// `None` without a cluster, and if they can't be listed.
    nodes: Option<ObjectNames>,
    /// `None` without a cluster, and if they can't be listed.
    pods: Option<ObjectNames>,
    /// The kinds of objects that can't be listed, with the reasons.
    pub(super) failures: Vec<String>,
}

/// The names of the cluster's objects of a kind.
struct ObjectNames {
    names: Vec<String>,
    /// Whether these are the names of all objects, and not only of the first pages.
    is_complete: bool,
}

impl ClusterObjects {
    pub(super) async fn list(client: &kube::Client) -> Self {
        let list = async |resource: ApiResource| {
            let names = list_names(client, &resource).await;
            names.map_err(|error| {
                format!("{} not compared: {}", resource.plural, list_failure(&error))
            })
        };
        let nodes = list(ApiResource::erase::<Node>(&())).await;
        let pods = list(ApiResource::erase::<Pod>(&())).await;
        let failures =
            [&nodes, &pods].into_iter().filter_map(|names| names.as_ref().err().cloned());
        Self { failures: failures.collect(), nodes: nodes.ok(), pods: pods.ok() }
    }
}

/// Lists the names of all objects of a kind, or of those in the first pages.
async fn list_names(client: &kube::Client, resource: &ApiResource) -> kube::Result<ObjectNames> {
    let mut parameters = ListParams::default().limit(PAGE_SIZE);
    let mut names = Vec::new();
    for _ in 0..MAX_PAGES {
        let page = list_metadata(client, resource, None, &parameters).await?;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => parameters = parameters.continue_token(&token),
            _ => return Ok(ObjectNames { names, is_complete: true }),
        }
    }
    Ok(ObjectNames { names, is_complete: false })
}

/// The error of a list, without the reason of the API server's status, which repeats its message in
/// a word.
fn list_failure(error: &kube::Error) -> String {
    let text = describe(error);
    let kube::Error::Api(status) = error else { return text };
    let reason = format!(": {}", status.reason);
    text.strip_suffix(reason.as_str()).unwrap_or(text.as_str()).to_owned()
}

/// The objects in the result of a query.
pub(super) struct ResultObjects {
    pub(super) count: usize,
    /// The name of one object.
    pub(super) example: String,
    /// The number of names that were read from the cluster if the list is incomplete and none of
    /// its names is in the result.
    pub(super) unmatched_count: Option<usize>,
}

/// A query of `resourceRules` for all objects, and the labels that its result must have.
struct UsageQuery {
    query: String,
    /// The label with the object's name.
    name_label: String,
    labels: Vec<String>,
}

/// The resources whose usage `resourceRules` provide.
pub(super) fn measured_resources() -> [GroupResource; 2] {
    [GroupResource::pods(), GroupResource::nodes()]
}

/// The field in `resourceRules` that has the query for the usage of pods or of nodes.
pub(super) fn query_field(usage: UsageResource, resource: &GroupResource) -> String {
    let for_pods = *resource == GroupResource::pods();
    let query = if for_pods { "containerQuery" } else { "nodeQuery" };
    format!("{}.{query}", usage.name())
}

/// The query for the usage of pods or of nodes.
fn usage_query(
    metrics: &ResourceMetrics,
    source: &PrometheusSource,
    usage: UsageResource,
    resource: &GroupResource,
    namespace: &str,
) -> Result<UsageQuery, String> {
    let (rule, resources) = (metrics.rule(usage), source.resources());
    let name_label = rule.labels.label(resource, &resources);
    let name_label = name_label.map_err(|error| error.to_string())?;
    let mut labels = vec![name_label.clone()];
    if *resource == GroupResource::pods() {
        labels.push(rule.container_label.clone());
    }
    let objects = QueriedObjects { resource, namespace, names: &[] };
    let query = rule.query(objects, &resources, Compat::Off).render_for_all();
    let query =
        query.map_err(|error| error.template_mistake().unwrap_or_else(|| error.to_string()))?;
    Ok(UsageQuery { query, name_label, labels })
}

/// Checks the query for the usage of pods or of nodes.
pub(super) async fn check_query(
    metrics: &ResourceMetrics,
    server: PrometheusServer<'_>,
    usage: UsageResource,
    resource: &GroupResource,
    objects: &ClusterObjects,
) -> Result<ResultObjects, QueryProblem> {
    let query = usage_query(metrics, server.servers.source, usage, resource, "");
    let query = query.map_err(QueryProblem::Mistake)?;
    let results = server.samples(&query.query).await?;
    if results.is_empty() {
        let problem = match short_range_problem(server, &query.query).await {
            Some(problem) => Some(problem),
            None => missing_samples_problem(server, &query.query).await?,
        };
        if let Some(problem) = problem {
            return Err(problem);
        }
    }
    let for_pods = *resource == GroupResource::pods();
    let names = if for_pods { &objects.pods } else { &objects.nodes };
    check_results(&results, &query, names.as_ref(), resource)
}

/// The problem of a query without a result whose range is too short.
async fn short_range_problem(server: PrometheusServer<'_>, query: &str) -> Option<QueryProblem> {
    let reason = server.explain_short_range(query).await?;
    Some(QueryProblem::Mistake(format!("no result: {reason}")))
}

/// The problem of a query without a result if the series of its first selector have no current
/// sample. `None` if they have one, or had none within the last day.
async fn missing_samples_problem(
    server: PrometheusServer<'_>,
    query: &str,
) -> Result<Option<QueryProblem>, QueryProblem> {
    let selectors = promql::parse(query).map(|expr| expr.selectors()).unwrap_or_default();
    let Some(Selector { name, matchers, .. }) = selectors.first() else { return Ok(None) };
    let matchers: Vec<_> = matchers.iter().map(|matcher| matcher.source).collect();
    let selector = format!("{name}{{{}}}", matchers.join(","));
    let reason = server.explain_missing_samples(name, &selector).await?;
    Ok(reason.map(|reason| QueryProblem::Mistake(format!("no result: {reason}"))))
}

/// Checks the labels in the result of a query. If `cluster_names` is complete, at least one of its
/// names must be in the result.
fn check_results(
    results: &[(Labels, f64)],
    query: &UsageQuery,
    cluster_names: Option<&ObjectNames>,
    resource: &GroupResource,
) -> Result<ResultObjects, QueryProblem> {
    let UsageQuery { query, name_label, labels } = query;
    let mistake = |text| Err(QueryProblem::Mistake(text));
    if results.is_empty() {
        let query = with_single_spaces(query);
        return mistake(format!("no result: check names and labels in `{query}`"));
    }
    // A result for a whole pod has no label for the container.
    let is_missing =
        |label: &&String| results.iter().all(|(labels, _)| !labels.contains_key(*label));
    if let Some(missing) = labels.iter().find(is_missing) {
        return mistake(format!(
            "the result has no label `{missing}`: group by (<<.GroupBy>>), and check \
             resources.overrides and containerLabel"
        ));
    }
    let names = results.iter().filter_map(|(labels, _)| labels.get(name_label));
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let example = names.first().unwrap_or(&"");
    let has_match = |known: &&ObjectNames| {
        known.names.iter().any(|name| names.binary_search(&name.as_str()).is_ok())
    };
    let unmatched = cluster_names.filter(|known| !has_match(known));
    if let Some(ObjectNames { names, is_complete: true }) = unmatched {
        let actual = names.first().map_or("", String::as_str);
        return mistake(format!(
            "`{name_label}` is {example}, but the {resource} of the cluster have names such as \
             {actual}: map the label that has the names, or add one by relabeling"
        ));
    }
    let is_of_nodes = *resource == GroupResource::nodes();
    if cluster_names.is_none() && is_of_nodes && example.contains(':') {
        return mistake(format!(
            "`{name_label}` is {example}, an address and not the name of a node: map the label \
             that has the name, or add one by relabeling"
        ));
    }
    let unmatched_count = unmatched.map(|known| known.names.len());
    Ok(ResultObjects { count: names.len(), example: (*example).to_owned(), unmatched_count })
}

/// The objects whose usage is explained.
#[derive(Clone, Copy)]
pub(super) struct UsageScope<'a> {
    /// Empty for the objects of all namespaces.
    pub(super) namespace: &'a str,
    /// Empty for all objects.
    pub(super) names: &'a [String],
}

impl UsageScope<'_> {
    /// Removes the results of objects with other names. Returns the number of the objects that are
    /// left, with the scope. If there are none, removes nothing and fails. `all` are the objects of
    /// the results, and `object` is the name of one in messages.
    fn select(
        self,
        object: &str,
        all: &ResultObjects,
        results: &mut Vec<(Labels, f64)>,
        name_label: &str,
    ) -> Result<String, QueryProblem> {
        let (named, of_namespace) = (self.named(), self.of_namespace());
        let is_in_scope = |(labels, _): &(Labels, f64)| {
            let name = labels.get(name_label);
            self.names.is_empty() || name.is_some_and(|name| self.names.contains(name))
        };
        let in_scope = results.iter().filter(|result| is_in_scope(result));
        let found = in_scope.filter_map(|(labels, _)| labels.get(name_label));
        let count = found.collect::<BTreeSet<_>>().len();
        if count == 0 {
            let all = counted(all.count, object);
            let text = format!("it has values of {all}{of_namespace}, none{named}");
            return Err(QueryProblem::Mistake(text));
        }
        results.retain(is_in_scope);
        Ok(counted(count, object) + &named + &of_namespace)
    }

    /// The end of a sentence about objects, such as " of the namespace shop". Empty for those of
    /// all namespaces.
    fn of_namespace(self) -> String {
        match self.namespace {
            "" => String::new(),
            namespace => format!(" of the namespace {namespace}"),
        }
    }

    /// The names, such as " named web-0". Empty for all names.
    fn named(self) -> String {
        match self.names {
            [] => String::new(),
            names => format!(" named {}", list_first(names, MAX_RESULTS, ", ")),
        }
    }
}

/// Reads the results of a query, and checks them.
async fn read_results(
    server: PrometheusServer<'_>,
    query: &UsageQuery,
    scope: UsageScope<'_>,
    resource: &GroupResource,
) -> (Vec<(Labels, f64)>, Result<ResultObjects, QueryProblem>) {
    let results = match server.samples(&query.query).await {
        Ok(results) => results,
        Err(problem) => return (Vec::new(), Err(problem)),
    };
    let checked = if results.is_empty()
        && let Some(problem) = short_range_problem(server, &query.query).await
    {
        Err(problem)
    } else if results.is_empty() && !scope.namespace.is_empty() {
        Err(QueryProblem::Mistake(format!("no result{}", scope.of_namespace())))
    } else {
        check_results(&results, query, None, resource)
    };
    (results, checked)
}

/// Explains `pods/cpu`, `pods/memory`, `nodes/cpu` or `nodes/memory`. Returns the explanation and
/// the outcome.
pub(super) async fn explain_metric(
    config: &Config,
    servers: &RuleServers<'_>,
    metric: &str,
    scope: UsageScope<'_>,
) -> anyhow::Result<(String, Outcome)> {
    let source = servers.source;
    let (resource, usage) = metric.split_once('/').unwrap_or_default();
    let resource = measured_resources().into_iter().find(|one| one.resource == resource);
    let usage = UsageResource::ALL.into_iter().find(|one| one.name() == usage);
    let (Some(resource), Some(usage)) = (resource, usage) else {
        bail!("{metric} must be pods/cpu, pods/memory, nodes/cpu or nodes/memory");
    };
    if resource == GroupResource::nodes() && !scope.namespace.is_empty() {
        bail!("nodes have no namespace: remove --namespace");
    }
    let rules = RuleSet::compile(config, &source.resources());
    let (Some(metrics), Some(definition)) = (rules.resource, &config.resource_rules) else {
        let headline = no_value(metric, "the file has no resourceRules");
        return Ok((headline + "\n", Outcome::Failure));
    };
    let metrics = match metrics {
        Ok(metrics) => metrics,
        Err(error) => {
            let reason = format!("resourceRules are refused: {error}: {}", error.mistake());
            let headline = no_value(metric, &reason);
            return Ok((format!("{headline}\n{}\n", error.describe()), Outcome::Failure));
        }
    };
    let server = servers.server(&definition.server);
    let field = query_field(usage, &resource);
    let query = match usage_query(&metrics, source, usage, &resource, scope.namespace) {
        Ok(query) => query,
        Err(problem) => {
            let reason = format!("resourceRules.{field} has no query: {problem}");
            return Ok((no_value(metric, &reason) + "\n", Outcome::Failure));
        }
    };
    let (mut results, checked) = read_results(server, &query, scope, &resource).await;
    let object = resource.resource.trim_end_matches('s');
    let selected =
        checked.and_then(|all| scope.select(object, &all, &mut results, &query.name_label));
    let (headline, outcome) = headline(metric, &field, definition.missing_rule(), selected);
    let query = with_single_spaces(&query.query);
    let mut report = format!("{headline}\nresourceRules.{field}: {query}\n");
    // Writing to a string can't fail.
    for (labels, value) in results.iter().take(MAX_RESULTS) {
        let _ = writeln!(report, "  {labels:?} = {value}");
    }
    Ok((report, outcome))
}

/// The first line and the outcome. `selected` describes the objects that have values.
fn headline(
    metric: &str,
    field: &str,
    missing_rule: Option<&str>,
    selected: Result<String, QueryProblem>,
) -> (String, Outcome) {
    match selected {
        Ok(objects) => {
            let values = format!("{metric} has values of {objects}, by resourceRules.{field}");
            let Some(path) = missing_rule else { return (values, Outcome::Success) };
            let unserved = format!("but metrics.k8s.io doesn't serve them: {path} is missing");
            (format!("{values}, {unserved}"), Outcome::Failure)
        }
        Err(QueryProblem::Mistake(text)) => {
            (no_value(metric, &format!("resourceRules.{field}: {text}")), Outcome::Failure)
        }
        Err(QueryProblem::Unanswered(failure)) => {
            (unknown_value(metric, &failure), Outcome::Inconclusive)
        }
    }
}

fn no_value(metric: &str, reason: &str) -> String {
    format!("{metric} has no value: {reason}")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn list_with_too_many_pages_is_incomplete() {
        let mut page_count = 0;
        let service = tower::service_fn(move |_: Request<Body>| {
            page_count += 1;
            let pod = json!({ "metadata": { "name": format!("web-{page_count}") } });
            let list = json!({ "metadata": { "continue": "c" }, "items": [pod] }).to_string();
            async move { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
        });
        let client = kube::Client::new(service, "default");
        let listed = list_names(&client, &ApiResource::erase::<Pod>(&())).await.unwrap();
        assert_eq!((listed.names.len(), listed.is_complete), (MAX_PAGES, false));
    }

    #[test]
    fn only_a_complete_list_proves_a_mismatch() {
        let query = UsageQuery {
            query: "m".to_owned(),
            name_label: "pod".to_owned(),
            labels: vec!["pod".to_owned()],
        };
        let labels: Labels = [("pod".to_owned(), "web-0".to_owned())].into();
        let results = [(labels, 1.0)];
        let check = |name: &str, is_complete| {
            let listed = ObjectNames { names: vec![name.to_owned()], is_complete };
            check_results(&results, &query, Some(&listed), &GroupResource::pods())
                .map(|objects| objects.unmatched_count)
        };
        assert!(matches!(check("w1-0", true), Err(QueryProblem::Mistake(_))));
        assert_eq!(check("w1-0", false), Ok(Some(1)));
        assert_eq!(check("web-0", false), Ok(None));
        assert_eq!(check("web-0", true), Ok(None));
    }
}
