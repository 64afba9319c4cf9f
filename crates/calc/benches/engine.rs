//! The cost of one calculation and of a whole reconcile, with allocation counts:
//! `cargo bench -p hpa-calc`.

#![expect(clippy::expect_used, reason = "the inputs are fixed")]

use std::{hint::black_box, sync::Arc};

use divan::{AllocProfiler, Bencher};
use hpa_calc::{
    History, HorizontalPodAutoscaler, MilliValue, Plan, Pod, PodSample, PodSamples, Reading,
    Readings, Scale, SelectedPods, Settings,
    api::ResourceName,
    replicas::{UtilizationTarget, utilization},
    settings::{ReadinessRules, Tolerances},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

fn main() {
    divan::main();
}

fn pods(count: usize) -> Vec<Arc<Pod>> {
    let pod = |index: usize| {
        json!({
            "metadata": {
                "name": format!("web-7c5ddbdf54-{index:05}"),
                "labels": { "app": "web" },
            },
            "spec": {
                "containers": [
                    {
                        "name": "app",
                        "resources": { "requests": { "cpu": "500m", "memory": "1Gi" } },
                    },
                ],
            },
            "status": {
                "phase": "Running",
                "startTime": "2025-12-31T00:00:00Z",
                "conditions": [{
                    "type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:10Z",
                }],
            },
        })
    };
    let pods = (0..count).map(|index| serde_json::from_value::<Pod>(pod(index)));
    pods.map(|pod| Arc::new(pod.expect("a pod"))).collect()
}

fn samples(pods: &[Arc<Pod>]) -> PodSamples {
    let value = MilliValue::from_milli(400);
    let sample = PodSample { value, timestamp: NOW, window: SignedDuration::from_secs(30) };
    pods.iter().map(|pod| (pod.name.as_ref(), sample)).collect()
}

/// One calculation of a CPU utilization target. Its allocation counts must be zero.
#[divan::bench(args = [10, 100, 1000])]
fn cpu_utilization(bencher: Bencher<'_, '_>, count: usize) {
    let pods = pods(count);
    let samples = samples(&pods);
    let target = UtilizationTarget {
        current_replicas: i32::try_from(count).expect("a small number"),
        target: 50,
        resource: &ResourceName::Cpu,
        container: None,
        tolerances: Tolerances { up: 0.1, down: 0.1 },
    };
    let readiness = ReadinessRules::new(NOW, &Settings::default());
    bencher.bench(|| {
        utilization(
            black_box(&target),
            pods.iter().map(AsRef::as_ref),
            black_box(&samples),
            &readiness,
        )
    });
}

/// A whole reconcile: one CPU metric, ten pods, and the status of the previous reconcile.
#[divan::bench]
fn plan_decide_conclude(bencher: Bencher<'_, '_>) {
    let mut hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "1", "generation": 1 },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "minReplicas": 1, "maxReplicas": 100,
            "metrics": [{ "type": "Resource", "resource": { "name": "cpu",
                "target": { "type": "Utilization", "averageUtilization": 80 } } }] },
    }))
    .expect("an autoscaler");
    let settings = Settings::default();
    let pods = pods(10);
    let scale = Scale { spec_replicas: 10, status_replicas: 10, selector: "app=web".into() };
    let select = |pods: Vec<Arc<Pod>>| SelectedPods {
        pods,
        autoscalers: vec!["shop/web".into()],
        ..SelectedPods::default()
    };
    let reading = || Readings::from_iter([(0, Ok(Reading::Pods(samples(&pods))))]);
    let plan = Plan::new(&hpa, Ok(scale.clone()), &settings, |_| select(pods.clone()));
    let first = plan.decide(reading(), History::default(), NOW).conclude(Ok(()), NOW);
    hpa.status = first.status;
    let inputs = || (scale.clone(), pods.clone(), reading(), first.history.clone());
    bencher.with_inputs(inputs).bench_values(|(scale, pods, readings, history)| {
        let plan = Plan::new(&hpa, Ok(scale), &settings, |_| select(pods));
        plan.decide(readings, history, NOW).conclude(Ok(()), NOW)
    });
}
