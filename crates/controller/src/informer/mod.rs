//! Informers: lists and watches that keep the caches up to date.

mod autoscalers;
mod pods;
mod relist_timer;
mod rewind_check;
mod scales;
mod stream;
mod trigger;
mod undecodable;
mod watch_client;
mod watch_intervals;

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use tracing::warn;

pub use scales::ScaleInformers;
#[cfg(fuzzing)]
pub(crate) use scales::differential;
pub use trigger::ReconcileTrigger;
pub use watch_intervals::WatchIntervals;

use crate::{
    cache::Caches,
    k8s::{CachedKind, FieldManager, PartialObject},
    key::HpaKey,
    queue::WorkQueue,
    scope::Scope,
};

/// The informers of autoscalers and pods: the caches that they fill, and the work queue to which
/// they add new and changed autoscalers.
#[derive(Clone, Debug)]
pub struct Informers {
    pub caches: Caches,
    pub queue: Arc<WorkQueue<HpaKey>>,
    /// How many objects were skipped because they could not be decoded.
    pub undecodable: Arc<AtomicU64>,
    pub intervals: WatchIntervals,
    /// Whether the whole controller runs dry, so that autoscalers are compared with a peer's
    /// decisions instead of scaled.
    pub dry_run: bool,
    /// The field manager of this controller's status writes. A status write by any other one is a
    /// peer's. `None` if it writes none.
    pub field_manager: Option<FieldManager>,
}

impl Informers {
    /// Decodes an object. If that fails, counts and logs it under the name given.
    fn decode<K: CachedKind>(&self, name: impl Display, object: PartialObject<K>) -> Option<K> {
        let kind = K::KIND;
        object
            .decode()
            .inspect_err(|error| {
                self.undecodable.fetch_add(1, Ordering::Relaxed);
                warn!(%kind, object = %name, %error, "skipping an object that cannot be decoded");
            })
            .ok()
    }
}

fn api_in_scope<T>(client: Client, scope: &Scope) -> Api<T>
where
    T: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}
