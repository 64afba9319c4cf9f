//! Additional specs for comparing both APIs.

use serde_json::{Value, json};

/// Valid and invalid specs, each with a name.
pub(crate) fn specs() -> Vec<(String, Value)> {
    let mut specs = Vec::new();
    for (field, values) in field_values() {
        for value in values {
            let name = format!("{field} = {value}");
            specs.push((name, spec_with(field, value)));
        }
    }
    for metric in metrics() {
        specs.push((format!("metric {metric}"), spec_with("metrics", json!([metric]))));
    }
    for quantity in quantities() {
        let target = json!({ "type": "AverageValue", "averageValue": quantity });
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", "target": target } });
        specs.push((format!("target {quantity}"), spec_with("metrics", json!([metric]))));
        let behavior = json!({ "scaleUp": { "tolerance": quantity } });
        specs.push((format!("tolerance {quantity}"), spec_with("behavior", behavior)));
    }
    for name in resource_names() {
        let source = json!({ "name": name, "container": "app", "target": utilization() });
        let metric = json!({ "type": "ContainerResource", "containerResource": source });
        specs.push((format!("resource {name}"), spec_with("metrics", json!([metric]))));
    }
    for container in containers() {
        let source = json!({ "name": "cpu", "container": container, "target": utilization() });
        let metric = json!({ "type": "ContainerResource", "containerResource": source });
        specs.push((format!("container {container}"), spec_with("metrics", json!([metric]))));
    }
    specs.push(("nothing".to_owned(), json!({})));
    specs.push(("null".to_owned(), Value::Null));
    specs
}

/// A valid spec with one field replaced.
fn spec_with(field: &str, value: Value) -> Value {
    let reference = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let mut spec = json!({ "scaleTargetRef": reference, "maxReplicas": 5 });
    spec[field] = value;
    spec
}

fn utilization() -> Value {
    json!({ "type": "Utilization", "averageUtilization": 50 })
}

/// Valid and invalid values of the fields of a spec.
fn field_values() -> Vec<(&'static str, Vec<Value>)> {
    let reference = |api_version: &str, kind: &str, name: &str| json!({ "apiVersion": api_version, "kind": kind, "name": name });
    vec![
        (
            "minReplicas",
            vec![Value::Null, json!(0), json!(-1), json!(5), json!(6), json!("1"), json!(1.5)],
        ),
        (
            "maxReplicas",
            vec![
                Value::Null,
                json!(0),
                json!(-5),
                json!(i32::MAX),
                json!(2_147_483_648_i64),
                json!("x"),
            ],
        ),
        (
            "metrics",
            vec![Value::Null, json!([]), json!({}), json!([null]), json!([{}]), json!("x")],
        ),
        // An unknown field.
        ("metric", vec![json!([]), json!(null)]),
        (
            "scaleTargetRef",
            vec![
                Value::Null,
                json!({}),
                json!({ "kind": "ReplicationController", "name": "web" }),
                reference("v1", "ReplicationController", "web"),
                reference("/", "ReplicationController", "web"),
                reference("a/b/c", "ReplicationController", "web"),
                reference("v1", "Deployment", "web"),
                reference("apps/", "Deployment", "web"),
                reference("/v1", "Deployment", "web"),
                reference("/", "Deployment", "web"),
                reference("", "Deployment", "web"),
                reference("a/b/c", "Deployment", "web"),
                reference("Any Thing/Ü", "Deployment", "web"),
                reference("apps/v1", ".", "web"),
                reference("apps/v1", "..", "web"),
                reference("apps/v1", "...", "web"),
                reference("apps/v1", "a%b", "web"),
                reference("apps/v1", "Any Kind", "Ü b"),
                reference("apps/v1", "Deployment", "a/b"),
                reference("apps/v1", "Deployment", ".."),
            ],
        ),
        (
            "behavior",
            vec![
                Value::Null,
                json!({}),
                json!({ "scaleUp": null, "scaleDown": {} }),
                json!({ "scaleUp": {
                    "policies": null, "selectPolicy": null, "stabilizationWindowSeconds": null,
                } }),
                json!({ "scaleUp": { "policies": [] } }),
                json!({ "scaleDown": { "policies": [{}] } }),
                json!({ "scaleDown": { "policies": [null] } }),
                json!({ "scaleDown": { "selectPolicy": "" } }),
                json!({ "scaleDown": { "stabilizationWindowSeconds": 3600 } }),
                json!({ "scaleUp": { "stabilizationWindowSeconds": 3601 } }),
                json!({ "scaleUp": { "tolerance": null } }),
                json!({ "scaleUp": { "policies": [
                    { "type": "Pods", "value": 1, "periodSeconds": 1800 },
                ] } }),
                json!({ "scaleUp": { "policies": [
                    { "type": "Percent", "value": 0, "periodSeconds": 1 },
                ] } }),
            ],
        ),
    ]
}

