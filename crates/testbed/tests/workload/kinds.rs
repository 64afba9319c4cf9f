use serde_json::{Value, json};

use crate::support::{Cluster, text};

fn workload(api_version: &str, kind: &str, name: &str) -> Value {
    let selector = if kind == "ReplicationController" {
        json!({ "app": name })
    } else {
        json!({ "matchLabels": { "app": name } })
    };
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
        "spec": {
            "replicas": 2, "selector": selector,
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "containers": [
                        { "name": "main", "image": "a" }, { "name": "side", "image": "b" },
                    ],
                },
            },
        },
    })
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "fleets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "fleets", "singular": "fleet", "kind": "Fleet" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {}, "scale": {
                "specReplicasPath": ".spec.workers", "statusReplicasPath": ".status.workers",
                "labelSelectorPath": ".status.selector" } } }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn workloads_of_all_kinds_created_later_get_pods() {
    let cluster = Cluster::start("{}");
    cluster.at(5.0).await;
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("v1", "ReplicationController"),
    ] {
        cluster.testbed.apply(workload(api_version, kind, &kind.to_lowercase())).unwrap();
    }
    let state = cluster.at(60.0).await;
    let ready: Vec<_> =
        state.workloads.iter().map(|one| (one.id.kind.as_str(), one.desired, one.ready)).collect();
    let expected = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];
    assert_eq!(ready, expected.map(|kind| (kind, 2, 2)));
    for (api_version, kind) in
        [("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("v1", "ReplicationController")]
    {
        let object =
            cluster.testbed.get(api_version, kind, "default", &kind.to_lowercase()).unwrap();
        assert_eq!(object["status"]["readyReplicas"], 2, "{object}");
    }
    for pod in cluster.pods() {
        assert_eq!(pod["status"]["containerStatuses"].as_array().unwrap().len(), 2);
        assert!(!text(&pod, "/metadata/ownerReferences/0/uid").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_with_a_scale_get_pods() {
    let cluster = Cluster::start("{}");
    cluster.testbed.apply(crd()).unwrap();
    let fleet = json!({
        "apiVersion": "example.com/v1", "kind": "Fleet", "metadata": { "name": "jobs" },
        "spec": { "workers": 3 },
    });
    cluster.testbed.apply(fleet).unwrap();
    let state = cluster.at(30.0).await;
    assert_eq!((state.workloads[0].id.kind.as_str(), state.workloads[0].ready), ("Fleet", 3));
    let (_, scale) = cluster.get("/apis/example.com/v1/namespaces/default/fleets/jobs/scale").await;
    assert_eq!(
        (&scale["status"]["replicas"], &scale["status"]["selector"]),
        (&json!(3), &json!("app=jobs"))
    );
    let (_, pods) = cluster.get("/api/v1/namespaces/default/pods?labelSelector=app%3Djobs").await;
    assert_eq!(pods["items"].as_array().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn scenario_creates_custom_resources() {
    let mut scenario = json!({ "manifests": [crd()] });
    scenario["workloads"] = json!([{
        "name": "jobs", "kind": "Fleet", "apiVersion": "example.com/v1", "replicas": 3,
        "load": { "constant": 90 } }]);
    let cluster = Cluster::start(&scenario.to_string());
    let state = cluster.at(1.0).await;
    assert_eq!(
        (state.workloads.len(), state.workloads[0].ready, state.workloads[0].served),
        (1, 3, 90.0)
    );
}

#[tokio::test(start_paused = true)]
async fn deleting_a_workload_deletes_its_pods() {
    let cluster = Cluster::start("workloads: [{name: web, replicas: 2, load: {constant: 10}}]");
    cluster.testbed.apply(workload("apps/v1", "Deployment", "other")).unwrap();
    cluster.at(30.0).await;
    assert_eq!(cluster.pods().len(), 4);
    for name in ["web", "other"] {
        cluster.testbed.delete("apps/v1", "Deployment", "default", name).unwrap();
    }
    let state = cluster.at(31.0).await;
    assert_eq!((state.workloads.len(), state.workloads[0].ready), (2, 0));
    let state = cluster.at(40.0).await;
    assert_eq!((cluster.pods().len(), cluster.testbed.list("apps/v1", "ReplicaSet").len()), (0, 0));
    // Workloads of the scenario keep their load when their object is deleted.
    assert_eq!(state.workloads.len(), 1);
    assert_eq!(
        (state.workloads[0].desired, state.workloads[0].offered, state.workloads[0].served),
        (0, 10.0, 0.0)
    );
}

#[tokio::test(start_paused = true)]
async fn pods_deleted_by_a_client_are_replaced() {
    let cluster = Cluster::start("workloads: [{name: web, replicas: 2}]");
    let names = cluster.pod_names();
    cluster.testbed.delete("v1", "Pod", "default", &names[0]).unwrap();
    let state = cluster.at(1.0).await;
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (2, 1));
    assert!(!cluster.pod_names().contains(&names[0]));
}

#[tokio::test(start_paused = true)]
async fn warm_start_creates_all_pods_of_a_large_stateful_set() {
    let cluster = Cluster::start("workloads: [{name: db, kind: StatefulSet, replicas: 250}]");
    let state = cluster.simulation.observe();
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (250, 250));
    let db = cluster.testbed.get("apps/v1", "StatefulSet", "default", "db").unwrap();
    assert_eq!(db["status"]["readyReplicas"], 250, "{db}");
}

#[tokio::test(start_paused = true)]
async fn stateful_set_pods_are_changed_one_by_one() {
    let cluster = Cluster::start("workloads: [{name: db, kind: StatefulSet, replicas: 2}]");
    assert_eq!(cluster.pod_names(), ["db-0", "db-1"]);
    let mut db = cluster.testbed.get("apps/v1", "StatefulSet", "default", "db").unwrap();
    db["spec"]["replicas"] = json!(4);
    cluster.testbed.apply(db.clone()).unwrap();
    cluster.at(2.0).await;
    assert_eq!(cluster.pod_names(), ["db-0", "db-1", "db-2"]);
    cluster.at(30.0).await;
    assert_eq!(cluster.pod_names(), ["db-0", "db-1", "db-2", "db-3"]);
    db["spec"]["replicas"] = json!(2);
    db["spec"]["template"]["spec"]["containers"][0]["image"] = json!("db:2");
    cluster.testbed.apply(db).unwrap();
    let mut least = 4;
    let updated_pods = || {
        cluster.pods().iter().filter(|pod| pod["spec"]["containers"][0]["image"] == "db:2").count()
    };
    let state = cluster
        .simulation
        .wait_for(|state| {
            least = least.min(state.workloads[0].ready);
            (updated_pods() == 2 && state.workloads[0].ready == 2) || state.second > 300.0
        })
        .await;
    assert_eq!((updated_pods(), least, state.workloads[0].ready), (2, 1, 2));
    assert_eq!(cluster.pod_names(), ["db-0", "db-1"]);
}
