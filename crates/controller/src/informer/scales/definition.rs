//! Reads the paths of custom resources' scales from their definitions.

use std::{future::pending, time::Duration};

use hpa_metrics::describe;
use kube::Client;
use serde::Deserialize;
use tokio::time::{sleep, timeout};
use tracing::{debug, info};

use super::{
    MIN_RETRY_DELAY, next_retry_delay,
    scale_paths::{ScalePaths, SelectorField, split_path},
};
use crate::{cache::ScaleCache, scale_target::Mapping};

/// The maximum interval between two reads of a definition whose paths are in use.
const READ_INTERVAL: Duration = Duration::from_mins(10);

/// The needed fields of a `CustomResourceDefinition`.
#[derive(Debug, Deserialize)]
pub(super) struct Definition {
    spec: DefinitionSpec,
}

#[derive(Debug, Deserialize)]
struct DefinitionSpec {
    versions: Vec<DefinitionVersion>,
}

#[derive(Debug, Deserialize)]
struct DefinitionVersion {
    name: String,
    #[serde(default)]
    subresources: Option<Subresources>,
}

#[derive(Debug, Deserialize)]
struct Subresources {
    #[serde(default)]
    scale: Option<ScaleSubresource>,
}

#[derive(Debug, Deserialize)]
struct ScaleSubresource {
    #[serde(rename = "specReplicasPath")]
    spec_replicas: String,
    #[serde(rename = "statusReplicasPath")]
    status_replicas: String,
    #[serde(rename = "labelSelectorPath", default)]
    selector: Option<String>,
}

impl Definition {
    /// The scale paths of a version. `None` if it doesn't exist or has no scale subresource.
    pub(super) fn paths(&self, version: &str) -> Option<ScalePaths> {
        let version = self.spec.versions.iter().find(|entry| entry.name == version)?;
        let scale = version.subresources.as_ref()?.scale.as_ref()?;
        let selector = scale.selector.as_deref().filter(|path| !path.is_empty());
        Some(ScalePaths {
            spec_replicas: split_path(&scale.spec_replicas),
            status_replicas: split_path(&scale.status_replicas),
            selector: selector
                .map_or(SelectorField::None, |path| SelectorField::Text(split_path(path))),
        })
    }
}

/// Reads a kind's scale paths from its definition, and retries until that succeeds. It may never
/// succeed: kinds of aggregated APIs have no definition, and RBAC may forbid reading it. Until
/// then, each reconcile reads its target's scale. Waits forever for a kind of Kubernetes itself.
pub(super) async fn scale_paths(client: &Client, mapping: &Mapping) -> ScalePaths {
    if !may_have_definition(&mapping.group) {
        return pending().await;
    }
    let mut is_logged = false;
    let mut retry_delay = MIN_RETRY_DELAY;
    loop {
        match read_definition(client, mapping).await {
            Ok(definition) => {
                if let Some(paths) = definition.paths(&mapping.version) {
                    return paths;
                }
                debug!(kind = %mapping, "this version has no scale subresource in its definition");
            }
            Err(error) if !is_logged => {
                is_logged = true;
                let error = describe(&error);
                info!(
                    kind = %mapping,
                    error,
                    "unable to read the kind's definition: each reconcile reads the target's scale"
                );
            }
            Err(_) => {}
        }
        sleep(retry_delay).await;
        retry_delay = next_retry_delay(retry_delay);
    }
}

/// Whether a group may have definitions. The API server refuses a definition whose group has no
/// dot. Kinds of Kubernetes itself, such as `DaemonSet` of `apps`, are in such groups.
fn may_have_definition(group: &str) -> bool {
    group.contains('.')
}

