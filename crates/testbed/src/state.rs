//! The mutable state of the server.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;

use crate::{registry::Registry, store::Store};

/// The stored objects, and the resources that are served: built-in ones and those of CRDs.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

/// The locked state while the request of a client is handled.
pub(crate) struct ClientState<'a> {
    state: MutexGuard<'a, State>,
}

impl<'a> ClientState<'a> {
    pub(crate) fn new(mut state: MutexGuard<'a, State>, client: &str) -> Self {
        state.store.set_client(Some(client));
        Self { state }
    }
}

impl Deref for ClientState<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for ClientState<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for ClientState<'_> {
    fn drop(&mut self) {
        self.state.store.set_client(None);
    }
}
