use hpa_calc::quantity::Quantity;
use serde_json::json;

use crate::support::{Cluster, ready, text};

const WEB: &str = "workloads: [{name: web, replicas: 2, load: {constant: 300}}]";
const ROLLOUT: &str = "
workloads:
- name: web
  replicas: 4
  spec: {strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}, minReadySeconds: 3}
incidents: [{at: 10s, kind: rollout, workload: web}]
";

fn set_image(cluster: &Cluster, image: &str) {
    cluster.change(|web| web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image));
}

/// The image of each pod's first container.
fn images(cluster: &Cluster) -> Vec<String> {
    cluster.pods().iter().map(|pod| text(pod, "/spec/containers/0/image").to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn warm_pods_are_ready_from_the_start() {
    let cluster = Cluster::start(WEB);
    let state = cluster.simulation.observe();
    let web = &state.workloads[0];
    assert_eq!((web.desired, web.pods, web.ready, web.offered, web.needed), (2, 2, 2, 300.0, 2));
    let pods = cluster.pods();
    assert_eq!(ready(&pods[0]), ("True", "2025-12-31T23:50:00Z"));
    assert_eq!(text(&pods[0], "/status/phase"), "Running");
    assert_eq!(text(&pods[0], "/status/startTime"), "2025-12-31T23:49:51Z");
    assert_eq!(cluster.deployment()["status"]["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn cold_start_creates_pending_pods() {
    let cluster = Cluster::start(
        "{warm: false, workloads: [{name: web, replicas: 2, profile: {starting: 20s}}]}",
    );
    assert!(cluster.pods().iter().all(|pod| text(pod, "/status/phase") == "Pending"));
    assert_eq!(cluster.usage().await.len(), 0);
    assert_eq!(cluster.at(26.0).await.workloads[0].ready, 0);
    assert_eq!(cluster.at(27.0).await.workloads[0].ready, 2);
}

#[tokio::test(start_paused = true)]
async fn new_pods_are_ready_after_their_delays() {
    let cluster = Cluster::start(WEB);
    cluster.change(|web| web["spec"]["replicas"] = json!(5));
    let state = cluster.at(1.0).await;
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (5, 2));
    let waiting: Vec<_> =
        cluster.pods().into_iter().filter(|pod| text(pod, "/status/phase") == "Pending").collect();
    assert_eq!(waiting.len(), 3);
    // 1 s for scheduling, 3 s until the containers run, and 6 s until they are ready.
    let state = cluster.at(10.0).await;
    assert_eq!(state.workloads[0].ready, 2);
    let state = cluster.at(11.0).await;
    assert_eq!((state.workloads[0].ready, state.workloads[0].served), (5, 300.0));
    let pods = cluster.pods();
    let newest =
        pods.iter().find(|pod| pod["metadata"]["name"] == waiting[0]["metadata"]["name"]).unwrap();
    assert_eq!(ready(newest), ("True", "2026-01-01T00:00:11Z"));
    assert_eq!(text(newest, "/status/startTime"), "2026-01-01T00:00:02Z");
    assert_eq!(newest["status"]["containerStatuses"][0]["ready"], true);
    let status = &cluster.deployment()["status"];
    for field in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[field], 5, "{status}");
    }
    assert_eq!(status["observedGeneration"], 2);
}

#[tokio::test(start_paused = true)]
async fn pods_terminate_gracefully() {
    let cluster = Cluster::start(WEB);
    cluster.change(|web| web["spec"]["replicas"] = json!(1));
    let state = cluster.at(1.0).await;
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (1, 1));
    let pods = cluster.pods();
    let ending: Vec<_> = pods.iter().map(|pod| text(pod, "/metadata/deletionTimestamp")).collect();
    assert!(ending.contains(&"2026-01-01T00:00:06Z") && ending.len() == 2, "{ending:?}");
    cluster.at(5.0).await;
    assert_eq!(cluster.pods().len(), 2);
    cluster.at(6.0).await;
    assert_eq!(cluster.pods().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rollout_stays_within_its_bounds() {
    let cluster = Cluster::start(ROLLOUT);
    let before = cluster.pod_names();
    let mut highest = 0;
    let is_complete = |web: &hpa_testbed::workload::WorkloadObservation| {
        let names = cluster.pod_names();
        web.ready == 4 && names.len() == 4 && names.iter().all(|name| !before.contains(name))
    };
    let state = cluster
        .simulation
        .wait_for(|state| {
            let web = &state.workloads[0];
            assert!(web.pods <= 5 && web.ready >= 4, "{web:?}");
            highest = highest.max(web.pods);
            is_complete(web) || state.second > 600.0
        })
        .await;
    assert!(is_complete(&state.workloads[0]) && highest == 5, "{state:?}");
    // Four pods in sequence, each 10 s until it is ready and 3 s until it is available.
    assert!(state.second > 10.0 + 4.0 * 13.0, "{state:?}");
    let sets = cluster.testbed.list("apps/v1", "ReplicaSet");
    let replicas: Vec<_> = sets.iter().map(|set| set["spec"]["replicas"].as_u64()).collect();
    assert_eq!(
        (replicas.iter().copied().sum::<Option<u64>>(), sets.len()),
        (Some(4), 2),
        "{sets:?}"
    );
    let revision = "deployment.kubernetes.io/revision";
    assert_eq!(cluster.deployment()["metadata"]["annotations"][revision], "2");
    let progressing = &cluster.deployment()["status"]["conditions"][1];
    assert_eq!(progressing["reason"], "NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn rollback_reuses_the_old_replica_set() {
    let cluster = Cluster::start(WEB);
    let first = cluster.deployment()["spec"]["template"].clone();
    set_image(&cluster, "web:2");
    cluster.at(120.0).await;
    assert_eq!(images(&cluster), ["web:2"; 2]);
    cluster.change(|web| web["spec"]["template"] = first);
    cluster.at(121.0).await;
    let annotations = cluster.deployment()["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    cluster.at(240.0).await;
    assert_eq!(images(&cluster), ["web:1"; 2]);
    assert_eq!(cluster.testbed.list("apps/v1", "ReplicaSet").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn recreate_never_mixes_templates() {
    let cluster =
        Cluster::start("workloads: [{name: web, replicas: 2, spec: {strategy: {type: Recreate}}}]");
    set_image(&cluster, "web:2");
    let state = cluster
        .simulation
        .wait_for(|state| {
            let images = images(&cluster);
            assert!(images.windows(2).all(|pair| pair[0] == pair[1]), "{images:?}");
            (state.workloads[0].ready == 2 && images[0] == "web:2") || state.second > 120.0
        })
        .await;
    // 5 s until the old pods are gone, 10 s until the new ones are ready.
    assert_eq!(state.second, 16.0);
}

#[tokio::test(start_paused = true)]
async fn pods_beyond_max_pods_are_unschedulable() {
    let cluster = Cluster::start("{maxPods: 3, workloads: [{name: web, replicas: 2}]}");
    cluster.change(|web| web["spec"]["replicas"] = json!(4));
    let state = cluster.at(60.0).await;
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (4, 3));
    let pods = cluster.pods();
    let reasons: Vec<_> = pods.iter().map(|pod| text(pod, "/status/conditions/0/reason")).collect();
    assert_eq!(
        reasons.iter().filter(|reason| **reason == "Unschedulable").count(),
        1,
        "{reasons:?}"
    );
    cluster.change(|web| web["spec"]["replicas"] = json!(3));
    let state = cluster.at(63.0).await;
    // The unschedulable pod is deleted first.
    assert_eq!((state.workloads[0].pods, state.workloads[0].ready), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn load_beyond_the_capacity_is_lost() {
    let cluster = Cluster::start(
        "workloads: [{name: web, replicas: 2,
          load: {steps: [{at: 0, value: 300}, {at: 10, value: 800}]}}]",
    );
    let state = cluster.at(20.0).await;
    let web = &state.workloads[0];
    assert_eq!((web.offered, web.served, web.needed), (800.0, 400.0, 4));
    assert_eq!(
        (web.totals.offered, web.totals.served),
        (9.0 * 300.0 + 11.0 * 800.0, 9.0 * 300.0 + 11.0 * 400.0)
    );
    assert_eq!((web.totals.underserved_seconds, web.totals.pod_seconds), (11.0, 40.0));
}

#[tokio::test(start_paused = true)]
async fn cpu_limit_throttles_containers() {
    let profile = "{cpuLimit: 102m, memoryLimit: 100Mi, memoryPerUnit: 500Ki}";
    let load = "{steps: [{at: 0, value: 80}, {at: 10, value: 130}]}";
    let cluster =
        Cluster::start(&format!("workloads: [{{name: web, profile: {profile}, load: {load}}}]"));
    let state = cluster.at(5.0).await;
    assert_eq!((state.workloads[0].served, state.workloads[0].ready), (80.0, 1));
    let limits = &cluster.pods()[0]["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits, &json!({ "cpu": "102m", "memory": "100Mi" }));
    // The CPU limit allows 100 per second. 89 MiB are within the memory limit.
    let state = cluster.at(20.0).await;
    assert_eq!((state.workloads[0].served, state.workloads[0].needed), (100.0, 2));
}

#[tokio::test(start_paused = true)]
async fn container_above_its_memory_limit_is_killed_with_backoff() {
    let cluster = Cluster::start(
        "workloads: [{name: web, profile: {memoryLimit: 100Mi, memoryPerUnit: 1Mi},
          load: {steps: [{at: 0, value: 80}, {at: 10, value: 130}]}}]",
    );
    let restarts = async |second| {
        cluster.at(second).await;
        cluster.pods()[0]["status"]["containerStatuses"][0]["restartCount"].as_u64()
    };
    // The container needs more than its limit as soon as it is ready, so it is killed each time.
    // The backoff grows.
    let (minute, hour) = (restarts(60.0).await, restarts(3600.0).await);
    assert!(minute > Some(2) && hour > minute && hour < Some(25), "{minute:?} {hour:?}");
}

#[tokio::test(start_paused = true)]
async fn imbalance_spreads_load_unevenly() {
    let cluster = Cluster::start(
        "workloads: [{name: web, replicas: 8, profile: {imbalance: 0.5}, load: {constant: 800},
          podMetrics: [{name: rps}]}]",
    );
    cluster.at(15.0).await;
    let (_, list) =
        cluster.get("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/rps").await;
    let rates = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| text(item, "/value").parse::<Quantity>().unwrap().as_f64());
    let rates: Vec<f64> = rates.collect();
    let (least, most) =
        (rates.iter().copied().fold(1e9, f64::min), rates.iter().copied().fold(0.0, f64::max));
    assert!(rates.len() == 8 && (rates.iter().sum::<f64>() - 800.0).abs() < 0.1, "{rates:?}");
    // The mean is 100.
    assert!(least > 33.0 && least < 90.0 && most > 110.0 && most < 300.0, "{rates:?}");
}

#[tokio::test(start_paused = true)]
async fn paused_deployment_scales_without_rollout() {
    let cluster = Cluster::start(WEB);
    cluster.change(|web| {
        web["spec"]["paused"] = json!(true);
        web["spec"]["replicas"] = json!(3);
        web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    });
    cluster.at(60.0).await;
    assert_eq!(images(&cluster), ["web:1"; 3]);
}

#[tokio::test(start_paused = true)]
async fn rollout_that_is_paused_keeps_its_surge() {
    let cluster = Cluster::start("workloads: [{name: web, replicas: 10}]");
    set_image(&cluster, "web:2");
    cluster.at(1.0).await;
    cluster.change(|web| web["spec"]["paused"] = json!(true));
    cluster.at(60.0).await;
    // `maxSurge` is 25 %.
    assert_eq!(cluster.pods().len(), 13);
    assert!(images(&cluster).contains(&"web:1".to_owned()));
    cluster.change(|web| web["spec"]["replicas"] = json!(12));
    cluster.at(120.0).await;
    assert_eq!(cluster.pods().len(), 15);
}

#[tokio::test(start_paused = true)]
async fn deployment_that_is_created_paused_gets_no_replica_set() {
    let cluster = Cluster::start("{warm: false, workloads: [{name: web, spec: {paused: true}}]}");
    cluster.at(10.0).await;
    assert!(cluster.testbed.list("apps/v1", "ReplicaSet").is_empty());
    cluster.change(|web| web["spec"]["paused"] = json!(false));
    cluster.at(20.0).await;
    assert_eq!(cluster.testbed.list("apps/v1", "ReplicaSet").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_replica_sets_are_deleted_beyond_the_history_limit() {
    let cluster = Cluster::start("workloads: [{name: web, spec: {revisionHistoryLimit: 2}}]");
    for version in 0..5 {
        set_image(&cluster, &format!("web:v{version}"));
        cluster.at(f64::from(version + 1) * 60.0).await;
    }
    assert_eq!(cluster.testbed.list("apps/v1", "ReplicaSet").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn sidecars_have_constant_usage() {
    let sidecar = "{name: mesh, cpuRequest: 10m, cpu: 5m, memory: 20Mi}";
    let cluster = Cluster::start(&format!(
        "workloads: [{{name: web, profile: {{sidecars: [{sidecar}]}}, load: {{constant: 50}}}}]"
    ));
    cluster.at(15.0).await;
    let expected = json!([
        { "name": "app", "usage": { "cpu": "52000000n", "memory": "40960Ki" } },
        { "name": "mesh", "usage": { "cpu": "5000000n", "memory": "20480Ki" } },
    ]);
    assert_eq!(cluster.usage().await[0]["containers"], expected);
}
