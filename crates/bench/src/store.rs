//! Where the objects of the cluster are kept.

use anyhow::{Context as _, Result};
use hpa_testbed::Testbed;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::Value;

use crate::objects;

/// An API server that objects are created in.
#[derive(Clone)]
pub(crate) enum Store {
    /// One in this process, which takes an object with its status.
    Testbed(Testbed),
    /// One that is asked over the network, for the object and then for its status.
    Api(Client),
    /// The same, but of a cluster that others use and work on too.
    Shared(Client),
}

impl Store {
    /// Creates an object that is not there, and makes its status what is given.
    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let (client, object) = match self {
            Self::Testbed(testbed) => {
                testbed.apply(object)?;
                return Ok(());
            }
            Self::Api(client) => (client, object),
            Self::Shared(client) => (client, objects::harmless(object)),
        };
        let has_status = object.get("status").is_some();
        let object: DynamicObject = serde_json::from_value(object)?;
        let (name, namespace) = (object.metadata.name.clone(), object.metadata.namespace.clone());
        let (name, namespace) = (name.unwrap_or_default(), namespace.unwrap_or_default());
        let types = object.types.clone().context("it has no kind")?;
        let api = api(client, &GroupVersionKind::try_from(&types)?, &namespace);
        let what = || format!("cannot create {} {namespace}/{name}", types.kind);
        api.create(&PostParams::default(), &object).await.with_context(what)?;
        if has_status {
            // Whatever the version: it is new, and nobody else writes it.
            api.replace_status(&name, &PostParams::default(), &object).await.with_context(what)?;
        }
        Ok(())
    }

    pub(crate) fn deployments(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(&GroupVersionKind::gvk("apps", "v1", "Deployment"), namespace)
    }

    /// Deletes a pod at once: there is no kubelet that ends it in good time.
    pub(crate) async fn delete_pod(&self, namespace: &str, name: &str) -> Result<()> {
        let pods = self.api(&GroupVersionKind::gvk("", "v1", "Pod"), namespace);
        pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    fn api(&self, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
        match self {
            Self::Testbed(testbed) => api(&testbed.client(), kind, namespace),
            Self::Api(client) | Self::Shared(client) => api(client, kind, namespace),
        }
    }
}

/// The API of a kind, in a namespace if one is named.
pub(crate) fn api(client: &Client, kind: &GroupVersionKind, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(kind);
    match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}
