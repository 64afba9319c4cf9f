use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::quantity::MilliValue;

fn hpa(metric: Value) -> HorizontalPodAutoscaler {
    let spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": 2, "maxReplicas": 9, "metrics": [metric],
        "behavior": { "scaleDown": { "stabilizationWindowSeconds": 120 } },
    });
    serde_json::from_value(json!({ "metadata": { "name": "web" }, "spec": spec })).unwrap()
}

fn hpa_by_cpu() -> HorizontalPodAutoscaler {
    let target = json!({ "type": "Utilization", "averageUtilization": 60 });
    hpa(json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } }))
}

fn hpa_by_queue() -> HorizontalPodAutoscaler {
    let target = json!({ "type": "AverageValue", "averageValue": "30" });
    let source = json!({ "metric": { "name": "waiting" }, "target": target });
    hpa(json!({ "type": "External", "external": source }))
}

fn explanation(proposed: i32, stabilized: i32, desired: i32) -> Explanation {
    let metric = MetricExplanation {
        utilization: Some(120),
        usage: Some(MilliValue::from_milli(240)),
        target: Some(TargetValue::Utilization(60)),
        rule: Some(Rule::Proportional),
        ..MetricExplanation::default()
    };
    let summary =
        if desired == 4 { Summary::NoChange } else { Summary::Rescale("above".to_owned()) };
    Explanation {
        current_replicas: 4,
        metrics: vec![metric],
        winner: Some(0),
        proposed_replicas: Some(proposed),
        stabilized_replicas: Some(stabilized),
        desired_replicas: desired,
        stabilization_window_seconds: Some(120),
        summary,
        ..Explanation::default()
    }
}

#[rstest]
#[case::unlimited(explanation(8, 8, 8), None, None, "")]
#[case::max_replicas(
    explanation(12, 12, 9),
    None,
    Some(ConditionReason::TooManyReplicas),
    "; maxReplicas is 9, metrics ask for 12"
)]
#[case::min_replicas(
    explanation(1, 1, 2),
    None,
    Some(ConditionReason::TooFewReplicas),
    "; minReplicas is 2, metrics ask for 1"
)]
#[case::policy(
    explanation(8, 8, 6),
    None,
    Some(ConditionReason::ScaleUpLimit),
    "; policies allow 6 for now, metrics ask for 8"
)]
#[case::policy_after_stabilization(
    explanation(1, 2, 3),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::ScaleDownLimit),
    "; policies allow 3 for now, stabilization holds 2 for up to 2:00, metrics ask for 1"
)]
#[case::policy_before_stabilization_of_a_scale_up(
    explanation(8, 6, 5),
    Some(ConditionReason::ScaleUpStabilized),
    Some(ConditionReason::ScaleUpLimit),
    "; policies allow 5 for now, stabilization allows 6 for up to 2:00, metrics ask for 8"
)]
#[case::policy_below_the_proposal_and_a_past_recommendation(
    explanation(12, 16, 8),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::ScaleUpLimit),
    "; policies allow 8 for now, metrics ask for 12"
)]
#[case::scale_down_window(
    explanation(2, 4, 4),
    Some(ConditionReason::ScaleDownStabilized),
    None,
    "; stabilization holds 4 for up to 2:00, metrics ask for 2"
)]
#[case::scale_up_window(
    explanation(8, 4, 4),
    Some(ConditionReason::ScaleUpStabilized),
    None,
    "; stabilization holds 4 for up to 2:00, metrics ask for 8"
)]
#[case::part_of_a_scale_up(
    explanation(8, 6, 6),
    Some(ConditionReason::ScaleUpStabilized),
    None,
    "; stabilization allows 6 for up to 2:00, metrics ask for 8"
)]
#[case::part_of_a_scale_down(
    explanation(1, 3, 3),
    Some(ConditionReason::ScaleDownStabilized),
    None,
    "; stabilization holds 3 for up to 2:00, metrics ask for 1"
)]
#[case::past_recommendation_above_the_current_replicas(
    explanation(4, 6, 6),
    Some(ConditionReason::ScaleDownStabilized),
    None,
    "; stabilization keeps a recommendation of 6 for up to 2:00, metrics ask for 4"
)]
#[case::past_recommendation_above_the_policy(
    explanation(2, 16, 8),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::ScaleUpLimit),
    "; stabilization keeps a recommendation of 16 for up to 2:00, policies allow 8 for now, \
     metrics ask for 2"
)]
#[case::proposal_is_at_the_limit_of_a_past_recommendation(
    explanation(8, 16, 8),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::ScaleUpLimit),
    ""
)]
#[case::past_recommendation_above_the_maximum(
    explanation(2, 16, 9),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::TooManyReplicas),
    "; stabilization keeps a recommendation of 16 for up to 2:00, maxReplicas is 9, metrics ask \
     for 2"
)]
#[case::all_recommendations_above_the_maximum(
    explanation(12, 16, 9),
    Some(ConditionReason::ScaleDownStabilized),
    Some(ConditionReason::TooManyReplicas),
    "; maxReplicas is 9, metrics ask for 12"
)]
fn sentence_has_the_limit_and_the_proposal(
    #[case] mut explanation: Explanation,
    #[case] stabilized_by: Option<ConditionReason>,
    #[case] limited_by: Option<ConditionReason>,
    #[case] rest: &str,
) {
    explanation.stabilized_by = stabilized_by;
    explanation.limited_by = limited_by;
    assert_eq!(
        explanation.sentence(&hpa_by_cpu()),
        format!("cpu is at 120% of requests, target 60%{rest}")
    );
}

