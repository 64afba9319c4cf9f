//! The scenarios. Each asserts what an autoscaler does to its target, its status, its conditions and its events.

mod api;
mod autoscalers;
mod coexistence;
mod lifecycle;
mod metric_types;
mod outage;
mod scaling;
mod targets;
mod writes;

use anyhow::Result;
use futures::FutureExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::{PATIENCE, Target, spec_replicas};
use crate::{Scenario, Under, wait};

macro_rules! scenarios {
    ($($under:ident $($module:ident)::+ => $name:ident,)*) => {
        &[$(Scenario {
            name: stringify!($name),
            controller: Under::$under,
            run: |world| $($module)::+::$name(world).boxed(),
        },)*]
    };
}

pub(crate) const SCENARIOS: &[Scenario] = scenarios![
    Nobody api::refusals => api_not_found,
    Nobody api::refusals => api_no_such_path,
    Nobody api::refusals => api_misplaced_objects,
    Nobody api::refusals => api_invalid_autoscalers,
    Nobody api::changes => api_defaults,
    Nobody api::changes => api_generations,
    Nobody api::changes => api_conflicts,
    Nobody api::changes => api_dry_run,
    Nobody api::changes => api_deletion,
    Nobody api::patches => api_patches,
    Nobody api::patches => api_refused_patches,
    Nobody api::patches => api_apply,
    Nobody api::lists => api_pages,
    Nobody api::lists => api_refused_lists,
    Nobody api::lists => api_watch,
    Nobody api::lists => api_streaming_list,
    Nobody api::scales => api_scale,
    Nobody api::scales => api_custom_scale,
    Nobody api::tables => api_tables,
    Nobody api::tables => api_metadata_only,
    Nobody api::discovery => api_discovery,
    Nobody api::discovery => api_aggregated_discovery,
    Shared scaling => up_and_down_on_cpu,
    Shared scaling => bounds,
    Shared scaling => behavior_policies,
    Shared scaling => scale_to_zero_and_back,
    Shared metric_types => memory_average_value,
    Shared metric_types => container_cpu,
    Shared metric_types => pods_metric,
    Shared metric_types => object_value,
    Shared metric_types => object_average_value,
    Shared metric_types => object_namespace,
    Shared metric_types => external_value,
    Shared metric_types => external_average_value,
    Shared metric_types => several_metrics,
    Shared targets => stateful_set,
    Shared targets => replica_set,
    Shared targets => replication_controller,
    Shared targets => custom_resource,
    Shared targets => unknown_kind,
    Shared targets => missing_target,
    Shared outage => resource_metrics_outage,
    Shared outage => external_metric_outage,
    Shared writes => conflicts,
    Shared writes => manual_change_wins,
    Shared writes => no_writes_when_steady,
    Shared autoscalers => ambiguous_selector,
    Own autoscalers => recreation_forgets,
    Own lifecycle => immediate,
    Own lifecycle => restart,
    Own lifecycle => refused_flags,
    Own coexistence => own_api,
    Own coexistence => role_in_a_namespace,
    Own coexistence => shadow_finds_another_tolerance,
    Alone coexistence => shadow_finds_no_difference,
];

/// `metrics` with CPU utilization only.
fn cpu(utilization: i32) -> Value {
    json!([{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": utilization},
    }}])
}

/// `metrics` with the average of an external metric only.
fn external(metric: &str, average: &str) -> Value {
    json!([{"type": "External", "external": {
        "metric": {"name": metric}, "target": {"type": "AverageValue", "averageValue": average},
    }}])
}

/// Watches the target until it asks for `last` replicas; yields all that it asks for from now on.
async fn record(target: &Target, last: i64) -> JoinHandle<Result<Vec<i64>>> {
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
        wait::object(&target.api, &target.name, &format!("{last} replicas"), PATIENCE * 3, done)
            .await?;
        Ok(seen)
    });
    // An error is the task's to tell.
    drop(watching.await);
    task
}
