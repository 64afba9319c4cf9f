use std::{fmt, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use hashbrown::HashMap;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::discovery::{self, GroupResources};
use crate::k8s::RequestError;

/// Why a kind could not be mapped to a resource. Prints as client-go does.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MapperError {
    /// An `apiVersion` is neither `version` nor `group/version`.
    #[error("unexpected GroupVersion string: {0}")]
    InvalidApiVersion(String),
    /// The API server serves no such kind.
    #[error("no matches for kind {kind:?} in group {group:?}")]
    NoMatch {
        /// The kind.
        kind: String,
        /// The API group; empty for the core group.
        group: String,
    },
    /// The API server did not tell what it serves, and nothing was known from before.
    #[error(transparent)]
    Discovery(RequestError),
}

/// A kind and its API group, in whatever version. Prints as `Kind.group`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl GroupKind {
    /// The group of an `apiVersion`, and a kind.
    pub fn parse(api_version: &str, kind: &str) -> Result<Self, MapperError> {
        let (group, _) = parse_api_version(api_version)?;
        Ok(Self { group: group.to_owned(), kind: kind.to_owned() })
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.kind, &self.group)
    }
}

/// Splits an `apiVersion` into group and version. The core group is empty; so is everything for an empty text or a
/// lone slash, which the API's own library takes for no version at all.
pub fn parse_api_version(api_version: &str) -> Result<(&str, &str), MapperError> {
    match api_version.split_once('/') {
        None => Ok(("", api_version)),
        Some((group, version)) if !version.contains('/') => Ok((group, version)),
        Some(_) => Err(MapperError::InvalidApiVersion(api_version.to_owned())),
    }
}

/// A resource that serves a kind, in one version. Prints as `resource.group`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The version.
    pub version: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The resource's plural name, as it stands in paths.
    pub resource: Arc<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Mapping {
    /// The path that the version's resources are under.
    pub(super) fn api_root(&self) -> String {
        discovery::api_root(&self.group, &self.version)
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_qualified(f, &self.resource, &self.group)
    }
}

fn write_qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    f.write_str(name)?;
    if group.is_empty() { Ok(()) } else { write!(f, ".{group}") }
}

/// How a [`RestMapper`] keeps up with the API server.
#[derive(Clone, Copy, Debug)]
pub struct MapperConfig {
    /// How long one request may take.
    pub request_timeout: Duration,
    /// The least time between two questions about one group, however often kinds are missed. A kind installed later
    /// is found after this time at the latest.
    pub min_refresh_interval: Duration,
    /// After which time a group is asked about again though nothing was missed.
    pub max_age: Duration,
}

impl Default for MapperConfig {
    /// 10 s, 10 s, 10 min.
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(10),
            min_refresh_interval: Duration::from_secs(10),
            max_age: Duration::from_mins(10),
        }
    }
}

/// Maps kinds to the resources that serve them, from the API server's discovery. It remembers the answers per group.
///
/// Lookups that need the same group at the same time share its requests.
pub struct RestMapper {
    client: Client,
    config: MapperConfig,
    groups: Mutex<HashMap<Box<str>, Group>>,
}

type Discovered = Result<Arc<GroupResources>, RequestError>;
type Discovery = BoxFuture<'static, Discovered>;

#[derive(Default)]
struct Group {
    /// The last answer that there was.
    known: Option<Arc<GroupResources>>,
    /// The last question: when, and what it failed with.
    asked: Option<(Instant, Option<RequestError>)>,
    is_stale: bool,
    /// The question under way. Weak, so that it ends with the lookups that wait for it.
    asking: Option<WeakShared<Discovery>>,
}

/// The most groups to remember. They are named by users, so there can be any number of them.
const MOST_GROUPS: usize = 1024;

impl RestMapper {
    /// A mapper that knows nothing yet.
    pub fn new(client: Client, config: MapperConfig) -> Self {
        Self { client, config, groups: Mutex::default() }
    }

