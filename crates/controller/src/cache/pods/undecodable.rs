//! The pods that could not be decoded.

use hashbrown::{HashMap, HashSet};

/// Pods that the cache lacks, or has an old version of, because they could not be decoded.
#[derive(Debug, Default)]
pub(super) struct UndecodablePods {
    names: HashMap<Box<str>, HashSet<Box<str>>>,
    /// Whether there are pods whose name or namespace is unknown.
    has_unknown: bool,
}

impl UndecodablePods {
    /// Adds a pod. Unknown names and namespaces are empty strings.
    pub(super) fn add(&mut self, namespace: &str, name: &str) {
        if namespace.is_empty() || name.is_empty() {
            self.has_unknown = true;
        } else {
            self.names.entry(namespace.into()).or_default().insert(name.into());
        }
    }

    /// Removes a pod that was decoded or deleted.
    pub(super) fn remove(&mut self, namespace: &str, name: &str) {
        let Some(names) = self.names.get_mut(namespace) else { return };
        names.remove(name);
        if names.is_empty() {
            self.names.remove(namespace);
        }
    }

    /// Whether the cache may lack pods of the namespace, or have old versions of them.
    pub(super) fn affects(&self, namespace: &str) -> bool {
        self.has_unknown || self.names.contains_key(namespace)
    }
}
