//! Decides on an autoscaler, and again while the inputs of the decision change.

use std::time::Duration;

use hpa_calc::{
    api::{ConditionType, HorizontalPodAutoscaler, Scale},
    conclude::{Conclusion, ScaleWriteError},
    decide::{Decision, ReconcileError},
    history::Direction,
    plan::SelectedPods,
    settings::{PodSelection, Settings},
};
use hpa_lease::Instants;
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::debug;

use super::{
    attempt::{Attempt, Outcome},
    observer::{FinishedReconcile, ReconcileBeforeStatusWrite},
    read::Target,
    report::log_conclusion,
    write_scale::ScaleWrite,
};
use crate::{
    cache::ErrorClass,
    forecast::LoadObservation,
    scale_target::{ScaleObject, ScaleUnavailable},
};

/// If an autoscaler's own sync period is longer, each reconcile reads the scale with a GET.
const LONG_PERIOD: Duration = Duration::from_mins(1);

/// A decision on one set of inputs.
struct TimedDecision<'a> {
    decision: Decision<'a>,
    /// The time of the decision. The timestamps in the history refer to it.
    at: Instants,
    /// The duration of each metric's read, by metric index.
    read_durations: Vec<Duration>,
}

/// A decision after its scale write, if it has one.
struct TimedConclusion {
    conclusion: Conclusion,
    at: Instants,
    read_durations: Vec<Duration>,
}

