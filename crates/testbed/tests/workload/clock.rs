use std::time::Duration;

use hpa_testbed::clock::SimulatedClock;
use jiff::Timestamp;
use tokio::time::{Instant, advance};

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[tokio::test(start_paused = true)]
async fn clock_runs_at_its_speed_and_stops() {
    let clock = SimulatedClock::new(second(1000), 20.0);
    advance(Duration::from_secs(3)).await;
    assert_eq!(clock.now(), second(1060));
    clock.set_speed(0.0);
    advance(Duration::from_secs(3)).await;
    assert_eq!((clock.as_fn())(), second(1060));
    clock.set_speed(1.0);
    advance(Duration::from_secs(3)).await;
    assert_eq!(clock.now(), second(1063));
}

#[tokio::test(start_paused = true)]
async fn sleep_follows_changes_of_the_speed() {
    let (clock, begin) = (SimulatedClock::new(second(0), 1.0), Instant::now());
    let sleeper = tokio::spawn({
        let clock = clock.clone();
        async move { clock.sleep_until(second(100)).await }
    });
    tokio::time::sleep(Duration::from_secs(10)).await;
    clock.set_speed(0.0);
    tokio::time::sleep(Duration::from_secs(1000)).await;
    assert!(!sleeper.is_finished());
    clock.set_speed(9.0);
    sleeper.await.unwrap();
    assert_eq!((clock.now(), begin.elapsed()), (second(100), Duration::from_secs(1020)));
}
