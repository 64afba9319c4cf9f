//! A [`ClusterModel`] with one workload and its workload controller, in steps of a second. The
//! testbed runs the same model with API objects.

use std::{collections::BTreeMap, sync::Arc};

use hpa_calc::Pod;
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    file::Variant,
    other_pods::RunningPods,
    pod_template::PodTemplate,
    workload::{
        model::{ClusterModel, Container, Pod as ModelPod, Queue, Workload, WorkloadId},
        number,
        profile::PodProfile,
        rollout::{RevisionState, next_replicas},
        scenario::{Incident, IncidentKind, MAX_PODS, WorkloadSpec},
        stateful_set::StatefulSetSpec,
    },
};

/// The maximum number of pods that exist at a time, including the surge of a rollout and
/// terminating pods. Further pods are created once others are gone, as with a `ResourceQuota`.
const MAX_EXISTING_PODS: usize = 2 * MAX_PODS as usize;

/// The modelled cluster, and the state of the controller of its only workload.
pub(crate) struct Cluster {
    pub(crate) model: ClusterModel,
    start: Timestamp,
    id: WorkloadId,
    /// `spec.replicas`.
    pub(crate) replicas: u32,
    /// `status.replicas`.
    pub(crate) status_replicas: u32,
    kind: WorkloadKind,
    /// `spec.minReadySeconds`.
    min_ready: f64,
    /// The `ReplicaSet`s, oldest first. The last one has the current template. Not used for a
    /// `StatefulSet`.
    revisions: Vec<Revision>,
    /// The number of rollouts that have started.
    rollouts: u32,
    /// The incidents that have not happened yet, in order of time.
    incidents: Vec<Incident>,
    /// Whether the next second needs a reconcile even if no pod changes.
    needs_reconcile: bool,
    template: PodTemplate,
    other_pods: Vec<RunningPods>,
    containers: Vec<Container>,
    /// The pods as the API returns them, by creation index.
    api_pods: BTreeMap<u64, Arc<Pod>>,
}

/// The workload at one time. Rates are in units per second.
#[derive(Clone, Copy, Default)]
pub(crate) struct ClusterState<'a> {
    pub(crate) offered: f64,
    /// The part of `offered` that the pods have capacity for.
    pub(crate) served: f64,
    /// Work that arrives in queues.
    pub(crate) arriving: f64,
    /// Work that the pods take from queues.
    pub(crate) drained: f64,
    /// `spec.replicas`.
    pub(crate) replicas: u32,
    /// Pods that are neither failed nor terminating.
    pub(crate) pods: u32,
    pub(crate) ready: u32,
    /// Pods needed for the load and the queues' arrivals, at the target load of the profile.
    pub(crate) needed: u32,
    pub(crate) queues: &'a [Queue],
}

/// The kind of the workload, by the controller that manages its pods.
#[derive(Clone)]
enum WorkloadKind {
    Deployment {
        strategy: Value,
    },
    StatefulSet(StatefulSetSpec),
    /// A `ReplicaSet`, a `ReplicationController` or a custom resource: without rollouts.
    ReplicaSet,
}

/// A `ReplicaSet`, or another object that owns pods with one template.
struct Revision {
    uid: String,
    replicas: u32,
}

impl Cluster {
    /// The cluster at the start, with its pods.
    pub(crate) fn new(variant: &Variant, start: Timestamp) -> Self {
        let Variant { scenario, workload: spec, .. } = variant;
        let profile = variant.profile();
        let template = PodTemplate::new(&spec.name, profile);
        let other_pods = variant.other_pods.iter().enumerate();
        let other_pods = other_pods.map(|(index, one)| one.create_pods(index, &template, start));
        let fields = spec.spec.as_ref();
        let field = |name: &str| fields.and_then(|fields| fields.get(name));
        let mut incidents = scenario.incidents.clone();
        incidents.sort_by(|one, other| one.at.get().total_cmp(&other.at.get()));
        let mut cluster = Self {
            model: ClusterModel::new(scenario),
            start,
            id: WorkloadId::for_spec(spec),
            replicas: spec.replicas,
            status_replicas: 0,
            kind: workload_kind(spec),
            min_ready: field("minReadySeconds").and_then(Value::as_f64).unwrap_or_default(),
            revisions: vec![Revision { uid: format!("{}-0", spec.name), replicas: 0 }],
            rollouts: 0,
            incidents,
            needs_reconcile: false,
            other_pods: other_pods.collect(),
            template,
            containers: containers(profile),
            api_pods: BTreeMap::new(),
        };
        if scenario.warm {
            cluster.warm_up();
        } else {
            cluster.reconcile();
        }
        cluster
    }

