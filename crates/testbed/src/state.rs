//! Objects and resources of the server, behind its lock.

use crate::{registry::Registry, store::Store};

/// The stored objects and the served resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}
