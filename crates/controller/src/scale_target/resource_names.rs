//! Resource names for the custom metrics API, whose paths name an object by its resource.

use async_trait::async_trait;
use hpa_metrics_client::ResourceNames;

use super::{GroupKind, RestMapper};

#[async_trait]
impl ResourceNames for RestMapper {
    async fn resource_for(&self, group: &str, kind: &str) -> Result<String, String> {
        let kind = GroupKind { group: group.into(), kind: kind.into() };
        let mappings = self.mappings(&kind).await.map_err(|error| error.to_string())?;
        let mapping = mappings
            .first()
            .ok_or_else(|| format!("no matches for kind {:?} in group {group:?}", kind.kind))?;
        Ok(mapping.to_string())
    }
}
