//! The pods of the cluster, small in memory and quick to select.

mod index;
mod namespace;
mod scoped;
#[cfg(test)]
mod tests;

pub use index::PodIndex;
pub use scoped::Pods;
