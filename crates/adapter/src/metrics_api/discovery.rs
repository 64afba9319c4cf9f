//! Builds discovery documents.

use hpa_calc::MetricsApi;
use hpa_metrics::ApiGroups;
use hpa_prometheus::rules::Compat;
use serde::Serialize;
use serde_json::{Value, json};

use crate::metrics_api::group::{GroupVersion, installed_apis, served_versions};

/// A resource in discovery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The name: `pods/http_requests`, `queue_length`, `nodes`.
    pub name: String,
    singular_name: &'static str,
    pub namespaced: bool,
    kind: &'static str,
    verbs: &'static [&'static str],
}

impl Resource {
    /// A custom metric. `resource` has its group: `deployments.apps`.
    pub fn custom(resource: &str, metric: &str, namespaced: bool) -> Self {
        let name = format!("{resource}/{metric}");
        Self { name, singular_name: "", namespaced, kind: "MetricValueList", verbs: &["get"] }
    }

    pub fn external(metric: &str, namespaced: bool) -> Self {
        let kind = "ExternalMetricValueList";
        let name = metric.to_owned();
        Self { name, singular_name: "", namespaced, kind, verbs: &["get"] }
    }

    /// The resources of `metrics.k8s.io`.
    pub fn resource_metrics() -> Vec<Self> {
        let resource = |name: &str, namespaced, kind| Self {
            name: name.to_owned(),
            singular_name: "",
            namespaced,
            kind,
            verbs: &["get", "list"],
        };
        vec![resource("nodes", false, "NodeMetrics"), resource("pods", true, "PodMetrics")]
    }

    const fn scope(&self) -> &'static str {
        if self.namespaced { "Namespaced" } else { "Cluster" }
    }
}

/// The document of a version: `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceList {
    kind: &'static str,
    api_version: &'static str,
    group_version: String,
    resources: Vec<Resource>,
}

impl ResourceList {
    pub fn new(version: GroupVersion, resources: Vec<Resource>) -> Self {
        let group_version = version.to_string();
        Self { kind: "APIResourceList", api_version: "v1", group_version, resources }
    }
}

/// The listed versions of a group. With [`Compat::Reference`], only the preferred one is listed, as
/// in prometheus-adapter. The others are served nevertheless.
fn group_versions(group: MetricsApi, compat: Compat) -> Vec<Value> {
    let count = if compat == Compat::Reference { 1 } else { usize::MAX };
    let names = served_versions(group).iter().take(count);
    let document = |version: &&'static str| {
        let group_version = GroupVersion { group, version };
        json!({ "groupVersion": group_version.to_string(), "version": version })
    };
    names.map(document).collect()
}

/// The document of a group: `/apis/GROUP`.
pub fn group(group: MetricsApi, compat: Compat) -> Value {
    let versions = group_versions(group, compat);
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group.group(),
        "preferredVersion": versions.first(),
        "versions": versions,
    })
}

/// The document of all groups: `/apis`.
pub fn groups(installed: ApiGroups, compat: Compat, port: u16) -> Value {
    let groups = installed_apis(installed).map(|group| {
        let versions = group_versions(group, compat);
        json!({
            "name": group.group(),
            "preferredVersion": versions.first(),
            "versions": versions,
            "serverAddressByClientCIDRs": [
                { "clientCIDR": "0.0.0.0/0", "serverAddress": format!(":{port}") },
            ],
        })
    });
    json!({ "kind": "APIGroupList", "groups": groups.collect::<Vec<_>>() })
}

/// The media type of [`aggregated`].
pub const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The aggregated document of `groups` with their resources, which `/apis` serves to clients that
/// accept [`AGGREGATED_TYPE`]. `resources` returns the resources of a group.
pub fn aggregated(
    groups: impl IntoIterator<Item = MetricsApi>,
    resources: impl Fn(MetricsApi) -> Vec<Resource>,
) -> Value {
    let items = groups.into_iter().map(|group| {
        let resources = resources(group);
        let versions = served_versions(group).iter().map(|version| {
            json!({
                "version": version,
                "freshness": "Current",
                "resources": with_subresources(GroupVersion { group, version }, &resources),
            })
        });
        json!({
            "metadata": { "name": group.group() },
            "versions": versions.collect::<Vec<_>>(),
        })
    });
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items.collect::<Vec<_>>(),
    })
}

