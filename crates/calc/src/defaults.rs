//! The defaults that the API server applies to an autoscaler's spec.

use crate::{
    api::{
        Behavior, HorizontalPodAutoscalerSpec, MetricSourceType, MetricSpec, MetricTarget,
        MetricTargetType, PolicySelect, ResourceMetricSource, ScalingPolicy, ScalingRules,
    },
    behavior::{DEFAULT_SCALE_DOWN, DEFAULT_SCALE_UP, Policy},
    validation::measure_spec,
};

/// The target of the default metric, in percent of the requested CPU.
const CPU_UTILIZATION: i32 = 80;

/// Prepares a spec that was read from an API or a file for decisions: applies the defaults
/// ([`apply_defaults`]), and sets [`HorizontalPodAutoscalerSpec::excessive_bytes`] if the spec is
/// then larger than [`MAX_SPEC_BYTES`](crate::validation::MAX_SPEC_BYTES).
pub fn prepare_spec(spec: &mut HorizontalPodAutoscalerSpec) {
    apply_defaults(spec);
    measure_spec(spec);
}

/// Applies the defaults that the API server applies before validation: `minReplicas` is 1, the
/// metric is 80 % of the requested CPU, and a `behavior` gets the default rules of both directions
/// (API reference of autoscaling/v2; KEP-853 for the rules).
///
/// Members that are set stay as they are, except an empty list of metrics, which counts as unset.
/// An empty list of policies stays, and validation rejects it. The stabilization window for scaling
/// down and the tolerances stay unset, because their defaults are settings of the controller
/// (KEP-4951).
pub fn apply_defaults(spec: &mut HorizontalPodAutoscalerSpec) {
    spec.min_replicas = Some(spec.effective_min_replicas());
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
    complete_rules(up, &DEFAULT_SCALE_UP);
    complete_rules(behavior.scale_down.get_or_insert_default(), &DEFAULT_SCALE_DOWN);
}

fn complete_rules(rules: &mut ScalingRules, policies: &[Policy<'_>]) {
    rules.select_policy.get_or_insert(PolicySelect::Max);
    rules.policies.get_or_insert_with(|| policies.iter().map(ScalingPolicy::from).collect());
}

impl From<&Policy<'_>> for ScalingPolicy {
    fn from(policy: &Policy<'_>) -> Self {
        let Policy { unit, value, period_seconds } = *policy;
        Self { policy_type: unit.clone(), value, period_seconds, ..Self::default() }
    }
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
    #[case::zero(json!({ "minReplicas": 0 }), 0)]
    #[case::one(json!({ "minReplicas": 1 }), 1)]
    #[case::negative(json!({ "minReplicas": -1 }), -1)]
    fn min_replicas_defaults_to_one(#[case] spec: Value, #[case] expected: i32) {
        assert_eq!(defaulted(spec)["minReplicas"], expected);
    }

    #[rstest]
    #[case::unset(json!({}), json!([cpu()]))]
    #[case::null(json!({ "metrics": null }), json!([cpu()]))]
    #[case::no_metric(json!({ "metrics": [] }), json!([cpu()]))]
    #[case::one_metric(json!({ "metrics": [memory()] }), json!([memory()]))]
    fn metrics_default_to_cpu_utilization(#[case] spec: Value, #[case] expected: Value) {
        assert_eq!(defaulted(spec)["metrics"], expected);
    }

    #[test]
    fn behavior_has_no_default() {
        assert_eq!(defaulted(json!({})).get("behavior"), None);
    }

    #[rstest]
    #[case::empty(json!({}))]
    #[case::directions_null(json!({ "scaleUp": null, "scaleDown": null }))]
    #[case::directions_empty(json!({ "scaleUp": {}, "scaleDown": {} }))]
    #[case::members_null(json!({ "scaleUp": { "policies": null, "selectPolicy": null } }))]
    fn behavior_gets_the_rules_of_both_directions(#[case] behavior: Value) {
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
    #[case::unknown_field(json!({ "jitter": 3 }))]
    fn defaulting_keeps_members_that_are_set(
        #[case] rules: Value,
        #[values("scaleUp", "scaleDown")] direction: &str,
    ) {
        let spec = defaulted(json!({ "behavior": { direction: rules } }));
        let (name, value) = rules.as_object().unwrap().iter().next().unwrap();
        assert_eq!(spec["behavior"][direction].get(name), Some(value));
    }

    #[test]
    fn defaulting_is_idempotent() {
        let once = defaulted(json!({ "behavior": {} }));
        assert_eq!(defaulted(once.clone()), once);
    }
}
