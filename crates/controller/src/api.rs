//! The APIs that autoscalers come from: Kubernetes' own, and one of ours with the same schema.

use std::fmt;

use hpa_calc::api::HorizontalPodAutoscaler;
use kube::{Resource, core::Request};

use crate::watched::{Watched, WatchedKind, WatchedMeta};

/// The API of an autoscaler. Objects of the two have nothing to do with each other, whatever their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AutoscalerApi {
    /// `autoscaling/v2`: that of Kubernetes.
    #[default]
    Core,
    /// `autoscaling.hpa-rs.dev/v2`: that of the `CustomResourceDefinition` of `hpa-crd`.
    Own,
}

impl AutoscalerApi {
    /// The group and version, as an object names them.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Core => "autoscaling/v2",
            Self::Own => hpa_crd::API_VERSION,
        }
    }

    /// Builds requests for its autoscalers in a namespace.
    pub(crate) fn request(self, namespace: &str) -> Request {
        let namespace = Some(namespace);
        Request::new(match self {
            Self::Core => Watched::<HorizontalPodAutoscaler>::url_path(&(), namespace),
            Self::Own => Watched::<OwnAutoscaler>::url_path(&(), namespace),
        })
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::Core, Self::Own];
}

impl fmt::Display for AutoscalerApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.api_version())
    }
}

/// A kind of autoscaler: it is read as the API has it and handled as if it were Kubernetes' own.
pub trait AutoscalerKind:
    WatchedKind + Into<HorizontalPodAutoscaler> + Clone + fmt::Debug + Send + Sync + 'static
{
    /// The API it belongs to.
    const API: AutoscalerApi;
}

impl AutoscalerKind for HorizontalPodAutoscaler {
    const API: AutoscalerApi = AutoscalerApi::Core;
}

/// An autoscaler of our own API. What a schema cannot default is defaulted here.
#[derive(Clone, Debug)]
pub struct OwnAutoscaler(HorizontalPodAutoscaler);

impl WatchedKind for OwnAutoscaler {
    const KIND: &'static str = hpa_crd::KIND;
    const GROUP: &'static str = hpa_crd::GROUP;
    const VERSION: &'static str = hpa_crd::VERSION;
    const PLURAL: &'static str = hpa_crd::PLURAL;

    fn decode(meta: WatchedMeta, spec: &str, status: &str) -> Result<Self, serde_json::Error> {
        HorizontalPodAutoscaler::decode(meta, spec, status).map(Self)
    }
}

impl From<OwnAutoscaler> for HorizontalPodAutoscaler {
    fn from(OwnAutoscaler(hpa): OwnAutoscaler) -> Self {
        hpa
    }
}

impl AutoscalerKind for OwnAutoscaler {
    const API: AutoscalerApi = AutoscalerApi::Own;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_versions_are_those_of_the_kinds() {
        assert_eq!(
            Watched::<HorizontalPodAutoscaler>::api_version(&()),
            AutoscalerApi::Core.api_version()
        );
        assert_eq!(Watched::<OwnAutoscaler>::api_version(&()), AutoscalerApi::Own.api_version());
    }

    #[test]
    fn empty_metrics_of_our_own_are_defaulted() {
        let watched: Watched<OwnAutoscaler> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3, "metrics": [] },
        }))
        .expect("an object");
        let hpa: HorizontalPodAutoscaler = watched.into_result().expect("it decodes").into();
        assert_eq!((hpa.spec.metrics.len(), hpa.spec.min_replicas), (1, Some(1)));
    }
}
