//! Reports on pods that don't exist, don't count, or belong to others.

use rstest::rstest;
use serde_json::json;

use super::*;

/// Two of four replicas have pods, each with this value.
fn inputs_with_two_of_four_pods(milli: i64) -> Inputs {
    let mut inputs = inputs_at(milli, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.selected.pods.truncate(2);
    let values: Vec<_> = ["web-0", "web-1"].map(|pod| (pod, milli)).into();
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    inputs.scale = Ok(Scale { spec_replicas: 4, status_replicas: 2, selector: "app=web".into() });
    inputs
}

/// Sets a last status that desires 4 replicas. `utilization` is that of the CPU.
fn set_status(inputs: &mut Inputs, current_replicas: i32, utilization: i32) {
    // Each pod requests 600m.
    let average = format!("{}m", utilization * 6);
    let current = json!({ "averageUtilization": utilization, "averageValue": average });
    let current = json!({ "type": "Resource", "resource": { "name": "cpu", "current": current } });
    let status = &mut inputs.hpa.status;
    status.current_metrics = vec![serde_json::from_value(current).unwrap()];
    (status.current_replicas, status.desired_replicas) = (current_replicas, 4);
}

#[test]
fn pods_that_do_not_exist_are_named_if_the_metrics_ask_for_more() {
    let mut inputs = inputs_with_two_of_four_pods(700);
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 116% of requests, target 66%; metrics ask for 4; 2 of 4 pods exist"
    );
    assert_eq!(report.state(State::WaitingForPods), State::WaitingForPods);
    assert_contains(
        &report,
        "The events of the ReplicaSet explain why it doesn't create more: kubectl describe \
         replicasets --selector 'app=web' --namespace shop",
    );
    // The others exist, but don't count.
    inputs.scale = Ok(Scale { spec_replicas: 4, status_replicas: 4, selector: "app=web".into() });
    let report = inputs.report();
    assert!(report.sentence.ends_with("; 2 of 4 pods count"), "{}", report.sentence);
}

#[test]
fn refused_pods_are_named_at_once_and_precede_the_maximum() {
    let mut inputs = inputs_with_two_of_four_pods(1400);
    inputs.hpa.spec.max_replicas = 4;
    inputs.hpa.status.last_scale_time = Some(seconds_ago(10));
    let report = inputs.report();
    let end = "; maxReplicas is 4, metrics ask for 8";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_eq!(report.state(State::AtMaximum), State::WaitingForPods);
    assert!(!report.to_string().contains("Raise spec.maxReplicas"), "{report}");
    inputs.selected.replica_failure = Some("exceeded quota: pods".to_owned());
    let report = inputs.report();
    let refused = "; 2 of 4 pods exist: exceeded quota: pods";
    assert!(report.sentence.ends_with(&format!("{end}{refused}")), "{}", report.sentence);
    assert_contains(&report, "Only 2 of 4 pods exist: exceeded quota: pods. The autoscaler last");
    inputs.scale.as_mut().unwrap().status_replicas = 4;
    let report = inputs.report();
    assert!(!report.sentence.contains("quota"), "{}", report.sentence);
    assert_eq!(report.state(State::AtMaximum), State::AtMaximum);
    assert_contains(&report, "Raise spec.maxReplicas if the cluster has room");
}

#[test]
fn status_with_fewer_pods_than_the_selector_matches_does_not_precede_the_maximum() {
    let mut inputs = inputs(json!({ "maxReplicas": 4 }));
    inputs.readings = [(0, Ok(equal_samples(700)))].into_iter().collect();
    inputs.scale.as_mut().unwrap().status_replicas = 2;
    let report = inputs.report();
    assert!(report.sentence.contains("maxReplicas is 4"), "{}", report.sentence);
    assert_eq!(report.state(State::Steady), State::AtMaximum);
}

