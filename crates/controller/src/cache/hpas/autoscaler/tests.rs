use super::*;

#[test]
fn invalid_annotations_are_reported_once() {
    let autoscaler = Autoscaler::new(HorizontalPodAutoscaler::default(), Origin::List);
    let reported = [Some("x"), Some("x"), Some("y"), None, None, Some("y")]
        .map(|message| autoscaler.replace_invalid_annotations(message));
    assert_eq!(reported, [true, false, true, false, false, true]);
}

#[test]
fn cached_lists_have_no_spare_capacity() {
    let decoded = || {
        let object = r#"{
            "spec": { "metrics": [{ "type": "Resource" }] },
            "status": {
                "currentMetrics": [{ "type": "Resource" }],
                "conditions": [{ "type": "AbleToScale", "status": "True" }]
            }
        }"#;
        serde_json::from_str::<HorizontalPodAutoscaler>(object).expect("an autoscaler")
    };
    assert!(decoded().spec.metrics.capacity() > 1);
    let autoscaler = Autoscaler::new(decoded(), Origin::List);
    for _ in 0..2 {
        let object = autoscaler.object();
        let HorizontalPodAutoscaler { spec, status, .. } = &*object;
        assert_eq!(spec.metrics.capacity(), 1);
        assert_eq!(status.current_metrics.capacity(), 1);
        assert_eq!(status.conditions.capacity(), 1);
        autoscaler.update(decoded(), Origin::List, None);
    }
}

#[test]
fn failure_change_is_new_once_per_error() {
    use FailureChange::{Ended, New, NoFailure, Same};
    let autoscaler = Autoscaler::new(HorizontalPodAutoscaler::default(), Origin::List);
    let changes = [None, Some("x"), Some("x"), Some("y"), None, None]
        .map(|failure| autoscaler.replace_failure(failure.map(ToOwned::to_owned)));
    assert_eq!(changes, [NoFailure, New, Same, New, Ended, NoFailure]);
}

#[test]
fn failure_of_status_writes_is_new_once_beside_other_failures() {
    use FailureChange::{Ended, New, Same};
    let autoscaler = Autoscaler::new(HorizontalPodAutoscaler::default(), Origin::List);
    let write = |failure: Option<&str>| autoscaler.replace_status_failure(failure.map(Into::into));
    assert_eq!(write(Some("forbidden")), New);
    assert_eq!(autoscaler.replace_failure(Some("no metrics".to_owned())), New);
    assert_eq!(write(Some("forbidden")), Same);
    assert_eq!(write(None), Ended);
    assert_eq!(write(Some("forbidden")), New);
}

#[tokio::test(start_paused = true)]
async fn additional_reconcile_does_not_shift_the_periodic_one() {
    let (start, period) = (Instant::now(), Duration::from_secs(15));
    let seconds = |seconds| start + Duration::from_secs(seconds);
    let autoscaler = Autoscaler::new(HorizontalPodAutoscaler::default(), Origin::List);
    assert_eq!(autoscaler.next_due(start, period), NextDue::Periodic(seconds(15)));
    autoscaler.set_periodic_due(seconds(15));
    assert_eq!(autoscaler.next_due(seconds(7), period), NextDue::Periodic(seconds(15)));
    assert_eq!(autoscaler.next_due(seconds(15), period), NextDue::Periodic(seconds(30)));
    // The additional reconcile was late: the periodic one is overdue.
    autoscaler.set_periodic_due(seconds(30));
    assert_eq!(autoscaler.next_due(seconds(31), period), NextDue::Periodic(seconds(46)));
    autoscaler.set_periodic_due(seconds(46));
    let shorter = Duration::from_secs(5);
    assert_eq!(autoscaler.next_due(seconds(32), shorter), NextDue::Periodic(seconds(37)));
}