/// Waits until a kind's definition has other scale paths than `paths`. Reads the definition when a
/// response contradicts a cached scale, and also every [`READ_INTERVAL`], because not every change
/// of the paths leads to a contradiction. A definition can be a megabyte, so it isn't read more
/// often than every `min_interval`.
pub(super) async fn scale_paths_changed(
    client: &Client,
    mapping: &Mapping,
    paths: &ScalePaths,
    cache: &ScaleCache,
    min_interval: Duration,
) {
    loop {
        // After a contradiction during this sleep, `contradicted` returns at once.
        sleep(min_interval).await;
        let max_wait = READ_INTERVAL.saturating_sub(min_interval);
        _ = timeout(max_wait, cache.contradicted()).await;
        match read_definition(client, mapping).await {
            Ok(definition) if definition.paths(&mapping.version).as_ref() != Some(paths) => return,
            Ok(_) => {}
            Err(error) => {
                debug!(kind = %mapping, error = describe(&error), "unable to read the definition");
            }
        }
    }
}

async fn read_definition(client: &Client, mapping: &Mapping) -> Result<Definition, kube::Error> {
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}.{}",
        mapping.resource, mapping.group
    );
    let request = http::Request::get(path).body(Vec::new());
    client.request(request.map_err(kube::Error::HttpError)?).await
}

#[cfg(test)]
mod tests {
    use hpa_calc::selector::MAX_TEXT_BYTES;
    use serde_json::{Value, json};

    use super::*;
    use crate::k8s::PartialObject;

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
        let metadata = json!({ "name": "a", "namespace": "n" });
        let object = json!({ "metadata": metadata, "spec": spec, "status": status });
        let object: PartialObject = serde_json::from_value(object).expect("an object");
        let scale = paths().scale(&object)?.scale;
        Some((scale.spec_replicas, scale.status_replicas, scale.selector))
    }

    #[test]
    fn scale_is_read_from_the_paths_in_the_definition() {
        let status = json!({ "size": 2, "selector": "app=a" });
        assert_eq!(scale(json!({ "pool": { "size": 3 } }), status), Some((3, 2, "app=a".into())));
    }

    /// A JSON object nested this many levels deep.
    fn nested(levels: usize) -> String {
        "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels)
    }

    #[test]
    fn deeply_nested_object_has_a_scale_and_does_not_fail_its_list() {
        let deep = nested(500);
        let text = format!(
            r#"[{{ "metadata": {{ "name": "a", "namespace": "n" }},
                "spec": {{ "deep": {deep}, "pool": {{ "deep": {deep}, "size": 3 }} }},
                "status": {{ "size": 2, "selector": "app=a", "deep": {deep} }} }},
              {{ "metadata": {{ "name": "b", "namespace": "n" }},
                "spec": {{ "pool": {{ "size": {deep} }} }} }}]"#
        );
        let objects: Vec<PartialObject> = serde_json::from_str(&text).expect("a list");
        let scales: Vec<_> = objects
            .iter()
            .map(|object| paths().scale(object).map(|scale| scale.scale.spec_replicas))
            .collect();
        assert_eq!(scales, [Some(3), None]);
    }

    #[test]
    fn only_the_first_dot_of_a_path_is_ignored() {
        assert_eq!(split_path(".spec.size"), ["spec", "size"]);
        assert_eq!(split_path("spec.size"), ["spec", "size"]);
        assert_eq!(split_path("..size"), ["", "size"]);
    }

    #[test]
    fn definitions_of_builtin_kinds_are_not_requested() {
        assert!(!may_have_definition("apps") && !may_have_definition(""));
        assert!(may_have_definition("example.com"));
    }

    #[test]
    fn missing_status_means_zero_replicas_and_no_selector() {
        assert_eq!(
            scale(json!({ "pool": { "size": 3 } }), Value::Null),
            Some((3, 0, String::new()))
        );
    }

    #[test]
    fn scale_is_not_derived_from_missing_or_invalid_fields() {
        assert_eq!(scale(json!({ "pool": {} }), json!({})), None);
        assert_eq!(scale(json!({ "pool": { "size": "3" } }), json!({})), None);
        assert_eq!(scale(json!({ "pool": { "size": 3 } }), json!({ "size": 1.5 })), None);
        let pool = json!({ "pool": { "size": 3 } });
        assert_eq!(scale(pool.clone(), json!({ "selector": { "app": "a" } })), None);
        assert_eq!(scale(pool.clone(), json!("the status is no object")), None);
        assert_eq!(scale(pool, json!({ "selector": "x".repeat(MAX_TEXT_BYTES + 1) })), None);
    }
}