#[rstest]
#[case::stayed(
    4,
    Some("the controller last desired 4 with cpu at 90% of requests, so it may count fewer pods")
)]
#[case::scaled(3, None)]
fn status_that_stayed_above_the_target_makes_a_scale_up_doubtful(
    #[case] replicas: i32,
    #[case] doubt: Option<&str>,
) {
    let mut inputs = inputs_at(540, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    set_status(&mut inputs, replicas, 90);
    let report = inputs.report();
    let verb = if doubt.is_some() { "would scale" } else { "scales" };
    assert_eq!(report.doubt.as_deref(), doubt);
    assert!(report.sentence.starts_with(&format!("{verb} from 4 to 6: ")), "{}", report.sentence);
    let has_advice = report.advice.iter().any(|advice| advice.contains("the right to watch pods"));
    assert_eq!(has_advice, doubt.is_some());
    inputs.history = Some(History::default());
    assert_eq!(inputs.report().doubt, None);
}

/// The load has just changed, or the controller can't decide any more.
#[rstest]
#[case::up(540)]
#[case::down(100)]
fn status_that_needs_no_scaling_makes_a_scaling_doubtful(#[case] milli: i64) {
    let spec = json!({ "behavior": { "scaleDown": { "stabilizationWindowSeconds": 0 } } });
    let mut inputs = inputs_at(milli, spec, &[("AbleToScale", "True", "ReadyForNewScale")]);
    set_status(&mut inputs, 4, 66);
    let report = inputs.report();
    let doubt = "the controller last desired 4 with cpu at 66% of requests";
    assert_eq!(report.doubt.as_deref(), Some(doubt));
    assert!(report.sentence.starts_with("would scale from 4 to "), "{}", report.sentence);
    assert!(report.sentence.ends_with(&format!("; {doubt}")), "{}", report.sentence);
    assert_contains(&report, "If the replicas stay for longer than two sync periods, ");
    inputs.history = Some(History::default());
    assert_eq!(inputs.report().doubt, None);
    inputs.history = None;
    inputs.hpa.status.current_replicas = 3;
    assert_eq!(inputs.report().doubt, None, "the replicas have changed since then");
}

/// A controller that has lost its rights stores no other status.
#[rstest]
#[case::at_the_minimum(4, None, &[("ScalingLimited", "True", "TooFewReplicas")], true)]
#[case::scaled_long_ago(3, Some(61), &[("AbleToScale", "True", "SucceededRescale")], true)]
#[case::scaled_just_now(3, Some(60), &[("AbleToScale", "True", "SucceededRescale")], false)]
fn old_status_makes_a_scale_up_doubtful(
    #[case] current: i32,
    #[case] scaled_ago: Option<i64>,
    #[case] conditions: &[(&str, &str, &str)],
    #[case] is_doubtful: bool,
) {
    let mut inputs = inputs_at(540, json!({}), conditions);
    set_status(&mut inputs, current, 60);
    inputs.hpa.status.last_scale_time = scaled_ago.map(seconds_ago);
    let doubt = "the controller last desired 4 with cpu at 60% of requests";
    assert_eq!(inputs.report().doubt.as_deref(), is_doubtful.then_some(doubt));
}

/// A new spec applies at the next sync.
#[rstest]
#[case::same_minimum(4, None, 0, true)]
#[case::changed_minimum(3, None, 0, false)]
#[case::old_status(4, Some(61), 0, true)]
#[case::recent_status(4, Some(60), 0, false)]
#[case::recent_status_of_a_clock_that_is_ahead(4, Some(90), 30, false)]
fn status_of_another_spec_needs_no_advice(
    #[case] min_replicas: i32,
    #[case] stored_ago: Option<i64>,
    #[case] clock_lead: i64,
    #[case] expected: bool,
) {
    let spec = json!({ "minReplicas": min_replicas });
    let mut inputs = inputs_at(540, spec, &[("ScalingLimited", "True", "TooFewReplicas")]);
    inputs.readings.set_clock_lead(jiff::SignedDuration::from_secs(clock_lead));
    set_status(&mut inputs, 4, 60);
    let mut report = inputs.report();
    let doubt = "the controller last desired 4 with cpu at 60% of requests";
    assert_eq!(report.doubt.as_deref(), Some(doubt));
    report.remove_advice_about_old_status(stored_ago.map(seconds_ago));
    let is_about_status = |advice: &String| advice.starts_with("If the replicas stay for longer");
    assert_eq!(report.advice.iter().any(is_about_status), expected);
}

/// Values within the tolerance keep 4 replicas, although higher ones lead to fewer.
#[test]
fn nearest_change_is_found_if_half_of_the_pods_are_missing() {
    let inputs = inputs_with_two_of_four_pods(792);
    let report = inputs.report();
    let fall = report.changes.iter().find_map(|change| match &change.trigger {
        Trigger::Metric { direction: Direction::Down, value, .. } => {
            Some((value.as_milli(), change.replicas))
        }
        _ => None,
    });
    assert_eq!(fall, Some((599, 3)), "{:?}", report.changes);
}

/// A quota may refuse them.
#[rstest]
#[case::unknown_time(None, true, "Only 3 of 4 pods exist. The events of the ReplicaSet")]
#[case::created_by_now(Some(60), true, "exist. The autoscaler last scaled 60s ago. The events")]
#[case::being_created(Some(59), false, "")]
fn pods_that_do_not_exist_are_named_at_the_target(
    #[case] scaled_ago: Option<i64>,
    #[case] is_named: bool,
    #[case] advice: &str,
) {
    let mut inputs = inputs(json!({}));
    inputs.selected.pods.truncate(3);
    let values: Vec<_> = ["web-0", "web-1", "web-2"].map(|pod| (pod, 396)).into();
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    inputs.hpa.status.last_scale_time = scaled_ago.map(seconds_ago);
    inputs.scale.as_mut().unwrap().status_replicas = 3;
    let report = inputs.report();
    let start = "stays at 4: cpu is at 66% of requests, target 66%; within tolerance";
    let end = if is_named { "; 3 of 4 pods exist" } else { "" };
    assert_eq!(report.sentence, format!("{start}{end}"));
    assert_contains(&report, advice);
    // No controller writes the status of the scale.
    inputs.scale.as_mut().unwrap().status_replicas = 0;
    assert_eq!(inputs.report().sentence, start);
}

/// The status may be old, or count only the pods that are ready.
#[test]
fn pods_of_the_selector_exist_if_the_scale_counts_fewer() {
    let mut inputs = inputs(json!({}));
    inputs.scale.as_mut().unwrap().status_replicas = 3;
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("stays at 4: ") && !sentence.contains("exist"), "{sentence}");
}

