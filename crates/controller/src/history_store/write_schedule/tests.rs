use super::*;

fn key(index: usize) -> HpaKey {
    HpaKey::new("shop", format!("web-{index}"))
}

fn entry(replicas: i32) -> ShardEntry {
    let snapshot =
        HistorySnapshot { recommendations: vec![(replicas, 0)], ..HistorySnapshot::default() };
    ShardEntry { uid: "u".into(), snapshot }
}

/// The times of the writes in ten minutes, if all autoscalers change every second.
fn write_times(autoscalers: usize) -> Vec<Duration> {
    let start = Instant::now();
    let mut schedule = WriteSchedule::new(1, start);
    let mut writes = Vec::new();
    for tick in 0..600 {
        let now = start + Duration::from_secs(tick);
        for index in 0..autoscalers {
            schedule.update(&key(index), entry(i32::try_from(tick).expect("small")), now);
        }
        let end = now + Duration::from_secs(1);
        while let Some((due, index)) = schedule.next_write().filter(|(due, _)| *due < end) {
            schedule.start_write(index).expect("a shard");
            schedule.write_succeeded(index, None, 100, due);
            writes.push(due - start);
        }
    }
    writes
}

#[test]
fn shard_is_written_at_most_once_per_autoscaler_and_minute() {
    for autoscalers in [1, 2, 7, 12, 40] {
        let writes = write_times(autoscalers);
        for (index, first) in writes.iter().enumerate() {
            let minute = writes[index..].iter().filter(|at| **at < *first + Duration::from_mins(1));
            assert!(minute.count() <= autoscalers, "{autoscalers}: {writes:?}");
        }
        // The writes come close to the limit.
        assert!(writes.len() >= autoscalers.min(12) * 8, "{autoscalers}: {writes:?}");
    }
}

#[test]
fn larger_shards_are_written_less_often() {
    assert_eq!(min_write_interval(1, 100), Duration::from_mins(1));
    assert_eq!(min_write_interval(500, 100), Duration::from_secs(5));
    assert_eq!(min_write_interval(500, 81_920), Duration::from_secs(20));
    assert_eq!(min_write_interval(500, 900 << 10), Duration::from_mins(1));
}

#[test]
fn unchanged_shard_is_not_written() {
    let start = Instant::now();
    let mut schedule = WriteSchedule::new(1, start);
    assert!(schedule.update(&key(0), entry(5), start));
    assert!(schedule.next_write().is_some());
    schedule.start_write(0).expect("a shard");
    schedule.write_succeeded(0, None, 100, start);
    assert!(!schedule.update(&key(0), entry(5), start + Duration::from_mins(5)));
    assert_eq!(schedule.next_write(), None);
}

#[test]
fn shard_that_changes_during_its_write_is_written_again() {
    let start = Instant::now();
    let mut schedule = WriteSchedule::new(1, start);
    schedule.update(&key(0), entry(5), start);
    schedule.start_write(0).expect("a shard");
    schedule.update(&key(0), entry(6), start);
    schedule.write_succeeded(0, None, 100, start);
    assert_eq!(schedule.next_write(), Some((start + Duration::from_mins(1), 0)));
}

#[test]
fn failed_write_is_retried() {
    let start = Instant::now();
    let mut schedule = WriteSchedule::new(1, start);
    schedule.update(&key(0), entry(5), start);
    schedule.start_write(0).expect("a shard");
    schedule.write_failed(0, start);
    assert_eq!(schedule.next_write(), Some((start + Duration::from_secs(5), 0)));
}

#[test]
fn shards_split_as_autoscalers_are_added() {
    let start = Instant::now();
    let mut schedule = WriteSchedule::new(1, start);
    for index in 0..501 {
        schedule.update(&key(index), entry(5), start);
    }
    assert_eq!(schedule.shard_count(), 2);
    // The header of the first shard has the number of shards, so it is written last.
    assert_eq!(schedule.changed_shards(), [1, 0]);
    assert_eq!(schedule.next_write().map(|(_, index)| index), Some(1));
    let counts: Vec<usize> =
        [0, 1].map(|index| schedule.start_write(index).expect("a shard").entries.len()).to_vec();
    assert_eq!(counts.iter().sum::<usize>(), 501);
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}
