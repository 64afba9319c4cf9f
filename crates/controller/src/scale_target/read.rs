//! From a `scaleTargetRef` to the scale of its object.

use hpa_calc::{api::CrossVersionObjectReference, plan::ScaleReadError};

use super::{
    mapper::RestMapper,
    mapping::{GroupKind, MapperError, Mapping},
    scale::{ScaleClient, ScaleError, ScaleObject},
};

/// Why the target's scale could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct ScaleUnavailable {
    pub error: ScaleReadError,
    /// The target doesn't exist, as opposed to a failed request.
    pub is_gone: bool,
}

/// Reads the scale of a target, from the first resource of its kind that has an object of that
/// name.
pub async fn read_scale(
    mapper: &RestMapper,
    scales: &ScaleClient,
    namespace: &str,
    target: &CrossVersionObjectReference,
) -> Result<(ScaleObject, Mapping), ScaleUnavailable> {
    let kind = GroupKind::parse(&target.api_version, &target.kind).map_err(|error| {
        let error = ScaleReadError::InvalidApiVersion(error.to_string());
        ScaleUnavailable { is_gone: true, error }
    })?;
    let mappings = mapper.mappings(&kind).await.map_err(|error| ScaleUnavailable {
        is_gone: matches!(error, MapperError::NoMatch { .. }),
        error: ScaleReadError::UnknownKind(error.to_string()),
    })?;
    match scales.find(namespace, &mappings, &target.name).await {
        Ok((read, mapping)) => Ok((read, mapping.clone())),
        Err(error) => {
            let is_served = !matches!(error, ScaleError::NotServed(_));
            if !is_served {
                // The cached discovery is out of date.
                mapper.invalidate(&kind.group);
            }
            let is_gone = !is_served || matches!(error, ScaleError::NotFound(_));
            Err(ScaleUnavailable { is_gone, error: ScaleReadError::Read(error.to_string()) })
        }
    }
}
