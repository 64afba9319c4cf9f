//! What changes while the server runs.

use crate::{registry::Registry, store::Store};

/// What changes: the objects, and with the definitions the resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}
