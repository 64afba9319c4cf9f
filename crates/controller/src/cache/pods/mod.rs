//! The cache of pods, with an index by namespace and label.

mod index;
mod namespace;
mod scoped;
#[cfg(test)]
mod tests;
mod undecodable;

pub use index::PodIndex;
pub use scoped::{PodLookup, Pods};