/// A StatefulSet waits for them.
#[test]
fn unready_pods_are_named_beside_those_that_do_not_exist() {
    let target = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web" });
    let mut inputs = inputs(json!({ "scaleTargetRef": target, "metrics": [rps_spec()] }));
    let values: Vec<_> = ["web-0", "web-1", "web-2"].map(|pod| (pod, 10_000)).into();
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    inputs.selected.pods.truncate(3);
    pod_mut(&mut inputs, 2).ready.as_mut().unwrap().status = Some(false);
    inputs.scale.as_mut().unwrap().status_replicas = 3;
    let report = inputs.report();
    let end = "; 3 of 4 pods exist; 1 of 3 pods is not ready";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_contains(&report, "only when those before it are ready. Otherwise, the events of the");
    assert_contains(&report, "Check why 1 of 3 pods is not ready: kubectl describe pods");
}

#[test]
fn starting_pods_are_counted_beside_those_that_are_not_ready() {
    let mut inputs = inputs(json!({ "metrics": [rps_spec()] }));
    inputs.readings = [(0, Ok(equal_samples(10_000)))].into_iter().collect();
    for (pod, started_ago) in pods_mut(&mut inputs).zip([900, 900, 60, 60]) {
        pod.start_time = Some(seconds_ago(started_ago));
        pod.ready.as_mut().unwrap().status = Some(false);
    }
    let report = inputs.report();
    let end = "; none of the 4 pods is ready, 2 are starting";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_contains(&report, "Check why none of the 4 pods is ready: kubectl describe pods");
    // The two pods that started a minute ago were ready until now.
    for pod in pods_mut(&mut inputs) {
        pod.ready.as_mut().unwrap().last_transition_time = seconds_ago(0);
    }
    let report = inputs.report();
    assert!(report.sentence.ends_with("; none of the 4 pods is ready"), "{}", report.sentence);
    pod_mut(&mut inputs, 0).ready.as_mut().unwrap().status = Some(true);
    let report = inputs.report();
    assert!(report.sentence.ends_with("; 3 of 4 pods are not ready"), "{}", report.sentence);
    assert_contains(&report, "Check why 3 of 4 pods are not ready: kubectl describe pods");
}

