//! Memory, metrics and the work queue stay bounded under permanent faults.

use std::{collections::VecDeque, process::Command, time::Duration};

use hpa_testbed::{Effect, Fault, Faults, Match};
use hpa_tests::harness::{are_long_tests_enabled, objects};

use super::{cached_autoscalers, on, sleep_periods};
use crate::{
    NAMESPACE,
    cluster::{CONTROLLER, Cluster, TARGETS, hpa},
    random::{env_number, in_virtual_time},
};

/// The only test that the child process runs.
const TEST_NAME: &str = "reference_failures::bounded::memory_and_queue_stay_bounded";
/// The variable that is set in the child process.
const CHILD_VARIABLE: &str = "RELIABILITY_ALONE";

const MINUTE: Duration = Duration::from_secs(60);

/// The number of minutes of a round. The warm-up and the measurement consist of rounds.
fn minutes_per_round() -> u32 {
    if are_long_tests_enabled() { 60 } else { 20 }
}

/// Default of `RELIABILITY_ROUNDS`, the number of rounds of the measurement.
const DEFAULT_ROUND_COUNT: u64 = 1;
/// The maximum number of rounds of the warm-up, after which the memory of the event correlator is
/// full: a round of 20 minutes has 80 autoscalers, and the correlator remembers 4096.
const MAX_WARM_UP_ROUNDS: u64 = 60;

/// The number of autoscalers created and deleted each minute.
const CREATED_PER_MINUTE: usize = 4;
/// The number of these autoscalers that exist at the end of each minute.
const SHORT_LIVED_COUNT: usize = 8;
/// The number of autoscalers at the end of each minute.
const AUTOSCALER_COUNT: u64 = (TARGETS.len() + SHORT_LIVED_COUNT) as u64;
/// The highest number of autoscalers at a time. The queue holds each once.
const MAX_QUEUED: u64 = AUTOSCALER_COUNT + CREATED_PER_MINUTE as u64;

