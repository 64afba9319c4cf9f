//! The scenarios, which check targets, statuses, conditions and events.

mod api;
mod autoscalers;
mod coexistence;
mod concurrent_writes;
mod explain;
mod lifecycle;
mod metric_types;
mod migration;
mod outage;
mod peers;
mod scaling;
mod settings;
mod targets;

use anyhow::Result;
use futures::FutureExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::test_env::{Target, WAIT_LIMIT, spec_replicas};
use crate::{ControllerSetup, Scenario, wait};

macro_rules! scenarios {
    ($($setup:ident $($module:ident)::+ => $name:ident,)*) => {
        &[$(Scenario {
            name: stringify!($name),
            controller: ControllerSetup::$setup,
            run: |env| $($module)::+::$name(env).boxed(),
        },)*]
    };
}

pub(crate) const SCENARIOS: &[Scenario] = scenarios![
    NoController api::rejections => api_not_found,
    NoController api::rejections => api_unknown_paths,
    NoController api::rejections => api_misplaced_objects,
    NoController api::rejections => api_invalid_autoscalers,
    NoController api::rejections => api_invalid_updates,
    NoController api::changes => api_defaults,
    NoController api::changes => api_generations,
    NoController api::changes => api_conflicts,
    NoController api::changes => api_dry_run,
    NoController api::changes => api_deletion,
    NoController api::patches => api_patches,
    NoController api::patches => api_rejected_patches,
    NoController api::patches => api_apply,
    NoController api::lists => api_pages,
    NoController api::lists => api_rejected_lists,
    NoController api::lists => api_watch,
    NoController api::lists => api_streaming_list,
    NoController api::scales => api_scale,
    NoController api::scales => api_rejected_scales,
    NoController api::scales => api_custom_scale,
    NoController api::tables => api_tables,
    NoController api::tables => api_metadata_only,
    NoController api::discovery => api_discovery,
    NoController api::discovery => api_aggregated_discovery,
    NoController api::examples => api_examples,
    NoController api::fields => api_unknown_fields,
    NoController api::fields => api_values_of_wrong_type,
    NoController api::fields => api_protobuf,
    NoController api::fields => api_v1,
    Shared scaling => scales_up_and_down_on_cpu,
    Shared scaling => replicas_stay_within_bounds,
    Shared scaling => behavior_policies,
    Shared scaling => scale_to_zero_and_back,
    Shared scaling => keda_activates_the_target,
    Shared metric_types => memory_average_value,
    Shared metric_types => container_cpu,
    Shared metric_types => pods_metric,
    Shared metric_types => object_value,
    Shared metric_types => object_average_value,
    Shared metric_types => object_namespace,
    Shared metric_types => external_value,
    Shared metric_types => external_average_value,
    Shared metric_types => largest_of_several_metrics_wins,
    Shared targets => stateful_set,
    Shared targets => replica_set,
    Shared targets => replication_controller,
    Shared targets => custom_resource,
    Shared targets => unknown_kind,
    Shared targets => missing_target,
    Shared outage => resource_metrics_outage,
    Shared outage => external_metric_outage,
    Shared concurrent_writes => scaling_continues_despite_conflicts,
    Shared concurrent_writes => manual_change_is_not_overwritten,
    Shared concurrent_writes => steady_state_writes_nothing,
    Shared autoscalers => ambiguous_selector,
    Shared explain => explain_beside_this_controller,
    Shared settings => every_setting_is_reported,
    PerScenario autoscalers => recreated_autoscaler_starts_without_recommendations,
    PerScenario lifecycle => spec_changes_are_reconciled_immediately,
    PerScenario lifecycle => successor_continues_after_sigterm,
    PerScenario lifecycle => invalid_flags_are_rejected,
    PerScenario coexistence => custom_api,
    PerScenario coexistence => role_in_a_namespace,
    PerScenario coexistence => shadow_detects_other_tolerance,
    PerScenario peers => shadow_report_is_inconclusive_beside_a_stopped_peer,
    PerScenario peers => shadow_report_is_inconclusive_if_too_short,
    Exclusive coexistence => shadow_agrees_with_same_settings,
    Exclusive peers => start_is_refused_beside_an_active_peer,
    Exclusive peers => peer_is_reported_while_running,
    Reference explain => explain_beside_the_reference,
    Reference migration => migration_guide,
    RealWorkloads settings => owned_pods_beside_a_job,
    RealWorkloads settings => rollout_with_surge,
];

/// `metrics` with CPU utilization only.
fn cpu_metric(utilization: i32) -> Value {
    json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization},
    }}])
}

/// `metrics` with the average of an external metric only.
fn external_metric(metric: &str, average: &str) -> Value {
    json!([{"type": "External", "external": {
        "metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": average},
    }}])
}

/// The spec of an autoscaler with a CPU metric, for a target that may not exist.
fn cpu_hpa_spec(api_version: &str, kind: &str, name: &str, min: i32, max: i32) -> Value {
    let target = json!({"apiVersion": api_version, "kind": kind, "name": name});
    let metrics = cpu_metric(50);
    json!({"scaleTargetRef": target, "minReplicas": min, "maxReplicas": max, "metrics": metrics})
}

/// One list with the metrics of all lists.
fn concat_metrics<const N: usize>(lists: [Value; N]) -> Value {
    lists.iter().flat_map(|list| list.as_array().expect("a list")).cloned().collect()
}

/// Records the desired replicas of the target from now on, until they are `last`.
async fn record_replicas(target: &Target, last: i64) -> JoinHandle<Result<Vec<i64>>> {
    let target = target.clone();
    let (started, watching) = oneshot::channel();
    let mut started = Some(started);
    let task = tokio::spawn(async move {
        let mut seen: Vec<i64> = Vec::new();
        let done = |object: &DynamicObject| {
            started.take().map(|started| started.send(()));
            let replicas = spec_replicas(object);
            if seen.last() != Some(&replicas) {
                seen.push(replicas);
            }
            replicas == last
        };
        wait::object(&target.api, &target.name, &format!("{last} replicas"), WAIT_LIMIT * 3, done)
            .await?;
        Ok(seen)
    });
    // If the watch fails, the task returns the error.
    drop(watching.await);
    task
}
