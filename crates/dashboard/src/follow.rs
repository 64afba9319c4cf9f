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

/// The error of the request, if one failed.
pub(crate) fn kube_error(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        _ => None,
    }
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
    /// The error of the list or watch, until it works again.
    watch_error: Option<String>,
    /// Whether the API server forbids it.
    is_forbidden: bool,
    /// The errors of objects that could not be decoded, by name.
    rejected: BTreeMap<String, String>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            is_settled: false,
            watch_error: None,
            is_forbidden: false,
            rejected: BTreeMap::new(),
        }
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
    /// The reason why the objects may be incomplete.
    pub(crate) fn problem(&self) -> Option<String> {
        let rejected = || self.rejected.iter().map(|(name, error)| format!("{name}: {error}"));
        self.watch_error.clone().or_else(|| rejected().next())
    }

    /// The error of a list or watch that is forbidden.
    pub(crate) fn forbidden(&self) -> Option<String> {
        self.watch_error.clone().filter(|_| self.is_forbidden)
    }

    fn change<K: ResourceExt>(
        &mut self,
        change: Change<K>,
        decode: &impl Fn(&K) -> Result<T, String>,
    ) {
        self.is_settled = true;
        // A change shows that the watch works again. After most errors it continues without a list.
        self.watch_error = None;
        match change {
            Change::Replace(objects) => {
                self.items.clear();
                self.rejected.clear();
                for object in &objects {
                    self.apply(object, decode);
                }
            }
            Change::Apply(object) => self.apply(&object, decode),
            Change::Delete(object) => self.remove(&object.name_any()),
            Change::Failed(error) => {
                self.is_forbidden = status_code(&error) == Some(403);
                self.watch_error = Some(message(&error));
            }
        }
    }

    fn apply<K: ResourceExt>(&mut self, object: &K, decode: &impl Fn(&K) -> Result<T, String>) {
        let name = object.name_any();
        self.remove(&name);
        match decode(object) {
            Ok(item) => _ = self.items.insert(name, Arc::new(item)),
            Err(error) => _ = self.rejected.insert(name, error),
        }
    }

    fn remove(&mut self, name: &str) {
        self.items.remove(name);
        self.rejected.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{from_value, json};

    use super::*;

    fn object(name: &str, value: &str) -> ConfigMap {
        from_value(json!({ "metadata": { "name": name }, "data": { "value": value } })).unwrap()
    }

    /// Decodes numbers.
    fn decode(object: &ConfigMap) -> Result<i32, String> {
        let value = object.data.as_ref().and_then(|data| data.get("value")).unwrap();
        value.parse().map_err(|_| format!("{value} is not a number"))
    }

    fn failure() -> Change<ConfigMap> {
        Change::Failed(watcher::Error::NoResourceVersion)
    }

    fn after(changes: impl IntoIterator<Item = Change<ConfigMap>>) -> Objects<i32> {
        let mut objects = Objects::default();
        for change in changes {
            objects.change(change, &decode);
        }
        objects
    }

    #[test]
    fn watch_error_lasts_until_the_next_change() {
        assert!(after([failure()]).problem().is_some());
        let recoveries = [
            Change::Replace(Vec::new()),
            Change::Apply(object("a", "1")),
            Change::Delete(object("a", "1")),
        ];
        for recovery in recoveries {
            assert_eq!(after([failure(), recovery]).problem(), None);
        }
    }

    #[test]
    fn rejected_object_replaces_the_decoded_one() {
        let objects = after([Change::Apply(object("a", "1")), Change::Apply(object("a", "x"))]);
        assert!(objects.items.is_empty());
        assert_eq!(objects.problem().unwrap(), "a: x is not a number");
    }

    #[test]
    fn rejection_lasts_until_the_object_is_valid_or_deleted() {
        let rejected = || Change::Replace(vec![object("a", "x"), object("b", "2")]);
        assert_eq!(
            after([rejected(), failure(), Change::Apply(object("b", "3"))]).problem(),
            Some("a: x is not a number".to_owned())
        );
        assert_eq!(after([rejected(), Change::Apply(object("a", "1"))]).problem(), None);
        assert_eq!(after([rejected(), Change::Delete(object("a", "x"))]).problem(), None);
    }
}
