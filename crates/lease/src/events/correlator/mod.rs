//! Correlates events, so that repeated ones don't flood the API server.
//!
//! The rules are those of client-go's event correlator, with two differences: `SuccessfulRescale`
//! has its own budget, and a new message doesn't replace a stored one when events are combined.

#[cfg(test)]
mod tests;

use std::{hash::Hash, num::NonZeroUsize, sync::Arc};

use hpa_calc::event::{EventReason, EventType};
use jiff::{SignedDuration, Timestamp};
use lru::LruCache;

use super::event::{ObjectReference, RecordedEvent, truncate_message};

/// The maximum number of entries in each LRU cache: 4096, as in client-go.
const CACHE_ENTRIES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);
/// From this many different messages on, similar events are combined.
const COMBINE_THRESHOLD: usize = 10;
/// The correlator discards the messages of similar events after this time without such an event.
const SIMILAR_INTERVAL: SignedDuration = SignedDuration::from_secs(600);
/// The maximum of a budget: the number of events that an object can have at once.
const BUDGET_BURST: f64 = 25.0;
/// The time after which a budget grows by one event.
const BUDGET_REFILL: SignedDuration = SignedDuration::from_secs(300);

/// The Event object to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventWrite {
    pub(super) name: String,
    pub(super) object: Arc<ObjectReference>,
    pub(super) event_type: EventType,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The number of occurrences. After the first one, the Event object should exist already.
    pub(super) count: i32,
}

/// UID, namespace and name. Namespace and name are for objects without a UID.
type ObjectId = (String, String, String);

/// The fields that similar events have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SimilarKey {
    object: ObjectId,
    event_type: EventType,
    reason: String,
}

/// Identifies an Event object. Combined events have no message.
type SeriesKey = (SimilarKey, Option<String>);

/// An object has one budget for its rescale events, and one for all others.
#[derive(Clone, PartialEq, Eq, Hash)]
struct BudgetKey {
    object: ObjectId,
    is_rescale: bool,
}

/// The recent messages of similar events, without those that were combined.
struct SimilarMessages {
    messages: Vec<String>,
    last: Timestamp,
}

/// Occurrences of an event, which share an Event object.
struct Series {
    name: String,
    first: Timestamp,
    count: i32,
}

struct Budget {
    tokens: f64,
    refilled_at: Timestamp,
}

pub(super) struct Correlator {
    similar: LruCache<SimilarKey, SimilarMessages>,
    series: LruCache<SeriesKey, Series>,
    budgets: LruCache<BudgetKey, Budget>,
    /// The nanoseconds in the last name. Events of the same time need different names.
    last_nanosecond: i128,
}

/// An empty cache. `LruCache::new` would allocate memory for all entries.
fn lru_cache<K: Hash + Eq, V>() -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(CACHE_ENTRIES);
    cache
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self { similar: lru_cache(), series: lru_cache(), budgets: lru_cache(), last_nanosecond: 0 }
    }

    /// Decides what the Event object contains. `None` if the object has too many events.
    pub(super) fn decide(&mut self, event: RecordedEvent) -> Option<EventWrite> {
        let RecordedEvent { object, event_type, reason, mut message, at } = event;
        let object_id = (object.uid.clone(), object.namespace.clone(), object.name.clone());
        let is_rescale =
            event_type == EventType::Normal && reason == EventReason::SuccessfulRescale.as_str();
        let similar =
            SimilarKey { object: object_id.clone(), event_type, reason: reason.to_string() };
        let key = if self.store_message(&similar, &message, at) {
            (similar, Some(message.clone()))
        } else {
            message.insert_str(0, "(combined from similar events): ");
            truncate_message(&mut message);
            (similar, None)
        };
        let name = self.name(&object.name, at);
        let series =
            self.series.get_or_insert_mut_ref(&key, || Series { name, first: at, count: 0 });
        // Events over the budget count as well: the next write must have the real number.
        series.count = series.count.saturating_add(1);
        let (name, first, count) = (series.name.clone(), series.first, series.count);
        if !self.take_token(&BudgetKey { object: object_id, is_rescale }, at) {
            return None;
        }
        let reason = reason.into_owned();
        Some(EventWrite { name, object, event_type, reason, message, first, last: at, count })
    }

    /// Stores a message of similar events, unless it is stored already. Returns `false` if they
    /// have too many different messages: then the event is combined with others.
    fn store_message(&mut self, key: &SimilarKey, message: &str, at: Timestamp) -> bool {
        let new = || SimilarMessages { messages: Vec::new(), last: at };
        let similar = self.similar.get_or_insert_mut_ref(key, new);
        if at.duration_since(similar.last) > SIMILAR_INTERVAL {
            similar.messages.clear();
        }
        similar.last = at;
        if similar.messages.iter().any(|it| it == message) {
            return true;
        }
        // A combined message isn't stored: only stored messages have their own Event objects.
        if similar.messages.len() + 1 >= COMBINE_THRESHOLD {
            return false;
        }
        similar.messages.push(message.to_owned());
        true
    }

    /// Takes a token from the budget. Returns `false` if there is none.
    fn take_token(&mut self, key: &BudgetKey, at: Timestamp) -> bool {
        let budget = self
            .budgets
            .get_or_insert_mut_ref(key, || Budget { tokens: BUDGET_BURST, refilled_at: at });
        let elapsed = at.duration_since(budget.refilled_at).as_secs_f64().max(0.0);
        budget.tokens = (budget.tokens + elapsed / BUDGET_REFILL.as_secs_f64()).min(BUDGET_BURST);
        budget.refilled_at = budget.refilled_at.max(at);
        if budget.tokens < 1.0 {
            return false;
        }
        budget.tokens -= 1.0;
        true
    }

    /// The name of an Event object: the object's name, cut if it is too long, and the time in
    /// hexadecimal nanoseconds. The time is always later than that in the last name.
    fn name(&mut self, object: &str, at: Timestamp) -> String {
        const MAX_NAME_BYTES: usize = 253;
        self.last_nanosecond = at.as_nanosecond().max(self.last_nanosecond + 1);
        let suffix = format!(".{:x}", self.last_nanosecond);
        // Names of objects are ASCII.
        let object = object.get(..MAX_NAME_BYTES.saturating_sub(suffix.len())).unwrap_or(object);
        object.trim_end_matches(['.', '-']).to_owned() + &suffix
    }

    #[cfg(test)]
    fn cache_sizes(&self) -> [usize; 3] {
        [self.similar.len(), self.series.len(), self.budgets.len()]
    }
}
