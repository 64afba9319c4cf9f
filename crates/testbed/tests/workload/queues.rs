use serde_json::json;

use crate::support::Cluster;

const JOBS: &str = "
workloads: [{name: jobs, replicas: 0, profile: {capacity: 10}}]
queues:
- name: inbox
  workload: jobs
  arrivals: {constant: 25}
  backlog: 100
  metric: backlog
  labels: {queue: inbox}
metrics: {external: {resolution: 5s}}
";

#[tokio::test(start_paused = true)]
async fn backlog_grows_without_pods_and_shrinks_with_them() {
    let cluster = Cluster::start(JOBS);
    let state = cluster.at(20.0).await;
    let backlog = state.queues[0].backlog;
    assert_eq!((backlog.waiting, backlog.drained, state.workloads[0].needed), (600.0, 0.0, 3));
    let namespace = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";
    let path = format!("{namespace}/backlog?labelSelector=queue%3Dinbox");
    let (_, list) = cluster.get(&path).await;
    assert_eq!(list["items"][0]["value"], json!("600"), "{list}");
    let mut jobs = cluster.testbed.get("apps/v1", "Deployment", "default", "jobs").unwrap();
    jobs["spec"]["replicas"] = json!(4);
    cluster.testbed.apply(jobs).unwrap();
    let state = cluster.at(31.0).await;
    assert_eq!((state.workloads[0].ready, state.workloads[0].drained), (4, 40.0));
    let state = cluster.wait_for(|jobs| jobs.drained < 40.0).await;
    // Without a backlog, the pods drain as much as arrives.
    assert_eq!(state.queues[0].backlog.waiting, 0.0);
    assert_eq!(cluster.at(90.0).await.workloads[0].drained, 25.0);
    let backlog = cluster.simulation.observe().queues[0].backlog;
    assert_eq!(100.0 + backlog.arrived, backlog.drained + backlog.waiting);
}
