//! Sends one query for all objects of a namespace instead of one per autoscaler.
//!
//! A query is shared only if [`crate::rules::per_object`] proves that single queries have the same
//! results. The proof doesn't cover failures: if a shared query fails, single queries are sent for
//! a while.

mod demand;
#[cfg(test)]
pub(super) mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
    time::Duration,
};

use crate::client::{Client, InstantQuery, TimeoutParameter};
use crate::rules::{
    Compat, NotPerObject, query::QueriedObjects, registry::FoundMetric, results::ObjectSamples,
};
use hpa_calc::Selector;
use hpa_metrics::resource::ApiResources;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use self::demand::Demand;

/// The maximum number of queries, because clients of the adapter can request any selector.
const MAX_SHARED_QUERIES: usize = 20_000;

/// Limits of the reuse of results, and of the decision to share a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingSettings {
    /// The maximum age of a result.
    pub max_age: Duration,
    /// The time within which requesters are counted.
    pub window: Duration,
}

impl SharingSettings {
    /// Settings for autoscalers with this sync period. An autoscaler never reads the same result in
    /// two periods.
    pub fn for_sync_period(period: Duration) -> Self {
        Self { max_age: period / 3, window: period * 2 }
    }
}

/// A request for objects of a namespace that may use a shared query.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareableRequest<'a> {
    /// The rule, such as `rules[0]`.
    pub(super) rule: &'a str,
    pub(super) namespace: &'a str,
    pub(super) selector: &'a Selector,
    pub(super) names: &'a [String],
    /// Identifies the requester. See [`SharedQueryCache::requester_id`].
    pub(super) requester: u64,
    /// The number of single queries for these names.
    pub(super) query_count: usize,
}

/// The samples of all objects of a namespace, with the query.
#[derive(Clone, Debug)]
pub(super) struct SharedSamples {
    pub(super) samples: Arc<ObjectSamples>,
    pub(super) query: Arc<str>,
}

/// Shared queries and their recent results.
pub(super) struct SharedQueryCache {
    settings: Option<SharingSettings>,
    queries: Mutex<NamespaceQueries>,
    hasher: RandomState,
    pub(super) counters: QueryCounters,
}

struct NamespaceQueries {
    by_key: HashMap<NamespaceQueryKey, Arc<NamespaceQuery>>,
    sweep_at: Instant,
}

/// The inputs of a query for all objects of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NamespaceQueryKey {
    server: String,
    /// The rule's `metricsQuery`.
    template: String,
    series: Arc<str>,
    label: String,
    namespace_label: String,
    namespace: String,
    selector: Selector,
}

/// A query for all objects of a namespace, the demand for it, and its last answer.
struct NamespaceQuery {
    /// The query, or the reason why it isn't shared.
    query: Result<Arc<str>, NotPerObject>,
    demand: Mutex<Demand>,
    /// Locked while the query is sent.
    answer: tokio::sync::Mutex<Option<Answer>>,
}

struct Answer {
    /// The time at which the query was sent.
    sent_at: Instant,
    samples: Arc<ObjectSamples>,
}

impl SharedQueryCache {
    pub(super) fn new(settings: Option<SharingSettings>, compat: Compat) -> Self {
        // prometheus-adapter sends a query for each request.
        let settings = settings.filter(|_| compat == Compat::Off);
        let queries = NamespaceQueries { by_key: HashMap::new(), sweep_at: Instant::now() };
        let (hasher, counters) = (RandomState::new(), QueryCounters::default());
        Self { settings, queries: Mutex::new(queries), hasher, counters }
    }

    /// Identifies a requester by the name or the selector of its objects.
    pub(super) fn requester_id(&self, objects: impl Hash) -> u64 {
        self.hasher.hash_one(objects)
    }

    /// Drops all queries with their results.
    pub(super) fn clear(&self) {
        self.queries.lock().by_key.clear();
    }

    /// Reads the samples of a shared query. `None` if a single query must be sent.
    pub(super) async fn read(
        &self,
        request: ShareableRequest<'_>,
        found: &FoundMetric<'_>,
        client: &Client,
        resources: &ApiResources,
    ) -> Option<SharedSamples> {
        let settings = self.settings?;
        // In a query for several names, a name with special characters is a regular expression that
        // could select other objects.
        if request.namespace.is_empty()
            || !request.names.iter().all(|name| matches_only_itself(name))
        {
            return None;
        }
        let shared = self.get_or_add_query(request, found, client, resources, &settings)?;
        let query = shared.query.as_ref().ok()?;
        let now = Instant::now();
        let is_shared = shared.demand.lock().record_request(&request, now, &settings);
        if !is_shared {
            return None;
        }
        let mut answer = shared.answer.lock().await;
        // While this request waited for the lock, the shared query may have failed.
        if shared.demand.lock().is_disabled(Instant::now()) {
            return None;
        }
        let (rule, server) = (request.rule, client.settings().name.as_str());
        let fresh = answer.as_ref().filter(|answer| answer.sent_at.elapsed() < settings.max_age);
        let samples = if let Some(fresh) = fresh {
            self.counters.count(rule, server, |counts| &mut counts.reused);
            fresh.samples.clone()
        } else {
            *answer = None;
            self.counters.count(rule, server, |counts| &mut counts.shared);
            let sent_at = Instant::now();
            let samples = Arc::new(shared.send(query, client, &found.label, &settings).await?);
            *answer = Some(Answer { sent_at, samples: samples.clone() });
            samples
        };
        Some(SharedSamples { samples, query: query.clone() })
    }

