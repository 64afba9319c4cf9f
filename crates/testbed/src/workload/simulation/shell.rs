//! A simulated second at a time: incidents, the model, and the objects in the testbed.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use serde_json::json;

use super::{
    Shared, State, deployments,
    owners::{self, Owner, controller_of},
    pods, replicas, stateful, status, time,
};
use crate::{
    Testbed, json, names,
    workload::{
        lifecycle,
        model::{Model, Pod, WorkloadId},
        number, random,
        scenario::{Incident, IncidentKind},
    },
};

/// How long an evicted pod stays to be looked at, in seconds.
const EVICTED_STAYS: f64 = 300.0;
/// How many steps what is created at the start needs at most to be complete, such as the pods of a `StatefulSet`.
const FIRST_STEPS: usize = 200;

/// Keeps the objects in the testbed and the model together.
pub(super) struct Shell {
    testbed: Testbed,
    shared: Arc<Shared>,
    /// The version up to which changes of objects were taken up.
    seen: u64,
    /// Whether there is more to do though nothing changed.
    behind: bool,
}

impl Shell {
    pub(super) fn new(testbed: Testbed, shared: Arc<Shared>) -> Self {
        Self { testbed, shared, seen: 0, behind: true }
    }

    /// Creates what there is at the start, already ready if the scenario is warm.
    pub(super) fn begin(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        let (start, model) = (state.start, &mut state.model);
        self.keep(model, start);
        if shared.scenario.warm {
            self.complete(model, start);
        }
    }

    /// Goes on until all pods are there, and makes them ready.
    fn complete(&mut self, model: &mut Model, start: Timestamp) {
        for _ in 0..FIRST_STEPS {
            let before = model.pods().count();
            for pod in model.pods_mut() {
                pod.lifecycle.age(crate::workload::model::WARM_AGE);
            }
            self.keep(model, start);
            if model.pods().count() == before {
                break;
            }
        }
        model.warm_up();
        self.keep(model, start);
    }

    /// Runs for good.
    pub(super) async fn run(mut self) {
        let start = self.shared.state.lock().start;
        let mut next = 1.0;
        loop {
            self.shared.clock.sleep_until(time(start, next)).await;
            self.tick(next);
            next += 1.0;
            // A clock that is too fast to follow must not keep others from running.
            tokio::task::yield_now().await;
        }
    }

