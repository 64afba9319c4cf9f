//! A warning about pods that no selector matches.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use hpa_calc::selector::{MAX_LABEL_BYTES, MAX_LABELS};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::log_interval::mark_logged_if_due;

/// The maximum number of namespaces that a warning names.
const MAX_NAMED_NAMESPACES: usize = 5;

/// The log of all caches of this process: several may have the same pods.
pub static LABEL_LIMIT_LOG: LabelLimitLog =
    LabelLimitLog(Mutex::new(State { last_logged: None, pods: BTreeMap::new() }));

/// Logs pods that exceed the limits of labels: at most one warning a minute, with the number of
/// pods of each namespace.
#[derive(Debug)]
pub struct LabelLimitLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_logged: Option<Instant>,
    /// The names of pods since the last warning, by namespace.
    pods: BTreeMap<String, HashSet<String>>,
}

impl LabelLimitLog {
    /// Adds a pod for the next warning.
    pub fn add(&self, namespace: &str, name: &str) {
        self.0.lock().add(namespace, name);
    }

    /// Logs the pods that were added since the last warning, at most once a minute.
    pub fn log_if_due(&self) {
        let due = self.0.lock().take_due(Instant::now());
        if let Some(pods) = due {
            tracing::warn!(
                pods,
                "no selector matches pods with more than {MAX_LABELS} labels or {} KiB of labels",
                MAX_LABEL_BYTES >> 10
            );
        }
    }
}

impl State {
    fn add(&mut self, namespace: &str, name: &str) {
        self.pods.entry(namespace.to_owned()).or_default().insert(name.to_owned());
    }

    /// The text for a warning at `now`: the namespaces with the most pods.
    fn take_due(&mut self, now: Instant) -> Option<String> {
        if self.pods.is_empty() || !mark_logged_if_due(&mut self.last_logged, now) {
            return None;
        }
        let mut namespaces: Vec<_> = std::mem::take(&mut self.pods).into_iter().collect();
        namespaces.sort_by_key(|(_, names)| Reverse(names.len()));
        let named = namespaces.iter().take(MAX_NAMED_NAMESPACES);
        let mut counts: Vec<_> =
            named.map(|(namespace, names)| format!("{namespace}: {}", names.len())).collect();
        if namespaces.len() > MAX_NAMED_NAMESPACES {
            counts.push(format!("and {} more namespaces", namespaces.len() - MAX_NAMED_NAMESPACES));
        }
        Some(counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_interval::LOG_INTERVAL;

    #[test]
    fn warning_counts_pods_by_namespace_once_a_minute() {
        let (mut state, start) = (State::default(), Instant::now());
        assert_eq!(state.take_due(start), None);
        for (namespace, name) in [("bank", "a"), ("shop", "a"), ("shop", "b"), ("shop", "b")] {
            state.add(namespace, name);
        }
        assert_eq!(state.take_due(start).as_deref(), Some("shop: 2, bank: 1"));
        state.add("bank", "a");
        assert_eq!(state.take_due(start + LOG_INTERVAL / 2), None);
        assert_eq!(state.take_due(start + LOG_INTERVAL).as_deref(), Some("bank: 1"));
        assert_eq!(state.take_due(start + 2 * LOG_INTERVAL), None, "nothing new");
    }

    #[test]
    fn warning_names_a_few_namespaces() {
        let mut state = State::default();
        for at in 0..7 {
            state.add(&format!("ns-{at}"), "a");
        }
        let expected = "ns-0: 1, ns-1: 1, ns-2: 1, ns-3: 1, ns-4: 1, and 2 more namespaces";
        assert_eq!(state.take_due(Instant::now()).as_deref(), Some(expected));
    }
}
