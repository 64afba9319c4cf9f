//! What holds of every reconcile, whatever the spec, the scale, the pods, the metrics and the past.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::sync::Arc;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Pod, Scale},
    conclude::Conclusion,
    defaults::apply_defaults,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, SelectedPods},
    readings::{MetricsApi, PodSample, PodSamples, ReadError, Reading},
    settings::Settings,
    validation::{ValidationOptions, validate},
};
use jiff::{SignedDuration, Timestamp};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    sample::{Index, select},
};
use serde_json::{Value, json};

const NOW: i64 = 10_000;

fn at(ago: i64) -> Timestamp {
    Timestamp::from_second(NOW - ago).unwrap()
}

/// A pod and its sample. Every pod requests 1000m of CPU.
#[derive(Clone, Debug)]
struct PodPlan {
    phase: &'static str,
    ready: &'static str,
    terminating: bool,
    started_ago: i64,
    turned_ago: i64,
    sample: Option<i64>,
}

/// All that a reconcile depends on.
#[derive(Clone, Debug)]
struct World {
    hpa: HorizontalPodAutoscaler,
    scale: Scale,
    pods: Vec<PodPlan>,
    /// What metrics without pods read, and whether each metric can be read.
    value: i64,
    read: Vec<bool>,
    history: History,
}

fn pods() -> impl Strategy<Value = PodPlan> {
    let phase = select(vec!["Running", "Running", "Running", "Pending", "Failed"]);
    let ready = select(vec!["True", "True", "False", "Unknown"]);
    let sample = option::weighted(0.8, 0..3000_i64);
    (phase, ready, prop::bool::weighted(0.1), 0..600_i64, 0..600_i64, sample).prop_map(
        |(phase, ready, terminating, started_ago, turned_ago, sample)| PodPlan {
            phase,
            ready,
            terminating,
            started_ago,
            turned_ago,
            sample,
        },
    )
}

fn metric() -> impl Strategy<Value = Value> {
    let resource = |target: Value| json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
    let average =
        |amount: i64| json!({ "type": "AverageValue", "averageValue": format!("{amount}m") });
    let value = |amount: i64| json!({ "type": "Value", "value": format!("{amount}m") });
    let external = |target: Value| json!({ "type": "External", "external": { "metric": { "name": "m" }, "target": target } });
    let object = |target: Value| {
        let described = json!({ "kind": "Service", "name": "s", "apiVersion": "v1" });
        json!({ "type": "Object", "object":
            { "describedObject": described, "metric": { "name": "m" }, "target": target } })
    };
    let pods = |target: Value| json!({ "type": "Pods", "pods": { "metric": { "name": "m" }, "target": target } });
    prop_oneof![
        (1..250_i32).prop_map(move |percent| resource(
            json!({ "type": "Utilization", "averageUtilization": percent })
        )),
        (1..2000_i64).prop_map(move |amount| resource(average(amount))),
        (1..2000_i64).prop_map(move |amount| pods(average(amount))),
        (1..2000_i64).prop_map(move |amount| external(average(amount))),
        (1..2000_i64).prop_map(move |amount| external(value(amount))),
        (1..2000_i64).prop_map(move |amount| object(average(amount))),
        (1..2000_i64).prop_map(move |amount| object(value(amount))),
    ]
}

fn rules() -> impl Strategy<Value = Value> {
    let policy = (select(vec!["Pods", "Percent"]), 1..200_i32, 1..600_i32).prop_map(
        |(name, value, period)| json!({ "type": name, "value": value, "periodSeconds": period }),
    );
    let selected = select(vec!["Max", "Min", "Disabled"]);
    (option::of(0..600_i32), selected, vec(policy, 1..3), option::of(0..500_i32)).prop_map(
        |(window, select, policies, tolerance)| {
            json!({
                "stabilizationWindowSeconds": window,
                "selectPolicy": select,
                "policies": policies,
                "tolerance": tolerance.map(|milli| format!("{milli}m")),
            })
        },
    )
}

