//! The queries that read an autoscaler's past.

use hpa_calc::{HorizontalPodAutoscaler, Selector, api::MetricIdentifier, go_text::Quoted};
use hpa_metrics::{CustomQuery, ExternalQuery, Objects, resource::GroupResource};
use hpa_prometheus::{
    client::Client,
    rules::explain::{Explanation, RuleOutcome},
    source::PrometheusSource,
};
use jiff::SignedDuration;

use super::metric::{Metric, Source, matching_labels};
use crate::rules;

/// Names of two pods that don't exist. A rule inserts them into its query as the regular expression
/// `hpareplayone|hpareplaytwo`, which [`TargetRef::metric_query`] replaces by a pattern for the
/// target's pods.
const PLACEHOLDERS: [&str; 2] = ["hpareplayone", "hpareplaytwo"];

/// A query to Prometheus, with texts for messages.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// The data that the query reads, such as `the metric rps`.
    pub(super) subject: String,
    pub(super) text: String,
    /// Advice if the query has no result.
    pub(super) advice: String,
    /// A client of the server that the rule names. `None` for the server of the command line.
    pub(super) client: Option<Client>,
    /// The time from a step to the evaluation of the query that gives the step's value.
    pub(super) delay: SignedDuration,
}

/// The target of an autoscaler.
#[derive(Clone, Debug)]
pub(super) struct TargetRef {
    pub(super) namespace: String,
    /// The name of the autoscaler.
    pub(super) autoscaler: String,
    pub(super) kind: String,
    pub(super) name: String,
    /// A regular expression for the names of the pods.
    pub(super) pods: String,
}

/// A regular expression for the names of the pods that a workload creates.
///
/// Escapes the workload's name: the name of a custom resource may have any character but slashes
/// and percent signs.
pub(super) fn pod_names(kind: &str, name: &str) -> String {
    let escaped = |c: char| match c {
        '.' => "[.]".to_owned(),
        '-' | '_' | '0'..='9' | 'A'..='Z' | 'a'..='z' => c.to_string(),
        _ => format!("\\x{{{:x}}}", u32::from(c)),
    };
    let name: String = name.chars().map(escaped).collect();
    match kind {
        "Deployment" => format!("{name}-[a-z0-9]{{1,10}}-[a-z0-9]{{5}}"),
        "ReplicaSet" | "ReplicationController" => format!("{name}-[a-z0-9]{{5}}"),
        "StatefulSet" => format!("{name}-[0-9]+"),
        _ => format!("{name}-.+"),
    }
}

impl Query {
    /// A query to the server of the command line.
    pub(super) fn new(subject: &str, text: String, advice: &str) -> Self {
        let (subject, advice) = (subject.to_owned(), advice.to_owned());
        Self { subject, text, advice, client: None, delay: SignedDuration::ZERO }
    }
}

impl TargetRef {
    /// The target of an autoscaler, with the names that its pods usually have.
    pub(super) fn new(hpa: &HorizontalPodAutoscaler) -> Self {
        let reference = &hpa.spec.scale_target_ref;
        Self {
            namespace: hpa.metadata.namespace.clone(),
            autoscaler: hpa.metadata.name.clone(),
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            pods: pod_names(&reference.kind, &reference.name),
        }
    }

    /// The query for `spec.replicas` of the target or, if that isn't recorded, for the replicas in
    /// the status of the target or autoscaler. `custom_query` replaces it.
    pub(super) fn replicas_query(&self, custom_query: Option<&str>) -> Query {
        let Self { namespace, autoscaler, kind, name, .. } = self;
        let metrics: &[&str] = match kind.as_str() {
            "Deployment" => &["deployment_spec_replicas", "deployment_status_replicas"],
            "StatefulSet" => &["statefulset_replicas", "statefulset_status_replicas"],
            "ReplicaSet" => &["replicaset_spec_replicas", "replicaset_status_replicas"],
            "ReplicationController" => &["replicationcontroller_spec_replicas"],
            _ => &[],
        };
        let label = kind.to_lowercase();
        let (namespace, name) = (Quoted(namespace), Quoted(name));
        let target_replicas = metrics
            .iter()
            .map(|metric| format!("max(kube_{metric}{{namespace={namespace},{label}={name}}})"));
        let autoscaler_replicas =
            ["status_current_replicas", "status_desired_replicas"].iter().map(|metric| {
                format!(
                    "max(kube_horizontalpodautoscaler_{metric}{{namespace={namespace},\
                     horizontalpodautoscaler={}}})",
                    Quoted(autoscaler)
                )
            });
        let text = target_replicas.chain(autoscaler_replicas).collect::<Vec<_>>().join(" or ");
        let advice = "kube-state-metrics exports them; give another query with --replicas-query";
        Query::new("replicas", custom_query.map_or(text, str::to_owned), advice)
    }

