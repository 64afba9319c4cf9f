//! The sources of decisions: targets, metrics, and objects of the core group.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use hpa_calc::{Inputs, Readings};
use hpa_controller::{k8s::Clients, scale_target::TargetReader};
use hpa_metrics::{
    ClientSettings, Coalescing, CoalescingSettings, KindMapper, KubeMetricsClient, StoredObject,
    read_all,
};
use kube::{
    Api, Client,
    core::{ApiResource, GroupVersionKind},
};

use crate::{Options, probe::Probe};

/// A source of the metrics for decisions.
#[async_trait]
pub trait DecisionMetrics: Send + Sync {
    /// Reads the metrics for a decision. `inputs` has the other inputs of the decision.
    ///
    /// Also returns problems of the source itself, as sentences without a full stop.
    async fn read(&self, inputs: &Inputs) -> (Readings, Vec<String>);

    /// Advice about metrics that can't be read, by their index: see
    /// [`Inputs::report_with_advice`].
    async fn advise(&self, _inputs: &Inputs) -> BTreeMap<usize, String> {
        BTreeMap::new()
    }

    /// Replaces the placeholders in the commands of a report's advice whose values are known, such
    /// as `--config FILE`.
    fn fill_placeholders(&self, advice: &str) -> String {
        advice.to_owned()
    }
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
    pub(crate) targets: TargetReader,
    pub(crate) metrics: Arc<dyn DecisionMetrics>,
    pub(crate) options: Options,
}

impl Cluster {
    pub(crate) fn new(clients: &Clients, options: Options, probe: Arc<Probe>) -> Self {
        let timeout = options.request_timeout;
        let targets = TargetReader::new(&clients.api, timeout);
        let metrics = options.metrics.clone().unwrap_or_else(|| {
            let mut settings = ClientSettings::default();
            settings.request_timeout = timeout;
            let source = KubeMetricsClient::new(clients.metrics.clone(), settings);
            let kinds = KindMapper::new(targets.mapper().clone(), timeout);
            let sharing = CoalescingSettings::for_sync_period(options.sync_period);
            Arc::new(Coalescing::new(source, kinds, sharing))
        });
        Self { client: clients.api.clone(), probe, targets, metrics, options }
    }

    /// The API for a kind of the core group, `v1`.
    pub(crate) fn core_api(&self, namespace: &str, kind: &str, plural: &str) -> Api<StoredObject> {
        let kind = GroupVersionKind::gvk("", "v1", kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }
}
