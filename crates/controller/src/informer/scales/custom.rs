//! Custom resources: where their scale is, their definition tells.

use hpa_calc::api::Scale;
use hpa_metrics_client::describe;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::sleep;
use tracing::{debug, info};

use super::{
    RETRY_INTERVAL,
    workload::{PartialWorkload, ScalePaths, ScaleSource, replicas},
};
use crate::scale_target::{Mapping, ScaleObject};

/// A custom resource.
pub(super) type Custom = PartialWorkload<Value, Value>;

impl Custom {
    fn find(&self, path: &[String]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let begin = match first.as_str() {
            "spec" => &self.spec,
            "status" => &self.status,
            _ => return None,
        };
        rest.iter().try_fold(begin, |value, member| value.get(member))
    }
}

impl ScaleSource for Custom {
    fn metadata(&self) -> &meta::ObjectMeta {
        kube::Resource::meta(self)
    }

    fn scale(&self, paths: &ScalePaths) -> Option<ScaleObject> {
        let selector = match paths.selector.as_ref().and_then(|path| self.find(path)) {
            Some(selector) => selector.as_str()?,
            None => "",
        };
        Some(self.read(Scale {
            // Without them the API server refuses to tell the scale.
            spec_replicas: replicas(self.find(&paths.spec_replicas)?)?,
            status_replicas: match self.find(&paths.status_replicas) {
                Some(value) => replicas(value)?,
                None => 0,
            },
            selector: selector.to_owned(),
        }))
    }
}

/// What is read of a `CustomResourceDefinition`.
#[derive(Deserialize)]
struct Definition {
    spec: DefinitionSpec,
}

#[derive(Deserialize)]
struct DefinitionSpec {
    versions: Vec<DefinitionVersion>,
}

#[derive(Deserialize)]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    subresources: Option<Subresources>,
}

#[derive(Deserialize)]
struct Subresources {
    scale: Option<ScaleSubresource>,
}

#[derive(Deserialize)]
struct ScaleSubresource {
    #[serde(rename = "specReplicasPath")]
    spec_replicas: String,
    #[serde(rename = "statusReplicasPath")]
    status_replicas: String,
    #[serde(rename = "labelSelectorPath")]
    selector: Option<String>,
}

impl Definition {
    /// The paths of a version, if it has a scale.
    fn paths(&self, version: &str) -> Option<ScalePaths> {
        let version = self.spec.versions.iter().find(|one| one.name == version)?;
        let scale = version.subresources.as_ref()?.scale.as_ref()?;
        let selector = scale.selector.as_deref().filter(|path| !path.is_empty());
        Some(ScalePaths {
            spec_replicas: split(&scale.spec_replicas),
            status_replicas: split(&scale.status_replicas),
            selector: selector.map(split),
        })
    }
}

fn split(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(ToOwned::to_owned).collect()
}

/// Where a kind has its scale. Waits, for ever if need be, until its definition tells: a kind without one (of an aggregated
/// API), and one whose definition may not be read, has its scales read one by one.
pub(super) async fn scale_paths(client: &Client, mapping: &Mapping) -> ScalePaths {
    let mut is_told = false;
    loop {
        match read(client, mapping).await {
            Ok(definition) => {
                if let Some(paths) = definition.paths(&mapping.version) {
                    return paths;
                }
                debug!(kind = %mapping, "the definition has no scale in this version");
            }
            Err(error) if !is_told => {
                is_told = true;
                let error = describe(&error);
                info!(kind = %mapping, error, "no definition to read: scales of this kind are read one by one");
            }
            Err(_) => {}
        }
        sleep(RETRY_INTERVAL).await;
    }
}

async fn read(client: &Client, mapping: &Mapping) -> Result<Definition, kube::Error> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        mapping.resource, mapping.group
    );
    let request = http::Request::get(path).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn paths() -> ScalePaths {
        let definition: Definition = serde_json::from_value(json!({ "spec": { "versions": [
            { "name": "v1" },
            { "name": "v2", "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.pool.size",
                "statusReplicasPath": ".status.size",
                "labelSelectorPath": ".status.selector",
            } } },
        ] } }))
        .expect("a definition");
        assert_eq!(definition.paths("v1"), None);
        definition.paths("v2").expect("a scale")
    }

    fn scale(spec: Value, status: Value) -> Option<(i32, i32, String)> {
        let object = json!({ "metadata": { "name": "a", "namespace": "n" }, "spec": spec, "status": status });
        let object: Custom = serde_json::from_value(object).expect("an object");
        let scale = object.scale(&paths())?.scale;
        Some((scale.spec_replicas, scale.status_replicas, scale.selector))
    }

    #[test]
    fn scale_is_where_the_definition_says() {
        let status = json!({ "size": 2, "selector": "app=a" });
        assert_eq!(scale(json!({ "pool": { "size": 3 } }), status), Some((3, 2, "app=a".into())));
    }

    #[test]
    fn status_that_is_not_there_yet_has_no_replicas_and_no_selector() {
        assert_eq!(
            scale(json!({ "pool": { "size": 3 } }), Value::Null),
            Some((3, 0, String::new()))
        );
    }

    #[test]
    fn spec_without_replicas_or_with_odd_ones_is_left_to_the_api_server() {
        assert_eq!(scale(json!({ "pool": {} }), json!({})), None);
        assert_eq!(scale(json!({ "pool": { "size": "3" } }), json!({})), None);
        assert_eq!(scale(json!({ "pool": { "size": 3 } }), json!({ "size": 1.5 })), None);
        assert_eq!(
            scale(json!({ "pool": { "size": 3 } }), json!({ "selector": { "app": "a" } })),
            None
        );
    }
}
