use std::time::Duration;

use hpa_calc::Selector;
use hpa_metrics::{Catalog, CustomQuery, MetricSource, Objects, Query, resource::GroupResource};
use hpa_testbed::{Effect, Fault, Match, Testbed};
use jiff::SignedDuration;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::tests::{faulty_testbed, not_served, recorded_logs};

/// Monday 2027-01-11, 08:00 UTC.
const START: i64 = 1_799_654_400;

fn start() -> Timestamp {
    Timestamp::from_second(START).unwrap()
}

/// Schedules of a testbed, in virtual time.
struct Cluster {
    testbed: Testbed,
    schedules: Arc<Schedules>,
    changed: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn start(testbed: &Testbed) -> Self {
        let origin = Instant::now();
        let now = move || start() + origin.elapsed();
        let schedules =
            Arc::new(Schedules::new(crate::schedules::Settings::default(), Arc::new(now)));
        let changed = Arc::<Mutex<Vec<String>>>::default();
        tokio::spawn({
            let (schedules, client) = (schedules.clone(), testbed.client());
            let changed = changed.clone();
            async move {
                let on_change = |keys: &[ScheduleKey]| {
                    changed.lock().extend(keys.iter().map(ToString::to_string));
                };
                schedules.watch(client, &[], on_change).await;
            }
        });
        Self { testbed: testbed.clone(), schedules, changed }
    }

    fn apply(&self, kind: &str, name: &str, entry: Value) {
        self.testbed.apply(schedule(kind, name, entry)).unwrap();
    }

    async fn value(&self, kind: ScheduleKind, name: &str) -> Result<i64, String> {
        let value = self.schedules.value(&ScheduleKey::new(kind, "shop", name)).await;
        value.map(|(value, _)| value).map_err(|error| error.to_string())
    }

    fn is_active(&self, name: &str) -> Option<bool> {
        let object = self.testbed.get("zalando.org/v1", "ScalingSchedule", "shop", name).unwrap();
        object["status"]["active"].as_bool()
    }
}

fn testbed_with_definitions() -> Testbed {
    with_definitions(Testbed::default())
}

fn with_definitions(testbed: Testbed) -> Testbed {
    for definition in crate::schedules::definition::schedule_definitions().unwrap() {
        testbed.apply(definition).unwrap();
    }
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    testbed.apply(namespace).unwrap();
    testbed
}

/// A schedule with ramps of one minute.
fn schedule(kind: &str, name: &str, entry: Value) -> Value {
    let mut object = json!({
        "apiVersion": "zalando.org/v1", "kind": kind,
        "metadata": { "name": name, "labels": { "team": name } },
        "spec": { "scalingWindowDurationMinutes": 1, "schedules": [entry] },
    });
    if kind == "ScalingSchedule" {
        object["metadata"]["namespace"] = "shop".into();
    }
    object
}

/// An entry with the value 10 for a minute, some seconds after the start.
fn entry_after(seconds: i64) -> Value {
    let date = start() + SignedDuration::from_secs(seconds);
    json!({ "type": "OneTime", "date": date.to_string(), "durationMinutes": 1, "value": 10 })
}

#[tokio::test(start_paused = true)]
async fn schedules_are_read_after_their_kinds_are_installed() {
    let cluster = Cluster::start(&Testbed::default());
    let value = || cluster.value(ScheduleKind::Namespaced, "noon");
    assert_eq!(value().await.unwrap_err(), "scalingschedules.zalando.org are not synced yet");
    assert!(cluster.schedules.readiness().is_err());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        value().await.unwrap_err(),
        "scalingschedules.zalando.org are not installed (hpa schedule crd prints their definition)"
    );
    assert_eq!(cluster.schedules.readiness(), Ok(()));

    with_definitions(cluster.testbed.clone());
    sleep(Duration::from_mins(2)).await;
    assert_eq!(value().await.unwrap_err(), "there is no ScalingSchedule shop/noon");
    let entry = json!({ "type": "OneTime", "value": 7, "durationMinutes": 60,
        "date": "2027-01-11T08:00:00Z" });
    cluster.apply("ScalingSchedule", "noon", entry);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(value().await, Ok(7));
    cluster.testbed.delete("zalando.org/v1", "ScalingSchedule", "shop", "noon").unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(value().await.unwrap_err(), "there is no ScalingSchedule shop/noon");
}

