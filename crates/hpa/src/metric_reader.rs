//! Reads the metrics of a decision as a controller with `--metrics-config` does.

use std::{sync::Arc, time::Duration};

use hpa_calc::{Inputs, Readings};
use hpa_controller::{k8s::Clients, scale_target::RestMapper};
use hpa_metrics::{
    ClientSettings, Coalescing, CoalescingSettings, DiscoveryMapper, Fallback, KindMapper,
    KubeMetricsClient, MetricsClient, read_all,
};
use hpa_prometheus::source::PrometheusProvider;

use crate::{
    args::RulesFileArguments,
    cached_pods::{CachedPods, ReadPods},
    rules_provider,
};

/// Reads metrics by the rules of a file first, and others from the metrics APIs.
pub(crate) struct MetricReader {
    client: Box<dyn MetricsClient>,
    rules: Option<Arc<PrometheusProvider>>,
    /// The pods of the decisions, for rules.
    pods: Arc<ReadPods>,
}

impl MetricReader {
    /// A reader whose rules have no series yet: the caller relists them. Without
    /// `--metrics-config`, there are none.
    pub(crate) async fn new(
        clients: &Clients,
        mapper: Arc<RestMapper>,
        arguments: &RulesFileArguments,
        timeout: Duration,
        sharing: CoalescingSettings,
    ) -> anyhow::Result<Self> {
        let limits = ClientSettings::default().with_deadline(timeout);
        let apis = KubeMetricsClient::new(clients.metrics.clone(), limits);
        let kinds = KindMapper::new(mapper, timeout);
        let pods = Arc::new(ReadPods::default());
        let rules = rules_provider::from_flags(
            arguments,
            Arc::new(DiscoveryMapper(clients.api.clone())),
            Arc::new(CachedPods(pods.clone())),
        );
        let rules = rules.await?;
        let client: Box<dyn MetricsClient> = match &rules {
            None => Box::new(Coalescing::new(apis, kinds, sharing)),
            Some(rules) => {
                let source = Fallback::new(rules.clone(), apis);
                // The rules know the pods of selectors, not all of a namespace.
                Box::new(Coalescing::new(source, kinds, sharing.with_threshold(usize::MAX)))
            }
        };
        Ok(Self { client, rules, pods })
    }

    /// The rules, if there are any.
    pub(crate) fn rules(&self) -> Option<&Arc<PrometheusProvider>> {
        self.rules.as_ref()
    }

    /// Answers the queries of a decision, of which `inputs` has everything else.
    pub(crate) async fn read(&self, inputs: &Inputs) -> Readings {
        let plan = inputs.plan();
        let Some(selector) = plan.selector() else { return Readings::new() };
        let namespace = &inputs.hpa.metadata.namespace;
        let selected = self.pods.add(namespace, selector, inputs.selected.pods.clone());
        let readings = read_all(&*self.client, inputs).await;
        drop(selected);
        readings
    }
}
