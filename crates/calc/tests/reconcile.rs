//! Whole reconciles with literal outcomes: what is asked for, written, stored and told.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod world;

use hpa_calc::{
    api::Scale,
    explain::Summary,
    history::{History, Recommendation, ScaleEvent},
    plan::{Plan, ScaleReadError, SelectedPods},
    settings::Settings,
};
use rstest::rstest;
use serde_json::{Value, json};
use world::{
    ABLE, BEFORE, NOT_TO_ZERO, VALID, WITHIN, World, conditions, cpu, error, events, external, hpa,
    now, scale,
};

#[test]
fn scaled() {
    let conclusion = World::of(3, &[Some(6)]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(6));
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=True SucceededRescale: the HPA controller was able to update the target scale to 6",
            VALID,
            WITHIN,
            NOT_TO_ZERO,
        ]
    );
    assert_eq!(
        events(&conclusion),
        ["Normal SuccessfulRescale: New size: 6; reason: external metric m(nil) above target"]
    );
    assert_eq!(error(&conclusion), None);
    let status = &conclusion.status;
    assert_eq!(
        (status.current_replicas, status.desired_replicas, status.last_scale_time),
        (3, 6, Some(now()))
    );
    assert_eq!(status.current_metrics.len(), 1);
    assert_eq!(
        conclusion.explanation.summary,
        Summary::Rescale("external metric m(nil) above target".into())
    );
    // Without behavior scale events are not recorded.
    assert_eq!(conclusion.history.scale_ups, []);
    assert_eq!(conclusion.history.recommendations, [Recommendation { replicas: 6, at: now() }]);
}

#[test]
fn scaled_down_with_behavior_is_recorded() {
    let behavior = json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    let conclusion =
        World::of(6, &[Some(4)]).reconcile(&hpa(json!({ "behavior": behavior }), json!({})));
    assert_eq!(
        events(&conclusion),
        ["Normal SuccessfulRescale: New size: 4; reason: All metrics below target"]
    );
    assert_eq!(
        conclusion.history.scale_downs,
        [ScaleEvent { change: 2, at: now(), outdated: false }]
    );
}

#[test]
fn kept() {
    let conclusion = World::of(3, &[Some(3)])
        .reconcile(&hpa(json!({}), json!({ "desiredReplicas": 9, "lastScaleTime": BEFORE })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        conditions(&conclusion),
        ["AbleToScale=True ReadyForNewScale: recommended size matches current size", VALID, WITHIN]
    );
    assert_eq!(events(&conclusion), [""; 0]);
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 3));
    assert_eq!(status.last_scale_time, Some(BEFORE.parse().unwrap()));
    assert_eq!(conclusion.explanation.summary, Summary::NoChange);
}

#[test]
fn not_written() {
    let mut world = World::of(3, &[Some(6)]);
    world.written = Err("refused".into());
    let behavior = json!({ "behavior": {} });
    let conclusion =
        world.reconcile(&hpa(behavior, json!({ "desiredReplicas": 9, "lastScaleTime": BEFORE })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the target scale: refused",
            VALID,
            WITHIN,
        ]
    );
    assert_eq!(
        events(&conclusion),
        [
            "Warning FailedRescale: New size: 6; reason: external metric m(nil) above target; error: refused"
        ]
    );
    assert_eq!(error(&conclusion).unwrap(), "failed to rescale Deployment/shop/web: refused");
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 9));
    assert_eq!(status.last_scale_time, Some(BEFORE.parse().unwrap()));
    assert_eq!(conclusion.history.scale_ups, []);
    assert_eq!(conclusion.history.recommendations, [Recommendation { replicas: 6, at: now() }]);
}

#[test]
fn a_repeated_failure_to_write_renews_the_transition() {
    let condition =
        json!({ "type": "AbleToScale", "status": "False", "lastTransitionTime": BEFORE });
    let mut world = World::of(3, &[Some(6)]);
    world.written = Err("refused".into());
    let conclusion = world.reconcile(&hpa(json!({}), json!({ "conditions": [condition] })));
    assert_eq!(conclusion.status.conditions[0].last_transition_time, Some(now()));
}

#[test]
fn the_reason_is_from_before_stabilization() {
    let mut world = World::of(3, &[Some(3)]);
    world.history.recommendations = vec![Recommendation { replicas: 5, at: now() }];
    let conclusion = world.reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(5));
    assert_eq!(events(&conclusion), ["Normal SuccessfulRescale: New size: 5; reason: "]);
}

