//! Autoscalers in responses of the API server.

use std::hash::BuildHasher;

use hpa_calc::api::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
};
use hpa_metrics::DecodeError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::partial_object::{PartialMeta, autoscaler, autoscaler_spec};
use crate::hash::HASHER;

/// An autoscaler as the API server stores it.
#[derive(Clone, Debug)]
pub(crate) struct StoredHpa {
    pub(crate) object: HorizontalPodAutoscaler,
    /// See [`HpaResponse::spec_hash`].
    pub(crate) spec_hash: u64,
}

/// An autoscaler in a response. Its spec is not decoded yet.
#[derive(Debug, Deserialize)]
pub(crate) struct HpaResponse<'a> {
    #[serde(default)]
    metadata: PartialMeta,
    #[serde(default, borrow)]
    spec: Option<&'a RawValue>,
    #[serde(default)]
    status: Option<HorizontalPodAutoscalerStatus>,
}

impl HpaResponse<'_> {
    /// Hash of the spec's JSON text. The API server encodes equal specs as equal text, so a spec
    /// whose hash is known needn't be decoded from each response to a status write.
    pub(crate) fn spec_hash(&self) -> u64 {
        HASHER.hash_one(self.spec.map(RawValue::get))
    }

    /// Decodes the object. If `known_spec` is given, the spec isn't decoded.
    pub(crate) fn decode(
        self,
        known_spec: Option<HorizontalPodAutoscalerSpec>,
    ) -> Result<HorizontalPodAutoscaler, DecodeError> {
        self.metadata.check_names()?;
        let decode = || autoscaler_spec(self.spec.map_or("null", RawValue::get));
        let spec = known_spec.map_or_else(decode, Ok)?;
        Ok(autoscaler(self.metadata, spec, self.status.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn response(text: &str) -> HpaResponse<'_> {
        serde_json::from_str(text).expect("an object")
    }

    fn text(spec: &Value) -> String {
        json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec, "status": null })
            .to_string()
    }

    #[test]
    fn spec_hash_depends_on_the_spec() {
        let [one, same, other] = [3, 3, 4].map(|max| text(&json!({ "maxReplicas": max })));
        assert_eq!(response(&one).spec_hash(), response(&same).spec_hash());
        assert_ne!(response(&one).spec_hash(), response(&other).spec_hash());
    }

    #[test]
    fn known_spec_is_not_decoded() {
        let text = text(&json!("not a spec"));
        response(&text).decode(None).expect_err("the spec is a string");
        let known = HorizontalPodAutoscalerSpec {
            max_replicas: 7,
            ..HorizontalPodAutoscalerSpec::default()
        };
        let hpa = response(&text).decode(Some(known.clone())).expect("the spec is known");
        assert_eq!(hpa.spec, known);
    }

    #[test]
    fn object_without_name_is_rejected() {
        let error = response("{}").decode(None).expect_err("no name");
        assert_eq!(error.to_string(), "the name or the namespace is missing");
    }
}
