//! Random scenarios, which differ in the kinds of workload, metric, load, inaccuracy, incident and
//! behavior.

use fastrand::Rng;
use serde_json::{Value, json};

/// A scenario file as JSON, which is YAML.
pub(crate) fn scenario(seed: u64) -> Value {
    let mut rng = Rng::with_seed(seed);
    let kind = *rng.choice(&["Deployment", "Deployment", "StatefulSet", "ReplicaSet"]).unwrap();
    let min = rng.u32(1..4);
    let max = min + rng.u32(2..15);
    let capacity = f64::from(rng.u32(20..200));
    let (metric, mut scenario) = metric(&mut rng, capacity);
    let mut spec = json!({
        "scaleTargetRef": { "apiVersion": "apps/v1", "kind": kind, "name": "web" },
        "minReplicas": min, "maxReplicas": max, "metrics": [metric],
    });
    if rng.bool() {
        spec["behavior"] = behavior(&mut rng);
    }
    scenario["seed"] = seed.into();
    scenario["duration"] = "40m".into();
    scenario["warm"] = (rng.u8(0..4) > 0).into();
    scenario["autoscaler"] = json!({ "metadata": { "name": "web" }, "spec": spec });
    scenario["metrics"] = metrics(&mut rng);
    scenario["incidents"] = incidents(&mut rng, kind, max);
    scenario["controller"] = controller(&mut rng);
    let has_queue = scenario.get("queues").is_some();
    let max_load = f64::from(max) * capacity * 0.7;
    let workload = &mut scenario["workload"];
    workload["profile"] = profile(&mut rng, capacity);
    if !has_queue {
        workload["load"] = load(&mut rng, max_load);
    }
    if rng.bool() {
        workload["spec"] = json!({ "minReadySeconds": rng.u8(0..20) });
    }
    if kind == "StatefulSet" && rng.bool() {
        workload["spec"] = json!({ "podManagementPolicy": "Parallel" });
    }
    if rng.u8(0..5) == 0 {
        scenario["maxPods"] = (max.saturating_sub(2).max(1)).into();
    }
    scenario
}

/// A metric of the autoscaler, and the parts of the scenario that it needs.
fn metric(rng: &mut Rng, capacity: f64) -> (Value, Value) {
    let average = (capacity * 0.6).round();
    let value = |amount: f64| amount.to_string();
    match rng.u8(0..6) {
        0 | 1 => {
            let target = json!({ "type": "Utilization", "averageUtilization": rng.u8(40..90) });
            let resource = json!({ "name": "cpu", "target": target });
            (json!({ "type": "Resource", "resource": resource }), json!({ "workload": {} }))
        }
        2 => {
            let target = json!({ "type": "AverageValue", "averageValue": value(average) });
            let pods = json!({ "metric": { "name": "rps" }, "target": target });
            let workload = json!({ "podMetrics": [{ "name": "rps" }] });
            (json!({ "type": "Pods", "pods": pods }), json!({ "workload": workload }))
        }
        3 => {
            let object = json!({ "apiVersion": "v1", "kind": "Service", "name": "web" });
            let target = if rng.bool() {
                json!({ "type": "AverageValue", "averageValue": value(average) })
            } else {
                json!({ "type": "Value", "value": value(average * 4.0) })
            };
            let source = json!({
                "describedObject": object, "metric": { "name": "load" }, "target": target,
            });
            let metrics =
                json!([{ "metric": "load", "object": object, "value": { "load": "web" } }]);
            let scenario = json!({ "workload": {}, "objectMetrics": metrics });
            (json!({ "type": "Object", "object": source }), scenario)
        }
        4 => {
            let target = json!({ "type": "AverageValue", "averageValue": value(average) });
            let source = json!({ "metric": { "name": "load" }, "target": target });
            let metrics = json!([{ "metric": "load", "value": { "load": "web" } }]);
            let scenario = json!({ "workload": {}, "externalMetrics": metrics });
            (json!({ "type": "External", "external": source }), scenario)
        }
        _ => {
            let target =
                json!({ "type": "AverageValue", "averageValue": value((capacity * 10.0).round()) });
            let source = json!({ "metric": { "name": "waiting" }, "target": target });
            let arrivals = load(rng, capacity * 5.0);
            let queues = json!([{ "name": "q", "metric": "waiting", "arrivals": arrivals }]);
            let scenario = json!({ "workload": {}, "queues": queues });
            (json!({ "type": "External", "external": source }), scenario)
        }
    }
}

