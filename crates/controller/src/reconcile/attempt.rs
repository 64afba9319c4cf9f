//! From a decision to a scale that is written, or not.

use std::{sync::Arc, time::Duration};

use hpa_calc::{
    api::{ConditionStatus, ConditionType, HorizontalPodAutoscaler, Pod, Scale},
    conclude::Conclusion,
    decide::Decision,
    explain::MetricExplanation,
    pause::Pause,
    plan::Plan,
    pods::PodCounts,
    selector::Selector,
};
use hpa_metrics_client::describe;
use jiff::Timestamp;
use tracing::debug;

use super::{
    Reconciler, StatusError,
    read::{ScaleUnavailable, Target},
    status,
};
use crate::{
    cache::PodIndex,
    cache::{Autoscaler, desired_state_eq},
    clock::Instants,
    key::HpaKey,
    scale_target::ScaleError,
};

/// How often a decision is made anew because the target's replicas changed under it, or its write is repeated
/// because the target changed otherwise.
const MAX_WRITES: usize = 5;

/// One reconcile of one autoscaler.
pub(super) struct Attempt<'a> {
    reconciler: &'a Reconciler,
    key: &'a HpaKey,
    hpa: &'a HorizontalPodAutoscaler,
    autoscaler: &'a Arc<Autoscaler>,
    pause: Pause,
    /// The object as it was last read or written by this attempt: what a watch told may be behind, and an own write whose
    /// answer was lost is not in it.
    latest: Option<HorizontalPodAutoscaler>,
    /// Whether it is stored that a zero is the autoscaler's doing, ahead of the scale.
    pub(super) zero_premarked: bool,
    /// Whether the scale may have been written although no answer says so.
    pub(super) scale_write_uncertain: bool,
    writes_left: usize,
    /// The pods as the API server has them, where what is known of them was not to be trusted.
    listed: Option<Vec<Arc<Pod>>>,
}

/// What an attempt came to.
pub(super) struct Outcome {
    pub(super) conclusion: Conclusion,
    /// When it was decided: the moment to which the times of the history are related.
    pub(super) decided: Instants,
    /// How long each metric took to be read.
    pub(super) reads: Vec<Duration>,
}

/// How a write of the scale went.
enum Written {
    /// Written, or not for the reason given.
    Done(Result<(), String>),
    /// What it was decided on is no longer so, or never was, for the reason given.
    Outdated(&'static str),
    /// The scale that was known is not the one that the API server has; nothing was written.
    UnlikeKnown,
    /// The autoscaler was changed or deleted; nothing was written.
    AutoscalerChanged,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        reconciler: &'a Reconciler,
        key: &'a HpaKey,
        hpa: &'a HorizontalPodAutoscaler,
        autoscaler: &'a Arc<Autoscaler>,
        pause: Pause,
    ) -> Self {
        Self {
            reconciler,
            key,
            hpa,
            autoscaler,
            pause,
            latest: None,
            zero_premarked: false,
            scale_write_uncertain: false,
            writes_left: MAX_WRITES,
            listed: None,
        }
    }

    /// Decides, writes the scale, and decides again while what was decided on turns out to be no longer so. `None` if
    /// the autoscaler itself changed: then nothing of what was decided holds.
    pub(super) async fn run(&mut self) -> Option<Outcome> {
        if self.autoscaler.set_target(&self.hpa.spec.scale_target_ref) {
            // What it selected were the pods of another target, and this one may not be readable.
            self.reconciler.selectors.set(self.key, None);
        }
        let mut target = self.target().await;
        if let Ok(target) = &target {
            self.autoscaler.reconcile_restored_history(
                target.read.scale.spec_replicas,
                self.reconciler.clock.instants(),
            );
        }
        loop {
            if let Ok(target) = &target {
                self.list_pods_if_cache_incomplete(&target.read.scale).await;
            }
            let (decision, decided, reads) = self.decide(&target).await;
            let (Some(replicas), Ok(found)) = (decision.scale_to(), &mut target) else {
                let conclusion = decision.conclude(Ok(()), decided.wall);
                return Some(Outcome { conclusion, decided, reads });
            };
            match self.scale(&decision, found, replicas).await {
                Written::Done(outcome) => {
                    let conclusion = decision.conclude(outcome, self.now_since(decided));
                    return Some(Outcome { conclusion, decided, reads });
                }
                Written::AutoscalerChanged => return None,
                Written::Outdated(what) => debug!("{what}, deciding again"),
                Written::UnlikeKnown => {
                    debug!("the scale is not the one that was known, deciding again");
                    target = self.read_target().await;
                }
            }
        }
    }