#[test]
fn readiness_has_one_message_for_each_kind() {
    let schedules = Schedules::new(crate::schedules::Settings::default(), Arc::new(start));
    for namespace in ["bank", "shop"] {
        let kind = ScheduleKind::Namespaced;
        schedules.cache.update_health(kind, namespace, Health::NotSynced(None));
    }
    let expected = "scalingschedules.zalando.org are not synced yet".to_owned();
    assert_eq!(schedules.readiness(), Err(vec![expected]));
}

#[tokio::test(start_paused = true)]
async fn invalid_schedule_is_reported_with_its_field_and_others_work() {
    let cluster = Cluster::start(&testbed_with_definitions());
    cluster.apply("ScalingSchedule", "bad", json!({ "type": "OneTime", "value": 1 }));
    cluster.apply("ScalingSchedule", "good", entry_after(-90));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(
        cluster.value(ScheduleKind::Namespaced, "bad").await.unwrap_err(),
        "ScalingSchedule shop/bad: spec.schedules[0].date: required, because the type is OneTime"
    );
    assert!(cluster.value(ScheduleKind::Namespaced, "good").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn only_changes_of_the_spec_are_reported() {
    let cluster = Cluster::start(&testbed_with_definitions());
    let mut object = schedule("ScalingSchedule", "noon", entry_after(600));
    cluster.testbed.apply(object.clone()).unwrap();
    cluster.apply("ClusterScalingSchedule", "all", entry_after(600));
    sleep(Duration::from_secs(1)).await;
    let take_changed = || {
        let mut taken = std::mem::take(&mut *cluster.changed.lock());
        taken.sort();
        taken
    };
    assert_eq!(take_changed(), ["ClusterScalingSchedule all", "ScalingSchedule shop/noon"]);
    object["status"] = json!({ "active": true });
    cluster.testbed.apply(object.clone()).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(take_changed(), [""; 0]);
    object["spec"]["schedules"][0]["value"] = 11.into();
    cluster.testbed.apply(object).unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(take_changed(), ["ScalingSchedule shop/noon"]);
}

#[tokio::test(start_paused = true)]
async fn spec_is_compiled_only_if_it_changed() {
    let cluster = Cluster::start(&testbed_with_definitions());
    let mut object = schedule("ScalingSchedule", "noon", entry_after(600));
    let apply_and_read = async |object: &Value| {
        cluster.testbed.apply(object.clone()).unwrap();
        sleep(Duration::from_secs(1)).await;
        let key = ScheduleKey::new(ScheduleKind::Namespaced, "shop", "noon");
        let entry = cluster.schedules.cache.get(&key).unwrap();
        (entry.is_active, entry.metric.clone().unwrap())
    };
    let (_, first) = apply_and_read(&object).await;
    object["status"] = json!({ "active": true });
    let (is_active, with_status) = apply_and_read(&object).await;
    assert!(is_active && Arc::ptr_eq(&with_status, &first));
    object["spec"]["schedules"][0]["value"] = 11.into();
    let (_, changed) = apply_and_read(&object).await;
    assert!(!Arc::ptr_eq(&changed, &first));
}

/// The events of the deletion were missed, because the watch had ended.
#[tokio::test(start_paused = true)]
async fn schedules_that_disappear_with_their_definition_are_reported() {
    let (testbed, faults) = faulty_testbed();
    let testbed = with_definitions(testbed);
    let cluster = Cluster::start(&testbed);
    cluster.apply("ScalingSchedule", "noon", entry_after(600));
    sleep(Duration::from_secs(1)).await;
    cluster.changed.lock().clear();
    let refused = Match::any().resource("scalingschedules");
    let outage = faults.add(Fault::on(refused).effect(Effect::InternalError));
    testbed.end_watches();
    let (definition, name) = ("CustomResourceDefinition", "scalingschedules.zalando.org");
    testbed.delete("apiextensions.k8s.io/v1", definition, "", name).unwrap();
    testbed.compact();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(*cluster.changed.lock(), [""; 0]);
    faults.remove(outage);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(*cluster.changed.lock(), ["ScalingSchedule shop/noon"]);
}

#[tokio::test(start_paused = true)]
async fn schedules_return_if_the_definition_was_only_unavailable() {
    let (testbed, faults) = faulty_testbed();
    let testbed = with_definitions(testbed);
    let cluster = Cluster::start(&testbed);
    cluster.apply("ScalingSchedule", "noon", entry_after(600));
    let value = || cluster.value(ScheduleKind::Namespaced, "noon");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(value().await, Ok(0));
    let watches = Match::verb("watch").resource("scalingschedules");
    let outage = faults.add(Fault::on(watches).effect(not_served()));
    testbed.end_watches();
    sleep(Duration::from_secs(3)).await;
    assert!(value().await.unwrap_err().contains("not installed"));
    faults.remove(outage);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(value().await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn next_change_is_each_step_of_a_ramp() {
    let cluster = Cluster::start(&testbed_with_definitions());
    cluster.apply("ScalingSchedule", "noon", entry_after(120));
    sleep(Duration::from_secs(1)).await;
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "web" },
        "spec": { "maxReplicas": 1, "scaleTargetRef": {}, "metrics": [
            { "type": "Resource", "resource": { "name": "cpu", "target": {} } },
            { "type": "Object", "object": { "metric": { "name": "m" }, "target": {},
                "describedObject": { "apiVersion": "zalando.org/v1", "kind": "ScalingSchedule",
                    "name": "noon" } } },
        ] },
    }))
    .unwrap();
    let now = || (cluster.schedules.now)();
    let next_change = |since| cluster.schedules.next_change(&hpa, since, now());
    assert_eq!(next_change(now()), None, "the value was not read");
    let (mut seconds, mut last_change) = (Vec::new(), start());
    loop {
        cluster.value(ScheduleKind::Namespaced, "noon").await.unwrap();
        let next = next_change(now()).unwrap();
        if next.duration_since(now()) == SignedDuration::from_hours(1) {
            break;
        }
        last_change = next;
        seconds.push(next.duration_since(start()).as_secs());
        sleep(Duration::try_from(next.duration_since(now())).unwrap()).await;
    }
    // A ramp of one minute to the value 10 has ten steps. The first one, at 60 s, has the value 0.
    let up = [66, 72, 78, 84, 90, 96, 102, 108, 114, 120];
    assert_eq!(seconds[..up.len()], up);
    // The last change is to the value 0.
    assert_eq!(seconds.last(), Some(&234));

    // A slow reconcile started before the last change. The status or another autoscaler has read
    // the value since.
    let second_before = last_change - SignedDuration::from_secs(1);
    let reread = now() + SignedDuration::from_secs(1);
    assert_eq!(next_change(second_before), Some(reread));
    assert!(next_change(last_change) > Some(reread), "that reconcile read the new value");
}

