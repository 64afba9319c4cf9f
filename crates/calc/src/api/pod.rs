use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::Deserialize;

use super::open_enum::open_enum;
use crate::quantity::{MilliValue, Quantity};

open_enum! {
    /// Where a pod is in its life (`status.phase`).
    PodPhase {
        /// A container ended in failure and none will be restarted.
        Failed = "Failed",
        /// Not all containers have started.
        Pending = "Pending",
        /// At least one container runs.
        Running = "Running",
        /// All containers ended well.
        Succeeded = "Succeeded",
    }
}

/// What a decision reads of a core/v1 Pod, in a form small enough to keep a cluster's pods in memory.
///
/// Name, labels and requests are shared: a cache that interns them keeps one copy for all pods of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// The pod's name; unique among the pods given to one decision.
    pub name: Arc<str>,
    /// The pod's labels, sorted by key.
    pub labels: Arc<[(Box<str>, Box<str>)]>,
    /// Whether its deletion was asked for.
    pub terminating: bool,
    /// Where it is in its life.
    pub phase: PodPhase,
    /// When the kubelet acknowledged it.
    pub start_time: Option<Timestamp>,
    /// Its Ready condition.
    pub ready: Option<ReadyCondition>,
    /// What its containers request.
    pub requests: Arc<PodRequests>,
}

/// A pod's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether the pod is ready; `None` for a status that is neither True nor False.
    pub status: Option<bool>,
    /// When the status last changed; absent on the wire it is the beginning of Go's time.
    pub last_transition_time: Timestamp,
}

/// A resource's name, with the two that have rules of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResourceName {
    /// `cpu`.
    Cpu,
    /// `memory`.
    Memory,
    /// Any other resource.
    Other(Box<str>),
}

impl ResourceName {
    /// The resource's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for ResourceName {
    fn from(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            other => Self::Other(other.into()),
        }
    }
}

impl std::fmt::Display for ResourceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A request for one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceRequest {
    /// The resource.
    pub resource: ResourceName,
    /// The amount, rounded up to milli-units.
    pub amount: MilliValue,
}

/// What one container requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerRequests {
    /// The container's name.
    pub name: Box<str>,
    /// Its requests.
    pub requests: Box<[ResourceRequest]>,
}

/// What a pod requests, by container and, where it says so itself, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRequests {
    /// The regular containers, then the restartable init containers (sidecars).
    pub containers: Box<[ContainerRequests]>,
    /// The effective requests of a pod with pod-level requests (KEP-2837); `None` for any other pod.
    pub pod_level: Option<Box<[ResourceRequest]>>,
}

/// The wire form of the part of `spec` that [`Pod`] is made from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    #[serde(default, deserialize_with = "super::null_as_empty")]
    containers: Vec<Container>,
    #[serde(default, deserialize_with = "super::null_as_empty")]
    init_containers: Vec<Container>,
    #[serde(default)]
    resources: Option<Resources>,
}

/// The wire form of the part of `status` that [`Pod`] is made from.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    #[serde(default)]
    phase: PodPhase,
    #[serde(default)]
    start_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "super::null_as_empty")]
    conditions: Vec<PodCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodCondition {
    #[serde(default, rename = "type")]
    condition_type: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    name: Box<str>,
    #[serde(default)]
    resources: Option<Resources>,
    #[serde(default)]
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Resources {
    #[serde(default, deserialize_with = "super::null_as_empty")]
    requests: BTreeMap<String, Quantity>,
}

#[derive(Deserialize)]
struct WirePod {
    #[serde(default)]
    metadata: super::ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WirePod { metadata, spec, status } = WirePod::deserialize(deserializer)?;
        let terminating = metadata.deletion_timestamp.is_some();
        Ok(Self::new(metadata.name.into(), metadata.labels, terminating, &spec, &status))
    }
}

impl Pod {
    /// Makes a pod from the parts of the API's object.
    pub fn new(
        name: Arc<str>,
        labels: impl IntoIterator<Item = (String, String)>,
        terminating: bool,
        spec: &PodSpec,
        status: &PodStatus,
    ) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        labels.sort_unstable();
        let ready = status.conditions.iter().find(|condition| condition.condition_type == "Ready");
        Self {
            name,
            labels: labels.into(),
            terminating,
            phase: status.phase.clone(),
            start_time: status.start_time,
            ready: ready.map(ReadyCondition::from),
            requests: Arc::new(PodRequests::from(spec)),
        }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(candidate, _)| candidate.as_ref().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_ref())
    }

    /// Whether the pod runs and is ready, as Value targets count it; a terminating pod still does.
    pub fn is_running_and_ready(&self) -> bool {
        self.phase == PodPhase::Running
            && self.ready.is_some_and(|ready| ready.status == Some(true))
    }
}