    fn tick(&mut self, second: f64) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        let start = state.start;
        state.model.step(second);
        for incident in due(&mut state, second) {
            self.happen(&mut state.model, &incident);
        }
        self.bury(&mut state.model);
        self.flush(&mut state.model, start);
        let keys = owners::keys(&self.testbed);
        if self.behind || self.testbed.latest_of(&keys) != self.seen {
            self.keep(&mut state.model, start);
        }
        drop(state);
        shared.done.send_replace(second);
    }

    /// Removes the pods whose time is over.
    fn bury(&mut self, model: &mut Model) {
        let now = model.now;
        let is_over = |pod: &Pod| match pod.lifecycle.state {
            lifecycle::State::Terminating { until } => until <= now,
            lifecycle::State::Evicted { since } => now - since >= EVICTED_STAYS,
            _ => false,
        };
        let mut any = false;
        for pod in model.pods().filter(|pod| is_over(pod)) {
            // If it is gone already, all is well.
            let _ = self.testbed.delete("v1", "Pod", &pod.namespace, &pod.name);
            any = true;
        }
        if any {
            model.retain_pods(|pod| !is_over(pod));
        }
    }

    /// Writes the pods that changed.
    fn flush(&mut self, model: &mut Model, start: Timestamp) {
        let key = owners::pods();
        for pod in model.pods_mut().filter(|pod| pod.changed) {
            pod.changed = false;
            let id = (pod.namespace.clone(), pod.name.clone());
            self.testbed.modify(&key, &id, |object| pods::render(object, pod, start));
        }
    }

    /// Does what the controllers of a cluster do once.
    fn keep(&mut self, model: &mut Model, start: Timestamp) {
        let before = self.testbed.resource_version();
        self.forget_lost_pods(model);
        let found = owners::collect(&self.testbed);
        for deployment in found.iter().filter(|one| one.is("Deployment")) {
            deployments::keep(&self.testbed, model, deployment, &found);
        }
        self.remove_orphans(&found);
        let found = owners::collect(&self.testbed);
        replicas::release_orphans(model, &found);
        for owner in found.iter().filter(|one| !one.is("Deployment")) {
            if owner.is("StatefulSet") {
                stateful::keep(&self.testbed, model, owner);
            } else {
                replicas::keep(&self.testbed, model, owner);
            }
        }
        self.flush(model, start);
        let now = names::time(time(start, model.now));
        let mut waits = false;
        for owner in &found {
            waits |= status::write(&self.testbed, model, owner, &found, &now);
        }
        let existing: BTreeSet<WorkloadId> = found.iter().map(Owner::workload).collect();
        model.retain_workloads(|id| existing.contains(id));
        self.seen = self.testbed.latest_of(&owners::keys(&self.testbed));
        self.behind = waits || self.testbed.resource_version() != before;
    }

    /// Forgets the pods that somebody else removed.
    fn forget_lost_pods(&self, model: &mut Model) {
        let objects = self.testbed.objects(&owners::pods());
        let known: BTreeSet<&str> =
            objects.iter().map(|pod| json::text(pod, "/metadata/uid")).collect();
        if model.pods().any(|pod| !known.contains(pod.uid.as_str())) {
            model.retain_pods(|pod| known.contains(pod.uid.as_str()));
        }
    }

    /// Removes the `ReplicaSet`s of Deployments that are gone.
    fn remove_orphans(&self, found: &[Owner]) {
        let known: BTreeSet<&str> = found.iter().map(Owner::uid).collect();
        let is_orphan = |one: &&Owner| {
            one.is("ReplicaSet")
                && controller_of(&one.object).is_some_and(|(_, _, uid)| !known.contains(uid))
        };
        for one in found.iter().filter(is_orphan) {
            let _ = self.testbed.delete(&one.api_version, &one.kind, one.namespace(), one.name());
        }
    }

    fn happen(&mut self, model: &mut Model, incident: &Incident) {
        let until = model.now + incident.lasts();
        let Some(name) = &incident.workload else {
            if incident.kind == IncidentKind::MetricsOutage {
                model.begin_outage(incident.source, until);
            }
            return;
        };
        let Some(id) = self.resolve(model, name) else { return };
        match incident.kind {
            IncidentKind::Rollout => self.roll_out(model, &id),
            IncidentKind::ManualScale => self.scale(&id, incident.replicas.unwrap_or_default()),
            _ => strike(model, &id, incident, until),
        }
    }

    /// The workload of a name, or of a namespace and a name.
    fn resolve(&self, model: &Model, name: &str) -> Option<WorkloadId> {
        if let Some(spec) = self.shared.scenario.workload(name) {
            return Some(WorkloadId::of(spec));
        }
        let (namespace, name) = name.split_once('/')?;
        model.workloads.keys().find(|id| id.namespace == namespace && id.name == name).cloned()
    }

    fn owner(&self, id: &WorkloadId) -> Option<Owner> {
        owners::collect(&self.testbed).into_iter().find(|owner| {
            owner.kind == id.kind && owner.name() == id.name && owner.namespace() == id.namespace
        })
    }

    /// As `kubectl rollout restart` does.
    fn roll_out(&mut self, model: &Model, id: &WorkloadId) {
        let Some(owner) = self.owner(id) else { return };
        let mut object = (*owner.object).clone();
        let annotation = "kubectl.kubernetes.io/restartedAt";
        let when = format!("second {}", model.now);
        json::set(&mut object, &["spec", "template", "metadata", "annotations", annotation], when);
        self.apply(object);
    }

    fn scale(&mut self, id: &WorkloadId, replicas: u32) {
        let Some(owner) = self.owner(id) else { return };
        let mut object = (*owner.object).clone();
        let path: Vec<&str> = owner.paths.spec_replicas.split('/').skip(1).collect();
        json::set(&mut object, &path, json!(replicas));
        self.apply(object);
    }

    /// Stores an object that was stored before with another spec; what the server had, it takes.
    fn apply(&self, object: serde_json::Value) {
        let _ = self.testbed.apply(object);
    }
}

/// Takes the incidents whose time has come.
fn due(state: &mut State, second: f64) -> Vec<Incident> {
    let mut due: Vec<Incident> =
        state.incidents.extract_if(.., |one| one.at.get() <= second).collect();
    due.sort_by(|one, other| one.at.get().total_cmp(&other.at.get()));
    due
}

/// Lets something happen to some of a workload's pods.
fn strike(model: &mut Model, id: &WorkloadId, incident: &Incident, until: f64) {
    let (now, seed) = (model.now, model.seed);
    let Some(workload) = model.workloads.get_mut(id) else { return };
    let mut pods: Vec<&mut Pod> =
        workload.pods.values_mut().filter(|pod| pod.lifecycle.is_active()).collect();
    let mut rng = random::numbers(seed, random::hash(&["incident"]), now.to_bits());
    rng.shuffle(&mut pods);
    let most = incident.pods.unwrap_or(number::count(pods.len()));
    for pod in pods.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
        pod.changed = true;
        match incident.kind {
            IncidentKind::Crash => pod.lifecycle.crash(now),
            IncidentKind::Evict => pod.lifecycle.evict(now),
            IncidentKind::DeletePods => pod.lifecycle.terminate(now),
            IncidentKind::Flap => pod.lifecycle.flap(now, until - now),
            _ => pod.silent_until = until,
        }
    }
}
