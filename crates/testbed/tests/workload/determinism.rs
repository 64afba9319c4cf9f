use crate::support::Cluster;

/// Three workloads of ten pods each, with random failures, for twenty minutes.
const SHOP: &str = "
seed: 42
duration: 20m
defaultProfile:
  {jitter: 0.3, imbalance: 0.1, crashesPerHour: 1, flapsPerHour: 1, evictionsPerHour: 0.5}
workloads:
- name: web
  replicas: 10
  load: {diurnal: {low: 100, peak: 900, period: 10m}}
  podMetrics: [{name: rps}]
- {name: api, replicas: 10, load: {constant: 500}}
- {name: jobs, replicas: 10}
queues: [{name: inbox, workload: jobs, arrivals: {constant: 300}, metric: backlog}]
objectMetrics: [{metric: rps, object: {kind: Service, name: web}, value: {load: web}}]
metrics: {resource: {noise: 0.05, gaps: 0.01}}
incidents: [{at: 5m, kind: rollout, workload: api}]
";

/// The observations and pod names of each second of the scenario.
async fn record(cluster: &Cluster) -> Vec<String> {
    let mut seconds = Vec::new();
    // Listing the pods every second would take most of the test's time.
    let (mut version, mut pods) = (0, Vec::new());
    cluster
        .simulation
        .wait_for(|state| {
            if version != cluster.testbed.resource_version() {
                version = cluster.testbed.resource_version();
                pods = cluster.pod_names();
            }
            seconds.push(format!("{state:?} {pods:?}"));
            state.second >= 1200.0
        })
        .await;
    seconds
}

#[tokio::test(start_paused = true)]
async fn same_seed_gives_the_same_run() {
    let (first, second) = (Cluster::start(SHOP), Cluster::start(SHOP));
    let (first, second) = tokio::join!(record(&first), record(&second));
    assert_eq!(first.len(), 1201);
    assert_eq!(first, second);
    let other = Cluster::start(&SHOP.replace("seed: 42", "seed: 43"));
    assert_ne!(record(&other).await, first);
}

#[tokio::test(start_paused = true)]
async fn most_pods_stay_ready_despite_random_failures() {
    let cluster = Cluster::start(SHOP);
    let state = cluster.at(1200.0).await;
    assert!(state.workloads.iter().all(|one| one.desired == 10 && one.ready > 5), "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn steady_state_writes_nothing() {
    let cluster = Cluster::start(
        "workloads: [{name: web, replicas: 3, load: {diurnal: {peak: 300, period: 5m}}}]",
    );
    cluster.at(5.0).await;
    let before = cluster.testbed.resource_version();
    cluster.at(600.0).await;
    assert_eq!(cluster.testbed.resource_version(), before);
}
