//! Invariants that hold under any faults. They are checked after a run, on the journal: on what the
//! API server stored and received, on the reported loads, and on the reconciles that controllers
//! reported.

mod requests;
mod scalings;
mod stabilization;

use std::{collections::HashMap, time::Duration};

use hpa_calc::settings::DOMAIN;
use serde_json::Value;

use crate::{
    MAX_REPLICAS, PERIOD, WINDOW,
    cluster::Cluster,
    journal::{AutoscalerVersion, Entries, Lifetime, Reconcile, Request, Scaling, When, group_by},
    targets::{Id, Source},
};

/// Maximum age of the inputs of a decision when its scale write takes effect, except shared
/// metrics, which may be one [`PERIOD`] older.
const MAX_INPUT_AGE: Duration = Duration::from_secs(50);
/// The maximum time from a reconcile's first request until the API server has handled its last one.
const MAX_REQUEST_DELAY: Duration = Duration::from_secs(55);

/// The window of the samples of pods.
const SAMPLE_WINDOW: Duration = Duration::from_secs(15);

/// Describes all violations.
pub(crate) fn violations(cluster: &Cluster) -> Vec<String> {
    violations_with(cluster, false)
}

/// Like [`violations`]. With `pods_are_known`, no fault hides pods or their metrics from the
/// controller, and each decision is based on the whole load.
pub(crate) fn violations_with(cluster: &Cluster, pods_are_known: bool) -> Vec<String> {
    let entries = cluster.journal.entries();
    let mut violations = Vec::new();
    for autoscaler in by_autoscaler(&entries) {
        let target = cluster.shape.targets.iter().find(|target| target.id == *autoscaler.id);
        let is_external = target.is_some_and(|target| target.source == Source::External);
        // Pod faults don't affect external metrics.
        let is_load_known = is_external || pods_are_known;
        violations.extend(scalings::violations(cluster, &autoscaler, is_load_known));
        if is_load_known {
            violations.extend(stabilization::violations(cluster, &autoscaler));
        }
        violations.extend(requests::unexplained_statuses(&autoscaler));
        violations.extend(too_many_reconciles(cluster, &autoscaler));
    }
    violations.extend(requests::unexpected_writes(&entries));
    violations.extend(requests::writes_without_lease(&entries));
    violations
}

/// The journal entries of one autoscaler and its target.
struct AutoscalerEntries<'a> {
    id: &'a Id,
    scalings: Vec<&'a Scaling>,
    versions: Vec<&'a AutoscalerVersion>,
    reconciles: Vec<&'a Reconcile>,
    requests: Vec<&'a Request>,
    lifetimes: &'a [Lifetime],
}

fn by_autoscaler(entries: &Entries) -> Vec<AutoscalerEntries<'_>> {
    let mut scalings = group_by(&entries.scalings, |one| &one.target);
    let mut reconciles = group_by(&entries.reconciles, |one| &one.autoscaler);
    let mut requests = group_by(&entries.requests, |one| &one.object);
    let versions = group_by(&entries.versions, |one| &one.autoscaler);
    let group = |(id, versions)| AutoscalerEntries {
        id,
        scalings: scalings.remove(id).unwrap_or_default(),
        versions,
        reconciles: reconciles.remove(id).unwrap_or_default(),
        requests: requests.remove(id).unwrap_or_default(),
        lifetimes: &entries.lifetimes,
    };
    versions.into_iter().map(group).collect()
}

impl<'a> AutoscalerEntries<'a> {
    /// The versions that were current at some time from `from` to `to`, including the one written
    /// last before `from`.
    fn versions_between(&self, from: When, to: When) -> Vec<&'a AutoscalerVersion> {
        let first = self.versions.partition_point(|version| version.when <= from);
        let stored = self.versions.iter().skip(first.saturating_sub(1));
        stored
            .take_while(|version| version.when <= to)
            .filter(|version| !version.is_deleted)
            .copied()
            .collect()
    }

    /// The lifetime of an instance at this time.
    fn lifetime(&self, instance: &str, when: When) -> Option<&'a Lifetime> {
        let mut lifetimes = self.lifetimes.iter().rev();
        lifetimes.find(|one| one.instance == instance && one.started <= when)
    }

    /// Whether an instance ended so soon after this time that it may not have reported a reconcile.
    fn ends_soon_after(&self, instance: &str, when: When) -> bool {
        let ended = self.lifetime(instance, when).and_then(|lifetime| lifetime.ended);
        ended.is_some_and(|ended| ended.at <= when.at + MAX_REQUEST_DELAY)
    }
}

fn bounds(version: &AutoscalerVersion) -> (i64, i64) {
    bounds_of(&version.spec, &version.annotations)
}

/// The bounds of an autoscaler. Its schedule of bounds, if any, has one entry for all times.
pub(crate) fn bounds_of(spec: &Value, annotations: &Value) -> (i64, i64) {
    let schedule: Value = setting(annotations, "bounds")
        .map(|text| serde_json::from_str(text).expect("a schedule"))
        .unwrap_or_default();
    let bound = |name: &str, default| {
        let scheduled = schedule[0][name].as_i64();
        scheduled.or(spec[name].as_i64()).unwrap_or(default)
    };
    (bound("minReplicas", 1), bound("maxReplicas", i64::from(MAX_REPLICAS)))
}

/// The value of a setting, which is an annotation.
fn setting<'a>(annotations: &'a Value, name: &str) -> Option<&'a str> {
    annotations[format!("{DOMAIN}/{name}")].as_str()
}

/// A setting that is a number of seconds, such as `30s`.
fn seconds(version: &AutoscalerVersion, name: &str) -> Option<Duration> {
    let text = setting(&version.annotations, name)?.strip_suffix('s').expect("seconds");
    Some(Duration::from_secs(text.parse().expect("a number")))
}

/// The downscale stabilization window of an autoscaler.
fn window(version: &AutoscalerVersion) -> Duration {
    let behavior = version.spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"].as_u64();
    behavior.map_or_else(
        || seconds(version, "downscale-stabilization").unwrap_or(WINDOW),
        Duration::from_secs,
    )
}

/// The queue holds each autoscaler once. Therefore, reconciles are not much more frequent than the
/// sync period and the changes require.
fn too_many_reconciles(cluster: &Cluster, entries: &AutoscalerEntries<'_>) -> Option<String> {
    let shortest =
        entries.versions.iter().filter_map(|version| seconds(version, "sync-period")).min();
    let periods = cluster.clock.age().as_secs() / shortest.unwrap_or(PERIOD).as_secs() + 1;
    let count = entries.reconciles.len() as u64;
    // Each controller start, edit and relist adds one.
    (count > periods * 2 + 20)
        .then(|| format!("{} was reconciled {count} times in {periods} periods", entries.id))
}

/// The longest time without a start of a reconcile, by autoscaler, between two ages.
pub(crate) fn longest_gaps(
    reconciles: &[Reconcile],
    from: Duration,
    to: Duration,
) -> HashMap<&Id, Duration> {
    let gaps = |starts: Vec<&Reconcile>| {
        let mut starts: Vec<_> = starts.into_iter().map(|one| one.started).collect();
        starts.retain(|start| (from..to).contains(start));
        starts.sort_unstable();
        let ends = starts.iter().copied().chain([to]);
        let gaps = [from].into_iter().chain(starts.iter().copied()).zip(ends);
        gaps.map(|(before, after)| after.saturating_sub(before)).max().unwrap_or_default()
    };
    let by_autoscaler = group_by(reconciles, |one| &one.autoscaler);
    by_autoscaler.into_iter().map(|(id, starts)| (id, gaps(starts))).collect()
}