/// Go's zero time, 0001-01-01: what an absent time is in a comparison.
pub(crate) const GO_ZERO_TIME: Timestamp = Timestamp::constant(-62_135_596_800, 0);

impl From<&PodCondition> for ReadyCondition {
    fn from(condition: &PodCondition) -> Self {
        let status = match condition.status.as_str() {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        };
        Self {
            status,
            last_transition_time: condition.last_transition_time.unwrap_or(GO_ZERO_TIME),
        }
    }
}

impl Container {
    fn is_restartable(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    fn requests(&self) -> impl Iterator<Item = (&String, &Quantity)> {
        self.resources.iter().flat_map(|resources| &resources.requests)
    }
}

impl From<&Container> for ContainerRequests {
    fn from(container: &Container) -> Self {
        let requests = container
            .requests()
            .map(|(resource, amount)| ResourceRequest {
                resource: resource.as_str().into(),
                amount: amount.milli_value(),
            })
            .collect();
        Self { name: container.name.clone(), requests }
    }
}

impl From<&PodSpec> for PodRequests {
    fn from(spec: &PodSpec) -> Self {
        let sidecars = spec.init_containers.iter().filter(|container| container.is_restartable());
        Self {
            containers: spec
                .containers
                .iter()
                .chain(sidecars)
                .map(ContainerRequests::from)
                .collect(),
            pod_level: pod_level_requests(spec),
        }
    }
}

/// Amounts in nano-units, the finest a quantity keeps.
type Amounts<'a> = BTreeMap<&'a str, i128>;

/// The effective requests of a pod that says itself what it requests: its own word where it gives one, else what
/// its containers add up to, init containers being the minimum (KEP-753, KEP-2837). The pod's overhead is not part
/// of it (kubernetes#142154).
fn pod_level_requests(spec: &PodSpec) -> Option<Box<[ResourceRequest]>> {
    let own = &spec.resources.as_ref()?.requests;
    let own = own.iter().filter(|(resource, _)| is_pod_level_resource(resource));
    let mut effective = container_sum(spec);
    let mut any = false;
    for (resource, amount) in own {
        effective.insert(resource, amount.nano_value());
        any = true;
    }
    let requests = effective.into_iter().map(|(resource, nanos)| ResourceRequest {
        resource: resource.into(),
        amount: milli_from_nano(nanos),
    });
    any.then(|| requests.collect())
}

fn is_pod_level_resource(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

fn container_sum(spec: &PodSpec) -> Amounts<'_> {
    let mut sum = Amounts::new();
    for container in &spec.containers {
        add(&mut sum, container);
    }
    // While an init container runs, so do the sidecars before it.
    let mut sidecars = Amounts::new();
    let mut at_init = Amounts::new();
    for container in &spec.init_containers {
        if container.is_restartable() {
            add(&mut sum, container);
            add(&mut sidecars, container);
            raise(&mut at_init, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, container);
            raise(&mut at_init, &now);
        }
    }
    raise(&mut sum, &at_init);
    sum
}

fn add<'a>(sum: &mut Amounts<'a>, container: &'a Container) {
    for (resource, amount) in container.requests() {
        let entry = sum.entry(resource).or_default();
        *entry = entry.saturating_add(amount.nano_value());
    }
}

fn raise<'a>(to: &mut Amounts<'a>, least: &Amounts<'a>) {
    for (resource, amount) in least {
        let entry = to.entry(resource).or_insert(*amount);
        *entry = (*entry).max(*amount);
    }
}

fn milli_from_nano(nanos: i128) -> MilliValue {
    const NANOS_PER_MILLI: i128 = 1_000_000;
    let up = nanos.div_euclid(NANOS_PER_MILLI) + i128::from(nanos.rem_euclid(NANOS_PER_MILLI) != 0);
    i64::try_from(up)
        .map_or(if up < 0 { MilliValue::MIN } else { MilliValue::MAX }, MilliValue::from_milli)
}