/// Three replicas, whose first pod uses 700m. `change` applies to the others.
fn inputs_with_changed_pods(change: impl Fn(&mut crate::Pod)) -> Inputs {
    let mut inputs = inputs_at(700, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.hpa.spec.min_replicas = Some(1);
    inputs.selected.pods.truncate(3);
    pods_mut(&mut inputs).skip(1).for_each(change);
    inputs.readings = [(0, Ok(samples(&[("web-0", 700)])))].into_iter().collect();
    inputs.scale = Ok(Scale { spec_replicas: 3, status_replicas: 3, selector: "app=web".into() });
    inputs.history = Some(History::default());
    inputs.hpa.spec.behavior = serde_json::from_value(json!({
        "scaleDown": { "stabilizationWindowSeconds": 0 },
    }))
    .unwrap();
    inputs
}

#[test]
fn ignored_pods_explain_a_scale_down_above_the_target() {
    let inputs = inputs_with_changed_pods(|pod| pod.terminating = true);
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "scales from 3 to 2: cpu is at 116% of requests, target 66%; 1 of 3 pods counts (2 being \
         deleted)"
    );
    assert_contains(
        &report,
        "Only 1 of 3 pods counts (2 being deleted). Check the target's pods: kubectl get pods",
    );
}

#[test]
fn ignored_pods_explain_a_small_proposal_below_the_target() {
    let mut inputs = inputs_with_changed_pods(|pod| pod.phase = "Failed".into());
    inputs.readings = [(0, Ok(samples(&[("web-0", 100)])))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(
        sentence.starts_with("scales from 3 to 1: cpu is at 16% of requests, target 66%"),
        "{sentence}"
    );
    assert!(sentence.ends_with("; 1 of 3 pods counts (2 Failed)"), "{sentence}");
    // All replicas count, and the ignored pods are those of an earlier rollout.
    inputs.scale = Ok(Scale { spec_replicas: 1, status_replicas: 1, selector: "app=web".into() });
    let sentence = inputs.report().sentence;
    assert!(!sentence.contains("Failed"), "{sentence}");
}

#[test]
fn pods_that_never_count_are_not_waited_for() {
    let mut inputs = inputs_with_changed_pods(|pod| pod.terminating = true);
    inputs.selected.pods.remove(0);
    inputs.readings = [(0, Ok(samples(&[("web-1", 900), ("web-2", 900)])))].into_iter().collect();
    assert_contains(
        &inputs.report(),
        "No pod has a sample of cpu that counts: web-1, web-2 (2 being deleted). Wait until other \
         pods have been measured. If there are none, the events of the ReplicaSet explain why it \
         doesn't create more: kubectl describe replicasets --selector 'app=web' --namespace shop",
    );
    // A pod that may count later is the one to check.
    let mut pending = pod("web-3", "Pending", Some("600m"));
    pending.start_time = None;
    inputs.selected.pods.push(std::sync::Arc::new(pending));
    assert_contains(
        &inputs.report(),
        "No pod has a sample of cpu that counts: web-3 (others don't count: 2 being deleted). \
         Check why the pods are not ready",
    );
}

#[test]
fn other_autoscaler_of_the_same_pods_is_named_first() {
    let mut inputs = inputs(json!({}));
    let names = ["shop/web", "rhpa/shop/sched"].map(str::to_owned);
    inputs.selected.autoscalers = names.into();
    let report = inputs.report();
    assert_eq!(report.sentence, "isn't scaled: rhpa/shop/sched selects the same pods");
    let merge = "Merge this one and rhpa/shop/sched into one autoscaler with several metrics";
    assert_contains(&report, &format!("{merge} if they have one target. Otherwise give the"));
    inputs.selected.sharing_target = vec!["rhpa/shop/sched".to_owned()];
    let known = format!("{merge}: they have one target. Until then, none of them scales");
    assert_contains(&inputs.report(), &known);
    // Seen from the custom API.
    inputs.selected.autoscalers = vec!["rhpa/shop/web".to_owned(), "shop/other".to_owned()];
    assert_eq!(inputs.report().sentence, "isn't scaled: shop/other selects the same pods");
    inputs.selected.autoscalers = vec!["rhpa/shop/web".to_owned(), "shop/web".to_owned()];
    let sentence = inputs.report().sentence;
    assert_eq!(sentence, "isn't scaled: rhpa/shop/web, shop/web select the same pods");
    inputs.selected.own_name = Some("shop/web".to_owned());
    let report = inputs.report();
    assert_eq!(report.sentence, "isn't scaled: rhpa/shop/web selects the same pods");
    assert_contains(&report, "Merge this one and rhpa/shop/web into one");
}

#[rstest]
#[case::other_autoscaler_of_the_pods(&["shop/big", "shop/web"], 4)]
#[case::metrics(&[], 4)]
#[case::below_the_minimum(&[], 1)]
fn conflict_of_bounds_precedes_the_decision_and_the_stored_condition(
    #[case] autoscalers: &[&str],
    #[case] replicas: i32,
) {
    let ambiguous = ("ScalingActive", "False", "AmbiguousSelector");
    let mut inputs = inputs_at(431, json!({}), &[ambiguous]);
    inputs.scale.as_mut().unwrap().spec_replicas = replicas;
    inputs.selected.autoscalers = autoscalers.iter().map(|name| (*name).to_owned()).collect();
    let bounds = |min_replicas, max_replicas| Some(Bounds { min_replicas, max_replicas });
    let others = [("big", bounds(12, 20)), ("equal", bounds(10, 20)), ("paused", None)];
    inputs.selected.bounds_conflict = describe_bounds_conflict(&inputs.hpa, bounds(2, 10), others);
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "conflicts by its bounds, 2 to 10 replicas, with big (12 to 20): both scale Deployment web \
         to their own bounds, up and down, for as long as both exist with these bounds"
    );
    let advice = report.advice.join("\n");
    assert!(
        advice.contains("Only one autoscaler may scale Deployment web: delete the others."),
        "{advice}"
    );
    for misleading in ["none of them scales", "doesn't fail here", "last reported"] {
        assert!(!advice.contains(misleading), "{advice}");
    }
}

