//! The custom API, namespaced permissions, and dry runs next to a peer.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::targets::install_definition;
use super::{concat_metrics, cpu_hpa_spec, cpu_metric, external_metric};
use crate::control_plane::from_json;
use crate::metrics::Load;
use crate::test_env::{Target, TestEnv, WAIT_LIMIT, has_replicas, has_utilization};
use crate::wait;
use crate::workload::Kind;

pub(super) const CUSTOM_KIND: Kind = Kind::new(
    hpa_calc::crd::GROUP,
    hpa_calc::crd::VERSION,
    hpa_calc::crd::KIND,
    hpa_calc::crd::PLURAL,
);

/// One controller handles both APIs. It starts before the CustomResourceDefinition exists.
pub(super) async fn custom_api(env: TestEnv) -> Result<()> {
    let controller = env.start_controller("both", &["--autoscaler-api=both"])?;
    let [core, custom] =
        [env.create_deployment("core", 2).await?, env.create_deployment("custom", 2).await?];
    for target in ["core", "custom"] {
        env.set_cpu(target, Load::Total(200));
    }
    // The controller does not wait for the definition.
    env.create_hpa("web", core.hpa_spec(1, 10, cpu_metric(50))).await?;
    core.wait_for_replicas(4).await?;
    let absent = controller.tail(1, "is not installed");
    ensure!(!absent.is_empty(), "the missing definition is not logged");

    let definitions = Api::<CustomResourceDefinition>::all(env.client.clone());
    let definition: CustomResourceDefinition = from_json(hpa_calc::crd::definition()?)?;
    install_definition(&definitions, &definition).await?;
    let api =
        Api::<DynamicObject>::namespaced_with(env.client.clone(), &env.ns, &CUSTOM_KIND.resource());
    // It has the same name as the autoscaler of the core API.
    let object = json!({
        "apiVersion": hpa_calc::crd::API_VERSION, "kind": hpa_calc::crd::KIND,
        "metadata": { "name": "web" }, "spec": custom.hpa_spec(1, 10, cpu_metric(50)),
    });
    api.create(&PostParams::default(), &from_json(object)?).await?;
    custom.wait_for_replicas(4).await?;
    let object = wait::object(&api, "web", "its status", WAIT_LIMIT, |object| {
        object.data["status"]["desiredReplicas"] == 4
    })
    .await?;
    let conditions = object.data["status"]["conditions"].as_array();
    ensure!(conditions.is_some_and(|all| all.len() >= 3), "{object:?}");
    check_printed_targets_of_both_apis(&env, &api).await?;
    let config = watcher::Config::default().fields("involvedObject.name=web");
    wait::first_match(
        &env.events(),
        config,
        "an event of the custom autoscaler",
        WAIT_LIMIT,
        |event| {
            let about = event.involved_object.api_version.as_deref();
            (about == Some(hpa_calc::crd::API_VERSION)
                && event.reason.as_deref() == Some("SuccessfulRescale"))
            .then_some(event)
        },
    )
    .await?;
    pause_and_resume(&env, &api).await?;
    custom.wait_for_replicas(6).await?;
    definitions.delete(&definition.name_any(), &DeleteParams::default()).await?;
    Ok(())
}

/// Checks that `kubectl get` prints the same targets for the autoscalers `web` of both APIs.
async fn check_printed_targets_of_both_apis(env: &TestEnv, api: &Api<DynamicObject>) -> Result<()> {
    wait::object(api, "web", "the load after the scale-up", WAIT_LIMIT, |object| {
        object.data["status"]["targets"] == "cpu: 50%/50%"
    })
    .await?;
    env.wait_for_hpa("web", "the load after the scale-up", |hpa| has_utilization(hpa, 50)).await?;
    for group in [hpa_calc::crd::GROUP, "autoscaling"] {
        let printed = printed_targets(env, group).await?;
        ensure!(printed == "cpu: 50%/50%", "{group}: {printed}");
    }
    Ok(())
}

