//! The kinds of autoscalers: the core API's, and the custom API's with the same schema.

use std::fmt;

use hpa_calc::api::HorizontalPodAutoscaler;
use kube::{Resource, core::Request};

use super::partial_object::{CachedKind, DecodeError, PartialMeta, PartialObject};
use crate::key::AutoscalerApi;

impl AutoscalerApi {
    /// Builds requests for autoscalers of this API in a namespace.
    pub(crate) fn request(self, namespace: &str) -> Request {
        let namespace = Some(namespace);
        Request::new(match self {
            Self::Core => PartialObject::<HorizontalPodAutoscaler>::url_path(&(), namespace),
            Self::Custom => PartialObject::<CustomAutoscaler>::url_path(&(), namespace),
        })
    }
}

/// A kind of autoscaler. Objects of every kind are converted to the core API's type.
pub(crate) trait AutoscalerKind:
    CachedKind + Into<HorizontalPodAutoscaler> + Clone + fmt::Debug + Send + Sync + 'static
{
    const API: AutoscalerApi;
}

impl AutoscalerKind for HorizontalPodAutoscaler {
    const API: AutoscalerApi = AutoscalerApi::Core;
}

/// An autoscaler of the custom API.
#[derive(Clone, Debug)]
pub(crate) struct CustomAutoscaler(HorizontalPodAutoscaler);

impl CachedKind for CustomAutoscaler {
    const KIND: &'static str = hpa_crd::KIND;
    const GROUP: &'static str = hpa_crd::GROUP;
    const VERSION: &'static str = hpa_crd::VERSION;
    const PLURAL: &'static str = hpa_crd::PLURAL;

    fn decode(meta: PartialMeta, spec: &str, status: &str) -> Result<Self, DecodeError> {
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
    fn api_versions_match_the_kinds() {
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
    fn empty_metrics_of_a_custom_autoscaler_are_defaulted() {
        let object: PartialObject<CustomAutoscaler> = serde_json::from_value(json!({
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": {
                "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                "maxReplicas": 3,
                "metrics": [],
            },
        }))
        .expect("an object");
        let hpa: HorizontalPodAutoscaler = object.decode().expect("a valid object").into();
        assert_eq!((hpa.spec.metrics.len(), hpa.spec.min_replicas), (1, Some(1)));
    }
}
