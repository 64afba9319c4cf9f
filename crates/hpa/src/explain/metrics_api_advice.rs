//! Advice about metrics that can't be read from a metrics API. It is derived from the metrics that
//! the API lists and from its `APIService`.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{
    Inputs, MetricQuery, MetricsApi, ReadError, Reading,
    go_text::truncate,
    report::error_texts::{FORBIDDEN, UNKNOWN_METRIC, is_in_process},
    shell::quote,
    suggestions::may_be_meant,
};
use kube::Client;
use serde_json::Value;

use crate::{
    kubectl::{escape, get, listed_metrics, unavailability},
    manifests::string_at,
    terminal::shorten_names,
};

const RESOURCE_GROUP: &str = MetricsApi::Resource.group();
/// The maximum length of the reason why an API is not available, in characters.
const MAX_REASON_LEN: usize = 500;

/// A registered metrics API.
struct Api {
    group: &'static str,
    /// The metrics in its discovery: RESOURCE/METRIC, or the name of an external metric. `None` if
    /// it doesn't list them, doesn't answer, or is `metrics.k8s.io`.
    listed_names: Option<BTreeSet<String>>,
    /// Its `APIService`, or null.
    service: Value,
}

/// Adds advice for metrics that can't be read from a metrics API, unless they already have advice.
pub(super) async fn add(client: &Client, inputs: &Inputs, advice: &mut BTreeMap<usize, String>) {
    let plan = inputs.plan();
    // The controller has read these metrics, so its source is perhaps not this API.
    let read_by_controller = inputs.metrics_read_by_controller_only();
    let mut apis = BTreeMap::<&str, Option<Api>>::new();
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
        if is_of_other_source || advice.contains_key(&index) || read_by_controller.contains(&index)
        {
            continue;
        }
        let group = match query.api() {
            MetricsApi::Resource if error.is_empty_response() => {
                let text = resource_advice(client, inputs, query.metric_name(), index).await;
                advice.extend(text.map(|text| (index, text)));
                continue;
            }
            api => api.group(),
        };
        if !apis.contains_key(group) {
            apis.insert(group, Api::read(client, group).await);
        }
        let api = apis.get(group).and_then(Option::as_ref);
        let text = api.and_then(|api| api.advise(query, index, error));
        advice.extend(text.map(|text| (index, text)));
    }
}

/// Advice about a resource that the target's pods don't have in `metrics.k8s.io`, although they
/// have other resources.
async fn resource_advice(
    client: &Client,
    inputs: &Inputs,
    name: &str,
    index: usize,
) -> Option<String> {
    let group: Value = get(client, &format!("/apis/{RESOURCE_GROUP}")).await.ok()?;
    let version = string_at(&group, "/preferredVersion/version");
    let namespace = escape(&inputs.hpa.metadata.namespace);
    let selector = escape(&inputs.scale.as_ref().ok()?.selector);
    let path = format!(
        "/apis/{RESOURCE_GROUP}/{version}/namespaces/{namespace}/pods?labelSelector={selector}"
    );
    let pods: Value = get(client, &path).await.ok()?;
    let names = usage_names(&pods);
    if names.is_empty() || names.contains(name) {
        return None;
    }
    let hint = similar_names_hint(name, &names);
    Some(format!(
        "{RESOURCE_GROUP} has no resource {name} for the target's pods{hint}. Correct the name in \
         spec.metrics[{index}]."
    ))
}

/// The resources that any container of a list of pod metrics has.
fn usage_names(pods: &Value) -> BTreeSet<String> {
    let array = |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned();
    let items = array(pods, "items").unwrap_or_default();
    let containers = items.iter().filter_map(|pod| array(pod, "containers")).flatten();
    let usage = containers.filter_map(|container| container.get("usage")?.as_object().cloned());
    usage.flat_map(|usage| usage.into_iter().map(|(name, _)| name)).collect()
}

