//! Pods of other owners that the target's selector matches, such as those of a Job.

use std::{ops::Range, sync::Arc};

use hpa_calc::{
    MilliValue, Pod,
    api::{PodPhase, PodResources, ReadyCondition, ResourceName},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    pod_template::PodTemplate,
    workload::seconds::{Seconds, timestamp_at, whole_second},
};

/// Pods that the selector matches and the target doesn't own. They have the labels and the requests
/// of the workload's pods, are ready at once, and have no custom metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OtherPods {
    /// The time from the start of the simulation until the pods start.
    pub at: Seconds,
    /// The time for which the pods run.
    #[serde(rename = "for")]
    pub duration: Seconds,
    /// The number of pods.
    pub pods: u32,
    /// The CPU and memory usage of the pods, in percent of their requests.
    #[serde(default = "full_utilization")]
    pub utilization: u32,
}

fn full_utilization() -> u32 {
    100
}

impl OtherPods {
    /// Creates the pods. `index` is that of this entry in the scenario.
    pub(crate) fn create_pods(
        &self,
        index: usize,
        template: &PodTemplate,
        start: Timestamp,
    ) -> RunningPods {
        let since = whole_second(timestamp_at(start, self.at.get()));
        let pod = |number| Pod {
            name: format!("other-{index}-{number}").into(),
            phase: PodPhase::Running,
            start_time: Some(since),
            ready: Some(ReadyCondition { status: Some(true), last_transition_time: since }),
            ..template.pod.clone()
        };
        RunningPods {
            seconds: self.at.get()..self.at.get() + self.duration.get(),
            utilization: self.utilization,
            resources: Arc::clone(&template.pod.resources),
            pods: (0..self.pods).map(|number| Arc::new(pod(number))).collect(),
        }
    }
}

/// The pods of one entry, and the time in which they run.
pub(crate) struct RunningPods {
    /// Seconds since the start of the run.
    pub(crate) seconds: Range<f64>,
    utilization: u32,
    resources: Arc<PodResources>,
    pub(crate) pods: Vec<Arc<Pod>>,
}

impl RunningPods {
    /// The usage of each pod or of one of its containers. `None` without a request.
    pub(crate) fn usage(
        &self,
        resource: &ResourceName,
        container: Option<&str>,
    ) -> Option<MilliValue> {
        let containers = self.resources.spec.containers.iter();
        let selected = containers.filter(|one| container.is_none_or(|name| *one.name == *name));
        let requests = selected.flat_map(|one| one.requests.iter());
        let requests = requests.filter(|request| request.resource == *resource);
        let amounts = requests.filter_map(|request| request.amount);
        let total = amounts.reduce(MilliValue::saturating_add)?;
        let used = total.as_milli().saturating_mul(i64::from(self.utilization)) / 100;
        Some(MilliValue::from_milli(used))
    }
}

#[cfg(test)]
mod tests {
    use crate::ScenarioFile;

    const SCENARIO: &str = "
        duration: 30m
        autoscaler:
          spec:
            scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
            minReplicas: 2
            maxReplicas: 20
            metrics:
            - type: Resource
              resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}
        workload:
          profile: {cpuRequest: 100m, cpuPerUnit: 1m, sidecars: [{name: proxy, cpuRequest: 100m}]}
          load: {constant: 120}
        otherPods: [{at: 10m, for: 5m, pods: 4}]
        variants:
        - name: owned
          patch:
            autoscaler: {metadata: {annotations: {autoscaling.hpa-rs.dev/pods: owned}}}
    ";

    #[test]
    fn other_pods_count_while_they_run_unless_only_owned_pods_count() {
        let scenario_file = ScenarioFile::parse_alone(SCENARIO).unwrap();
        let [all, owned] = [0, 1].map(|variant| scenario_file.variants[variant].run());
        let first = all.steps.first().expect("the Job's pods scale it up");
        assert!((600.0..660.0).contains(&first.second) && first.to > 2, "{first:?}");
        assert_eq!(all.steps.last().map(|step| step.to), Some(2), "{:?}", all.steps);
        assert!(owned.steps.is_empty(), "{:?}", owned.steps);
    }

    /// Both containers request 100m, so each of the Job's pods requests 200m.
    #[test]
    fn usage_is_a_percentage_of_the_requests_of_all_containers() {
        let at_once = SCENARIO.replace("at: 10m, for: 5m", "at: 0, for: 1h, utilization: 45");
        let scenario_file = ScenarioFile::parse_alone(&at_once).unwrap();
        // 2 pods use 60m of 200m and 4 pods use 90m: 40 % of 6 pods, with a target of 60 %.
        let first = scenario_file.variants[0].run().steps.first().map(|step| step.to);
        assert_eq!(first, Some(4));
    }

    #[test]
    fn too_many_pods_are_refused() {
        let text = SCENARIO.replace("pods: 4", "pods: 10001");
        let error = ScenarioFile::parse_alone(&text).unwrap_err().to_string();
        assert!(error.contains("otherPods[0].pods"), "{error}");
    }
}
