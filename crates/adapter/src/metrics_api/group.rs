//! The metrics API groups and their versions.

use std::fmt;

use hpa_metrics::ApiGroups;

/// A metrics API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Custom,
    External,
    Resource,
}

impl Group {
    /// All groups, in the order of discovery.
    pub const ALL: [Self; 3] = [Self::Custom, Self::External, Self::Resource];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Custom => "custom.metrics.k8s.io",
            Self::External => "external.metrics.k8s.io",
            Self::Resource => "metrics.k8s.io",
        }
    }

    /// The installed groups, in the order of discovery.
    pub fn installed(groups: ApiGroups) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |group| group.is_in(groups))
    }

    pub const fn is_in(self, groups: ApiGroups) -> bool {
        match self {
            Self::Custom => groups.custom,
            Self::External => groups.external,
            Self::Resource => groups.resource,
        }
    }

    /// The served versions, by priority.
    pub const fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Custom => &["v1beta1", "v1beta2"],
            Self::External | Self::Resource => &["v1beta1"],
        }
    }
}

/// A group with a version: `metrics.k8s.io/v1beta1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    pub group: Group,
    pub version: &'static str,
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group.name(), self.version)
    }
}
