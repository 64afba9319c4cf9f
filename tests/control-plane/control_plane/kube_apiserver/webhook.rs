//! Holds scale writes in the API server.
//!
//! An admission webhook delays its response. If the object changes during the delay, the admitted
//! write fails with a conflict.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::super::from_json;
use super::super::held_writes::{HeldWrites, Holds};
use crate::test_env::{Target, WAIT_LIMIT};

/// The webhook. Clones share its state.
#[derive(Clone, Default)]
pub(super) struct Webhook {
    holds: Holds,
    /// By namespace: notified when the webhook receives a probe, which is a scale write of the
    /// suite with `dryRun`.
    probed: Arc<Mutex<HashMap<String, Arc<Notify>>>>,
}

impl Webhook {
    pub(super) fn router(&self) -> Router {
        Router::new().route("/intercept/{ns}", post(handle_review)).with_state(self.clone())
    }

    /// Registers the webhook for scale writes in a namespace, at `url` with the CA `authority`
    /// (PEM).
    pub(super) async fn hold(
        &self,
        client: Client,
        url: &str,
        authority: &str,
        ns: &str,
        target: &Target,
    ) -> Result<HeldWrites> {
        let probed = Arc::new(Notify::new());
        self.probed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(ns.to_owned(), probed.clone());
        let configuration: ValidatingWebhookConfiguration = from_json(json!({
            "metadata": {"name": ns},
            "webhooks": [{
                "name": "intercept.hpa-rs.test", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "timeoutSeconds": 20, "failurePolicy": "Ignore",
                "clientConfig": {
                    "url": format!("{url}/intercept/{ns}"),
                    "caBundle": ByteString(authority.as_bytes().to_vec()),
                },
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
                "rules": [{
                    "apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["deployments/scale"],
                }],
            }],
        }))?;
        let held = self.holds.hold(ns);
        let api = Api::<ValidatingWebhookConfiguration>::all(client);
        api.create(&PostParams::default(), &configuration).await?;
        // Registration takes effect with a delay, so probe with writes without changes.
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let probe = async {
            loop {
                let patch = Patch::Merge(json!({"spec": {}}));
                target.api.patch_scale(&target.name, &params, &patch).await?;
                if timeout(Duration::from_millis(20), probed.notified()).await.is_ok() {
                    return anyhow::Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(WAIT_LIMIT, probe).await.context("the webhook is not called")??;
        Ok(held)
    }
}

async fn handle_review(
    State(webhook): State<Webhook>,
    Path(ns): Path<String>,
    Json(review): Json<Value>,
) -> Json<Value> {
    let request = &review["request"];
    if request["dryRun"] == json!(true) {
        let probed =
            webhook.probed.lock().unwrap_or_else(PoisonError::into_inner).get(&ns).cloned();
        if let Some(probed) = probed {
            probed.notify_one();
        }
    } else if let Some(gate) = webhook.holds.gate_for(&ns) {
        gate.pass().await;
    }
    Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true},
    }))
}
