use std::{collections::BTreeMap, hash::Hash, time::Duration};

use hashbrown::{HashMap, hash_map::Entry};
use tokio::time::Instant;

use super::QueueStats;

/// A place in the queue: when the key is due, then the order of adding.
type Place = (Instant, u64);

/// The queue without its waiting workers. Times come in as arguments.
pub(super) struct State<K> {
    order: BTreeMap<Place, K>,
    waiting: HashMap<K, Place>,
    running: HashMap<K, Running>,
    sequence: u64,
    /// How often a key was added, by whatever delay.
    scheduled: u64,
    /// How many keys were handed out.
    handed_out: u64,
    /// How many were taken back although they were due.
    forgotten_due: u64,
    /// When a key was last handed out, or work on one ended.
    progress: Option<Instant>,
    is_shut_down: bool,
    /// Whether a worker sleeps until the first key is due.
    pub(super) has_sleeper: bool,
}

/// A key that is being worked on.
struct Running {
    since: Instant,
    /// When to run it again, if it was added since.
    again: Option<Instant>,
}

/// What a worker that asks for a key has to do.
pub(super) enum Next<K> {
    /// Work on this key. `more` says that others wait, and somebody should look after them.
    Key { key: K, lateness: Duration, more: bool },
    /// Sleep until then, as the only one who does.
    SleepUntil(Instant),
    /// Wait for a change.
    Wait,
    /// Stop.
    ShutDown,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new() -> Self {
        Self {
            order: BTreeMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            sequence: 0,
            scheduled: 0,
            handed_out: 0,
            forgotten_due: 0,
            progress: None,
            is_shut_down: false,
            has_sleeper: false,
        }
    }

    /// Returns whether the first key of the queue changed, so that a worker has to be woken.
    pub(super) fn add(&mut self, key: K, due: Instant) -> bool {
        if self.is_shut_down {
            return false;
        }
        self.scheduled += 1;
        if let Some(Running { again, .. }) = self.running.get_mut(&key) {
            *again = Some(again.map_or(due, |other| other.min(due)));
            return false;
        }
        self.insert(key, due)
    }

    fn insert(&mut self, key: K, due: Instant) -> bool {
        self.sequence += 1;
        let place = (due, self.sequence);
        match self.waiting.entry(key) {
            Entry::Occupied(mut waiting) => {
                if waiting.get().0 <= due {
                    return false;
                }
                let later = waiting.insert(place);
                self.order.remove(&later);
                self.order.insert(place, waiting.key().clone());
            }
            Entry::Vacant(vacant) => {
                self.order.insert(place, vacant.key().clone());
                vacant.insert(place);
            }
        }
        self.order.first_key_value().is_some_and(|(first, _)| *first == place)
    }

    pub(super) fn remove(&mut self, key: &K, now: Instant) -> bool {
        if let Some(running) = self.running.get_mut(key) {
            return running.again.take().is_some();
        }
        let Some(place) = self.waiting.remove(key) else { return false };
        if place.0 <= now {
            self.forgotten_due += 1;
        }
        self.order.remove(&place).is_some()
    }

    pub(super) fn next(&mut self, now: Instant) -> Next<K> {
        if self.is_shut_down {
            return Next::ShutDown;
        }
        let Some(first) = self.order.first_entry() else { return Next::Wait };
        let (due, _) = *first.key();
        if due <= now {
            let key = first.remove();
            self.waiting.remove(&key);
            self.running.insert(key.clone(), Running { since: now, again: None });
            self.handed_out += 1;
            self.progress = Some(now);
            return Next::Key {
                key,
                lateness: now.duration_since(due),
                more: !self.order.is_empty(),
            };
        }
        if self.has_sleeper {
            return Next::Wait;
        }
        self.has_sleeper = true;
        Next::SleepUntil(due)
    }

    /// Ends the work on a key. Returns what [`State::add`] does.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> bool {
        self.progress = Some(now);
        match self.running.remove_entry(key) {
            // Behind the keys that became due meanwhile, or a key that is always added anew would starve them.
            Some((key, Running { again: Some(again), .. })) if !self.is_shut_down => {
                self.insert(key, again.max(now))
            }
            _ => false,
        }
    }

    pub(super) fn shut_down(&mut self) {
        self.is_shut_down = true;
        self.order.clear();
        self.waiting.clear();
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn due(&self, now: Instant) -> usize {
        self.order.range(..=(now, u64::MAX)).count()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn stats(&self, now: Instant) -> QueueStats {
        let due = self.due(now);
        let running = || self.running.values().map(|running| now.duration_since(running.since));
        QueueStats {
            depth: due,
            adds: self.handed_out + self.forgotten_due + u64::try_from(due).unwrap_or(u64::MAX),
            scheduled: self.scheduled,
            unfinished: running().sum(),
            longest_running: running().max().unwrap_or_default(),
            progress: self.progress,
        }
    }
}
