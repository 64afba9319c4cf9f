//! The controller's copy of the cluster's state: autoscalers, pods, selectors and scales.
//!
//! Caches only store. [`crate::informer`] keeps them up to date.

mod hpas;
mod pods;
mod resource_version;
mod scales;
mod selectors;
mod str_pair;
mod watch_age;

use std::sync::Arc;

pub use hpas::{Autoscaler, Autoscalers, Change, ErrorClass, FailureChange, Origin};
pub(crate) use hpas::{
    DecisionRun, DecisionSample, Decisions, MetricProposal, NextDue, PeerWrite, ReconcileDetail,
    RecordedDecision, desired_state_eq,
};
pub use pods::{PodIndex, PodLookup, Pods};
pub(crate) use scales::ScaleCache;
pub use selectors::SelectorIndex;
pub(crate) use str_pair::StrPair;
pub use watch_age::{WatchAge, WatchAges};

use crate::scope::Scope;

/// The caches that every reconcile reads.
#[derive(Clone, Debug)]
pub struct Caches {
    pub autoscalers: Arc<Autoscalers>,
    pub pods: Arc<Pods>,
    pub selectors: Arc<SelectorIndex>,
    /// How long ago the watches confirmed the caches, including those of the scales.
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
