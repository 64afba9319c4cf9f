//! Advice about metrics that fail in a metrics API: the metrics that it lists, and its Service.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{Inputs, MetricsApi, ReadError, similar::is_similar};
use kube::Client;
use serde_json::Value;

use crate::{kubectl::get, manifests::text, status::named};

/// Discovery entry of an adapter that doesn't list its metrics, such as KEDA.
const PLACEHOLDER: &str = "externalmetrics";
/// A text in the errors of metrics APIs that have no such metric.
const UNKNOWN_METRIC: &str = "could not find the metric";
/// A text in errors about missing permissions of the user.
const FORBIDDEN: &str = " is forbidden: User ";
/// Texts in the errors of rules and collectors, whose metrics are not read from an API.
const IN_PROCESS_ERRORS: [&str; 2] = ["the request to Prometheus at ", "are not discovered yet"];

/// A registered metrics API.
struct Api {
    group: &'static str,
    /// The metrics in its discovery. `None` if it doesn't list them, or doesn't answer.
    listed: Option<BTreeSet<String>>,
    /// Its `APIService`, or null.
    service: Value,
}

/// Adds advice for each metric that fails in a metrics API, unless the metric already has advice.
/// `has_sources`: whether flags configure other sources of metrics.
pub(super) async fn add_advice(
    client: &Client,
    inputs: &Inputs,
    has_sources: bool,
    advice: &mut BTreeMap<usize, String>,
) {
    let plan = inputs.plan();
    // The controller may read them elsewhere.
    let only_reported = inputs.metrics_only_reported();
    let mut apis = BTreeMap::<&str, Option<Api>>::new();
    for (index, query) in plan.queries() {
        let Some(Err(error)) = inputs.readings.get(index) else { continue };
        let group = match query.api() {
            MetricsApi::Custom => "custom.metrics.k8s.io",
            MetricsApi::External => "external.metrics.k8s.io",
            MetricsApi::Resource => continue,
        };
        let is_in_process =
            has_sources && IN_PROCESS_ERRORS.iter().any(|text| error.to_string().contains(text));
        if is_in_process || advice.contains_key(&index) || only_reported.contains(&index) {
            continue;
        }
        if !apis.contains_key(group) {
            apis.insert(group, Api::read(client, group).await);
        }
        let api = apis.get(group).and_then(Option::as_ref);
        let text = api.and_then(|api| api.advise(query.metric_name(), index, error));
        advice.extend(text.map(|text| (index, text)));
    }
}

impl Api {
    /// `None` if the API is not registered.
    async fn read(client: &Client, group: &'static str) -> Option<Self> {
        let found: Value = get(client, &format!("/apis/{group}")).await.ok()?;
        let version = text(&found, "/preferredVersion/version");
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{version}.{group}");
        let service = get(client, &path).await.unwrap_or_default();
        let resources = get(client, &format!("/apis/{group}/{version}")).await;
        Some(Self { group, listed: resources.ok().as_ref().and_then(listed), service })
    }

    fn advise(&self, name: &str, index: usize, error: &ReadError) -> Option<String> {
        let Self { group, listed, .. } = self;
        let message = match error {
            ReadError::Fetch { message, .. } if message.contains(FORBIDDEN) => return None,
            ReadError::Fetch { message, .. } => Some(message),
            _ => None,
        };
        match listed {
            Some(names) if !names.is_empty() && !names.contains(name) => Some(format!(
                "{group} has no metric {name}{}. Correct the name in spec.metrics[{index}], or \
                 configure the adapter to serve it.",
                hint(name, names)
            )),
            Some(names) if names.is_empty() && message?.contains(UNKNOWN_METRIC) => Some(format!(
                "{group} lists no metrics, so its adapter may not reach Prometheus. {}",
                self.next_steps()
            )),
            _ if !message?.contains(UNKNOWN_METRIC) => Some(format!(
                "{group} is registered, but the request fails as the message says. {}",
                self.next_steps()
            )),
            _ => None,
        }
    }