fn metrics() -> Vec<Value> {
    let one = || json!({ "type": "Value", "value": "1" });
    let average = || json!({ "type": "AverageValue", "averageValue": "1" });
    let both = || json!({ "type": "Value", "value": "1", "averageValue": "1" });
    let service = || json!({ "kind": "Service", "name": "front" });
    let object = |described: Value, target: Value| {
        json!({ "type": "Object", "object": {
            "describedObject": described, "metric": { "name": "m" }, "target": target,
        } })
    };
    let external = |metric: Value, target: Value| json!({ "type": "External", "external": { "metric": metric, "target": target } });
    let mut all = vec![
        object(service(), one()),
        object(service(), both()),
        object(service(), average()),
        object(service(), json!({ "type": "Value" })),
        object(json!({ "kind": "Service", "name": "front", "apiVersion": "a/b/c" }), one()),
        object(json!({ "kind": "Service", "name": "front", "apiVersion": "v1" }), one()),
        object(json!({}), one()),
        external(json!({ "name": "m" }), both()),
        external(json!({ "name": "m" }), one()),
        external(json!({ "name": "m" }), average()),
        external(json!({ "name": "m" }), utilization()),
        external(json!({ "name": "queue length; any text" }), one()),
        external(json!({ "name": "%" }), one()),
        external(json!({ "name": "m", "selector": {} }), one()),
        external(json!({ "name": "m", "selector": null }), one()),
        external(
            json!({ "name": "m", "selector": { "matchLabels": { "not a label!": "/" } } }),
            one(),
        ),
        external(json!({ "name": "m", "selector": { "matchExpressions": [{}] } }), one()),
        external(
            json!({ "name": "m", "selector": {
                "matchExpressions": [{ "key": "a", "operator": "Odd" }],
            } }),
            one(),
        ),
        external(json!({ "name": "m", "selector": { "matchExpressions": null } }), one()),
        external(json!({}), one()),
        json!({ "type": "External" }),
        json!({ "type": "" }),
        json!({ "type": "Pods", "pods": { "metric": { "name": "m" }, "target": one() } }),
        json!({ "type": "Pods", "pods": { "metric": { "name": "m" }, "target": both() } }),
        json!({ "type": "Pods", "resource": { "name": "cpu", "target": utilization() } }),
        json!({ "type": "Resource", "resource": { "name": "", "target": utilization() } }),
        json!({ "type": "Resource", "resource": {
            "name": "any thing/at all/", "target": utilization(),
        } }),
        json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "averageUtilization": 1 },
        } }),
        json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Value", "averageUtilization": 1 },
        } }),
        json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 0 },
        } }),
    ];
    let sources = [
        ("object", object(service(), one())["object"].clone()),
        ("pods", json!({ "metric": { "name": "m" }, "target": average() })),
        ("resource", json!({ "name": "cpu", "target": utilization() })),
        ("external", json!({ "metric": { "name": "m" }, "target": one() })),
        (
            "containerResource",
            json!({ "name": "cpu", "container": "app", "target": utilization() }),
        ),
    ];
    // All pairs of sources under each type.
    for source_type in ["Object", "Pods", "Resource", "External", "ContainerResource"] {
        for (first, one) in &sources {
            for (second, other) in &sources {
                let mut metric = json!({ "type": source_type });
                metric[*first] = one.clone();
                metric[*second] = other.clone();
                all.push(metric);
            }
        }
    }
    all
}

