//! The resources of the API server, from its discovery.

use std::{error::Error, sync::Arc};

use crate::{
    describe,
    resource::{ApiResource, ApiResources, GroupResource},
};
use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::discovery::v2::{APIGroupDiscovery, APIResourceDiscovery};

/// Loads the resources of an API server.
#[async_trait]
pub trait ResourceMapper: Send + Sync {
    /// The resources, in the order of discovery.
    async fn load(&self) -> Result<ApiResources, MapperError>;
}

/// The error of loading the resources.
#[derive(Clone, Debug, thiserror::Error)]
#[error("unable to read the resources of the API server")]
pub struct MapperError(#[source] pub Arc<dyn Error + Send + Sync>);

impl From<kube::Error> for MapperError {
    fn from(error: kube::Error) -> Self {
        Self(Arc::new(error))
    }
}

/// Reads the discovery of an API server. This takes two requests. If the server is older than
/// Kubernetes 1.27, it takes three, and one for each version of each group, including the core
/// group.
#[derive(Clone)]
pub struct DiscoveryMapper(pub kube::Client);

/// A mapper that returns the same resources on each call.
#[derive(Clone, Debug, Default)]
pub struct FixedMapper(pub ApiResources);

#[async_trait]
impl ResourceMapper for FixedMapper {
    async fn load(&self) -> Result<ApiResources, MapperError> {
        Ok(self.0.clone())
    }
}

#[async_trait]
impl ResourceMapper for DiscoveryMapper {
    async fn load(&self) -> Result<ApiResources, MapperError> {
        let core = self.0.list_core_api_versions_aggregated().await?;
        if core.items.is_empty() {
            return self.load_each_version().await;
        }
        let groups = self.0.list_api_groups_aggregated().await?;
        let all = core.items.into_iter().chain(groups.items);
        Ok(ApiResources::new(all.flat_map(resources_of_group)))
    }
}

impl DiscoveryMapper {
    async fn load_each_version(&self) -> Result<ApiResources, MapperError> {
        let mut resources = Vec::new();
        for version in self.0.list_core_api_versions().await?.versions {
            let list = self.0.list_core_api_resources(&version).await?;
            add_list(&mut resources, "", &version, list);
        }
        for group in self.0.list_api_groups().await?.groups {
            let preferred = group.preferred_version.as_ref().map(|version| &version.version);
            let mut versions: Vec<_> =
                group.versions.iter().map(|version| &version.version).collect();
            versions.sort_by_key(|version| Some(*version) != preferred);
            for version in versions {
                let api_version = format!("{}/{version}", group.name);
                match self.0.list_api_group_resources(&api_version).await {
                    Ok(list) => add_list(&mut resources, &group.name, version, list),
                    // An aggregated API server that is down must not hide the other resources.
                    Err(error) => tracing::debug!(
                        api_version,
                        error = describe(&error),
                        "unable to read the resources of an API version"
                    ),
                }
            }
        }
        Ok(ApiResources::new(resources))
    }
}

fn add_list(resources: &mut Vec<ApiResource>, group: &str, version: &str, list: APIResourceList) {
    for resource in list.resources {
        let is_known = resources.iter().any(|known: &ApiResource| {
            known.group_resource.group == group && known.group_resource.resource == resource.name
        });
        let is_subresource = resource.name.contains('/');
        if is_known || is_subresource {
            continue;
        }
        let singular = resource.singular_name;
        resources.push(api_resource(group, version, &resource.name, &resource.kind, singular));
    }
}

/// The resources of all versions of a group. If several versions have a resource, the first one
/// counts.
fn resources_of_group(group: APIGroupDiscovery) -> Vec<ApiResource> {
    let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
    let mut resources: Vec<ApiResource> = Vec::new();
    for version in group.versions {
        let version_name = version.version.unwrap_or_default();
        for APIResourceDiscovery { resource, response_kind, singular_resource, .. } in
            version.resources
        {
            let plural = resource.unwrap_or_default();
            if resources.iter().any(|known| known.group_resource.resource == plural) {
                continue;
            }
            let kind = response_kind.and_then(|kind| kind.kind).unwrap_or_default();
            let singular = singular_resource.unwrap_or_default();
            resources.push(api_resource(&name, &version_name, &plural, &kind, singular));
        }
    }
    resources
}

fn api_resource(
    group: &str,
    version: &str,
    plural: &str,
    kind: &str,
    singular: String,
) -> ApiResource {
    ApiResource {
        group_resource: GroupResource::new(group, plural),
        version: version.to_owned(),
        kind: kind.to_owned(),
        // Old servers don't report the singular name.
        singular: if singular.is_empty() { kind.to_lowercase() } else { singular },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_version_of_a_group_counts() {
        let group = serde_json::json!({
            "metadata": { "name": "apps" },
            "versions": [
                { "version": "v1", "resources": [{
                    "resource": "deployments", "singularResource": "deployment",
                    "responseKind": { "group": "", "version": "", "kind": "Deployment" } }] },
                { "version": "v1beta1", "resources": [
                    { "resource": "deployments", "singularResource": "deployment" },
                    { "resource": "widgets", "responseKind": {
                        "group": "", "version": "", "kind": "Widget" } }] },
            ],
        });
        let resources = resources_of_group(serde_json::from_value(group).unwrap());
        let resources = ApiResources::new(resources);
        let deployments = resources.resolve("", "deployment").unwrap();
        assert_eq!((&*deployments.version, &*deployments.kind), ("v1", "Deployment"));
        let widgets = resources.resolve("apps", "widget").unwrap();
        assert_eq!((&*widgets.version, &*widgets.singular), ("v1beta1", "widget"));
    }
}
