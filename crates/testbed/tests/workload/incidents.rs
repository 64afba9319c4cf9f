use serde_json::json;

use crate::support::{Cluster, ready, text};

fn cluster(incident: &str) -> Cluster {
    Cluster::start(&format!(
        "{{workloads: [{{name: web, replicas: 3}}],
           incidents: [{{at: 10, workload: web, {incident}}}]}}"
    ))
}

#[tokio::test(start_paused = true)]
async fn crashed_containers_restart() {
    let cluster = cluster("kind: crash, pods: 2");
    assert_eq!(cluster.at(9.0).await.workloads[0].ready, 3);
    assert_eq!(cluster.at(10.0).await.workloads[0].ready, 1);
    let pods = cluster.pods();
    let crashed: Vec<_> = pods.iter().filter(|pod| ready(pod).0 == "False").collect();
    assert_eq!(crashed.len(), 2);
    assert_eq!(ready(crashed[0]).1, "2026-01-01T00:00:10Z");
    let status = &crashed[0]["status"]["containerStatuses"][0];
    assert_eq!((&status["restartCount"], &status["ready"]), (&json!(1), &json!(false)));
    assert_eq!(text(status, "/lastState/terminated/reason"), "Error");
    let state = cluster.wait_for(|web| web.ready == 3).await;
    assert_eq!(state.second, 16.0);
    assert_eq!(cluster.pods().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn evicted_pods_fail_and_are_replaced() {
    let cluster = cluster("kind: evict, pods: 1");
    cluster.at(11.0).await;
    let count = |phase: &str| {
        cluster.pods().iter().filter(|pod| text(pod, "/status/phase") == phase).count()
    };
    assert_eq!((count("Failed"), count("Running"), count("Pending")), (1, 2, 1));
    assert!(cluster.pods().iter().any(|pod| text(pod, "/status/reason") == "Evicted"));
    cluster.wait_for(|web| web.ready == 3).await;
    cluster.at(400.0).await;
    assert_eq!((count("Failed"), count("Running")), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn flapping_pods_become_ready_again() {
    let cluster = cluster("kind: flap, for: 30s");
    assert_eq!(cluster.at(10.0).await.workloads[0].ready, 0);
    assert_eq!(cluster.at(39.0).await.workloads[0].ready, 0);
    assert_eq!(cluster.at(40.0).await.workloads[0].ready, 3);
    for pod in cluster.pods() {
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!(status["restartCount"], 0, "{status}");
        let started = status["state"]["running"]["startedAt"].as_str();
        assert!(started.is_some_and(|at| at < "2026"), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_pods_are_replaced() {
    let cluster = cluster("kind: deletePods, pods: 1");
    let state = cluster.at(10.0).await;
    assert_eq!((state.workloads[0].ready, cluster.pods().len()), (2, 4));
    cluster.at(30.0).await;
    assert_eq!(cluster.pods().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn manual_scale_changes_the_replicas() {
    let cluster = cluster("kind: manualScale, replicas: 6");
    cluster.at(9.0).await;
    assert_eq!(cluster.deployment()["spec"]["replicas"], 3);
    cluster.at(10.0).await;
    assert_eq!(cluster.deployment()["spec"]["replicas"], 6);
    assert_eq!(cluster.deployment()["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn random_failures_occur_at_the_configured_rate() {
    let profile = "{crashesPerHour: 6, flapsPerHour: 6, evictionsPerHour: 2}";
    let cluster =
        Cluster::start(&format!("workloads: [{{name: web, replicas: 10, profile: {profile}}}]"));
    let mut evicted = std::collections::BTreeSet::new();
    let (mut least, mut version) = (10, 0);
    cluster
        .simulation
        .wait_for(|state| {
            least = least.min(state.workloads[0].ready);
            // Lists the pods only after a change, which is much faster.
            let listed = std::mem::replace(&mut version, cluster.testbed.resource_version());
            if listed != version {
                let failed =
                    cluster.pods().into_iter().filter(|pod| text(pod, "/status/phase") == "Failed");
                evicted.extend(failed.map(|pod| text(&pod, "/metadata/name").to_owned()));
            }
            state.second >= 3600.0
        })
        .await;
    // Ten pods for an hour: the expected number of evictions is twenty.
    assert!((8..35).contains(&evicted.len()), "{}", evicted.len());
    assert!(least < 10);
}