    /// The query for the number of CPU samples in ten minutes, which shows the scrape interval. It
    /// counts those of a container that ran all the time.
    pub(super) fn scrapes_query(&self) -> Query {
        let series =
            format!("container_cpu_usage_seconds_total{{{}}}", self.container_matchers(None));
        let text =
            format!("max(count_over_time({series}[10m]) and {series} and {series} offset 10m)");
        Query::new("the scrape interval of CPU usage", text, "")
    }

    /// The query for the mean request of a pod for a resource.
    pub(super) fn requests_query(&self, resource: &str, container: Option<&str>) -> Query {
        let container = container.map(|name| format!(",container={}", Quoted(name)));
        let text = format!(
            "avg(sum by (pod) (kube_pod_container_resource_requests{{{},resource={}{}}}))",
            self.pod_matchers(),
            Quoted(resource),
            container.unwrap_or_default()
        );
        let advice = format!(
            "kube-state-metrics exports them; or give the request of a pod with --request \
             {resource}=QUANTITY"
        );
        Query::new(&format!("{resource} requests of the pods"), text, &advice)
    }

    /// The query for the median time from a pod's creation until it is ready, in seconds.
    pub(super) fn startup_query(&self) -> Query {
        let selector = format!("{{{}}}", self.pod_matchers());
        let text = format!(
            "quantile(0.5, max by (pod) (kube_pod_status_ready_time{selector}) - \
             max by (pod) (kube_pod_created{selector}))"
        );
        Query::new("the start-up time of the pods", text, "")
    }

    /// The matchers of the target's pods.
    fn pod_matchers(&self) -> String {
        format!("namespace={},pod=~{}", Quoted(&self.namespace), Quoted(&self.pods))
    }

    fn container_matchers(&self, container: Option<&str>) -> String {
        let container = container.map_or_else(
            || "container!=\"\",container!=\"POD\"".to_owned(),
            |container| format!("container={}", Quoted(container)),
        );
        format!("{},{container}", self.pod_matchers())
    }

    /// An expression for the CPU that the load needs: the mean usage of pods that were ready in the
    /// whole window, times the mean number of ready pods. It excludes the usage of starting pods,
    /// which the autoscaler ignores too. Without kube-state-metrics, it is the usage of all pods.
    fn cpu_load(&self, container: Option<&str>, window: i64) -> String {
        let (pod_matchers, containers) = (self.pod_matchers(), self.container_matchers(container));
        let rate = format!("rate(container_cpu_usage_seconds_total{{{containers}}}[{window}s])");
        let ready = format!("kube_pod_status_ready{{{pod_matchers},condition=\"true\"}}");
        let pods = format!(
            "sum(max by (pod) (sum_over_time({ready}[{window}s]))) \
             / max(count_over_time({ready}[{window}s]))"
        );
        format!(
            "avg(sum by (pod) ({rate}) and on (pod) \
             max by (pod) (min_over_time({ready}[{window}s]) * {ready}) == 1) \
             * {pods} or sum({rate})"
        )
    }

    /// The query for the usage of a resource by all pods. Rates have a window of `window` seconds.
    fn usage_query(&self, metric: &Metric, container: Option<&str>, window: i64) -> Query {
        let containers = self.container_matchers(container);
        let (text, delay, about_rate) = if metric.name == "cpu" {
            // A rate is the mean over its window, so it belongs to the middle of the window.
            let about_rate = format!(", and a rate needs two samples in {window}s (--rate-window)");
            (self.cpu_load(container, window), SignedDuration::from_secs(window) / 2, about_rate)
        } else {
            let text = format!("sum(container_memory_working_set_bytes{{{containers}}})");
            (text, SignedDuration::ZERO, String::new())
        };
        let advice = format!(
            "the kubelet's cAdvisor exports it{about_rate}; check --pods (now {:?}), or give the \
             total of all pods with --load-query",
            self.pods
        );
        Query { delay, ..Query::new(&format!("the usage of {}", metric.describe()), text, &advice) }
    }

    /// The query for the total of a metric over all pods or, for an object or external metric, for
    /// its value. Rates have a window of `window` seconds.
    pub(super) fn metric_query(
        &self,
        metric: &Metric,
        rules: Option<&PrometheusSource>,
        window: i64,
    ) -> Result<Query, String> {
        if let Source::Resource { container } = &metric.source {
            return Ok(self.usage_query(metric, container.as_deref(), window));
        }
        let subject = format!("the metric {}", metric.name);
        let query_advice = metric.query_advice();
        let advice = match &metric.source {
            Source::Pods(_) => format!("check --pods (now {:?}), or {query_advice}", self.pods),
            _ => query_advice.clone(),
        };
        let Some(rules) = rules else {
            return self.query_without_rules(metric, &subject, &advice);
        };
        match self.rule_query(metric, rules) {
            Some((text, client)) => {
                Ok(Query { client, ..Query::new(&subject, format!("sum({text})"), &advice) })
            }
            None => Err(format!(
                "{}: no rule of --metrics-config has {subject}, or Prometheus has no series of it \
                 in this time: {query_advice}",
                metric.field
            )),
        }
    }

