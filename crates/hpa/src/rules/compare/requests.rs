//! Builds the requests for the metrics of autoscalers.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;

use super::{APIS, NamedAutoscaler};
use crate::values_path::values_path;

/// A request that is sent to both servers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricRequest {
    pub(super) path: String,
    /// The names of the autoscalers that need the values.
    pub(super) autoscalers: BTreeSet<String>,
}

impl MetricRequest {
    /// The right to send the request: verb, resource, API group and namespace, as in a Role.
    pub(super) fn needed_right(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let decode = |part| percent_decode_str(part).decode_utf8_lossy();
        let parts: Vec<_> = path.trim_start_matches('/').split('/').map(decode).collect();
        // apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/METRIC
        let part = |index: usize| parts.get(index).map(|part| &**part);
        let (group, namespace) = (part(1).unwrap_or_default(), part(4).unwrap_or_default());
        let resource = part(5).unwrap_or_default();
        let verb = if part(6).is_some() { "get" } else { "list" };
        let metric = part(7).map_or_else(String::new, |metric| format!("/{metric}"));
        format!("{verb} {resource}{metric} in the API group {group}, namespace {namespace}")
    }
}

/// The requests for the metrics of all autoscalers in each of [`APIS`], without duplicates.
pub(super) fn requests_for(autoscalers: &[NamedAutoscaler]) -> Vec<MetricRequest> {
    let mut by_path: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, hpa) in autoscalers {
        for spec in &hpa.spec.metrics {
            let Some((api, path)) = values_path(&hpa.metadata.namespace, spec) else { continue };
            let is_version = |version: &&str| version.split('/').next() == Some(api.group());
            for version in APIS.into_iter().filter(is_version) {
                let path = format!("/apis/{version}/namespaces/{path}");
                by_path.entry(path).or_default().insert(name.clone());
            }
        }
    }
    let requests =
        by_path.into_iter().map(|(path, autoscalers)| MetricRequest { path, autoscalers });
    requests.collect()
}
