//! Waits for watch events, with a deadline. A timeout reports the last state.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::StreamExt as _;
use kube::Api;
use kube::core::Resource;
use kube::runtime::watcher::{self, watch_object};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

/// Waits until `done` is true for the object `name`.
pub(crate) async fn object<K>(
    api: &Api<K>,
    name: &str,
    awaited: &str,
    within: Duration,
    mut done: impl FnMut(&K) -> bool,
) -> Result<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let deadline = Instant::now() + within;
    let mut last = LastState::Nothing;
    let mut changes = pin!(watch_object(api.clone(), name));
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        match change {
            Ok(Some(object)) if done(&object) => return Ok(object),
            Ok(Some(object)) => last = LastState::Object(Box::new(object)),
            Ok(None) => last = LastState::Absent,
            Err(error) => last = LastState::Error(error),
        }
    }
    Err(anyhow!("waited {within:?} for {awaited}; {name} {}", last.describe()))
}

/// Waits until the watch delivers an object for which `each` returns a value.
pub(crate) async fn first_match<K, T>(
    api: &Api<K>,
    config: watcher::Config,
    awaited: &str,
    within: Duration,
    mut each: impl FnMut(K) -> Option<T>,
) -> Result<T>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let deadline = Instant::now() + within;
    let mut last = LastState::Nothing;
    let mut changes = pin!(kube::runtime::watcher(api.clone(), config));
    while let Ok(Some(change)) = timeout_at(deadline, changes.next()).await {
        match change {
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                if let Some(found) = each(object.clone()) {
                    return Ok(found);
                }
                last = LastState::Object(Box::new(object));
            }
            Ok(_) => {}
            Err(error) => last = LastState::Error(error),
        }
    }
    Err(anyhow!("waited {within:?} for {awaited}; the last one {}", last.describe()))
}

/// Watches the object `name` for a fixed time. Returns each state that the watch delivers.
pub(crate) async fn observe_for<K>(api: &Api<K>, name: &str, time: Duration) -> Result<Vec<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let end = Instant::now() + time;
    let mut seen = Vec::new();
    let mut changes = pin!(watch_object(api.clone(), name));
    while let Ok(Some(change)) = timeout_at(end, changes.next()).await {
        seen.extend(change?);
    }
    Ok(seen)
}

/// The last state or error that a watch delivered.
enum LastState<K> {
    Nothing,
    Absent,
    Object(Box<K>),
    Error(watcher::Error),
}

impl<K: Serialize> LastState<K> {
    fn describe(&self) -> String {
        match self {
            Self::Nothing => "was not seen".into(),
            Self::Absent => "does not exist".into(),
            Self::Object(object) => {
                format!("was last seen as {}", json_without_managed_fields(object))
            }
            Self::Error(error) => format!("could not be watched: {error}"),
        }
    }
}

fn json_without_managed_fields(object: &impl Serialize) -> String {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value.to_string()
}