    /// Returns the query for a request. `None` if a new one would exceed the limit, or if the rule
    /// has no label for namespaces.
    fn get_or_add_query(
        &self,
        request: ShareableRequest<'_>,
        found: &FoundMetric<'_>,
        client: &Client,
        resources: &ApiResources,
        settings: &SharingSettings,
    ) -> Option<Arc<NamespaceQuery>> {
        let FoundMetric { rule, series, label, resource, .. } = found;
        let namespaces = hpa_metrics::resource::GroupResource::namespaces();
        let key = NamespaceQueryKey {
            server: client.settings().name.clone(),
            template: rule.query.text().to_owned(),
            series: series.clone(),
            label: label.clone(),
            namespace_label: rule.labels.label(&namespaces, resources).ok()?,
            namespace: request.namespace.to_owned(),
            selector: request.selector.clone(),
        };
        let mut queries = self.queries.lock();
        queries.sweep(Instant::now(), settings);
        if let Some(shared) = queries.by_key.get(&key) {
            return Some(shared.clone());
        }
        if queries.by_key.len() >= MAX_SHARED_QUERIES {
            return None;
        }
        let objects = QueriedObjects {
            resource: &resource.group_resource,
            namespace: request.namespace,
            names: &[],
        };
        let query = rule.custom_query(series, objects, request.selector, resources, Compat::Off);
        let shared = Arc::new(NamespaceQuery {
            query: query.render_shared().map(Arc::from),
            demand: Mutex::default(),
            answer: tokio::sync::Mutex::default(),
        });
        queries.by_key.insert(key, shared.clone());
        Some(shared)
    }
}

impl NamespaceQueries {
    /// Drops unused queries and expired results.
    fn sweep(&mut self, now: Instant, settings: &SharingSettings) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + settings.max_age;
        self.by_key.retain(|_, shared| {
            if let Ok(mut answer) = shared.answer.try_lock() {
                answer.take_if(|answer| now.duration_since(answer.sent_at) >= settings.max_age);
            }
            shared.demand.lock().has_recent_request(now, settings)
        });
    }
}

impl NamespaceQuery {
    /// Sends the shared query. If it fails or is cancelled, sharing is disabled for a while.
    async fn send(
        &self,
        query: &Arc<str>,
        client: &Client,
        label: &str,
        settings: &SharingSettings,
    ) -> Option<ObjectSamples> {
        let mut guard = DisableOnDrop { demand: &self.demand, settings, is_answered: false };
        let request = InstantQuery { query: query.to_string(), timeout: TimeoutParameter::Limit };
        // Only half of the time limit, because a single query follows after a timeout.
        let half = client.settings().query_timeout / 2;
        let result = timeout(half, client.query(&request)).await;
        let samples = match result {
            Ok(Ok(result)) => ObjectSamples::new(result.samples().ok()?, label, Compat::Off),
            Ok(Err(error)) => {
                tracing::debug!(
                    server = client.settings().name,
                    %query,
                    error = hpa_metrics::describe(&error),
                    "a shared query failed"
                );
                return None;
            }
            Err(_) => return None,
        };
        guard.is_answered = true;
        self.demand.lock().record_size(samples.len(), Instant::now());
        Some(samples)
    }
}

/// Disables sharing for a while when dropped without an answer, such as after a cancellation.
struct DisableOnDrop<'a> {
    demand: &'a Mutex<Demand>,
    settings: &'a SharingSettings,
    is_answered: bool,
}

impl Drop for DisableOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.demand.lock().disable(Instant::now(), self.settings);
        }
    }
}

/// Whether a name is not empty and has only letters, digits, `-` and `.`. None of them is special
/// in a regular expression, because queries escape dots.
fn matches_only_itself(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

/// The numbers of queries of a rule of custom metrics since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// The rule, such as `rules[0]`.
    pub rule: String,
    pub server: String,
    /// Queries for the objects of one request.
    pub single: u64,
    /// Queries for all objects of a namespace.
    pub shared: u64,
    /// Requests that used the result of an earlier shared query.
    pub reused: u64,
}

/// The counts by rule and server.
#[derive(Default)]
pub(super) struct QueryCounters(Mutex<BTreeMap<(String, String), QueryCounts>>);

impl QueryCounters {
    /// Adds one to a count.
    pub(super) fn count(
        &self,
        rule: &str,
        server: &str,
        field: impl Fn(&mut QueryCounts) -> &mut u64,
    ) {
        let (rule, server) = (rule.to_owned(), server.to_owned());
        let mut counts = self.0.lock();
        let counts = counts.entry((rule.clone(), server.clone())).or_insert_with(|| QueryCounts {
            rule,
            server,
            ..QueryCounts::default()
        });
        *field(counts) += 1;
    }

    pub(super) fn all(&self) -> Vec<QueryCounts> {
        self.0.lock().values().cloned().collect()
    }
}
