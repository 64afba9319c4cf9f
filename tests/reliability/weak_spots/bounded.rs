//! Memory and queue stay bounded, whatever goes wrong and for however long.

use std::{collections::VecDeque, process::Command, time::Duration};

use hpa_test_harness::objects;
use hpa_testbed::{Effect, Fault, Faults, Match};

use super::{on, periods};
use crate::{
    NAMESPACE,
    cluster::{Cluster, TARGETS, hpa},
};

const NAME: &str = "weak_spots::bounded::memory_and_queue_stay_bounded";
/// Set in the process in which nothing else is measured.
const ALONE: &str = "RELIABILITY_ALONE";

const MINUTE: Duration = Duration::from_secs(60);
/// How long it takes until everything is as large as it gets, and how long it is watched then.
const MINUTES: u32 = 60;
/// How many autoscalers come and go each minute, and how many of these there are at a time.
const CHURN: usize = 4;
const SHORT_LIVED: usize = 8;
const LIVE: u64 = (TARGETS.len() + SHORT_LIVED) as u64;
const MOST: u64 = LIVE + CHURN as u64;

/// What the test process holds, in KiB: the controller, and the API server that it is tested with.
fn resident() -> u64 {
    let status =
        std::fs::read_to_string("/proc/self/status").expect("Linux' own account of a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The sum of a metric's series.
fn value(text: &str, name: &str) -> u64 {
    let series = text.lines().filter(|line| line.starts_with(name));
    series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// A tenth of everything goes wrong, for ever.
fn trouble() -> Vec<Fault> {
    let some = |matching: Match, effect| {
        Fault::on(matching.client(crate::random::CONTROLLER)).probability(0.03).effect(effect)
    };
    vec![
        some(Match::any(), Effect::InternalError),
        some(Match::any(), Effect::Disconnect { applied: true }),
        some(Match::any(), Effect::TruncatedBody),
        some(Match::verb("update"), Effect::LostResponse),
        some(Match::verb("watch"), Effect::TruncatedEvent { after: 3 }),
        some(Match::any(), Effect::Slow { by: Duration::from_secs(12) }),
        // One of them never works.
        on(Match::any().group("custom.metrics.k8s.io"), Effect::ServiceUnavailable),
    ]
}

/// Autoscalers and their targets that live for two minutes each.
#[derive(Default)]
struct ShortLived {
    names: VecDeque<String>,
    count: usize,
}

impl ShortLived {
    fn one_more(&mut self, cluster: &Cluster) {
        self.count += 1;
        let name = format!("job-{}", self.count);
        cluster.loads.set(&name, 1);
        cluster.apply(objects::deployment(&name, 1));
        cluster.apply(hpa(&name));
        self.names.push_back(name);
    }

    fn one_less(&mut self, cluster: &Cluster) {
        let Some(name) = self.names.pop_front() else { return };
        cluster.delete("autoscaling/v2", "HorizontalPodAutoscaler", &name);
        cluster.delete("apps/v1", "Deployment", &name);
        cluster.loads.remove(&name);
    }
}

/// What a real API server does after an hour.
fn expire_events(cluster: &Cluster) {
    for event in cluster.testbed.list("v1", "Event") {
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        cluster.testbed.delete("v1", "Event", NAMESPACE, name).expect("an event");
    }
}

/// An hour of faults, with autoscalers that come and go; the longest that the queue was.
async fn an_hour(cluster: &Cluster, short_lived: &mut ShortLived) -> u64 {
    let mut longest = 0;
    for minute in 0..MINUTES {
        for (target, load) in TARGETS.iter().zip([1, 3, 5]) {
            cluster.loads.set(target, 1 + (load + i64::from(minute)) % 6);
        }
        for _ in 0..CHURN {
            short_lived.one_more(cluster);
        }
        if minute % 7 == 0 {
            cluster.testbed.compact();
            cluster.testbed.drop_watches();
        }
        cluster.sleep(MINUTE / 2).await;
        longest = longest.max(value(&cluster.telemetry.render(), "workqueue_depth"));
        for _ in 0..short_lived.names.len().saturating_sub(SHORT_LIVED) {
            short_lived.one_less(cluster);
        }
        cluster.sleep(MINUTE / 2).await;
    }
    expire_events(cluster);
    cluster.journal.forget();
    longest
}

async fn two_hours() {
    let faults = Faults::new(3);
    let cluster = Cluster::start_with(hpa_testbed::Config {
        interceptor: Some(std::sync::Arc::new(faults.clone())),
        // So that the server's own memory is full soon.
        watch_cache_size: 200,
        ..hpa_testbed::Config::default()
    });
    for fault in trouble() {
        faults.add(fault);
    }
    let mut short_lived = ShortLived::default();
    an_hour(&cluster, &mut short_lived).await;
    let (series_before, resident_before) = (series(&cluster.telemetry.render()), resident());
    let longest = an_hour(&cluster, &mut short_lived).await;
    let (text, grown) = (cluster.telemetry.render(), resident().saturating_sub(resident_before));
    assert!(longest <= MOST, "{longest} autoscalers were due at a time");
    assert!(series(&text) <= series_before + 50, "{series_before} series became {}", series(&text));
    assert!(text.matches("hpa_name=").count() as u64 <= LIVE);
    assert_eq!(value(&text, "hpa_controller_events_dropped_total{cause=\"queue_full\"}"), 0);
    assert!(grown < 4096, "grew by {grown} KiB, to {} KiB", resident());
    assert!(faults.total_hits() > 1500, "{} hits", faults.total_hits());
    faults.clear();
    cluster.load_all(6);
    periods(&cluster, 2).await;
    assert_eq!(cluster.all_replicas(), [6; 3]);
    let known =
        value(&cluster.telemetry.render(), "horizontal_pod_autoscaler_controller_num_horizontal");
    assert_eq!(known, LIVE);
    cluster.shut_down().await;
}

/// Hundreds of autoscalers come and go while a part of all requests fails. Run in a process of its own, since what is
/// measured is the process.
#[test]
fn memory_and_queue_stay_bounded() {
    if std::env::var_os(ALONE).is_some() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        return runtime.expect("a runtime").block_on(two_hours());
    }
    let this = std::env::current_exe().expect("the test's own path");
    let alone = Command::new(this).args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output();
    let alone = alone.expect("a process");
    let told = [alone.stdout, alone.stderr]
        .map(|told| String::from_utf8_lossy(&told).into_owned())
        .concat();
    assert!(alone.status.success() && told.contains("1 passed"), "{told}");
}
