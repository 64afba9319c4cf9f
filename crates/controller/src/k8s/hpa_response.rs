//! Autoscalers as an API server answers them to a request.

use std::hash::BuildHasher;

use hpa_calc::api::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::partial_object::{NAMELESS, PartialMeta, autoscaler, autoscaler_spec};
use crate::hash::HASHER;

/// An autoscaler as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredHpa {
    pub(crate) object: HorizontalPodAutoscaler,
    /// See [`HpaResponse::spec_hash`].
    pub(crate) spec_hash: u64,
}

/// An autoscaler in an answer, its spec to be decoded.
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
    /// Tells the texts of specs apart. An API server writes the same spec always in the same way, so that it need not be
    /// decoded with each answer to a status.
    pub(crate) fn spec_hash(&self) -> u64 {
        HASHER.hash_one(self.spec.map(RawValue::get))
    }

    /// The autoscaler, or why it cannot be decoded. `known_spec` is what its spec says, if that is known.
    pub(crate) fn decode(
        self,
        known_spec: Option<HorizontalPodAutoscalerSpec>,
    ) -> Result<HorizontalPodAutoscaler, String> {
        if !self.metadata.is_named() {
            return Err(NAMELESS.to_owned());
        }
        let decode = || autoscaler_spec(self.spec.map_or("null", RawValue::get));
        let spec = known_spec.map_or_else(decode, Ok).map_err(|error| error.to_string())?;
        Ok(autoscaler(self.metadata, spec, self.status.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(spec: &Value) -> String {
        json!({ "metadata": { "name": "web", "namespace": "shop" }, "spec": spec, "status": null })
            .to_string()
    }

    #[test]
    fn specs_are_told_apart_by_their_text() {
        let [one, same, other] = [3, 3, 4].map(|max| text(&json!({ "maxReplicas": max })));
        let hash = |text: &str| {
            serde_json::from_str::<HpaResponse<'_>>(text).expect("an object").spec_hash()
        };
        assert_eq!(hash(&one), hash(&same));
        assert_ne!(hash(&one), hash(&other));
    }

    #[test]
    fn spec_that_is_known_is_not_decoded() {
        let text = text(&json!("garbled"));
        let answered = || serde_json::from_str::<HpaResponse<'_>>(&text).expect("an object");
        answered().decode(None).expect_err("it is no spec");
        let known = HorizontalPodAutoscalerSpec {
            max_replicas: 7,
            ..HorizontalPodAutoscalerSpec::default()
        };
        assert_eq!(answered().decode(Some(known.clone())).expect("it is known").spec, known);
    }

    #[test]
    fn nameless_object_is_refused() {
        let answered: HpaResponse<'_> = serde_json::from_str("{}").expect("an object");
        assert_eq!(answered.decode(None), Err(NAMELESS.to_owned()));
    }
}
