//! The metrics of `metrics.k8s.io`: CPU and memory of pods and nodes.

use std::{collections::BTreeMap, time::Duration};

use hpa_calc::{MilliValue, Selector, api::ResourceName, go_text::Quoted};
use jiff::SignedDuration;

use crate::rules::{
    Compat,
    config::{ResourceRule, ResourceRules},
    labels::{MappingError, ResourceLabels},
    per_object::NotPerObject,
    query::{ObjectQuery, QueriedObjects, QueryContext, QueryTemplate},
    results::Sample,
    value::{timestamp, usage_value},
};
use hpa_go_compat::template::TemplateError;
use hpa_metrics::{
    ObjectMetadata,
    resource::{ApiResources, GroupResource},
    values::NoValue,
    wire::{ContainerMetrics, NodeMetrics, PodMetrics},
};

/// An invalid rule of `resourceRules`, with prometheus-adapter's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to construct querier for {resource} metrics: {source}")]
pub struct ResourceRuleError {
    pub resource: UsageResource,
    pub source: ResourceRuleProblem,
}

/// The problem of a rule of `resourceRules`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceRuleProblem {
    /// The mapping of labels is invalid.
    #[error("unable to construct label-resource converter: {0}")]
    Mapping(#[source] MappingError),
    /// `containerQuery` or `nodeQuery` is invalid.
    #[error(
        "unable to construct {objects} metrics query: unable to parse metrics query template {}: \
         {source}",
        Quoted(template)
    )]
    Query {
        /// `container` or `node`.
        objects: &'static str,
        template: String,
        source: TemplateError,
    },
}

impl ResourceRuleError {
    /// The path of the invalid field, relative to `resourceRules`.
    pub fn field(&self) -> String {
        let field = match &self.source {
            ResourceRuleProblem::Mapping(error) => error.field(),
            ResourceRuleProblem::Query { objects, .. } => format!("{objects}Query"),
        };
        format!("{}.{field}", self.resource.name())
    }
}

/// The resource whose usage a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageResource {
    /// CPU usage in cores.
    Cpu,
    /// Memory usage in bytes.
    Memory,
}

impl UsageResource {
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Memory];

    /// The name in `resourceRules` and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

impl std::fmt::Display for UsageResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Memory => "memory",
        })
    }
}

/// The compiled `resourceRules`.
#[derive(Debug)]
pub struct ResourceMetrics {
    cpu: UsageRule,
    memory: UsageRule,
    window: Duration,
}

/// The compiled rule of one resource.
#[derive(Debug)]
pub struct UsageRule {
    /// The labels with the names of pods, nodes and namespaces.
    pub labels: ResourceLabels,
    container_query: QueryTemplate,
    node_query: QueryTemplate,
    /// The label with the name of a container in the result of a query.
    pub container_label: String,
}

impl ResourceMetrics {
    /// Compiles the rules.
    pub fn new(rules: &ResourceRules, resources: &ApiResources) -> Result<Self, ResourceRuleError> {
        let compile = |rule, resource| {
            UsageRule::new(rule, resources).map_err(|source| ResourceRuleError { resource, source })
        };
        Ok(Self {
            cpu: compile(&rules.cpu, UsageResource::Cpu)?,
            memory: compile(&rules.memory, UsageResource::Memory)?,
            window: rules.window,
        })
    }

    /// The window of the reported values.
    pub fn window(&self) -> SignedDuration {
        SignedDuration::try_from(self.window).unwrap_or(SignedDuration::MAX)
    }

    pub fn rule(&self, measured: UsageResource) -> &UsageRule {
        match measured {
            UsageResource::Cpu => &self.cpu,
            UsageResource::Memory => &self.memory,
        }
    }

    /// Checks that queries for several pods or nodes return the same result for each of them as a
    /// query for that pod or node alone. Ignores `objects.names`.
    pub fn check_per_object(
        &self,
        objects: QueriedObjects<'_>,
        resources: &ApiResources,
    ) -> Result<(), NotPerObject> {
        [&self.cpu, &self.memory].into_iter().try_for_each(|rule| {
            rule.query(objects, resources, Compat::Off).render_for_all_if_per_object().map(drop)
        })
    }
}