#[tokio::test(start_paused = true)]
async fn status_is_written_when_a_schedule_becomes_active_and_inactive() {
    let cluster = Cluster::start(&testbed_with_definitions());
    let (schedules, client) = (cluster.schedules.clone(), cluster.testbed.client());
    tokio::spawn(async move { schedules.write_statuses(client).await });
    cluster.apply("ScalingSchedule", "noon", entry_after(120));
    // The first ramp starts after a minute, and the last one ends after four.
    let mut states = Vec::new();
    for _ in 0..6 {
        sleep(Duration::from_secs(50)).await;
        states.push(cluster.is_active("noon").unwrap_or_default());
    }
    assert_eq!(states, [false, true, true, true, false, false]);
    // Each change is written once.
    let version = cluster.testbed.resource_version();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.testbed.resource_version(), version);
}

fn request(resource: &str, namespace: &str) -> CustomQuery {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    CustomQuery {
        resource: GroupResource::new(group, resource),
        namespace: namespace.to_owned(),
        objects: Objects::Selected(Selector::everything()),
        metric: "anything".to_owned(),
        metric_selector: Selector::everything(),
    }
}

#[tokio::test(start_paused = true)]
async fn only_metrics_of_schedules_wait_for_the_first_list() {
    let cluster = Cluster::start(&testbed_with_definitions());
    let source = cluster.schedules.clone();
    let undiscovered = |query: Query| source.undiscovered(&query);
    let usage = || {
        let pods = Objects::Selected(Selector::everything());
        Query::PodUsage { namespace: "shop".to_owned(), pods, fields: Box::default() }
    };
    let schedules = || Query::from(request("scalingschedules.zalando.org", "shop"));
    let text = undiscovered(schedules()).unwrap();
    assert!(text.starts_with("the metrics of schedules are not discovered yet"), "{text}");
    assert!(undiscovered(request("clusterscalingschedule", "").into()).is_some());
    for resource in ["pods", "ingresses.networking.k8s.io", "scalingschedules.example.org"] {
        assert_eq!(undiscovered(request(resource, "shop").into()), None, "{resource}");
    }
    assert_eq!(undiscovered(usage()), None);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(undiscovered(schedules()), None, "listed");
}

