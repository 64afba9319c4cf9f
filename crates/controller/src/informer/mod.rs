//! Watches that keep the caches up to date.

pub mod handlers;
pub(crate) mod stream;