#[rstest]
#[case::unreadable(
    ScaleReadError::Read("gone".into()),
    "failed to query scale subresource for Deployment/shop/web: gone"
)]
#[case::api_version(
    ScaleReadError::InvalidApiVersion("gone".into()),
    "invalid API version in scale target reference: gone"
)]
#[case::kind(
    ScaleReadError::UnknownKind("gone".into()),
    "unable to determine resource for scale target reference: gone"
)]
fn scale_not_read(#[case] read: ScaleReadError, #[case] expected: &str) {
    let old = json!({ "currentReplicas": 4, "desiredReplicas": 9 });
    let mut world = World::of(0, &[]);
    (world.scale, world.history) = (Err(read), History::default());
    let conclusion = world.reconcile(&hpa(json!({}), old));
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's current scale: gone"
        ]
    );
    assert_eq!(events(&conclusion), ["Warning FailedGetScale: gone"]);
    assert_eq!(error(&conclusion).unwrap(), expected);
    assert_eq!((conclusion.status.current_replicas, conclusion.status.desired_replicas), (4, 9));
    assert_eq!(conclusion.history, History::default());
}

#[rstest]
#[case::above(11, 10, "Current number of replicas above Spec.MaxReplicas")]
#[case::far_above(i32::MAX, 10, "Current number of replicas above Spec.MaxReplicas")]
#[case::below(1, 2, "Current number of replicas below Spec.MinReplicas")]
#[case::negative(-1, 2, "Current number of replicas below Spec.MinReplicas")]
fn out_of_bounds(#[case] current: i32, #[case] to: i32, #[case] reason: &str) {
    let conclusion =
        World::of(current, &[Some(5)]).reconcile(&hpa(json!({ "behavior": {} }), json!({})));
    assert_eq!(conclusion.scaled_to, Some(to));
    assert_eq!(
        events(&conclusion),
        [format!("Normal SuccessfulRescale: New size: {to}; reason: {reason}")]
    );
    assert!(conclusion.status.current_metrics.is_empty());
    assert_eq!(
        conditions(&conclusion)[1..],
        [NOT_TO_ZERO.to_owned()],
        "neither ScalingActive nor ScalingLimited is touched"
    );
    assert_eq!(conclusion.history.scale_ups.len() + conclusion.history.scale_downs.len(), 1);
}

#[rstest]
#[case::at_the_maximum(10)]
#[case::at_the_minimum(2)]
fn at_the_bounds_metrics_decide(#[case] current: i32) {
    let conclusion = World::of(current, &[Some(5)]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(if current == 2 { 4 } else { 5 }));
}

const COMPUTE: &str = "failed to compute desired number of replicas based on listed metrics for Deployment/shop/web: ";

#[rstest]
#[case::missing(
    "", &["shop/web"],
    "InvalidSelector: the HPA target's scale is missing a selector",
    "SelectorRequired", "selector is required"
)]
#[case::ambiguous(
    "app=web", &["shop/web", "shop/x"],
    "AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [shop/web shop/x]",
    "AmbiguousSelector", "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/x]"
)]
#[case::invalid(
    "a!!b", &["shop/web"],
    "InvalidSelector: couldn't convert selector into a corresponding internal selector object: unable to parse \
     requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
    "InvalidSelector",
    "couldn't convert selector into a corresponding internal selector object: unable to parse requirement: found \
     '!', expected: in, notin, =, ==, !=, gt, lt"
)]
fn selector_rejected(
    #[case] selector: &str,
    #[case] autoscalers: &[&str],
    #[case] condition: &str,
    #[case] event: &str,
    #[case] message: &str,
) {
    let mut world = World::of(3, &[Some(5)]);
    world.scale = Ok(Scale { selector: selector.into(), ..scale(3) });
    world.autoscalers = autoscalers.iter().map(ToString::to_string).collect();
    let old = json!({ "desiredReplicas": 9, "currentMetrics": [{ "type": "External" }] });
    let conclusion = world.reconcile(&hpa(json!({}), old));
    assert_eq!(
        conditions(&conclusion),
        [ABLE.to_owned(), format!("ScalingActive=False {condition}")]
    );
    assert_eq!(
        events(&conclusion),
        [
            format!("Warning {event}: {message}"),
            format!("Warning FailedComputeMetricsReplicas: {message}")
        ]
    );
    assert_eq!(error(&conclusion).unwrap(), format!("{COMPUTE}{message}"));
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 9));
    assert!(status.current_metrics.is_empty());
}

#[test]
fn one_other_or_no_autoscaler_is_not_ambiguous() {
    for autoscalers in [vec![], vec!["shop/other".to_owned()]] {
        let mut world = World::of(3, &[Some(5)]);
        world.autoscalers = autoscalers;
        assert_eq!(world.reconcile(&hpa(json!({}), json!({}))).scaled_to, Some(5));
    }
}