impl UsageRule {
    fn new(rule: &ResourceRule, resources: &ApiResources) -> Result<Self, ResourceRuleProblem> {
        let labels = ResourceLabels::new(&rule.resources, resources)
            .map_err(ResourceRuleProblem::Mapping)?;
        let compile = |objects, text: &str| {
            let error = |source| {
                let template = text.to_owned();
                ResourceRuleProblem::Query { objects, template, source }
            };
            QueryTemplate::new(text).map_err(error)
        };
        Ok(Self {
            labels,
            container_query: compile("container", &rule.container_query)?,
            node_query: compile("node", &rule.node_query)?,
            container_label: rule.container_label.clone(),
        })
    }

    /// The query for the containers of pods, or for nodes.
    pub fn query<'a>(
        &'a self,
        objects: QueriedObjects<'a>,
        resources: &'a ApiResources,
        compat: Compat,
    ) -> ObjectQuery<'a> {
        static NO_SELECTOR: Selector = Selector::everything();
        let (template, extra_label) = if *objects.resource == GroupResource::pods() {
            (&self.container_query, Some(self.container_label.as_str()))
        } else {
            (&self.node_query, None)
        };
        let context = QueryContext { labels: &self.labels, resources, compat };
        let (series, selector) = ("", &NO_SELECTOR);
        ObjectQuery { template, series, objects, selector, extra_label, context }
    }
}

/// CPU in milli-cores and memory in milli-bytes.
type CpuAndMemory = [MilliValue; 2];

/// The usage of a pod from the samples with its name. `None` if there are no samples of CPU or none
/// of memory. As in prometheus-adapter, a container with a sample of only one resource uses zero of
/// the other.
pub fn pod_usage(
    rules: &ResourceMetrics,
    pod: &ObjectMetadata,
    cpu: &[&Sample],
    memory: &[&Sample],
    compat: Compat,
) -> Result<Option<PodMetrics>, NoValue> {
    let timestamps = cpu.iter().chain(memory).map(|sample| sample.timestamp_ms);
    let Some(timestamp_ms) = timestamps.min().filter(|_| !cpu.is_empty() && !memory.is_empty())
    else {
        return Ok(None);
    };
    let mut containers: BTreeMap<&str, CpuAndMemory> = BTreeMap::new();
    for sample in cpu {
        let [cpu, _] = containers.entry(container_name(sample, &rules.cpu)).or_default();
        *cpu = usage_value(sample.value, compat)?;
    }
    for sample in memory {
        let [_, memory] = containers.entry(container_name(sample, &rules.memory)).or_default();
        *memory = usage_value(sample.value, compat)?;
    }
    let containers = containers
        .into_iter()
        .map(|(name, values)| ContainerMetrics { name: name.into(), usage: to_usage(values) });
    Ok(Some(PodMetrics {
        metadata: pod.item_meta(),
        timestamp: timestamp(timestamp_ms),
        window: rules.window(),
        containers: containers.collect(),
    }))
}

fn container_name<'s>(sample: &'s Sample, rule: &UsageRule) -> &'s str {
    sample.labels.get(&rule.container_label).map_or("", String::as_str)
}

fn to_usage([cpu, memory]: CpuAndMemory) -> hpa_metrics::wire::Usage {
    [(ResourceName::Cpu, cpu), (ResourceName::Memory, memory)].into_iter().collect()
}

