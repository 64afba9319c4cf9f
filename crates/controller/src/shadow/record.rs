//! What is known of one autoscaler in shadow mode, and when a difference counts.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use hpa_calc::{
    api::{ConditionReason, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, ScalingRules},
    settings::Settings,
};
use jiff::SignedDuration;

use super::{
    compare::{Comparison, Difference, explained},
    grounds::DecisionInputs,
};

/// What a comparison counts. One on metric values that none of our looks has read says little: all that can be told is
/// that it goes on.
const COUNTS: usize = 2;
const COUNTS_UNSEEN: usize = 1;

/// In how many comparisons in a row a difference has to hold.
const HOLDS: usize = 2 * COUNTS;
/// The same where the moment matters: the two read other metric values, or a window or a policy bound one of them. Their
/// times of recommendations and scalings are apart by up to a period, so that these end for the one that much earlier.
const HOLDS_WHERE_TIME_MATTERS: usize = 4 * COUNTS;

/// For how many periods a status has to stay as it is to be the answer to what is now.
const SILENT: u32 = 2;

/// What so many looks before the last have read may be what the other controller decided on: it reads at some moment
/// between two of our looks, and the later of them may have read while it scaled.
const EARLIER: usize = 2;

/// What a comparison came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Both decided the same.
    Same,
    /// They did not, which may be because both read the world at different moments, or because the past is not known.
    Unsettled,
    /// They did not, in comparison after comparison.
    Different,
}

impl Verdict {
    /// The name in a metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Unsettled => "unsettled",
            Self::Different => "different",
        }
    }
}

/// A comparison that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// What it came to.
    pub verdict: Verdict,
    /// Whether that is another verdict or another difference than was told last.
    pub is_news: bool,
}

/// What the next comparison is to go by.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// The status that the other controller began with.
    pub(crate) before: HorizontalPodAutoscalerStatus,
    /// Whether it wrote another one since the last look.
    pub(crate) is_answer: bool,
    /// Whether this is to be compared. If not, the decision only feeds the history: the other controller's last
    /// recommendation is renewed at each of its reconciles, though its status does not tell.
    pub(crate) is_compared: bool,
}

/// An autoscaler in shadow mode.
#[derive(Debug)]
pub(crate) struct Record {
    /// As it was at the last look.
    seen: Arc<HorizontalPodAutoscaler>,
    /// From when on all of its past that counts is known.
    knows_past_from: Duration,
    /// For how many periods its status has not changed.
    silent: u32,
    /// What the last looks have read, the newest first; `None` where nothing had to be read.
    read: VecDeque<Option<Arc<DecisionInputs>>>,
    /// What differed in the last comparisons, what those in a row count for each.
    streaks: Vec<(String, usize)>,
    /// What was told last to differ.
    told: Vec<Difference>,
    pub(super) counts: [u64; 3],
    /// The last differences that counted, with both explanations.
    pub(super) last: Option<LastDifference>,
}

/// A difference that counted.
#[derive(Clone, Debug)]
pub(super) struct LastDifference {
    pub(super) differences: Vec<Difference>,
    pub(super) ours: String,
    pub(super) theirs: String,
}

/// Whether this says that a window or a policy changed a decision.
fn is_timed(reason: &ConditionReason) -> bool {
    use ConditionReason::{ScaleDownLimit, ScaleDownStabilized, ScaleUpLimit, ScaleUpStabilized};
    matches!(reason, ScaleUpStabilized | ScaleDownStabilized | ScaleUpLimit | ScaleDownLimit)
}

