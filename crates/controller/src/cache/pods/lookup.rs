//! Access to the cached pods for code outside the controller.

use std::sync::{Arc, OnceLock};

use hpa_calc::{api::Pod, selector::Selector};

use super::Pods;

/// The pods of a running controller, for a metrics source that selects pods itself.
#[derive(Clone, Debug, Default)]
pub struct PodLookup(Arc<OnceLock<Arc<Pods>>>);

impl PodLookup {
    /// Connects the cache of a controller. Only the first one counts.
    pub(crate) fn attach(&self, pods: Arc<Pods>) {
        _ = self.0.set(pods);
    }

    /// The selected pods, sorted by name. `None` if the controller has not started, or some pods
    /// of the namespace are missing in its cache.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let index = self.0.get()?.index(namespace)?;
        (!index.is_incomplete(namespace)).then(|| index.select(namespace, selector))
    }
}