    /// Commands that find the cause of an API's failure.
    fn next_steps(&self) -> String {
        let (namespace, name) = (
            text(&self.service, "/spec/service/namespace"),
            text(&self.service, "/spec/service/name"),
        );
        let log = match name {
            "" => format!(
                "Read the log of its adapter (kubectl get apiservices | grep {} names the Service)",
                self.group
            ),
            _ => format!("Read the log of its adapter: kubectl logs -n {namespace} service/{name}"),
        };
        format!(
            "{log}. If the adapter reads Prometheus, check the server and the rules: hpa rules \
             check FILE --prometheus-url URL"
        )
    }
}

/// The names of the metrics in a discovery document. `None` if the adapter doesn't list them.
fn listed(resources: &Value) -> Option<BTreeSet<String>> {
    let resources = resources.get("resources").and_then(Value::as_array).into_iter().flatten();
    let names = resources.map(|resource| text(resource, "/name"));
    // A custom metric is listed as RESOURCE/METRIC.
    let names = names.map(|name| name.split_once('/').map_or(name, |(_, metric)| metric));
    let names: BTreeSet<_> = names.map(str::to_owned).collect();
    (!names.contains(PLACEHOLDER)).then_some(names)
}

/// Similar names, or else the first names.
fn hint(wanted: &str, names: &BTreeSet<String>) -> String {
    let is_like = |name: &&String| {
        is_similar(name, wanted) || name.contains(wanted) || wanted.contains(name.as_str())
    };
    let similar: Vec<_> = names.iter().filter(is_like).cloned().collect();
    if similar.is_empty() {
        let all: Vec<_> = names.iter().cloned().collect();
        return format!(" (it has {})", named(&all));
    }
    format!(" (similar: {})", named(&similar))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const MISSING: &str = "the server could not find the metric http_request for pods";

    fn api(names: &[&str]) -> Api {
        let resources: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        let service = json!({ "spec": { "service": { "namespace": "m", "name": "adapter" } } });
        let listed = listed(&json!({ "resources": resources }));
        Api { group: "custom.metrics.k8s.io", listed, service }
    }

    #[rstest]
    #[case::misspelled(
        &["pods/http_requests", "namespaces/lag"], MISSING,
        "has no metric http_request (similar: http_requests). Correct the name in spec.metrics[2]"
    )]
    #[case::unlike_all(&["pods/a", "pods/lag"], MISSING, "http_request (it has a, lag).")]
    #[case::none_listed(
        &[], MISSING, "lists no metrics, so its adapter may not reach Prometheus. Read the log of \
         its adapter: kubectl logs -n m service/adapter. If"
    )]
    #[case::failing(
        &["pods/http_request"], "an error on the server",
        "the request fails as the message says. Read the log of its adapter: kubectl logs -n m \
         service/adapter. If the adapter reads Prometheus, check the server and the rules: hpa \
         rules check FILE --prometheus-url URL"
    )]
    fn failing_api_has_advice(
        #[case] names: &[&str],
        #[case] message: &str,
        #[case] expected: &str,
    ) {
        let error = ReadError::fetch(MetricsApi::Custom, message);
        let text = api(names).advise("http_request", 2, &error).expect("advice");
        assert!(text.starts_with("custom.metrics.k8s.io ") && text.contains(expected), "{text}");
    }

    #[rstest]
    #[case::unlisted(&["externalmetrics"], MISSING)]
    #[case::listed(&["pods/http_request"], MISSING)]
    #[case::forbidden(&[], "pods.custom.metrics.k8s.io is forbidden: User \"ann\"")]
    fn other_errors_have_no_advice(#[case] names: &[&str], #[case] message: &str) {
        let error = ReadError::fetch(MetricsApi::Custom, message);
        assert_eq!(api(names).advise("http_request", 2, &error), None);
    }

    #[test]
    fn empty_result_has_advice_only_if_the_api_lists_other_names() {
        let advise = |names| api(names).advise("lag", 0, &ReadError::Empty(MetricsApi::Custom));
        assert_eq!(advise(&["pods/lag"]), None);
        assert_eq!(advise(&[]), None);
        assert!(advise(&["pods/lags"]).expect("advice").contains("similar: lags"));
    }
}
