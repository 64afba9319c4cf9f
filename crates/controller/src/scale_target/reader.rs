//! Reads the targets of autoscalers for commands that decide as the controller would.

use std::{ops::Deref, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{
    HorizontalPodAutoscaler, Pod, Scale, SelectedPods, Settings, settings::PodSelection,
};
use kube::Client;

use super::{
    mapper::{MapperConfig, RestMapper},
    mapping::GroupKind,
    owners::Owners,
    scale::{ScaleClient, ScaleObject, ScaleUnavailable, read_scale},
};

/// The number of a target's pods, and the reason why there aren't more.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPods {
    pub scale: Scale,
    /// See [`replica_failure`](super::replica_failure).
    pub replica_failure: Option<String>,
}

/// Reads the scales of targets, and the pods that count for an autoscaler.
pub struct TargetReader {
    mapper: Arc<RestMapper>,
    scales: ScaleClient,
    owners: Owners,
}

impl TargetReader {
    /// The maximum number of scales that are read concurrently.
    pub const MAX_CONCURRENT_READS: usize = 8;

    /// `timeout` limits each request.
    pub fn new(client: &Client, timeout: Duration) -> Self {
        let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
        let mapper = Arc::new(RestMapper::new(client.clone(), config));
        let scales = ScaleClient::new(client.clone(), timeout);
        let owners = Owners::new(client.clone(), mapper.clone(), timeout);
        Self { mapper, scales, owners }
    }

    /// The mapper of the targets' kinds.
    pub fn mapper(&self) -> &Arc<RestMapper> {
        &self.mapper
    }

    /// Reads the scale of an autoscaler's target, with the target's UID.
    pub async fn scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<ScaleObject, ScaleUnavailable> {
        let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        let read = read_scale(&self.mapper, &self.scales, namespace, target).await;
        read.map(|(object, _)| object)
    }

    /// Reads the number of pods of an autoscaler's target. `None` if the scale can't be read.
    pub async fn target_pods(&self, hpa: &HorizontalPodAutoscaler) -> Option<TargetPods> {
        let scale = self.scale(hpa).await.ok()?.scale;
        let replica_failure = self.replica_failure(hpa, &scale).await;
        Some(TargetPods { scale, replica_failure })
    }

    /// The reason why the controller of an autoscaler's target can't create pods. Reads the target
    /// if its scale has fewer pods than replicas, from the first resource of its kind that has an
    /// object of that name. `None` if it can't be read.
    pub async fn replica_failure(
        &self,
        hpa: &HorizontalPodAutoscaler,
        scale: &Scale,
    ) -> Option<String> {
        if scale.status_replicas >= scale.spec_replicas {
            return None;
        }
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind).ok()?;
        let mappings = self.mapper.mappings(&kind).await.ok()?;
        let (namespace, name) = (&hpa.metadata.namespace, &target.name);
        for mapping in &mappings {
            if let Ok(failure) = self.scales.replica_failure(namespace, mapping, name).await {
                return failure;
            }
        }
        None
    }

    /// Selects the pods that count for an autoscaler with these settings. `pods` are those that the
    /// target's selector matches.
    pub async fn select_pods(
        &self,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        target: &ScaleObject,
        pods: Vec<Arc<Pod>>,
    ) -> SelectedPods {
        if settings.pods != PodSelection::Owned {
            return SelectedPods::new(pods);
        }
        let (namespace, reference) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        self.owners.only_owned(namespace, pods, target, reference).await
    }

    /// The names of the autoscalers in `hpas` that select any of the pods. Reads the scale of each
    /// for its selector, and leaves out autoscalers whose scale can't be read.
    pub async fn selecting_autoscalers<H>(
        &self,
        hpas: Vec<(String, H)>,
        pods: &[Arc<Pod>],
    ) -> Vec<String>
    where
        H: Deref<Target = HorizontalPodAutoscaler>,
    {
        let selecting = hpas.into_iter().map(|(name, hpa)| async move {
            let selector = self.scale(&hpa).await.ok()?.scale.usable_selector()?;
            let selects = pods.iter().any(|pod| pod.is_selected_by(&selector));
            selects.then_some(name)
        });
        let selecting = stream::iter(selecting).buffer_unordered(Self::MAX_CONCURRENT_READS);
        selecting.filter_map(|name| async { name }).collect().await
    }
}