/// Resident memory of this process in KiB. It runs the controller and the testbed.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The sum of the series whose names start with `name`.
fn sum_of_series(text: &str, name: &str) -> u64 {
    let series = text.lines().filter(|line| line.starts_with(name));
    series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

fn series_count(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// Permanent faults that affect about a tenth of all requests.
fn permanent_faults() -> Vec<Fault> {
    let some = |matching: Match, effect| {
        Fault::on(matching.client(CONTROLLER)).probability(0.03).effect(effect)
    };
    vec![
        some(Match::any(), Effect::InternalError),
        some(Match::any(), Effect::Disconnect { applied: true }),
        some(Match::any(), Effect::TruncatedBody),
        some(Match::verb("update"), Effect::LostResponse),
        some(Match::verb("watch"), Effect::TruncatedEvent { after: 3 }),
        some(Match::any(), Effect::Slow { by: Duration::from_secs(12) }),
        // The metric of `api` always fails.
        on(Match::any().group("custom.metrics.k8s.io"), Effect::ServiceUnavailable),
    ]
}

/// Autoscalers and targets that live for two and a half minutes each.
#[derive(Default)]
struct ShortLived {
    names: VecDeque<String>,
    count: usize,
}

impl ShortLived {
    fn create(&mut self, cluster: &Cluster) {
        self.count += 1;
        let name = format!("job-{}", self.count);
        cluster.loads.set(&name, 1);
        cluster.apply(objects::deployment(&name, 1));
        cluster.apply(hpa(&name));
        self.names.push_back(name);
    }

    fn delete_oldest(&mut self, cluster: &Cluster) {
        let Some(name) = self.names.pop_front() else { return };
        cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", &name);
        cluster.delete("apps/v1", "Deployment", &name);
        cluster.loads.remove(&name);
    }
}

/// Deletes all events, as a real API server does after an hour.
fn expire_events(cluster: &Cluster) {
    for event in cluster.testbed.list("v1", "Event") {
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        cluster.testbed.delete("v1", "Event", NAMESPACE, name).expect("an event");
    }
}

/// Creates and deletes autoscalers for [`minutes_per_round`]. Returns the maximum length of the
/// queue.
async fn churn(cluster: &Cluster, short_lived: &mut ShortLived) -> u64 {
    let mut longest = 0;
    for minute in 0..minutes_per_round() {
        for (target, load) in TARGETS.iter().zip([1, 3, 5]) {
            cluster.loads.set(target, 1 + (load + i64::from(minute)) % 6);
        }
        for _ in 0..CREATED_PER_MINUTE {
            short_lived.create(cluster);
        }
        if minute % 7 == 0 {
            cluster.expire_watches();
        }
        cluster.sleep(MINUTE / 2).await;
        longest = longest.max(sum_of_series(&cluster.telemetry.render(), "workqueue_depth"));
        for _ in 0..short_lived.names.len().saturating_sub(SHORT_LIVED_COUNT) {
            short_lived.delete_oldest(cluster);
        }
        cluster.sleep(MINUTE / 2).await;
    }
    expire_events(cluster);
    cluster.journal.clear();
    longest
}

#[expect(clippy::print_stdout, reason = "the progress of a long run")]
async fn warm_up_and_measure() {
    let faults = Faults::new(3);
    let cluster = Cluster::start_with(hpa_testbed::Config {
        interceptor: Some(std::sync::Arc::new(faults.clone())),
        // With a small watch cache, the testbed soon reaches its final size.
        watch_cache_size: 200,
        ..hpa_testbed::Config::default()
    });
    for fault in permanent_faults() {
        faults.add(fault);
    }
    let mut short_lived = ShortLived::default();
    let rounds = env_number("RELIABILITY_ROUNDS").unwrap_or(DEFAULT_ROUND_COUNT);
    for _ in 0..rounds.min(MAX_WARM_UP_ROUNDS) {
        churn(&cluster, &mut short_lived).await;
    }
    let (series_before, resident_before) =
        (series_count(&cluster.telemetry.render()), resident_kib());
    let mut longest = 0;
    for round in 0..rounds {
        longest = longest.max(churn(&cluster, &mut short_lived).await);
        println!("round {round}: {resident_before} KiB became {} KiB", resident_kib());
    }
    let (text, grown) =
        (cluster.telemetry.render(), resident_kib().saturating_sub(resident_before));
    assert!(longest <= MAX_QUEUED, "{longest} autoscalers were queued at a time");
    assert!(
        series_count(&text) <= series_before + 50,
        "{series_before} series became {}",
        series_count(&text)
    );
    assert!(text.matches("hpa_name=").count() as u64 <= AUTOSCALER_COUNT);
    assert_eq!(
        sum_of_series(&text, "hpa_controller_events_dropped_total{cause=\"queue_full\"}"),
        0
    );
    assert!(grown < 4096, "grew by {grown} KiB, to {} KiB", resident_kib());
    let hits = faults.total_hits();
    assert!(hits > 25 * rounds * u64::from(minutes_per_round()), "{hits} hits");
    faults.clear();
    cluster.set_all_loads(6);
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.all_replicas(), [6; 3]);
    assert_eq!(cached_autoscalers(&cluster), AUTOSCALER_COUNT);
    cluster.shut_down().await;
}

/// Creates and deletes autoscalers while a part of all requests fails. Runs in a child process,
/// whose memory it measures.
#[test]
fn memory_and_queue_stay_bounded() {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return in_virtual_time(warm_up_and_measure());
    }
    let executable = std::env::current_exe().expect("path of the test executable");
    let child = Command::new(executable)
        .args(["--exact", TEST_NAME, "--nocapture"])
        .env(CHILD_VARIABLE, "1")
        .output();
    let child = child.expect("a process");
    let output = [child.stdout, child.stderr]
        .map(|output| String::from_utf8_lossy(&output).into_owned())
        .concat();
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
}
