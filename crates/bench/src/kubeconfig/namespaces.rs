//! The namespaces that are created in a cluster, and that have to be gone in the end.

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

use crate::{
    cluster::Cluster,
    objects,
    populate::{TELL, say},
    store::api,
};

/// Group, version and kind.
type Kind = (&'static str, &'static str, &'static str);

/// How many namespaces are deleted at the same time.
const CONCURRENCY: usize = 8;
/// How long a cluster may take to delete a namespace that is all but empty.
const DELETION: Duration = Duration::from_mins(5);
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// What is created in a namespace, and what a controller creates there. Autoscalers first: they need the rest.
const CONTENT: [Kind; 5] = [
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "Pod"),
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Event"),
];
/// What a cluster creates in each namespace of its own accord, if it has the controllers for that.
const OF_THE_CLUSTER: [Kind; 2] = [("", "v1", "ServiceAccount"), ("", "v1", "ConfigMap")];

/// Namespaces by name.
pub(super) struct Namespaces {
    client: Client,
    names: Vec<String>,
    created: Vec<Created>,
}

/// A namespace that is ours.
struct Created {
    name: String,
    uid: String,
}

impl Namespaces {
    pub(super) fn new(client: Client, names: Vec<String>) -> Self {
        Self { client, names, created: Vec::new() }
    }

    /// What is in a namespace that exists is not ours to delete.
    pub(super) async fn ensure_absent(&self) -> Result<()> {
        let api = self.all();
        for name in &self.names {
            let found = api
                .get_opt(name)
                .await
                .with_context(|| format!("cannot read the namespace {name}"))?;
            ensure!(
                found.is_none(),
                "the namespace {name} exists already: it has to be deleted first, if nobody needs it"
            );
        }
        Ok(())
    }

    /// Creates them, each with the service account of its pods.
    pub(super) async fn create(&mut self, cluster: &Cluster) -> Result<()> {
        let api = self.all();
        for name in &self.names {
            ensure!(!cluster.is_stopped(), "told to end before all namespaces were created");
            let object = serde_json::from_value(objects::harmless(objects::namespace(name)))?;
            let created = api.create(&PostParams::default(), &object).await;
            let created = created.with_context(|| format!("cannot create the namespace {name}"))?;
            let uid = created.uid().context("a namespace without a uid")?;
            self.created.push(Created { name: name.clone(), uid });
            cluster.store.create(objects::service_account(name)).await?;
        }
        Ok(())
    }

    /// Deletes those that were created with all that is in them, and waits until they are gone.
    pub(super) async fn remove(&mut self) -> Result<()> {
        let created = std::mem::take(&mut self.created);
        if created.is_empty() {
            return Ok(());
        }
        // Whoever listened may be gone, which is no reason to leave something behind.
        let _ = say(&format!("deleting {} namespaces", created.len()));
        let (begin, mut told, mut remain) = (Instant::now(), Instant::now(), Vec::new());
        let deletions = stream::iter(&created).map(|one| self.remove_one(one));
        let mut deleted = deletions.buffer_unordered(CONCURRENCY).enumerate();
        while let Some((index, result)) = deleted.next().await {
            remain.extend(result.err().map(|error| format!("{error:#}")));
            if told.elapsed() >= TELL {
                told = Instant::now();
                let _ = say(&format!("{} of {} namespaces deleted", index + 1, created.len()));
            }
        }
        ensure!(remain.is_empty(), "not all that was created is deleted:\n{}", remain.join("\n"));
        let _ = say(&format!("deleted after {:.1?}", begin.elapsed()));
        Ok(())
    }

    async fn remove_one(&self, created: &Created) -> Result<()> {
        let removed = self.delete(created).await;
        removed.with_context(|| format!("cannot delete the namespace {}", created.name))
    }

    async fn delete(&self, Created { name, uid }: &Created) -> Result<()> {
        let is_looked_after = self.is_looked_after(name).await?;
        let is_ours = Preconditions { uid: Some(uid.clone()), resource_version: None };
        // Before all that is in it: from now on nothing is created there any more.
        match self.all().delete(name, &DeleteParams::default().preconditions(is_ours)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(()),
            deleted => _ = deleted?,
        }
        self.empty(name).await?;
        if !is_looked_after {
            return self.finalize(name, uid).await;
        }
        let deadline = Instant::now() + DELETION;
        while self.remaining(name, uid).await?.is_some() {
            ensure!(Instant::now() < deadline, "it is still terminating after {DELETION:?}");
            sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// Whether the cluster has controllers for namespaces. The API server by itself, as etcd and kube-apiserver are
    /// without kube-controller-manager, puts nothing into a namespace and never finishes its deletion.
    async fn is_looked_after(&self, namespace: &str) -> Result<bool> {
        for kind in OF_THE_CLUSTER {
            let found = self.api(kind, namespace).list(&ListParams::default()).await?;
            if found.iter().any(|object| object.name_any() != objects::SERVICE_ACCOUNT) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes all that is known to be in a namespace.
    async fn empty(&self, namespace: &str) -> Result<()> {
        for kind in CONTENT {
            let api = self.api(kind, namespace);
            // Pods at once: there is no kubelet that ends them in good time.
            let at_once = DeleteParams::default().grace_period(0);
            let deleted = api.delete_collection(&at_once, &ListParams::default()).await;
            deleted.with_context(|| format!("cannot delete its {}s", kind.2))?;
            let remains = api.list(&ListParams::default().limit(1)).await?;
            if let Some(object) = remains.items.first() {
                bail!("its {} {} remains", kind.2, object.name_any());
            }
        }
        Ok(())
    }

    /// Finishes the deletion of an empty namespace, as the controller for that would.
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

    /// The namespace, if it is there and not another of that name.
    async fn remaining(&self, name: &str, uid: &str) -> Result<Option<DynamicObject>> {
        let found = self.all().get_opt(name).await?;
        Ok(found.filter(|namespace| namespace.metadata.uid.as_deref() == Some(uid)))
    }

    fn all(&self) -> Api<DynamicObject> {
        self.api(("", "v1", "Namespace"), "")
    }

    fn api(&self, (group, version, kind): Kind, namespace: &str) -> Api<DynamicObject> {
        api(&self.client, &GroupVersionKind::gvk(group, version, kind), namespace)
    }
}
