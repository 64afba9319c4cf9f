//! Reads the scales of targets that may lack pods, because the statuses don't contain the number of
//! pods.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{Settings, settings::SettingPolicy};
use hpa_controller::scale_target::{MapperConfig, RestMapper, ScaleClient, read_scale};
use kube::Client;

use super::cluster::ObservedAutoscaler;

/// The maximum number of scales that are read.
const MAX_SCALES: usize = 100;
/// Limit for concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

/// Reads the scales for the autoscalers whose short reports need them. Those that can't be read stay
/// unknown.
pub(crate) async fn read_scales(
    client: &Client,
    timeout: Duration,
    autoscalers: &mut [ObservedAutoscaler],
    settings: &Settings,
    policy: &SettingPolicy,
) {
    let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
    let mapper = &Arc::new(RestMapper::new(client.clone(), config));
    let scales = &ScaleClient::new(client.clone(), timeout);
    let waiting =
        autoscalers.iter_mut().filter(|one| one.short_report(settings, policy).needs_scale());
    let reads = waiting.take(MAX_SCALES).map(|one| async move {
        let (namespace, target) = (&one.hpa.metadata.namespace, &one.hpa.spec.scale_target_ref);
        let read = read_scale(mapper, scales, namespace, target).await;
        one.scale = read.ok().map(|(object, _)| object.scale);
    });
    stream::iter(reads).buffer_unordered(MAX_CONCURRENT_READS).collect::<Vec<()>>().await;
}
