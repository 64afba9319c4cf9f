//! Lists, then watches objects of one kind.

use std::{collections::BTreeMap, fmt::Debug, future::pending, ops::ControlFlow, sync::Arc};

use futures::StreamExt;
use hpa_metrics::{StoredObject, decode_value, watch_events};
use kube::{
    Api, Resource, ResourceExt,
    core::Status,
    runtime::watcher::{self, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinHandle};

/// Objects per response of a list.
const PAGE_SIZE: u32 = 500;

/// A change of the watched objects, or a failure.
pub(crate) enum Change<K> {
    /// A complete list, which replaces all objects.
    Replace(Vec<K>),
    Apply(K),
    Delete(K),
    /// The list or watch failed. It is retried with backoff.
    Failed(watcher::Error),
}

/// Lists, then watches objects, until `on_change` breaks. Returns the value of the break.
pub(crate) async fn list_and_watch<K, B>(
    api: Api<K>,
    config: watcher::Config,
    mut on_change: impl FnMut(Change<K>) -> ControlFlow<B>,
) -> B
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = watch_events(api, config.page_size(PAGE_SIZE));
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
        if let ControlFlow::Break(value) = on_change(change) {
            return value;
        }
    }
    // Doesn't happen: a watcher retries forever.
    pending().await
}

/// Decodes an object. An error concerns only this object, and names the field.
pub(crate) fn decode<T: DeserializeOwned>(object: &StoredObject) -> Result<T, String> {
    let value = object.to_value().map_err(|error| error.to_string())?;
    decode_value(value).map_err(|error| error.to_string())
}

/// The message of the API server's response. Without a response, describes the error.
pub(crate) fn error_message(error: &watcher::Error) -> String {
    status(error).map_or_else(|| hpa_metrics::describe(error), |status| status.message.clone())
}

/// The HTTP status of the API server's response. `None` without a response.
pub(crate) fn status_code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

/// The error of the failed request. `None` if the watch failed for another reason, such as an error
/// event.
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
    /// Whether the first list is complete, or has failed.
    is_first_list_done: bool,
    /// The error of the list or watch, until it works again.
    watch_error: Option<String>,
    /// Whether the last error of the list or watch was a 403.
    is_forbidden: bool,
    /// The errors of undecodable objects, by name.
    undecodable: BTreeMap<String, String>,
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            is_first_list_done: false,
            watch_error: None,
            is_forbidden: false,
            undecodable: BTreeMap::new(),
        }
    }
}

/// Lists, then watches objects, and keeps them decoded. Dropping the informer stops the watch.
pub(crate) struct Informer<T> {
    objects: watch::Receiver<Objects<T>>,
    task: JoinHandle<()>,
}

impl<T: Send + Sync + 'static> Informer<T> {
    /// Starts the informer. If `decode` fails for an object, [`Objects::problem`] has the error.
    pub(crate) fn start<K>(
        api: Api<K>,
        config: watcher::Config,
        decode: impl Fn(&K) -> Result<T, String> + Send + Sync + 'static,
    ) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    {
        let (sender, objects) = watch::channel(Objects::default());
        let task = tokio::spawn(list_and_watch(api, config, move |change| {
            sender.send_modify(|objects| objects.apply_change(change, &decode));
            ControlFlow::Continue(())
        }));
        Self { objects, task }
    }

    /// The current objects. After this call, [`Self::changed`] waits for a later change.
    pub(crate) fn objects(&mut self) -> Objects<T>
    where
        T: Clone,
    {
        self.objects.borrow_and_update().clone()
    }

    pub(crate) async fn changed(&mut self) {
        if self.objects.changed().await.is_err() {
            // The task has ended. Only a panic ends it.
            pending::<()>().await;
        }
    }

    /// Waits until the first list is complete or has failed.
    pub(crate) async fn wait_for_first_list(&mut self) {
        let _ = self.objects.wait_for(|objects| objects.is_first_list_done).await;
    }
}

impl<T> Drop for Informer<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<T> Objects<T> {
    /// Whether the first list is complete, and the watch works. It works again from the first
    /// change after a failure.
    pub(crate) fn are_known(&self) -> bool {
        self.is_first_list_done && self.watch_error.is_none()
    }

    /// The error of the list or watch, or else that of the first undecodable object by name. `None`
    /// if the objects are complete and current.
    pub(crate) fn problem(&self) -> Option<String> {
        let mut undecodable = self.undecodable.iter();
        self.watch_error
            .clone()
            .or_else(|| undecodable.next().map(|(name, error)| format!("{name}: {error}")))
    }

    /// The error of the list or watch if the API server forbids it.
    pub(crate) fn forbidden_error(&self) -> Option<String> {
        self.watch_error.clone().filter(|_| self.is_forbidden)
    }

