//! Resource names for the custom metrics API, whose paths name an object by its resource.

use std::error::Error;

use async_trait::async_trait;
use hpa_metrics::{ResourceNames, resource::GroupResource};

use super::{
    mapper::RestMapper,
    mapping::{GroupKind, MapperError},
};

#[async_trait]
impl ResourceNames for RestMapper {
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
        let kind = GroupKind { group: group.into(), kind: kind.into() };
        let mappings = self.mappings(&kind).await?;
        match mappings.first() {
            Some(mapping) => Ok(GroupResource::new(&mapping.group, &mapping.resource)),
            None => Err(MapperError::NoMatch { kind: kind.kind, group: kind.group }.into()),
        }
    }
}
