//! Resource metrics: the usage of pods and nodes.

use std::collections::{BTreeMap, HashMap};

use crate::client::{Client, InstantQuery, TimeoutParameter};
use crate::rules::{
    Compat,
    config::ResourceRules,
    query::{QueriedObjects, QueryError},
    resource_metrics::{self, ResourceMetrics, UsageResource},
    results::Sample,
};
use futures::{StreamExt, TryStreamExt, future::join_all, stream};
use hpa_metrics::{
    MetricError, NotFound, ObjectKey, ObjectMetadata, UsageList,
    resource::GroupResource,
    values::NoValue,
    wire::{NodeMetrics, PodMetrics},
};

use super::{PrometheusSource, name_lists, read::send_rule_query, state::DiscoveryState};

/// The rules of resource metrics, and the client for their queries.
struct UsageSource<'s> {
    rules: &'s ResourceMetrics,
    client: &'s Client,
}

/// Converts the samples of an object for CPU and for memory to its usage.
type ConvertUsage<T> = fn(
    &ResourceMetrics,
    &ObjectMetadata,
    &[&Sample],
    &[&Sample],
    Compat,
) -> Result<Option<T>, NoValue>;

impl PrometheusSource {
    pub(super) async fn read_pod_usage(
        &self,
        state: &DiscoveryState,
        pods: &[ObjectMetadata],
    ) -> UsageList<PodMetrics> {
        let source = match usage_source(state, self.settings.compat) {
            Ok(source) => source,
            Err(error) => return UsageList { failures: vec![error], ..UsageList::default() },
        };
        let mut by_namespace: BTreeMap<&str, Vec<&ObjectMetadata>> = BTreeMap::new();
        for pod in pods {
            by_namespace.entry(&pod.key.namespace).or_default().push(pod);
        }
        let namespaces = by_namespace.into_iter().map(|(namespace, pods)| {
            let source = &source;
            let (resource, convert) = (GroupResource::pods(), resource_metrics::pod_usage);
            async move {
                let objects = (&resource, namespace);
                (namespace, self.read_usage_of(state, source, objects, &pods, convert).await)
            }
        });
        let mut usage = UsageList::default();
        let mut usage_by_pod: HashMap<ObjectKey, PodMetrics> = HashMap::new();
        for (namespace, result) in join_all(namespaces).await {
            match result {
                Ok(result) => {
                    usage.failures.extend(result.failures);
                    let query = result.query_without_result;
                    usage.query_without_result = usage.query_without_result.or(query);
                    usage_by_pod
                        .extend(result.items.into_iter().map(|item| (item.metadata.key(), item)));
                }
                Err(error) => {
                    tracing::debug!(
                        namespace,
                        error = hpa_metrics::describe(&error),
                        "unable to read the usage of pods"
                    );
                    usage.failures.push(error);
                }
            }
        }
        usage.items = pods.iter().filter_map(|pod| usage_by_pod.remove(&pod.key)).collect();
        usage
    }

    pub(super) async fn read_node_usage(
        &self,
        state: &DiscoveryState,
        nodes: &[ObjectMetadata],
    ) -> UsageList<NodeMetrics> {
        if nodes.is_empty() {
            return UsageList::default();
        }
        let nodes: Vec<&ObjectMetadata> = nodes.iter().collect();
        let usage = async {
            let source = usage_source(state, self.settings.compat)?;
            let (resource, convert) = (GroupResource::nodes(), resource_metrics::node_usage);
            self.read_usage_of(state, &source, (&resource, ""), &nodes, convert).await
        };
        let failed = |error| UsageList { failures: vec![error], ..UsageList::default() };
        usage.await.unwrap_or_else(failed)
    }

