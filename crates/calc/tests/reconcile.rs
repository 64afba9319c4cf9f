//! Whole reconciles with literal outcomes: queries, scale, status and events.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{
    ABLE_TO_SCALE, BEFORE, NOT_SCALED_TO_ZERO, SCALING_ACTIVE, Scenario, WITHIN_RANGE, conditions,
    cpu, error, events, external, hpa, now, scale,
};
use hpa_calc::{
    History, MetricsApi, MilliValue, Plan, ReadError, Reading, Scale, ScaleReadError,
    ScaleWriteError, SelectedPods, Settings,
    defaults::prepare_spec,
    explain::Summary,
    history::{Recommendation, ScaleEvent},
    validation::{MAX_SPEC_BYTES, drop_refused_parts},
};
use rstest::rstest;
use serde_json::{Value, json};

#[test]
fn scale_up_sets_conditions_and_event() {
    let conclusion = Scenario::new(3, &[Some(6)]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(6));
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=True SucceededRescale: the HPA controller was able to update the target \
                scale to 6",
            SCALING_ACTIVE,
            WITHIN_RANGE,
            NOT_SCALED_TO_ZERO,
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
    // Without behavior, no scale events are recorded.
    assert_eq!(conclusion.history.scale_ups, []);
    assert_eq!(conclusion.history.recommendations, [Recommendation { replicas: 6, at: now() }]);
}

#[test]
fn scale_down_with_behavior_records_a_scale_event() {
    let behavior = json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    let conclusion =
        Scenario::new(6, &[Some(4)]).reconcile(&hpa(json!({ "behavior": behavior }), json!({})));
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
fn matching_replicas_keep_the_scale() {
    let conclusion = Scenario::new(3, &[Some(3)])
        .reconcile(&hpa(json!({}), json!({ "desiredReplicas": 9, "lastScaleTime": BEFORE })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=True ReadyForNewScale: recommended size matches current size",
            SCALING_ACTIVE,
            WITHIN_RANGE
        ]
    );
    assert_eq!(events(&conclusion), [""; 0]);
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 3));
    assert_eq!(status.last_scale_time, Some(BEFORE.parse().unwrap()));
    assert_eq!(conclusion.explanation.summary, Summary::NoChange);
}

#[test]
fn failed_write_is_reported_and_keeps_desired_replicas() {
    let mut scenario = Scenario::new(3, &[Some(6)]);
    scenario.written = Err(ScaleWriteError::failed("refused"));
    let behavior = json!({ "behavior": {} });
    let conclusion = scenario
        .reconcile(&hpa(behavior, json!({ "desiredReplicas": 9, "lastScaleTime": BEFORE })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        conditions(&conclusion),
        [
            "AbleToScale=False FailedUpdateScale: the HPA controller was unable to update the \
                target scale: refused",
            SCALING_ACTIVE,
            WITHIN_RANGE,
        ]
    );
    assert_eq!(
        events(&conclusion),
        ["Warning FailedRescale: New size: 6; reason: external metric m(nil) above target; \
                error: refused"]
    );
    assert_eq!(error(&conclusion).unwrap(), "failed to rescale Deployment/shop/web: refused");
    let status = &conclusion.status;
    assert_eq!((status.current_replicas, status.desired_replicas), (3, 9));
    assert_eq!(status.last_scale_time, Some(BEFORE.parse().unwrap()));
    assert_eq!(conclusion.history.scale_ups, []);
    assert_eq!(conclusion.history.recommendations, [Recommendation { replicas: 6, at: now() }]);
}

#[test]
fn repeated_write_failure_renews_the_transition_time() {
    let condition =
        json!({ "type": "AbleToScale", "status": "False", "lastTransitionTime": BEFORE });
    let mut scenario = Scenario::new(3, &[Some(6)]);
    scenario.written = Err(ScaleWriteError::failed("refused"));
    let conclusion = scenario.reconcile(&hpa(json!({}), json!({ "conditions": [condition] })));
    assert_eq!(conclusion.status.conditions[0].last_transition_time, Some(now()));
}

#[test]
fn event_reason_ignores_stabilization() {
    let mut scenario = Scenario::new(3, &[Some(3)]);
    scenario.history.recommendations = vec![Recommendation { replicas: 5, at: now() }];
    let conclusion = scenario.reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(5));
    assert_eq!(events(&conclusion), ["Normal SuccessfulRescale: New size: 5; reason: "]);
}

