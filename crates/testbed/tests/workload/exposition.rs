use std::collections::BTreeMap;

use serde_json::json;

use crate::support::Cluster;

const SCENARIO: &str = r#"
workloads:
- name: web
  replicas: 2
  profile: {sidecars: [{name: proxy, cpuRequest: 20m, cpu: 6m}]}
  podMetrics: [{name: http_requests, labels: {app.kubernetes.io/name: 'a"b'}}]
  load: {constant: 100}
- {name: db, kind: StatefulSet}
queues:
- name: jobs
  workload: db
  metric: jobs_waiting
  labels: {queue: jobs}
  arrivals: {constant: 0}
  backlog: 7
  drainPerPod: 0
objectMetrics:
- metric: requests
  object: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}
  value: {load: web}
manifests:
- apiVersion: autoscaling/v2
  kind: HorizontalPodAutoscaler
  metadata: {name: web, namespace: default}
  spec:
    scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
    minReplicas: 2
    maxReplicas: 9
"#;

/// The value and the timestamp (in milliseconds) of each series.
fn samples(cluster: &Cluster) -> BTreeMap<String, (f64, i64)> {
    let page = cluster.simulation.exposition(&cluster.testbed);
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once("} ").unwrap();
        let (value, time) = value.split_once(' ').unwrap();
        (format!("{series}}}"), (value.parse().unwrap(), time.parse().unwrap()))
    };
    lines.map(sample).collect()
}

/// Number and sum of a metric's samples whose series contain all these texts.
fn count_and_sum(
    samples: &BTreeMap<String, (f64, i64)>,
    name: &str,
    labels: &[&str],
) -> (usize, f64) {
    let start = format!("{name}{{");
    let is_counted = |series: &str| {
        series.starts_with(&start) && labels.iter().all(|label| series.contains(label))
    };
    let values = samples.iter().filter(|(series, _)| is_counted(series));
    let values = values.map(|(_, (value, _))| *value);
    (values.clone().count(), values.sum())
}

#[tokio::test(start_paused = true)]
async fn series_have_the_state_of_the_cluster_and_its_time() {
    let cluster = Cluster::start(SCENARIO);
    cluster.at(30.0).await;
    let before = samples(&cluster);
    cluster.at(90.0).await;
    let after = samples(&cluster);
    // 2026-01-01T00:01:30Z
    assert!(after.values().all(|(_, time)| *time == 1_767_225_690_000), "{after:?}");
    let of = |name, label| count_and_sum(&after, name, &[label]);
    assert_eq!(of("kube_deployment_spec_replicas", "deployment=\"web\""), (1, 2.0));
    assert_eq!(of("kube_statefulset_replicas", "statefulset=\"db\""), (1, 1.0));
    assert_eq!(of("kube_pod_status_ready", "condition=\"true\""), (3, 3.0));
    let name = "kube_horizontalpodautoscaler_spec_max_replicas";
    assert_eq!(of(name, "horizontalpodautoscaler=\"web\""), (1, 9.0));
    // The app uses 2m when idle, and 1m for each of 50 requests per second. The sidecar uses 6m.
    for (container, rate) in [("app", 0.052), ("proxy", 0.006)] {
        let label = format!("container=\"{container}\"}}");
        let labels = ["pod=\"web-", label.as_str()];
        let cpu = |samples| count_and_sum(samples, "container_cpu_usage_seconds_total", &labels);
        let ((count, before), (_, after)) = (cpu(&before), cpu(&after));
        assert_eq!(count, 2);
        assert!((after - before - 2.0 * rate * 60.0).abs() < 1e-6, "{container}: {before} {after}");
    }
    let request = "container=\"proxy\",resource=\"cpu\",unit=\"core\"";
    let (count, requests) = of("kube_pod_container_resource_requests", request);
    assert!(count == 2 && (requests - 0.04).abs() < 1e-9, "{requests}");
    // Characters that labels can't have are replaced, and quotes are escaped.
    let label = "app_kubernetes_io_name=\"a\\\"b\"";
    assert_eq!(of("http_requests", label), (2, 100.0), "{after:?}");
    assert_eq!(after[r#"requests{namespace="default",ingress="web"}"#].0, 100.0);
    assert_eq!(after[r#"jobs_waiting{queue="jobs"}"#].0, 7.0);
}

#[tokio::test(start_paused = true)]
async fn starting_pods_are_not_ready_but_use_cpu() {
    let cluster = Cluster::start(SCENARIO);
    cluster.at(2.0).await;
    cluster.change(|web| web["spec"]["replicas"] = json!(3));
    // The container runs from second 7, and is ready at second 13.
    cluster.at(10.0).await;
    let samples = samples(&cluster);
    let of = |name, labels: &[&str]| count_and_sum(&samples, name, labels);
    assert_eq!(of("kube_pod_status_ready", &["condition=\"true\""]), (4, 3.0));
    assert_eq!(of("kube_pod_status_ready", &["condition=\"false\""]), (4, 1.0));
    assert_eq!(of("kube_pod_status_ready_time", &[]).0, 3);
    assert_eq!(of("container_cpu_usage_seconds_total", &["container=\"app\""]).0, 4);
}