#[test]
fn metrics_fail_one_by_one() {
    let cause = "unable to get external metric shop/a/nil: unable to fetch metrics from external metrics API: down";
    let wrapped = format!(
        "invalid metrics (1 invalid out of 2), first error is: failed to get a external metric value: failed to get \
         a external metric: {cause}"
    );
    let spec = json!({ "metrics": [external("a"), external("m")] });
    // The other suffices to scale up.
    let conclusion = World::of(3, &[None, Some(6)]).reconcile(&hpa(spec.clone(), json!({})));
    assert_eq!(conclusion.scaled_to, Some(6));
    assert_eq!(
        events(&conclusion),
        [
            format!("Warning FailedGetExternalMetric: {cause}"),
            "Normal SuccessfulRescale: New size: 6; reason: external metric m(nil) above target"
                .into(),
        ]
    );
    assert_eq!(error(&conclusion).unwrap(), wrapped);
    assert_eq!(conclusion.explanation.winner, Some(1));
    // It does not to scale down.
    let conclusion =
        World::of(7, &[None, Some(6)]).reconcile(&hpa(spec, json!({ "desiredReplicas": 9 })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        events(&conclusion),
        [
            format!("Warning FailedGetExternalMetric: {cause}"),
            format!("Warning FailedComputeMetricsReplicas: {wrapped}"),
        ]
    );
    let condition = format!(
        "ScalingActive=False FailedGetExternalMetric: the HPA was unable to compute the replica count: {cause}"
    );
    assert_eq!(conditions(&conclusion), [ABLE.to_owned(), condition]);
    assert_eq!(error(&conclusion).unwrap(), format!("{COMPUTE}{wrapped}"));
    assert_eq!(conclusion.status.desired_replicas, 9);
    assert_eq!(
        serde_json::to_value(&conclusion.status.current_metrics).unwrap(),
        json!([
            { "type": "External", "external": { "metric": { "name": "a" }, "current": {} } },
            { "type": "External", "external": { "metric": { "name": "m" }, "current": { "averageValue": "6" } } },
        ])
    );
}

#[rstest]
#[case::unknown_type(json!({ "type": "Newest" }), "InvalidMetricSourceType", "unknown metric source type \"Newest\"")]
#[case::no_member(
    json!({ "type": "Pods" }),
    "FailedGetPodsMetric",
    "invalid metric source: type is Pods but pods is not set"
)]
fn metrics_that_cannot_be_asked_for(
    #[case] metric: Value,
    #[case] reason: &str,
    #[case] cause: &str,
) {
    let conclusion = World::of(3, &[]).reconcile(&hpa(json!({ "metrics": [metric] }), json!({})));
    assert_eq!(events(&conclusion)[0], format!("Warning {reason}: {cause}"));
    let condition = format!(
        "ScalingActive=False {reason}: the HPA was unable to compute the replica count: {cause}"
    );
    assert_eq!(conditions(&conclusion)[1], condition);
}

#[test]
fn the_first_reconcile_does_not_scale_down() {
    let mut world = World::of(6, &[Some(4)]);
    world.history = History::default();
    let conclusion = world.reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, None);
    assert!(conditions(&conclusion)[0].starts_with("AbleToScale=True ScaleDownStabilized: "));
    assert_eq!(
        conclusion.history.recommendations,
        [Recommendation { replicas: 6, at: now() }, Recommendation { replicas: 4, at: now() }]
    );
}

#[test]
fn a_metric_nobody_asked_for_is_not_read() {
    let conclusion = World::of(3, &[]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(
        events(&conclusion)[0],
        "Warning FailedGetExternalMetric: unable to get external metric shop/m/nil: the metric was not read"
    );
}

#[rstest]
#[case::scale_unreadable(Err(ScaleReadError::Read("gone".into())), false)]
#[case::disabled(Ok(scale(0)), false)]
#[case::above(Ok(scale(11)), false)]
#[case::below(Ok(scale(1)), false)]
#[case::no_selector(Ok(Scale { selector: String::new(), ..scale(3) }), false)]
#[case::metrics(Ok(scale(3)), true)]
fn pods_are_selected_only_for_metrics(
    #[case] scale: Result<Scale, ScaleReadError>,
    #[case] expected: bool,
) {
    let (hpa, settings) = (hpa(json!({}), json!({})), Settings::default());
    let mut selected = false;
    let plan = Plan::new(&hpa, scale, &settings, |selector| {
        assert_eq!(selector.to_string(), "app=web");
        selected = true;
        SelectedPods::default()
    });
    assert_eq!(
        (plan.queries().count(), plan.selector().is_some()),
        (usize::from(expected), expected)
    );
    assert_eq!(selected, expected);
}

#[test]
fn a_query_keeps_the_index_of_its_metric() {
    let mut bad = external("bad");
    bad["external"]["metric"]["selector"] =
        json!({ "matchExpressions": [{ "key": "k", "operator": "Near" }] });
    let hpa = hpa(json!({ "metrics": [cpu(), bad, external("m")] }), json!({}));
    let settings = Settings::default();
    let plan = Plan::new(&hpa, Ok(scale(3)), &settings, |_| SelectedPods::default());
    assert_eq!(plan.queries().map(|(index, _)| index).collect::<Vec<_>>(), [0, 2]);
}
