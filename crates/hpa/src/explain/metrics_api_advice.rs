//! Advice about metrics that can't be read from a metrics API. It is derived from the metrics that
//! the API lists and from its `APIService`.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
};

use hpa_calc::{
    Inputs, MetricQuery, MetricsApi, ReadError, Reading,
    go_text::truncate,
    report::error_texts::{
        FORBIDDEN, UNKNOWN_METRIC, is_in_process, is_server_error, is_unknown_kind,
    },
    shell::quote,
    suggestions::may_be_meant,
};
use hpa_metrics::SingleFlight;
use kube::Client;
use serde_json::Value;

use super::metric_advisor::FRESHNESS;
use crate::{
    kubectl::{escape, get, listed_metrics, unavailability},
    manifests::{items, string_at},
    terminal::shorten_names,
};

const RESOURCE_GROUP: &str = MetricsApi::Resource.group();
/// The maximum number of characters of the reason why an API is not available.
const MAX_REASON_CHARS: usize = 500;
/// The maximum number of characters of the name of a resource in a response.
const MAX_RESOURCE_CHARS: usize = 100;

/// A registered metrics API.
struct Api {
    group: &'static str,
    /// The metrics in its discovery: RESOURCE/METRIC, or the name of an external metric. `None` if
    /// it doesn't list them, doesn't answer, or is `metrics.k8s.io`.
    listed_names: Option<BTreeSet<String>>,
    /// Its `APIService`, or null.
    service: Value,
}

/// Reads the metrics APIs. Nothing is read again within [`FRESHNESS`].
pub(super) struct MetricsApis {
    client: Client,
    apis: SingleFlight<&'static str, Option<Api>, Infallible>,
    /// The resources that any container of the pods has in `metrics.k8s.io`. Empty if they can't be
    /// read.
    usage_names: SingleFlight<UsageKey, BTreeSet<String>, Infallible>,
}

/// The pods whose usage is read: those of a selector in a namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
struct UsageKey {
    namespace: String,
    selector: String,
}

impl MetricsApis {
    pub(super) fn new(client: Client) -> Self {
        let (apis, usage_names) = (SingleFlight::new(FRESHNESS), SingleFlight::new(FRESHNESS));
        Self { client, apis, usage_names }
    }

    async fn read(&self, group: &'static str) -> Arc<Option<Api>> {
        let client = self.client.clone();
        let read = |group| async move { Ok(Api::read(&client, group).await) };
        let Ok(api) = self.apis.get(group, read).await;
        api
    }

    async fn usage_names(&self, pods: UsageKey) -> Arc<BTreeSet<String>> {
        let client = self.client.clone();
        let read =
            |pods| async move { Ok(read_usage_names(&client, &pods).await.unwrap_or_default()) };
        let Ok(names) = self.usage_names.get(pods, read).await;
        names
    }
}

/// Adds advice for metrics that can't be read from a metrics API, unless they already have advice.
/// Skips the metrics `of_controller`, because the controller may read them from another source.
pub(super) async fn add(
    apis: &MetricsApis,
    inputs: &Inputs,
    of_controller: &[usize],
    advice: &mut BTreeMap<usize, String>,
) {
    let plan = inputs.plan();
    for (index, query) in plan.queries() {
        let error = match inputs.readings.get(index) {
            Some(Err(error)) => error,
            // Pods without this resource have no sample.
            Some(Ok(Reading::Pods(samples)))
                if samples.is_empty() && query.api() == MetricsApi::Resource =>
            {
                &ReadError::Empty(MetricsApi::Resource)
            }
            _ => continue,
        };
        let is_of_other_source =
            matches!(error, ReadError::Fetch { message, .. } if is_in_process(message));
        if is_of_other_source || advice.contains_key(&index) || of_controller.contains(&index) {
            continue;
        }
        let group = match query.api() {
            MetricsApi::Resource if error.is_empty_response() => {
                let text = resource_advice(apis, inputs, query.metric_name(), index).await;
                advice.extend(text.map(|text| (index, text)));
                continue;
            }
            api => api.group(),
        };
        let api = apis.read(group).await;
        let text = (*api).as_ref().and_then(|api| api.advise(query, index, error));
        advice.extend(text.map(|text| (index, text)));
    }
}

/// Advice about a resource that the target's pods don't have in `metrics.k8s.io`, although they
/// have other resources.
async fn resource_advice(
    apis: &MetricsApis,
    inputs: &Inputs,
    name: &str,
    index: usize,
) -> Option<String> {
    let namespace = inputs.hpa.metadata.namespace.clone();
    let selector = inputs.scale.as_ref().ok()?.selector.clone();
    let names = apis.usage_names(UsageKey { namespace, selector }).await;
    if names.is_empty() || names.contains(name) {
        return None;
    }
    Some(about_absent_resource(name, &names, index))
}