#[tokio::test(start_paused = true)]
async fn source_reads_by_name_and_by_selector() {
    let cluster = Cluster::start(&testbed_with_definitions());
    cluster.apply("ScalingSchedule", "noon", entry_after(0));
    cluster.apply("ScalingSchedule", "night", entry_after(10_000));
    cluster.apply("ClusterScalingSchedule", "all", entry_after(0));
    sleep(Duration::from_secs(1)).await;
    let source = cluster.schedules.clone();
    for (resource, namespace, name) in [
        ("scalingschedules.zalando.org", "shop", "noon"),
        ("scalingschedule", "shop", "noon"),
        ("clusterscalingschedules.zalando.org", "shop", "all"),
        ("clusterscalingschedules.zalando.org", "", "all"),
    ] {
        let request = request(resource, namespace);
        assert!(source.has(&request.clone().into()));
        let values = source.read_custom(request.named(name)).await.unwrap();
        let item = &values.items[0];
        assert_eq!((&*item.object, item.value.as_milli()), (name, 10_000));
        assert_eq!(item.timestamp, start() + SignedDuration::from_secs(1));
    }
    for resource in ["pods", "scalingschedules.example.org"] {
        assert!(!source.has(&request(resource, "shop").into()));
    }
    assert!(!source.has(&request("scalingschedules", "").into()));

    let schedules = request("scalingschedules.zalando.org", "shop");
    let missing = source.read_custom(schedules.clone().named("other")).await.unwrap_err();
    assert!(missing.is_not_found());
    let selector = Selector::parse("team in (noon,night)").unwrap();
    let values = source.read_custom(schedules.selected(&selector)).await.unwrap();
    let values: Vec<_> = values.items.iter().map(|item| item.value.as_milli()).collect();
    assert_eq!(values, [0, 10_000]);
}

/// A watch that fails to start resumes without a relist.
#[tokio::test(start_paused = true)]
async fn each_outage_of_a_watch_and_its_end_are_logged() {
    let (logs, _guard) = recorded_logs();
    let (testbed, faults) = faulty_testbed();
    let testbed = with_definitions(testbed);
    let outage = || {
        let watches = Match::verb("watch").resource("scalingschedules");
        faults.add(Fault::on(watches).effect(Effect::InternalError))
    };
    let fault = outage();
    let cluster = Cluster::start(&testbed);
    sleep(Duration::from_mins(2)).await;
    faults.remove(fault);
    sleep(Duration::from_mins(2)).await;
    cluster.apply("ScalingSchedule", "noon", entry_after(0));
    sleep(Duration::from_secs(1)).await;
    outage();
    testbed.end_watches();
    sleep(Duration::from_mins(2)).await;
    let failed = "unable to watch scaling schedules, retrying";
    assert_eq!(*logs.lock(), [failed, "scaling schedules are watched again", failed]);
}

/// A refused schedule doesn't affect those of the other kind, and fits after others are deleted.
#[tokio::test(start_paused = true)]
async fn large_schedules_are_refused_with_the_limit() {
    let cluster = Cluster::start(&testbed_with_definitions());
    let apply = |name: &str, zone: &str, entries: usize| {
        let entry = json!({ "type": "Repeating", "value": 1, "period": {
            "startTime": "00:00", "days": ["Mon"], "timezone": zone } });
        let mut object = schedule("ScalingSchedule", name, entry.clone());
        object["spec"]["schedules"] = vec![entry; entries].into();
        cluster.testbed.apply(object).unwrap();
    };
    apply("entries", "UTC", 1001);
    apply("bytes", &"x".repeat(600 << 10), 1);
    // Each is below the limits of one schedule, and about 0.5 MiB.
    for index in 0..20 {
        apply(&format!("large-{index:02}"), &"x".repeat(400), 1000);
    }
    sleep(Duration::from_secs(5)).await;
    let error = async |name: &str| cluster.value(ScheduleKind::Namespaced, name).await.err();
    let entries = error("entries").await.unwrap();
    assert!(entries.ends_with("1001 entries, at most 1000 are allowed"), "{entries}");
    let bytes = error("bytes").await.unwrap();
    assert!(bytes.contains("at most 524288 are read"), "{bytes}");
    let expected = "ScalingSchedule shop/large-19: the schedules of the namespace need more than \
                    8388608 bytes";
    assert_eq!(
        (error("large-00").await, error("large-19").await.as_deref()),
        (None, Some(expected))
    );
    cluster.apply("ClusterScalingSchedule", "all", entry_after(0));
    for index in 0..10 {
        let name = format!("large-{index:02}");
        cluster.testbed.delete("zalando.org/v1", "ScalingSchedule", "shop", &name).unwrap();
    }
    apply("large-19", &"x".repeat(400), 1000);
    apply("large-19", &"x".repeat(401), 1000);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(error("large-19").await, None);
    assert!(cluster.value(ScheduleKind::Cluster, "all").await.is_ok());
}
