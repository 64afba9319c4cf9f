//! Reads the scales of targets that may lack pods: the status of an autoscaler doesn't have the
//! target's number of pods.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{Settings, settings::SettingPolicy};
use hpa_controller::scale_target::{MapperConfig, RestMapper, ScaleClient, read_scale};
use kube::Client;

use super::cluster::ListedAutoscaler;

/// The maximum number of scales that are read.
const MAX_SCALES: usize = 100;
/// The maximum number of concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

/// Reads the scales of the autoscalers whose short reports need them. A scale that can't be read
/// stays unknown.
pub(crate) async fn read_scales(
    client: &Client,
    timeout: Duration,
    autoscalers: &mut [ListedAutoscaler],
    settings: &Settings,
    policy: &SettingPolicy,
) {
    let config = MapperConfig { request_timeout: timeout, ..MapperConfig::default() };
    let mapper = &Arc::new(RestMapper::new(client.clone(), config));
    let scales = &ScaleClient::new(client.clone(), timeout);
    let without_scale =
        autoscalers.iter_mut().filter(|one| one.short_report(settings, policy).needs_scale());
    let reads = without_scale.take(MAX_SCALES).map(|one| async move {
        let (namespace, target) = (&one.hpa.metadata.namespace, &one.hpa.spec.scale_target_ref);
        let scale = read_scale(mapper, scales, namespace, target).await;
        one.scale = scale.ok().map(|(object, _)| object.scale);
    });
    stream::iter(reads).buffer_unordered(MAX_CONCURRENT_READS).collect::<Vec<()>>().await;
}
