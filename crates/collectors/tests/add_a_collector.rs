//! The example of docs/contributing/add-a-collector.md: a collector, its line in the table, and a
//! read. The first test compares the document with this file.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{fs, sync::Arc};

use async_trait::async_trait;
use hpa_calc::api::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use hpa_collectors::{
    Clients, Cluster, CollectorPlan, Context, Environment, Ingress, LookupError, Pod, Policy,
    RouteGroup, Settings, annotations::Annotations, findings, metric_configs,
};
use jiff::Timestamp;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

// example: collector
mod lines {
    use async_trait::async_trait;
    use hpa_calc::MilliValue;
    use hpa_collectors::{
        ConfigError, Context, Destination, Environment, FetchError, MetricConfig, Values,
        registry::{Collector, MetricSelector, Registration, Server},
    };
    use http::Uri;

    /// The number of lines of a text file on a web server.
    #[derive(Debug)]
    pub(crate) struct TextLines {
        file: Uri,
    }

    #[async_trait]
    impl Collector for TextLines {
        fn parse(metric: &MetricConfig, _: &Environment) -> Result<Self, ConfigError> {
            let file = metric.value("file").ok_or(ConfigError::Missing("file"))?;
            let file = file.parse().map_err(|_| ConfigError::Invalid("file", file.to_owned()))?;
            Ok(Self { file })
        }

        fn servers(&self) -> Vec<Server> {
            vec![Server::Url(self.file.to_string())]
        }

        async fn read(&self, context: &Context<'_>) -> Result<Values, FetchError> {
            let request = context.request(self.file.clone(), Destination::Tenant);
            let reply = context.get(&request).await?;
            if reply.status != http::StatusCode::OK {
                return Err(FetchError::Response { service: "the web server", problem: "no file" });
            }
            let lines = reply.body.split(|byte| *byte == b'\n').count() - 1;
            let lines = i64::try_from(lines).unwrap_or(i64::MAX);
            Ok(context.single(MilliValue::from_units(lines)))
        }
    }

    /// The line of the table.
    pub(crate) const LINES: Registration = Registration::new::<TextLines>(
        "lines",
        &[MetricSelector::ExternalType(&["lines"])],
        &["file"],
    );
}
// end

struct NoObjects;

#[async_trait]
impl Cluster for NoObjects {
    async fn pods(
        &self,
        _: &str,
        _: &CrossVersionObjectReference,
    ) -> Result<Vec<Pod>, LookupError> {
        Ok(Vec::new())
    }

    async fn replicas(&self, _: &str, _: &CrossVersionObjectReference) -> Result<i32, LookupError> {
        Ok(0)
    }

    async fn ingress(&self, _: &str, _: &str) -> Result<Ingress, LookupError> {
        Err(LookupError::NotSynced("Ingresses"))
    }

    async fn route_group(&self, _: &str, _: &str) -> Result<RouteGroup, LookupError> {
        Err(LookupError::NotSynced("RouteGroups"))
    }
}

fn autoscaler(key: &str, file: &str) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": "web",
            "annotations": { format!("metric-config.external.todo.lines/{key}"): file },
        },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
            "maxReplicas": 9,
            "metrics": [{ "type": "External", "external": {
                "metric": { "name": "todo", "selector": { "matchLabels": { "type": "lines" } } },
                "target": { "type": "AverageValue", "averageValue": "1" },
            } }],
        },
    }))
    .unwrap()
}

fn environment() -> Environment {
    let mut environment = Environment::default();
    environment.collectors.push(lines::LINES);
    environment
}

#[test]
fn document_has_this_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let document = fs::read_to_string(format!("{root}/docs/contributing/add-a-collector.md"));
    let document = document.unwrap();
    let this_file = include_str!("add_a_collector.rs");
    let (_, example) = this_file.split_once("// example: collector\n").unwrap();
    let (example, _) = example.split_once("// end\n").unwrap();
    let (_, block) = document.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("```\n").unwrap();
    assert!(block == example, "copy the example from tests/add_a_collector.rs");
}

#[tokio::test]
async fn example_reads_a_value() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = stream.read(&mut [0; 4096]).await.unwrap();
        assert!(length > 0);
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\na\nb\nc\n";
        stream.write_all(response).await.unwrap();
    });
    let policy = Policy { addresses: vec![address.ip()], ..Policy::default() };
    let settings = Settings { policy, ..Settings::default() };
    let clients = Clients::new(settings, Arc::new(NoObjects)).unwrap();
    let hpa = autoscaler("file", &format!("http://{address}/todo.txt"));
    let annotations = Annotations::parse(&hpa.metadata.annotations);
    let environment = environment();
    let config = metric_configs(&hpa, &annotations, environment.compat).unwrap().remove(0);
    let plan = CollectorPlan::new(&config, &environment).unwrap();
    let target = &hpa.spec.scale_target_ref;
    let values = plan.read(&Context::new(&clients, "shop", target, Timestamp::now())).await;
    assert_eq!(values.unwrap().samples.first().map(|sample| sample.value.as_milli()), Some(3000));
}

#[test]
fn mistakes_in_its_settings_are_found() {
    let found = findings(&autoscaler("fil", "http://a/"), &environment());
    let texts: Vec<&str> = found.iter().map(|finding| finding.message.as_str()).collect();
    let expected = [
        "config value file not found",
        "the collector lines has no setting fil: did you mean file?",
    ];
    assert_eq!(texts, expected);
}
