//! A look at an autoscaler that another controller handles: decided, compared, not written.

use std::sync::Arc;

use hpa_calc::{
    api::HorizontalPodAutoscaler,
    conclude::Conclusion,
    decide::{Decision, ReconcileError},
    plan::Plan,
};
use tracing::{debug, info, warn};

use super::{Reconciler, read::Unread};
use crate::{
    autoscalers::Autoscaler,
    observer::{ErrorClass, Finished, Reconciled},
    selectors::HpaKey,
    shadow::{self, Comparison, Look, Record, Verdict},
};

impl Reconciler {
    /// Decides on an autoscaler and compares that with what another controller wrote. Writes nothing.
    pub(super) async fn look(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &Arc<HorizontalPodAutoscaler>,
    ) {
        let begun = self.clock.moment().running;
        let look = {
            let mut record = autoscaler.shadow.lock();
            let new = || Record::begin(hpa.clone(), &self.settings, begun);
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
        if target.as_ref().is_err_and(|unread: &Unread| unread.is_gone) {
            self.selectors.set(key, None);
        }
        let scale = target.map(|target| target.read.scale).map_err(|unread| unread.error);
        let scale = match &look {
            Some(Look { is_answer: true, .. }) => scale.map(|scale| shadow::found(theirs, scale)),
            _ => scale,
        };
        let begins_with = match &look {
            Some(look) => {
                HorizontalPodAutoscaler { status: look.before.clone(), ..HorizontalPodAutoscaler::clone(hpa) }
            }
            None => HorizontalPodAutoscaler::clone(hpa),
        };
        let plan =
            Plan::new(&begins_with, scale, &self.settings, |selector| self.select(key, selector, None));
        let (readings, reads) = self.read_metrics(&begins_with, &plan).await;
        let now = self.clock.moment();
        let decision = plan.decide(readings, autoscaler.history(now), now.wall);
        let conclusion = match look {
            Some(look) if look.is_compared => self.compare(key, autoscaler, hpa, decision, look.is_answer),
            _ => foretell(decision, now.wall),
        };
        let took = self.clock.moment().running.saturating_sub(begun);
        self.observer.reconciled(&Reconciled { key, hpa, conclusion: &conclusion, took, reads: &reads });
        let is_decided = matches!(conclusion.error, None | Some(ReconcileError::SomeMetrics(_)));
        self.observer.finished(&Finished {
            key,
            scaled: None,
            desired_replicas: is_decided.then_some(conclusion.explanation.desired_replicas),
            error: conclusion.error.as_ref().map(ErrorClass::of),
            took,
        });
        autoscaler.set_history(conclusion.history, now);
    }

    fn compare(
        &self,
        key: &HpaKey,
        autoscaler: &Autoscaler,
        hpa: &HorizontalPodAutoscaler,
        decision: Decision<'_>,
        is_answer: bool,
    ) -> Conclusion {
        let now = self.clock.moment();
        let comparison = shadow::compare(decision, &hpa.status, is_answer, now.wall);
        let judged = autoscaler
            .shadow
            .lock()
            .as_mut()
            .map(|record| record.judge(&comparison, &hpa.status, now.running));
        let Comparison { conclusion, differences, .. } = comparison;
        let Some(judged) = judged else { return conclusion };
        self.observer.compared(key, judged.verdict);
        let ours = &conclusion.explanation;
        let differences: Vec<_> = differences.iter().map(ToString::to_string).collect();
        let differences = differences.join("; ");
        match (judged.verdict, judged.is_news) {
            (Verdict::Different, true) => {
                let theirs = shadow::explained(&hpa.status);
                warn!(differences, %ours, theirs, "the other controller decided differently");
            }
            (Verdict::Same, true) => info!(%ours, "the other controller decides the same again"),
            (verdict, _) => debug!(?verdict, differences, %ours, "compared"),
        }
        conclusion
    }
}

/// Where nobody has answered: what would be done, with the history of one that did not do it.
fn foretell(decision: Decision<'_>, now: jiff::Timestamp) -> Conclusion {
    debug!(decision = %decision.explanation(), "decided, and nothing to compare with");
    let mut conclusion = decision.clone().conclude(Ok(()), now);
    // It was not written.
    conclusion.history = decision.conclude(Err(String::new()), now).history;
    conclusion
}
