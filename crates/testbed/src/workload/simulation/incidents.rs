//! Applies incidents to the model, or to objects in the testbed.

use hpa_simulate::workload::{
    model::{ClusterModel, WorkloadId},
    scenario::{Incident, IncidentKind, Scenario},
};
use serde_json::{Value, json};

use super::State;
use crate::{
    Testbed, json_fields,
    workload::controllers::{Owner, list_owners},
};

/// Removes and returns the incidents that are due, in order of time.
pub(super) fn take_due(state: &mut State, second: f64) -> Vec<Incident> {
    let mut due: Vec<Incident> =
        state.incidents.extract_if(.., |incident| incident.at.get() <= second).collect();
    due.sort_by(|one, other| one.at.get().total_cmp(&other.at.get()));
    due
}

pub(super) fn apply_incident(
    testbed: &Testbed,
    scenario: &Scenario,
    model: &mut ClusterModel,
    incident: &Incident,
) {
    if incident.kind == IncidentKind::MetricsOutage {
        model.metrics.begin_outage(incident.source, model.now + incident.duration_seconds());
        return;
    }
    // Valid incidents of the other kinds have a workload.
    let workload = incident.workload.as_ref().and_then(|name| scenario.workload(name));
    let Some(id) = workload.map(WorkloadId::for_spec) else { return };
    match (incident.kind, incident.replicas) {
        (IncidentKind::Rollout, _) => restart_rollout(testbed, &id, model.now),
        (IncidentKind::ManualScale, Some(replicas)) => set_replicas(testbed, &id, replicas),
        _ => model.affect_pods(&id, incident),
    }
}

/// Starts a rollout as `kubectl rollout restart` does.
fn restart_rollout(testbed: &Testbed, id: &WorkloadId, now: f64) {
    let annotation = "kubectl.kubernetes.io/restartedAt";
    let path = ["spec", "template", "metadata", "annotations", annotation];
    change_object(testbed, id, |object, _| {
        json_fields::set(object, &path, format!("second {now}"));
    });
}

fn set_replicas(testbed: &Testbed, id: &WorkloadId, replicas: u32) {
    change_object(testbed, id, |object, owner| {
        json_fields::set_pointer(object, &owner.paths.spec_replicas, json!(replicas));
    });
}

fn change_object(testbed: &Testbed, id: &WorkloadId, change: impl FnOnce(&mut Value, &Owner)) {
    let owner = list_owners(testbed).into_iter().find(|owner| {
        owner.kind == id.kind && owner.name() == id.name && owner.namespace() == id.namespace
    });
    let Some(owner) = owner else { return };
    let mut object = (*owner.object).clone();
    change(&mut object, &owner);
    // Can't fail: the stored object was valid, and the change keeps it valid.
    let _ = testbed.apply(object);
}
