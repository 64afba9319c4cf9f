//! Journal of a run: changes of replicas and who made them, versions of autoscalers, reconciles.

use std::{fmt, sync::Arc, time::Duration};

use hpa_controller::{Observer, Reconciled};
use hpa_test_harness::VirtualClock;
use hpa_testbed::{ChangeListener, ObjectChange};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// Who makes a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    /// The controller under test: everything that arrives as a request.
    #[default]
    Controller,
    /// A person or another tool.
    User,
    /// Other components of the cluster.
    Cluster,
}

/// A change of `spec.replicas`.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    pub(crate) at: Duration,
    pub(crate) target: String,
    pub(crate) by: Actor,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// One stored version of an autoscaler.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) at: Duration,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) spec: Value,
    pub(crate) is_scaled_to_zero: bool,
}

/// A completed reconcile, by its start time.
#[derive(Clone, Debug)]
pub(crate) struct Reconcile {
    pub(crate) at: Duration,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) current: i32,
    pub(crate) proposed: Option<i32>,
    pub(crate) scaled_to: Option<i32>,
    pub(crate) explanation: String,
}

#[derive(Default)]
struct Entries {
    acting: Actor,
    scalings: Vec<Scaling>,
    versions: Vec<Version>,
    reconciles: Vec<Reconcile>,
}

pub(crate) struct Journal {
    clock: VirtualClock,
    entries: Mutex<Entries>,
    /// Notified when a Deployment changes.
    pub(crate) scaled: Notify,
}

impl Journal {
    pub(crate) fn new(clock: VirtualClock) -> Arc<Self> {
        Arc::new(Self { clock, entries: Mutex::default(), scaled: Notify::new() })
    }

    /// Attributes all changes made inside `act` to an actor.
    pub(crate) fn acting<T>(&self, actor: Actor, act: impl FnOnce() -> T) -> T {
        let before = std::mem::replace(&mut self.entries.lock().acting, actor);
        let done = act();
        self.entries.lock().acting = before;
        done
    }

    pub(crate) fn scalings(&self) -> Vec<Scaling> {
        self.entries.lock().scalings.clone()
    }

    pub(crate) fn versions(&self) -> Vec<Version> {
        self.entries.lock().versions.clone()
    }

    pub(crate) fn reconciles(&self) -> Vec<Reconcile> {
        self.entries.lock().reconciles.clone()
    }

    pub(crate) fn clear(&self) {
        let mut entries = self.entries.lock();
        *entries = Entries { acting: entries.acting, ..Entries::default() };
    }

    fn deployment_changed(&self, old: Option<&Value>, new: &Value) {
        let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap_or(1);
        let (from, to) = (old.map_or(-1, replicas), replicas(new));
        if from != to {
            let mut entries = self.entries.lock();
            let (at, by) = (self.clock.age(), entries.acting);
            entries.scalings.push(Scaling { at, target: name(new), by, from, to });
        }
        self.scaled.notify_one();
    }

    fn hpa_changed(&self, new: &Value) {
        let is_true = |condition: &Value| {
            condition["type"] == "ScaledToZero" && condition["status"] == "True"
        };
        let version = Version {
            at: self.clock.age(),
            name: name(new),
            uid: new["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            spec: new["spec"].clone(),
            is_scaled_to_zero: new["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(is_true)),
        };
        self.entries.lock().versions.push(version);
    }
}

/// All scalings and reconciles, in order.
impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock();
        let scalings = entries.scalings.iter().map(|one| (one.at, format!("{one:?}")));
        let reconciles = entries
            .reconciles
            .iter()
            .map(|one| (one.at, format!("{} {}", one.name, one.explanation)));
        let mut all: Vec<_> = scalings.chain(reconciles).collect();
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().try_for_each(|(at, what)| writeln!(f, "{at:?} {what}"))
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl ChangeListener for Journal {
    fn on_change(&self, change: &ObjectChange<'_>) {
        match (change.resource.plural, change.new) {
            ("deployments", Some(new)) => self.deployment_changed(change.old, new),
            ("deployments", None) => self.scaled.notify_one(),
            ("horizontalpodautoscalers", Some(new)) => self.hpa_changed(new),
            _ => {}
        }
    }
}

impl Observer for Journal {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let conclusion = reconciled.conclusion;
        let explanation = &conclusion.explanation;
        let reconcile = Reconcile {
            at: self.clock.age().saturating_sub(reconciled.duration),
            name: reconciled.key.name.to_string(),
            uid: reconciled.hpa.metadata.uid.clone(),
            current: explanation.current_replicas,
            proposed: explanation.proposed_replicas,
            scaled_to: conclusion.scaled_to,
            explanation: explanation.to_string(),
        };
        self.entries.lock().reconciles.push(reconcile);
    }
}