#[rstest]
#[case::unreadable(
    ScaleReadError::read("gone"),
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
fn unreadable_scale_is_reported(#[case] read: ScaleReadError, #[case] expected: &str) {
    let old = json!({ "currentReplicas": 4, "desiredReplicas": 9 });
    let mut scenario = Scenario::new(0, &[]);
    (scenario.scale, scenario.history) = (Err(read), History::default());
    let conclusion = scenario.reconcile(&hpa(json!({}), old));
    assert_eq!(
        conditions(&conclusion),
        ["AbleToScale=False FailedGetScale: the HPA controller was unable to get the target's \
                current scale: gone"]
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
fn replicas_out_of_bounds_are_scaled_without_metrics(
    #[case] current: i32,
    #[case] to: i32,
    #[case] reason: &str,
) {
    let conclusion =
        Scenario::new(current, &[Some(5)]).reconcile(&hpa(json!({ "behavior": {} }), json!({})));
    assert_eq!(conclusion.scaled_to, Some(to));
    assert_eq!(
        events(&conclusion),
        [format!("Normal SuccessfulRescale: New size: {to}; reason: {reason}")]
    );
    assert!(conclusion.status.current_metrics.is_empty());
    assert_eq!(
        conditions(&conclusion)[1..],
        [NOT_SCALED_TO_ZERO.to_owned()],
        "neither ScalingActive nor ScalingLimited changes"
    );
    assert_eq!(conclusion.history.scale_ups.len() + conclusion.history.scale_downs.len(), 1);
}

#[rstest]
#[case::at_the_maximum(10, 5)]
// Without behavior, a scale-up at most doubles the replicas, or makes them 4.
#[case::at_the_minimum(2, 4)]
fn metrics_decide_at_the_bounds(#[case] current: i32, #[case] expected: i32) {
    let conclusion = Scenario::new(current, &[Some(5)]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, Some(expected));
}

const COMPUTE: &str = "failed to compute desired number of replicas based on listed metrics for \
    Deployment/shop/web: ";

#[rstest]
#[case::missing(
    "", &["shop/web"],
    "InvalidSelector: the HPA target's scale is missing a selector",
    "SelectorRequired", "selector is required"
)]
#[case::ambiguous(
    "app=web", &["shop/web", "shop/x"],
    "AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [shop/web \
        shop/x]",
    "AmbiguousSelector", "pods by selector app=web are controlled by multiple HPAs: [shop/web \
        shop/x]"
)]
#[case::invalid(
    "a!!b", &["shop/web"],
    "InvalidSelector: couldn't convert selector into a corresponding internal selector object: \
        unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
    "InvalidSelector",
    "couldn't convert selector into a corresponding internal selector object: unable to parse \
        requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"
)]
fn unusable_selector_is_reported(
    #[case] selector: &str,
    #[case] autoscalers: &[&str],
    #[case] condition: &str,
    #[case] event: &str,
    #[case] message: &str,
) {
    let mut scenario = Scenario::new(3, &[Some(5)]);
    scenario.scale = Ok(Scale { selector: selector.into(), ..scale(3) });
    scenario.autoscalers = autoscalers.iter().map(ToString::to_string).collect();
    let old = json!({ "desiredReplicas": 9, "currentMetrics": [{ "type": "External" }] });
    let conclusion = scenario.reconcile(&hpa(json!({}), old));
    assert_eq!(
        conditions(&conclusion),
        [ABLE_TO_SCALE.to_owned(), format!("ScalingActive=False {condition}")]
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
fn too_large_spec_is_reported_and_only_its_bounds_apply() {
    let mut metric = external("m");
    metric["external"]["metric"]["selector"] =
        json!({ "matchLabels": { "queue": "x".repeat(MAX_SPEC_BYTES) } });
    let mut hpa = hpa(json!({ "metrics": [metric] }), json!({}));
    prepare_spec(&mut hpa.spec);
    let bytes = hpa.spec.excessive_bytes.unwrap();
    let message = format!("the spec has {bytes} bytes as JSON, more than 65536");
    // A cache drops the metrics, and a command has them.
    for is_dropped in [false, true] {
        if is_dropped {
            drop_refused_parts(&mut hpa.spec);
        }
        assert_eq!(hpa.spec.metrics.is_empty(), is_dropped);
        let conclusion = Scenario::new(3, &[Some(5)]).reconcile(&hpa);
        assert_eq!(conclusion.scaled_to, None);
        assert_eq!(
            conditions(&conclusion),
            [ABLE_TO_SCALE.to_owned(), format!("ScalingActive=False SpecTooLarge: {message}")]
        );
        assert_eq!(
            events(&conclusion),
            [format!("Warning FailedComputeMetricsReplicas: {message}")]
        );
        assert_eq!(Scenario::new(11, &[Some(5)]).reconcile(&hpa).scaled_to, Some(10));
    }
}

#[test]
fn selector_of_one_autoscaler_is_not_ambiguous() {
    for autoscalers in [vec![], vec!["shop/other".to_owned()]] {
        let mut scenario = Scenario::new(3, &[Some(5)]);
        scenario.autoscalers = autoscalers;
        assert_eq!(scenario.reconcile(&hpa(json!({}), json!({}))).scaled_to, Some(5));
    }
}

#[test]
fn partial_failure_allows_scale_up_and_blocks_scale_down() {
    let cause = "unable to get external metric shop/a/nil: unable to fetch metrics from external \
        metrics API: down";
    let wrapped = format!(
        "invalid metrics (1 invalid out of 2), first error is: failed to get a external metric \
            value: failed to get a external metric: {cause}"
    );
    let spec = json!({ "metrics": [external("a"), external("m")] });
    // The other metric is enough to scale up.
    let conclusion = Scenario::new(3, &[None, Some(6)]).reconcile(&hpa(spec.clone(), json!({})));
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
    // It is not enough to scale down.
    let conclusion =
        Scenario::new(7, &[None, Some(6)]).reconcile(&hpa(spec, json!({ "desiredReplicas": 9 })));
    assert_eq!(conclusion.scaled_to, None);
    assert_eq!(
        events(&conclusion),
        [
            format!("Warning FailedGetExternalMetric: {cause}"),
            format!("Warning FailedComputeMetricsReplicas: {wrapped}"),
        ]
    );
    let condition = format!(
        "ScalingActive=False FailedGetExternalMetric: the HPA was unable to compute the replica \
            count: {cause}"
    );
    assert_eq!(conditions(&conclusion), [ABLE_TO_SCALE.to_owned(), condition]);
    assert_eq!(error(&conclusion).unwrap(), format!("{COMPUTE}{wrapped}"));
    assert_eq!(conclusion.status.desired_replicas, 9);
    assert_eq!(
        serde_json::to_value(&conclusion.status.current_metrics).unwrap(),
        json!([
            { "type": "External", "external": { "metric": { "name": "a" }, "current": {} } },
            {
                "type": "External",
                "external": { "metric": { "name": "m" }, "current": { "averageValue": "6" } },
            },
        ])
    );
}

#[rstest]
#[case::unknown_type(
    json!({ "type": "Newest" }),
    "InvalidMetricSourceType",
    "unknown metric source type \"Newest\""
)]
#[case::no_member(
    json!({ "type": "Pods" }),
    "FailedGetPodsMetric",
    "invalid metric source: type is Pods but pods is not set"
)]
fn invalid_metric_specs_are_reported(
    #[case] metric: Value,
    #[case] reason: &str,
    #[case] cause: &str,
) {
    let conclusion =
        Scenario::new(3, &[]).reconcile(&hpa(json!({ "metrics": [metric] }), json!({})));
    assert_eq!(events(&conclusion)[0], format!("Warning {reason}: {cause}"));
    let condition = format!(
        "ScalingActive=False {reason}: the HPA was unable to compute the replica count: {cause}"
    );
    assert_eq!(conditions(&conclusion)[1], condition);
}

