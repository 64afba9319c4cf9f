//! Pods that can't be decoded, and pods whose requests can't be read.

use std::time::Duration;

use hpa_testbed::{Effect, FaultId, Faults, Match};
use hpa_tests::harness::{TestbedExt, objects};
use serde_json::json;

use super::{count_requests, finish, on, running_cluster, sleep_periods};
use crate::{NAMESPACE, cluster::Cluster};

const HOUR: Duration = Duration::from_hours(1);
/// Lists that check for a rewind of resource versions: one every five minutes.
const REWIND_CHECKS_PER_HOUR: u64 = 12;
/// The interval between changes of a pod, longer than the delay of the first relist for an
/// undecodable object.
const CHURN_INTERVAL: Duration = Duration::from_secs(8);

/// A request of 72,000 digits.
fn excessive_request() -> String {
    "7".repeat(72_000)
}

fn count_pod_lists(faults: &Faults) -> FaultId {
    count_requests(faults, Match::verb("list").group("").resource("pods"))
}

/// Makes the pod `tenant-0` undecodable wherever the controller reads it.
fn make_undecodable(cluster: &Cluster, faults: &Faults) {
    let pods = Match::verbs(["get", "list", "watch"]).group("").resource("pods");
    let (object, pointer) = ("tenant-0".into(), "/status/startTime".into());
    faults.add(on(pods, Effect::ChangedField { object, pointer, value: json!("yesterday") }));
    cluster.testbed.end_watches();
}

fn set_request(cluster: &Cluster, pod: &str, request: &str) {
    cluster.edit(cluster.testbed.get("v1", "Pod", NAMESPACE, pod), |object| {
        object["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(request);
    });
}

/// The reference would take the lowest 64 bits of the number for the request.
#[tokio::test(start_paused = true)]
async fn excessive_request_fails_the_metric_and_causes_no_relist() {
    let (cluster, faults) = running_cluster().await;
    let list_counter = count_pod_lists(&faults);
    set_request(&cluster, "web-0", &excessive_request());
    let end = cluster.clock.age() + HOUR;
    while cluster.clock.age() < end {
        cluster.edit(cluster.testbed.get("v1", "Pod", NAMESPACE, "web-0"), |object| {
            object["metadata"]["labels"]["age"] = json!(cluster.clock.age().as_secs().to_string());
        });
        cluster.sleep(CHURN_INTERVAL).await;
    }
    let lists = faults.hits(list_counter);
    assert!(lists <= REWIND_CHECKS_PER_HOUR, "{lists} lists of pods in an hour");
    let [status, reason, message] =
        cluster.testbed.condition("web", "ScalingActive").expect("a condition");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGetResourceMetric"));
    let expected = "unreadable request for cpu in container app of Pod web-0: quantities must be \
                    no more than 65536 bytes";
    assert!(message.contains(expected), "{message}");
    assert_eq!(cluster.testbed.condition("api", "ScalingActive").expect("a condition")[0], "True");
    set_request(&cluster, "web-0", "1");
    sleep_periods(&cluster, 1).await;
    assert_eq!(cluster.testbed.condition("web", "ScalingActive").expect("a condition")[0], "True");
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn pod_that_stays_undecodable_causes_few_relists() {
    let (cluster, faults) = running_cluster().await;
    let list_counter = count_pod_lists(&faults);
    make_undecodable(&cluster, &faults);
    cluster.apply(objects::pod("tenant", 0));
    cluster.sleep(HOUR).await;
    let lists = faults.hits(list_counter);
    assert!(lists <= REWIND_CHECKS_PER_HOUR + 4, "{lists} lists of pods in an hour");
    finish(cluster).await;
}

#[tokio::test(start_paused = true)]
async fn recreating_an_undecodable_pod_causes_few_relists() {
    let (cluster, faults) = running_cluster().await;
    let list_counter = count_pod_lists(&faults);
    make_undecodable(&cluster, &faults);
    let end = cluster.clock.age() + HOUR;
    while cluster.clock.age() < end {
        cluster.apply(objects::pod("tenant", 0));
        cluster.sleep(Duration::from_secs(1)).await;
        // The next list doesn't contain the pod.
        cluster.delete("v1", "Pod", "tenant-0");
        cluster.sleep(CHURN_INTERVAL).await;
    }
    let lists = faults.hits(list_counter);
    assert!((5..=20).contains(&lists), "{lists} lists of pods in an hour");
    finish(cluster).await;
}

/// A pod of another namespace is undecodable, and Deployment `web` reports more replicas than it
/// has pods. Reconciles must not list pods because of that.
#[tokio::test(start_paused = true)]
async fn undecodable_pod_does_not_affect_other_namespaces() {
    let (cluster, faults) = running_cluster().await;
    let list_counter = count_pod_lists(&faults);
    make_undecodable(&cluster, &faults);
    cluster.apply(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "tenant" },
    }));
    let mut pod = objects::pod("tenant", 0);
    pod["metadata"]["namespace"] = json!("tenant");
    cluster.apply(pod);
    let targets = Match::any().resource("deployments");
    let (object, pointer) = ("web".into(), "/status/replicas".into());
    let reports_more =
        faults.add(on(targets, Effect::ChangedField { object, pointer, value: json!(3) }));
    cluster.testbed.end_watches();
    cluster.testbed.compact();
    cluster.sleep(HOUR).await;
    assert!(faults.hits(reports_more) > 0);
    let lists = faults.hits(list_counter);
    assert!(lists <= REWIND_CHECKS_PER_HOUR + 4, "{lists} lists of pods in an hour");
    finish(cluster).await;
}