fn hpas(metrics: std::ops::Range<usize>) -> impl Strategy<Value = HorizontalPodAutoscaler> {
    let behavior = option::of(
        (rules(), rules()).prop_map(|(up, down)| json!({ "scaleUp": up, "scaleDown": down })),
    );
    (0..6_i32, 1..30_i32, vec(metric(), metrics), behavior, any::<bool>(), 0..3_i64).prop_filter_map(
        "the API server would refuse it",
        |(min, span, metrics, behavior, marked, generation)| {
            let marker = json!({ "type": "ScaledToZero", "status": if marked { "True" } else { "False" } });
            let mut hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
                "metadata": { "name": "web", "namespace": "shop", "generation": generation },
                "spec": {
                    "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
                    "minReplicas": min,
                    "maxReplicas": min + span,
                    "metrics": metrics,
                    "behavior": behavior,
                },
                "status": { "desiredReplicas": 77, "conditions": [marker] },
            }))
            .unwrap();
            apply_defaults(&mut hpa.spec);
            validate(&hpa.spec, &ValidationOptions::default()).is_empty().then_some(hpa)
        },
    )
}

fn histories() -> impl Strategy<Value = History> {
    let recommendations = vec((0..40_i32, 0..700_i64), 0..4).prop_map(|all| {
        all.into_iter().map(|(replicas, ago)| Recommendation { replicas, at: at(ago) }).collect()
    });
    let events = || {
        vec((1..20_i32, 0..700_i64, any::<bool>()), 0..3).prop_map(|all| {
            all.into_iter()
                .map(|(change, ago, outdated)| ScaleEvent { change, at: at(ago), outdated })
                .collect()
        })
    };
    (recommendations, events(), events()).prop_map(|(recommendations, scale_ups, scale_downs)| {
        History { recommendations, scale_ups, scale_downs }
    })
}

/// Worlds whose scale is mostly within bounds.
fn worlds(metrics: std::ops::Range<usize>) -> impl Strategy<Value = World> {
    let replicas = (0..40_i32, 0..40_i32, prop::bool::weighted(0.9));
    let read = vec(prop::bool::weighted(0.8), 4);
    (hpas(metrics), replicas, vec(pods(), 0..12), 0..40_000_i64, read, histories()).prop_map(
        |(hpa, (any, status_replicas, within), pods, value, read, history)| {
            let (min, max) = (hpa.spec.effective_min_replicas(), hpa.spec.max_replicas);
            let spec_replicas = if within { min + any % (max - min + 1) } else { any };
            let scale = Scale { spec_replicas, status_replicas, selector: "app=web".into() };
            World { hpa, scale, pods, value, read, history }
        },
    )
}

impl World {
    fn api_pods(&self) -> Vec<Arc<Pod>> {
        let pod = |(index, plan): (usize, &PodPlan)| {
            let deleted = plan.terminating.then(|| at(0).to_string());
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": index.to_string(), "deletionTimestamp": deleted },
                "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] },
                "status": {
                    "phase": plan.phase,
                    "startTime": at(plan.started_ago).to_string(),
                    "conditions": [{
                        "type": "Ready",
                        "status": plan.ready,
                        "lastTransitionTime": at(plan.turned_ago).to_string(),
                    }],
                },
            }))
            .unwrap();
            Arc::new(pod)
        };
        self.pods.iter().enumerate().map(pod).collect()
    }

    fn samples(&self) -> PodSamples {
        let window = SignedDuration::from_secs(30);
        let sample = |(index, plan): (usize, &PodPlan)| {
            Some((index.to_string(), PodSample { value: plan.sample?, timestamp: at(5), window }))
        };
        self.pods.iter().enumerate().filter_map(sample).collect()
    }

    fn reconcile(&self, written: Result<(), String>) -> Conclusion {
        self.reconcile_with(self.api_pods(), written)
    }

    fn reconcile_with(&self, pods: Vec<Arc<Pod>>, written: Result<(), String>) -> Conclusion {
        let settings = Settings::default();
        let autoscalers = vec!["shop/web".to_owned()];
        let plan = Plan::new(&self.hpa, Ok(self.scale.clone()), &settings, |_| SelectedPods {
            pods,
            autoscalers,
        });
        let reading = |index: usize, source_type: &str| {
            if !self.read[index] {
                return Err(ReadError::Empty(MetricsApi::Custom));
            }
            Ok(match source_type {
                "Object" => Reading::Object(self.value),
                "External" => Reading::External(vec![self.value / 2, self.value - self.value / 2]),
                _ => Reading::Pods(self.samples()),
            })
        };
        let metrics = self.hpa.spec.metrics.iter().enumerate();
        let readings = metrics
            .map(|(index, metric)| Some(reading(index, metric.source_type.as_str())))
            .collect();
        plan.decide(readings, self.history.clone(), at(0)).conclude(written, at(0))
    }

    /// Whether the metrics are what decides.
    fn is_within_bounds(&self) -> bool {
        let spec = &self.hpa.spec;
        (spec.effective_min_replicas()..=spec.max_replicas).contains(&self.scale.spec_replicas)
    }

    fn disables(&self, direction: &str) -> bool {
        let spec = serde_json::to_value(&self.hpa.spec).unwrap();
        spec["behavior"][direction]["selectPolicy"] == "Disabled"
    }
}