/// Pauses the custom autoscaler `web` until its load asks for 6 replicas. The pause is an
/// annotation, so the spec doesn't change.
async fn pause_and_resume(env: &TestEnv, api: &Api<DynamicObject>) -> Result<()> {
    let pause = |value: Value| {
        Patch::Merge(
            json!({ "metadata": { "annotations": { "autoscaling.hpa-rs.dev/pause": value } } }),
        )
    };
    api.patch("web", &PatchParams::default(), &pause(json!("up"))).await?;
    wait::object(api, "web", "the pause", WAIT_LIMIT, |object| {
        object.data["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == "Paused"))
    })
    .await?;
    env.set_cpu("custom", Load::Total(300));
    wait::object(api, "web", "the paused scale-up", WAIT_LIMIT, |object| {
        object.data["status"]["desiredReplicas"] == 6
            && object.data["status"]["currentReplicas"] == 4
    })
    .await?;
    api.patch("web", &PatchParams::default(), &pause(Value::Null)).await?;
    Ok(())
}

/// The column `Targets` of `kubectl get` for the autoscaler `web` of an API group.
async fn printed_targets(env: &TestEnv, group: &str) -> Result<Value> {
    let path = format!("/apis/{group}/v2/namespaces/{}/{}/web", env.ns, hpa_calc::crd::PLURAL);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = http::Request::get(path).header(http::header::ACCEPT, accept);
    let table: Value = env.client.request(request.body(Vec::new())?).await?;
    let columns = table["columnDefinitions"].as_array().context("no columns")?;
    let index = columns.iter().position(|column| column["name"] == "Targets");
    Ok(table["rows"][0]["cells"][index.context("no column Targets")?].clone())
}

/// The chart's Role in one namespace suffices for the metrics of all three APIs.
pub(super) async fn role_in_a_namespace(env: TestEnv) -> Result<()> {
    let kubeconfig = env.plane.role_kubeconfig(&env.ns).await?;
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let mut controller = env.start_controller("role", &[&flag])?;
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(200));
    env.metrics.set_external(&env.ns, "jobs", &[("", "10")]);
    env.metrics.set_pods_metric(&env.ns, "requests", Load::PerPod(10_000));
    env.metrics.set_object(&env.ns, "namespace", "load", "10");
    let average = json!({"type": "AverageValue", "averageValue": "10"});
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "name": env.ns});
    let custom_metrics = json!([
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": average}},
        {"type": "Object", "object": {
            "metric": {"name": "load"}, "target": average, "describedObject": object,
        }},
    ]);
    let metrics = concat_metrics([cpu_metric(50), external_metric("jobs", "10"), custom_metrics]);
    env.create_hpa("web", web.hpa_spec(1, 10, metrics)).await?;
    web.wait_for_replicas(4).await?;
    env.wait_for_event("web", "SuccessfulRescale", "New size: 4").await?;
    let hpa = env.wait_until_settled("web", 4).await?;
    let current = hpa.status.and_then(|status| status.current_metrics).unwrap_or_default();
    ensure!(current.len() == 4, "{current:?}");
    let status = controller.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "{status}\n{}", controller.tail(10, ""));
    for error in ["forbidden", "Failed", "failed"] {
        let lines = controller.tail(5, error);
        ensure!(lines.is_empty(), "{lines}");
    }
    Ok(())
}

/// A dry run reports no difference to kube-controller-manager, or to another instance of this
/// controller if kube-controller-manager is not installed.
pub(super) async fn shadow_agrees_with_same_settings(env: TestEnv) -> Result<()> {
    let _peer = if let Some(reference) = env.plane.start_reference()? {
        reference
    } else {
        println!("  shadow_agrees_with_same_settings: compared with this controller itself");
        env.start_controller("peer", &[])?
    };
    let [web, worker, slow] = create_compared_autoscalers(&env).await?;
    let mut shadow = env.start_shadow_report("shadow", "30s", &[])?;
    env.wait_for_hpa("web", "stable replicas", |hpa| has_replicas(hpa, 2)).await?;
    for _ in 0..2 {
        env.set_cpu("web", Load::Total(300));
        env.set_cpu("slow", Load::Total(200));
        env.metrics.set_external(&env.ns, "jobs", &[("", "200")]);
        web.wait_for_replicas(6).await?;
        worker.wait_for_replicas(8).await?;
        env.wait_for_condition("worker", "ScalingLimited", "True", "TooManyReplicas").await?;
        slow.wait_for_replicas(4).await?;
        env.set_cpu("web", Load::Total(100));
        env.set_cpu("slow", Load::Total(100));
        env.metrics.set_external(&env.ns, "jobs", &[("", "20")]);
        web.wait_for_replicas(2).await?;
        worker.wait_for_replicas(2).await?;
        slow.wait_for_replicas(2).await?;
    }
    let status = shadow.wait(WAIT_LIMIT * 2).await?;
    let report = shadow.tail(1, " compared for ");
    println!("  shadow_agrees_with_same_settings: {}", report.trim_start_matches([' ', '|']));
    let log = || shadow.tail(60, "");
    ensure!(status.success(), "{status}\n{}", log());
    ensure!(
        report.contains("4 autoscalers compared for 30s: no difference in "),
        "{report}\n{}",
        log()
    );
    let writes = ["scaled", "forbidden"].map(|word| shadow.tail(3, word)).concat();
    ensure!(writes.is_empty(), "{writes}");
    Ok(())
}

