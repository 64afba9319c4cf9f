//! A look at an autoscaler that another controller handles: decided, compared, not written.

use std::sync::Arc;

use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    conclude::Conclusion,
    decide::{Decision, ReconcileError},
    plan::Plan,
};
use tracing::{debug, info, warn};

use super::{Reconciler, read::ScaleUnavailable};
use crate::{
    cache::Autoscaler,
    clock::Instants,
    key::HpaKey,
    reconcile::observer::{ErrorClass, Finished, Reconciled},
    shadow,
    shadow::{Comparison, DecisionInputs, Observation, Record, Verdict},
};

impl Reconciler {
    /// Decides on an autoscaler and compares that with what another controller wrote. Writes nothing.
    pub(super) async fn look(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &Arc<HorizontalPodAutoscaler>,
    ) {
        let begun = self.clock.instants().monotonic;
        let look = {
            let mut record = autoscaler.shadow.lock();
            let new = || Box::new(Record::begin(hpa.clone(), &self.settings, begun));
            record.get_or_insert_with(new).look(hpa)
        };
        let theirs = &hpa.status;
        let target = self.read_target(hpa).await;
        if let Ok(target) = &target
            && look.as_ref().is_some_and(|look| !look.is_answer)
            && target.read.scale.spec_replicas != theirs.current_replicas
        {
            debug!("the other controller has not yet told of the replicas that there are");
            return;
        }
        if target.as_ref().is_err_and(|unread: &ScaleUnavailable| unread.is_gone) {
            self.selectors.set(key, None);
        }
        let scale = target.map(|target| target.read.scale).map_err(|unread| unread.error);
        let scale = match &look {
            Some(Observation { is_answer: true, .. }) => {
                scale.map(|scale| shadow::found(theirs, scale))
            }
            _ => scale,
        };
        let begins_with = match &look {
            Some(look) => HorizontalPodAutoscaler {
                status: look.before.clone(),
                ..HorizontalPodAutoscaler::clone(hpa)
            },
            None => HorizontalPodAutoscaler::clone(hpa),
        };
        let mut selected = None;
        let plan = Plan::new(&begins_with, scale.clone(), &self.settings, |selector| {
            selected.insert(self.select(key, selector, None)).clone()
        });
        let (readings, reads) = self.read_metrics(&begins_with, &plan).await;
        let now = self.clock.instants();
        let history = autoscaler.history(now);
        let read = selected.map(|selected| DecisionInputs { selected, readings: readings.clone() });
        let earlier =
            autoscaler.shadow.lock().as_mut().map(|record| record.keep(read)).unwrap_or_default();
        let decision = plan.decide(readings, history.clone(), now.wall);
        let conclusion = match look {
            Some(look) => {
                let earlier = earlier.iter().map(|grounds| {
                    grounds.decide(
                        &begins_with,
                        scale.clone(),
                        &self.settings,
                        history.clone(),
                        now.wall,
                    )
                });
                let comparison =
                    shadow::compare_any(decision, earlier, theirs, look.is_answer, now.wall);
                if look.is_compared {
                    self.judge(key, autoscaler, theirs, &comparison, now);
                } else {
                    let ours = &comparison.conclusion.explanation;
                    debug!(%ours, "decided, and the other controller may not have yet");
                }
                comparison.conclusion
            }
            None => premark_zero(decision, now.wall),
        };
        let took = self.clock.instants().monotonic.saturating_sub(begun);
        self.observer.reconciled(&Reconciled {
            key,
            hpa,
            conclusion: &conclusion,
            took,
            reads: &reads,
        });
        let is_decided = matches!(conclusion.error, None | Some(ReconcileError::SomeMetrics(_)));
        self.observer.finished(&Finished {
            key,
            scaled: None,
            desired_replicas: is_decided.then_some(conclusion.explanation.desired_replicas),
            error: conclusion.error.as_ref().map(ErrorClass::from),
            took,
        });
        autoscaler.set_history(conclusion.history, now);
    }

    fn judge(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        theirs: &HorizontalPodAutoscalerStatus,
        comparison: &Comparison,
        now: Instants,
    ) {
        let judged = autoscaler
            .shadow
            .lock()
            .as_mut()
            .map(|record| record.judge(comparison, theirs, now.monotonic));
        let Comparison { conclusion, differences, .. } = comparison;
        let Some(judged) = judged else { return };
        self.observer.compared(key, judged.verdict);
        let ours = &conclusion.explanation;
        let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
        let differences = differences.join("; ");
        match (judged.verdict, judged.is_news) {
            (Verdict::Different, true) => {
                let theirs = shadow::explained(theirs);
                warn!(differences, %ours, theirs, "the other controller decided differently");
            }
            (Verdict::Same, true) => info!(%ours, "the other controller decides the same again"),
            (verdict, _) => debug!(?verdict, differences, %ours, "compared"),
        }
    }
}

/// Where nobody has answered: what would be done, with the history of one that did not do it.
fn premark_zero(decision: Decision<'_>, now: jiff::Timestamp) -> Conclusion {
    debug!(decision = %decision.explanation(), "decided, and nothing to compare with");
    let mut conclusion = decision.clone().conclude(Ok(()), now);
    // It was not written.
    conclusion.history = decision.conclude(Err(String::new()), now).history;
    conclusion
}