    /// The query of the rule that has a metric. `None` if there is no such rule.
    fn rule_query(&self, metric: &Metric, rules: &PrometheusSource) -> Option<RuleQuery> {
        let request = |identifier: &MetricIdentifier, resource: GroupResource| CustomQuery {
            resource,
            namespace: self.namespace.clone(),
            objects: Objects::Selected(Selector::everything()),
            metric: metric.name.clone(),
            metric_selector: selector(identifier),
        };
        match &metric.source {
            Source::Resource { .. } => None,
            Source::Pods(identifier) => {
                let names = PLACEHOLDERS.map(str::to_owned);
                let request = request(identifier, GroupResource::pods());
                let (query, client) = custom_rule_query(rules, &request, &names)?;
                let quoted = Quoted(&self.pods).to_string();
                let pods = quoted.strip_prefix('"').and_then(|pods| pods.strip_suffix('"'));
                let replaced = query.replace(&PLACEHOLDERS.join("|"), pods.unwrap_or_default());
                // A query without a pattern for pods would include other workloads.
                (replaced != query).then_some((replaced, client))
            }
            Source::Object { object, identifier } => {
                let resources = rules.resources();
                // The singular name of a resource is its kind in lower case.
                let resource =
                    resources.resolve(object.group(), &object.kind.to_lowercase()).ok()?;
                let resource = resource.group_resource.clone();
                let is_namespace = resource == GroupResource::namespaces();
                let mut request = request(identifier, resource);
                if is_namespace {
                    request.namespace.clear();
                }
                custom_rule_query(rules, &request, std::slice::from_ref(&object.name))
            }
            Source::External(identifier) => {
                let explanation = rules.explain_external(&ExternalQuery {
                    namespace: self.namespace.clone(),
                    metric: metric.name.clone(),
                    metric_selector: selector(identifier),
                });
                applied_query(&explanation, |index| rules.external_client(index))
            }
        }
    }

    /// The query for the series with the name of a metric.
    fn query_without_rules(
        &self,
        metric: &Metric,
        subject: &str,
        advice: &str,
    ) -> Result<Query, String> {
        let labels = match &metric.source {
            Source::Pods(identifier) => {
                [vec![self.pod_matchers()], matchers(identifier)].concat().join(",")
            }
            Source::External(identifier) => matchers(identifier).join(","),
            _ => {
                return Err(format!(
                    "{}: {subject} is that of an object, so it needs a query: {advice}, or add the \
                     rules of your adapter with --metrics-config",
                    metric.field
                ));
            }
        };
        let series = format!("{{__name__={},{labels}}}", Quoted(&metric.name));
        let advice = format!(
            "{advice}, or add the rules of your adapter with --metrics-config: without rules, a \
             series with the metric's name is read"
        );
        Ok(Query::new(subject, format!("sum({series})"), &advice))
    }
}

/// PromQL matchers for labels that match the metric's selector.
fn matchers(metric: &MetricIdentifier) -> Vec<String> {
    let labels = matching_labels(metric).into_iter();
    labels.map(|(name, value)| rules::equality_matcher(&name, &value)).collect()
}

/// The selector of a metric; everything if it has none or an invalid one.
fn selector(metric: &MetricIdentifier) -> Selector {
    let selector = metric.selector.as_ref().and_then(|selector| selector.to_selector().ok());
    selector.unwrap_or_else(Selector::everything)
}

/// The query of a rule, and a client of the server that the rule names.
type RuleQuery = (String, Option<Client>);

fn custom_rule_query(
    rules: &PrometheusSource,
    request: &CustomQuery,
    names: &[String],
) -> Option<RuleQuery> {
    let explanation = rules.explain_custom(request, names);
    applied_query(&explanation, |index| rules.custom_client(index))
}

/// The query of the rule that applies. `client_of` returns the client of a rule's server.
fn applied_query(
    explanation: &Explanation,
    client_of: impl FnOnce(usize) -> Option<Client>,
) -> Option<RuleQuery> {
    let report = explanation.applied()?;
    let RuleOutcome::Applies { query, .. } = &report.outcome else { return None };
    Some((query.clone(), client_of(report.index)))
}
