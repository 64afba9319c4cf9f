//! Maps kinds to resources, with a cache of discovery results.

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use hashbrown::HashMap;
use hpa_metrics::{ResourceNames, resource::GroupResource};
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    discovery::{self, GroupResources},
    mapping::{GroupKind, MapperError, Mapping},
};
use crate::k8s::ApiRequestError;

/// The number of cached groups at which unserved and old groups are dropped. Users choose the
/// groups in their `scaleTargetRef`s, so there can be any number of groups.
const MAX_GROUPS: usize = 1024;

/// The configuration of a [`RestMapper`].
#[derive(Clone, Copy, Debug)]
pub struct MapperConfig {
    pub request_timeout: Duration,
    /// The minimum time between two discoveries of one group, however many lookups fail. A kind
    /// that is installed later is found after this time at the latest.
    pub min_refresh_interval: Duration,
    /// The age at which a result is refreshed even if no lookup failed.
    pub max_age: Duration,
}

impl Default for MapperConfig {
    /// A timeout and a minimum refresh interval of 10 s, and a maximum age of 10 min.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            min_refresh_interval: Duration::from_secs(10),
            max_age: Duration::from_mins(10),
        }
    }
}

/// Maps kinds to the resources that serve them. Discovery results are cached by group, and
/// concurrent lookups in one group share its discovery.
pub struct RestMapper {
    client: Client,
    config: MapperConfig,
    groups: Mutex<HashMap<Box<str>, CachedGroup>>,
}

type DiscoveryResult = Result<Arc<GroupResources>, ApiRequestError>;
type Discovery = BoxFuture<'static, DiscoveryResult>;

#[derive(Default)]
struct CachedGroup {
    /// The last result of a discovery that succeeded.
    resources: Option<Arc<GroupResources>>,
    last_discovery: Option<LastDiscovery>,
    is_stale: bool,
    /// The discovery in progress. Weak, so that it is cancelled when no lookup waits for it.
    in_flight: Option<WeakShared<Discovery>>,
}

struct LastDiscovery {
    at: Instant,
    error: Option<ApiRequestError>,
}

enum Lookup {
    Cached(Result<Vec<Mapping>, MapperError>),
    Discover(Shared<Discovery>),
}

impl RestMapper {
    pub fn new(client: Client, config: MapperConfig) -> Self {
        Self { client, config, groups: Mutex::default() }
    }

    /// The resources that serve a kind, in all versions of its group, the preferred version first.
    /// Never empty. If discovery fails, an earlier result counts.
    pub async fn mappings(&self, kind: &GroupKind) -> Result<Vec<Mapping>, MapperError> {
        let discovery = match self.lookup(kind) {
            Lookup::Cached(mappings) => return mappings,
            Lookup::Discover(discovery) => discovery,
        };
        let discovered = discovery.clone().await;
        let mut groups = self.groups.lock();
        let group = groups.entry(kind.group.as_str().into()).or_default();
        let in_flight = group.in_flight.as_ref().and_then(WeakShared::upgrade);
        // Only the first of the lookups that shared the discovery stores its result.
        if in_flight.is_some_and(|in_flight| in_flight.ptr_eq(&discovery)) {
            group.store(&discovered);
        }
        match discovered {
            Ok(resources) => find_mappings(&resources, kind),
            Err(error) => find_after_failure(group.resources.as_deref(), kind, error),
        }
    }

    /// Marks a group as stale, because a resource of it turned out not to be served. The next
    /// lookup, but at the earliest [`MapperConfig::min_refresh_interval`] after the last discovery,
    /// discovers the group again.
    pub fn invalidate(&self, group: &str) {
        if let Some(group) = self.groups.lock().get_mut(group) {
            group.is_stale = true;
        }
    }

