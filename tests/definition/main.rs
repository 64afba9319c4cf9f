//! The definition of the custom API: the chart ships it, and it accepts the recorded specs.
//!
//! Compares the definition with recorded responses of an API server to autoscalers of
//! autoscaling/v2. This test evaluates defaults, bounds and CEL rules itself; `cargo test --test
//! crd` creates the autoscalers in a real API server.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may fail"
)]

mod manifest;
mod server;

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

const RECORDED_RESPONSES: &str = "conformance/hpa_admission.jsonl.gz";

fn schema() -> Value {
    hpa_calc::crd::definition().unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// The violations that the API server would report for a spec.
fn violations(schema: &Value, spec: &Value) -> Vec<String> {
    let mut object = json!({ "spec": spec });
    server::apply_defaults(&mut object, schema);
    let mut violations = Vec::new();
    server::find_violations(&object, schema, "", &mut violations);
    violations
}

#[test]
fn schema_accepts_what_the_recorded_api_server_accepted() {
    let schema = schema();
    let file = File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDED_RESPONSES))
        .expect("the recorded responses");
    let (mut accepted, mut refused) = (0, 0);
    for (number, line) in BufReader::new(GzDecoder::new(file)).lines().enumerate() {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let found = violations(&schema, &line["input"]);
        let is_accepted = line["status"] == 201;
        assert_eq!(found.is_empty(), is_accepted, "line {}: {found:?}\n{line}", number + 1);
        if is_accepted {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted > 150 && refused > 150, "{accepted} accepted, {refused} refused");
}

/// A valid spec with another value at `pointer`, which may be invalid.
fn spec_with(pointer: &str, value: Value) -> Value {
    let target = json!({ "type": "Utilization", "averageUtilization": 50 });
    let resource = json!({ "name": "cpu", "container": "app", "target": target });
    let external = json!({ "metric": { "name": "m" }, "target": { "type": "Value", "value": 1 } });
    let mut spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" },
        "minReplicas": 0,
        "maxReplicas": 5,
        "metrics": [
            { "type": "ContainerResource", "containerResource": resource },
            { "type": "External", "external": external },
        ],
        "behavior": { "scaleUp": { "tolerance": 0 } },
    });
    *spec.pointer_mut(pointer).expect("an existing field") = value;
    spec
}

#[test]
fn strings_are_validated_as_in_the_core_api() {
    let schema = schema();
    let kind = "/scaleTargetRef/kind";
    let api_version = "/scaleTargetRef/apiVersion";
    let name = "/metrics/0/containerResource/name";
    let container = "/metrics/0/containerResource/container";
    let value = "/metrics/1/external/target/value";
    let tolerance = "/behavior/scaleUp/tolerance";
    for (pointer, valid, invalid) in [
        (kind, &["Deployment", "Any Kind", "..."][..], &["", ".", "..", "a/b", "a%b"][..]),
        (api_version, &["apps/v1", "apps/"], &["", "v1", "/v1", "/", "a/b/c"]),
        (
            name,
            &["cpu", "hugepages-2Mi", "example.com/gpu", "kubernetes.io/x"],
            &["gpu", "hugepages-", "/gpu", "a/b/c", "requests.example.com/gpu", "Example.com/gpu"],
        ),
        (container, &["app", "a-b"], &["", "A", "a.b", "-a", "a-"]),
        (
            value,
            &["1", "+1", "1n", "0.0000000001", " 1Ki ", "1e-30"],
            &["0", "-1", "0.0Ki", "x", "", "1 1"],
        ),
        (tolerance, &["0", "-0.0", "1m", "1e-30"], &["-1n", "-0.0000000001", "x", " -1 "]),
    ] {
        for text in valid {
            assert_eq!(
                violations(&schema, &spec_with(pointer, (*text).into())),
                [""; 0],
                "{pointer} {text:?}"
            );
        }
        for text in invalid {
            assert_ne!(
                violations(&schema, &spec_with(pointer, (*text).into())),
                [""; 0],
                "{pointer} {text:?}"
            );
        }
    }
    let long = |count: usize| spec_with(container, "a".repeat(count).into());
    assert_eq!(violations(&schema, &long(63)), [""; 0]);
    assert_ne!(violations(&schema, &long(64)), [""; 0]);
}