/// Advice about a resource that is not among the resources `names` of the target's pods.
fn about_absent_resource(name: &str, names: &BTreeSet<String>, index: usize) -> String {
    let hint = similar_names_hint(name, names);
    let absent = format!("{RESOURCE_GROUP} has no resource {name} for the target's pods{hint}");
    if matches!(name, "cpu" | "memory") {
        return format!(
            "{absent}. The name is right, so see the log of the server: kubectl get apiservices | \
             grep {RESOURCE_GROUP} names the service behind it."
        );
    }
    format!("{absent}. Correct the name in spec.metrics[{index}].")
}

async fn read_usage_names(client: &Client, pods: &UsageKey) -> Option<BTreeSet<String>> {
    let group: Value = get(client, &format!("/apis/{RESOURCE_GROUP}")).await.ok()?;
    let version = string_at(&group, "/preferredVersion/version");
    let (namespace, selector) = (escape(&pods.namespace), escape(&pods.selector));
    let path = format!(
        "/apis/{RESOURCE_GROUP}/{version}/namespaces/{namespace}/pods?labelSelector={selector}"
    );
    Some(usage_names(&get(client, &path).await.ok()?))
}

/// The resources that any container of a list of pod metrics has.
fn usage_names(pods: &Value) -> BTreeSet<String> {
    let containers = items(pods.get("items")).flat_map(|pod| items(pod.get("containers")));
    let usage = containers.filter_map(|container| container.get("usage")?.as_object());
    usage.flat_map(|usage| usage.keys().cloned()).collect()
}

impl Api {
    /// Reads the API of a group. `None` if it is not registered, or if that can't be read.
    async fn read(client: &Client, group: &'static str) -> Option<Self> {
        let discovery: Value = get(client, &format!("/apis/{group}")).await.ok()?;
        let version = string_at(&discovery, "/preferredVersion/version");
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
        let service = get(client, &path).await.unwrap_or_default();
        let api = Self { group, listed_names: None, service };
        // A request to an API that the API server can't reach may take until its timeout.
        if group == RESOURCE_GROUP || api.unavailability().is_some() {
            return Some(api);
        }
        let resources = get(client, &format!("/apis/{group}/{version}")).await;
        let listed_names = resources.ok().as_ref().and_then(listed_metrics);
        Some(Self { listed_names, ..api })
    }

    /// The reason why the API server can't reach the API. `None` if it can, or if the `APIService`
    /// could not be read.
    fn unavailability(&self) -> Option<&str> {
        if self.service.is_null() { None } else { unavailability(&self.service) }
    }

    fn advise(&self, query: &MetricQuery, index: usize, error: &ReadError) -> Option<String> {
        let group = self.group;
        let message = match error {
            // The report has advice about these.
            ReadError::Fetch { message, .. }
                if message.contains(FORBIDDEN) || is_unknown_kind(message) =>
            {
                return None;
            }
            ReadError::Fetch { message, .. } => Some(message.as_str()),
            _ => None,
        };
        if let (Some(_), Some(reason)) = (message, self.unavailability()) {
            let reason = truncate(reason.trim_end_matches('.').to_owned(), MAX_REASON_CHARS);
            return Some(format!(
                "{group} is not available according to its APIService: {reason}. If its server \
                 runs, see the log: {}",
                self.log_command()
            ));
        }
        if group == RESOURCE_GROUP {
            // Without the name of the Service, this says no more than the report already does.
            if message.is_none() || self.service_name().is_empty() {
                return None;
            }
            return Some(format!(
                "{group} is registered, but the request fails as the message says. Read the log of \
                 its server: {}",
                self.log_command()
            ));
        }
        self.advise_by_discovery(query, index, message)
    }

    /// Advice about a custom or external metric, by the metrics in the API's discovery. `message`
    /// is the error of the failed request, or `None` if the response has no value.
    fn advise_by_discovery(
        &self,
        query: &MetricQuery,
        index: usize,
        message: Option<&str>,
    ) -> Option<String> {
        let Self { group, listed_names, .. } = self;
        let name = query.metric_name();
        // An adapter that fails to read a metric has it, even if its discovery doesn't list it.
        let has_failed = message.is_some_and(is_server_error);
        let is_unknown_metric = message.is_some_and(|message| message.contains(UNKNOWN_METRIC));
        match listed_names {
            Some(names) if !names.is_empty() && !has_metric(names, name) && !has_failed => {
                let names: BTreeSet<_> =
                    names.iter().map(|name| without_resource(name).to_owned()).collect();
                Some(format!(
                    "{group} has no metric {name}{}. Correct the name in spec.metrics[{index}], or \
                     configure the adapter to serve it. If the adapter is configured for it, it \
                     may have found no series. {}.",
                    similar_names_hint(name, &names),
                    self.reading_the_log()
                ))
            }
            Some(names) if names.is_empty() && is_unknown_metric => Some(format!(
                "{group} lists no metrics, so its adapter may not reach Prometheus. {}",
                self.next_steps()
            )),
            Some(names) if let Some(asked) = unlisted_resource(names, query, message) => {
                Some(self.about_unlisted_resource(names, query, index, asked))
            }
            _ if message.is_none() => None,
            _ if !is_unknown_metric => Some(format!(
                "{group} is registered, but the request fails as the message says. {}",
                self.next_steps()
            )),
            Some(_) if let MetricQuery::Object { object, .. } = query => Some(format!(
                "{group} lists {name}, but has no value for {} {}. Check whether this object \
                 exists: spec.metrics[{index}].object.describedObject names it. If it does, hpa \
                 rules explain says why the query of an adapter with a rules file has no value, \
                 such as NaN.",
                object.kind, object.name
            )),
            _ => None,
        }
    }

