//! The groups of the metrics APIs, and their versions.

use std::fmt;

use hpa_calc::MetricsApi;
use hpa_metrics::ApiGroups;

/// The installed APIs, in the order of discovery.
pub fn installed_apis(groups: ApiGroups) -> impl Iterator<Item = MetricsApi> {
    let all = [MetricsApi::Custom, MetricsApi::External, MetricsApi::Resource];
    all.into_iter().filter(move |api| groups.has(*api))
}

/// The served versions, by priority.
pub const fn served_versions(group: MetricsApi) -> &'static [&'static str] {
    match group {
        MetricsApi::Custom => &["v1beta1", "v1beta2"],
        MetricsApi::External | MetricsApi::Resource => &["v1beta1"],
    }
}

/// A group with a version: `metrics.k8s.io/v1beta1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    pub group: MetricsApi,
    pub version: &'static str,
}

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group.group(), self.version)
    }
}
