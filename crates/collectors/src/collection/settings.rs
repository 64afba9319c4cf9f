//! Which values are collected.

use std::{collections::BTreeSet, time::Duration};

use crate::Environment;

/// Settings of a [`Collection`](super::Collection).
#[derive(Clone, Debug)]
pub struct CollectionSettings {
    /// What decides which metrics can be collected.
    pub environment: Environment,
    /// The collectors that are on, by [`Source::collector`](crate::plan::Source::collector).
    pub collectors: BTreeSet<&'static str>,
    /// How old a value may be that can't be renewed. By default, two intervals of the metric.
    pub max_age: Option<Duration>,
    /// How many collections of each collector run at a time.
    pub concurrency: usize,
}

impl Default for CollectionSettings {
    /// Documents of pods and of endpoints.
    fn default() -> Self {
        Self {
            environment: Environment::default(),
            collectors: ["pods", "http"].into(),
            max_age: None,
            concurrency: 32,
        }
    }
}
