//! Watches objects of one kind, even while the API server doesn't serve the kind.

use std::{mem, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use hpa_metrics::{StoredObject, describe, is_within_list, resource::GroupResource, watch_events};
use kube::{Api, Client, core::ApiResource, runtime::watcher};
use tokio::time::sleep;
use tracing::{info, warn};

/// The maximum number of objects in one page of a list. The client of `hpa-controller` reduces it
/// to keep pages to a few megabytes.
const PAGE_SIZE: u32 = 250;

/// The delay of a new list while the API server doesn't serve the kind.
const RELIST_DELAY: Duration = Duration::from_secs(5);

/// A watch of the objects of one kind, in one namespace or in all. Logs the first of consecutive
/// failures, but not [`WatchFailure::NotServed`]. Logs when the watch works again after either.
pub(crate) struct ObjectWatch {
    /// The noun for the objects in log lines.
    description: &'static str,
    resource: GroupResource,
    /// Empty for all namespaces.
    namespace: String,
    api: Api<StoredObject>,
    events: BoxStream<'static, watcher::Result<watcher::Event<StoredObject>>>,
    status: Status,
    /// Whether all objects were listed once.
    was_listed: bool,
    must_relist: bool,
}

/// The outcome of the last request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    NotServed,
    Failing,
}

/// A failed request of a watch. The watch continues after a delay.
pub(crate) enum WatchFailure {
    /// The API server doesn't serve the kind, for example because its definition was deleted. Then
    /// there are no objects, and events of their deletion may be missing.
    NotServed {
        /// Whether the previous request failed in the same way.
        is_repeated: bool,
    },
    Other(watcher::Error),
}

impl ObjectWatch {
    /// Creates a watch, which starts with the first call of [`Self::next`]. An empty namespace
    /// means all.
    pub(crate) fn new(
        client: Client,
        resource: &ApiResource,
        namespace: &str,
        description: &'static str,
    ) -> Self {
        let api = StoredObject::api(client, namespace, resource);
        Self {
            description,
            resource: GroupResource::new(&resource.group, &resource.plural),
            namespace: namespace.to_owned(),
            events: start(&api),
            api,
            status: Status::Working,
            was_listed: false,
            must_relist: false,
        }
    }

    /// The next event or failure. `None` only if kube ends the watch.
    pub(crate) async fn next(
        &mut self,
    ) -> Option<Result<watcher::Event<StoredObject>, WatchFailure>> {
        if self.must_relist {
            // A resumed watch would not return the objects that the caller removed after
            // `NotServed`. The delay is constant, because the kind may be installed at any time.
            sleep(RELIST_DELAY).await;
            self.events = start(&self.api);
            self.must_relist = false;
        }
        Some(match self.events.next().await? {
            Ok(event) => {
                if !is_within_list(&event) {
                    self.log_recovery();
                    self.was_listed = true;
                }
                Ok(event)
            }
            Err(error) => Err(self.record_failure(error)),
        })
    }

    /// Classifies an error, updates the status, and logs the first failure.
    fn record_failure(&mut self, error: watcher::Error) -> WatchFailure {
        if is_not_found(&error) {
            self.must_relist = true;
            let previous = mem::replace(&mut self.status, Status::NotServed);
            return WatchFailure::NotServed { is_repeated: previous == Status::NotServed };
        }
        if mem::replace(&mut self.status, Status::Failing) != Status::Failing {
            let Self { description, resource, namespace, .. } = self;
            warn!(
                %resource,
                %namespace,
                error = describe(&error),
                "unable to watch {description}, retrying"
            );
        }
        WatchFailure::Other(error)
    }

    fn log_recovery(&mut self) {
        if mem::replace(&mut self.status, Status::Working) != Status::Working {
            let adverb = if self.was_listed { "again" } else { "now" };
            let Self { description, resource, namespace, .. } = self;
            info!(%resource, %namespace, "{description} are watched {adverb}");
        }
    }
}

fn start(
    api: &Api<StoredObject>,
) -> BoxStream<'static, watcher::Result<watcher::Event<StoredObject>>> {
    watch_events(api.clone(), watcher::Config::default().page_size(PAGE_SIZE))
}

fn is_not_found(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            if status.code == 404
    )
}
