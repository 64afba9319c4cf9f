//! What the controller of the demo remembers, for the dashboard.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use async_trait::async_trait;
use hpa_calc::{History, explain::Reason};
use hpa_controller::{Clock, HpaKey, Observer, Reconciled};
use hpa_dashboard::{Past, PastDecision, PastSample, PastSource};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::clock::DemoClock;

/// Samples of an autoscaler: an hour and a half of simulated time.
const MAX_SAMPLES: usize = 360;
/// Runs of decisions of an autoscaler.
const MAX_DECISIONS: usize = 50;

/// The last decisions of each autoscaler.
pub(super) struct DecisionMemory {
    clock: Arc<DemoClock>,
    autoscalers: Mutex<HashMap<HpaKey, Remembered>>,
}

#[derive(Default)]
struct Remembered {
    history: History,
    samples: VecDeque<PastSample>,
    decisions: VecDeque<(Reason, PastDecision)>,
}

impl DecisionMemory {
    pub(super) fn new(clock: Arc<DemoClock>) -> Self {
        Self { clock, autoscalers: Mutex::default() }
    }
}

impl Observer for DecisionMemory {
    fn reconciled(&self, reconciled: &Reconciled<'_>) {
        let mut autoscalers = self.autoscalers.lock();
        let remembered = autoscalers.entry(reconciled.key.clone()).or_default();
        remembered.add(reconciled, self.clock.now());
    }
}

#[async_trait]
impl PastSource for DecisionMemory {
    async fn past(
        &self,
        autoscaler: &HpaKey,
        _: Option<&str>,
        after: Option<Timestamp>,
    ) -> Result<Past, String> {
        let autoscalers = self.autoscalers.lock();
        let Some(remembered) = autoscalers.get(autoscaler) else { return Ok(Past::default()) };
        let is_new = |sample: &&PastSample| after.is_none_or(|after| sample.at > after);
        Ok(Past {
            history: Some(remembered.history.clone()),
            settings: None,
            samples: remembered.samples.iter().filter(is_new).cloned().collect(),
            decisions: remembered.decisions.iter().map(|(_, run)| run.clone()).collect(),
        })
    }
}

impl Remembered {
    fn add(&mut self, reconciled: &Reconciled<'_>, at: Timestamp) {
        let conclusion = reconciled.conclusion;
        let explanation = &conclusion.explanation;
        self.history = conclusion.history.clone();
        push(&mut self.samples, PastSample::new(explanation, at), MAX_SAMPLES);
        let reason = explanation.reason();
        let decision = PastDecision {
            from: at,
            until: at,
            current: Some(explanation.current_replicas),
            scaled_to: conclusion.scaled_to,
            sentence: explanation.sentence(reconciled.hpa),
        };
        match self.decisions.back_mut() {
            Some((last_reason, last)) if *last_reason == reason && is_same(last, &decision) => {
                *last = PastDecision { from: last.from, ..decision };
            }
            _ => push(&mut self.decisions, (reason, decision), MAX_DECISIONS),
        }
    }
}

/// Whether two decisions have the same outcome. A scaling is one of its own.
fn is_same(a: &PastDecision, b: &PastDecision) -> bool {
    a.current == b.current && a.scaled_to.is_none() && b.scaled_to.is_none()
}

fn push<T>(ring: &mut VecDeque<T>, item: T, capacity: usize) {
    if ring.len() >= capacity {
        ring.pop_front();
    }
    ring.push_back(item);
}
