//! The mutable state of the server.

use crate::{registry::Registry, store::Store};

/// The stored objects, and the resources that are served: built-in ones and those of CRDs.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}