    fn apply_change<K: ResourceExt>(
        &mut self,
        change: Change<K>,
        decode: &impl Fn(&K) -> Result<T, String>,
    ) {
        self.is_first_list_done = true;
        // A change shows that the watch works again. After most errors, the watch resumes without a
        // new list.
        self.watch_error = None;
        match change {
            Change::Replace(objects) => {
                self.items.clear();
                self.undecodable.clear();
                for object in &objects {
                    self.apply(object, decode);
                }
            }
            Change::Apply(object) => self.apply(&object, decode),
            Change::Delete(object) => self.remove(&object.name_any()),
            Change::Failed(error) => {
                self.is_forbidden = status_code(&error) == Some(403);
                self.watch_error = Some(error_message(&error));
            }
        }
    }

    fn apply<K: ResourceExt>(&mut self, object: &K, decode: &impl Fn(&K) -> Result<T, String>) {
        let name = object.name_any();
        self.remove(&name);
        match decode(object) {
            Ok(item) => _ = self.items.insert(name, Arc::new(item)),
            Err(error) => _ = self.undecodable.insert(name, error),
        }
    }

    fn remove(&mut self, name: &str) {
        self.items.remove(name);
        self.undecodable.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use hpa_calc::Pod;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectList;
    use serde_json::{from_value, json};

    use super::*;

    fn object(name: &str, value: &str) -> ConfigMap {
        from_value(json!({ "metadata": { "name": name }, "data": { "value": value } })).unwrap()
    }

    fn decode(object: &ConfigMap) -> Result<i32, String> {
        let value = object.data.as_ref().and_then(|data| data.get("value")).unwrap();
        value.parse().map_err(|_| format!("{value} is not a number"))
    }

    fn failure() -> Change<ConfigMap> {
        Change::Failed(watcher::Error::NoResourceVersion)
    }

    fn objects_after(changes: impl IntoIterator<Item = Change<ConfigMap>>) -> Objects<i32> {
        let mut objects = Objects::default();
        for change in changes {
            objects.apply_change(change, &decode);
        }
        objects
    }

    #[test]
    fn watch_error_lasts_until_the_next_change() {
        assert!(objects_after([failure()]).problem().is_some());
        let recoveries = [
            Change::Replace(Vec::new()),
            Change::Apply(object("a", "1")),
            Change::Delete(object("a", "1")),
        ];
        for recovery in recoveries {
            assert_eq!(objects_after([failure(), recovery]).problem(), None);
        }
    }

    #[test]
    fn undecodable_object_replaces_the_decoded_one() {
        let objects =
            objects_after([Change::Apply(object("a", "1")), Change::Apply(object("a", "x"))]);
        assert!(objects.items.is_empty());
        assert_eq!(objects.problem().unwrap(), "a: x is not a number");
    }

    #[test]
    fn decoding_error_lasts_until_the_object_is_valid_or_deleted() {
        let list_with_undecodable = || Change::Replace(vec![object("a", "x"), object("b", "2")]);
        assert_eq!(
            objects_after([list_with_undecodable(), failure(), Change::Apply(object("b", "3"))])
                .problem(),
            Some("a: x is not a number".to_owned())
        );
        assert_eq!(
            objects_after([list_with_undecodable(), Change::Apply(object("a", "1"))]).problem(),
            None
        );
        assert_eq!(
            objects_after([list_with_undecodable(), Change::Delete(object("a", "x"))]).problem(),
            None
        );
    }

    #[test]
    fn time_out_of_range_concerns_only_its_object() {
        let end = "9999-12-31T23:59:59Z";
        let managed_fields = json!([{ "manager": "kubectl", "time": end }]);
        let list: ObjectList<StoredObject> = from_value(json!({ "metadata": {}, "items": [
            { "metadata": { "name": "a", "managedFields": managed_fields } },
            { "metadata": { "name": "b" }, "status": { "startTime": end } },
            { "metadata": { "name": "c" } },
        ] }))
        .unwrap();
        let mut pods = Objects::default();
        pods.apply_change(Change::Replace(list.items), &super::decode::<Pod>);
        assert_eq!(pods.items.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert!(pods.problem().unwrap().starts_with("b: status.startTime: "));
    }

    #[test]
    fn deep_managed_fields_are_not_decoded() {
        let deep = (0..200).fold(json!({}), |inner, _| json!({ "f:a": inner }));
        let metadata = json!({ "name": "a", "managedFields": [{ "fieldsV1": deep }] });
        let object = from_value(json!({ "metadata": metadata })).unwrap();
        assert_eq!(&*super::decode::<Pod>(&object).unwrap().name, "a");
    }
}
