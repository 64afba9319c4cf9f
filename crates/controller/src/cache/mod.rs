//! The controller's copy of the cluster's state: autoscalers, pods, selectors and scales.
//!
//! Caches only store. [`crate::informer`] keeps them up to date.

mod hpas;
mod pods;
mod scales;
mod selectors;
mod watch_age;

use std::{hash::Hash, sync::Arc};

use hashbrown::Equivalent;

pub use hpas::{
    Autoscaler, Autoscalers, Change, DecisionSample, ErrorClass, FailureChange, Origin,
    overwritten_by_event,
};
pub(crate) use hpas::{
    DecisionRun, Decisions, MetricProposal, NextDue, PeerWrite, ReconcileDetail, desired_state_eq,
};
pub use pods::{PodIndex, PodLookup, Pods};
pub(crate) use scales::ScaleCache;
pub use selectors::SelectorIndex;
pub(crate) use watch_age::SuspensionDetector;
pub use watch_age::{WatchAge, WatchAges};

use crate::key::Scope;

/// The caches that reconciles read, apart from the scale caches.
#[derive(Clone, Debug)]
pub struct Caches {
    pub autoscalers: Arc<Autoscalers>,
    pub pods: Arc<Pods>,
    pub selectors: Arc<SelectorIndex>,
    /// The ages of all caches, including the scale caches.
    pub watch_ages: Arc<WatchAges>,
}

impl Caches {
    /// Empty caches for these scopes.
    pub fn new(scopes: &[Scope]) -> Self {
        Self {
            autoscalers: Arc::default(),
            pods: Arc::new(Pods::for_scopes(scopes)),
            selectors: Arc::default(),
            watch_ages: Arc::default(),
        }
    }
}

/// Whether one resource version is newer than another one of the same resource. Resource versions
/// are increasing numbers (KEP-5504). If one of them isn't a number, neither is newer.
pub(crate) fn is_newer(version: &str, than: &str) -> bool {
    let (version, than) = (version.parse::<u64>(), than.parse::<u64>());
    matches!((version, than), (Ok(version), Ok(than)) if version > than)
}

/// A borrowed pair of strings, to look up an owned pair without an allocation.
#[derive(Hash)]
pub(crate) struct StrPair<'a>(pub(crate) &'a str, pub(crate) &'a str);

impl Equivalent<(Box<str>, Box<str>)> for StrPair<'_> {
    fn equivalent(&self, key: &(Box<str>, Box<str>)) -> bool {
        *self.0 == *key.0 && *self.1 == *key.1
    }
}
