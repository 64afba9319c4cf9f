//! What the controller sees of a modelled pod.

use std::sync::Arc;

use crate::workload::{
    model::{self, PodState},
    profile::PodProfile,
    seconds::timestamp_at,
};
use hpa_calc::{
    Pod,
    api::{PodPhase, PodRequests, ReadyCondition},
};
use jiff::Timestamp;
use serde_json::json;

/// The parts that all pods of a workload share.
pub(crate) struct PodTemplate {
    labels: Arc<[(Box<str>, Box<str>)]>,
    requests: Arc<PodRequests>,
}

impl PodTemplate {
    pub(crate) fn new(workload: &str, profile: &PodProfile) -> Self {
        let pod = json!({
            "metadata": { "labels": { "app": workload } },
            "spec": { "containers": profile.containers("") },
        });
        // The containers are generated, so they decode.
        let pod = serde_json::from_value::<Pod>(pod).ok();
        let (labels, requests) = pod.map(|pod| (pod.labels, pod.requests)).unwrap_or_default();
        Self { labels, requests }
    }

    /// The object of a pod. Its times have whole seconds, as in the API.
    pub(crate) fn view(&self, pod: &model::Pod, start: Timestamp) -> Pod {
        let lifecycle = &pod.lifecycle;
        let at = |second: f64| whole_second(timestamp_at(start, second));
        let has_run = lifecycle.running_since.is_some() || lifecycle.restarts > 0;
        let phase = match lifecycle.state {
            PodState::Evicted { .. } => PodPhase::Failed,
            _ if has_run => PodPhase::Running,
            _ => PodPhase::Pending,
        };
        let ready = lifecycle.scheduled_at.map(|_| ReadyCondition {
            status: Some(lifecycle.is_ready()),
            last_transition_time: at(lifecycle.ready_transition),
        });
        Pod {
            name: pod.name.as_str().into(),
            labels: Arc::clone(&self.labels),
            terminating: matches!(lifecycle.state, PodState::Terminating { .. }),
            phase,
            start_time: lifecycle.scheduled_at.map(at),
            ready,
            requests: Arc::clone(&self.requests),
        }
    }
}

/// `time` without its fraction of a second, as the API stores it.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
