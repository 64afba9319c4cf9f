//! What the API server fills in where an autoscaler's spec says nothing.

use crate::api::{
    Behavior, HorizontalPodAutoscalerSpec, MetricSourceType, MetricSpec, MetricTarget,
    MetricTargetType, PolicySelect, PolicyType, ResourceMetricSource, ScalingPolicy, ScalingRules,
};

/// `minReplicas` where it is unset.
const MIN_REPLICAS: i32 = 1;
/// The target of the metric that is used where none is given, in percent of the requested CPU.
const CPU_UTILIZATION: i32 = 80;
/// The period of every default policy.
const PERIOD_SECONDS: i32 = 15;
/// How many pods may be added in a period, however few there are.
const SCALE_UP_PODS: i32 = 4;
/// How far a period may grow or shrink the workload.
const CHANGE_PERCENT: i32 = 100;

/// Fills in what the spec leaves unset, as the API server does before it validates: 1 for `minReplicas`, 80 % of the
/// requested CPU for no metrics, and the rules of both directions if there is a `behavior` at all (API reference of
/// autoscaling/v2; the rules: KEP-853).
///
/// What is set stays, and that includes an empty list of policies, which validation then refuses. Scaling down gets no
/// stabilization window: that one is the controller's setting. Nor does a direction get a tolerance (KEP-4951).
pub fn apply_defaults(spec: &mut HorizontalPodAutoscalerSpec) {
    spec.min_replicas.get_or_insert(MIN_REPLICAS);
    if spec.metrics.is_empty() {
        spec.metrics.push(cpu_utilization());
    }
    if let Some(behavior) = &mut spec.behavior {
        complete_behavior(behavior);
    }
}

fn cpu_utilization() -> MetricSpec {
    let target = MetricTarget {
        target_type: MetricTargetType::Utilization,
        average_utilization: Some(CPU_UTILIZATION),
        ..MetricTarget::default()
    };
    let resource =
        ResourceMetricSource { name: "cpu".to_owned(), target, ..ResourceMetricSource::default() };
    MetricSpec {
        source_type: MetricSourceType::Resource,
        resource: Some(resource.into()),
        ..MetricSpec::default()
    }
}

fn complete_behavior(behavior: &mut Behavior) {
    let up = behavior.scale_up.get_or_insert_default();
    up.stabilization_window_seconds.get_or_insert(0);
    complete_rules(up, &[(PolicyType::Pods, SCALE_UP_PODS), (PolicyType::Percent, CHANGE_PERCENT)]);
    let down = behavior.scale_down.get_or_insert_default();
    complete_rules(down, &[(PolicyType::Percent, CHANGE_PERCENT)]);
}

fn complete_rules(rules: &mut ScalingRules, policies: &[(PolicyType, i32)]) {
    rules.select_policy.get_or_insert(PolicySelect::Max);
    rules.policies.get_or_insert_with(|| {
        let policy = |(policy_type, value): &(PolicyType, i32)| ScalingPolicy {
            policy_type: policy_type.clone(),
            value: *value,
            period_seconds: PERIOD_SECONDS,
            ..ScalingPolicy::default()
        };
        policies.iter().map(policy).collect()
    });
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn defaulted(spec: Value) -> Value {
        let mut spec = serde_json::from_value(spec).unwrap();
        apply_defaults(&mut spec);
        serde_json::to_value(spec).unwrap()
    }

    fn memory() -> Value {
        let target = json!({ "type": "AverageValue", "averageValue": "1Gi" });
        json!({ "type": "Resource", "resource": { "name": "memory", "target": target } })
    }

    fn cpu() -> Value {
        let target = json!({ "type": "Utilization", "averageUtilization": 80 });
        json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } })
    }

    #[rstest]
    #[case::unset(json!({}), 1)]
    #[case::null(json!({ "minReplicas": null }), 1)]
    #[case::zero_stays(json!({ "minReplicas": 0 }), 0)]
    #[case::one_stays(json!({ "minReplicas": 1 }), 1)]
    #[case::negative_stays_for_validation(json!({ "minReplicas": -1 }), -1)]
    fn min_replicas(#[case] spec: Value, #[case] expected: i32) {
        assert_eq!(defaulted(spec)["minReplicas"], expected);
    }

    #[rstest]
    #[case::unset(json!({}), json!([cpu()]))]
    #[case::null(json!({ "metrics": null }), json!([cpu()]))]
    #[case::no_metric(json!({ "metrics": [] }), json!([cpu()]))]
    #[case::one_metric_stays(json!({ "metrics": [memory()] }), json!([memory()]))]
    fn metrics(#[case] spec: Value, #[case] expected: Value) {
        assert_eq!(defaulted(spec)["metrics"], expected);
    }

    #[test]
    fn no_behavior_stays_none() {
        assert_eq!(defaulted(json!({})).get("behavior"), None);
    }

    #[rstest]
    #[case::empty(json!({}))]
    #[case::directions_null(json!({ "scaleUp": null, "scaleDown": null }))]
    #[case::directions_empty(json!({ "scaleUp": {}, "scaleDown": {} }))]
    #[case::members_null(json!({ "scaleUp": { "policies": null, "selectPolicy": null } }))]
    fn behavior_gets_all_rules(#[case] behavior: Value) {
        let expected = json!({
            "scaleUp": {
                "stabilizationWindowSeconds": 0,
                "selectPolicy": "Max",
                "policies": [
                    { "type": "Pods", "value": 4, "periodSeconds": 15 },
                    { "type": "Percent", "value": 100, "periodSeconds": 15 },
                ],
            },
            "scaleDown": {
                "selectPolicy": "Max",
                "policies": [{ "type": "Percent", "value": 100, "periodSeconds": 15 }],
            },
        });
        assert_eq!(defaulted(json!({ "behavior": behavior }))["behavior"], expected);
    }

    #[rstest]
    #[case::window_zero(json!({ "stabilizationWindowSeconds": 0 }))]
    #[case::window(json!({ "stabilizationWindowSeconds": 300 }))]
    #[case::select_policy(json!({ "selectPolicy": "Disabled" }))]
    #[case::select_policy_empty(json!({ "selectPolicy": "" }))]
    #[case::no_policy(json!({ "policies": [] }))]
    #[case::one_policy(json!({ "policies": [{ "type": "Pods", "value": 1, "periodSeconds": 1 }] }))]
    #[case::tolerance(json!({ "tolerance": "50m" }))]
    #[case::field_of_a_newer_api(json!({ "jitter": 3 }))]
    fn what_is_set_stays(#[case] rules: Value, #[values("scaleUp", "scaleDown")] direction: &str) {
        let spec = defaulted(json!({ "behavior": { direction: rules } }));
        let (name, value) = rules.as_object().unwrap().iter().next().unwrap();
        assert_eq!(spec["behavior"][direction].get(name), Some(value));
    }

    #[test]
    fn twice_is_once() {
        let once = defaulted(json!({ "behavior": {} }));
        assert_eq!(defaulted(once.clone()), once);
    }
}