#[test]
fn first_reconcile_does_not_scale_down() {
    let mut scenario = Scenario::new(6, &[Some(4)]);
    scenario.history = History::default();
    let conclusion = scenario.reconcile(&hpa(json!({}), json!({})));
    assert_eq!(conclusion.scaled_to, None);
    assert!(conditions(&conclusion)[0].starts_with("AbleToScale=True ScaleDownStabilized: "));
    assert_eq!(
        conclusion.history.recommendations,
        [Recommendation { replicas: 6, at: now() }, Recommendation { replicas: 4, at: now() }]
    );
}

#[test]
fn metric_without_a_reading_fails() {
    let conclusion = Scenario::new(3, &[]).reconcile(&hpa(json!({}), json!({})));
    assert_eq!(
        events(&conclusion)[0],
        "Warning FailedGetExternalMetric: unable to get external metric shop/m/nil: no value of \
         it was given"
    );
}

#[rstest]
#[case::scale_unreadable(Err(ScaleReadError::read("gone")), false)]
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
fn query_has_the_index_of_its_metric() {
    let mut bad = external("bad");
    bad["external"]["metric"]["selector"] =
        json!({ "matchExpressions": [{ "key": "k", "operator": "Near" }] });
    let hpa = hpa(json!({ "metrics": [cpu(), bad, external("m")] }), json!({}));
    let settings = Settings::default();
    let plan = Plan::new(&hpa, Ok(scale(3)), &settings, |_| SelectedPods::default());
    assert_eq!(plan.queries().map(|(index, _)| index).collect::<Vec<_>>(), [0, 2]);
}

#[test]
fn readings_by_name_answer_every_query_of_that_name() {
    let metrics = json!([external("m"), cpu(), external("m"), external("n")]);
    let hpa = hpa(json!({ "metrics": metrics }), json!({}));
    let settings = Settings::default();
    let plan = Plan::new(&hpa, Ok(scale(3)), &settings, |_| SelectedPods::default());
    let value = Ok(Reading::External(vec![MilliValue::from_units(5)].into()));
    let failed = Err(ReadError::Empty(MetricsApi::Resource));
    let readings = plan.readings_by_name([
        ("m", value.clone()),
        ("cpu", failed.clone()),
        ("x", value.clone()),
    ]);
    let expected = [Some(&value), Some(&failed), Some(&value), None];
    assert_eq!([0, 1, 2, 3].map(|metric| readings.get(metric)), expected);
}