fn quantities() -> Vec<Value> {
    let texts = [
        "0",
        "-0",
        "+0",
        "0.0",
        "000",
        "0Ki",
        "0e5",
        "1",
        "-1",
        "+1",
        "01",
        "1.",
        ".1",
        "",
        " 1 ",
        "1 1",
        "1k",
        "1K",
        "1Ki",
        "1m",
        "-1m",
        "1n",
        "-1n",
        "1u",
        "1e3",
        "1E3",
        "1e-30",
        "-1e-30",
        "1e",
        "1Mi",
        "0.0000000001",
        "-0.0000000001",
        "1e99",
        "1e99999999999999999999",
        "1.5Gi",
        "1_000",
        "１",
        "0x10",
        "100500m",
    ];
    let mut all: Vec<Value> = texts.into_iter().map(Value::from).collect();
    all.extend([json!(0), json!(1), json!(-1), json!(i64::MAX), json!(true), json!([]), json!({})]);
    all
}

/// Quantities that only the core API accepts: a zero without digits, which the engine rejects, and
/// a fractional number, which is neither an integer nor a string.
pub(crate) fn quantities_of_core_only() -> Vec<(String, Value)> {
    [json!("."), json!("e3"), json!(0.5)]
        .into_iter()
        .map(|quantity| {
            let behavior = json!({ "scaleUp": { "tolerance": quantity } });
            (format!("tolerance {quantity}"), spec_with("behavior", behavior))
        })
        .collect()
}

fn resource_names() -> Vec<String> {
    let long = |count: usize| "a".repeat(count);
    let subdomain =
        |count: usize| format!("{}.{}.{}.{}", long(63), long(63), long(63), long(count - 192));
    let mut names: Vec<String> = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "storage",
        "pods",
        "hugepages-",
        "hugepages-2Mi",
        "hugepages-2Mi-",
        "hugepages-a b",
        "requests.cpu",
        "gpu",
        "",
        "example.com/gpu",
        "example.com/",
        "/gpu",
        "a/b/c",
        "kubernetes.io/x",
        "my.kubernetes.io/x",
        "requests.example.com/gpu",
        "Example.com/gpu",
        "example.com/g pu",
        "example..com/gpu",
        "example.com/-gpu",
        "example.com/GPU_1.x-y",
        "x/kubernetes.io/",
        "requests.kubernetes.io/a",
        "-a.com/b",
        "a-.com/b",
        "1/2",
    ]
    .map(str::to_owned)
    .into();
    for count in [52, 53, 54] {
        names.push(format!("hugepages-{}", long(count)));
    }
    for count in [63, 64] {
        names.push(format!("example.com/{}", long(count)));
    }
    for count in [244, 245, 253, 254] {
        names.push(format!("{}/a", subdomain(count)));
        names.push(format!("kubernetes.io.{}/a", subdomain(count - 14)));
    }
    names
}

fn containers() -> Vec<String> {
    let mut names: Vec<String> =
        ["app", "a", "1", "a-b", "-a", "a-", "a.b", "A", "a_b", "ä", "", "a b", "a\n"]
            .map(str::to_owned)
            .into();
    names.extend(["a".repeat(63), "a".repeat(64)]);
    names
}

/// An object with a status for `kubectl get`.
pub(crate) fn hpa_with_status() -> Value {
    let metrics = json!([
        { "type": "Resource", "resource": { "name": "cpu", "target": utilization() } },
        { "type": "External", "external": {
            "metric": { "name": "m" }, "target": { "type": "Value", "value": "30" },
        } },
    ]);
    json!({
        "apiVersion": hpa_calc::crd::API_VERSION, "kind": hpa_calc::crd::KIND,
        "metadata": { "name": "web" },
        "spec": spec_with("metrics", metrics),
        "status": {
            "currentReplicas": 3, "desiredReplicas": 4, "lastScaleTime": "2026-01-02T03:04:05Z",
            "targets": "cpu: 66%/50%, 20/30",
            "currentMetrics": [
                { "type": "Resource", "resource": {
                    "name": "cpu", "current": { "averageUtilization": 66, "averageValue": "660m" },
                } },
                { "type": "External", "external": {
                    "metric": { "name": "m" }, "current": { "value": "20" },
                } },
            ],
            "conditions": [
                {
                    "type": "AbleToScale", "status": "True",
                    "reason": "SucceededRescale", "message": "it did",
                },
                { "type": "OfANewerVersion", "status": "True", "reason": "Odd", "message": "kept" },
            ],
        },
    })
}