    /// Creates all pods of a warm start at once, with their age and their metrics.
    fn warm_up(&mut self) {
        let kind = self.kind.clone();
        if let WorkloadKind::StatefulSet(spec) = &mut self.kind {
            *spec = spec.in_parallel();
        }
        self.reconcile();
        self.kind = kind;
        self.model.warm_up();
        self.reconcile();
    }

    /// Advances the cluster to `second`.
    pub(crate) fn tick(&mut self, second: f64) {
        self.model.step(second);
        self.apply_incidents(second);
        let (mut has_finished, mut has_changed) = (false, self.needs_reconcile);
        for pod in self.model.pods() {
            has_finished |= pod.is_finished(second);
            has_changed |= pod.is_dirty;
        }
        if has_finished {
            self.model.retain_pods(|pod| !pod.is_finished(second));
        }
        if has_finished || has_changed {
            self.reconcile();
        }
    }

    /// Scales the workload. Its pods change in the next second.
    pub(crate) fn scale(&mut self, replicas: u32) {
        self.replicas = replicas;
        self.needs_reconcile = true;
    }

    /// The pods of the workload as the API returns them.
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        self.api_pods.values().cloned().collect()
    }

    /// The pods of other owners that run at `second`. The target's selector matches them.
    pub(crate) fn other_pods(&self, second: f64) -> impl Iterator<Item = &RunningPods> {
        self.other_pods.iter().filter(move |pods| pods.seconds.contains(&second))
    }

    /// The current state, without the delay and the noise of metrics.
    pub(crate) fn state(&self) -> ClusterState<'_> {
        let queues = &self.model.queues;
        let Some(workload) = self.workload() else {
            return ClusterState { queues, ..ClusterState::default() };
        };
        let (mut pods, mut ready) = (0, 0);
        for pod in workload.pods.values() {
            pods += u32::from(pod.lifecycle.is_active());
            ready += u32::from(pod.lifecycle.is_ready());
        }
        ClusterState {
            offered: workload.offered,
            served: workload.served,
            arriving: workload.arriving,
            drained: workload.drained,
            replicas: self.replicas,
            pods,
            ready,
            needed: workload.needed(),
            queues,
        }
    }

    pub(crate) fn workload(&self) -> Option<&Workload> {
        self.model.workloads.get(&self.id)
    }

    fn apply_incidents(&mut self, second: f64) {
        let due = self.incidents.partition_point(|incident| incident.at.get() <= second);
        for incident in self.incidents.drain(..due).collect::<Vec<_>>() {
            match incident.kind {
                IncidentKind::MetricsOutage => {
                    let until = self.model.now + incident.duration_seconds();
                    self.model.metrics.begin_outage(incident.source, until);
                }
                IncidentKind::Rollout => self.roll_out(),
                IncidentKind::ManualScale => {
                    if let Some(replicas) = incident.replicas {
                        self.scale(replicas);
                    }
                }
                IncidentKind::Crash
                | IncidentKind::Evict
                | IncidentKind::DeletePods
                | IncidentKind::Flap
                | IncidentKind::MissingSamples => self.model.affect_pods(&self.id, &incident),
            }
        }
    }

    fn roll_out(&mut self) {
        self.rollouts += 1;
        match self.kind {
            WorkloadKind::Deployment { .. } => {
                let uid = format!("{}-{}", self.id.name, self.rollouts);
                self.revisions.push(Revision { uid, replicas: 0 });
            }
            // Old and new pods have the same owner, so there is no new revision.
            WorkloadKind::StatefulSet(_) => {}
            // Existing pods keep their template.
            WorkloadKind::ReplicaSet => return,
        }
        self.needs_reconcile = true;
    }

    fn reconcile(&mut self) {
        let before = self.controller_inputs();
        // The pods of a huge `spec.replicas` must not exhaust the memory.
        let desired = self.replicas.min(MAX_PODS);
        match self.kind.clone() {
            WorkloadKind::Deployment { strategy } => self.reconcile_deployment(&strategy, desired),
            WorkloadKind::StatefulSet(mut spec) => {
                spec.replicas = desired;
                self.reconcile_stateful_set(spec);
            }
            WorkloadKind::ReplicaSet => {
                self.revisions.iter_mut().for_each(|revision| revision.replicas = desired);
                self.reconcile_revisions();
            }
        }
        let (now, min_ready) = (self.model.now, self.min_ready);
        let workload = self.model.workload_or_insert(&self.id);
        workload.desired = self.replicas;
        let active = || workload.pods.values().filter(|pod| pod.lifecycle.is_active());
        let ready = active().filter(|pod| pod.lifecycle.is_ready()).count();
        let is_available = |pod: &&ModelPod| pod.lifecycle.is_available(now, min_ready);
        // Ready pods become available without another change.
        let is_waiting = active().filter(is_available).count() < ready;
        self.status_replicas = number::count(active().count());
        self.needs_reconcile = is_waiting || self.controller_inputs() != before;
        self.update_api_pods();
    }

    /// The values on which the next reconcile depends. If a reconcile changes them, another one
    /// follows.
    fn controller_inputs(&self) -> (u32, Vec<u32>, usize) {
        let replicas = self.revisions.iter().map(|revision| revision.replicas).collect();
        (self.status_replicas, replicas, self.model.pods().filter(|pod| pod.is_dirty).count())
    }

    fn reconcile_deployment(&mut self, strategy: &Value, desired: u32) {
        let (now, min_ready) = (self.model.now, self.min_ready);
        let workload = self.model.workload_or_insert(&self.id);
        let states: Vec<RevisionState> = self
            .revisions
            .iter()
            .map(|Revision { uid, replicas }| {
                RevisionState::for_owner(workload, uid, *replicas, now, min_ready)
            })
            .collect();
        let Some((new, old)) = states.split_last() else { return };
        let current = self.revisions.last().map(|revision| revision.uid.as_str());
        let is_old = |uid: &str| Some(uid) != current;
        let (next, next_old) = next_replicas(workload, desired, strategy, *new, old, is_old);
        let next = next_old.into_iter().chain([next]);
        for (revision, replicas) in self.revisions.iter_mut().zip(next) {
            revision.replicas = replicas;
        }
        self.reconcile_revisions();
        self.remove_old_revisions();
    }

    /// Creates missing pods and terminates surplus pods.
    fn reconcile_revisions(&mut self) {
        let now = self.model.now;
        let revisions: Vec<(String, u32)> =
            self.revisions.iter().map(|one| (one.uid.clone(), one.replicas)).collect();
        for (uid, replicas) in revisions {
            let workload = self.model.workload_or_insert(&self.id);
            let missing = workload.terminate_surplus(&uid, replicas, now);
            for _ in 0..missing {
                let name = self.model.generate_name(&uid);
                self.create_pod(&name, &uid);
            }
        }
    }

    fn remove_old_revisions(&mut self) {
        let workload = self.model.workload_or_insert(&self.id);
        let current = self.revisions.pop();
        self.revisions.retain(|revision| {
            let has_pods = || workload.pods.values().any(|pod| pod.owner_uid == revision.uid);
            revision.replicas > 0 || has_pods()
        });
        self.revisions.extend(current);
    }

    fn reconcile_stateful_set(&mut self, spec: StatefulSetSpec) {
        let revision = self.rollouts.to_string();
        let (owner, now) = (self.id.name.clone(), self.model.now);
        let workload = self.model.workload_or_insert(&self.id);
        for ordinal in spec.reconcile(workload, &owner, &revision, now) {
            self.create_pod(&format!("{owner}-{ordinal}"), &owner);
        }
    }

    fn create_pod(&mut self, name: &str, owner_uid: &str) {
        if self.workload().is_some_and(|workload| workload.pods.len() >= MAX_EXISTING_PODS) {
            return;
        }
        let revision = self.rollouts.to_string();
        let mut pod = ModelPod::new(&self.id.namespace, name, owner_uid, &revision);
        pod.containers.clone_from(&self.containers);
        pod.is_dirty = true;
        self.model.add_pod(&self.id, pod);
    }

    fn update_api_pods(&mut self) {
        let (template, start, api_pods) = (&self.template, self.start, &mut self.api_pods);
        let Some(workload) = self.model.workloads.get_mut(&self.id) else { return };
        api_pods.retain(|index, _| workload.pods.get(*index).is_some());
        for pod in workload.pods.values_mut().filter(|pod| pod.is_dirty) {
            pod.is_dirty = false;
            api_pods.insert(pod.creation_index(), Arc::new(template.api_pod(pod, start)));
        }
    }
}

fn workload_kind(spec: &WorkloadSpec) -> WorkloadKind {
    let fields = Value::Object(spec.spec.clone().unwrap_or_default());
    match spec.kind.as_str() {
        "Deployment" => WorkloadKind::Deployment {
            strategy: fields.get("strategy").cloned().unwrap_or_default(),
        },
        "StatefulSet" => WorkloadKind::StatefulSet(StatefulSetSpec::new(spec.replicas, &fields)),
        _ => WorkloadKind::ReplicaSet,
    }
}

/// The containers of a pod: the main one, then the sidecars.
fn containers(profile: &PodProfile) -> Vec<Container> {
    let sidecars = profile.sidecars.iter();
    let sidecars = sidecars.map(|one| Container::new(&one.name, Some(one.usage())));
    [Container::new(&profile.container, None)].into_iter().chain(sidecars).collect()
}