impl<'a> Attempt<'a> {
    /// Decides, writes the scale and the status, and reports.
    pub(super) async fn run(mut self) -> Outcome<'a> {
        if let Some(concluded) = self.decide_and_scale().await {
            return Outcome::Finished(self.finish(concluded).await);
        }
        if self.zero_premarked {
            // Restores the status, because the scale to zero was not written.
            let status = self.hpa.status.clone();
            let (key, autoscaler) = (self.key, self.autoscaler);
            self.reconciler.store_status(key, autoscaler, self.stored(), status).await;
        }
        Outcome::Superseded
    }

    /// Decides and writes the scale, and repeats both if an input of the decision has changed.
    /// `None` if the autoscaler itself changed or was deleted.
    async fn decide_and_scale(&mut self) -> Option<TimedConclusion> {
        let slot = self.slot;
        let mut target_result = slot.release_if_slow(self.target()).await;
        if let Ok(target) = &target_result {
            let replicas = target.scale_object.scale.spec_replicas;
            let now = self.reconciler.clock.instants();
            self.autoscaler.check_restored_history(replicas, now);
            let (key, autoscaler) = (self.key, self.autoscaler);
            self.reconciler.report_overwritten_replicas(key, autoscaler, self.hpa, replicas);
        }
        loop {
            if let Ok(target) = &target_result {
                slot.release_if_slow(
                    self.list_pods_if_cache_incomplete(&target.scale_object.scale),
                )
                .await;
                if self.settings.pods == PodSelection::Owned {
                    slot.release_if_slow(self.find_owned_pods(&target.scale_object)).await;
                }
            }
            let decided = self.decide(&target_result).await;
            let (Some(replicas), Ok(target)) = (decided.decision.scale_to(), &mut target_result)
            else {
                let now = decided.at.wall;
                return Some(decided.conclude(Ok(()), now));
            };
            let write = self.verify_and_scale(&decided.decision, target, replicas);
            let written = match slot.release_if_slow(write).await {
                ScaleWrite::Done(result) => {
                    if result.is_ok() {
                        let now = self.reconciler.clock.now();
                        self.autoscaler.overwritten_replicas.lock().record_write(replicas, now);
                    }
                    result
                }
                ScaleWrite::HpaChanged => return None,
                ScaleWrite::Outdated(reason) if self.is_overdue() => overdue(reason),
                ScaleWrite::CachedScaleDoubtful if self.is_overdue() => {
                    self.autoscaler.distrust_scale();
                    overdue("the cached scale may be stale")
                }
                ScaleWrite::Outdated(reason) => {
                    debug!("{reason}, deciding again");
                    continue;
                }
                ScaleWrite::CachedScaleDoubtful => {
                    debug!("the cached scale may be stale, reading it and deciding again");
                    let cached = target.scale_object.resource_version.clone();
                    target_result = slot.release_if_slow(self.read_target_again(&cached)).await;
                    continue;
                }
            };
            let now = self.now_since(decided.at);
            return Some(decided.conclude(written, now));
        }
    }

    /// The target's scale, from the cache if it is safe to decide on, else by a GET.
    ///
    /// A cached scale is not safe:
    /// - if the autoscaler may have scaled the target to zero: a scale that is older than the
    ///   status would look like a zero that a user set;
    /// - before the first decision, and after a scale write that failed, until a later list: the
    ///   cache may lack a write of a predecessor, or the failed write;
    /// - after a failed reconcile, until a later list: the target may be gone;
    /// - if the target's replicas differ from its pods for several reconciles, until a later list;
    /// - if the autoscaler's own sync period is long: mismatches with the cache are counted in
    ///   reconciles, so they would be detected late, and a request a minute costs little.
    async fn target(&self) -> Result<Target, ScaleUnavailable> {
        let distrusted_at = self.autoscaler.scale_distrusted_at();
        if !may_be_at_zero(self.hpa, self.settings)
            && self.settings.sync_period.is_none_or(|period| period.unsigned_abs() <= LONG_PERIOD)
            && let Some(cached) = self.reconciler.cached_target(self.hpa, distrusted_at).await
        {
            return Ok(cached);
        }
        self.read_target().await
    }

    async fn read_target(&self) -> Result<Target, ScaleUnavailable> {
        let target = self.reconciler.read_target(self.hpa).await;
        if target.is_ok() {
            self.autoscaler.trust_scale();
        } else {
            self.autoscaler.distrust_scale();
        }
        target
    }

    /// Reads the target because the cached scale of this resource version may be stale. A lower
    /// version in the response proves that the API server was rewound.
    async fn read_target_again(&self, cached: &str) -> Result<Target, ScaleUnavailable> {
        let sent = Instant::now();
        let target = self.read_target().await;
        if let Ok(Target { mapping, scale_object, .. }) = &target {
            let (resource, version) = (mapping.to_string(), &scale_object.resource_version);
            self.reconciler.watch_ages.detect_rewind(&resource, cached, version, sent);
        }
        target
    }

    /// Lists the target's pods if the pod cache is incomplete and has fewer of these pods than the
    /// target reports. Relists back off, and end if a pod stays undecodable, so the cache may be
    /// incomplete for long.
    async fn list_pods_if_cache_incomplete(&mut self, scale: &Scale) {
        let (reconciler, namespace) = (self.reconciler, &self.key.namespace);
        if self.listed_pods.is_some() || !reconciler.pods.is_incomplete(namespace) {
            return;
        }
        let Some(selector) = scale.usable_selector() else { return };
        let cached = reconciler.pods.select(namespace, &selector).len();
        if cached < usize::try_from(scale.status_replicas).unwrap_or(0) {
            self.listed_pods = reconciler.list_pods(namespace, &scale.selector).await.ok();
        }
    }

    /// Sets `owned_pods` to the pods that the target owns.
    async fn find_owned_pods(&mut self, target: &ScaleObject) {
        let (reconciler, namespace) = (self.reconciler, &self.key.namespace);
        let Some(selector) = target.scale.usable_selector() else { return };
        let listed = self.listed_pods.clone();
        let pods = listed.unwrap_or_else(|| reconciler.pods.select(namespace, &selector));
        let reference = &self.hpa.spec.scale_target_ref;
        let owned = reconciler.owners.only_owned(namespace, pods, target, reference);
        self.owned_pods = Some(owned.await);
    }

    async fn decide(&mut self, target: &Result<Target, ScaleUnavailable>) -> TimedDecision<'a> {
        let Self { reconciler, key, hpa, settings, .. } = *self;
        let scale = target.as_ref().map(|target| target.scale_object.scale.clone());
        let scale = scale.map_err(Clone::clone);
        let (known_pods, ownership_error) = match self.owned_pods.take() {
            None => (self.listed_pods.clone(), None),
            Some(SelectedPods { pods, ownership_error, .. }) => (Some(pods), ownership_error),
        };
        let has_forecasts = settings.forecasts.is_on();
        let mut pods = Vec::new();
        // The 0 is never used: without a scale, the plan selects no pods.
        let replicas = scale.as_ref().map_or(0, |scale| scale.status_replicas);
        let plan = reconciler.plan(key, hpa, scale, settings, |selector| {
            let selected =
                SelectedPods { ownership_error, ..reconciler.select(key, selector, known_pods) };
            self.autoscaler.observe_replicas(replicas, selected.pods.iter().map(AsRef::as_ref));
            if has_forecasts {
                pods.clone_from(&selected.pods);
            }
            selected
        });
        let limit = self.time_left();
        let read = reconciler.read_metrics(hpa, &plan, limit);
        let (mut readings, read_durations) = self.slot.release_during(read).await;
        let at = reconciler.clock.instants();
        if has_forecasts && plan.selector().is_some() {
            let observation =
                LoadObservation { hpa, settings, plan: &plan, pods: &pods, now: at.wall };
            let mut forecasts = self.autoscaler.forecasts.lock();
            let forecasts = forecasts.get_or_insert_default();
            forecasts.observe(&reconciler.forecasts, &observation, &mut readings);
        }
        let decision = plan.decide(readings, self.autoscaler.history(at), at.wall);
        TimedDecision { decision, at, read_durations }
    }

    /// Reports a conclusion and stores its history and status.
    async fn finish(&self, concluded: TimedConclusion) -> FinishedReconcile<'a> {
        let Self { reconciler, key, hpa, autoscaler, .. } = *self;
        let TimedConclusion { conclusion, at, read_durations } = concluded;
        log_conclusion(&conclusion, hpa, autoscaler);
        if conclusion.error.is_some() {
            autoscaler.distrust_scale();
        }
        reconciler.observer.concluded(&ReconcileBeforeStatusWrite {
            key,
            hpa,
            settings: self.settings,
            conclusion: &conclusion,
            at: at.wall,
            duration: self.duration(),
            read_durations: &read_durations,
        });
        let Conclusion { status, events, history, explanation, scaled_to, error } = conclusion;
        autoscaler.set_history(history, at);
        if let Some(to) = scaled_to
            && let Some(forecasts) = autoscaler.forecasts.lock().as_mut()
        {
            forecasts.scaled(explanation.current_replicas, to, at.wall);
        }
        for event in events {
            reconciler.record(key, hpa, event);
        }
        let is_stored = self.slot.release_if_slow(self.write_status(status)).await;
        let (current, desired) = (explanation.current_replicas, explanation.desired_replicas);
        let is_decided = is_stored && error.as_ref().is_none_or(ReconcileError::is_partial);
        autoscaler.set_undecided(!is_decided);
        let scaled = scaled_to.map(|to| Direction::of_change(current, to));
        FinishedReconcile {
            key,
            scaled,
            desired_replicas: is_decided.then_some(desired),
            error: if is_stored {
                error.as_ref().map(ErrorClass::from)
            } else {
                Some(ErrorClass::Internal)
            },
            duration: self.duration(),
        }
    }
}

impl TimedDecision<'_> {
    fn conclude(self, written: Result<(), ScaleWriteError>, now: Timestamp) -> TimedConclusion {
        let Self { decision, at, read_durations } = self;
        TimedConclusion { conclusion: decision.conclude(written, now), at, read_durations }
    }
}

/// A scale that is not written, because an input of the decision changed and no time is left.
fn overdue(reason: &str) -> Result<(), ScaleWriteError> {
    Err(ScaleWriteError::NotSent(format!("no time left to decide again: {reason}")))
}

/// Whether the target may be at zero because of the autoscaler.
fn may_be_at_zero(hpa: &HorizontalPodAutoscaler, settings: &Settings) -> bool {
    let mut scheduled = settings.bounds.iter().flat_map(|entries| entries.iter());
    hpa.spec.min_replicas == Some(0)
        || hpa.status.is_true(&ConditionType::ScaledToZero)
        || scheduled.any(|entry| entry.min_replicas == Some(0))
}
