//! Maps kinds to resources, with a cache of discovery results.

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use hashbrown::HashMap;
use hpa_metrics::{ResourceNames, SingleFlight, resource::GroupResource};
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
const PRUNE_AT: usize = 1024;

/// The age at which a result is refreshed even if no lookup failed.
const MAX_AGE: Duration = Duration::from_mins(10);

/// The configuration of a [`RestMapper`].
#[derive(Clone, Copy, Debug)]
pub struct MapperConfig {
    pub request_timeout: Duration,
    /// The minimum time between two discoveries of one group, however many lookups fail. A kind
    /// that is installed later is found after this time at the latest.
    pub min_refresh_interval: Duration,
}

impl Default for MapperConfig {
    /// A timeout and a minimum refresh interval of 10 s.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            min_refresh_interval: Duration::from_secs(10),
        }
    }
}

/// Maps kinds to the resources that serve them. Discovery results are cached by group, and
/// concurrent lookups in one group share its discovery.
pub struct RestMapper {
    client: Client,
    config: MapperConfig,
    discoveries: SingleFlight<String, GroupResources, ApiRequestError>,
    groups: Mutex<HashMap<Box<str>, CachedGroup>>,
}

struct CachedGroup {
    /// The result of the last discovery that succeeded. Empty if none did.
    resources: Arc<GroupResources>,
    discovered_at: Instant,
    /// The error of the last discovery, if it failed.
    error: Option<ApiRequestError>,
    is_stale: bool,
}

impl RestMapper {
    pub fn new(client: Client, config: MapperConfig) -> Self {
        let discoveries = SingleFlight::new(Duration::ZERO);
        Self { client, config, discoveries, groups: Mutex::default() }
    }

    /// The resources that serve a kind, in all versions of its group, the preferred version first.
    /// Never empty. If discovery fails, an earlier result counts.
    pub async fn mappings(&self, kind: &GroupKind) -> Result<Vec<Mapping>, MapperError> {
        if let Some(mappings) = self.cached_mappings(kind) {
            return mappings;
        }
        let (client, timeout) = (self.client.clone(), self.config.request_timeout);
        let discover =
            move |group: String| async move { discovery::discover(&client, timeout, &group).await };
        let discovered = self.discoveries.get(kind.group.clone(), discover).await;
        let now = Instant::now();
        let mut groups = self.groups.lock();
        if groups.len() >= PRUNE_AT && !groups.contains_key(kind.group.as_str()) {
            groups.retain(|_, group| group.is_worth_keeping(now));
        }
        let group = groups
            .entry(kind.group.as_str().into())
            .or_insert_with(|| CachedGroup::never_discovered(now));
        group.store(discovered, now);
        group.mappings(kind)
    }

    /// The first of [`Self::mappings`].
    pub(crate) async fn preferred_mapping(&self, kind: &GroupKind) -> Result<Mapping, MapperError> {
        let first = self.mappings(kind).await?.into_iter().next();
        first.ok_or_else(|| MapperError::no_match(kind))
    }

    /// Marks a group as stale, because a resource of it turned out not to be served. The next
    /// lookup, but at the earliest [`MapperConfig::min_refresh_interval`] after the last discovery,
    /// discovers the group again.
    pub fn invalidate(&self, group: &str) {
        if let Some(group) = self.groups.lock().get_mut(group) {
            group.is_stale = true;
        }
    }

    /// The result of a lookup without a discovery. `None` if the group must be discovered.
    fn cached_mappings(&self, kind: &GroupKind) -> Option<Result<Vec<Mapping>, MapperError>> {
        let groups = self.groups.lock();
        let group = groups.get(kind.group.as_str())?;
        let age = group.discovered_at.elapsed();
        let may_discover = age >= self.config.min_refresh_interval;
        let is_fresh = !group.is_stale && age < MAX_AGE;
        let mappings = group.mappings(kind);
        (!may_discover || (is_fresh && mappings.is_ok())).then_some(mappings)
    }
}

impl CachedGroup {
    fn never_discovered(now: Instant) -> Self {
        Self { resources: Arc::default(), discovered_at: now, error: None, is_stale: false }
    }

    fn store(&mut self, discovered: Result<Arc<GroupResources>, ApiRequestError>, now: Instant) {
        match discovered {
            // Stored by another lookup that shared the discovery. It may be stale since then.
            Ok(resources) if Arc::ptr_eq(&resources, &self.resources) => return,
            Ok(resources) => {
                self.is_stale = resources.version_error.is_some();
                (self.resources, self.error) = (resources, None);
            }
            Err(error) => self.error = Some(error),
        }
        self.discovered_at = now;
    }

    fn mappings(&self, kind: &GroupKind) -> Result<Vec<Mapping>, MapperError> {
        let mappings = self.resources.mappings_for(&kind.kind);
        if !mappings.is_empty() {
            return Ok(mappings);
        }
        Err(match self.error.as_ref().or(self.resources.version_error.as_ref()) {
            Some(error) => MapperError::Discovery(error.clone()),
            None => MapperError::no_match(kind),
        })
    }

    fn is_worth_keeping(&self, now: Instant) -> bool {
        now.duration_since(self.discovered_at) < MAX_AGE && !self.resources.mappings.is_empty()
    }
}

#[async_trait]
impl ResourceNames for RestMapper {
    async fn resource_for(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupResource, Box<dyn Error + Send + Sync>> {
        let kind = GroupKind { group: group.into(), kind: kind.into() };
        let mapping = self.preferred_mapping(&kind).await?;
        Ok(GroupResource::new(&mapping.group, &mapping.resource))
    }
}