    /// The target's scale: the known one, where that will do. It will not for an autoscaler that may scale to zero, since
    /// an older scale than what its status tells of would be taken for somebody else's doing; not before the first read,
    /// and after a write that failed, since what a predecessor or the write did may not be known yet; and not after a
    /// reconcile that failed, which may be because the target is gone.
    async fn target(&self) -> Result<Target, ScaleUnavailable> {
        if self.autoscaler.scale_is_trusted()
            && !may_be_at_zero(self.hpa)
            && let Some(known) = self.reconciler.known_target(self.hpa).await
        {
            return Ok(known);
        }
        self.read_target().await
    }

    async fn read_target(&self) -> Result<Target, ScaleUnavailable> {
        let target = self.reconciler.read_target(self.hpa).await;
        self.autoscaler.set_scale_trusted(target.is_ok());
        target
    }

    /// What a wall clock shows now that nobody has set since an earlier moment.
    fn now_since(&self, earlier: Instants) -> Timestamp {
        let passed = self.reconciler.clock.instants().monotonic.saturating_sub(earlier.monotonic);
        earlier.wall.checked_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// Lists the target's pods where some could not be decoded and it has more than are known: everything is listed anew
    /// ever less often because of them.
    async fn list_pods_if_cache_incomplete(&mut self, scale: &Scale) {
        let (reconciler, namespace) = (self.reconciler, &self.key.namespace);
        let is_incomplete = reconciler.pods.index(namespace).is_some_and(PodIndex::is_incomplete);
        if self.listed.is_some() || !is_incomplete {
            return;
        }
        let Ok(selector) = Selector::parse(&scale.selector) else { return };
        let known = reconciler.pods.select(namespace, &selector).len();
        if known < usize::try_from(scale.status_replicas).unwrap_or(0) {
            self.listed = reconciler.list_pods(namespace, &scale.selector).await.ok();
        }
    }

    /// Decides on a target; with the decision comes when that was, and how long each metric took to be read.
    async fn decide(
        &mut self,
        target: &Result<Target, ScaleUnavailable>,
    ) -> (Decision<'a>, Instants, Vec<Duration>) {
        let Self { reconciler, key, hpa, .. } = *self;
        if target.as_ref().is_err_and(|unread| unread.is_gone) {
            // The pods it had are nobody's now: no other autoscaler is to suffer from them.
            reconciler.selectors.set(key, None);
        }
        let scale = target.as_ref().map(|target| target.read.scale.clone());
        let scale = scale.map_err(|unread| unread.error.clone());
        let listed = self.listed.clone();
        let is_at_zero = scale.as_ref().is_ok_and(|scale| scale.spec_replicas == 0);
        let mut has_selected = false;
        let plan = Plan::new(hpa, scale, &reconciler.settings, |selector| {
            has_selected = true;
            reconciler.select(key, selector, listed)
        });
        if is_at_zero && !has_selected {
            reconciler.selectors.set(key, None);
        }
        let (readings, reads) = reconciler.read_metrics(hpa, &plan).await;
        let now = reconciler.clock.instants();
        let decision = plan.decide(readings, self.autoscaler.history(now), now.wall);
        (decision.paused(self.pause), now, reads)
    }

    /// Writes what was decided, once it is sure that it may be.
    async fn scale(
        &mut self,
        decision: &Decision<'_>,
        target: &mut Target,
        replicas: i32,
    ) -> Written {
        if self.listed.take().is_none()
            && scale_down_from_incomplete_pods(decision, &target.read.scale)
        {
            return match self
                .reconciler
                .list_pods(&self.key.namespace, &target.read.scale.selector)
                .await
            {
                Ok(pods) => {
                    self.listed = Some(pods);
                    Written::Outdated("fewer pods were known than the target has")
                }
                Err(message) => Written::Done(Err(message)),
            };
        }
        if let Err(written) = self.confirm().await {
            return written;
        }
        if let Err(written) = self.premark_zero(decision).await {
            return written;
        }
        self.write_scale(target, replicas).await
    }

    /// Makes sure before a scale is written that the autoscaler is what it was decided on: a watch may have been silent
    /// for minutes, and a scale by a spec that is gone would be out of bounds.
    async fn confirm(&mut self) -> Result<(), Written> {
        let Self { reconciler, key, hpa, autoscaler, .. } = self;
        let failed = |message: String| {
            Written::Done(Err(format!("the autoscaler could not be read once more: {message}")))
        };
        match reconciler.get(key).await {
            Ok(latest) => {
                let latest = latest.map_err(failed)?;
                let object = latest.object.clone();
                autoscaler.refresh(latest);
                if object.metadata.uid != hpa.metadata.uid || !desired_state_eq(&object, hpa) {
                    return Err(Written::AutoscalerChanged);
                }
                self.latest = Some(object);
                Ok(())
            }
            // Whether it is gone, or its group is not served for the moment, is for the watch to tell.
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                Err(Written::AutoscalerChanged)
            }
            Err(kube::Error::Api(status)) => Err(failed(status.message)),
            Err(error) => Err(failed(describe(&error))),
        }
    }

