//! Stops the controller's writes of a scale in the API server, so that a test can get between reading and write.
//!
//! It is an admission webhook: while it thinks, the object changes, and the write that it lets pass then conflicts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::base64;
use crate::control_plane::from;
use crate::world::{PATIENCE, Target, World};

/// The webhook and who waits for what it is asked; a handle.
#[derive(Clone, Default)]
pub(crate) struct Interceptor {
    /// By namespace.
    hooks: Arc<Mutex<HashMap<String, Hook>>>,
    /// Where the API server reaches it.
    port: Arc<std::sync::OnceLock<u16>>,
}

#[derive(Clone)]
struct Hook {
    /// The API server asks about a write of the suite itself.
    live: Arc<Notify>,
    writes: mpsc::Sender<oneshot::Sender<()>>,
}

/// The held writes of one namespace.
pub(crate) struct Writes {
    held: mpsc::Receiver<oneshot::Sender<()>>,
    hooks: Arc<Mutex<HashMap<String, Hook>>>,
    ns: String,
}

impl Interceptor {
    pub(crate) fn router(&self) -> Router {
        Router::new().route("/intercept/{ns}", post(ask)).with_state(self.clone())
    }

    pub(crate) fn served_at(&self, port: u16) {
        self.port.get_or_init(|| port);
    }

    /// From now on, the controller's writes of the scales of deployments in the namespace of `target` wait.
    pub(crate) async fn hold(&self, w: &World, target: &Target) -> Result<Writes> {
        let (sender, held) = mpsc::channel(1);
        let live = Arc::new(Notify::new());
        let hook = Hook { live: live.clone(), writes: sender };
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).insert(w.ns.clone(), hook);
        let writes = Writes { held, hooks: self.hooks.clone(), ns: w.ns.clone() };

        let port = self.port.get().context("the webhook is not served")?;
        let configuration: ValidatingWebhookConfiguration = from(json!({
            "metadata": {"name": w.ns},
            "webhooks": [{
                "name": "intercept.hpa-rs.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "timeoutSeconds": 20, "failurePolicy": "Ignore",
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{port}/intercept/{}", w.ns),
                    "caBundle": base64::encode(w.plane.authority.pem().as_bytes()),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": w.ns}},
                "rules": [{
                    "apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["deployments/scale"],
                }],
            }],
        }))?;
        let api = Api::<ValidatingWebhookConfiguration>::all(w.client.clone());
        api.create(&PostParams::default(), &configuration).await?;
        // The API server does not tell when it has taken notice; a write that changes nothing finds out.
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let probe = async {
            loop {
                let patch = Patch::Merge(json!({"spec": {}}));
                target.api.patch_scale(&target.name, &params, &patch).await?;
                if timeout(Duration::from_millis(20), live.notified()).await.is_ok() {
                    return anyhow::Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, probe).await.context("the webhook is not called")??;
        Ok(writes)
    }
}

impl Writes {
    /// Waits for a write; it goes on when what is returned is used or dropped.
    pub(crate) async fn next(&mut self) -> Result<oneshot::Sender<()>> {
        let next = timeout(PATIENCE, self.held.recv()).await.context("no write of the scale")?;
        next.context("the webhook is gone")
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.ns);
    }
}

async fn ask(
    State(interceptor): State<Interceptor>,
    Path(ns): Path<String>,
    Json(review): Json<Value>,
) -> Json<Value> {
    let hook = interceptor.hooks.lock().unwrap_or_else(PoisonError::into_inner).get(&ns).cloned();
    let request = &review["request"];
    match hook {
        Some(hook) if request["dryRun"] == json!(true) => hook.live.notify_one(),
        Some(hook) => {
            let (release, released) = oneshot::channel();
            if hook.writes.send(release).await.is_ok() {
                drop(released.await);
            }
        }
        None => {}
    }
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true},
    }))
}
