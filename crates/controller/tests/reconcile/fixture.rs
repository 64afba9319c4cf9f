//! The reconciler under test, with its autoscaler, pods and metrics.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use async_trait::async_trait;
use hpa_calc::{
    MilliValue,
    api::{HorizontalPodAutoscaler, Pod},
    readings::{MetricQuery, PodSample, ReadError, Reading},
    selector::Selector,
};
use hpa_controller::{
    HpaKey, SystemClock,
    cache::{Autoscalers, Origin, Pods, SelectorIndex},
    events::{EventRecorder, EventWriter},
    k8s::FieldManager,
    reconcile::Reconciler,
    scale_target::{MapperConfig, Owners, RestMapper, ScaleClient},
};
use hpa_metrics::{LogLimit, MetricsClient};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use crate::server::{Server, client, merged_status};

pub(crate) fn hpa() -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "a", "resourceVersion": "1" },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 50 } } }] },
    }))
    .expect("an autoscaler")
}

/// A metrics client that returns the same CPU usage for the pods `web-0` and `web-1`.
pub(crate) struct CpuUsageClient {
    pub(crate) milli: i64,
    /// The autoscaler is deleted from this cache while the metric is read.
    pub(crate) deletes_from: Option<Arc<Autoscalers>>,
}

pub(crate) fn usage(milli: i64) -> CpuUsageClient {
    CpuUsageClient { milli, deletes_from: None }
}

#[async_trait]
impl MetricsClient for CpuUsageClient {
    async fn read(&self, _: &str, _: &Selector, query: &MetricQuery) -> Result<Reading, ReadError> {
        assert!(matches!(query, MetricQuery::Resource { .. }), "{query:?}");
        if let Some(autoscalers) = &self.deletes_from {
            autoscalers.remove(&key());
        }
        let window = SignedDuration::from_secs(15);
        let value = MilliValue::from_milli(self.milli);
        let sample = PodSample { value, timestamp: Timestamp::now(), window };
        let samples = ["web-0", "web-1"].into_iter().map(|pod| (pod, sample)).collect();
        Ok(Reading::Pods(samples))
    }
}

pub(crate) fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": {
            "containers": [{ "name": "app", "resources": { "requests": { "cpu": "100m" } } }],
        },
        "status": {
            "phase": "Running",
            "startTime": "2020-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready", "status": "True",
                "lastTransitionTime": "2020-01-01T00:00:10Z" }],
        },
    }))
    .expect("a pod")
}

/// A server whose target has two replicas.
pub(crate) fn server() -> Server {
    Server { replicas: 2, version: 1, scale_is_served: true, hpa_exists: true, ..Server::default() }
}

pub(crate) fn key() -> HpaKey {
    HpaKey::new("shop", "web")
}

/// A reconciler with the autoscaler and its two pods in its caches. The usage is twice the target,
/// so the desired replicas are 4.
pub(crate) fn reconciler(server: &Arc<Mutex<Server>>) -> Reconciler {
    let client = client(server);
    let pods = Pods::for_scopes(&[None]);
    for name in ["web-0", "web-1"] {
        pods.index("shop").expect("an index").apply("shop", pod(name));
    }
    let autoscalers = Autoscalers::default();
    autoscalers.apply(&key(), hpa(), Origin::List);
    let (events, writer) = EventRecorder::new(client.clone());
    tokio::spawn(writer.run());
    let mapper = Arc::new(RestMapper::new(client.clone(), MapperConfig::default()));
    Reconciler {
        settings: Arc::default(),
        timeout: Duration::from_secs(20),
        status_interval: Duration::ZERO,
        autoscalers: Arc::new(autoscalers),
        pods: Arc::new(pods),
        selectors: Arc::new(SelectorIndex::default()),
        watch_ages: Arc::default(),
        mapper: mapper.clone(),
        owners: Owners::new(client.clone(), mapper.clone(), Duration::from_secs(5)),
        scales: ScaleClient::new(client.clone(), Duration::from_secs(5)),
        scale_informers: None,
        metrics: Arc::new(usage(100)),
        events,
        clock: Arc::new(SystemClock::default()),
        observer: Arc::new(()),
        forecasts: Arc::default(),
        field_manager: FieldManager::default(),
        peer_log_limit: LogLimit::default(),
        unlogged_peer_writes: AtomicU64::new(0),
        peer_window: None,
        dry_run: false,
        client,
    }
}

/// Like [`reconciler`], with the writer of the events, which the test runs.
pub(crate) fn reconciler_with_writer(server: &Arc<Mutex<Server>>) -> (Reconciler, EventWriter) {
    let (events, writer) = EventRecorder::new(client(server));
    (Reconciler { events, ..reconciler(server) }, writer)
}

/// The server after one reconcile.
pub(crate) async fn reconcile_once(server: Server) -> Server {
    let server = Arc::new(Mutex::new(server));
    reconciler(&server).reconcile(&key()).await;
    std::mem::take(&mut *server.lock())
}

/// The conditions that were written, as JSON.
pub(crate) fn conditions(server: &Server) -> String {
    merged_status(&server.status_patches)["conditions"].to_string()
}