    /// Advice about a metric that the API lists, but only for other resources than `asked`.
    fn about_unlisted_resource(
        &self,
        names: &BTreeSet<String>,
        query: &MetricQuery,
        index: usize,
        asked: &str,
    ) -> String {
        let (group, name) = (self.group, query.metric_name());
        let asked = truncate(asked.to_owned(), MAX_RESOURCE_CHARS);
        let listed = names.iter().filter_map(|listed| listed.split_once('/'));
        let resources = listed.filter(|(_, metric)| *metric == name);
        let resources: Vec<_> = resources.map(|(resource, _)| resource.to_owned()).collect();
        let correction = match query {
            MetricQuery::Pods { .. } => {
                format!("Use a metric of type Object in spec.metrics[{index}]")
            }
            _ => format!("Describe one of those in spec.metrics[{index}]"),
        };
        format!(
            "{group} has {name} for {}, not for {asked}. {correction}, or configure the adapter to \
             serve it for {asked}.",
            shorten_names(&resources)
        )
    }

    /// Commands that find the cause of an API's failure.
    fn next_steps(&self) -> String {
        let log = self.reading_the_log();
        format!(
            "{log}. If the adapter reads Prometheus, check the server and the rules: hpa rules \
             check ADAPTER_RULES --prometheus-url ADAPTER_PROMETHEUS"
        )
    }

    /// A clause about the log of the adapter.
    fn reading_the_log(&self) -> String {
        match self.service_name() {
            "" => format!(
                "Read the log of its adapter (kubectl get apiservices | grep {} names the Service)",
                self.group
            ),
            _ => format!("Read the log of its adapter: {}", self.log_command()),
        }
    }

    /// The name of the Service in the `APIService`. Empty if it has none.
    fn service_name(&self) -> &str {
        string_at(&self.service, "/spec/service/name")
    }

    /// The command that prints the log of the Service in the `APIService`.
    fn log_command(&self) -> String {
        let namespace = string_at(&self.service, "/spec/service/namespace");
        let name = self.service_name();
        format!("kubectl logs -n {} {}", quote(namespace), quote(&format!("service/{name}")))
    }
}

/// The resource of the objects whose metric was requested, if the API lists the metric only for
/// other resources. For an Object metric, the adapter's error names it, such as `deployments.apps`.
fn unlisted_resource<'a>(
    names: &BTreeSet<String>,
    query: &MetricQuery,
    message: Option<&'a str>,
) -> Option<&'a str> {
    let name = query.metric_name();
    let asked = match query {
        MetricQuery::Pods { .. } => "pods",
        MetricQuery::Object { .. } => {
            let (_, rest) = message?.split_once(&format!("{UNKNOWN_METRIC} {name} for "))?;
            rest.split(' ').next()?
        }
        _ => return None,
    };
    let is_listed = names.contains(&format!("{asked}/{name}"));
    (has_metric(names, name) && !is_listed).then_some(asked)
}

/// Removes the `RESOURCE/` of a listed custom metric.
fn without_resource(listed: &str) -> &str {
    listed.split_once('/').map_or(listed, |(_, metric)| metric)
}

fn has_metric(names: &BTreeSet<String>, metric: &str) -> bool {
    names.iter().any(|name| without_resource(name) == metric)
}

/// Formats names that are similar to `wanted`. If there are none, the first names.
fn similar_names_hint(wanted: &str, names: &BTreeSet<String>) -> String {
    let similar: Vec<_> = names.iter().filter(|name| may_be_meant(name, wanted)).cloned().collect();
    if similar.is_empty() {
        let all: Vec<_> = names.iter().cloned().collect();
        return format!(" (it has {})", shorten_names(&all));
    }
    format!(" (similar: {})", shorten_names(&similar))
}

#[cfg(test)]
mod tests;
