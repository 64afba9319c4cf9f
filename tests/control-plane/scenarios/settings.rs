//! The settings of single autoscalers. Each setting is reported. The settings that change decisions
//! most often are compared with the reference on the same objects, whose pods and rollouts are made
//! by the controllers of kube-controller-manager.

use std::time::Duration;

use anyhow::{Result, ensure};
use hpa_calc::settings::{DOMAIN, SETTINGS};
use hpa_tests::kube_apiserver::Process;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{concat_metrics, cpu_metric, external_metric};
use crate::control_plane::from_json;
use crate::metrics::Load;
use crate::test_env::{
    Hpa, Target, TestEnv, WAIT_LIMIT, condition, current_metric, has_condition, has_replicas,
    has_utilization, message, spec_replicas,
};
use crate::wait;
use crate::workload::container;

/// Each setting is set to a valid value, then to an invalid one, and removed.
pub(super) async fn every_setting_is_reported(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(50));
    let metrics = concat_metrics([cpu_metric(50), external_metric("queue", "10")]);
    env.create_hpa("web", web.hpa_spec(1, 6, metrics)).await?;
    for setting in SETTINGS {
        let name = setting.name;
        // These two have separate conditions.
        if !["pause", "dry-run"].contains(&name) {
            set_annotation(&env, name, json!(setting.example())).await?;
            let awaited = format!("{name} to be applied");
            let applied = format!("{name}=");
            let is_applied = |hpa: &Hpa| {
                has_condition(hpa, "CustomSettings", "True", "SetOnAutoscaler")
                    && message(hpa, "CustomSettings").starts_with(&applied)
            };
            env.wait_for_hpa("web", &awaited, is_applied).await?;
            let text = env.explain("web", &[]).await?;
            ensure!(text.contains(&applied), "{name}: {text}");
        }
        set_annotation(&env, name, json!("wrong")).await?;
        let problem = format!("annotation {DOMAIN}/{name} must be ");
        let is_invalid = |hpa: &Hpa| {
            has_condition(hpa, "CustomSettings", "False", "InvalidSettings")
                && message(hpa, "CustomSettings").starts_with(&problem)
        };
        env.wait_for_hpa("web", &format!("{name} to be ignored"), is_invalid).await?;
        set_annotation(&env, name, Value::Null).await?;
        let is_gone = |hpa: &Hpa| condition(hpa, "CustomSettings").is_none();
        env.wait_for_hpa("web", &format!("no settings after {name}"), is_gone).await?;
    }
    Ok(())
}

/// The pods of a busy Job have the labels of an idle Deployment. Only `pods=owned` keeps the
/// Deployment from being scaled.
pub(super) async fn owned_pods_beside_a_job(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 2).await?;
    env.set_cpu("web", Load::PerPod(50));
    env.metrics.set_usage(&env.ns, "web", "import", "cpu", Load::PerPod(400));
    create_job(&env, 4).await?;
    env.create_hpa("web", web.hpa_spec(1, 6, cpu_metric(50))).await?;

    let reference = env.plane.start_reference()?;
    ensure!(reference.is_some(), "no reference, although its workload controllers run");
    web.wait_for_replicas(6).await?;
    drop(reference);
    scale_back(&web, 2).await?;
    // Without the setting, the decision is the same.
    let controller = env.start_controller("without", &["--allow-other-controller"])?;
    web.wait_for_replicas(6).await?;
    stop_controller(&env, controller).await?;
    scale_back(&web, 2).await?;

    set_annotation(&env, "pods", json!("owned")).await?;
    let controller = env.start_controller("owned", &["--allow-other-controller"])?;
    let hpa = env.wait_for_hpa("web", "a decision by the Deployment's pods", |hpa| {
        has_replicas(hpa, 2) && has_utilization(hpa, 50)
    });
    let hpa = hpa.await?;
    let applied = message(&hpa, "CustomSettings");
    ensure!(applied.contains("pods=owned"), "{applied}");
    ensure!(spec_replicas(&web.api.get("web").await?) == 2, "the Deployment was scaled");
    let text = env.explain("web", &[]).await?;
    let of_the_job = "of other owners, not counted (4): import-";
    ensure!(text.contains("pods=owned") && text.contains(of_the_job), "{text}");
    // Without the setting, the pods of the Job are counted.
    set_annotation(&env, "pods", Value::Null).await?;
    web.wait_for_replicas(6).await?;
    let has_no_settings =
        |hpa: &Hpa| condition(hpa, "CustomSettings").is_none_or(|one| one.status == "False");
    env.wait_for_hpa("web", "no custom settings", has_no_settings).await?;
    stop_controller(&env, controller).await
}

/// A Job whose pods have the labels of the Deployment `web`.
async fn create_job(env: &TestEnv, pod_count: i32) -> Result<()> {
    let mut container = container("app");
    container["name"] = "import".into();
    let job: Job = from_json(json!({
        "metadata": {"name": "import"},
        "spec": {"parallelism": pod_count, "completions": pod_count, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }},
    }))?;
    let jobs = Api::<Job>::namespaced(env.client.clone(), &env.ns);
    jobs.create(&PostParams::default(), &job).await?;
    wait::object(&jobs, "import", "its pods", WAIT_LIMIT, |job: &Job| {
        job.status.as_ref().and_then(|status| status.ready) == Some(pod_count)
    })
    .await?;
    Ok(())
}

