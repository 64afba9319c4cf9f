//! Objects and resources of the server, behind its lock.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;

use crate::{registry::Registry, store::Store};

/// The stored objects and the served resources.
pub(crate) struct State {
    pub(crate) registry: Registry,
    pub(crate) store: Store,
}

/// The locked state. The store attributes changes to a client until the lock is released.
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