    /// Reads the usage of nodes, or of pods of one namespace.
    async fn read_usage_of<T>(
        &self,
        state: &DiscoveryState,
        UsageSource { rules, client }: &UsageSource<'_>,
        (resource, namespace): (&GroupResource, &str),
        objects: &[&ObjectMetadata],
        convert: ConvertUsage<T>,
    ) -> Result<UsageList<T>, MetricError> {
        let names: Vec<String> = objects.iter().map(|object| object.key.name.clone()).collect();
        let compat = self.settings.compat;
        let parts = name_lists::split(&names, compat, || {
            let objects = QueriedObjects { resource, namespace, names: &[] };
            rules.check_per_object(objects, &state.resources).is_ok()
        });
        let queries = |measured| {
            let query = |names: &&[String]| {
                let objects = QueriedObjects { resource, namespace, names };
                rules.rule(measured).query(objects, &state.resources, compat).render()
            };
            let queries: Result<Vec<String>, QueryError> = parts.iter().map(query).collect();
            queries.map_err(MetricError::from_query_build_error)
        };
        let (cpu, memory) = (queries(UsageResource::Cpu)?, queries(UsageResource::Memory)?);
        let (cpu, memory) =
            tokio::join!(self.read_vectors(client, cpu), self.read_vectors(client, memory));
        let (cpu, memory) = (cpu?, memory?);
        let label = |measured| {
            let label = rules.rule(measured).labels.label(resource, &state.resources);
            label.map_err(|error| MetricError::from_query_build_error(QueryError::from(error)))
        };
        let cpu = by_name(&cpu, &label(UsageResource::Cpu)?);
        let memory = by_name(&memory, &label(UsageResource::Memory)?);
        let mut usage = UsageList::default();
        for object in objects {
            let name = object.key.name.as_str();
            let (cpu, memory) = (samples_of(&cpu, name), samples_of(&memory, name));
            match convert(rules, object, cpu, memory, compat) {
                Ok(metrics) => usage.items.extend(metrics),
                Err(reason) => {
                    let reason = NotFound::Other(format!("{name}: {reason}"));
                    usage.failures.push(MetricError::NoValueForObject(reason));
                }
            }
        }
        if usage.items.is_empty() {
            let has_none = |(_, samples): &(UsageResource, &SamplesByName<'_>)| {
                objects.iter().all(|object| samples_of(samples, &object.key.name).is_empty())
            };
            let samples = [(UsageResource::Cpu, &cpu), (UsageResource::Memory, &memory)];
            if let Some((measured, _)) = samples.into_iter().find(has_none) {
                usage.query_without_result = queries(measured)?.into_iter().next();
            }
        }
        Ok(usage)
    }

    /// Sends queries, and joins the samples of their results.
    async fn read_vectors(
        &self,
        client: &Client,
        queries: Vec<String>,
    ) -> Result<Vec<Sample>, MetricError> {
        let read = |query| self.read_vector(client, query);
        stream::iter(queries).map(read).buffered(name_lists::CONCURRENCY).try_concat().await
    }

    async fn read_vector(
        &self,
        client: &Client,
        query: String,
    ) -> Result<Vec<Sample>, MetricError> {
        let timeout = match self.settings.compat {
            Compat::Off => TimeoutParameter::Limit,
            Compat::Reference => TimeoutParameter::Absent,
        };
        let result = send_rule_query(client, &InstantQuery { query, timeout }).await?;
        Ok(result.samples().map_err(MetricError::from_fetch_error)?.to_vec())
    }
}

fn usage_source(state: &DiscoveryState, compat: Compat) -> Result<UsageSource<'_>, MetricError> {
    let unknown = MetricError::UnknownMetric;
    let definition = state.rules.config.resource_rules.as_ref();
    if let (Some(path), Compat::Off) = (definition.and_then(ResourceRules::missing_rule), compat) {
        return Err(unknown(NotFound::Other(format!("{path} is missing"))));
    }
    let rules = match &state.compiled.resource {
        Some(Ok(rules)) => rules,
        Some(Err(error)) => {
            return Err(unknown(NotFound::Other(hpa_metrics::describe(error))));
        }
        None => return Err(unknown(NotFound::NotConfigured)),
    };
    let server = definition.map_or("", |rules| &rules.server);
    let client = state.rules.servers.get(server);
    let client = client.ok_or_else(|| unknown(NotFound::NotConfigured))?;
    Ok(UsageSource { rules, client })
}

type SamplesByName<'s> = HashMap<&'s str, Vec<&'s Sample>>;

fn samples_of<'a, 's>(samples: &'a SamplesByName<'s>, name: &str) -> &'a [&'s Sample] {
    samples.get(name).map(Vec::as_slice).unwrap_or_default()
}

/// Groups samples by the name of the object, which is in `label`.
fn by_name<'s>(samples: &'s [Sample], label: &str) -> SamplesByName<'s> {
    let mut by_name = SamplesByName::new();
    for sample in samples {
        let name = sample.labels.get(label).map_or("", String::as_str);
        by_name.entry(name).or_default().push(sample);
    }
    by_name
}