    /// The resources that serve a kind, in all versions of its group, the preferred version first; never empty. If
    /// the API server does not answer, what is known from before counts.
    pub async fn mappings(&self, wanted: &GroupKind) -> Result<Vec<Mapping>, MapperError> {
        let asking = match self.recall(wanted) {
            Recalled::Answer(answer) => return answer,
            Recalled::Ask(asking) => asking,
        };
        let discovered = asking.clone().await;
        let mut groups = self.groups.lock();
        let group = groups.entry(wanted.group.as_str().into()).or_default();
        // Only the first of those who waited for it takes the answer in.
        if group
            .asking
            .as_ref()
            .and_then(WeakShared::upgrade)
            .is_some_and(|current| current.ptr_eq(&asking))
        {
            group.asking = None;
            group.asked = Some((Instant::now(), discovered.as_ref().err().cloned()));
            if let Ok(resources) = &discovered {
                group.known = Some(Arc::clone(resources));
                group.is_stale = resources.incomplete().is_some();
            }
        }
        match discovered {
            Ok(resources) => found(&resources, wanted),
            Err(error) => known_in_spite(group.known.as_deref(), wanted, error),
        }
    }

    /// Says that a resource of the group turned out not to be served. The next lookup asks the API server anew, if
    /// it was not asked just before ([`MapperConfig::min_refresh_interval`]).
    pub fn invalidate(&self, group: &str) {
        if let Some(group) = self.groups.lock().get_mut(group) {
            group.is_stale = true;
        }
    }

    /// Answers from memory, or says what to wait for.
    fn recall(&self, wanted: &GroupKind) -> Recalled {
        let now = Instant::now();
        let mut groups = self.groups.lock();
        if groups.len() >= MOST_GROUPS && !groups.contains_key(wanted.group.as_str()) {
            groups.retain(|_, group| group.is_of_use(now, self.config.max_age));
        }
        let group = groups.entry(wanted.group.as_str().into()).or_default();
        if let Some(asking) = group.asking.as_ref().and_then(WeakShared::upgrade) {
            return Recalled::Ask(asking);
        }
        let age = group.asked.as_ref().map(|(at, _)| now.duration_since(*at));
        let may_ask = age.is_none_or(|age| age >= self.config.min_refresh_interval);
        let is_fresh = !group.is_stale && age.is_some_and(|age| age < self.config.max_age);
        let failed = group.asked.as_ref().and_then(|(_, error)| error.clone());
        let answer = match (&group.known, failed) {
            (known, Some(error)) => Some(known_in_spite(known.as_deref(), wanted, error)),
            (Some(known), None) => Some(found(known, wanted)),
            (None, None) => None,
        };
        match answer {
            Some(answer) if !may_ask || (is_fresh && answer.is_ok()) => Recalled::Answer(answer),
            _ => {
                let (client, timeout, name) =
                    (self.client.clone(), self.config.request_timeout, wanted.group.clone());
                let asking =
                    async move { discovery::discover(&client, timeout, &name).await.map(Arc::new) };
                let asking = asking.boxed().shared();
                group.asking = asking.downgrade();
                Recalled::Ask(asking)
            }
        }
    }
}

impl Group {
    fn is_of_use(&self, now: Instant, max_age: Duration) -> bool {
        let is_asking = self.asking.as_ref().is_some_and(|asking| asking.upgrade().is_some());
        let is_young = self.asked.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < max_age);
        is_asking || (is_young && self.known.as_ref().is_some_and(|known| !known.is_empty()))
    }
}

enum Recalled {
    Answer(Result<Vec<Mapping>, MapperError>),
    Ask(Shared<Discovery>),
}

fn found(resources: &GroupResources, wanted: &GroupKind) -> Result<Vec<Mapping>, MapperError> {
    let mappings = resources.of_kind(&wanted.kind);
    if !mappings.is_empty() {
        return Ok(mappings);
    }
    Err(match resources.incomplete() {
        Some(error) => MapperError::Discovery(error.clone()),
        None => MapperError::NoMatch { kind: wanted.kind.clone(), group: wanted.group.clone() },
    })
}

/// What is known from before, though the last question failed.
fn known_in_spite(
    known: Option<&GroupResources>,
    wanted: &GroupKind,
    error: RequestError,
) -> Result<Vec<Mapping>, MapperError> {
    let mappings = known.map(|known| known.of_kind(&wanted.kind)).unwrap_or_default();
    if mappings.is_empty() { Err(MapperError::Discovery(error)) } else { Ok(mappings) }
}
