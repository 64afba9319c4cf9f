//! Beside others: our own API, few rights, another controller.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

use super::{cpu, external};
use crate::control_plane::from;
use crate::metrics::Load;
use crate::wait;
use crate::workload::Kind;
use crate::world::{PATIENCE, World, at, current_metric, is};

const OWN: Kind = Kind::new(hpa_crd::GROUP, hpa_crd::VERSION, hpa_crd::KIND, hpa_crd::PLURAL);

/// Autoscalers of both APIs under one controller, which was there before the definition of ours.
pub(super) async fn own_api(w: World) -> Result<()> {
    let controller = w.controller("both", &["--autoscaler-api=both"])?;
    let [core, own] = [w.deployment("core", 2).await?, w.deployment("own", 2).await?];
    for target in ["core", "own"] {
        w.cpu(target, Load::Total(200));
    }
    // Nobody waits for the definition.
    w.hpa("web", core.hpa(1, 10, cpu(50))).await?;
    core.at(4).await?;
    let absent = controller.tail(1, "is not installed");
    ensure!(!absent.is_empty(), "nothing is said of the definition that is absent");

    let definition: CustomResourceDefinition = from(hpa_crd::definition()?)?;
    let definitions = Api::<CustomResourceDefinition>::all(w.client.clone());
    definitions.create(&PostParams::default(), &definition).await?;
    let name = definition.metadata.name.clone().context("a name")?;
    wait::object(&definitions, &name, "our API to be served", PATIENCE, |definition| {
        let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions
            .is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
    })
    .await?;
    let api = Api::<DynamicObject>::namespaced_with(w.client.clone(), &w.ns, &OWN.resource());
    // The name of the other.
    let object = json!({ "apiVersion": hpa_crd::API_VERSION, "kind": hpa_crd::KIND, "metadata": { "name": "web" },
        "spec": own.hpa(1, 10, cpu(50)) });
    api.create(&PostParams::default(), &from(object)?).await?;
    own.at(4).await?;
    let object = wait::object(&api, "web", "its status", PATIENCE, |object| {
        object.data["status"]["desiredReplicas"] == 4
    })
    .await?;
    ensure!(
        object.data["status"]["conditions"].as_array().is_some_and(|all| all.len() >= 3),
        "{object:?}"
    );
    let config = watcher::Config::default().fields("involvedObject.name=web");
    wait::any(&w.events(), config, "an event about the one of ours", PATIENCE, |event| {
        let about = event.involved_object.api_version.as_deref();
        (about == Some(hpa_crd::API_VERSION)
            && event.reason.as_deref() == Some("SuccessfulRescale"))
        .then_some(event)
    })
    .await?;

    // Paused by its annotation, which no spec change tells of.
    let pause = |value: Value| {
        Patch::Merge(
            json!({ "metadata": { "annotations": { "autoscaling.hpa-rs.dev/pause": value } } }),
        )
    };
    api.patch("web", &PatchParams::default(), &pause(json!("up"))).await?;
    wait::object(&api, "web", "the pause", PATIENCE, |object| {
        object.data["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Paused"))
    })
    .await?;
    w.cpu("own", Load::Total(300));
    wait::object(&api, "web", "what is held back", PATIENCE, |object| {
        object.data["status"]["desiredReplicas"] == 6
            && object.data["status"]["currentReplicas"] == 4
    })
    .await?;
    api.patch("web", &PatchParams::default(), &pause(Value::Null)).await?;
    own.at(6).await?;
    Ok(())
}

/// All kinds of metrics under the chart's Role in one namespace, and no other right.
pub(super) async fn role_in_a_namespace(w: World) -> Result<()> {
    let kubeconfig = w.plane.role_kubeconfig(&w.ns).await?;
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut controller = w.controller("role", &[&flag])?;
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::Total(200));
    w.metrics.set_external(&w.ns, "jobs", &[("", "10")]);
    w.metrics.set_pods(&w.ns, "requests", Load::PerPod(10_000));
    w.metrics.set_object(&w.ns, "namespace", "load", "10");
    let average = json!({"type": "AverageValue", "averageValue": "10"});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "name": w.ns});
    let mut metrics = cpu(50);
    let others = [
        external("jobs", "10")[0].clone(),
        json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": average}}),
        json!({"type": "Object", "object": {"metric": {"name": "load"}, "target": average, "describedObject": object}}),
    ];
    metrics.as_array_mut().context("a list")?.extend(others);
    w.hpa("web", web.hpa(1, 10, metrics)).await?;
    web.at(4).await?;
    w.event("web", "SuccessfulRescale", "New size: 4").await?;
    let hpa = w.settled("web", 4).await?;
    let read = hpa.status.and_then(|status| status.current_metrics).unwrap_or_default();
    ensure!(read.len() == 4, "{read:?}");
    let status = controller.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "{status}\n{}", controller.tail(10, ""));
    for trouble in ["forbidden", "Failed", "failed"] {
        let found = controller.tail(5, trouble);
        ensure!(found.is_empty(), "{found}");
    }
    Ok(())
}

