//! Writes of a former leader that take effect after another instance has taken the lease.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use hpa_controller::k8s::Clients;
use hpa_testbed::{Effect, Fault, Faults, Match};
use hpa_tests::harness::TestbedExt;
use serde_json::json;
use tower::Service;

use super::{finish, on, running_cluster, sleep_periods};
use crate::cluster::{Cluster, client_limits};

type Request = http::Request<kube::client::Body>;
type Inner = hpa_testbed::Service;

/// Completes each request even if the client cancels it, as a server does after it has received the
/// request.
#[derive(Clone)]
struct UncancellableService(Inner);

impl Service<Request> for UncancellableService {
    type Response = <Inner as Service<Request>>::Response;
    type Error = <Inner as Service<Request>>::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let handled = tokio::spawn(self.0.call(request));
        async move { handled.await.expect("no panic") }.boxed()
    }
}

/// The first leader scales `jobs` up. Its status write is delayed until the second leader has
/// scaled `jobs` to zero. If the late write took effect, it would remove `ScaledToZero`, and `jobs`
/// would stay at zero.
#[tokio::test(start_paused = true)]
async fn late_status_write_of_a_former_leader_is_refused() {
    let faults = Faults::new(1);
    let mut cluster = Cluster::with_faults(&faults);
    cluster.kill_controller().await;
    let service = UncancellableService(cluster.testbed.service_named("first"));
    cluster
        .start_with_election_and_clients(Clients::from_service(service, &client_limits()), "first");
    cluster.edit(cluster.testbed.hpa("jobs"), |hpa| {
        hpa["spec"]["behavior"] = json!({ "scaleDown": { "stabilizationWindowSeconds": 0 } });
    });
    cluster.wait_until_age(Duration::from_secs(30)).await;
    cluster.start_standby("second");
    cluster.wait_until_age(Duration::from_secs(61)).await;

    let on_first = |matching: Match| Fault::on(matching.client("first"));
    let status_of_jobs = Match::verb("patch").resource("horizontalpodautoscalers").name("jobs");
    let late = faults.add(on_first(status_of_jobs).effect(Effect::Stall));
    cluster.loads.set("jobs", 6);
    cluster.wait_for_replicas("jobs", 6).await;
    faults.wait_for_hits(late, 1).await;
    faults.add(on_first(Match::any().resource("leases")).effect(Effect::InternalError));
    cluster.loads.set("jobs", 0);
    cluster.wait_for_replicas("jobs", 0).await;
    assert!(cluster.has_exited(), "the second instance leads");
    cluster.sleep(Duration::from_secs(3)).await;
    faults.remove(late);
    sleep_periods(&cluster, 2).await;

    let [status, ..] = cluster.testbed.condition("jobs", "ScaledToZero").expect("a condition");
    assert_eq!(status, "True");
    cluster.loads.set("jobs", 3);
    sleep_periods(&cluster, 2).await;
    assert_eq!(cluster.testbed.replicas("jobs"), 3);
    finish(cluster).await;
}

/// A user edits the autoscaler while its status is written.
#[tokio::test(start_paused = true)]
async fn status_is_written_although_the_autoscaler_was_edited_meanwhile() {
    let (cluster, faults) = running_cluster().await;
    let status_of_web = Match::verb("patch").resource("horizontalpodautoscalers").name("web");
    let slow = Effect::Slow { by: Duration::from_secs(2) };
    let slow = faults.add(on(status_of_web, slow));
    cluster.loads.set("web", 4);
    cluster.wait_for_replicas("web", 4).await;
    faults.wait_for_hits(slow, 1).await;
    cluster.edit(cluster.testbed.hpa("web"), |hpa| {
        hpa["metadata"]["labels"] = json!({ "team": "shop" });
    });
    cluster.sleep(Duration::from_secs(5)).await;
    assert_eq!(faults.hits(slow), 2, "the first write is refused");
    let hpa = cluster.testbed.hpa("web").expect("an autoscaler");
    assert_eq!(hpa["status"]["desiredReplicas"], json!(4));
    assert_eq!(hpa["metadata"]["labels"]["team"], "shop");
    let events = cluster.testbed.list("v1", "Event");
    assert!(events.iter().all(|event| event["reason"] != "FailedUpdateStatus"), "{events:?}");
    faults.clear();
    finish(cluster).await;
}