#[rstest]
#[case::rolling_update("Deployment", None, true)]
#[case::long_after_scaling("Deployment", Some(600), true)]
#[case::after_scaling_down("Deployment", Some(5), false)]
#[case::no_rolling_update_with_surge("StatefulSet", Some(600), false)]
fn surge_pods_have_advice(
    #[case] kind: &str,
    #[case] scaled_ago: Option<i64>,
    #[case] is_advised: bool,
) {
    let queue = external("queue", &json!({ "type": "AverageValue", "averageValue": "30" }));
    let mut inputs = inputs(json!({ "metrics": [queue] }));
    inputs.hpa.spec.scale_target_ref.kind = kind.to_owned();
    inputs.hpa.status.last_scale_time = scaled_ago.map(seconds_ago);
    inputs.scale.as_mut().unwrap().status_replicas = 5;
    let value = Reading::External(vec![crate::MilliValue::from_units(120)].into());
    inputs.readings = [(0, Ok(value))].into_iter().collect();
    let advice = inputs.report().advice.join("\n");
    let expected = "The target has 5 pods for 4 replicas, as during a rolling update.";
    assert_eq!(advice.contains(expected), is_advised, "{advice}");
    let mut pod = pod("web-4", "Running", None);
    pod.terminating = true;
    inputs.selected = SelectedPods::new([pod]);
    let advice = inputs.report().advice.join("\n");
    assert!(!advice.contains(expected), "after a scale-down by hand: {advice}");
}

