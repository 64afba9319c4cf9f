//! The journal of a run: changes of replicas with their actors, versions of autoscalers and leases,
//! requests and reconciles of each controller.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use hpa_controller::{Observer, ReconcileBeforeStatusWrite};
use hpa_testbed::{Action, ChangeListener, Interceptor, ObjectChange, RequestInfo};
use hpa_tests::harness::VirtualClock;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

use crate::targets::{Id, Kind};

/// The author of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A controller under test, or another client: the author of all changes by requests.
    Client,
    /// A person or another tool, whose changes the test applies without a request.
    User,
    /// Other components of the cluster.
    #[default]
    Cluster,
}

/// The time and number of an entry. The number orders entries with the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct When {
    pub(crate) at: Duration,
    number: u64,
}

impl When {
    /// Before all entries at this time.
    pub(crate) fn first_at(at: Duration) -> Self {
        Self { at, number: 0 }
    }
}

/// A change of `spec.replicas`.
#[derive(Clone, Debug)]
pub(crate) struct Scaling {
    pub(crate) when: When,
    pub(crate) target: Id,
    pub(crate) by: Actor,
    /// The client that made the change. Empty if it was not made by a request.
    pub(crate) instance: String,
    /// -1 if the target was created.
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// One stored version of an autoscaler, or its deletion.
#[derive(Clone, Debug)]
pub(crate) struct AutoscalerVersion {
    pub(crate) when: When,
    pub(crate) autoscaler: Id,
    pub(crate) uid: String,
    pub(crate) spec: Value,
    pub(crate) annotations: Value,
    pub(crate) is_scaled_to_zero: bool,
    pub(crate) is_deleted: bool,
    /// The client that wrote this version. `None` if it was not written by a request.
    pub(crate) instance: Option<String>,
}

/// A reconcile that has reached its conclusion. Its status write follows.
#[derive(Clone, Debug)]
pub(crate) struct Reconcile {
    pub(crate) started: Duration,
    pub(crate) concluded: When,
    pub(crate) instance: String,
    pub(crate) autoscaler: Id,
    pub(crate) uid: String,
    pub(crate) current: i64,
    pub(crate) desired: i64,
    pub(crate) scaled_to: Option<i64>,
    pub(crate) is_failed: bool,
    pub(crate) explanation: String,
}

/// The arrival of a request that is a write, or a GET of an autoscaler.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) when: When,
    pub(crate) instance: String,
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) object: Id,
}

/// One stored version of the lease.
#[derive(Clone, Debug)]
pub(crate) struct LeaseVersion {
    pub(crate) when: When,
    /// Empty after a release.
    pub(crate) holder: String,
}

/// The start and the end of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Lifetime {
    pub(crate) instance: String,
    pub(crate) started: When,
    pub(crate) ended: Option<When>,
}

/// All entries, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    /// The author of changes without a request.
    current_actor: Actor,
    count: u64,
    pub(crate) scalings: Vec<Scaling>,
    pub(crate) versions: Vec<AutoscalerVersion>,
    pub(crate) reconciles: Vec<Reconcile>,
    pub(crate) requests: Vec<Request>,
    pub(crate) leases: Vec<LeaseVersion>,
    pub(crate) lifetimes: Vec<Lifetime>,
}

impl Entries {
    fn next_when(&mut self, at: Duration) -> When {
        self.count += 1;
        When { at, number: self.count }
    }
}

pub(crate) struct Journal {
    clock: VirtualClock,
    entries: Mutex<Entries>,
    /// Notified when a target changes.
    pub(crate) target_changes: Notify,
}

impl Journal {
    pub(crate) fn new(clock: VirtualClock) -> Arc<Self> {
        Arc::new(Self { clock, entries: Mutex::default(), target_changes: Notify::new() })
    }

    /// Attributes the changes that `act` makes without a request to an actor.
    pub(crate) fn act_as<T>(&self, actor: Actor, act: impl FnOnce() -> T) -> T {
        let previous = std::mem::replace(&mut self.entries.lock().current_actor, actor);
        let result = act();
        self.entries.lock().current_actor = previous;
        result
    }

