//! Tests that no output of the controller contains a part of a response to a collector. Otherwise,
//! authors of autoscalers could read responses of servers that they may not access.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use futures::StreamExt;
use hpa_testbed::{Config, Testbed};
use hpa_tests::{
    harness::{NAMESPACE, ServedTestbed, TestbedExt, http_get, objects},
    kube_apiserver::free_ports,
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

const SECRET: &str = "hunter2";
const TIMEOUT: Duration = Duration::from_secs(100);

/// Responses with the secret in different places. None has a number as its value.
fn responses() -> Vec<String> {
    let bodies = [
        r#""hunter2""#,
        r#"{"hunter2": "hunter2", "v": "hunter2"}"#,
        r#"{"v": {"hunter2": "(hunter2"}}"#,
        r#"{"v": ["hunter2", "hunter2"]}"#,
        r#"{"status":"error","errorType":"bad_data","error":"hunter2","message":"hunter2"}"#,
        r#"{"status":"error","errorType":"hunter2","error":"hunter2"}"#,
        r#"{"status":"success","data":{"resultType":"hunter2","result":"hunter2"}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"hunter2":"hunter2"},"value":[1,"hunter2"]}]}}"#,
        "#datatype,string,string\n#default,,\n,error,reference\n,hunter2,hunter2\n",
        "hunter2",
    ];
    let whole = |status: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nhunter2: hunter2\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let statuses = ["200 hunter2", "400 hunter2", "422 hunter2", "503 hunter2"];
    let all = statuses.iter().flat_map(|status| bodies.map(|body| whole(status, body)));
    let others = [
        "HTTP/1.1 302 hunter2\r\nlocation: http://hunter2.invalid/hunter2\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: hunter2\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 hunter2 hunter2\r\n\r\n",
        "hunter2\r\n\r\n",
    ];
    all.chain(others.map(str::to_owned)).collect()
}

/// Serves the response whose index begins the path, such as `/3`, or else the first response.
async fn serve(responses: Vec<String>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let responses = responses.clone();
            tokio::spawn(async move {
                let (mut request, mut buffer) = (String::new(), [0; 4096]);
                while !request.contains("\r\n\r\n") {
                    match stream.read(&mut buffer).await {
                        Ok(length @ 1..) => {
                            request += &String::from_utf8_lossy(&buffer[..length]);
                        }
                        _ => return,
                    }
                }
                let index = request.split(['/', ' ', '?']).nth(2).and_then(|it| it.parse().ok());
                let response = responses.get(index.unwrap_or(0_usize)).expect("a response");
                drop(stream.write_all(response.as_bytes()).await);
            });
        }
    });
    address
}

/// A Deployment and its autoscaler, whose external metric has annotations for the collector `kind`.
fn autoscaler(name: &str, kind: &str, settings: &[(&str, &str)]) -> [Value; 2] {
    let mut metric = objects::external_metric("m", "10");
    metric["external"]["metric"]["selector"]["matchLabels"] = json!({ "type": kind });
    let mut hpa = objects::hpa(name, 1..=9, [metric]);
    for (setting, value) in settings {
        hpa["metadata"]["annotations"][format!("metric-config.external.m.{kind}/{setting}")] =
            json!(value);
    }
    [objects::running_deployment(name, 2), hpa]
}

async fn get(port: u16, path: &str) -> String {
    let response = http_get(port, path).await;
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{path}: {response}");
    response
}

/// Waits until `count` autoscalers have an event about their failed metric.
async fn wait_for_events(testbed: &Testbed, served: &ServedTestbed, count: usize) {
    let events: Api<Event> = Api::namespaced(testbed.client(), NAMESPACE);
    let mut events = pin!(watcher(events, watcher::Config::default()).applied_objects());
    let failed = async {
        let mut names = std::collections::BTreeSet::new();
        while names.len() < count {
            let event = events.next().await.expect("an event").expect("a watch");
            if event.reason.as_deref() == Some("FailedGetExternalMetric") {
                names.extend(event.involved_object.name);
            }
        }
    };
    timeout(TIMEOUT, failed).await.unwrap_or_else(|_| panic!("{}", served.log()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_output_contains_a_part_of_a_response() {
    let responses = responses();
    let count = responses.len();
    let address = serve(responses).await;
    let testbed = Testbed::new(Config::default());
    testbed.apply_all([objects::namespace()]);
    let mut names = Vec::new();
    for index in 0..count {
        let url = format!("http://{address}/{index}");
        let cases: [(&str, Vec<(&str, &str)>); 4] = [
            ("json-path", vec![("endpoint", &url), ("json-key", "$.v")]),
            ("json-path", vec![("endpoint", &url), ("json-eval", "'x' =~ $.v")]),
            ("prometheus", vec![("query", "up"), ("prometheus-server", &url)]),
            ("influxdb", vec![("query", "x"), ("address", &url)]),
        ];
        for (at, (kind, settings)) in cases.into_iter().enumerate() {
            let name = format!("h{index}-{at}");
            testbed.apply_all(autoscaler(&name, kind, &settings));
            names.push(name);
        }
    }
    let served = ServedTestbed::new(&testbed).await;
    let [metrics, debug] = free_ports().expect("ports");
    let flags = [
        "run",
        "--leader-elect=false",
        "--collectors",
        "--collector-address=127.0.0.1",
        "--log-level=trace",
        "--horizontal-pod-autoscaler-sync-period=2s",
        "--influxdb-address=http://127.0.0.1:1",
        "--debug-bind-address=127.0.0.1",
        "--per-hpa-metrics",
        &format!("--prometheus-url=http://{address}"),
        &format!("--metrics-port={metrics}"),
        &format!("--debug-port={debug}"),
    ];
    let log = std::fs::File::create(served.dir.path().join("log")).expect("a log");
    let mut command = served.command(env!("CARGO_BIN_EXE_hpa"), &flags);
    let _controller = command.stderr(log).spawn().expect("the program starts");
    wait_for_events(&testbed, &served, names.len()).await;

    let mut outputs = vec![("log", served.log()), ("metrics", get(metrics, "/metrics").await)];
    for name in &names {
        let hpa = testbed.hpa(name).expect("an autoscaler");
        outputs.push(("status", hpa["status"].to_string()));
        let path = format!("/debug/v1/autoscalers/{NAMESPACE}/{name}");
        outputs.push(("debug API", get(debug, &path).await));
    }
    let events: Api<Event> = Api::namespaced(testbed.client(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.expect("events");
    outputs.push(("events", serde_json::to_string(&events.items).expect("JSON")));
    // Only ten autoscalers, because each takes a process.
    for name in names.iter().rev().step_by(5).take(10) {
        let name = format!("{NAMESPACE}/{name}");
        let arguments = ["explain", &name, "--collectors", "--collector-address=127.0.0.1"];
        let output = served.command(env!("CARGO_BIN_EXE_hpa"), &arguments).output().await;
        let output = output.expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = [output.stdout, output.stderr].concat();
        outputs.push(("explain", String::from_utf8_lossy(&text).into_owned()));
    }
    for (name, output) in outputs {
        let line = output.lines().find(|line| line.contains(SECRET));
        assert!(line.is_none(), "{name}: {}", line.unwrap_or_default());
    }
}
