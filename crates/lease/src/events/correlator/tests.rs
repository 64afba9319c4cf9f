use std::{borrow::Cow, sync::Arc};

use hpa_calc::event::EventType::{self, Normal, Warning};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;

use super::{Correlator, EventWrite, ObjectReference, RecordedEvent, truncate_message};

const START: Timestamp = Timestamp::constant(1_790_000_000, 0);

fn web() -> Arc<ObjectReference> {
    Arc::new(ObjectReference {
        name: "web".into(),
        namespace: "shop".into(),
        uid: "u1".into(),
        ..Default::default()
    })
}

fn event(second: i64, event_type: EventType, reason: &'static str, message: &str) -> RecordedEvent {
    RecordedEvent {
        object: web(),
        event_type,
        reason: Cow::Borrowed(reason),
        message: message.to_owned(),
        at: START + SignedDuration::from_secs(second),
    }
}

fn written(decision: Option<EventWrite>) -> EventWrite {
    decision.expect("within the budget")
}

/// An event: second, type, reason and message; and the count and message written, if any.
type EventRow = (i64, EventType, &'static str, &'static str, Option<(i32, &'static str)>);

#[rstest]
#[case::equal_events_are_counted(&[
    (0, Warning, "FailedGetScale", "no", Some((1, "no"))),
    (15, Warning, "FailedGetScale", "no", Some((2, "no"))),
    (5000, Warning, "FailedGetScale", "no", Some((3, "no"))),
])]
#[case::message_reason_and_type_distinguish_events(&[
    (0, Normal, "SuccessfulRescale", "New size: 4", Some((1, "New size: 4"))),
    (0, Normal, "SuccessfulRescale", "New size: 9", Some((1, "New size: 9"))),
    (0, Warning, "SuccessfulRescale", "New size: 9", Some((1, "New size: 9"))),
    (0, Normal, "Other", "New size: 9", Some((1, "New size: 9"))),
    (1, Normal, "SuccessfulRescale", "New size: 4", Some((2, "New size: 4"))),
])]
#[case::tenth_message_is_combined(&[
    (0, Warning, "R", "0", Some((1, "0"))),
    (1, Warning, "R", "1", Some((1, "1"))),
    (2, Warning, "R", "2", Some((1, "2"))),
    (3, Warning, "R", "3", Some((1, "3"))),
    (4, Warning, "R", "4", Some((1, "4"))),
    (5, Warning, "R", "5", Some((1, "5"))),
    (6, Warning, "R", "6", Some((1, "6"))),
    (7, Warning, "R", "7", Some((1, "7"))),
    (8, Warning, "R", "8", Some((1, "8"))),
    (9, Warning, "R", "9", Some((1, "(combined from similar events): 9"))),
    (10, Warning, "R", "10", Some((2, "(combined from similar events): 10"))),
    (11, Warning, "R", "8", Some((2, "8"))),
    (12, Warning, "Q", "9", Some((1, "9"))),
    // 600 seconds after the last similar event, then 601 seconds.
    (611, Warning, "R", "11", Some((3, "(combined from similar events): 11"))),
    (1212, Warning, "R", "12", Some((1, "12"))),
])]
fn decide_counts_and_combines_events(#[case] rows: &[EventRow]) {
    let mut correlator = Correlator::new();
    for (second, event_type, reason, message, expected) in rows {
        let decision = correlator.decide(event(*second, *event_type, reason, message));
        let decided = decision.as_ref().map(|write| (write.count, write.message.as_str()));
        assert_eq!(decided, *expected, "{second} {reason} {message}");
    }
}

#[test]
fn repeated_event_keeps_name_and_first_time() {
    let mut correlator = Correlator::new();
    let first = written(correlator.decide(event(0, Warning, "R", "m")));
    let second = written(correlator.decide(event(15, Warning, "R", "m")));
    assert_eq!(first.name, "web.18d75b8423f30000");
    assert_eq!((first.first, first.last), (START, START));
    assert_eq!((second.name, second.first), (first.name, START));
    assert_eq!(second.last, START + SignedDuration::from_secs(15));
}

