//! With [`Settings::exact_schedules`], averages of scaling schedules have no tolerance.
#![allow(clippy::unwrap_used, reason = "tests")]

use hpa_calc::{
    HorizontalPodAutoscaler, MilliValue, Plan, Pod, Reading, Readings, Scale, SelectedPods,
    Settings, history::History,
};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::json;

/// The replicas that 20 replicas are scaled to, if an object has the value 21. The target is an
/// average of 1, or a value of 20.
fn scaled_to(settings: &Settings, api_version: &str, kind: &str, target: &str) -> Option<i32> {
    let field = if target == "AverageValue" { "averageValue" } else { "value" };
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "maxReplicas": 100,
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "metrics": [{ "type": "Object", "object": {
                "describedObject": { "apiVersion": api_version, "kind": kind, "name": "evening" },
                "metric": { "name": "scheduled" },
                "target": { "type": target, (field): if field == "value" { "20" } else { "1" } },
            } }],
        },
    }))
    .unwrap();
    let scale = Scale { spec_replicas: 20, status_replicas: 20, selector: "app=web".to_owned() };
    let plan = Plan::new(&hpa, Ok(scale), settings, |_| SelectedPods::new([] as [Pod; 0]));
    let mut readings = Readings::new();
    readings.insert(0, Ok(Reading::Object(MilliValue::from_units(21).into())));
    plan.decide(readings, History::default(), Timestamp::UNIX_EPOCH).scale_to()
}

#[rstest]
#[case::schedule("zalando.org/v1", "ScalingSchedule", "AverageValue", Some(21))]
#[case::cluster_schedule("zalando.org/v1", "ClusterScalingSchedule", "AverageValue", Some(21))]
#[case::other_group("example.org/v1", "ScalingSchedule", "AverageValue", None)]
#[case::other_kind("zalando.org/v1", "RouteGroup", "AverageValue", None)]
// Its ratio doesn't depend on the replicas, so without a tolerance they would grow forever.
#[case::value("zalando.org/v1", "ScalingSchedule", "Value", None)]
fn only_averages_of_schedules_have_no_tolerance(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] target: &str,
    #[case] expected: Option<i32>,
) {
    let exact = Settings::default().with(|settings| settings.exact_schedules = true);
    assert_eq!(scaled_to(&exact, api_version, kind, target), expected);
    assert_eq!(scaled_to(&Settings::default(), api_version, kind, target), None);
}
