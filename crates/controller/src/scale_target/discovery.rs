//! Discovery: the resources of an API group.

use std::time::Duration;

use hpa_metrics::percent_encode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResourceList, APIVersions};
use kube::Client;
use serde::de::DeserializeOwned;

use super::mapping::{Mapping, api_root};
use crate::k8s::{ApiRequest, ApiRequestError};

/// The resources of one API group.
#[derive(Debug, Default)]
pub(super) struct GroupResources {
    /// All resources of all versions, those of the preferred version first.
    pub(super) mappings: Vec<Mapping>,
    /// The last error of a version whose resources could not be read.
    pub(super) version_error: Option<ApiRequestError>,
}

impl GroupResources {
    /// The mappings of a kind. As in client-go, the kind may be in lower case.
    pub(super) fn mappings_for(&self, kind: &str) -> Vec<Mapping> {
        let serves_kind =
            |mapping: &&Mapping| *mapping.kind == *kind || mapping.kind.to_lowercase() == *kind;
        self.mappings.iter().filter(serves_kind).cloned().collect()
    }
}

/// Requests the versions of a group, then the resources of each version. A group that the API
/// server doesn't serve has no resources.
pub(super) async fn discover(
    client: &Client,
    timeout: Duration,
    group: &str,
) -> Result<GroupResources, ApiRequestError> {
    let versions = match read_versions(client, timeout, group).await {
        Ok(versions) => versions,
        Err(error) if error.is_not_found() => return Ok(GroupResources::default()),
        Err(error) => return Err(error),
    };
    let mut resources = GroupResources::default();
    let lists = futures::future::join_all(versions.iter().map(|version| {
        let path = api_root(group, version);
        get::<APIResourceList>(client, timeout, path)
    }));
    for (version, list) in versions.iter().zip(lists.await) {
        match list {
            Ok(list) => resources.mappings.extend(mappings(group, version, list)),
            // For example, the extension server of this version is down. Other versions are usable.
            Err(error) => resources.version_error = Some(error),
        }
    }
    Ok(resources)
}

/// The versions of a group, the preferred one first.
async fn read_versions(
    client: &Client,
    timeout: Duration,
    group: &str,
) -> Result<Vec<String>, ApiRequestError> {
    if group.is_empty() {
        return Ok(get::<APIVersions>(client, timeout, "/api".to_owned()).await?.versions);
    }
    let path = format!("/apis/{}", percent_encode(group));
    let APIGroup { versions, preferred_version, .. } = get(client, timeout, path).await?;
    let preferred = preferred_version.map(|preferred| preferred.version);
    let mut versions: Vec<String> = versions.into_iter().map(|version| version.version).collect();
    versions.sort_by_key(|version| Some(version) != preferred.as_ref());
    Ok(versions)
}

fn mappings(group: &str, version: &str, list: APIResourceList) -> impl Iterator<Item = Mapping> {
    // A name with a slash is a subresource.
    let resources = list.resources.into_iter();
    let resources =
        resources.filter(|resource| !resource.name.is_empty() && !resource.name.contains('/'));
    resources.map(move |resource| Mapping {
        group: group.into(),
        version: version.into(),
        kind: resource.kind.into(),
        resource: resource.name.into(),
        namespaced: resource.namespaced,
    })
}

async fn get<T: DeserializeOwned>(
    client: &Client,
    timeout: Duration,
    path: String,
) -> Result<T, ApiRequestError> {
    ApiRequest::get(client, timeout, path).send().await
}