impl Api {
    /// Reads the API of a group. `None` if it is not registered.
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
        let Self { group, listed_names, .. } = self;
        let name = query.metric_name();
        let message = match error {
            ReadError::Fetch { message, .. } if message.contains(FORBIDDEN) => return None,
            ReadError::Fetch { message, .. } => Some(message),
            _ => None,
        };
        if let (Some(_), Some(reason)) = (message, self.unavailability()) {
            let reason = truncate(reason.trim_end_matches('.').to_owned(), MAX_REASON_LEN);
            return Some(format!(
                "{group} is not available according to its APIService: {reason}. If its server \
                 runs, see the log: {}",
                self.log_command()
            ));
        }
        if *group == RESOURCE_GROUP {
            return None;
        }
        match listed_names {
            Some(names) if !names.is_empty() && !has_metric(names, name) => {
                let names: BTreeSet<_> =
                    names.iter().map(|name| without_resource(name).to_owned()).collect();
                Some(format!(
                    "{group} has no metric {name}{}. Correct the name in spec.metrics[{index}], or \
                     configure the adapter to serve it.",
                    similar_names_hint(name, &names)
                ))
            }
            Some(names) if names.is_empty() && message?.contains(UNKNOWN_METRIC) => Some(format!(
                "{group} lists no metrics, so its adapter may not reach Prometheus. {}",
                self.next_steps()
            )),
            Some(names)
                if matches!(query, MetricQuery::Pods { .. })
                    && !names.contains(&format!("pods/{name}"))
                    && has_metric(names, name) =>
            {
                let of_name = names.iter().filter(|listed| without_resource(listed) == name);
                let resources = of_name.filter_map(|listed| listed.split_once('/'));
                let resources: Vec<_> =
                    resources.map(|(resource, _)| resource.to_owned()).collect();
                Some(format!(
                    "{group} has {name} for {}, not for pods. Use a metric of type Object in \
                     spec.metrics[{index}], or configure the adapter to serve it for pods.",
                    shorten_names(&resources)
                ))
            }
            _ if !message?.contains(UNKNOWN_METRIC) => Some(format!(
                "{group} is registered, but the request fails as the message says. {}",
                self.next_steps()
            )),
            Some(_) => match query {
                MetricQuery::Object { object, .. } => Some(format!(
                    "{group} lists {name}, but not for {} {}. Check whether this object exists: \
                     spec.metrics[{index}].object.describedObject names it.",
                    object.kind, object.name
                )),
                _ => None,
            },
            None => None,
        }
    }

    /// Commands that find the cause of an API's failure.
    fn next_steps(&self) -> String {
        let log = match string_at(&self.service, "/spec/service/name") {
            "" => format!(
                "Read the log of its adapter (kubectl get apiservices | grep {} names the Service)",
                self.group
            ),
            _ => format!("Read the log of its adapter: {}", self.log_command()),
        };
        format!(
            "{log}. If the adapter reads Prometheus, check the server and the rules: hpa rules \
             check ADAPTER_RULES --prometheus-url ADAPTER_PROMETHEUS"
        )
    }

    /// The command that prints the log of the Service in the `APIService`.
    fn log_command(&self) -> String {
        let (namespace, name) = (
            string_at(&self.service, "/spec/service/namespace"),
            string_at(&self.service, "/spec/service/name"),
        );
        format!("kubectl logs -n {} {}", quote(namespace), quote(&format!("service/{name}")))
    }
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
mod tests {
    use hpa_calc::api::CrossVersionObjectReference;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const MISSING: &str = "the server could not find the metric http_request for pods";

    fn api_service(condition: Value) -> Value {
        json!({
            "spec": { "service": { "namespace": "m", "name": "adapter" } },
            "status": { "conditions": [condition] },
        })
    }

    fn api(names: &[&str]) -> Api {
        let resources: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        let service = api_service(json!({ "type": "Available", "status": "True" }));
        let listed_names = listed_metrics(&json!({ "resources": resources }));
        Api { group: "custom.metrics.k8s.io", listed_names, service }
    }

    fn pods_query(metric: &str) -> MetricQuery {
        let metric_selector = hpa_calc::Selector::everything();
        MetricQuery::Pods { metric: metric.to_owned(), metric_selector }
    }

