//! The events of a watch that never ends.

use std::fmt::Debug;

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    runtime::{
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

/// Lists and watches objects. After a failure, the next request waits for kube's backoff: 0.8 s,
/// then twice as long each time, up to 30 s. A complete list or an event of the watch resets the
/// backoff.
///
/// kube's own `default_backoff` is also reset by the event that starts each list. It would repeat a
/// list that fails, with all of its pages, about every second.
pub fn watch_events<K>(
    api: Api<K>,
    config: watcher::Config,
) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let start = (watcher(api, config).boxed(), DefaultBackoff::default(), None);
    let events = stream::unfold(start, |(mut events, mut backoff, delay)| async move {
        if let Some(delay) = delay {
            sleep(delay).await;
        }
        let event = events.next().await?;
        let delay = match &event {
            Ok(event) if is_within_list(event) => None,
            Ok(_) => {
                backoff.reset();
                None
            }
            Err(_) => backoff.next(),
        };
        Some((event, (events, backoff, delay)))
    });
    events.boxed()
}

/// Whether an event is part of a list that may still fail. Such an event doesn't show that a failed
/// watch has recovered.
pub fn is_within_list<K>(event: &Event<K>) -> bool {
    matches!(event, Event::Init | Event::InitApply(_))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Client, client::Body};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failing_list_is_repeated_less_and_less_often() {
        let service = tower::service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
        let mut events = watch_events(api, watcher::Config::default());
        let start = Instant::now();
        let mut failures = 0;
        while failures < 8 {
            failures += u32::from(events.next().await.expect("an event").is_err());
        }
        // The seven delays add up to 80.4 s, and the jitter at most doubles each of them.
        let elapsed = start.elapsed().as_secs();
        assert!((80..165).contains(&elapsed), "{elapsed} s");
    }
}
