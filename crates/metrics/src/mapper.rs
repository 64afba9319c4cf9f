//! The resources of the API server, from its discovery.

mod aggregated;
#[cfg(test)]
mod tests;

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use hpa_calc::{explain::list_first, report::error_texts::RESOURCES_NOT_READ};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};
use kube::{
    client::Body,
    core::{Status, discovery::v2::ACCEPT_AGGREGATED_DISCOVERY_V2},
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use self::aggregated::{Discovery, GroupList};
use crate::{
    DecodeError, decode_json, describe,
    resource::{ApiResource, ApiResources, GroupResource},
};

/// The maximum size of a response in bytes, after decompression. A cluster with a thousand custom
/// resources needs a few MiB.
const MAX_BODY_BYTES: usize = 64 << 20;

/// The maximum number of undecodable groups and versions in a log line.
const MAX_LOGGED_PROBLEMS: usize = 5;

const JSON: &str = "application/json";

/// Loads the resources of an API server.
#[async_trait]
pub trait ResourceMapper: Send + Sync {
    /// The resources, in the order of discovery.
    async fn load(&self) -> Result<ApiResources, MapperError>;
}

/// The error of loading the resources.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", RESOURCES_NOT_READ)]
pub struct MapperError(#[source] pub Arc<dyn Error + Send + Sync>);

impl From<kube::Error> for MapperError {
    fn from(error: kube::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<ResponseError> for MapperError {
    fn from(error: ResponseError) -> Self {
        Self(Arc::new(error))
    }
}

/// The reason why a response can't be used.
#[derive(Debug, thiserror::Error)]
enum ResponseError {
    #[error("the response to {path} is longer than {limit} bytes")]
    TooLong { path: String, limit: usize },
    #[error("the response to {path} was cut off")]
    Body {
        path: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error("unable to decode the response to {path}")]
    Decode {
        path: String,
        #[source]
        cause: DecodeError,
    },
}

/// Reads the discovery of an API server. This takes two requests. If the server is older than
/// Kubernetes 1.27, it takes three, and one for each version of each group, including the core
/// group.
///
/// A group or version that can't be decoded is left out and logged: any aggregated API server could
/// otherwise hide the resources of all others.
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
        let core = self.read_groups("/api").await?;
        if core.is_empty() {
            return self.load_each_version().await;
        }
        let groups = self.read_groups("/apis").await?;
        let mut discovery = Discovery::default();
        for group in core.iter().chain(&groups) {
            discovery.add_group(group);
        }
        let Discovery { resources, problems } = discovery;
        if !problems.is_empty() {
            // Printed with `%`: the problems quote values, and the log would escape the quotes.
            let error = list_first(&problems, MAX_LOGGED_PROBLEMS, "; ");
            tracing::warn!(%error, "unable to decode parts of the API server's discovery");
        }
        Ok(ApiResources::new(resources))
    }
}

impl DiscoveryMapper {
    /// The groups of the aggregated discovery at a path. Empty if the API server is too old.
    async fn read_groups(&self, path: &str) -> Result<Vec<Box<RawValue>>, MapperError> {
        let list: GroupList = self.read(path, ACCEPT_AGGREGATED_DISCOVERY_V2).await?;
        Ok(list.items)
    }

    async fn load_each_version(&self) -> Result<ApiResources, MapperError> {
        let mut resources = Vec::new();
        let core: APIVersions = self.read("/api", JSON).await?;
        for version in core.versions {
            let list = self.read(&format!("/api/{version}"), JSON).await?;
            add_list(&mut resources, "", &version, list);
        }
        let groups: APIGroupList = self.read("/apis", JSON).await?;
        for group in groups.groups {
            let preferred = group.preferred_version.as_ref().map(|version| &version.version);
            let mut versions: Vec<_> =
                group.versions.iter().map(|version| &version.version).collect();
            versions.sort_by_key(|version| Some(*version) != preferred);
            for version in versions {
                let api_version = format!("{}/{version}", group.name);
                match self.read(&format!("/apis/{api_version}"), JSON).await {
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

    async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &'static str,
    ) -> Result<T, MapperError> {
        let request = Request::get(path).header(header::ACCEPT, accept).body(Body::empty());
        let response = self.0.send(request.map_err(kube::Error::HttpError)?).await?;
        let code = response.status();
        let body = read_body(path, response.into_body(), MAX_BODY_BYTES).await?;
        if !code.is_success() {
            return Err(status_error(code, &body).into());
        }
        let decoded = decode_json(&String::from_utf8_lossy(&body));
        Ok(decoded.map_err(|cause| ResponseError::Decode { path: path.to_owned(), cause })?)
    }
}

async fn read_body(path: &str, body: Body, limit: usize) -> Result<Vec<u8>, ResponseError> {
    let path = path.to_owned();
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(ResponseError::TooLong { path, limit }),
        Err(cause) => Err(ResponseError::Body { path, cause }),
    }
}

/// The error of a response, as kube builds it.
fn status_error(code: StatusCode, body: &[u8]) -> kube::Error {
    let status = serde_json::from_slice(body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), "Failed to parse error data").with_code(code.as_u16())
    });
    kube::Error::Api(Box::new(status))
}

fn add_list(resources: &mut Vec<ApiResource>, group: &str, version: &str, list: APIResourceList) {
    // The name of a subresource has a slash.
    let all = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
    resources.extend(all.map(|resource| {
        api_resource(group, version, &resource.name, &resource.kind, resource.singular_name)
    }));
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