    #[rstest]
    #[case::misspelled(
        &["pods/http_requests", "namespaces/lag"], MISSING,
        "has no metric http_request (similar: http_requests). Correct the name in spec.metrics[2]"
    )]
    #[case::unlike_all(&["pods/a", "pods/lag"], MISSING, "http_request (it has a, lag).")]
    #[case::other_resource(
        &["services/http_request"], MISSING,
        "has http_request for services, not for pods. Use a metric of type Object in spec.metrics[2]"
    )]
    #[case::none_listed(
        &[], MISSING, "lists no metrics, so its adapter may not reach Prometheus. Read the log of \
         its adapter: kubectl logs -n m service/adapter. If"
    )]
    #[case::failing(
        &["pods/http_request"], "an error on the server",
        "the request fails as the message says. Read the log of its adapter: kubectl logs -n m \
         service/adapter. If the adapter reads Prometheus, check the server and the rules: hpa \
         rules check ADAPTER_RULES --prometheus-url ADAPTER_PROMETHEUS"
    )]
    fn failing_api_has_advice(
        #[case] names: &[&str],
        #[case] message: &str,
        #[case] expected: &str,
    ) {
        let error = ReadError::fetch(MetricsApi::Custom, message);
        let text = api(names).advise(&pods_query("http_request"), 2, &error).expect("advice");
        assert!(text.starts_with("custom.metrics.k8s.io ") && text.contains(expected), "{text}");
    }

    #[test]
    fn listed_metric_without_the_object_has_advice() {
        let query = MetricQuery::Object {
            object: CrossVersionObjectReference {
                api_version: "v1".to_owned(),
                kind: "Service".to_owned(),
                name: "webb".to_owned(),
                ..CrossVersionObjectReference::default()
            },
            metric: "http_request".to_owned(),
            metric_selector: hpa_calc::Selector::everything(),
        };
        let message = "the server could not find the metric http_request for services webb";
        let error = ReadError::fetch(MetricsApi::Custom, message);
        let text = api(&["services/http_request"]).advise(&query, 2, &error).expect("advice");
        let expected = "custom.metrics.k8s.io lists http_request, but not for Service webb. Check \
                        whether this object exists: spec.metrics[2].object.describedObject names \
                        it.";
        assert_eq!(text, expected);
    }

    #[rstest]
    #[case::external("external.metrics.k8s.io")]
    #[case::resource(RESOURCE_GROUP)]
    fn unreachable_api_has_the_reason_of_its_api_service(#[case] group: &'static str) {
        let reason = "Get \"https://10.0.0.7:443\": x509: certificate has expired";
        let condition = json!({ "type": "Available", "status": "False", "message": reason });
        let api = Api { group, listed_names: None, service: api_service(condition) };
        let message = "the server is currently unable to handle the request";
        let advise = |message: &str| {
            let error = ReadError::fetch(MetricsApi::External, message);
            api.advise(&pods_query("q"), 0, &error)
        };
        assert_eq!(
            advise(message).expect("advice"),
            format!(
                "{group} is not available according to its APIService: {reason}. If its server \
                 runs, see the log: kubectl logs -n m service/adapter"
            )
        );
        assert_eq!(advise("q.external.metrics.k8s.io is forbidden: User \"ann\""), None);
    }

    #[test]
    fn reachable_resource_api_and_unreadable_api_service_have_no_reason() {
        let error = ReadError::fetch(MetricsApi::Resource, "timeout");
        let service = api_service(json!({ "type": "Available", "status": "True" }));
        let api = Api { group: RESOURCE_GROUP, listed_names: None, service };
        assert_eq!(api.advise(&pods_query("cpu"), 0, &error), None);
        let api = Api { service: Value::Null, ..api };
        assert_eq!(api.advise(&pods_query("cpu"), 0, &error), None);
    }

    #[rstest]
    #[case::unlisted(&["externalmetrics"], MISSING)]
    #[case::listed(&["pods/http_request"], MISSING)]
    #[case::forbidden(&[], "pods.custom.metrics.k8s.io is forbidden: User \"ann\"")]
    fn other_errors_have_no_advice(#[case] names: &[&str], #[case] message: &str) {
        let error = ReadError::fetch(MetricsApi::Custom, message);
        assert_eq!(api(names).advise(&pods_query("http_request"), 2, &error), None);
    }

    #[test]
    fn empty_result_has_advice_only_if_the_api_lists_other_names() {
        let empty = ReadError::Empty(MetricsApi::Custom);
        let advise = |names| api(names).advise(&pods_query("lag"), 0, &empty);
        assert_eq!(advise(&["pods/lag"]), None);
        assert_eq!(advise(&[]), None);
        assert!(advise(&["pods/lags"]).expect("advice").contains("similar: lags"));
    }
}
