//! Kinds and keys of schedules.

use std::fmt;

use hpa_calc::api::CrossVersionObjectReference;
use hpa_metrics::resource::GroupResource;
use kube::core::{ApiResource, GroupVersionKind};

pub(in crate::schedules) const GROUP: &str = "zalando.org";
pub(super) const VERSION: &str = "v1";

/// A kind of schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScheduleKind {
    /// `ScalingSchedule`, for the autoscalers of its namespace.
    Namespaced,
    /// `ClusterScalingSchedule`, for all autoscalers.
    Cluster,
}

impl ScheduleKind {
    pub(super) const ALL: [Self; 2] = [Self::Namespaced, Self::Cluster];

    /// The kind in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaced => "ScalingSchedule",
            Self::Cluster => "ClusterScalingSchedule",
        }
    }

    fn plural(self) -> &'static str {
        match self {
            Self::Namespaced => "scalingschedules",
            Self::Cluster => "clusterscalingschedules",
        }
    }

    pub fn resource(self) -> GroupResource {
        GroupResource::new(GROUP, self.plural())
    }

    /// The kind of a resource, whose name may be plural or singular. The group may be missing.
    pub(super) fn for_resource(resource: &GroupResource) -> Option<Self> {
        let is_group = resource.group.is_empty() || resource.group == GROUP;
        let name = resource.resource.as_str();
        let is_named =
            |kind: &Self| name == kind.plural() || kind.plural().strip_suffix('s') == Some(name);
        Self::ALL.into_iter().find(is_named).filter(|_| is_group)
    }

    pub(super) fn api_resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk(GROUP, VERSION, self.name());
        ApiResource::from_gvk_with_plural(&kind, self.plural())
    }
}

/// Identifies a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleKey {
    pub kind: ScheduleKind,
    /// Empty for a `ClusterScalingSchedule`.
    pub namespace: String,
    pub name: String,
}

impl ScheduleKey {
    /// The key of a schedule that autoscalers in `namespace` use.
    pub fn new(kind: ScheduleKind, namespace: &str, name: &str) -> Self {
        let namespace = if kind == ScheduleKind::Cluster { "" } else { namespace };
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Whether the schedule has this kind, and is for the autoscalers of a namespace. An empty
    /// namespace means all.
    pub(super) fn is_in(&self, kind: ScheduleKind, namespace: &str) -> bool {
        let is_all = kind == ScheduleKind::Cluster || namespace.is_empty();
        self.kind == kind && (is_all || self.namespace == namespace)
    }

    /// The schedule that an autoscaler in `namespace` refers to by `describedObject`. `None` if the
    /// object is not a schedule.
    pub fn for_object(namespace: &str, object: &CrossVersionObjectReference) -> Option<Self> {
        if !object.is_scaling_schedule() {
            return None;
        }
        let kind = ScheduleKind::ALL.into_iter().find(|kind| kind.name() == object.kind)?;
        Some(Self::new(kind, namespace, &object.name))
    }
}

impl fmt::Display for ScheduleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        match kind {
            ScheduleKind::Namespaced => write!(f, "{} {namespace}/{name}", kind.name()),
            ScheduleKind::Cluster => write!(f, "{} {name}", kind.name()),
        }
    }
}