    pub(crate) fn entries(&self) -> Entries {
        self.entries.lock().clone()
    }

    pub(crate) fn scalings(&self) -> Vec<Scaling> {
        self.entries.lock().scalings.clone()
    }

    pub(crate) fn versions(&self) -> Vec<AutoscalerVersion> {
        self.entries.lock().versions.clone()
    }

    pub(crate) fn reconciles(&self) -> Vec<Reconcile> {
        self.entries.lock().reconciles.clone()
    }

    /// Removes all entries except lifetimes.
    pub(crate) fn clear(&self) {
        let mut entries = self.entries.lock();
        *entries = Entries {
            current_actor: entries.current_actor,
            count: entries.count,
            lifetimes: std::mem::take(&mut entries.lifetimes),
            ..Entries::default()
        };
    }

    /// An observer that records the reconciles of a controller.
    pub(crate) fn observer(self: &Arc<Self>, instance: &str) -> Arc<dyn Observer> {
        Arc::new(InstanceObserver { journal: self.clone(), instance: instance.to_owned() })
    }

    /// Records all requests before `interceptor` sees them.
    pub(crate) fn record_requests(
        self: &Arc<Self>,
        interceptor: Option<Arc<dyn Interceptor>>,
    ) -> Arc<dyn Interceptor> {
        Arc::new(Recorder { journal: self.clone(), interceptor })
    }

    pub(crate) fn record_start(&self, instance: &str) {
        let mut entries = self.entries.lock();
        let started = entries.next_when(self.clock.age());
        let instance = instance.to_owned();
        entries.lifetimes.push(Lifetime { instance, started, ended: None });
    }

    pub(crate) fn record_end(&self, instance: &str) {
        let mut entries = self.entries.lock();
        let now = entries.next_when(self.clock.age());
        let mut lifetimes = entries.lifetimes.iter_mut().rev();
        if let Some(lifetime) = lifetimes.find(|one| one.instance == instance) {
            lifetime.ended.get_or_insert(now);
        }
    }

    fn record_target_change(&self, change: &ObjectChange<'_>) {
        let replicas = |object: &Value| object["spec"]["replicas"].as_i64().unwrap_or(1);
        if let Some(new) = change.new {
            let (from, to) = (change.old.map_or(-1, replicas), replicas(new));
            if from != to {
                let mut entries = self.entries.lock();
                let when = entries.next_when(self.clock.age());
                let by = change.client.map_or(entries.current_actor, |_| Actor::Client);
                let instance = change.client.unwrap_or_default().to_owned();
                entries.scalings.push(Scaling {
                    when,
                    target: Id::of(new),
                    by,
                    instance,
                    from,
                    to,
                });
            }
        }
        self.target_changes.notify_one();
    }

    fn record_autoscaler_version(&self, change: &ObjectChange<'_>) {
        let is_scaled_to_zero = |condition: &Value| {
            condition["type"] == "ScaledToZero" && condition["status"] == "True"
        };
        let Some(object) = change.new.or(change.old) else { return };
        let conditions = object["status"]["conditions"].as_array();
        let mut entries = self.entries.lock();
        let version = AutoscalerVersion {
            when: entries.next_when(self.clock.age()),
            autoscaler: Id::of(object),
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            spec: object["spec"].clone(),
            annotations: object["metadata"]["annotations"].clone(),
            is_scaled_to_zero: conditions.is_some_and(|all| all.iter().any(is_scaled_to_zero)),
            is_deleted: change.new.is_none(),
            instance: change.client.map(str::to_owned),
        };
        entries.versions.push(version);
    }

    fn record_lease_version(&self, lease: &Value) {
        let mut entries = self.entries.lock();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        let when = entries.next_when(self.clock.age());
        entries.leases.push(LeaseVersion { when, holder });
    }
}

