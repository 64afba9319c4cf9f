//! Decides what to write for an event: an Event of its own, a higher count of one written before, or nothing.
//!
//! The rules are those of client-go's event correlator, but for the budget: `SuccessfulRescale` has one of its own.

use std::sync::Arc;

use hpa_calc::event::{EventReason, EventType};
use jiff::{SignedDuration, Timestamp};

use super::{ObjectReference, RecordedEvent, lru::Lru, truncate};

/// The most entries in each of the caches.
const CACHE_ENTRIES: usize = 4096;
/// With this many different messages, similar events are combined.
const SIMILAR_EVENTS: usize = 10;
/// Similar events are those that follow each other within this time.
const SIMILAR_INTERVAL: SignedDuration = SignedDuration::from_secs(600);
/// How many events an object may have at once.
const BURST: f64 = 25.0;
/// In which time an object may have one more.
const REFILL: SignedDuration = SignedDuration::from_secs(300);

/// An Event object as it is to be on the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventWrite {
    /// The Event's name.
    pub(super) name: String,
    pub(super) object: Arc<ObjectReference>,
    pub(super) event_type: EventType,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// How often it happened. From 2 on the Event should be there, and be patched.
    pub(super) count: i32,
}

/// What to do about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Write(EventWrite),
    OverBudget,
}

/// Who an event is about. The uid tells, but for objects that have none.
type ObjectId = (String, String, String);

/// What similar events have in common: all but the message.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SimilarKey {
    object: ObjectId,
    event_type: EventType,
    reason: String,
}

/// What the events that share an Event object have in common. Without a message it is that of combined events.
type EventKey = (SimilarKey, Option<String>);

/// Whose budget an event is charged to: of an object, for its rescales or for everything else.
type BudgetKey = (ObjectId, bool);

struct Similar {
    messages: Vec<String>,
    last: Timestamp,
}

struct Observed {
    name: String,
    first: Timestamp,
    count: i32,
}

struct Budget {
    tokens: f64,
    at: Timestamp,
}

pub(super) struct Correlator {
    similar: Lru<SimilarKey, Similar>,
    observed: Lru<EventKey, Observed>,
    budgets: Lru<BudgetKey, Budget>,
    /// The last nanosecond in a name, for events of the same time need different names.
    last_named: i128,
}

impl Correlator {
    pub(super) fn new() -> Self {
        Self {
            similar: Lru::new(CACHE_ENTRIES),
            observed: Lru::new(CACHE_ENTRIES),
            budgets: Lru::new(CACHE_ENTRIES),
            last_named: 0,
        }
    }

    /// Decides about an event. Time is that of the event.
    pub(super) fn decide(&mut self, event: RecordedEvent) -> Decision {
        let RecordedEvent { object, event_type, reason, mut message, at } = event;
        let object_id = (object.uid.clone(), object.namespace.clone(), object.name.clone());
        let is_rescale =
            event_type == EventType::Normal && reason == EventReason::SuccessfulRescale.as_str();
        let similar =
            SimilarKey { object: object_id.clone(), event_type, reason: reason.to_string() };
        let key = if self.is_one_of_many(&similar, &message, at) {
            message.insert_str(0, "(combined from similar events): ");
            truncate(&mut message);
            (similar, None)
        } else {
            (similar, Some(message.clone()))
        };
        let name = self.name(&object.name, at);
        let observed =
            self.observed.get_or_insert_with(&key, || Observed { name, first: at, count: 0 });
        // Counted even if it is not written: the next write tells how often it really happened.
        observed.count = observed.count.saturating_add(1);
        let (name, first, count) = (observed.name.clone(), observed.first, observed.count);
        if !self.may_write(&(object_id, is_rescale), at) {
            return Decision::OverBudget;
        }
        let reason = reason.into_owned();
        Decision::Write(EventWrite {
            name,
            object,
            event_type,
            reason,
            message,
            first,
            last: at,
            count,
        })
    }

    /// Whether too many similar events with other messages came before.
    fn is_one_of_many(&mut self, key: &SimilarKey, message: &str, at: Timestamp) -> bool {
        let similar =
            self.similar.get_or_insert_with(key, || Similar { messages: Vec::new(), last: at });
        if at.duration_since(similar.last) > SIMILAR_INTERVAL {
            similar.messages.clear();
        }
        similar.last = at;
        if similar.messages.iter().any(|known| known == message) {
            return false;
        }
        // The message that makes it too many is not remembered, so that the earlier ones keep their Events.
        if similar.messages.len() + 1 >= SIMILAR_EVENTS {
            return true;
        }
        similar.messages.push(message.to_owned());
        false
    }

    fn may_write(&mut self, key: &BudgetKey, at: Timestamp) -> bool {
        let budget = self.budgets.get_or_insert_with(key, || Budget { tokens: BURST, at });
        let passed = at.duration_since(budget.at).as_secs_f64().max(0.0);
        budget.tokens = (budget.tokens + passed / REFILL.as_secs_f64()).min(BURST);
        budget.at = budget.at.max(at);
        if budget.tokens < 1.0 {
            return false;
        }
        budget.tokens -= 1.0;
        true
    }

    /// A name for an Event: the object's name and the time in nanoseconds, in hexadecimal.
    fn name(&mut self, object: &str, at: Timestamp) -> String {
        const LONGEST_NAME: usize = 253;
        self.last_named = at.as_nanosecond().max(self.last_named + 1);
        let suffix = format!(".{:x}", self.last_named);
        // Names of objects are ASCII.
        let object = object.get(..LONGEST_NAME.saturating_sub(suffix.len())).unwrap_or(object);
        object.trim_end_matches(['.', '-']).to_owned() + &suffix
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> [usize; 3] {
        [self.similar.len(), self.observed.len(), self.budgets.len()]
    }
}