fn load(rng: &mut Rng, max: f64) -> Value {
    let mut random_load = || f64::from(rng.u32(1..100)) / 100.0 * max;
    let (base, peak, wave, step) =
        (random_load() * 0.3, random_load(), random_load() * 0.3, random_load());
    let at = rng.u32(120..900);
    json!({ "sum": [
        { "constant": base.round() },
        { "spike": { "peak": peak.round(), "at": at, "rise": rng.u32(1..300),
            "hold": rng.u32(60..600), "fall": rng.u32(1..300) } },
        { "diurnal": { "low": 0, "peak": wave.round(), "period": rng.u32(300..1500) } },
        { "steps": [{ "at": 0, "value": 0 }, { "at": 1500, "value": step.round() }] },
    ] })
}

fn profile(rng: &mut Rng, capacity: f64) -> Value {
    json!({
        "capacity": capacity, "cpuRequest": format!("{}m", capacity.round()), "cpuPerUnit": "1m",
        "idleCpu": format!("{}m", rng.u32(0..20)),
        "scheduling": rng.u32(0..10), "starting": rng.u32(1..40), "readiness": rng.u32(1..60),
        "termination": rng.u32(0..40), "jitter": f64::from(rng.u32(0..50)) / 100.0,
        "imbalance": f64::from(rng.u32(0..40)) / 100.0,
        "startupCpu": format!("{}m", rng.u32(0..400)),
        "flapsPerHour": rng.u32(0..3), "crashesPerHour": rng.u32(0..2),
        "evictionsPerHour": rng.u32(0..2),
    })
}

fn metrics(rng: &mut Rng) -> Value {
    let source = json!({
        "resolution": rng.u32(10..61), "delay": rng.u32(0..30),
        "noise": f64::from(rng.u32(0..15)) / 100.0, "gaps": f64::from(rng.u32(0..10)) / 100.0,
        "staleAfter": rng.u32(60..180),
    });
    json!({ "resource": source, "pods": source, "object": source, "external": source })
}

fn incidents(rng: &mut Rng, kind: &str, max: u32) -> Value {
    let mut incidents = Vec::new();
    for _ in 0..rng.u8(0..4) {
        let at = rng.u32(60..2200);
        let pods = rng.u32(1..4);
        incidents.push(match rng.u8(0..7) {
            0 if kind != "StatefulSet" => json!({ "at": at, "kind": "rollout" }),
            0 | 1 => json!({ "at": at, "kind": "metricsOutage", "for": rng.u32(20..400) }),
            2 => json!({ "at": at, "kind": "manualScale", "replicas": rng.u32(1..max + 3) }),
            3 => json!({ "at": at, "kind": "deletePods", "pods": pods }),
            4 => json!({ "at": at, "kind": "evict", "pods": pods }),
            5 => json!({ "at": at, "kind": "missingSamples", "pods": pods, "for": 200 }),
            _ => json!({ "at": at, "kind": "crash", "pods": pods }),
        });
    }
    incidents.into()
}

fn behavior(rng: &mut Rng) -> Value {
    let mut rules = || {
        let policy = |rng: &mut Rng| {
            let kind = *rng.choice(&["Pods", "Percent"]).unwrap();
            let value = if kind == "Pods" { rng.u32(1..6) } else { rng.u32(10..120) };
            json!({ "type": kind, "value": value, "periodSeconds": rng.u32(15..200) })
        };
        let mut rules = json!({ "stabilizationWindowSeconds": rng.u32(0..400) });
        if rng.bool() {
            rules["policies"] = json!([policy(rng), policy(rng)]);
            rules["selectPolicy"] = (*rng.choice(&["Max", "Min"]).unwrap()).into();
        }
        if rng.bool() {
            rules["tolerance"] = format!("0.{:02}", rng.u32(0..20)).into();
        }
        rules
    };
    json!({ "scaleUp": rules(), "scaleDown": rules() })
}

fn controller(rng: &mut Rng) -> Value {
    json!({
        "syncPeriod": rng.u32(5..31), "tolerance": f64::from(rng.u32(0..20)) / 100.0,
        "downscaleStabilization": rng.u32(0..400), "cpuInitializationPeriod": rng.u32(0..400),
        "initialReadinessDelay": rng.u32(0..60),
    })
}