#[test]
fn bound_that_binds_as_well_is_named_before_stabilization() {
    let mut explanation = explanation(1, 2, 2);
    explanation.stabilized_by = Some(ConditionReason::ScaleDownStabilized);
    explanation.lasting_limit = Some(ConditionReason::TooFewReplicas);
    let limit = explanation.limit(&hpa_by_cpu());
    assert_eq!(limit.as_deref(), Some("minReplicas is 2, metrics ask for 1"));
    // A raised minimum applies to a target that was scaled to zero, without a limit.
    let from_zero = Explanation {
        current_replicas: 0,
        lasting_limit: Some(ConditionReason::TooFewReplicas),
        ..self::explanation(0, 0, 2)
    };
    let limit = from_zero.limit(&hpa_by_cpu());
    assert_eq!(limit.as_deref(), Some("minReplicas is 2, metrics ask for 0"));
}

#[rstest]
#[case::down(0, ConditionReason::ScaleDownLimit, "scale-down", "scaleDown")]
#[case::up(8, ConditionReason::ScaleUpLimit, "scale-up", "scaleUp")]
fn disabled_direction_is_not_limited_for_now(
    #[case] proposed: i32,
    #[case] limited_by: ConditionReason,
    #[case] direction: &str,
    #[case] member: &str,
) {
    let mut hpa = hpa_by_cpu();
    let behavior = json!({ member: { "selectPolicy": "Disabled" } });
    hpa.spec.behavior = serde_json::from_value(behavior).unwrap();
    let mut explanation = explanation(proposed, proposed, 4);
    explanation.limited_by = Some(limited_by);
    let limit = explanation.limit(&hpa).unwrap();
    let disabled = format!("{direction} is disabled by behavior.{member}.selectPolicy");
    assert_eq!(limit, format!("{disabled}, metrics ask for {proposed}"));
}

#[test]
fn unchanged_replicas_are_explained() {
    let mut explanation = explanation(4, 4, 4);
    assert_eq!(
        explanation.sentence(&hpa_by_cpu()),
        "cpu is at 120% of requests, target 60%; metrics ask for 4"
    );
    explanation.metrics[0].rule = Some(Rule::WithinTolerance);
    assert_eq!(
        explanation.sentence(&hpa_by_cpu()),
        "cpu is at 120% of requests, target 60%; within tolerance"
    );
    // The maximum limits only a past recommendation.
    let mut hpa = hpa_by_cpu();
    hpa.spec.max_replicas = 4;
    explanation.stabilized_replicas = Some(16);
    explanation.stabilized_by = Some(ConditionReason::ScaleDownStabilized);
    explanation.limited_by = Some(ConditionReason::TooManyReplicas);
    assert_eq!(
        explanation.sentence(&hpa),
        "cpu is at 120% of requests, target 60%; within tolerance; stabilization keeps a \
         recommendation of 16 for up to 2:00, maxReplicas is 4"
    );
}

