//! Requests whose queries can be shared.

use hpa_calc::Selector;

/// A request for objects of a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) selector: &'a Selector,
    pub(crate) names: &'a [String],
    /// Identifies the request when it is repeated. See [`super::Sharing::requester`].
    pub(crate) requester: u64,
    /// The number of single queries for these names.
    pub(crate) queries: usize,
}