/// Creates the targets `web`, `worker` and `slow` with settled autoscalers: `slow` has policies for
/// both directions. The target of a fourth autoscaler doesn't exist.
async fn create_compared_autoscalers(env: &TestEnv) -> Result<[Target; 3]> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::Total(100));
    env.create_hpa("web", web.hpa_spec(1, 10, cpu_metric(50))).await?;
    let worker = env.create_deployment("worker", 2).await?;
    env.metrics.set_external(&env.ns, "jobs", &[("", "20")]);
    env.create_hpa("worker", worker.hpa_spec(1, 8, external_metric("jobs", "10"))).await?;
    let slow = env.create_deployment("slow", 2).await?;
    env.set_cpu("slow", Load::Total(100));
    let mut spec = slow.hpa_spec(1, 10, cpu_metric(50));
    spec["behavior"] = json!({
        "scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 5}]},
        "scaleDown": {
            "stabilizationWindowSeconds": 3,
            "policies": [{"type": "Pods", "value": 2, "periodSeconds": 4}],
        },
    });
    env.create_hpa("slow", spec).await?;
    env.create_hpa("gone", cpu_hpa_spec("apps/v1", "Deployment", "gone", 1, 3)).await?;
    for name in ["web", "worker", "slow"] {
        env.wait_until_settled(name, 2).await?;
    }
    env.wait_for_condition("gone", "AbleToScale", "False", "FailedGetScale").await?;
    Ok([web, worker, slow])
}

/// A dry run reports the autoscaler whose decisions differ because the peer has another tolerance.
pub(super) async fn shadow_detects_other_tolerance(env: TestEnv) -> Result<()> {
    let _peer = env.start_controller("peer", &["--horizontal-pod-autoscaler-tolerance=0.5"])?;
    for (name, load) in [("web", 120), ("api", 100)] {
        let target = env.create_deployment(name, 2).await?;
        env.set_cpu(name, Load::Total(load));
        env.create_hpa(name, target.hpa_spec(1, 10, cpu_metric(50))).await?;
        env.wait_until_settled(name, 2).await?;
    }
    let mut shadow = env.start_shadow_report("shadow", "15s", &[])?;
    for percent in [65, 60, 65, 60, 65] {
        env.set_cpu("web", Load::Total(2 * percent));
        env.wait_for_hpa("web", "the changed load", |hpa| {
            has_replicas(hpa, 2) && has_utilization(hpa, percent)
        })
        .await?;
    }
    let status = shadow.wait(WAIT_LIMIT).await?;
    let log = || shadow.tail(60, "");
    ensure!(!status.success(), "{}", log());
    let report = shadow.tail(1, "1 of 2 autoscalers differs, in ");
    ensure!(!report.is_empty(), "{}", log());
    let rows = ["/web: ", "/api: "].map(|row| shadow.tail(1, &format!("{}{row}", env.ns)));
    ensure!(!rows[0].is_empty() && rows[1].is_empty(), "{rows:?}\n{}", log());
    let difference = shadow.tail(1, "  desiredReplicas: ours 3, theirs 2");
    ensure!(!difference.is_empty(), "{}", log());
    Ok(())
}