    /// Stores ahead of a scale to zero that it is the autoscaler's doing; see [`Decision::status_before_scale`].
    async fn premark_zero(&mut self, decision: &Decision<'_>) -> Result<(), Written> {
        let Some(status) = decision.status_before_scale() else { return Ok(()) };
        match self
            .reconciler
            .patch_status(self.key, self.stored(), &status::as_stored(status))
            .await
        {
            // It is told already, by a reconcile that could not write the scale.
            Ok(None) => {}
            Ok(Some(stored)) => {
                self.latest = Some(stored.object.clone());
                // Whatever becomes of the rest, the next reconcile is to know of it.
                self.reconciler.autoscalers.apply_own_write(self.key, stored);
            }
            Err(StatusError::Gone) => return Err(Written::AutoscalerChanged),
            Err(StatusError::Failed(message)) => {
                let message =
                    format!("the status that foretells it could not be stored: {message}");
                return Err(Written::Done(Err(message)));
            }
        }
        self.zero_premarked = true;
        Ok(())
    }

    /// The object as it is stored, as far as is known.
    pub(super) fn stored(&self) -> &HorizontalPodAutoscaler {
        self.latest.as_ref().unwrap_or(self.hpa)
    }

    /// Whether the autoscaler still exists and asks for what it asked for.
    fn is_current(&self) -> bool {
        let known = self.reconciler.autoscalers.get(self.key);
        known.is_some_and(|known| {
            Arc::ptr_eq(&known, self.autoscaler)
                && !known.is_suspended()
                && desired_state_eq(&known.object(), self.hpa)
        })
    }

    /// Writes the replicas. A conflict over anything but the replicas is no reason to decide anew: it is written
    /// against the newer version. If the replicas are no longer those that were decided on, it is never forced.
    async fn write_scale(&mut self, target: &mut Target, replicas: i32) -> Written {
        let (namespace, name) =
            (&self.hpa.metadata.namespace, &self.hpa.spec.scale_target_ref.name);
        let scales = &self.reconciler.scales;
        loop {
            if !self.is_current() {
                return Written::AutoscalerChanged;
            }
            self.writes_left = self.writes_left.saturating_sub(1);
            let Target { mapping, read, is_known } = target;
            let error = match scales.update(namespace, mapping, name, read, replicas).await {
                Ok(written) => {
                    self.reconciler.observe_response(self.hpa, mapping, &written);
                    return Written::Done(Ok(()));
                }
                Err(error) => error,
            };
            if *is_known && error.is_refusal() {
                return Written::UnlikeKnown;
            }
            if !matches!(error, ScaleError::Conflict(_)) || self.writes_left == 0 {
                self.scale_write_uncertain = !error.is_refusal();
                self.autoscaler.set_scale_trusted(false);
                return Written::Done(Err(error.to_string()));
            }
            let Ok(latest) = scales.get(namespace, mapping, name).await else {
                return Written::Done(Err(error.to_string()));
            };
            let decided_on = std::mem::replace(read, latest);
            // Another object of the same name is not the one that was decided on.
            if decided_on.scale.spec_replicas != read.scale.spec_replicas
                || decided_on.uid != read.uid
            {
                return Written::Outdated("the target's replicas changed meanwhile");
            }
        }
    }
}

/// Whether the target may be at zero because of the autoscaler.
fn may_be_at_zero(hpa: &HorizontalPodAutoscaler) -> bool {
    let scaled_to_zero = hpa.status.condition(&ConditionType::ScaledToZero);
    hpa.spec.min_replicas == Some(0)
        || scaled_to_zero.is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Whether a decision to scale down counted on fewer pods than the target says that it has: a watch of pods that was
/// interrupted looks like that, and usage shared by few pods like a small need.
fn scale_down_from_incomplete_pods(decision: &Decision<'_>, scale: &Scale) -> bool {
    let is_down = decision.scale_to().is_some_and(|to| to < scale.spec_replicas);
    let known = |metric: &MetricExplanation| metric.pods.as_ref().map(PodCounts::total);
    let status_replicas = usize::try_from(scale.status_replicas).unwrap_or(0);
    is_down
        && decision
            .explanation()
            .metrics
            .iter()
            .filter_map(known)
            .any(|known| known < status_replicas)
}