#[test]
fn events_of_the_same_time_have_different_names() {
    let mut correlator = Correlator::new();
    let one = written(correlator.decide(event(0, Warning, "R", "one")));
    let two = written(correlator.decide(event(0, Warning, "R", "two")));
    assert_ne!(one.name, two.name);
}

#[test]
fn long_name_is_truncated() {
    let mut long = event(0, Warning, "R", "m");
    // The suffix has 17 of the 253 bytes. The cut is after the dot, which is removed as well.
    let name = "a".repeat(235) + ".bcdefghijklmnopqr";
    long.object = Arc::new(ObjectReference { name, ..Default::default() });
    let name = written(Correlator::new().decide(long)).name;
    assert_eq!(name, "a".repeat(235) + ".18d75b8423f30000");
}

#[test]
fn budget_is_25_events_and_one_more_every_5_minutes() {
    let mut correlator = Correlator::new();
    let mut write = |second| correlator.decide(event(second, Warning, "R", "m")).is_some();
    assert!((0..25).all(|_| write(0)));
    assert!(!write(0));
    assert!(!write(299));
    assert!(write(300));
    assert!(!write(301));
    assert!(!write(0), "a time before the last refill adds nothing");
    assert!(write(600));
    assert!(!write(600));
}

#[test]
fn dropped_events_count_in_the_next_write() {
    let mut correlator = Correlator::new();
    for _ in 0..30 {
        correlator.decide(event(0, Warning, "R", "m"));
    }
    assert_eq!(written(correlator.decide(event(300, Warning, "R", "m"))).count, 31);
}

#[test]
fn successful_rescale_has_its_own_budget() {
    let mut correlator = Correlator::new();
    for second in 0..40 {
        correlator.decide(event(second, Warning, "FailedGetResourceMetric", "m"));
    }
    let rescale = event(40, Normal, "SuccessfulRescale", "New size: 2");
    assert_eq!(written(correlator.decide(rescale)).count, 1);
    assert_eq!(correlator.decide(event(41, Warning, "FailedRescale", "m")), None);
}

#[test]
fn recreated_object_has_its_own_budget() {
    let mut correlator = Correlator::new();
    for _ in 0..26 {
        correlator.decide(event(0, Warning, "R", "m"));
    }
    let mut again = event(0, Warning, "R", "m");
    again.object = Arc::new(ObjectReference { uid: "u2".into(), ..(*web()).clone() });
    assert_eq!(written(correlator.decide(again)).count, 1);
}

#[test]
fn caches_are_bounded() {
    let mut correlator = Correlator::new();
    for uid in 0..5000 {
        let mut event = event(0, Warning, "R", "m");
        event.object = Arc::new(ObjectReference { uid: format!("{uid}"), ..(*web()).clone() });
        correlator.decide(event);
    }
    assert_eq!(correlator.cache_sizes(), [4096; 3]);
}

#[rstest]
#[case("short", "short".len())]
#[case(&"a".repeat(1024), 1024)]
#[case(&"a".repeat(1025), 1024)]
#[case(&("a".repeat(1022) + "€"), 1022)]
#[case(&("a".repeat(1021) + "€"), 1024)]
fn message_is_truncated_between_characters(#[case] message: &str, #[case] expected: usize) {
    let mut message = message.to_owned();
    truncate_message(&mut message);
    assert_eq!(message.len(), expected);
}

#[test]
fn combined_message_is_truncated() {
    let mut correlator = Correlator::new();
    let long = "a".repeat(1020);
    let last = (0..12)
        .map(|at| correlator.decide(event(at, Warning, "R", &format!("{at:04}{long}"))))
        .last();
    let message = written(last.unwrap()).message;
    assert!(message.starts_with("(combined from similar events): 0011a"));
    assert_eq!(message.len(), 1024);
}