#[test]
fn unready_pod_whose_sample_counts_is_named_once() {
    let mut inputs = inputs(json!({}));
    let ready = Some(crate::api::ReadyCondition {
        status: Some(false),
        last_transition_time: seconds_ago(60),
    });
    pod_mut(&mut inputs, 3).ready = ready;
    let reason = "is not ready, but its sample counts because it was ready before";
    let line = format!("    counted (4): web-0, web-1, web-2; web-3 {reason}\n");
    assert_contains(&inputs.report(), &line);
    for pod in pods_mut(&mut inputs) {
        pod.ready = ready;
    }
    let line = format!("    counted (4): web-0, web-1, web-2, web-3: each {reason}\n");
    assert_contains(&inputs.report(), &line);
}

#[test]
fn pods_with_the_same_reason_are_listed_together() {
    let mut inputs = inputs(json!({}));
    for pod in pods_mut(&mut inputs).skip(1) {
        pod.phase = "Pending".into();
    }
    assert_contains(&inputs.report(), "    unready (3): web-1, web-2, web-3: each is pending\n");
}

#[test]
fn unready_pods_explain_that_no_sample_counts() {
    let mut inputs = inputs(json!({}));
    for pod in pods_mut(&mut inputs) {
        pod.ready = Some(crate::api::ReadyCondition {
            status: Some(false),
            last_transition_time: seconds_ago(900),
        });
    }
    let sentence = inputs.report().sentence;
    let end = "(pods might be unready); none of the 4 pods is ready (4 not ready)";
    assert!(sentence.ends_with(end), "{sentence}");
}

#[test]
fn pods_are_listed_by_class_with_the_reason() {
    let mut inputs = inputs(json!({}));
    let pods = [
        pod("web-0", "Running", Some("600m")),
        pod("web-1", "Pending", Some("600m")),
        pod("web-2", "Running", Some("600m")),
        pod("web-3", "Failed", Some("600m")),
    ];
    inputs.selected = SelectedPods::new(pods);
    inputs.readings = [(0, Ok(samples(&[("web-0", 431), ("job-7", 431)])))].into_iter().collect();
    let report = inputs.report();
    for line in [
        "    counted (1): web-0",
        "    unready (1): web-1 is pending",
        "    missing (1): web-2 has no value",
        "    ignored (1): web-3 has failed",
        "    not selected, but counted (1): job-7",
    ] {
        assert_contains(&report, line);
    }
    // The ratio is within tolerance, with and without these pods.
    assert_contains(&report, "Check why 1 of 3 pods is pending: kubectl describe pods");
    let advice = "Pods without a sample that counts: web-2. Check why they have no value.";
    assert_contains(&report, advice);
}

/// The sample of a rule may be NaN.
#[test]
fn ready_pods_without_a_value_of_a_pods_metric_are_explained_by_rules() {
    let mut inputs = inputs(json!({}));
    set_metric(&mut inputs, rps_spec());
    let values = ["web-1", "web-2", "web-3"].map(|pod| (pod, 20_000));
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let report = inputs.report();
    assert_contains(&report, "    missing (1): web-0 has no value");
    assert_contains(
        &report,
        ": web-0. Check why they have no value. If a rule has the metric: hpa rules explain custom \
         pods/rps --name web-0 --namespace shop --config FILE --prometheus-url URL",
    );
    inputs.readings = [(0, Err(ReadError::Empty(MetricsApi::Custom)))].into_iter().collect();
    assert_contains(
        &inputs.report(),
        "this says why, with that file and its Prometheus: hpa rules explain custom pods/rps \
         --name web-0 --namespace shop",
    );
    let no_result = "no value: the query up has no result for these pods";
    inputs.readings = failed_reading(MetricsApi::Custom, no_result);
    let command = "hpa rules explain custom pods/rps --name web-0 --namespace shop --config FILE \
                   --prometheus-url URL says which series there are.";
    assert_contains(&inputs.report(), command);
}

