use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Cluster, text};

const STEPS: &str = "{steps: [{at: 0, value: 100}, {at: 31, value: 300}]}";

fn web(settings: &str) -> Cluster {
    Cluster::start(&format!(
        "{{workloads: [{{name: web, replicas: 2, load: {STEPS}}}], metrics: {{{settings}}}}}"
    ))
}

fn cpu(pod: &Value) -> &str {
    text(pod, "/containers/0/usage/cpu")
}

#[tokio::test(start_paused = true)]
async fn usage_is_an_average_that_changes_with_scrapes() {
    let cluster = web("");
    let seen = |pods: Vec<Value>| {
        let of = |pointer: &str| text(&pods[0], pointer).to_owned();
        (pods.len(), cpu(&pods[0]).to_owned(), of("/timestamp"), of("/window"))
    };
    let expected = |cpu: &str, second: &str| {
        (2, cpu.to_owned(), format!("2026-01-01T00:00:{second}Z"), "15s".to_owned())
    };
    // A pod uses 2m when idle, and 1m for each of 50 requests per second.
    assert_eq!(seen(cluster.usage().await), expected("52000000n", "00"));
    cluster.at(44.0).await;
    assert_eq!(seen(cluster.usage().await), expected("52000000n", "30"));
    // The pod had 150 requests per second in the whole window.
    cluster.at(45.0).await;
    assert_eq!(seen(cluster.usage().await), expected("152000000n", "45"));
    assert_eq!(text(&cluster.usage().await[0], "/containers/0/usage/memory"), "40960Ki");
}

#[tokio::test(start_paused = true)]
async fn usage_is_delayed() {
    let cluster = web("resource: {resolution: 10s, delay: 7s}");
    cluster.at(46.0).await;
    assert_eq!(text(&cluster.usage().await[0], "/timestamp"), "2026-01-01T00:00:30Z");
    cluster.at(47.0).await;
    assert_eq!(text(&cluster.usage().await[0], "/timestamp"), "2026-01-01T00:00:40Z");
    // The load of all seconds in the window, 31 to 40, is 150 requests per second and pod.
    assert_eq!(cpu(&cluster.usage().await[0]), "152000000n");
}

#[tokio::test(start_paused = true)]
async fn new_pods_have_no_usage_before_a_scrape() {
    let cluster = web("");
    cluster.at(2.0).await;
    cluster.change(|web| web["spec"]["replicas"] = json!(3));
    // The container runs from second 7. At second 15, its first window would be too short.
    cluster.at(29.0).await;
    assert_eq!(cluster.usage().await.len(), 2);
    cluster.at(30.0).await;
    let pods = cluster.usage().await;
    let windows: Vec<_> = pods.iter().map(|pod| text(pod, "/window")).collect();
    assert_eq!(windows.iter().filter(|window| **window == "23s").count(), 1, "{windows:?}");
}

#[tokio::test(start_paused = true)]
async fn gaps_are_missed_scrapes() {
    let cluster = web("resource: {gaps: 0.3}");
    let mut missed = 0;
    for scrape in 1..=200 {
        cluster.at(f64::from(scrape) * 15.0).await;
        missed += 2 - cluster.usage().await.len();
    }
    // About 30 % of 400 samples are missing.
    assert!((90..150).contains(&missed), "{missed}");
}

#[tokio::test(start_paused = true)]
async fn outages_and_missing_samples_end() {
    let cluster = Cluster::start(
        "
workloads: [{name: web, replicas: 2}]
incidents:
- {at: 10s, kind: metricsOutage, source: resource, for: 20s}
- {at: 60s, kind: missingSamples, workload: web, pods: 1, for: 30s}
",
    );
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
    assert_eq!(cluster.get(path).await.0, 200);
    cluster.at(10.0).await;
    assert_eq!(cluster.get(path).await.0, 503);
    cluster.at(30.0).await;
    assert_eq!((cluster.get(path).await.0, cluster.usage().await.len()), (200, 2));
    cluster.at(75.0).await;
    assert_eq!(cluster.usage().await.len(), 1);
    cluster.at(105.0).await;
    assert_eq!(cluster.usage().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn custom_and_external_metrics_are_served() {
    let cluster = Cluster::start(&format!(
        "
workloads:
- name: web
  replicas: 2
  load: {STEPS}
  podMetrics: [{{name: rps}}, {{name: threads, base: 3, perUnit: 0.1}}]
objectMetrics:
- metric: rps
  object: {{kind: Ingress, apiVersion: networking.k8s.io/v1, name: web}}
  value: {{load: web}}
- {{metric: users, object: {{kind: Service, name: web}}, value: {{curve: {{constant: 7.5}}}}}}
- metric: errors
  object: {{kind: Gateway, apiVersion: gateway.networking.k8s.io/v1, name: web}}
  value: {{curve: {{constant: 5}}}}
externalMetrics:
- {{metric: temperature, labels: {{room: a}}, value: {{curve: {{constant: 20}}}}}}
"
    ));
    cluster.at(45.0).await;
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
    let value = async |path: &str| {
        let (code, list) = cluster.get(path).await;
        (
            code,
            list["items"].as_array().map_or(0, Vec::len),
            text(&list, "/items/0/value").to_owned(),
        )
    };
    let items = |count, value: &str| (200, count, value.to_owned());
    assert_eq!(
        value(&format!("{custom}/pods/*/rps?labelSelector=app%3Dweb")).await,
        items(2, "150")
    );
    assert_eq!(value(&format!("{custom}/pods/*/threads")).await, items(2, "18"));
    assert_eq!(value(&format!("{custom}/pods/*/none")).await.0, 404);
    assert_eq!(
        value(&format!("{custom}/ingresses.networking.k8s.io/web/rps")).await,
        items(1, "300")
    );
    assert_eq!(value(&format!("{custom}/services/web/users")).await, items(1, "7500m"));
    assert_eq!(value(&format!("{custom}/services/web/rps")).await.0, 404);
    assert_eq!(
        value(&format!("{custom}/gateways.gateway.networking.k8s.io/web/errors")).await,
        items(1, "5")
    );
    let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";
    assert_eq!(
        value(&format!("{external}/temperature?labelSelector=room%3Da")).await,
        items(1, "20")
    );
    assert_eq!(
        value(&format!("{external}/temperature?labelSelector=room%3Db")).await,
        items(0, "")
    );
    assert_eq!(value(&format!("{external}/none")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn lagging_simulation_still_returns_its_last_samples() {
    let cluster = web("");
    cluster.at(15.0).await;
    tokio::time::advance(Duration::from_secs(16)).await;
    let seen = cluster.simulation.observe().second;
    assert!(seen < 30.0, "it does not lag: {seen}");
    assert_eq!(text(&cluster.usage().await[0], "/timestamp"), "2026-01-01T00:00:15Z");
}

#[tokio::test(start_paused = true)]
async fn metrics_of_the_same_name_have_independent_errors() {
    let metric = |name: &str| {
        format!(
            "{{metric: rps, object: {{kind: Service, name: {name}}}, value: {{curve: {{constant: \
             100}}}}}}"
        )
    };
    let cluster = Cluster::start(&format!(
        "{{workloads: [{{name: web}}], objectMetrics: [{}, {}], metrics: {{object: {{noise: \
         0.1}}}}}}",
        metric("a"),
        metric("b")
    ));
    cluster.at(60.0).await;
    let value = async |name: &str| {
        let path =
            format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/{name}/rps");
        text(&cluster.get(&path).await.1, "/items/0/value").to_owned()
    };
    assert_ne!(value("a").await, value("b").await);
}