/// The usage of a node from its first sample of CPU and of memory. `None` if one is missing.
pub fn node_usage(
    rules: &ResourceMetrics,
    node: &ObjectMetadata,
    cpu: &[&Sample],
    memory: &[&Sample],
    compat: Compat,
) -> Result<Option<NodeMetrics>, NoValue> {
    let (Some(cpu), Some(memory)) = (cpu.first(), memory.first()) else {
        return Ok(None);
    };
    let values = [usage_value(cpu.value, compat)?, usage_value(memory.value, compat)?];
    Ok(Some(NodeMetrics {
        metadata: node.item_meta(),
        timestamp: timestamp(cpu.timestamp_ms.min(memory.timestamp_ms)),
        window: rules.window(),
        usage: to_usage(values),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Config, RuleSet};
    use hpa_metrics::test_doubles::resources;

    fn rules() -> std::sync::Arc<ResourceMetrics> {
        let config = "
resourceRules:
  cpu: &usage
    containerQuery: sum(c{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    nodeQuery: sum(n<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    containerLabel: container
    resources:
      overrides:
        namespace: {resource: namespace}
        pod: {resource: pod}
        instance: {resource: node}
  memory: *usage
  window: 3m
";
        let rules = RuleSet::compile(&Config::parse(config).unwrap(), &resources());
        rules.resource.unwrap().unwrap()
    }

    fn object() -> ObjectMetadata {
        ObjectMetadata {
            key: hpa_metrics::ObjectKey::new("shop", "web-0"),
            labels: [("app", "web")].into_iter().collect(),
        }
    }

    fn milli_values(usage: &hpa_metrics::wire::Usage) -> [i64; 2] {
        [ResourceName::Cpu, ResourceName::Memory]
            .map(|resource| usage.get(&resource).unwrap().as_milli())
    }

    fn sample(container: &str, timestamp_ms: i64, value: f64) -> Sample {
        let labels = [("container".to_owned(), container.to_owned())].into();
        Sample { labels, timestamp_ms, value }
    }

    #[test]
    fn queries_select_pods_with_containers_and_nodes() {
        let (rules, resources) = (rules(), resources());
        let names = ["a".to_owned(), "b.c".to_owned()];
        let query = |measured, resource: &GroupResource, namespace, names: &[String]| {
            let objects = QueriedObjects { resource, namespace, names };
            rules.rule(measured).query(objects, &resources, Compat::Off).render()
        };
        let pods = query(UsageResource::Cpu, &GroupResource::pods(), "shop", &names);
        assert_eq!(pods.unwrap(), r#"sum(c{namespace="shop",pod=~"a|b[.]c"}) by (pod,container)"#);
        let nodes = query(UsageResource::Memory, &GroupResource::nodes(), "", &names[..1]);
        assert_eq!(nodes.unwrap(), r#"sum(n{instance="a"}) by (instance)"#);
        assert_eq!(rules.window().as_secs(), 180);
    }

    #[test]
    fn pod_has_the_usage_of_its_containers_and_the_earliest_time() {
        let cpu = [&sample("app", 2000, 0.25), &sample("proxy", 3000, f64::from(-1))];
        let memory = [&sample("app", 1000, 2048.0)];
        let usage = pod_usage(&rules(), &object(), &cpu, &memory, Compat::Off).unwrap().unwrap();
        assert_eq!(usage.timestamp.as_second(), 1);
        assert_eq!((usage.window.as_secs(), &*usage.metadata.name), (180, "web-0"));
        assert_eq!(usage.metadata.labels.pairs().collect::<Vec<_>>(), [("app", "web")]);
        let containers: Vec<_> = usage
            .containers
            .iter()
            .map(|container| (&*container.name, milli_values(&container.usage)))
            .collect();
        assert_eq!(containers, [("app", [250, 2_048_000]), ("proxy", [0, 0])]);
    }

    #[test]
    fn usage_needs_samples_of_cpu_and_memory() {
        let one = [&sample("app", 0, 1.0)];
        assert_eq!(pod_usage(&rules(), &object(), &one, &[], Compat::Off), Ok(None));
        assert_eq!(pod_usage(&rules(), &object(), &[], &one, Compat::Off), Ok(None));
        assert_eq!(node_usage(&rules(), &object(), &one, &[], Compat::Off), Ok(None));
    }

    #[test]
    fn node_usage_is_that_of_the_first_samples() {
        let (first, second) = (sample("", 2000, 1.5), sample("", 1000, 9.0));
        let (cpu, memory) = ([&first, &second], [&second]);
        let usage = node_usage(&rules(), &object(), &cpu, &memory, Compat::Off).unwrap().unwrap();
        assert_eq!((usage.timestamp.as_second(), milli_values(&usage.usage)), (1, [1500, 9000]));
    }

    #[test]
    fn sample_without_a_value_is_an_error_without_compatibility() {
        let (nan, one) = (sample("app", 0, f64::NAN), sample("app", 0, 1.0));
        let usage = |compat| pod_usage(&rules(), &object(), &[&nan], &[&one], compat);
        assert_eq!(usage(Compat::Off), Err(NoValue::NotANumber));
        let usage = usage(Compat::Reference).unwrap().unwrap();
        assert_eq!(milli_values(&usage.containers[0].usage)[0], 0);
    }

    #[test]
    fn errors_have_the_text_of_prometheus_adapter() {
        let config = Config::parse("resourceRules: {cpu: {nodeQuery: '<<.X'}}").unwrap();
        let rules = RuleSet::compile(&config, &resources());
        let error = rules.first_error().unwrap();
        assert_eq!(error.path, "resourceRules.cpu.nodeQuery");
        assert_eq!(
            error.problem.to_string(),
            "unable to construct querier for CPU metrics: unable to construct node metrics query: \
             unable to parse metrics query template \"<<.X\": template: metrics-query:1: unclosed \
             action"
        );
    }
}
