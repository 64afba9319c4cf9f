//! Simulates the rest of the cluster: creates pods, which become ready after a while, replaces them
//! in rollouts, reports replicas, and serves metrics.

mod loads;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hpa_controller::Clock;
use hpa_testbed::Testbed;
use hpa_tests::harness::{VirtualClock, objects};
use serde_json::{Value, json};

pub(crate) use self::loads::{Loads, Metrics};
use crate::{
    journal::{Actor, Journal},
    targets::{Id, Kind},
};

/// The annotation of a target that starts a rollout when it changes.
pub(crate) const REVISION: &str = "revision";

/// The delays of the rest of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    /// From a pod's creation until it is ready. If zero, pods have been ready since 2020.
    pub(crate) startup: Duration,
    /// From a change of the pods until `status.replicas` reports it.
    pub(crate) status: Duration,
    /// The age of the load that the metrics APIs report.
    pub(crate) metrics: Duration,
}

/// Creates, replaces and deletes pods to match the targets.
pub(crate) struct Workloads {
    /// Whether the API server was restored. Pods may then be missing or have returned.
    pub(crate) is_restored: Arc<AtomicBool>,
    pub(crate) testbed: Testbed,
    pub(crate) journal: Arc<Journal>,
    pub(crate) loads: Arc<Loads>,
    pub(crate) clock: VirtualClock,
    pub(crate) delays: Delays,
}

/// A pod of a target.
#[derive(Clone, Debug)]
struct Pod {
    ready_at: Duration,
    is_ready: bool,
    revision: Value,
}

/// The pods of a target, by index.
#[derive(Debug, Default)]
struct Workload {
    pods: BTreeMap<i64, Pod>,
    /// The pods' labels.
    labels: Value,
    /// The pods' owner: the target itself.
    owner: Value,
    /// The time of the next write of `status.replicas`.
    status_due: Option<Duration>,
}

