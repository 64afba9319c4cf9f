//! The pods of a workload as the API returns them.

use hpa_calc::{
    Pod,
    api::{PodPhase, PodSpec, PodStatus, ReadyCondition},
};
use jiff::Timestamp;
use serde_json::json;

use crate::workload::{
    model::{self, PodState},
    profile::PodProfile,
    seconds::{timestamp_at, whole_second},
};

/// The properties that all pods of a workload share.
pub(crate) struct PodTemplate {
    /// A pod without a name and a status.
    pub(crate) pod: Pod,
}

impl PodTemplate {
    pub(crate) fn new(workload: &str, profile: &PodProfile) -> Self {
        // Decoding can't fail: the containers are generated.
        let spec = serde_json::from_value(json!({ "containers": profile.containers("") }));
        let spec: PodSpec = spec.unwrap_or_default();
        let labels = [("app".to_owned(), workload.to_owned())];
        Self { pod: Pod::new("".into(), labels, false, &spec, &PodStatus::default()) }
    }

    /// The pod as the API returns it, with times in whole seconds.
    pub(crate) fn api_pod(&self, pod: &model::Pod, start: Timestamp) -> Pod {
        let lifecycle = &pod.lifecycle;
        let at = |second: f64| whole_second(timestamp_at(start, second));
        let phase = match lifecycle.state {
            PodState::Evicted { .. } => PodPhase::Failed,
            _ if lifecycle.has_run() => PodPhase::Running,
            _ => PodPhase::Pending,
        };
        let ready = lifecycle.scheduled_at.map(|_| ReadyCondition {
            status: Some(lifecycle.is_ready()),
            last_transition_time: at(lifecycle.ready_transition),
        });
        Pod {
            name: pod.name.as_str().into(),
            terminating: matches!(lifecycle.state, PodState::Terminating { .. }),
            phase,
            start_time: lifecycle.scheduled_at.map(at),
            ready,
            unschedulable: lifecycle.unschedulable && lifecycle.scheduled_at.is_none(),
            ..self.pod.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_unschedulable_until_it_has_a_node() {
        let template = PodTemplate::new("web", &PodProfile::default());
        let mut pod = model::Pod::new("shop", "web-1", "web", "0");
        let is_unschedulable =
            |pod: &model::Pod| template.api_pod(pod, Timestamp::UNIX_EPOCH).unschedulable;
        assert!(!is_unschedulable(&pod));
        pod.lifecycle.advance(1.0, false);
        assert!(is_unschedulable(&pod));
        pod.lifecycle.advance(2.0, true);
        assert!(!is_unschedulable(&pod));
    }
}
