//! The resource and object that a request refers to.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use crate::{
    autoscaler_v1,
    error::{ApiError, ObjectReference},
    json_fields,
    registry::{Resource, Version},
    store::ObjectId,
};

/// The resource, version, namespace and name in a request. For a collection, the name is empty.
#[derive(Clone, Debug)]
pub(crate) struct RequestTarget {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl RequestTarget {
    pub(crate) fn id(&self) -> ObjectId {
        (self.namespace.clone(), self.name.clone())
    }

    pub(crate) fn reference(&self) -> ObjectReference<'_> {
        self.resource.reference(&self.name)
    }

    /// Converts a stored object to the requested version. For kinds other than autoscalers, only
    /// `apiVersion` differs.
    pub(crate) fn in_requested_version<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        let requested = self.resource.api_version(&self.version);
        if json_fields::str_at(object, "/apiVersion") == requested {
            return Cow::Borrowed(object);
        }
        if self.resource.is_core_autoscaler() {
            return Cow::Owned(autoscaler_v1::to_v1(object));
        }
        let mut object = object.clone();
        json_fields::set(&mut object, &["apiVersion"], requested);
        Cow::Owned(object)
    }

    pub(crate) fn served_version(&self) -> Result<&Version, ApiError> {
        self.resource.version(&self.version).ok_or_else(ApiError::unknown_resource)
    }
}

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    /// The whole object. If the status is a subresource, all but the status.
    None,
    /// Only the status.
    Status,
}
