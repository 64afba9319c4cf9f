//! Creates namespaces in a running cluster, and deletes them at the end.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, stream};
use http::header::CONTENT_TYPE;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, PostParams, Preconditions},
    core::GroupVersionKind,
};
use serde_json::json;
use tokio::time::sleep;

use super::{
    cluster::Cluster,
    listener::{ProgressTimer, print_progress},
};
use crate::{objects, objects::api};

/// Group, version and kind.
type Gvk = (&'static str, &'static str, &'static str);

/// Namespaces that are deleted concurrently.
const CONCURRENCY: usize = 8;
/// Deadline for the cluster to delete an almost empty namespace.
const DELETION_TIMEOUT: Duration = Duration::from_mins(5);
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The kinds that `hpa-bench` and a controller create, in the order of their deletion. Autoscalers
/// are first, because they refer to the others.
const CONTENT: [Gvk; 5] = [
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "Pod"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Event"),
];
/// The kinds that kube-controller-manager creates in each namespace.
const CREATED_BY_CLUSTER: [Gvk; 2] = [("", "v1", "ServiceAccount"), ("", "v1", "ConfigMap")];

pub(super) struct Namespaces {
    client: Client,
    names: Vec<String>,
    created: Vec<CreatedNamespace>,
}

/// A namespace that this process created.
struct CreatedNamespace {
    name: String,
    uid: String,
}

impl Namespaces {
    pub(super) fn new(client: Client, names: Vec<String>) -> Self {
        Self { client, names, created: Vec::new() }
    }

    /// Fails if one of the namespaces exists, because its objects must not be deleted.
    pub(super) async fn ensure_absent(&self) -> Result<()> {
        let api = self.namespaces();
        for name in &self.names {
            let found = api
                .get_opt(name)
                .await
                .with_context(|| format!("cannot read the namespace {name}"))?;
            ensure!(
                found.is_none(),
                "the namespace {name} exists already. Delete it if it is not needed"
            );
        }
        Ok(())
    }

    /// Creates the namespaces, each with the service account of its pods.
    pub(super) async fn create(&mut self, cluster: &Cluster) -> Result<()> {
        let api = self.namespaces();
        for name in &self.names {
            ensure!(!cluster.is_stopped(), "stopped before all namespaces were created");
            let object = serde_json::from_value(objects::make_inert(objects::namespace(name)))?;
            let created = api.create(&PostParams::default(), &object).await;
            let created = created.with_context(|| format!("cannot create the namespace {name}"))?;
            let uid = created.uid().context("the created namespace has no UID")?;
            self.created.push(CreatedNamespace { name: name.clone(), uid });
            cluster.object_api.create(objects::service_account(name)).await?;
        }
        Ok(())
    }

    /// Deletes the created namespaces with their objects, and waits until they are gone.
    pub(super) async fn delete(&mut self) -> Result<()> {
        let created = std::mem::take(&mut self.created);
        if created.is_empty() {
            return Ok(());
        }
        // Printing fails if the parent process is gone. The objects must be deleted even then.
        let _ = print_progress(&format!("deleting {} namespaces", created.len()));
        let (begin, mut timer, mut errors) = (Instant::now(), ProgressTimer::new(), Vec::new());
        let deletions = stream::iter(&created).map(|one| self.delete_one(one));
        let mut deleted = deletions.buffer_unordered(CONCURRENCY).enumerate();
        while let Some((index, result)) = deleted.next().await {
            errors.extend(result.err().map(|error| format!("{error:#}")));
            if timer.restart_if_due() {
                let _ = print_progress(&format!(
                    "{} of {} namespaces deleted",
                    index + 1,
                    created.len()
                ));
            }
        }
        ensure!(errors.is_empty(), "some objects were not deleted:\n{}", errors.join("\n"));
        let _ = print_progress(&format!("deleted after {:.1?}", begin.elapsed()));
        Ok(())
    }

    async fn delete_one(&self, created: &CreatedNamespace) -> Result<()> {
        let deleted = self.delete_with_content(created).await;
        deleted.with_context(|| format!("cannot delete the namespace {}", created.name))
    }

    async fn delete_with_content(
        &self,
        CreatedNamespace { name, uid }: &CreatedNamespace,
    ) -> Result<()> {
        let has_namespace_controller = self.has_namespace_controller(name).await?;
        let same_uid = Preconditions { uid: Some(uid.clone()), resource_version: None };
        // The namespace is deleted before its objects, so that it accepts no new ones.
        match self.namespaces().delete(name, &DeleteParams::default().preconditions(same_uid)).await
        {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            deleted => _ = deleted?,
        }
        self.delete_content(name).await?;
        if !has_namespace_controller {
            return self.finalize(name, uid).await;
        }
        let deadline = Instant::now() + DELETION_TIMEOUT;
        while self.remaining(name, uid).await?.is_some() {
            ensure!(
                Instant::now() < deadline,
                "the namespace is still terminating after {DELETION_TIMEOUT:?}"
            );
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns whether the cluster has the controllers for namespaces. Without
    /// kube-controller-manager, a new namespace has no default service account and no `ConfigMap`,
    /// and its deletion is never finished.
    async fn has_namespace_controller(&self, namespace: &str) -> Result<bool> {
        for kind in CREATED_BY_CLUSTER {
            let found = self.api(kind, namespace).list(&ListParams::default()).await?;
            if found.iter().any(|object| object.name_any() != objects::SERVICE_ACCOUNT) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the objects in a namespace.
    async fn delete_content(&self, namespace: &str) -> Result<()> {
        for kind in CONTENT {
            let api = self.api(kind, namespace);
            // No kubelet would end the pods after their grace period.
            let without_grace = DeleteParams::default().grace_period(0);
            let deleted = api.delete_collection(&without_grace, &ListParams::default()).await;
            deleted.with_context(|| format!("cannot delete its {}s", kind.2))?;
            let remains = api.list(&ListParams::default().limit(1)).await?;
            if let Some(object) = remains.items.first() {
                bail!("{} {} was not deleted", kind.2, object.name_any());
            }
        }
        Ok(())
    }

    /// Finishes the deletion of an empty namespace, as the namespace controller would.
    async fn finalize(&self, name: &str, uid: &str) -> Result<()> {
        let Some(mut namespace) = self.remaining(name, uid).await? else { return Ok(()) };
        if let Some(spec) = namespace.data.get_mut("spec") {
            *spec = json!({ "finalizers": [] });
        }
        let request = http::Request::put(format!("/api/v1/namespaces/{name}/finalize"));
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&namespace)?)?;
        self.client.request_text(request).await.context("cannot finalize it")?;
        Ok(())
    }

    /// Returns the namespace, unless it is gone or was re-created with another UID.
    async fn remaining(&self, name: &str, uid: &str) -> Result<Option<DynamicObject>> {
        let found = self.namespaces().get_opt(name).await?;
        Ok(found.filter(|namespace| namespace.metadata.uid.as_deref() == Some(uid)))
    }

    fn namespaces(&self) -> Api<DynamicObject> {
        self.api(("", "v1", "Namespace"), "")
    }

    fn api(&self, (group, version, kind): Gvk, namespace: &str) -> Api<DynamicObject> {
        api(&self.client, &GroupVersionKind::gvk(group, version, kind), namespace)
    }
}