/// A dry run beside another controller, which is the reference where there is one: no difference.
pub(super) async fn shadow_finds_no_difference(w: World) -> Result<()> {
    let _other = if let Some(reference) = w.plane.reference()? {
        reference
    } else {
        println!(
            "  shadow_finds_no_difference: NO KUBE-CONTROLLER-MANAGER, beside this controller itself"
        );
        w.controller("other", &[])?
    };
    let web = w.deployment("web", 2).await?;
    w.cpu("web", Load::Total(100));
    w.hpa("web", web.hpa(1, 10, cpu(50))).await?;
    let worker = w.deployment("worker", 2).await?;
    w.metrics.set_external(&w.ns, "jobs", &[("", "20")]);
    w.hpa("worker", worker.hpa(1, 8, external("jobs", "10"))).await?;
    let slow = w.deployment("slow", 2).await?;
    w.cpu("slow", Load::Total(100));
    let mut spec = slow.hpa(1, 10, cpu(50));
    spec["behavior"] = json!({
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]},
        "scaleDown": {"stabilizationWindowSeconds": 3, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 4}]},
    });
    w.hpa("slow", spec).await?;
    let gone = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"});
    w.hpa("gone", json!({"scaleTargetRef": gone, "maxReplicas": 3, "metrics": cpu(50)})).await?;
    for name in ["web", "worker", "slow"] {
        w.settled(name, 2).await?;
    }
    w.hpa_until("gone", "no target", |hpa| is(hpa, "AbleToScale", "False", "FailedGetScale"))
        .await?;

    let mut shadow = w.shadow_report("shadow", "30s")?;
    w.hpa_until("web", "to stay", |hpa| at(hpa, 2)).await?;
    for _ in 0..2 {
        w.cpu("web", Load::Total(300));
        w.cpu("slow", Load::Total(200));
        w.metrics.set_external(&w.ns, "jobs", &[("", "200")]);
        web.at(6).await?;
        worker.at(8).await?;
        let limited =
            |hpa: &crate::world::Hpa| is(hpa, "ScalingLimited", "True", "TooManyReplicas");
        w.hpa_until("worker", "its bound", limited).await?;
        slow.at(4).await?;
        w.cpu("web", Load::Total(100));
        w.cpu("slow", Load::Total(100));
        w.metrics.set_external(&w.ns, "jobs", &[("", "20")]);
        web.at(2).await?;
        worker.at(2).await?;
        slow.at(2).await?;
    }
    let status = shadow.wait(PATIENCE * 2).await?;
    let report = shadow.tail(1, " differences");
    println!("  shadow_finds_no_difference: {}", report.trim_start_matches([' ', '|']));
    let all = || shadow.tail(60, "");
    ensure!(status.success(), "{status}\n{}", all());
    ensure!(
        report.contains("4 HPAs, ") && report.contains(" decisions, 0 differences"),
        "{report}\n{}",
        all()
    );
    let wrote = ["scaled", "forbidden"].map(|word| shadow.tail(3, word)).concat();
    ensure!(wrote.is_empty(), "{wrote}");
    Ok(())
}

/// A dry run beside a controller with another tolerance: it is found out by the autoscaler that this matters to, though
/// the load does not stand still.
pub(super) async fn shadow_finds_another_tolerance(w: World) -> Result<()> {
    let _other = w.controller("other", &["--horizontal-pod-autoscaler-tolerance=0.5"])?;
    for (name, load) in [("web", 120), ("api", 100)] {
        let target = w.deployment(name, 2).await?;
        w.cpu(name, Load::Total(load));
        w.hpa(name, target.hpa(1, 10, cpu(50))).await?;
        w.settled(name, 2).await?;
    }
    let mut shadow = w.shadow_report("shadow", "15s")?;
    for percent in [65, 60, 65, 60, 65] {
        w.cpu("web", Load::Total(2 * percent));
        w.hpa_until("web", "the other load", |hpa| {
            at(hpa, 2)
                && current_metric(hpa)["resource"]["current"]["averageUtilization"] == percent
        })
        .await?;
    }
    let status = shadow.wait(PATIENCE).await?;
    let all = || shadow.tail(60, "");
    ensure!(!status.success(), "{}", all());
    let report = shadow.tail(1, "2 HPAs, ");
    ensure!(!report.contains(" 0 differences"), "{report}\n{}", all());
    let rows = ["/web: ", "/api: "].map(|row| shadow.tail(1, &format!("{}{row}", w.ns)));
    ensure!(!rows[0].is_empty() && rows[1].is_empty(), "{rows:?}\n{}", all());
    let difference = shadow.tail(1, "  desiredReplicas: ours 3, theirs 2");
    ensure!(!difference.is_empty(), "{}", all());
    Ok(())
}
