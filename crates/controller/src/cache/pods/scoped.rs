use std::sync::Arc;

use hpa_calc::{api::Pod, selector::Selector};

use super::PodIndex;
use crate::scope::Scope;

/// The pods that are known: an index for each scope, since each is fed by a watch of its own.
#[derive(Debug)]
pub enum Pods {
    /// Of all namespaces.
    All(PodIndex),
    /// Of the namespaces that are looked at.
    ByNamespace(hashbrown::HashMap<String, PodIndex>),
}

impl Pods {
    /// Empty indexes for these scopes.
    pub fn for_scopes(scopes: &[Scope]) -> Self {
        let namespaces: Option<_> =
            scopes.iter().map(|scope| Some((scope.clone()?, PodIndex::new()))).collect();
        namespaces.map_or_else(|| Self::All(PodIndex::new()), Self::ByNamespace)
    }

    /// The index that has a namespace's pods, if they are looked at.
    pub fn index(&self, namespace: &str) -> Option<&PodIndex> {
        match self {
            Self::All(index) => Some(index),
            Self::ByNamespace(indexes) => indexes.get(namespace),
        }
    }

    /// The pods of a namespace that a selector matches, sorted by name.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Pod>> {
        self.index(namespace).map(|index| index.select(namespace, selector)).unwrap_or_default()
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        match self {
            Self::All(index) => index.len(),
            Self::ByNamespace(indexes) => indexes.values().map(PodIndex::len).sum(),
        }
    }

    /// Whether there is no pod at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
