mod resources;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use self::resources::Resources;
pub use self::resources::{
    ContainerResources, PodResources, ResourceAmount, ResourceAmounts, ResourceName,
};
use super::{OwnerReference, enums::open_enum};
use crate::selector::{Selector, exceed_label_limits};

open_enum! {
    /// The phase of a pod (`status.phase`).
    PodPhase {
        /// All containers have terminated, at least one in failure.
        Failed = "Failed",
        /// Not all containers have started.
        Pending = "Pending",
        /// At least one container is running.
        Running = "Running",
        /// All containers have terminated in success.
        Succeeded = "Succeeded",
    }
}

/// The part of a core/v1 Pod that a decision reads, in a form small enough to keep all pods of a
/// cluster in memory. It deserializes from the JSON of the whole Pod.
///
/// Name, labels and resources are reference-counted, so that a cache can keep one copy for all pods
/// of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// The pod's name, unique within one decision.
    pub name: Arc<str>,
    /// The pod's labels, sorted by key.
    pub labels: Arc<[(Box<str>, Box<str>)]>,
    /// Whether the pod has more labels than
    /// [selectors match](crate::selector::exceed_label_limits). [`Pod::labels`] is then empty.
    pub exceeds_label_limits: bool,
    /// Whether the pod is being deleted.
    pub terminating: bool,
    /// Whether the scheduler can't place the pod: its condition `PodScheduled` is false with the
    /// reason `Unschedulable`.
    pub unschedulable: bool,
    /// The pod's phase.
    pub phase: PodPhase,
    /// The time at which the kubelet acknowledged the pod.
    pub start_time: Option<Timestamp>,
    /// The pod's `Ready` condition, if it is set.
    pub ready: Option<ReadyCondition>,
    /// The requests and limits.
    pub resources: Arc<PodResources>,
    /// The object that manages the pod, such as a ReplicaSet.
    pub controller: Option<Arc<OwnerReference>>,
}

/// A pod's `Ready` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Whether the pod is ready, or `None` if the status is neither `True` nor `False`.
    pub status: Option<bool>,
    /// The time of the last change of the status. Go's zero time if it is absent on the wire.
    pub last_transition_time: Timestamp,
}

/// The part of a Pod's `spec` that [`Pod`] is made from, in its wire form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    #[serde(deserialize_with = "super::null_as_empty")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "super::null_as_empty")]
    init_containers: Vec<Container>,
    resources: Option<Resources>,
}

/// The part of a Pod's `status` that [`Pod`] is made from, in its wire form.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    phase: PodPhase,
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "super::null_as_empty")]
    conditions: Vec<PodCondition>,
    #[serde(deserialize_with = "super::null_as_empty")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "super::null_as_empty")]
    init_container_statuses: Vec<ContainerStatus>,
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    name: Box<str>,
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
    #[serde(rename = "type")]
    condition_type: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: Box<str>,
    resources: Option<Resources>,
    restart_policy: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WirePod {
    metadata: super::ObjectMeta,
    spec: PodSpec,
    status: PodStatus,
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let WirePod { metadata, spec, status } = WirePod::deserialize(deserializer)?;
        let terminating = metadata.deletion_timestamp.is_some();
        let pod = Self::new(metadata.name.into(), metadata.labels, terminating, &spec, &status);
        Ok(pod.owned_by(&metadata.owner_references))
    }
}

impl Pod {
    /// Makes a pod from the parts of the API object.
    pub fn new(
        name: Arc<str>,
        labels: impl IntoIterator<Item = (String, String)>,
        terminating: bool,
        spec: &PodSpec,
        status: &PodStatus,
    ) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let exceeds_label_limits =
            exceed_label_limits(labels.iter().map(|(key, value)| (&**key, &**value)));
        if exceeds_label_limits {
            labels.clear();
        }
        labels.sort_unstable();
        let condition = |condition_type: &str| {
            status.conditions.iter().find(|one| one.condition_type == condition_type)
        };
        Self {
            name,
            labels: labels.into(),
            exceeds_label_limits,
            terminating,
            unschedulable: condition("PodScheduled").is_some_and(PodCondition::is_unschedulable),
            phase: status.phase.clone(),
            start_time: status.start_time,
            ready: condition("Ready").map(ReadyCondition::from),
            resources: Arc::new(PodResources::new(spec, status)),
            controller: None,
        }
    }

    /// Sets [`Pod::controller`] by the pod's owners.
    #[must_use]
    pub fn owned_by(mut self, owners: &[OwnerReference]) -> Self {
        self.controller = OwnerReference::of_controller(owners).cloned().map(Arc::new);
        self
    }

    /// The value of the label `key`, if the pod has it.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(candidate, _)| candidate.as_ref().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_ref())
    }

    /// Whether the selector matches the pod's labels. No selector matches a pod that
    /// [exceeds the limits](Pod::exceeds_label_limits).
    pub fn is_selected_by(&self, selector: &Selector) -> bool {
        !self.exceeds_label_limits && selector.matches_by(|key| self.label(key))
    }

    /// Whether the pod neither has finished nor is being deleted.
    pub fn is_active(&self) -> bool {
        !self.terminating && !matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded)
    }

    /// Whether the pod is running and ready. `value` targets count such pods, including terminating
    /// ones.
    pub fn is_running_and_ready(&self) -> bool {
        self.phase == PodPhase::Running
            && self.ready.is_some_and(|ready| ready.status == Some(true))
    }
}

impl PodCondition {
    fn is_unschedulable(&self) -> bool {
        self.status == "False" && self.reason.as_deref() == Some("Unschedulable")
    }
}

/// Go's zero time, 0001-01-01. Absent times compare like it.
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
