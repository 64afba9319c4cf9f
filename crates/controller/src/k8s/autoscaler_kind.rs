//! The APIs that autoscalers come from: Kubernetes' own, and one of ours with the same schema.

use std::fmt;

use hpa_calc::api::HorizontalPodAutoscaler;
use kube::{Resource, core::Request};

use super::partial_object::{CachedKind, PartialMeta, PartialObject};
use crate::key::AutoscalerApi;

impl AutoscalerApi {
    /// Builds requests for its autoscalers in a namespace.
    pub(crate) fn request(self, namespace: &str) -> Request {
        let namespace = Some(namespace);
        Request::new(match self {
            Self::Core => PartialObject::<HorizontalPodAutoscaler>::url_path(&(), namespace),
            Self::Custom => PartialObject::<CustomAutoscaler>::url_path(&(), namespace),
        })
    }
}

/// A kind of autoscaler: it is read as the API has it and handled as if it were Kubernetes' own.
pub(crate) trait AutoscalerKind:
    CachedKind + Into<HorizontalPodAutoscaler> + Clone + fmt::Debug + Send + Sync + 'static
{
    /// The API it belongs to.
    const API: AutoscalerApi;
}

impl AutoscalerKind for HorizontalPodAutoscaler {
    const API: AutoscalerApi = AutoscalerApi::Core;
}

/// An autoscaler of our own API. What a schema cannot default is defaulted here.
#[derive(Clone, Debug)]
pub(crate) struct CustomAutoscaler(HorizontalPodAutoscaler);

impl CachedKind for CustomAutoscaler {
    const KIND: &'static str = hpa_crd::KIND;
    const GROUP: &'static str = hpa_crd::GROUP;
    const VERSION: &'static str = hpa_crd::VERSION;
    const PLURAL: &'static str = hpa_crd::PLURAL;

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, serde_json::Error> {
        HorizontalPodAutoscaler::decode(meta, spec, status).map(Self)
    }
}

impl From<CustomAutoscaler> for HorizontalPodAutoscaler {
    fn from(CustomAutoscaler(hpa): CustomAutoscaler) -> Self {
        hpa
    }
}

impl AutoscalerKind for CustomAutoscaler {
    const API: AutoscalerApi = AutoscalerApi::Custom;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_versions_are_those_of_the_kinds() {
        assert_eq!(
            PartialObject::<HorizontalPodAutoscaler>::api_version(&()),
            AutoscalerApi::Core.api_version()
        );
        assert_eq!(
            PartialObject::<CustomAutoscaler>::api_version(&()),
            AutoscalerApi::Custom.api_version()
        );
    }

    #[test]
    fn empty_metrics_of_our_own_are_defaulted() {
        let watched: PartialObject<CustomAutoscaler> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3, "metrics": [] },
        }))
        .expect("an object");
        let hpa: HorizontalPodAutoscaler = watched.decode().expect("it decodes").into();
        assert_eq!((hpa.spec.metrics.len(), hpa.spec.min_replicas), (1, Some(1)));
    }
}
