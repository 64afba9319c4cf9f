//! Reads scales and metrics for decisions, and finds the autoscalers that select the same pods.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use hpa_calc::{HorizontalPodAutoscaler, Inputs, Pod, Readings, Scale, Selector};
use hpa_controller::{
    k8s::Clients,
    scale_target::{
        MapperConfig, Owners, RestMapper, ScaleClient, ScaleObject, ScaleUnavailable, read_scale,
    },
};
use hpa_metrics::{
    ClientSettings, Coalescing, CoalescingSettings, KindMapper, KubeMetricsClient, StoredObject,
    read_all,
};
use kube::{
    Api, Client,
    core::{ApiResource, GroupVersionKind},
};

use crate::{Options, probe::Probe};

/// The maximum number of scales that the list, or one page of an autoscaler, reads concurrently.
pub(crate) const MAX_CONCURRENT_READS: usize = 8;

/// A source of the metrics for decisions.
#[async_trait]
pub trait DecisionMetrics: Send + Sync {
    /// Reads the metrics for a decision. `inputs` has the other inputs of the decision.
    ///
    /// Also returns problems of the source itself, as sentences without a full stop.
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>);
}

#[async_trait]
impl DecisionMetrics for Coalescing<KubeMetricsClient> {
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>) {
        (read_all(self, inputs).await, Vec::new())
    }
}

/// The cluster, read with the user's permissions.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) probe: Arc<Probe>,
    mapper: Arc<RestMapper>,
    scales: ScaleClient,
    pub(crate) owners: Owners,
    pub(crate) metrics: Arc<dyn DecisionMetrics>,
    pub(crate) options: Options,
}

impl Cluster {
    pub(crate) fn new(clients: &Clients, options: Options, probe: Arc<Probe>) -> Self {
        let timeout = options.request_timeout;
        let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
        let mapper = Arc::new(RestMapper::new(clients.api.clone(), config));
        let metrics = options.metrics.clone().unwrap_or_else(|| {
            let limits = ClientSettings::default().with_request_timeout(timeout);
            let source = KubeMetricsClient::new(clients.metrics.clone(), limits);
            let kinds = KindMapper::new(mapper.clone(), timeout);
            let sharing = CoalescingSettings::for_sync_period(options.sync_period);
            Arc::new(Coalescing::new(source, kinds, sharing))
        });
        Self {
            scales: ScaleClient::new(clients.api.clone(), timeout),
            owners: Owners::new(clients.api.clone(), mapper.clone(), timeout),
            metrics,
            client: clients.api.clone(),
            probe,
            mapper,
            options,
        }
    }

    /// Reads the scale of an autoscaler's target, with the target's UID.
    pub(crate) async fn target_scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<ScaleObject, ScaleUnavailable> {
        let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        let read = read_scale(&self.mapper, &self.scales, namespace, target).await;
        read.map(|(object, _)| object)
    }

    /// The names of those of `hpas` that select any of the pods. Reads the scale of each for its
    /// selector, and leaves out those whose scale can't be read.
    pub(crate) async fn selecting_autoscalers(
        &self,
        hpas: Vec<(String, Arc<HorizontalPodAutoscaler>)>,
        pods: &[Arc<Pod>],
    ) -> Vec<String> {
        let selecting = hpas.into_iter().map(|(name, hpa)| async move {
            let selector = usable_selector(&self.target_scale(&hpa).await.ok()?.scale)?;
            let selects = pods.iter().any(|pod| pod.is_selected_by(&selector));
            selects.then_some(name)
        });
        let selecting = stream::iter(selecting).buffer_unordered(MAX_CONCURRENT_READS);
        selecting.filter_map(|name| async { name }).collect().await
    }

    /// The API for a kind of the core group, `v1`.
    pub(crate) fn core_api(&self, namespace: &str, kind: &str, plural: &str) -> Api<StoredObject> {
        let kind = GroupVersionKind::gvk("", "v1", kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}

/// The selector of a scale. `None` if it is invalid, or empty: that would select every pod.
pub(crate) fn usable_selector(scale: &Scale) -> Option<Selector> {
    let text = Some(&scale.selector).filter(|text| !text.is_empty())?;
    Selector::parse(text).ok()
}
