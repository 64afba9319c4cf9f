//! The hasher for hashes that are stored and compared later, such as a spec's.

use std::{hash::RandomState, sync::LazyLock};

/// The keys are random, so that collisions can't be crafted, and stay the same until the process
/// exits, so that hashes can be compared.
pub(crate) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