impl Workloads {
    /// Runs forever.
    pub(crate) async fn run(self) {
        let mut workloads = BTreeMap::new();
        loop {
            if self.is_restored.swap(false, Ordering::Relaxed) {
                workloads = self.restored();
            }
            let next = self.journal.act_as(Actor::Cluster, || self.update(&mut workloads));
            tokio::select! {
                () = self.journal.target_changes.notified() => {}
                () = self.clock.wait_until_age(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    }

    /// The workloads with the pods that the server has.
    fn restored(&self) -> BTreeMap<Id, Workload> {
        let mut workloads: BTreeMap<Id, Workload> = BTreeMap::new();
        self.loads.starting.lock().clear();
        for object in self.testbed.list("v1", "Pod") {
            let id = Id::of(&object);
            let Some((target, index)) = id.name.rsplit_once('-') else { continue };
            let is_ready = object["status"]["conditions"][0]["status"] == "True";
            let ready_at = self.clock.age() + self.delays.startup;
            let revision = object["metadata"]["annotations"][REVISION].clone();
            if !is_ready {
                self.loads.starting.lock().insert((id.namespace.clone(), id.name.clone()));
            }
            let workload = workloads.entry(Id::new(&id.namespace, target)).or_default();
            let index = index.parse().expect("an index");
            workload.pods.insert(index, Pod { ready_at, is_ready, revision });
        }
        workloads
    }

    /// Updates all workloads. Returns when the next update is due.
    fn update(&self, workloads: &mut BTreeMap<Id, Workload>) -> Option<Duration> {
        let mut gone: BTreeSet<Id> = workloads.keys().cloned().collect();
        let mut next = None;
        for kind in Kind::ALL {
            for object in self.testbed.list(kind.api_version(), kind.name()) {
                let id = Id::of(&object);
                gone.remove(&id);
                let workload = workloads.entry(id.clone()).or_default();
                let due = self.update_one(&id, object, workload);
                next = [next, due].into_iter().flatten().min();
            }
        }
        for id in gone {
            let workload = workloads.remove(&id).unwrap_or_default();
            workload.pods.keys().for_each(|index| self.delete(&id, *index));
        }
        next
    }

    fn update_one(&self, id: &Id, object: Value, workload: &mut Workload) -> Option<Duration> {
        let now = self.clock.age();
        let revision = object["metadata"]["annotations"][REVISION].clone();
        let desired = object["spec"]["replicas"].as_i64().unwrap_or(1);
        workload.labels = match &object["spec"]["template"]["metadata"]["labels"] {
            Value::Null => json!({ "app": id.name }),
            labels => labels.clone(),
        };
        let owner = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "name": id.name,
            "uid": object["metadata"]["uid"], "controller": true,
        });
        self.adopt_pods(id, workload, owner);
        self.finish_startups(id, workload);
        self.resize(id, workload, desired, &revision);
        let count = workload.pods.len();
        if object["status"]["replicas"].as_u64() == Some(count as u64) {
            workload.status_due = None;
        } else if *workload.status_due.get_or_insert(now + self.delays.status) <= now {
            workload.status_due = None;
            self.write_status(object, workload);
        }
        let starting = workload.pods.values().filter(|pod| !pod.is_ready).map(|pod| pod.ready_at);
        starting.chain(workload.status_due).min()
    }

    /// Makes the current target the owner of the pods. It may have replaced a target of the same
    /// name.
    fn adopt_pods(&self, id: &Id, workload: &mut Workload, owner: Value) {
        if workload.owner == owner {
            return;
        }
        workload.owner = owner;
        for (index, pod) in &workload.pods {
            self.testbed.apply(self.pod(id, *index, pod, workload)).expect("a pod");
        }
    }

    /// Marks pods as ready if their startup is over.
    fn finish_startups(&self, id: &Id, workload: &mut Workload) {
        let now = self.clock.age();
        let due = workload.pods.iter_mut().filter(|(_, pod)| !pod.is_ready && pod.ready_at <= now);
        let due: Vec<(i64, Pod)> = due
            .map(|(index, pod)| {
                pod.is_ready = true;
                (*index, pod.clone())
            })
            .collect();
        for (index, pod) in due {
            let object = self.pod(id, index, &pod, workload);
            self.loads.starting.lock().remove(&(id.namespace.clone(), pod_name(id, index)));
            self.loads.record_start(id);
            self.testbed.apply(object).expect("a pod");
        }
    }

    /// Creates and deletes pods. In a rollout, there is one surplus pod. Once enough pods are
    /// ready, an old one is deleted.
    fn resize(&self, id: &Id, workload: &mut Workload, desired: i64, revision: &Value) {
        loop {
            let count = number(workload.pods.len());
            let old = workload.pods.iter().find(|(_, pod)| pod.revision != *revision);
            let old = old.map(|(index, _)| *index);
            let ready = number(workload.pods.values().filter(|pod| pod.is_ready).count());
            let surge = i64::from(old.is_some() && desired > 0);
            if count < desired + surge {
                self.create(id, workload, revision);
            } else if count > desired + surge {
                let last = workload.pods.keys().next_back().copied();
                self.remove(id, workload, old.or(last));
            } else if old.is_some() && ready > desired {
                self.remove(id, workload, old);
            } else {
                return;
            }
        }
    }

    fn create(&self, id: &Id, workload: &mut Workload, revision: &Value) {
        let mut indices = 0..=number(workload.pods.len());
        let free = indices.find(|index| !workload.pods.contains_key(index));
        let index = free.expect("fewer pods than indices");
        let is_ready = self.delays.startup.is_zero();
        let ready_at = self.clock.age() + self.delays.startup;
        let pod = Pod { ready_at, is_ready, revision: revision.clone() };
        if !is_ready {
            self.loads.record_start(id);
            self.loads.starting.lock().insert((id.namespace.clone(), pod_name(id, index)));
        }
        self.testbed.apply(self.pod(id, index, &pod, workload)).expect("a pod");
        workload.pods.insert(index, pod);
    }

    fn remove(&self, id: &Id, workload: &mut Workload, index: Option<i64>) {
        let Some(index) = index else { return };
        workload.pods.remove(&index);
        self.delete(id, index);
    }

    fn delete(&self, id: &Id, index: i64) {
        let name = pod_name(id, index);
        // A restored server may not have the pod.
        _ = self.testbed.delete("v1", "Pod", &id.namespace, &name);
        self.loads.starting.lock().remove(&(id.namespace.clone(), name));
    }

    fn pod(&self, id: &Id, index: i64, pod: &Pod, workload: &Workload) -> Value {
        let mut object = objects::pod(&id.name, index);
        object["metadata"]["namespace"] = id.namespace.as_str().into();
        object["metadata"]["labels"] = workload.labels.clone();
        object["metadata"]["ownerReferences"] = json!([workload.owner]);
        if !pod.revision.is_null() {
            object["metadata"]["annotations"] = json!({ REVISION: pod.revision });
        }
        if !self.delays.startup.is_zero() {
            let time = |age: Duration| {
                let time = self.clock.now() - self.clock.age().saturating_sub(age);
                json!(time.round(jiff::Unit::Second).expect("a time").to_string())
            };
            let created = pod.ready_at.saturating_sub(self.delays.startup);
            object["status"]["startTime"] = time(created);
            object["status"]["conditions"] = json!([{
                "type": "Ready", "status": if pod.is_ready { "True" } else { "False" },
                "lastTransitionTime": time(if pod.is_ready { pod.ready_at } else { created }),
            }]);
        }
        object
    }

    fn write_status(&self, mut object: Value, workload: &Workload) {
        object["status"]["replicas"] = workload.pods.len().into();
        if object["kind"] == Kind::Deployment.name() {
            let ready = workload.pods.values().filter(|pod| pod.is_ready).count();
            object["status"]["readyReplicas"] = ready.into();
        }
        self.testbed.apply(object).expect("a status");
    }
}

fn pod_name(id: &Id, index: i64) -> String {
    format!("{}-{index}", id.name)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}