#[test]
fn sentence_names_the_pause() {
    let summary = Summary::Paused("above".to_owned());
    let explanation = Explanation { summary, ..explanation(8, 8, 8) };
    assert_eq!(
        explanation.sentence(&hpa_by_cpu()),
        "cpu is at 120% of requests, target 60%; without the pause, it would scale to 8"
    );
    let limited = Explanation {
        summary: Summary::Paused("above".to_owned()),
        limited_by: Some(ConditionReason::TooManyReplicas),
        ..self::explanation(12, 12, 9)
    };
    let sentence = limited.sentence(&hpa_by_cpu());
    assert!(sentence.ends_with("would scale to 9, limited by maxReplicas 9"), "{sentence}");
}

#[test]
fn effects_of_settings_are_named_once_each() {
    let effect = |setting, text: &str| SettingEffect { setting, text: text.to_owned() };
    let mut explanation = explanation(4, 4, 4);
    let other = MetricExplanation {
        effects: vec![effect("rollout", "other"), effect("aggregate", "other")],
        ..MetricExplanation::default()
    };
    explanation.metrics[0].effects = vec![effect("aggregate", "p90")];
    explanation.metrics.insert(0, other);
    explanation.winner = Some(1);
    explanation.effects = vec![effect("bounds", "9 to 17")];
    assert_eq!(
        explanation.sentence(&hpa_with_two_metrics()),
        "cpu is at 120% of requests, target 60%; metrics ask for 4; aggregate: p90; rollout: \
            other; bounds: 9 to 17"
    );
}

fn hpa_with_two_metrics() -> HorizontalPodAutoscaler {
    let mut hpa = hpa_by_queue();
    hpa.spec.metrics.extend(hpa_by_cpu().spec.metrics);
    hpa
}

#[test]
fn averages_are_per_pod_unless_there_are_no_pods() {
    let mut explanation = explanation(8, 8, 8);
    explanation.metrics[0].utilization = None;
    explanation.metrics[0].usage = Some(MilliValue::from_milli(35_250));
    explanation.metrics[0].target = Some(TargetValue::Value(MilliValue::from_units(30)));
    assert_eq!(explanation.sentence(&hpa_by_queue()), "waiting is at 35.2 per pod, target 30");
    let without_pods = "waiting is at 35.2, target 30";
    explanation.current_replicas = 0;
    assert_eq!(explanation.sentence(&hpa_by_queue()), without_pods);
    // `status.replicas` is 0: no pod exists yet.
    explanation.current_replicas = 4;
    explanation.metrics[0].ratio = Some(f64::INFINITY);
    assert_eq!(explanation.sentence(&hpa_by_queue()), without_pods);
}

#[test]
fn decision_without_a_winner_is_explained_by_its_error_or_event() {
    let failed =
        Explanation { summary: Summary::Failed("no metrics".to_owned()), ..Explanation::default() };
    assert_eq!(
        (failed.sentence(&hpa_by_cpu()), failed.reason()),
        ("no metrics".to_owned(), Reason::Failed)
    );
    let metric =
        MetricExplanation { error: Some("no server".to_owned()), ..MetricExplanation::default() };
    let failed = Explanation { metrics: vec![metric], ..failed };
    assert_eq!(failed.sentence(&hpa_by_cpu()), "cpu cannot be read: no server");
    let outside = Summary::Rescale("Current number of replicas above Spec.MaxReplicas".to_owned());
    let outside = Explanation { summary: outside, ..Explanation::default() };
    assert_eq!(
        outside.sentence(&hpa_by_cpu()),
        "Current number of replicas above Spec.MaxReplicas"
    );
    let disabled = Explanation { summary: Summary::ScalingDisabled, ..Explanation::default() };
    assert_eq!(disabled.reason(), Reason::ScalingDisabled);
}
