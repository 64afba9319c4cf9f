//! Lists and watches objects.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Resource, ResourceExt,
    core::Status,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinHandle};

/// Objects per response of a list.
const PAGE_SIZE: u32 = 500;

/// A change of the watched objects.
pub(crate) enum Change<K> {
    /// A complete list.
    Replace(Vec<K>),
    Apply(K),
    Delete(K),
    /// The list or watch failed. It is retried with a growing backoff.
    Failed(watcher::Error),
}

/// Calls `on_change` until it returns false.
pub(crate) async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    mut on_change: impl FnMut(Change<K>) -> bool,
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api, config.page_size(PAGE_SIZE)).default_backoff();
    let mut events = std::pin::pin!(events.into_stream());
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(object);
                continue;
            }
            Ok(Event::InitDone) => Change::Replace(std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => Change::Apply(object),
            Ok(Event::Delete(object)) => Change::Delete(object),
            Err(error) => Change::Failed(error),
        };
        if !on_change(change) {
            return;
        }
    }
}

/// The message of the API server, if it responded.
pub(crate) fn message(error: &watcher::Error) -> String {
    status(error).map_or_else(|| hpa_metrics::describe(error), |status| status.message.clone())
}

/// The HTTP status of the API server's response.
pub(crate) fn status_code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// The objects of a namespace by name, as last listed or watched.
#[derive(Clone, Debug)]
pub(crate) struct Objects<T> {
    pub(crate) items: BTreeMap<String, Arc<T>>,
    /// The first list is complete, or has failed.
    pub(crate) is_settled: bool,
    /// The reason why the objects may be incomplete.
    pub(crate) problem: Option<String>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), is_settled: false, problem: None }
    }
}

/// Lists and watches objects until it is dropped.
pub(crate) struct Follower<T> {
    objects: watch::Receiver<Objects<T>>,
    task: JoinHandle<()>,
}

impl<T: Send + Sync + 'static> Follower<T> {
    /// Starts to watch. An object that `decode` rejects is left out, and its error is reported.
    pub(crate) fn start<K>(
        api: Api<K>,
        config: watcher::Config,
        decode: impl Fn(&K) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (sender, objects) = watch::channel(Objects::default());
        let task = tokio::spawn(async move {
            follow(api, config, |change| {
                sender.send_modify(|objects| objects.change(change, &decode));
                !sender.is_closed()
            })
            .await;
        });
        Self { objects, task }
    }

    /// The objects as of now. `changed` notifies of later changes.
    pub(crate) fn objects(&mut self) -> Objects<T>
    where
        T: Clone,
    {
        self.objects.borrow_and_update().clone()
    }

    pub(crate) async fn changed(&mut self) {
        if self.objects.changed().await.is_err() {
            // The task has ended, which only a panic causes.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the first list is complete or has failed.
    pub(crate) async fn settled(&mut self) {
        let _ = self.objects.wait_for(|objects| objects.is_settled).await;
    }
}

impl<T> Drop for Follower<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> Objects<T> {
    fn change<K: ResourceExt>(
        &mut self,
        change: Change<K>,
        decode: &impl Fn(&K) -> Result<T, String>,
    ) {
        match change {
            Change::Replace(objects) => {
                self.items.clear();
                self.problem = None;
                for object in &objects {
                    self.apply(object, decode);
                }
            }
            Change::Apply(object) => self.apply(&object, decode),
            Change::Delete(object) => _ = self.items.remove(&object.name_any()),
            Change::Failed(error) => self.problem = Some(message(&error)),
        }
        self.is_settled = true;
    }

    fn apply<K: ResourceExt>(&mut self, object: &K, decode: &impl Fn(&K) -> Result<T, String>) {
        match decode(object) {
            Ok(item) => _ = self.items.insert(object.name_any(), Arc::new(item)),
            Err(error) => self.problem = Some(format!("{}: {error}", object.name_any())),
        }
    }
}
