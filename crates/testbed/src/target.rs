//! The target of a request.

use std::sync::Arc;

use crate::{
    error::{ApiError, ObjectReference},
    registry::{Resource, Version},
    store::ObjectId,
};

/// A resource in one version, with the namespace and name of an object, if any.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn id(&self) -> ObjectId {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn reference(&self) -> ObjectReference<'_> {
        self.resource.reference(&self.name)
    }

    pub(crate) fn served_version(&self) -> Result<&Version, ApiError> {
        self.resource.version(&self.version).ok_or_else(ApiError::unknown_resource)
    }
}

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    /// Everything except the status, if the resource has a status subresource.
    None,
    /// Only the status.
    Status,
}