/// Each pod works on ten jobs, which is the metric's target. A rollout with a surge of 50 % raises
/// the replicas to the maximum, where they stay, unless the setting is `rollout=ignore-surge`.
pub(super) async fn rollout_with_surge(env: TestEnv) -> Result<()> {
    let web = env.create_deployment("web", 4).await?;
    env.metrics.set_external_by_pod(&env.ns, "jobs_in_progress", "web", 10);
    let mut spec = web.hpa_spec(1, 12, external_metric("jobs_in_progress", "10"));
    let policy = json!({"type": "Percent", "value": 500, "periodSeconds": 15});
    spec["behavior"] = json!({"scaleUp": {"policies": [policy]}});
    env.create_hpa("web", spec).await?;

    let reference = env.plane.start_reference()?;
    ensure!(reference.is_some(), "no reference, although its workload controllers run");
    rollout_scales_to_maximum(&env, &web, "first").await?;
    drop(reference);
    scale_back(&web, 4).await?;
    // Without the setting, the decisions are the same.
    let controller = env.start_controller("without", &["--allow-other-controller"])?;
    rollout_scales_to_maximum(&env, &web, "second").await?;
    stop_controller(&env, controller).await?;
    scale_back(&web, 4).await?;

    set_annotation(&env, "rollout", json!("ignore-surge")).await?;
    let controller = env.start_controller("ignored", &["--allow-other-controller"])?;
    let hpa = env.wait_until_settled("web", 4).await?;
    let last_scale = |hpa: &Hpa| hpa.status.clone().and_then(|status| status.last_scale_time);
    let scaled_before = last_scale(&hpa);
    start_rollout(&web, "third").await?;
    let with_surge = |hpa: &Hpa| {
        // The jobs of six pods, divided by four desired replicas.
        current_metric(hpa)["external"]["current"]["averageValue"] == "15"
    };
    env.wait_for_hpa("web", "a decision during the rollout", with_surge).await?;
    let text = env.explain("web", &[]).await?;
    ensure!(text.contains("rollout: the metric asks for 4, with the surge for 6"), "{text}");
    end_rollout(&web, 4).await?;
    let hpa = env
        .wait_for_hpa("web", "a decision after the rollout", |hpa| {
            has_replicas(hpa, 4)
                && current_metric(hpa)["external"]["current"]["averageValue"] == "10"
        })
        .await?;
    ensure!(last_scale(&hpa) == scaled_before, "the rollout scaled");
    stop_controller(&env, controller).await
}

/// Checks that a rollout scales to the maximum, and that its end changes nothing.
async fn rollout_scales_to_maximum(env: &TestEnv, web: &Target, revision: &str) -> Result<()> {
    env.wait_for_hpa("web", "a decision before the rollout", |hpa| has_replicas(hpa, 4)).await?;
    start_rollout(web, revision).await?;
    wait::object(&web.api, "web", "the maximum", WAIT_LIMIT, |object| spec_replicas(object) == 12)
        .await?;
    end_rollout(web, 12).await?;
    env.wait_for_hpa("web", "a decision after the rollout", |hpa| has_replicas(hpa, 12)).await?;
    Ok(())
}

/// Starts a rollout whose new pods are ready, but not yet available. This halts the rollout.
async fn start_rollout(target: &Target, revision: &str) -> Result<()> {
    let rolling = json!({"maxSurge": "50%", "maxUnavailable": 0});
    patch_spec(
        target,
        json!({
            "minReadySeconds": 3600, "progressDeadlineSeconds": 7200,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {"metadata": {"annotations": {"revision": revision}}},
        }),
    )
    .await
}

/// Makes the new pods of a rollout available, and waits until they have replaced the old ones.
async fn end_rollout(target: &Target, replicas: i64) -> Result<()> {
    patch_spec(target, json!({"minReadySeconds": 0})).await?;
    wait::object(&target.api, &target.name, "the end of the rollout", WAIT_LIMIT, |object| {
        let status = &object.data["status"];
        status["updatedReplicas"] == replicas
            && status["availableReplicas"] == replicas
            && status["replicas"] == replicas
    })
    .await?;
    Ok(())
}

async fn patch_spec(target: &Target, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    target.api.patch(&target.name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Scales back as a user, while no controller runs.
async fn scale_back(target: &Target, replicas: i32) -> Result<()> {
    target.scale(replicas).await?;
    target.wait_for_replicas(replicas).await?;
    Ok(())
}

/// Sets or removes a setting of the autoscaler `web`.
async fn set_annotation(env: &TestEnv, name: &str, value: Value) -> Result<()> {
    let annotations = json!({format!("{DOMAIN}/{name}"): value});
    env.patch_hpa("web", json!({"metadata": {"annotations": annotations}})).await?;
    Ok(())
}

async fn stop_controller(env: &TestEnv, mut controller: Process) -> Result<()> {
    let status = controller.terminate(Duration::from_secs(15)).await?;
    ensure!(status.success(), "{status}\n{}", controller.tail(10, ""));
    env.plane.check_permissions(&controller)
}