/// Prints scalings, reconciles, changes of the lease holder, starts and ends of controllers, in
/// order.
impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.entries.lock();
        let scalings = entries.scalings.iter().map(|one| {
            let Scaling { target, by, instance, from, to, .. } = one;
            (one.when, format!("{by:?} {instance} scales {target} from {from} to {to}"))
        });
        let reconciles = entries.reconciles.iter().map(|one| {
            let Reconcile { instance, autoscaler, started, explanation, .. } = one;
            (one.concluded, format!("{instance} {autoscaler} since {started:?}: {explanation}"))
        });
        let leases = entries.leases.iter().zip(entries.leases.iter().skip(1));
        let leases = leases.filter(|(before, after)| before.holder != after.holder);
        let leases = leases.map(|(_, one)| (one.when, format!("lease holder {:?}", one.holder)));
        let lifetimes = entries.lifetimes.iter().flat_map(|one| {
            let start = (one.started, format!("{} starts", one.instance));
            let end = one.ended.map(|ended| (ended, format!("{} has ended", one.instance)));
            [Some(start), end].into_iter().flatten()
        });
        let mut all: Vec<_> = scalings.chain(reconciles).chain(leases).chain(lifetimes).collect();
        all.sort_by_key(|(when, _)| *when);
        all.into_iter().try_for_each(|(when, text)| writeln!(f, "{:?} {text}", when.at))
    }
}

impl ChangeListener for Journal {
    fn on_change(&self, change: &ObjectChange<'_>) {
        match (change.resource.plural, change.new) {
            (plural, _) if Kind::from_plural(plural).is_some() => self.record_target_change(change),
            ("horizontalpodautoscalers", _) => self.record_autoscaler_version(change),
            ("leases", Some(lease)) => self.record_lease_version(lease),
            _ => {}
        }
    }
}

struct InstanceObserver {
    journal: Arc<Journal>,
    instance: String,
}

impl Observer for InstanceObserver {
    fn concluded(&self, reconcile: &ReconcileBeforeStatusWrite<'_>) {
        let conclusion = reconcile.conclusion;
        let explanation = &conclusion.explanation;
        let key = reconcile.key;
        let mut entries = self.journal.entries.lock();
        let concluded = entries.next_when(self.journal.clock.age());
        let reconcile = Reconcile {
            started: concluded.at.saturating_sub(reconcile.duration),
            concluded,
            instance: self.instance.clone(),
            autoscaler: Id::new(&key.namespace, &key.name),
            uid: reconcile.hpa.metadata.uid.clone(),
            current: explanation.current_replicas.into(),
            desired: explanation.desired_replicas.into(),
            scaled_to: conclusion.scaled_to.map(i64::from),
            is_failed: conclusion.error.is_some(),
            explanation: explanation.to_string(),
        };
        entries.reconciles.push(reconcile);
    }
}

struct Recorder {
    journal: Arc<Journal>,
    interceptor: Option<Arc<dyn Interceptor>>,
}

impl Interceptor for Recorder {
    fn intercept(&self, request: &RequestInfo) -> Action {
        let is_read = ["get", "list", "watch"].contains(&request.verb.as_str());
        let reads_autoscaler =
            request.verb == "get" && request.resource == "horizontalpodautoscalers";
        if !is_read || reads_autoscaler {
            let mut entries = self.journal.entries.lock();
            let when = entries.next_when(self.journal.clock.age());
            entries.requests.push(Request {
                when,
                instance: request.client.clone(),
                verb: request.verb.clone(),
                resource: request.resource.clone(),
                subresource: request.subresource.clone(),
                object: Id::new(&request.namespace, &request.name),
            });
        }
        self.interceptor.as_ref().map(|one| one.intercept(request)).unwrap_or_default()
    }
}

/// Groups entries by a key. Groups keep the order of the entries.
pub(crate) fn group_by<'a, K, T>(
    entries: &'a [T],
    key: impl Fn(&'a T) -> K,
) -> HashMap<K, Vec<&'a T>>
where
    K: std::hash::Hash + Eq,
{
    let mut groups: HashMap<K, Vec<&T>> = HashMap::new();
    for entry in entries {
        groups.entry(key(entry)).or_default().push(entry);
    }
    groups
}