/// Nests subresources in their resources. A custom metric is a subresource of an object.
fn with_subresources(version: GroupVersion, resources: &[Resource]) -> Vec<Value> {
    let kind = |kind: &str| {
        let GroupVersion { group, version } = version;
        json!({ "group": group.group(), "version": version, "kind": kind })
    };
    let mut documents: Vec<Value> = Vec::new();
    let mut sorted: Vec<&Resource> = resources.iter().collect();
    sorted.sort();
    for resource in sorted {
        let Some((parent, subresource)) = resource.name.split_once('/') else {
            documents.push(json!({
                "resource": resource.name,
                "responseKind": kind(resource.kind),
                "scope": resource.scope(),
                "singularResource": resource.singular_name,
                "verbs": resource.verbs,
            }));
            continue;
        };
        let last = documents.last().and_then(|document| document.get("resource"));
        if last.is_none_or(|last| last != parent) {
            documents.push(json!({
                "resource": parent,
                "responseKind": kind(""),
                "scope": resource.scope(),
                "singularResource": "",
                "verbs": [],
            }));
        }
        let fields = documents.last_mut().and_then(Value::as_object_mut);
        let subresources = fields.and_then(|fields| {
            fields.entry("subresources").or_insert_with(|| json!([])).as_array_mut()
        });
        if let Some(subresources) = subresources {
            subresources.push(json!({
                "subresource": subresource,
                "responseKind": kind(resource.kind),
                "verbs": resource.verbs,
            }));
        }
    }
    documents
}

/// The existing paths: the response for `/` and for unknown paths.
pub fn paths(installed: ApiGroups, other: &[&str]) -> Value {
    let mut paths: Vec<String> = other.iter().map(|path| (*path).to_owned()).collect();
    paths.push("/apis".to_owned());
    for group in installed_apis(installed) {
        paths.push(format!("/apis/{}", group.group()));
        for version in served_versions(group) {
            paths.push(format!("/apis/{}", GroupVersion { group, version }));
        }
    }
    paths.sort();
    json!({ "paths": paths })
}

/// A minimal document for `/openapi/v2`. Without it, the API server retries or logs errors. Clients
/// need no schemas of metrics.
pub fn openapi_v2(version: &str) -> Value {
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes metrics APIs", "version": version },
        "paths": {},
    })
}

/// The document for `/openapi/v3`.
pub fn openapi_v3() -> Value {
    json!({ "paths": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_list_the_preferred_version_first() {
        let document = group(MetricsApi::Custom, Compat::Off);
        assert_eq!(document["preferredVersion"]["version"], "v1beta1");
        assert_eq!(document["versions"][1]["groupVersion"], "custom.metrics.k8s.io/v1beta2");
        let document = groups(ApiGroups::ALL, Compat::Reference, 6443);
        let group = &document["groups"][0];
        assert_eq!(group["versions"].as_array().map(Vec::len), Some(1));
        assert_eq!(group["serverAddressByClientCIDRs"][0]["serverAddress"], ":6443");
    }

    #[test]
    fn metrics_are_subresources_of_objects() {
        let resources = |group| match group {
            MetricsApi::Custom => vec![
                Resource::custom("pods", "b", true),
                Resource::custom("nodes", "a", false),
                Resource::custom("pods", "a", true),
            ],
            MetricsApi::External => vec![Resource::external("queue", true)],
            MetricsApi::Resource => Resource::resource_metrics(),
        };
        let document = aggregated(installed_apis(ApiGroups::ALL), resources);
        let version = &document["items"][0]["versions"][1];
        assert_eq!(version["version"], "v1beta2");
        let pods = &version["resources"][1];
        assert_eq!((&pods["resource"], &pods["scope"]), (&json!("pods"), &json!("Namespaced")));
        let subresources = pods["subresources"].as_array().expect("two metrics");
        assert_eq!(subresources[1]["subresource"], "b");
        assert_eq!(subresources[1]["responseKind"]["version"], "v1beta2");
        let nodes = &document["items"][2]["versions"][0]["resources"][0];
        assert_eq!((&nodes["resource"], &nodes["verbs"][1]), (&json!("nodes"), &json!("list")));
    }

    #[test]
    fn scope_of_an_external_metric_is_listed() {
        for is_namespaced in [true, false] {
            let resources = [Resource::external("queue", is_namespaced)];
            let listed = serde_json::to_value(&resources).unwrap();
            assert_eq!(listed[0]["namespaced"], is_namespaced);
        }
    }

    #[test]
    fn paths_are_sorted() {
        let installed = ApiGroups { resource: true, ..ApiGroups::default() };
        let expected = ["/apis", "/apis/metrics.k8s.io", "/apis/metrics.k8s.io/v1beta1", "/livez"];
        assert_eq!(paths(installed, &["/livez"]), json!({ "paths": expected }));
    }
}