/// How far back the past of an autoscaler counts.
fn memory(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> Duration {
    let behavior = hpa.spec.behavior.as_ref();
    let up = behavior.and_then(|behavior| behavior.scale_up.as_ref());
    let down = behavior.and_then(|behavior| behavior.scale_down.as_ref());
    let seconds = |seconds: i32| SignedDuration::from_secs(seconds.into());
    let window = |rules: Option<&ScalingRules>| rules?.stabilization_window_seconds.map(seconds);
    let policies = up.into_iter().chain(down).flat_map(|rules| rules.policies.iter().flatten());
    let periods = policies.map(|policy| seconds(policy.period_seconds));
    let windows =
        [window(up).unwrap_or_default(), window(down).unwrap_or(settings.downscale_stabilization)];
    periods.chain(windows).max().unwrap_or_default().unsigned_abs()
}

impl Record {
    /// Begins with an autoscaler, at this time of the running clock. One that no controller has decided on yet has no
    /// past.
    pub(crate) fn begin(
        seen: Arc<HorizontalPodAutoscaler>,
        settings: &Settings,
        running: Duration,
    ) -> Self {
        let has_past = !seen.status.conditions.is_empty();
        let memory = if has_past { memory(&seen, settings) } else { Duration::ZERO };
        Self {
            seen,
            knows_past_from: running.saturating_add(memory),
            silent: 0,
            read: VecDeque::new(),
            streaks: Vec::new(),
            told: Vec::new(),
            counts: [0; 3],
            last: None,
        }
    }

    /// Looks at an autoscaler; `None` while the other controller has not answered to what is asked for, or to what was
    /// changed since the last look.
    pub(crate) fn look(&mut self, hpa: &Arc<HorizontalPodAutoscaler>) -> Option<Observation> {
        let seen = std::mem::replace(&mut self.seen, hpa.clone());
        let is_answer = seen.status != hpa.status;
        if seen.spec != hpa.spec {
            // They are answers to other questions.
            self.read.clear();
        }
        self.silent = if is_answer { 0 } else { self.silent.saturating_add(1) };
        if hpa.status.conditions.is_empty() || (!is_answer && seen.spec != hpa.spec) {
            self.silent = 0;
            return None;
        }
        let is_compared = is_answer || self.silent >= SILENT;
        Some(Observation { before: seen.status.clone(), is_answer, is_compared })
    }

    /// Keeps what a look read, and gives what those before it have read, the newest first.
    pub(crate) fn keep(&mut self, read: Option<DecisionInputs>) -> Vec<Arc<DecisionInputs>> {
        let earlier = self.read.iter().flatten().cloned().collect();
        self.read.push_front(read.map(Arc::new));
        self.read.truncate(EARLIER);
        earlier
    }

    /// Judges a comparison at this time of the running clock.
    pub(crate) fn judge(
        &mut self,
        comparison: &Comparison,
        theirs: &HorizontalPodAutoscalerStatus,
        running: Duration,
    ) -> Evaluation {
        let differences = &comparison.differences;
        let before = std::mem::take(&mut self.streaks);
        let streak =
            |what: &str| before.iter().find(|(other, _)| other == what).map_or(0, |(_, sum)| *sum);
        let counts = if comparison.seen_metrics { COUNTS } else { COUNTS_UNSEEN };
        self.streaks =
            differences.iter().map(|one| (one.what.clone(), streak(&one.what) + counts)).collect();
        let ours = &comparison.conclusion.explanation;
        let is_timed = !comparison.same_metrics
            || ours.stabilized_by.iter().chain(&ours.limited_by).any(is_timed)
            || theirs.conditions.iter().any(|condition| is_timed(&condition.reason));
        let holds = if is_timed { HOLDS_WHERE_TIME_MATTERS } else { HOLDS };
        let is_settled = self.streaks.iter().any(|(_, sum)| *sum >= holds);
        let verdict = match () {
            () if differences.is_empty() => Verdict::Same,
            () if is_settled && running >= self.knows_past_from => Verdict::Different,
            () => Verdict::Unsettled,
        };
        if let Some(count) = self.counts.get_mut(verdict as usize) {
            *count += 1;
        }
        if verdict == Verdict::Different {
            let (ours, theirs) = (ours.to_string(), explained(theirs));
            self.last = Some(LastDifference { differences: differences.clone(), ours, theirs });
        }
        let told = if verdict == Verdict::Different { differences.as_slice() } else { &[] };
        let is_news = verdict != Verdict::Unsettled && self.told != told;
        if is_news {
            self.told = told.to_vec();
        }
        Evaluation { verdict, is_news }
    }
}
