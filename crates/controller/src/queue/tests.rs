use std::{hash::Hash, sync::Arc, time::Duration};

use futures::FutureExt;
use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};

use super::{WorkItem, WorkQueue};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn started_queue<K: Clone + Eq + Hash + Default>() -> Arc<WorkQueue<K>> {
    let queue = Arc::new(WorkQueue::default());
    queue.start();
    queue
}

async fn next_item(queue: &Arc<WorkQueue<&'static str>>) -> WorkItem<&'static str> {
    timeout(seconds(1000), queue.get()).await.expect("a key in time").expect("a queue that runs")
}

fn is_nothing_due(queue: &Arc<WorkQueue<&'static str>>) -> bool {
    queue.get().now_or_never().is_none()
}

#[tokio::test(start_paused = true)]
async fn due_keys_are_returned_in_the_order_of_adding() {
    let queue = started_queue();
    for key in ["c", "a", "b", "a"] {
        queue.add(key);
    }
    assert_eq!((queue.len(), queue.stats().depth), (3, 3));
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(*next_item(&queue).await.key());
    }
    assert_eq!(seen, ["c", "a", "b"]);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn delayed_key_is_returned_when_due_with_its_lateness() {
    let queue = started_queue();
    let start = Instant::now();
    queue.add_after("a", seconds(5));
    assert_eq!((queue.len(), queue.stats().depth), (1, 0));
    let item = next_item(&queue).await;
    assert_eq!(start.elapsed(), seconds(5));
    assert_eq!(item.lateness(), Duration::ZERO);
    drop(item);

    queue.add_after("a", seconds(5));
    sleep(seconds(7)).await;
    assert_eq!(queue.stats().depth, 1);
    assert_eq!(next_item(&queue).await.lateness(), seconds(2));
}

#[tokio::test(start_paused = true)]
async fn earlier_due_time_wins() {
    let queue = started_queue();
    let start = Instant::now();
    for delay in [15, 5, 30] {
        queue.add_after("a", seconds(delay));
    }
    drop(next_item(&queue).await);
    assert_eq!(start.elapsed(), seconds(5));
    assert!(queue.is_empty());

    queue.add_after("a", seconds(5));
    queue.add("a");
    drop(next_item(&queue).await);
    assert_eq!(start.elapsed(), seconds(5));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn key_is_processed_by_one_worker_at_a_time() {
    let queue = started_queue();
    queue.add("a");
    let item = next_item(&queue).await;
    queue.add("a");
    assert!(is_nothing_due(&queue));
    assert_eq!((queue.len(), queue.in_progress_count()), (0, 1));
    sleep(seconds(3)).await;
    queue.add("b");
    drop(item);
    // `a` becomes due when its progress ends, so it comes after `b`.
    assert_eq!(*next_item(&queue).await.key(), "b");
    let again = next_item(&queue).await;
    assert_eq!((*again.key(), again.lateness()), ("a", Duration::ZERO));
    drop(again);
    assert!(is_nothing_due(&queue));
}

#[tokio::test(start_paused = true)]
async fn delay_runs_while_the_key_is_in_progress() {
    let queue = started_queue();
    let start = Instant::now();
    queue.add("a");
    let item = next_item(&queue).await;
    queue.add_after("a", seconds(10));
    queue.add_after("a", seconds(20));
    sleep(seconds(4)).await;
    drop(item);
    drop(next_item(&queue).await);
    assert_eq!(start.elapsed(), seconds(10));
}

#[tokio::test(start_paused = true)]
async fn stats_count_keys_and_progress() {
    let queue = started_queue();
    let start = Instant::now();
    queue.add("a");
    queue.add("a");
    queue.add_after("b", seconds(4));
    let (a, stats) = (next_item(&queue).await, queue.stats());
    assert_eq!(
        (stats.depth, stats.became_due, stats.added, stats.last_progress),
        (0, 1, 3, Some(start))
    );
    sleep(seconds(4)).await;
    assert_eq!((queue.stats().depth, queue.stats().became_due), (1, 2));
    let b = next_item(&queue).await;
    sleep(seconds(1)).await;
    let stats = queue.stats();
    assert_eq!((stats.unfinished, stats.longest_running), (seconds(6), seconds(5)));
    drop((a, b));
    let stats = queue.stats();
    assert_eq!((stats.unfinished, stats.longest_running), (Duration::ZERO, Duration::ZERO));
    assert_eq!(stats.last_progress, Some(start + seconds(5)));
    queue.add("c");
    assert_eq!(queue.stats().became_due, 3);
    queue.remove(&"c");
    assert_eq!((queue.stats().depth, queue.stats().became_due), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn removed_key_is_not_returned() {
    let queue = started_queue();
    queue.add("a");
    queue.add_after("b", seconds(1));
    assert!(queue.remove(&"a"));
    assert!(queue.remove(&"b"));
    assert!(!queue.remove(&"b"));
    sleep(seconds(2)).await;
    assert!(is_nothing_due(&queue));

    queue.add("a");
    let item = next_item(&queue).await;
    queue.add("a");
    assert!(queue.remove(&"a"));
    drop(item);
    assert!(is_nothing_due(&queue));
}

#[tokio::test(start_paused = true)]
async fn every_waiting_worker_gets_a_key() {
    let queue = started_queue();
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let item = next_item(&queue).await;
                sleep(seconds(1)).await;
                (*item.key(), Instant::now())
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let start = Instant::now();
    for key in ["a", "b", "c", "d"] {
        queue.add(key);
    }
    for key in ["e", "f", "g", "h"] {
        queue.add_after(key, seconds(4));
    }
    let mut seen = Vec::new();
    for worker in workers {
        let (key, at) = worker.await.unwrap();
        seen.push((key, (at - start).as_secs()));
    }
    seen.sort_unstable();
    let expected = [("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 5), ("f", 5), ("g", 5), ("h", 5)];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn earlier_key_wakes_the_sleeping_worker() {
    let queue = started_queue();
    queue.add_after("late", seconds(60));
    let start = Instant::now();
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { (*next_item(&queue).await.key(), Instant::now()) }
    });
    sleep(seconds(1)).await;
    queue.add_after("early", seconds(1));
    let (key, at) = worker.await.unwrap();
    assert_eq!((key, at - start), ("early", seconds(2)));
}

#[tokio::test(start_paused = true)]
async fn dropped_get_hands_the_sleep_to_another_worker() {
    let queue = started_queue();
    queue.add_after("a", seconds(10));
    let sleeper = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    let waiter = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.map(|item| *item.key()) }
    });
    tokio::task::yield_now().await;
    sleeper.abort();
    let start = Instant::now();
    assert_eq!(timeout(seconds(100), waiter).await.unwrap().unwrap(), Some("a"));
    assert_eq!(start.elapsed(), seconds(10));
}

#[tokio::test(start_paused = true)]
async fn shut_down_ends_workers_but_not_keys_in_progress() {
    let queue = started_queue();
    queue.add("a");
    let item = next_item(&queue).await;
    queue.add_after("b", seconds(5));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.add("a");
    queue.shut_down();
    for worker in waiting {
        assert!(timeout(seconds(1), worker).await.unwrap().unwrap());
    }
    assert_eq!(*item.key(), "a");
    drop(item);
    queue.add("c");
    assert!(queue.is_empty());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn delay_beyond_the_range_of_the_clock_is_accepted() {
    let queue = started_queue();
    queue.add_after("a", Duration::MAX);
    queue.add_after("b", seconds(1));
    assert_eq!(*next_item(&queue).await.key(), "b");
    assert_eq!(queue.len(), 1);
}

proptest! {
    #[test]
    fn every_key_is_returned_once_at_its_earliest_due_time(
        delays in prop::collection::vec((0u8..20, 0u64..50), 0..60),
        workers in 1usize..5,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let mut expected = std::collections::BTreeMap::new();
        for (key, delay) in &delays {
            let earliest = expected.entry(*key).or_insert(*delay);
            *earliest = (*earliest).min(*delay);
        }
        let seen = runtime.block_on(async {
            let queue = started_queue();
            let start = Instant::now();
            let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
            let workers: Vec<_> = (0..workers).map(|_| {
                let (queue, seen) = (queue.clone(), Arc::clone(&seen));
                tokio::spawn(async move {
                    while let Some(item) = queue.get().await {
                        seen.lock().push((*item.key(), start.elapsed().as_secs()));
                    }
                })
            }).collect();
            tokio::task::yield_now().await;
            for (key, delay) in &delays {
                queue.add_after(*key, seconds(*delay));
            }
            sleep(seconds(100)).await;
            queue.shut_down();
            for worker in workers {
                worker.await.unwrap();
            }
            let mut seen = seen.lock().clone();
            seen.sort_unstable();
            seen
        });
        prop_assert_eq!(seen, expected.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_ignored_until_the_queue_is_started() {
    let queue = Arc::new(WorkQueue::default());
    queue.add("a");
    queue.add_after("b", seconds(1));
    assert_eq!((queue.len(), queue.stats().added), (0, 0));
    queue.start();
    assert!(is_nothing_due(&queue));
    queue.add("c");
    assert_eq!(*next_item(&queue).await.key(), "c");
}
