//! Chains of controller references.

use hpa_calc::{Pod, Scale, api::CrossVersionObjectReference};

use super::*;
use crate::scale_target::{Owners, ScaleObject};

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/shop/replicasets";

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true })
}

fn replica_set(uid: &str) -> Value {
    owner("apps/v1", "ReplicaSet", uid, uid)
}

fn pod(name: &str, owner: &Value) -> Arc<Pod> {
    let owners = if owner.is_null() { json!([]) } else { json!([owner]) };
    let pod = json!({ "metadata": { "name": name, "ownerReferences": owners } });
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// A server with these `ReplicaSets` and their owners.
fn server_with(replica_sets: &[(&str, Value)]) -> Server {
    let server = Server::default();
    let resource = json!({ "name": "replicasets", "kind": "ReplicaSet", "namespaced": true });
    server.serve_group("apps", "v1", &[("v1", json!([resource]))]);
    for (name, owner) in replica_sets {
        let metadata = json!({ "name": name, "uid": name, "ownerReferences": [owner] });
        server.respond(&format!("{REPLICA_SETS}/{name}"), 200, json!({ "metadata": metadata }));
    }
    server
}

fn not_found(name: &str) -> Value {
    json!({ "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
        "message": "not found", "details": { "name": name } })
}

fn owners(server: &Server) -> Owners {
    Owners::new(server.client(), Arc::new(server.mapper()), Duration::from_secs(1))
}

/// The pods that the Deployment `web` owns.
async fn owned_by_web(owners: &Owners, pods: &[Arc<Pod>]) -> Result<Vec<String>, String> {
    owned("shop", owners, pods, "apps/v1", "Deployment").await
}

/// The pods that a target with the UID `web-uid` owns.
async fn owned(
    namespace: &str,
    owners: &Owners,
    pods: &[Arc<Pod>],
    api_version: &str,
    kind: &str,
) -> Result<Vec<String>, String> {
    let reference = CrossVersionObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "web".to_owned(),
        ..CrossVersionObjectReference::default()
    };
    let target = ScaleObject {
        scale: Scale::default(),
        uid: "web-uid".to_owned(),
        resource_version: String::new(),
    };
    let selected = owners.only_owned(namespace, pods.to_vec(), &target, &reference).await;
    match selected.ownership_error {
        Some(error) => Err(error),
        None => Ok(selected.pods.iter().map(|pod| pod.name.to_string()).collect()),
    }
}

#[tokio::test]
async fn pods_of_the_targets_replica_sets_are_owned() {
    let web = owner("apps/v1", "Deployment", "web", "web-uid");
    let other = owner("apps/v1", "Deployment", "other", "other-uid");
    let server = server_with(&[("web-1", web.clone()), ("web-2", web.clone()), ("other-1", other)]);
    let owners = owners(&server);
    let pods = [
        pod("a", &replica_set("web-1")),
        pod("b", &replica_set("web-2")),
        pod("of-another", &replica_set("other-1")),
        pod("direct", &web),
        pod("without-owner", &Value::Null),
        pod("a2", &replica_set("web-1")),
    ];
    assert_eq!(owned_by_web(&owners, &pods).await.unwrap(), ["a", "b", "direct", "a2"]);
    server.take_requests();
    assert_eq!(owned_by_web(&owners, &pods).await.unwrap(), ["a", "b", "direct", "a2"]);
    assert_eq!(server.take_requests(), [""; 0], "owners are cached");
}

#[tokio::test]
async fn missing_or_recreated_replica_set_owns_nothing() {
    let server = server_with(&[("new", owner("apps/v1", "Deployment", "web", "web-uid"))]);
    server.respond(&format!("{REPLICA_SETS}/gone"), 404, not_found("gone"));
    let mut reused = replica_set("old-uid");
    reused["name"] = json!("new");
    let pods = [pod("a", &replica_set("gone")), pod("b", &reused)];
    assert_eq!(owned_by_web(&owners(&server), &pods).await.unwrap(), [""; 0]);
}

/// Pods of an unreadable owner must not look like pods of another target.
#[tokio::test]
async fn unreadable_owner_is_an_error() {
    let server = server_with(&[]);
    let forbidden = json!({ "kind": "Status", "status": "Failure", "code": 403,
        "reason": "Forbidden", "message": "replicasets is forbidden" });
    server.respond(&format!("{REPLICA_SETS}/web-1"), 403, forbidden);
    let owners = owners(&server);
    assert_eq!(
        owned_by_web(&owners, &[pod("a", &replica_set("web-1"))]).await.unwrap_err(),
        "unable to read ReplicaSet web-1: replicasets is forbidden"
    );
    let unknown = [pod("a", &owner("example.com/v1", "Fleet", "f", "f-uid"))];
    let error =
        owned("shop", &owners, &unknown, "argoproj.io/v1alpha1", "Rollout").await.unwrap_err();
    assert!(error.starts_with("Fleet f: "), "{error}");
}

/// The controller needs no permission to read Jobs.
#[tokio::test]
async fn owner_that_cannot_belong_to_the_target_is_not_read() {
    let server = server_with(&[("web-1", owner("apps/v1", "Deployment", "web", "web-uid"))]);
    let owners = owners(&server);
    let pods = [
        pod("own", &replica_set("web-1")),
        pod("of-a-job", &owner("batch/v1", "Job", "import", "job-uid")),
        pod("of-another-api", &owner("example.com/v1", "ReplicaSet", "web-1", "other-uid")),
        pod("direct", &owner("apps/v1", "StatefulSet", "web", "web-uid")),
    ];
    assert_eq!(owned_by_web(&owners, &pods).await.unwrap(), ["own", "direct"]);
    let read = |request: &String| request.contains("/namespaces/");
    assert_eq!(server.take_requests().iter().filter(|request| read(request)).count(), 1);
    let direct = owned("shop", &owners, &pods, "apps/v1", "StatefulSet").await.unwrap();
    assert_eq!(direct, ["direct"]);
    assert_eq!(server.take_requests(), [""; 0]);
}

#[tokio::test]
async fn endless_chain_is_an_error() {
    let server = server_with(&[("one", replica_set("two")), ("two", replica_set("one"))]);
    assert_eq!(
        owned_by_web(&owners(&server), &[pod("a", &replica_set("one"))]).await.unwrap_err(),
        "the chain of owners of ReplicaSet one is too long"
    );
}

/// Users write the references of their pods.
#[tokio::test]
async fn forged_owner_uid_hides_no_pods() {
    let mut claim = replica_set("web-1");
    claim["name"] = json!("invented");
    let bait = pod("bait", &claim);
    for namespace in ["shop", "evil"] {
        let server = server_with(&[("web-1", owner("apps/v1", "Deployment", "web", "web-uid"))]);
        let path = format!("/apis/apps/v1/namespaces/{namespace}/replicasets/invented");
        server.respond(&path, 404, not_found("invented"));
        let owners = owners(&server);
        let baits = [bait.clone()];
        let of_bait = owned(namespace, &owners, &baits, "apps/v1", "Deployment").await;
        assert_eq!(of_bait.unwrap(), [""; 0]);
        let pods = [bait.clone(), pod("a", &replica_set("web-1"))];
        server.respond(&format!("{REPLICA_SETS}/invented"), 404, not_found("invented"));
        assert_eq!(owned_by_web(&owners, &pods).await.unwrap(), ["a"], "claimed in {namespace}");
    }
}
