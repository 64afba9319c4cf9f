use std::time::Duration;

use tokio::time::Instant;

use super::{snapshot::HistorySnapshot, write_schedule::*};
use crate::key::HpaKey;

fn key(index: usize) -> HpaKey {
    HpaKey::new("shop", format!("web-{index}"))
}

fn kept(replicas: i32) -> Snapshot {
    let entry =
        HistorySnapshot { recommendations: vec![(replicas, 0)], ..HistorySnapshot::default() };
    Snapshot { uid: "u".into(), entry }
}

/// Runs a book of autoscalers that all change every second, for ten minutes; the writes by time.
fn writes(autoscalers: usize) -> Vec<Duration> {
    let start = Instant::now();
    let mut book = WriteSchedule::new(1, start);
    let mut writes = Vec::new();
    for tick in 0..600 {
        let now = start + Duration::from_secs(tick);
        for index in 0..autoscalers {
            book.update(&key(index), kept(i32::try_from(tick).expect("small")), now);
        }
        let end = now + Duration::from_secs(1);
        while let Some((due, index)) = book.next().filter(|(due, _)| *due < end) {
            book.begin(index).expect("a shard");
            book.written(index, None, 100, due);
            writes.push(due - start);
        }
    }
    writes
}

#[test]
fn there_is_at_most_one_write_per_autoscaler_and_minute() {
    for autoscalers in [1, 2, 7, 12, 40] {
        let writes = writes(autoscalers);
        for (index, first) in writes.iter().enumerate() {
            let minute = writes[index..].iter().filter(|at| **at < *first + Duration::from_mins(1));
            assert!(minute.count() <= autoscalers, "{autoscalers}: {writes:?}");
        }
        // And it is made use of.
        assert!(writes.len() >= autoscalers.min(12) * 8, "{autoscalers}: {writes:?}");
    }
}

#[test]
fn large_shards_are_written_less_often() {
    assert_eq!(pause(1, 100), Duration::from_mins(1));
    assert_eq!(pause(500, 100), Duration::from_secs(5));
    assert_eq!(pause(500, 81_920), Duration::from_secs(20));
    assert_eq!(pause(500, 900 << 10), Duration::from_mins(1));
}

#[test]
fn what_does_not_change_is_not_written() {
    let start = Instant::now();
    let mut book = WriteSchedule::new(1, start);
    assert!(book.update(&key(0), kept(5), start));
    assert!(book.next().is_some());
    book.begin(0).expect("a shard");
    book.written(0, None, 100, start);
    assert!(!book.update(&key(0), kept(5), start + Duration::from_mins(5)));
    assert_eq!(book.next(), None);
}

#[test]
fn what_changes_while_it_is_written_is_written_again() {
    let start = Instant::now();
    let mut book = WriteSchedule::new(1, start);
    book.update(&key(0), kept(5), start);
    book.begin(0).expect("a shard");
    book.update(&key(0), kept(6), start);
    book.written(0, None, 100, start);
    assert_eq!(book.next(), Some((start + Duration::from_mins(1), 0)));
}

#[test]
fn failed_write_is_repeated() {
    let start = Instant::now();
    let mut book = WriteSchedule::new(1, start);
    book.update(&key(0), kept(5), start);
    book.begin(0).expect("a shard");
    book.failed(0, start);
    assert_eq!(book.next(), Some((start + Duration::from_secs(5), 0)));
}

#[test]
fn shards_divide_as_autoscalers_are_added_and_lose_none() {
    let start = Instant::now();
    let mut book = WriteSchedule::new(1, start);
    for index in 0..501 {
        book.update(&key(index), kept(5), start);
    }
    assert_eq!(book.shards(), 2);
    // A reader learns from the first that there are two, so that is written last.
    assert_eq!(book.changed(), [1, 0]);
    assert_eq!(book.next().map(|(_, index)| index), Some(1));
    let entries: Vec<usize> =
        [0, 1].map(|index| book.begin(index).expect("a shard").entries.len()).to_vec();
    assert_eq!(entries.iter().sum::<usize>(), 501);
    assert!(entries.iter().all(|count| *count > 200), "{entries:?}");
}