#[test]
fn missing_samples_are_named_if_the_others_are_at_the_target() {
    let mut inputs = inputs(json!({}));
    let values = [("web-0", 396), ("web-1", 396)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let report = inputs.report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 66% of requests, target 66%; within tolerance; 2 of 4 pods count"
    );
    assert_contains(&report, "Pods without a sample that counts: web-2, web-3. Check why");
}

#[test]
fn sentence_has_the_ratio_after_missing_pods_are_counted() {
    // 83 % of the requests are 62 % if the fourth pod counts as 0.
    let report = inputs_with_pending_pod(500, 16).report();
    assert_eq!(
        report.sentence,
        "stays at 4: cpu is at 83% of requests, target 66%; 93.9% of the target with 1 unready pod \
         counted as 0; within tolerance"
    );
    // Without a sample, the fourth pod counts with its request.
    let mut inputs = inputs_at(300, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    let values = [("web-0", 300), ("web-1", 300), ("web-2", 300)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    let expected = "cpu is at 50% of requests, target 66%; 93.9% of the target with 1 missing pod \
                    counted at its request; within tolerance";
    assert_eq!(sentence, format!("stays at 4: {expected}"));
}

#[test]
fn sentence_explains_that_unready_pods_reverse_the_direction() {
    let mut inputs = inputs_with_pending_pod(500, 16);
    inputs.selected.pods[2] = inputs.selected.pods[3].clone();
    pod_mut(&mut inputs, 2).name = "web-2".into();
    let sentence = inputs.report().sentence;
    let end = "62.1% of the target with 2 unready pods counted as 0; this reverses the direction, \
               so nothing changes";
    assert!(sentence.ends_with(end), "{sentence}");
    // The unready pods are those of another workload.
    inputs.scale = Ok(Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() });
    let sentence = inputs.report().sentence;
    let end = format!("; 4 pods match the selector, the target has 2; {end}");
    assert!(sentence.ends_with(&end), "{sentence}");
}

/// A higher maximum only adds pods for which the cluster has no room.
#[test]
fn pods_that_stay_pending_are_in_the_sentence_and_no_higher_maximum_is_advised() {
    let mut inputs = inputs_with_pending_pod(900, 900);
    inputs.hpa.spec.max_replicas = 4;
    pod_mut(&mut inputs, 3).start_time = None;
    let report = inputs.report();
    let end = "with 1 unready pod counted as 0; maxReplicas is 4, metrics ask for 7; 1 of 4 pods \
               is pending";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_contains(&report, "Check why 1 of 4 pods is pending: kubectl describe pods");
    assert!(!report.to_string().contains("Raise spec.maxReplicas"), "{report}");
    // They may still be scheduled.
    inputs.hpa.status.last_scale_time = Some(seconds_ago(59));
    let report = inputs.report();
    assert!(!report.sentence.contains("pending"), "{}", report.sentence);
    assert_contains(&report, "Raise spec.maxReplicas");
    let advice = report.advice.join(" ");
    assert!(!advice.contains("Check why"), "the pod may be new: {advice}");
}

#[test]
fn unschedulable_pods_are_named_at_once_with_the_most_frequent_reason() {
    let mut inputs = inputs_with_pending_pod(900, 900);
    inputs.hpa.spec.max_replicas = 4;
    inputs.hpa.status.last_scale_time = Some(seconds_ago(10));
    let new = pod_mut(&mut inputs, 3);
    (new.start_time, new.unschedulable) = (None, true);
    let report = inputs.report();
    let limit = "maxReplicas is 4, metrics ask for 7";
    let end = format!("; {limit}; 1 of 4 pods can't be scheduled");
    assert!(report.sentence.ends_with(&end), "{}", report.sentence);
    assert_eq!(report.state(State::AtMaximum), State::WaitingForPods);
    assert_contains(&report, "Check why 1 of 4 pods can't be scheduled: kubectl describe pods");
    let mut settled = inputs.clone();
    settled.hpa.status.last_scale_time = None;
    let advice = settled.report().advice.join(" ");
    assert!(!advice.contains("Pods without a sample"), "one piece of advice is enough: {advice}");
    assert!(!report.to_string().contains("Raise spec.maxReplicas"), "{report}");
    for index in [1, 2] {
        pod_mut(&mut inputs, index).unschedulable = true;
    }
    let failures = [("web-1", "cpu"), ("web-2", "taint"), ("web-3", "cpu"), ("other", "taint")];
    inputs.selected.scheduling_failures =
        failures.map(|(pod, failure)| (pod.to_owned(), failure.to_owned())).into();
    let sentence = inputs.report().sentence;
    let end = format!("; {limit}; 3 of 4 pods can't be scheduled (cpu)");
    assert!(sentence.ends_with(&end), "{sentence}");
    pod_mut(&mut inputs, 0).terminating = true;
    let sentence = inputs.report().sentence;
    assert!(sentence.contains("; 3 of 3 pods can't be scheduled (cpu)"), "{sentence}");
}

#[test]
fn unready_pods_beside_those_counted_as_zero_are_in_the_sentence() {
    let mut inputs = inputs_with_pending_pod(500, 16);
    let mut unready = pod("web-2", "Running", Some("600m"));
    unready.ready = Some(crate::api::ReadyCondition {
        status: Some(false),
        last_transition_time: seconds_ago(60),
    });
    inputs.selected.pods[2] = std::sync::Arc::new(unready);
    let sentence = inputs.report().sentence;
    let end = "with 1 unready pod counted as 0; within tolerance; the sample of 1 other unready \
               pod counts";
    assert!(sentence.ends_with(end), "{sentence}");
}

/// Pods that crash again and again have no samples.
#[test]
fn missing_pods_that_are_not_ready_are_in_the_sentence() {
    let mut inputs = inputs_at(300, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    let values = [("web-0", 300), ("web-1", 300), ("web-2", 300)];
    inputs.readings = [(0, Ok(samples(&values)))].into_iter().collect();
    pod_mut(&mut inputs, 3).ready.as_mut().unwrap().status = Some(false);
    let report = inputs.report();
    let end = "with 1 missing pod counted at its request; within tolerance; 1 missing pod is not \
               ready";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_contains(&report, "    missing (1): web-3 is not ready and has no value");
}

#[rstest]
#[case::not_ready(Some(false), 900, State::WaitingForPods)]
#[case::starting(Some(false), 60, State::AtMinimum)]
#[case::ready(Some(true), 900, State::AtMinimum)]
fn unready_pods_precede_the_minimum_if_none_is_ready(
    #[case] ready: Option<bool>,
    #[case] started_ago: i64,
    #[case] state: State,
) {
    let mut inputs = inputs(json!({ "minReplicas": 4, "metrics": [rps_spec()] }));
    inputs.readings = [(0, Ok(equal_samples(1000)))].into_iter().collect();
    for pod in pods_mut(&mut inputs) {
        pod.start_time = Some(seconds_ago(started_ago));
        pod.ready.as_mut().unwrap().status = ready;
    }
    let report = inputs.report();
    assert_eq!(report.state(State::Steady), state, "{report}");
    let is_named = report.sentence.ends_with("; none of the 4 pods is ready");
    assert_eq!(is_named, state == State::WaitingForPods, "{}", report.sentence);
    let decision = inputs.decide();
    assert_eq!(decision.explanation().unready_pods, is_named.then_some(4));
}

#[test]
fn extra_pods_of_the_selector_are_in_the_sentence() {
    // Half of the target (33 % of 66 %) for four pods asks for two.
    let mut inputs = inputs_at(200, json!({}), &[("AbleToScale", "True", "ReadyForNewScale")]);
    inputs.scale = Ok(Scale { spec_replicas: 2, status_replicas: 2, selector: "app=web".into() });
    let sentence = inputs.report().sentence;
    let expected = "stays at 2: cpu is at 33% of requests, target 66%; 4 pods match the selector, \
                    the target has 2; metrics ask for 2";
    assert_eq!(sentence, expected);
    // During a rollout, the target has more pods itself.
    inputs.scale.as_mut().unwrap().status_replicas = 4;
    let sentence = inputs.report().sentence;
    assert!(!sentence.contains("match the selector"), "{sentence}");
}
