//! Serves discovery, `OpenAPI`, version and health endpoints.

use axum::{body::Body, response::IntoResponse};
use http::{Method, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::{
    error::ApiError,
    json_fields, metrics_provider,
    registry::{Resource, Version, api_version},
    request::ApiRequest,
    response,
    schema::openapi::{DocumentedKind, schemas},
    server::{Server, State},
};

const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The resources of the registry, and the metrics APIs.
struct ServedApis<'a> {
    state: &'a State,
    /// Group and version of each metrics API that is served.
    metrics_apis: &'static [(&'static str, &'static str)],
}

/// Handles a request without a resource. Returns `None` for a GET of an unknown path.
pub(crate) fn handle(
    server: &Server,
    request: &ApiRequest,
) -> Option<Result<Response<Body>, ApiError>> {
    if request.method != Method::GET {
        return Some(Err(ApiError::method_not_allowed()));
    }
    let path: Vec<&str> = request.info.path.split('/').filter(|part| !part.is_empty()).collect();
    if let ["healthz" | "readyz" | "livez", ..] = path.as_slice() {
        return Some(Ok("ok".into_response()));
    }
    let state = server.state.lock();
    let apis = ServedApis { state: &state, metrics_apis: server.config.metrics_apis() };
    let body = match path.as_slice() {
        ["version"] => version_info(),
        ["api"] if wants_aggregated(request) => {
            return Some(Ok(aggregated_response(&apis.aggregated_core())));
        }
        ["apis"] if wants_aggregated(request) => {
            return Some(Ok(aggregated_response(&apis.aggregated_groups())));
        }
        ["api"] => core_versions(),
        ["apis"] => apis.group_list(),
        ["apis", group] => apis.group_versions(group)?,
        ["api", version] => apis.resource_list("", version)?,
        ["apis", group, version] => {
            let mut list = apis.resource_list(group, version)?;
            add_listed_metrics(server, group, &mut list);
            list
        }
        ["openapi", "v3"] => openapi_index(&state),
        ["openapi", "v3", "api", version] => openapi_document(&state, "", version)?,
        ["openapi", "v3", "apis", group, version] => openapi_document(&state, group, version)?,
        [] => {
            let paths =
                ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"];
            json!({ "paths": paths })
        }
        _ => return None,
    };
    Some(Ok(response::json(StatusCode::OK, &body)))
}

fn wants_aggregated(request: &ApiRequest) -> bool {
    request.accept.split(',').any(|media_type| {
        let parameters: Vec<&str> = media_type.split(';').map(str::trim).collect();
        parameters.contains(&"as=APIGroupDiscoveryList") && parameters.contains(&"v=v2")
    })
}

fn aggregated_response(body: &Value) -> Response<Body> {
    ([(header::CONTENT_TYPE, AGGREGATED_TYPE)], body.to_string()).into_response()
}

fn version_info() -> Value {
    json!({
        "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "", "platform": "linux/amd64",
    })
}

/// The verbs of a resource. Namespaces have no `deletecollection`.
fn verbs(resource: &Resource) -> Vec<&'static str> {
    let is_served = |verb: &&str| *verb != "deletecollection" || !resource.is_namespace();
    VERBS.into_iter().filter(is_served).collect()
}

impl<'a> ServedApis<'a> {
    fn is_metrics_api(&self, group: &str, version: &str) -> bool {
        self.metrics_apis.contains(&(group, version))
    }

    /// The groups with their versions, including the metrics APIs and without the core group.
    fn groups(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let registry = &self.state.registry;
        let mut groups: Vec<(&str, Vec<&str>)> =
            registry.groups().into_iter().map(|group| (group, registry.versions(group))).collect();
        for &(group, version) in self.metrics_apis {
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, versions)) => versions.push(version),
                None => groups.push((group, vec![version])),
            }
        }
        groups
    }

    fn aggregated_core(&self) -> Value {
        aggregated_list(vec![self.aggregated_group("", &self.state.registry.versions(""))])
    }

    fn aggregated_groups(&self) -> Value {
        let groups = self.groups();
        let groups = groups.iter().map(|(name, versions)| self.aggregated_group(name, versions));
        aggregated_list(groups.collect())
    }

    fn aggregated_group(&self, name: &str, versions: &[&str]) -> Value {
        let resources = |version: &str| -> Vec<Value> {
            if self.is_metrics_api(name, version) {
                let entries = metrics_provider::resources(name);
                let resources = entries.chunks(1);
                return resources.map(|one| aggregated_resource(one, name, version)).collect();
            }
            served_resources(self.state, name, version)
                .map(|(resource, served)| {
                    // As in kube-apiserver, the kinds of built-in resources have no group and
                    // version.
                    let (group, version) =
                        if resource.is_custom { (name, version) } else { ("", "") };
                    aggregated_resource(&api_resources(resource, served), group, version)
                })
                .collect()
        };
        let versions: Vec<Value> = versions
            .iter()
            .map(|version| {
                let resources = resources(version);
                json!({ "version": version, "resources": resources, "freshness": "Current" })
            })
            .collect();
        json!({ "metadata": { "name": name }, "versions": versions })
    }

    fn group_list(&self) -> Value {
        let groups: Vec<Value> =
            self.groups().iter().map(|(name, versions)| api_group(name, versions)).collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    fn group_versions(&self, name: &str) -> Option<Value> {
        let groups = self.groups();
        let (_, versions) = groups.iter().find(|(group, _)| *group == name)?;
        let mut group = api_group(name, versions);
        json_fields::set(&mut group, &["kind"], "APIGroup");
        json_fields::set(&mut group, &["apiVersion"], "v1");
        Some(group)
    }

    fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let is_metrics_api = self.is_metrics_api(group, version);
        let resources: Vec<Value> = if is_metrics_api {
            metrics_provider::resources(group)
        } else {
            served_resources(self.state, group, version)
                .flat_map(|(resource, served)| api_resources(resource, served))
                .collect()
        };
        let exists = is_metrics_api || !resources.is_empty();
        exists.then(|| {
            let group_version = api_version(group, version);
            json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
                "resources": resources,
            })
        })
    }
}

