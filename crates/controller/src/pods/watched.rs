use hpa_calc::api::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// A core/v1 Pod as it is read from a watch: its metadata, and of spec and status what [`Pod`] is made from. The rest
/// is skipped while reading.
///
/// It is what kube's `watcher` is asked for (`Api<WatchedPod>`); to be turned into a [`Pod`] at once and dropped.
#[derive(Clone, Debug, Deserialize, kube::Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Pod)]
pub struct WatchedPod {
    /// The object's metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The containers and their requests.
    #[serde(default)]
    pub spec: PodSpec,
    /// Phase, start time and conditions.
    #[serde(default)]
    pub status: PodStatus,
}

impl WatchedPod {
    /// The pod's namespace and the pod. A pod without a name or namespace, which no API server sends, gets empty ones.
    pub fn into_pod(self) -> (String, Pod) {
        let Self { metadata, spec, status } = self;
        let terminating = metadata.deletion_timestamp.is_some();
        let name = metadata.name.unwrap_or_default();
        let pod = Pod::new(name.into(), metadata.labels.unwrap_or_default(), terminating, &spec, &status);
        (metadata.namespace.unwrap_or_default(), pod)
    }
}
