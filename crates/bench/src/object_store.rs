//! The API server in which objects are created.

use anyhow::{Context as _, Result};
use hpa_testbed::Testbed;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::Value;

use crate::objects;

#[derive(Clone)]
pub(crate) enum ObjectStore {
    /// In this process. Accepts an object together with its status.
    Testbed(Testbed),
    /// Needs separate requests for an object and its status.
    Dedicated(Client),
    /// The same, of a cluster that also runs other workloads and controllers.
    Shared(Client),
}

impl ObjectStore {
    /// Creates an object with its status.
    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let (client, object) = match self {
            Self::Testbed(testbed) => {
                testbed.apply(object)?;
                return Ok(());
            }
            Self::Dedicated(client) => (client, object),
            Self::Shared(client) => (client, objects::inert(object)),
        };
        let has_status = object.get("status").is_some();
        let object: DynamicObject = serde_json::from_value(object)?;
        let (name, namespace) = (object.metadata.name.clone(), object.metadata.namespace.clone());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let types = object.types.clone().context("the object has no kind")?;
        let api = api(client, &GroupVersionKind::try_from(&types)?, &namespace);
        let what = || format!("cannot create {} {namespace}/{name}", types.kind);
        api.create(&PostParams::default(), &object).await.with_context(what)?;
        if has_status {
            // Without a resource version, because nothing else writes the new object.
            api.replace_status(&name, &PostParams::default(), &object).await.with_context(what)?;
        }
        Ok(())
    }

    pub(crate) fn deployments(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(&GroupVersionKind::gvk("apps", "v1", "Deployment"), namespace)
    }

    /// Deletes a pod immediately, because no kubelet would end it after its grace period.
    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let pods = self.api(&GroupVersionKind::gvk("", "v1", "Pod"), namespace);
        pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    fn api(&self, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
        match self {
            Self::Testbed(testbed) => api(&testbed.client(), kind, namespace),
            Self::Dedicated(client) | Self::Shared(client) => api(client, kind, namespace),
        }
    }
}

/// Returns the API of a kind, in all namespaces if `namespace` is empty.
pub(crate) fn api(client: &Client, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(kind);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}