    fn lookup(&self, kind: &GroupKind) -> Lookup {
        let now = Instant::now();
        let mut groups = self.groups.lock();
        if groups.len() >= MAX_GROUPS && !groups.contains_key(kind.group.as_str()) {
            groups.retain(|_, group| group.is_worth_keeping(now, self.config.max_age));
        }
        let group = groups.entry(kind.group.as_str().into()).or_default();
        if let Some(in_flight) = group.in_flight.as_ref().and_then(WeakShared::upgrade) {
            return Lookup::Discover(in_flight);
        }
        let age = group.age(now);
        let may_discover = age.is_none_or(|age| age >= self.config.min_refresh_interval);
        let is_fresh = !group.is_stale && age.is_some_and(|age| age < self.config.max_age);
        match group.cached(kind) {
            Some(mappings) if !may_discover || (is_fresh && mappings.is_ok()) => {
                Lookup::Cached(mappings)
            }
            _ => {
                let (client, timeout) = (self.client.clone(), self.config.request_timeout);
                let name = kind.group.clone();
                let discovery =
                    async move { discovery::discover(&client, timeout, &name).await.map(Arc::new) };
                let discovery = discovery.boxed().shared();
                group.in_flight = discovery.downgrade();
                Lookup::Discover(discovery)
            }
        }
    }
}

impl CachedGroup {
    fn store(&mut self, discovered: &DiscoveryResult) {
        self.in_flight = None;
        let error = discovered.as_ref().err().cloned();
        self.last_discovery = Some(LastDiscovery { at: Instant::now(), error });
        if let Ok(resources) = discovered {
            self.is_stale = resources.version_error().is_some();
            self.resources = Some(Arc::clone(resources));
        }
    }

    fn age(&self, now: Instant) -> Option<Duration> {
        self.last_discovery.as_ref().map(|last| now.duration_since(last.at))
    }

    /// The result of a lookup without another discovery. `None` before the first discovery.
    fn cached(&self, kind: &GroupKind) -> Option<Result<Vec<Mapping>, MapperError>> {
        let last_error = self.last_discovery.as_ref().and_then(|last| last.error.clone());
        match (&self.resources, last_error) {
            (resources, Some(error)) => Some(find_after_failure(resources.as_deref(), kind, error)),
            (Some(resources), None) => Some(find_mappings(resources, kind)),
            (None, None) => None,
        }
    }

    fn is_worth_keeping(&self, now: Instant, max_age: Duration) -> bool {
        let is_in_flight =
            self.in_flight.as_ref().is_some_and(|discovery| discovery.upgrade().is_some());
        let is_young = self.age(now).is_some_and(|age| age < max_age);
        let has_kinds = self.resources.as_ref().is_some_and(|resources| !resources.is_empty());
        is_in_flight || (is_young && has_kinds)
    }
}

fn find_mappings(
    resources: &GroupResources,
    kind: &GroupKind,
) -> Result<Vec<Mapping>, MapperError> {
    let mappings = resources.mappings_for(&kind.kind);
    if !mappings.is_empty() {
        return Ok(mappings);
    }
    Err(match resources.version_error() {
        Some(error) => MapperError::Discovery(error.clone()),
        None => MapperError::NoMatch { kind: kind.kind.clone(), group: kind.group.clone() },
    })
}

/// Looks a kind up in an earlier result because the last discovery failed.
fn find_after_failure(
    resources: Option<&GroupResources>,
    kind: &GroupKind,
    error: ApiRequestError,
) -> Result<Vec<Mapping>, MapperError> {
    let mappings =
        resources.map(|resources| resources.mappings_for(&kind.kind)).unwrap_or_default();
    if mappings.is_empty() { Err(MapperError::Discovery(error)) } else { Ok(mappings) }
}

#[async_trait]
impl ResourceNames for RestMapper {
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
        let kind = GroupKind { group: group.into(), kind: kind.into() };
        let mappings = self.mappings(&kind).await?;
        match mappings.first() {
            Some(mapping) => Ok(GroupResource::new(&mapping.group, &mapping.resource)),
            None => Err(MapperError::NoMatch { kind: kind.kind, group: kind.group }.into()),
        }
    }
}
