//! The loads of the weeks before the demo, for forecasts.

use std::collections::BTreeMap;

use futures::{FutureExt, future::BoxFuture};
use hpa_calc::{HorizontalPodAutoscaler, api::MetricSpec};
use hpa_controller::forecast::{PastError, PastLoads, PastRange};
use hpa_forecast::Trace;
use hpa_testbed::workload::{
    WorkloadId,
    profile::PodProfile,
    scenario::{Scenario, WorkloadSpec},
};
use jiff::{SignedDuration, Timestamp};

use crate::demo::model::target_id;

/// Computes the loads of the scenario's workloads, without noise, idle usage and the `base` of
/// metrics.
pub(super) struct DemoPastLoads {
    start: Timestamp,
    workloads: BTreeMap<WorkloadId, (WorkloadSpec, PodProfile)>,
}

impl DemoPastLoads {
    pub(super) fn new(scenario: &Scenario, start: Timestamp) -> Self {
        let workloads = scenario.workloads.iter().map(|workload| {
            let profile = scenario.profile(workload);
            (WorkloadId::for_spec(workload), (workload.clone(), profile.clone()))
        });
        Self { start, workloads: workloads.collect() }
    }

    fn past_load(
        &self,
        hpa: &HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> Option<Trace> {
        let (workload, profile) = self.workloads.get(&target_id(hpa))?;
        let per_load = per_load(workload, profile, hpa.spec.metrics.get(metric)?)?;
        let step = SignedDuration::from_secs(i64::from(range.step_seconds.max(1)));
        let times = std::iter::successors(Some(range.from), |at| at.checked_add(step).ok());
        let sample = |at: Timestamp| {
            let second = at.duration_since(self.start).as_secs_f64();
            (at, per_load * workload.load_at(second))
        };
        Some(Trace::new(times.take_while(|at| *at < range.until).map(sample)))
    }
}

impl PastLoads for DemoPastLoads {
    fn load<'a>(
        &'a self,
        hpa: &'a HorizontalPodAutoscaler,
        metric: usize,
        range: PastRange,
    ) -> BoxFuture<'a, Result<Trace, PastError>> {
        let past = self.past_load(hpa, metric, range);
        let unknown = "the demo has past loads only for CPU and pod metrics";
        std::future::ready(past.ok_or_else(|| PastError::Unknown(unknown.to_owned()))).boxed()
    }
}

/// The increase of a metric's total over all pods, per unit of load per second. `None` unless the
/// metric is CPU or a pod metric of the workload.
fn per_load(workload: &WorkloadSpec, profile: &PodProfile, metric: &MetricSpec) -> Option<f64> {
    if metric.resource.as_ref().is_some_and(|resource| resource.name == "cpu") {
        return Some(profile.cpu_per_unit.as_f64());
    }
    let name = &metric.pods.as_ref()?.metric.name;
    let metric = workload.pod_metrics.iter().find(|metric| metric.name == *name)?;
    Some(metric.per_unit)
}
