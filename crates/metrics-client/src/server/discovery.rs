//! Which version of an API to ask.

use hpa_calc::readings::MetricsApi;
use serde::Deserialize;

use crate::FetchError;

/// The group of an API.
pub(super) const fn group_of(api: MetricsApi) -> &'static str {
    match api {
        MetricsApi::Resource => "metrics.k8s.io",
        MetricsApi::Custom => "custom.metrics.k8s.io",
        MetricsApi::External => "external.metrics.k8s.io",
    }
}

/// The versions of an API that this crate reads, best first.
const fn known_versions(api: MetricsApi) -> &'static [&'static str] {
    match api {
        MetricsApi::Resource => &["v1", "v1beta1"],
        MetricsApi::Custom => &["v1beta2", "v1beta1"],
        MetricsApi::External => &["v1beta1"],
    }
}

/// The only known version of an API, if there is but one: then there is nothing to discover.
pub(super) fn only_version(api: MetricsApi) -> Option<&'static str> {
    match known_versions(api) {
        [only] => Some(only),
        _ => None,
    }
}

/// The best known version that an `APIGroup` document lists.
pub(super) fn choose(api: MetricsApi, group: &ApiGroup) -> Result<&'static str, FetchError> {
    let served =
        |known: &&&str| group.versions.iter().flatten().any(|served| served.version == **known);
    known_versions(api).iter().find(served).copied().ok_or(FetchError::NoKnownVersion)
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
