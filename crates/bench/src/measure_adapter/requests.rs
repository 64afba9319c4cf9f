//! The requests for the metric, as the HPA controller sends them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kube::Client;
use serde::Deserialize;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use super::cluster::GROUP_VERSION;
use crate::{args::Population, objects, stats::Summary};

/// The timeout of a request, the controller's default.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct MetricValueList {
    items: Vec<serde::de::IgnoredAny>,
}

/// Requests the metric for one autoscaler, and checks that each pod has a value.
pub(super) async fn request_metric(client: &Client, path: &str, pod_count: u32) -> Result<()> {
    let request = http::Request::get(path).body(Vec::new())?;
    let response = timeout(TIMEOUT, client.request_text(request)).await;
    let response = response.with_context(|| format!("no response in {TIMEOUT:?}"))??;
    let list: MetricValueList = serde_json::from_str(&response)?;
    ensure!(list.items.len() == pod_count as usize, "{} of {pod_count} pods", list.items.len());
    Ok(())
}

/// The path and query of each autoscaler's request.
pub(super) fn request_paths(population: &Population) -> Vec<String> {
    let [group, version] = GROUP_VERSION;
    let metric = objects::PODS_METRIC;
    let path = |(namespace, app): objects::TargetId| {
        let selector = format!("labelSelector=app%3D{app}");
        format!("/apis/{group}/{version}/namespaces/{namespace}/pods/*/{metric}?{selector}")
    };
    objects::targets(population).map(path).collect()
}

/// The results of the requests in a phase.
pub(super) struct SentRequests {
    /// The response times of the successful requests.
    pub(super) response_times: Summary,
    pub(super) failed: u64,
    pub(super) first_error: Option<anyhow::Error>,
}

/// Sends the requests of all autoscalers, evenly distributed over each period.
pub(super) async fn send_requests(
    client: &Client,
    population: &Population,
    duration: Duration,
) -> Result<SentRequests> {
    let paths = request_paths(population);
    let mut ticks = interval(population.period / population.autoscalers);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (start, pods) = (Instant::now(), population.pods);
    let mut running = JoinSet::new();
    for path in paths.into_iter().cycle() {
        ticks.tick().await;
        if start.elapsed() >= duration {
            break;
        }
        let client = client.clone();
        running.spawn(async move {
            let start = Instant::now();
            request_metric(&client, &path, pods).await.map(|()| start.elapsed().as_secs_f64())
        });
    }
    let (mut times, mut failed, mut first_error) = (Vec::new(), 0, None);
    while let Some(result) = running.join_next().await {
        match result? {
            Ok(time) => times.push(time),
            Err(error) => {
                failed += 1;
                first_error.get_or_insert(error);
            }
        }
    }
    Ok(SentRequests { response_times: Summary::new(times), failed, first_error })
}
