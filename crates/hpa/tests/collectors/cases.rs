//! One autoscaler for each collector that reads from a service.

use std::{fs, sync::Arc};

use futures::future::join_all;
use hpa_testbed::{Config, Testbed};
use hpa_tests::harness::{NAMESPACE, ServedTestbed, TestbedExt, objects};
use serde_json::{Value, json};

use crate::{
    FLAGS,
    services::{ACCESS_KEY, ORGANIZATION, Services, TOKEN},
};

const INITIAL_REPLICAS: i64 = 10;
/// The target of each metric. At first, the services multiply their loads by the target, so the
/// load of a case is the number of desired replicas.
const TARGET: u64 = 10;
const FLUX: &str = "from(bucket: \"apps\")";

/// An autoscaler, and the service that it reads from.
struct Case {
    name: &'static str,
    metric: Value,
    annotations: Vec<(&'static str, &'static str)>,
    /// The query, queue, check or subscription under which [`Services`] serves the load.
    key: &'static str,
    /// Different for each case. The replicas reach it in one scale-up from [`INITIAL_REPLICAS`].
    load: u64,
}

fn external_metric(name: &str, labels: Value) -> Value {
    let mut metric = objects::external_metric(name, &TARGET.to_string());
    metric["external"]["metric"]["selector"]["matchLabels"] = labels;
    metric
}

fn object_metric(api_version: &str, kind: &str, name: &str, metric: &str) -> Value {
    json!({ "type": "Object", "object": {
        "describedObject": { "apiVersion": api_version, "kind": kind, "name": name },
        "metric": { "name": metric },
        "target": { "type": "AverageValue", "averageValue": TARGET.to_string() },
    } })
}

fn cases() -> Vec<Case> {
    let case = |name, metric, annotations: &[_], key, load| Case {
        name,
        metric,
        annotations: annotations.to_vec(),
        key,
        load,
    };
    vec![
        case(
            "prometheus-external",
            external_metric("waiting", json!({ "type": "prometheus" })),
            &[("external.waiting.prometheus/query", "sum(jobs_waiting)")],
            "sum(jobs_waiting)",
            12,
        ),
        case(
            "prometheus-object",
            object_metric("v1", "Service", "jobs", "running"),
            &[("object.running.prometheus/query", "sum(jobs_running)")],
            "sum(jobs_running)",
            13,
        ),
        case(
            "ingress",
            object_metric("networking.k8s.io/v1", "Ingress", "shop", "requests-per-second"),
            &[],
            "scalar(sum(rate(skipper_serve_host_duration_seconds_count\
             {host=~\"shop_example_org\"}[1m])) * 1.0000)",
            14,
        ),
        case(
            "route-group",
            object_metric("zalando.org/v1", "RouteGroup", "mail", "requests-per-second"),
            &[],
            "scalar(sum(rate(skipper_serve_host_duration_seconds_count\
             {host=~\"mail_example_org\"}[1m])) * 1.0000)",
            15,
        ),
        case(
            "external-rps",
            external_metric("api-rps", json!({ "type": "requests-per-second" })),
            &[
                ("external.api-rps.requests-per-second/hostnames", "api.example.org"),
                ("external.api-rps.requests-per-second/weight", "50"),
            ],
            "scalar(sum(rate(skipper_serve_host_duration_seconds_count\
             {host=~\"api_example_org\"}[1m])) * 0.5000)",
            16,
        ),
        case(
            "influxdb",
            external_metric("depth", json!({ "type": "influxdb" })),
            &[("external.depth.influxdb/query", FLUX)],
            FLUX,
            17,
        ),
        case(
            "sqs",
            external_metric(
                "orders",
                json!({
                    "type": "sqs-queue-length", "queue-name": "orders-queue",
                    "region": "eu-west-1", "in-flight": "true",
                }),
            ),
            &[],
            "orders-queue",
            18,
        ),
        case(
            "zmon",
            external_metric("latency", json!({ "type": "zmon", "check-id": "1234" })),
            &[("external.latency.zmon/key", "p99")],
            "zmon.check.1234",
            19,
        ),
        case(
            "nakadi",
            external_metric(
                "events",
                json!({
                    "type": "nakadi", "subscription-id": "708095f6",
                    "metric-type": "unconsumed-events",
                }),
            ),
            &[],
            "708095f6",
            20,
        ),
    ]
}

/// The `CustomResourceDefinition` of a kind whose objects may have any fields.
fn kind_definition(group: &str, plural: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": { "plural": plural, "kind": kind },
        },
    })
}

fn testbed_of(cases: &[Case]) -> Testbed {
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([
        objects::namespace(),
        kind_definition("networking.k8s.io", "ingresses", "Ingress"),
        kind_definition("zalando.org", "routegroups", "RouteGroup"),
    ]);
    testbed.apply_all([
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": "shop", "namespace": NAMESPACE },
            "spec": { "rules": [{ "host": "shop.example.org" }] },
        }),
        json!({
            "apiVersion": "zalando.org/v1", "kind": "RouteGroup",
            "metadata": { "name": "mail", "namespace": NAMESPACE },
            "spec": { "hosts": ["mail.example.org"] },
        }),
    ]);
    for case in cases {
        let hpa = objects::hpa(case.name, 1..=99, [case.metric.clone()]);
        testbed.apply_all([
            objects::running_deployment(case.name, INITIAL_REPLICAS),
            objects::with_collector_annotations(hpa, &case.annotations),
        ]);
    }
    testbed
}

/// The flags that turn on all collectors, with the tokens in files.
fn collector_flags(address: &str, served: &ServedTestbed) -> Vec<String> {
    let write_token = |name: &str| {
        let path = served.dir.path().join(name);
        fs::write(&path, TOKEN).unwrap();
        path.display().to_string()
    };
    write_token("zmon-token-secret");
    write_token("nakadi-token-secret");
    let flags = [
        "--default-collection-interval=1s".to_owned(),
        format!("--prometheus-url={address}/prometheus"),
        "--skipper-ingress-metrics".to_owned(),
        "--skipper-routegroup-metrics".to_owned(),
        "--external-rps-metrics".to_owned(),
        format!("--influxdb-address={address}/influxdb"),
        format!("--influxdb-org={ORGANIZATION}"),
        format!("--influxdb-token-file={}", write_token("influxdb-token")),
        "--aws-external-metrics".to_owned(),
        "--aws-region=eu-west-1".to_owned(),
        format!("--zmon-kariosdb-endpoint={address}/zmon"),
        format!("--nakadi-endpoint={address}/nakadi"),
        format!("--credentials-dir={}", served.dir.path().display()),
    ];
    FLAGS.into_iter().map(str::to_owned).chain(flags).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_scales_both_ways() {
    let cases = cases();
    let services = Arc::new(Services::new(cases.iter().map(|case| (case.key, case.load)), TARGET));
    let address = format!("http://{}", services.clone().serve().await);
    let testbed = testbed_of(&cases);
    let served = ServedTestbed::new(&testbed).await;
    let flags = collector_flags(&address, &served);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let variables = [
        ("AWS_ENDPOINT_URL_SQS", address.as_str()),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let _controller = served.start_hpa(env!("CARGO_BIN_EXE_hpa"), &flags, &variables);
    let reach = async |expected: fn(&Case) -> i64| {
        let reached = |case: &Case| served.wait_for_replicas(case.name, expected(case));
        join_all(cases.iter().map(reached)).await;
    };
    reach(|case| case.load.cast_signed()).await;
    // Loads from 12 to 20, with a target of 10.
    services.set_factor(1);
    reach(|_| 2).await;
}