fn aggregated_list(groups: Vec<Value>) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups,
    })
}

/// The resources of a group that have this version, each with that version.
fn served_resources<'a>(
    state: &'a State,
    group: &str,
    version: &str,
) -> impl Iterator<Item = (&'a Resource, &'a Version)> {
    let in_group = state.registry.iter().filter(move |resource| resource.group == group);
    in_group.filter_map(move |resource| Some((&**resource, resource.version(version)?)))
}

/// Converts the `APIResource` entries of a resource and of its subresources. `group` and `version`
/// apply to entries without their own.
fn aggregated_resource(entries: &[Value], group: &str, version: &str) -> Value {
    let Some((main, subresources)) = entries.split_first() else { return Value::Null };
    let response_kind = |entry: &Value| {
        let (group, version) = match json_fields::str_at(entry, "/group") {
            "" => (group, version),
            group => (group, json_fields::str_at(entry, "/version")),
        };
        json!({ "group": group, "version": version, "kind": entry.get("kind") })
    };
    let is_namespaced = main.get("namespaced").and_then(Value::as_bool) == Some(true);
    let mut aggregated = json!({
        "resource": main.get("name"), "responseKind": response_kind(main),
        "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": main.get("singularName"), "verbs": main.get("verbs"),
    });
    json_fields::copy(main, &mut aggregated, &["shortNames"]);
    json_fields::copy(main, &mut aggregated, &["categories"]);
    let subresource = |entry: &Value| {
        let name = json_fields::str_at(entry, "/name").rsplit('/').next();
        let kind = response_kind(entry);
        json!({ "subresource": name, "responseKind": kind, "verbs": entry.get("verbs") })
    };
    if !subresources.is_empty() {
        let subresources: Vec<Value> = subresources.iter().map(subresource).collect();
        json_fields::set(&mut aggregated, &["subresources"], subresources);
    }
    aggregated
}

fn core_versions() -> Value {
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
}

fn api_group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": api_version(name, version), "version": version }))
        .collect();
    json!({ "name": name, "versions": versions, "preferredVersion": versions.first() })
}

/// Adds the metrics that the provider lists, if the group belongs to a metrics API.
fn add_listed_metrics(server: &Server, group: &str, list: &mut Value) {
    let Some(provider) = &server.config.metrics else { return };
    if !metrics_provider::is_metrics_group(group) {
        return;
    }
    let names = provider.listed_metrics(group);
    if let Some(Value::Array(resources)) = list.get_mut("resources") {
        resources.extend(names.iter().map(|name| {
            json!({
                "name": name, "singularName": "", "namespaced": true, "kind": "MetricValueList",
                "verbs": ["get"],
            })
        }));
    }
}

/// The `APIResource` entries of a resource and of its subresources.
fn api_resources(resource: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural, "singularName": resource.singular, "kind": resource.kind,
        "namespaced": resource.namespaced, "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        json_fields::set(&mut main, &["shortNames"], resource.short_names.clone());
    }
    if !resource.categories.is_empty() {
        json_fields::set(&mut main, &["categories"], resource.categories.clone());
    }
    let mut entries = vec![main];
    if version.scale.is_some() {
        entries.push(json!({
            "name": format!("{}/scale", resource.plural), "singularName": "", "kind": "Scale",
            "group": "autoscaling", "version": "v1", "namespaced": resource.namespaced,
            "verbs": SUBRESOURCE_VERBS,
        }));
    }
    if version.has_status {
        entries.push(json!({
            "name": format!("{}/status", resource.plural), "singularName": "",
            "kind": resource.kind, "namespaced": resource.namespaced, "verbs": SUBRESOURCE_VERBS,
        }));
    }
    entries
}

/// The index of OpenAPI documents, one for each group and version except the metrics APIs.
fn openapi_index(state: &State) -> Value {
    let mut paths = Map::new();
    for resource in state.registry.iter() {
        for version in &resource.versions {
            let path = group_version_path(&resource.group, &version.name);
            paths.insert(
                path.clone(),
                json!({ "serverRelativeURL": format!("/openapi/v3/{path}") }),
            );
        }
    }
    json!({ "paths": paths })
}

fn group_version_path(group: &str, version: &str) -> String {
    let prefix = if group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", api_version(group, version))
}

/// The OpenAPI document of a group and version. `None` if it has no resources.
fn openapi_document(state: &State, group: &str, version: &str) -> Option<Value> {
    let mut paths = json!({});
    let mut kinds = Vec::new();
    for (resource, served) in served_resources(state, group, version) {
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let prefix = group_version_path(group, version);
        let path = format!("/{prefix}{scope}/{}/{{name}}", resource.plural);
        json_fields::set(&mut paths, &[&path, "patch"], patch_operation(resource, version));
        let crd_schema = served.schema.as_ref();
        kinds.push(DocumentedKind { group, version, kind: &resource.kind, crd_schema });
    }
    (!kinds.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": "" },
            "paths": paths,
            "components": { "schemas": schemas(&kinds) },
        })
    })
}

fn patch_operation(resource: &Resource, version: &str) -> Value {
    let parameter =
        |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string" } });
    json!({
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group, "version": version, "kind": resource.kind,
        },
        "parameters": [
            parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"),
        ],
        "responses": {},
    })
}
