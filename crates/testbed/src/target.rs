//! What a request works on.

use std::sync::Arc;

use crate::{
    error::{ApiError, Subject},
    registry::{Resource, Version},
    store::Id,
};

/// What an operation works on.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Target {
    pub(crate) fn id(&self) -> Id {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn subject(&self) -> Subject<'_> {
        self.resource.subject(&self.name)
    }

    pub(crate) fn served(&self) -> Result<&Version, ApiError> {
        self.resource.version(&self.version).ok_or_else(ApiError::no_such_path)
    }
}

/// What of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status, if that is apart.
    Main,
    /// The status alone.
    Status,
}
