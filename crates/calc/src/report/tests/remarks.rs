//! The clauses of the first line after the decision: unready pods, an invalid spec, settings that
//! kube-controller-manager ignores, and pods that it counts.

use rstest::rstest;
use serde_json::json;

use super::*;

#[rstest]
#[case::all(4, 900, "; within tolerance; none of the 4 pods is ready")]
#[case::one(1, 900, "; within tolerance; 1 of 4 pods is not ready")]
#[case::starting(4, 100, "; within tolerance")]
#[case::none(0, 900, "; within tolerance")]
fn unready_pods_whose_samples_count_are_in_the_sentence(
    #[case] count: usize,
    #[case] started_ago: i64,
    #[case] end: &str,
) {
    let mut inputs = inputs(json!({}));
    set_metric(&mut inputs, rps_spec());
    inputs.readings = [(0, Ok(equal_samples(10_000)))].into_iter().collect();
    for pod in pods_mut(&mut inputs).take(count) {
        pod.start_time = Some(seconds_ago(started_ago));
        pod.ready.as_mut().unwrap().status = Some(false);
    }
    let report = inputs.report();
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    let command = "kubectl describe pods --selector 'app=web' --namespace shop";
    let has_advice = report.advice.iter().any(|one| one.ends_with(command));
    assert_eq!(has_advice, end.contains("ready"), "{report}");
}

/// Replaces the metrics by an External one, which is at its target for four replicas.
fn set_external_metric(inputs: &mut Inputs) {
    let queue = external("queue", &json!({ "type": "AverageValue", "averageValue": "5" }));
    set_metric(inputs, queue);
    let reading = Reading::External(vec![crate::MilliValue::from_units(20)].into());
    inputs.readings = [(0, Ok(reading))].into_iter().collect();
}

#[test]
fn pending_pods_are_in_the_sentence_about_an_external_metric() {
    let mut inputs = inputs_with_pending_pod(500, 900);
    set_external_metric(&mut inputs);
    let sentence = inputs.report().sentence;
    assert!(sentence.ends_with("; 1 of 4 pods is not ready"), "{sentence}");
}

#[test]
fn unschedulable_pods_are_in_the_sentence_about_an_external_metric() {
    let mut inputs = inputs_with_pending_pod(500, 900);
    set_external_metric(&mut inputs);
    pod_mut(&mut inputs, 3).unschedulable = true;
    let report = inputs.report();
    let end = "; 1 of 4 pods can't be scheduled";
    assert!(report.sentence.ends_with(end), "{}", report.sentence);
    assert_eq!(report.state(State::Steady), State::WaitingForPods);
    // The controller reads the metric, and its status has the value.
    let mut inputs = inputs_with_unreadable_metric("True");
    pod_mut(&mut inputs, 3).unschedulable = true;
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("has ") && sentence.contains(end), "{sentence}");
}

#[test]
fn bounds_that_exclude_each_other_are_named() {
    let report = inputs(json!({ "minReplicas": 8, "maxReplicas": 3 })).report();
    let invalid = "the spec is invalid, because minReplicas 8 is above maxReplicas 3";
    assert!(report.sentence.ends_with(&format!("; {invalid}")), "{}", report.sentence);
    assert_contains(&report, &format!("Correct the bounds: {invalid}."));
}

#[test]
fn pause_that_kube_controller_manager_ignores_is_in_the_sentence() {
    let mut inputs = inputs(json!({}));
    let annotation = "autoscaling.hpa-rs.dev/pause".to_owned();
    inputs.hpa.metadata.annotations.insert(annotation, "true".to_owned());
    let settings = built_in_settings(&inputs.hpa);
    inputs.settings = settings.clone();
    let report = inputs.report();
    let known = "; kube-controller-manager, which stored the status last, ignores the pause";
    assert!(report.sentence.starts_with("stays at 4: "), "{}", report.sentence);
    assert!(report.sentence.ends_with(known), "{}", report.sentence);
    assert_eq!((&report.doubt, report.state(State::Scaling)), (&None, State::Steady));
    // While kube-controller-manager may act.
    inputs.settings = settings.with_status_of_hpa_rs().with_unknown_controller();
    let idle = "no instance holds the lease shop/hpa";
    let sentence = inputs.report_with_doubt(Some(idle.to_owned())).sentence;
    let unknown = "hpa-rs would obey the pause; kube-controller-manager, which may act now, \
                   ignores the pause";
    assert!(sentence.ends_with(&format!("; {unknown}; {idle}")), "{sentence}");
    // The doubt about a scaling has it already.
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("would scale from 4 to 8: "), "{sentence}");
    assert_eq!(sentence.matches(unknown).count(), 1, "{sentence}");
    // The controller's last limit precedes it.
    inputs.history = None;
    inputs.readings = [(0, Ok(equal_samples(200)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("would scale from 4 to 2: "), "{sentence}");
    let limit = "; the controller last reported ScaleDownStabilized; ";
    assert!(sentence.ends_with(&format!("{limit}{unknown}")), "{sentence}");
}

/// Four replicas at their target, one pod of which has succeeded.
fn inputs_with_succeeded_pod() -> Inputs {
    let mut inputs = inputs(json!({}));
    inputs.selected.pods.push(pod("job-0", "Succeeded", Some("600m")).into());
    inputs
}

#[test]
fn succeeded_pods_that_kube_controller_manager_counts_are_in_the_sentence() {
    let mut inputs = inputs_with_succeeded_pod();
    // hpa-rs ignores them.
    let of_hpa_rs = inputs.report();
    assert!(of_hpa_rs.sentence.starts_with("stays at 4: "), "{}", of_hpa_rs.sentence);
    assert!(!of_hpa_rs.sentence.contains("Succeeded"), "{}", of_hpa_rs.sentence);
    assert_eq!(of_hpa_rs.doubt, None);
    let settings = built_in_settings(&inputs.hpa);
    inputs.settings = settings.clone();
    let report = inputs.report();
    let known = "kube-controller-manager, which stored the status last, counts 1 Succeeded pod \
                 (before 1.38)";
    assert!(report.sentence.starts_with("would stay at 4: "), "{}", report.sentence);
    assert!(report.sentence.ends_with(&format!("; {known}")), "{}", report.sentence);
    assert_eq!(report.doubt.as_deref(), Some(known));
    assert_eq!(report.state(State::Scaling), State::Scaling);
    inputs.readings = [(0, Ok(equal_samples(900)))].into_iter().collect();
    let sentence = inputs.report().sentence;
    assert!(sentence.starts_with("would scale from 4 to 8: "), "{sentence}");
    // hpa-rs may act instead. The doubt of the caller comes last.
    inputs.settings = settings.with_status_of_hpa_rs().with_unknown_controller();
    let idle = "no instance holds the lease shop/hpa";
    let sentence = inputs.report_with_doubt(Some(idle.to_owned())).sentence;
    let unknown = "hpa-rs would ignore 1 Succeeded pod; kube-controller-manager, which may act \
                   now, counts it (before 1.38)";
    assert!(sentence.ends_with(&format!("; {unknown}; {idle}")), "{sentence}");
}

#[test]
fn succeeded_pods_do_not_matter_to_an_external_metric() {
    let mut inputs = inputs_with_succeeded_pod();
    inputs.settings = built_in_settings(&inputs.hpa);
    set_external_metric(&mut inputs);
    let report = inputs.report();
    assert!(report.sentence.starts_with("stays at 4: "), "{}", report.sentence);
    assert_eq!(report.doubt, None);
}