/// The replicas after a reconcile.
fn replicas(world: &World, conclusion: &Conclusion) -> i32 {
    conclusion.scaled_to.unwrap_or(world.scale.spec_replicas)
}

/// Whether the pods of a world permit to expect that more load never means fewer replicas.
///
/// It does not hold of the algorithm as it is documented. Within tolerance a metric proposes the current replicas,
/// beyond it a number in proportion to the pods that are counted: with 10 replicas of which 5 are ready, a ratio of
/// 1.05 proposes 10 and one of 1.2 proposes 6. It does hold
/// - of average values by replica (Object, External), always: no pods are counted;
/// - of values (Object, External), if as many pods are ready as there are to be, or there are to be none;
/// - of averages over pods, if as many pods are ready as there are to be, or a missing pod makes both sides go
///   through the rule that the direction must not turn; or an unready one the upper side, where no more are ready
///   than there are to be.
fn is_monotonic(world: &World, conclusion: &Conclusion) -> bool {
    let current = usize::try_from(world.scale.spec_replicas).unwrap();
    let metric = &world.hpa.spec.metrics[0];
    let target = metric.external.as_ref().map(|source| &source.target);
    if let Some(target) = target.or(metric.object.as_ref().map(|source| &source.target)) {
        let ready = world.api_pods().iter().filter(|pod| pod.is_running_and_ready()).count();
        return target.value.is_none() || current == 0 || ready == current;
    }
    let census =
        conclusion.explanation.metrics.first().and_then(|metric| metric.pods).unwrap_or_default();
    census.ready == current || census.missing > 0 || (census.unready > 0 && census.ready <= current)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_scale_is_within_bounds_and_another(world in worlds(1..4)) {
        if let Some(replicas) = world.reconcile(Ok(())).scaled_to {
            let spec = &world.hpa.spec;
            prop_assert!((spec.effective_min_replicas()..=spec.max_replicas).contains(&replicas));
            prop_assert_ne!(replicas, world.scale.spec_replicas);
        }
    }

    #[test]
    fn the_same_gives_the_same(world in worlds(1..4)) {
        prop_assert_eq!(format!("{:?}", world.reconcile(Ok(()))), format!("{:?}", world.reconcile(Ok(()))));
    }

    #[test]
    fn the_order_of_pods_does_not_matter(world in worlds(1..4), by in any::<Index>()) {
        let mut pods = world.api_pods();
        pods.reverse();
        if !pods.is_empty() {
            let middle = by.index(pods.len());
            pods.rotate_left(middle);
        }
        let other = world.reconcile_with(pods, Ok(()));
        prop_assert_eq!(format!("{:?}", world.reconcile(Ok(()))), format!("{other:?}"));
    }

    #[test]
    fn a_metric_that_failed_never_scales_down(mut world in worlds(1..4), failed in any::<Index>()) {
        prop_assume!(world.is_within_bounds());
        world.read[failed.index(world.hpa.spec.metrics.len())] = false;
        let conclusion = world.reconcile(Ok(()));
        prop_assert!(replicas(&world, &conclusion) >= world.scale.spec_replicas);
    }

    #[test]
    fn disabled_is_left_to_the_bounds(world in worlds(1..4)) {
        prop_assume!(world.is_within_bounds());
        let after = replicas(&world, &world.reconcile(Ok(())));
        prop_assert!(!world.disables("scaleUp") || after <= world.scale.spec_replicas);
        prop_assert!(!world.disables("scaleDown") || after >= world.scale.spec_replicas);
    }

    #[test]
    fn a_scale_not_written_keeps_the_desired_replicas(world in worlds(1..4)) {
        let written = world.reconcile(Ok(()));
        let refused = world.reconcile(Err("refused".into()));
        if written.scaled_to.is_some() {
            prop_assert_eq!(refused.status.desired_replicas, 77);
            prop_assert!(refused.error.is_some());
            prop_assert_eq!(refused.status.last_scale_time, None);
            prop_assert_eq!(refused.history.scale_ups, world.history.scale_ups);
            prop_assert_eq!(refused.history.scale_downs, world.history.scale_downs);
        } else {
            prop_assert_eq!(format!("{written:?}"), format!("{refused:?}"));
        }
        prop_assert_eq!(refused.scaled_to, None);
    }

    #[test]
    fn a_status_reads_back(world in worlds(1..4)) {
        let conclusion = world.reconcile(Ok(()));
        let text = serde_json::to_string(&conclusion.status).unwrap();
        prop_assert_eq!(serde_json::from_str::<HorizontalPodAutoscalerStatus>(&text).unwrap(), conclusion.status);
        let text = serde_json::to_string(&conclusion.history).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), conclusion.history);
    }

    #[test]
    fn more_load_never_means_fewer_replicas(
        mut world in worlds(1..2), more in vec(0..2000_i64, 12), all_ready in any::<bool>()
    ) {
        world.read = vec![true; 4];
        if all_ready {
            let count = world.pods.len();
            world.scale.spec_replicas = i32::try_from(count).unwrap();
            for pod in &mut world.pods {
                (pod.phase, pod.ready, pod.terminating, pod.turned_ago) = ("Running", "True", false, 100);
                pod.sample.get_or_insert(100);
            }
        }
        let before = world.reconcile(Ok(()));
        prop_assume!(is_monotonic(&world, &before));
        let mut busier = world.clone();
        busier.value += more[0] * 10;
        for (pod, more) in busier.pods.iter_mut().zip(more) {
            pod.sample = pod.sample.map(|value| value + more);
        }
        let after = busier.reconcile(Ok(()));
        prop_assert!(
            replicas(&busier, &after) >= replicas(&world, &before),
            "{} | {}", before.explanation, after.explanation
        );
    }
}

/// The case of [`is_monotonic`]'s text.
#[test]
fn more_load_may_mean_fewer_replicas_where_pods_are_not_ready() {
    let target = json!({ "type": "Value", "value": "1" });
    let metric =
        json!({ "type": "External", "external": { "metric": { "name": "m" }, "target": target } });
    let hpa = serde_json::from_value(json!({ "spec": { "maxReplicas": 20, "metrics": [metric] } }))
        .unwrap();
    let pod = |ready| PodPlan {
        phase: "Running",
        ready,
        terminating: false,
        started_ago: 600,
        turned_ago: 600,
        sample: None,
    };
    let history = vec![Recommendation { replicas: 1, at: Timestamp::UNIX_EPOCH }];
    let mut world = World {
        hpa,
        scale: Scale { spec_replicas: 10, status_replicas: 10, selector: "app=web".into() },
        pods: [vec![pod("True"); 5], vec![pod("False"); 5]].concat(),
        value: 1050,
        read: vec![true],
        history: History { recommendations: history, ..History::default() },
    };
    assert_eq!(world.reconcile(Ok(())).scaled_to, None);
    world.value = 1200;
    assert_eq!(world.reconcile(Ok(())).scaled_to, Some(6));
}
