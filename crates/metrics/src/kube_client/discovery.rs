//! Chooses the version of an API.

use hpa_calc::readings::MetricsApi;
use serde::Deserialize;

use crate::MetricError;

pub(super) const fn group(api: MetricsApi) -> &'static str {
    match api {
        MetricsApi::Resource => "metrics.k8s.io",
        MetricsApi::Custom => "custom.metrics.k8s.io",
        MetricsApi::External => "external.metrics.k8s.io",
    }
}

/// Returns the versions of an API that this crate supports, in order of preference.
const fn known_versions(api: MetricsApi) -> &'static [&'static str] {
    match api {
        MetricsApi::Resource => &["v1", "v1beta1"],
        MetricsApi::Custom => &["v1beta2", "v1beta1"],
        MetricsApi::External => &["v1beta1"],
    }
}

/// Returns the version of an API if this crate knows only one. Discovery is then unnecessary.
pub(super) fn only_version(api: MetricsApi) -> Option<&'static str> {
    match known_versions(api) {
        [only] => Some(only),
        _ => None,
    }
}

/// Returns the first of the known versions that an `APIGroup` object lists.
pub(super) fn choose_version(
    api: MetricsApi,
    group: &ApiGroup,
) -> Result<&'static str, MetricError> {
    let served =
        |known: &&&str| group.versions.iter().flatten().any(|served| served.version == **known);
    known_versions(api).iter().find(served).copied().ok_or(MetricError::NoKnownVersion)
}

/// meta/v1 `APIGroup`.
#[derive(Debug, Deserialize)]
pub(super) struct ApiGroup {
    #[serde(default)]
    versions: Option<Vec<ServedVersion>>,
}

#[derive(Debug, Deserialize)]
struct ServedVersion {
    #[serde(default)]
    version: String,
}
