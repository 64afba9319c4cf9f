//! The hasher for values that outlive the object they were computed from.

use std::{hash::RandomState, sync::LazyLock};

/// Hashes are keyed per process, so that collisions can't be crafted, and comparable for as long
/// as the process lives.
pub(crate) static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
