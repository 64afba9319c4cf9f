//! One reconcile: the I/O around the engine's three calls.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, ObjectMeta, Pod, Scale},
    conclude::Conclusion,
    decide::{Decision, ReconcileError},
    event::{Event, EventReason, EventType},
    explain::MetricExplanation,
    history::Direction,
    plan::{Plan, ScaleReadError, SelectedPods},
    pods::Census,
    readings::{ReadError, Reading},
    selector::Selector,
    settings::Settings,
};
use hpa_metrics_client::{MetricsClient, describe};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use tracing::{debug, info, warn};

use crate::{
    autoscalers::{Autoscaler, Autoscalers, Failure, Seen},
    clock::Clock,
    events::{EventRecorder, ObjectReference, RecordedEvent},
    observer::{ErrorClass, Finished, Observer, Reconciled},
    pods::Pods,
    selectors::{HpaKey, SelectorIndex},
    status,
    targets::{GroupKind, MapperError, Mapping, ReadScale, RestMapper, ScaleClient, ScaleError},
    watched::Watched,
};

/// How often a decision is made anew because the target's replicas changed under it, or its write is repeated
/// because the target changed otherwise.
const MAX_WRITES: usize = 5;

/// How many metrics of one autoscaler are asked for at once: one with very many is not to hold up the others.
const QUERIES_AT_ONCE: usize = 8;

/// The field manager of our writes.
const FIELD_MANAGER: &str = "hpa-controller";

/// A target whose scale could not be read.
struct Unread {
    error: ScaleReadError,
    /// Whether there is no such target, rather than no answer.
    is_gone: bool,
}

/// What reconciles share.
pub struct Reconciler {
    /// For statuses.
    pub client: Client,
    /// The engine's settings.
    pub settings: Settings,
    /// The autoscalers that are known.
    pub autoscalers: Arc<Autoscalers>,
    /// The pods that are known.
    pub pods: Arc<Pods>,
    /// Which autoscalers select which pods.
    pub selectors: Arc<SelectorIndex>,
    /// Kinds to resources.
    pub mapper: Arc<RestMapper>,
    /// Scale subresources.
    pub scales: ScaleClient,
    /// The metrics APIs.
    pub metrics: Arc<dyn MetricsClient>,
    /// Kubernetes events.
    pub events: EventRecorder,
    /// By which it is decided.
    pub clock: Arc<dyn Clock>,
    /// Is told of every reconcile.
    pub observer: Arc<dyn Observer>,
}

/// A target whose scale was read.
struct Target {
    mapping: Mapping,
    read: ReadScale,
}

impl Reconciler {
    /// Reconciles an autoscaler once; does nothing if it is gone. Failures end as conditions, events and logs of
    /// that autoscaler.
    #[tracing::instrument(name = "reconcile", skip_all, fields(hpa = %key))]
    pub async fn reconcile(&self, key: &HpaKey) {
        let Some(autoscaler) = self.autoscalers.get(key).filter(|known| !known.is_suspended()) else {
            return;
        };
        let begun = self.clock.moment().running;
        let hpa = autoscaler.object();
        let mut ahead = None;
        let Some((conclusion, reads)) = self.decide_and_scale(key, &hpa, &autoscaler, &mut ahead).await
        else {
            debug!("the autoscaler was changed or deleted meanwhile");
            if let Some(ahead) = ahead {
                // What was foretold did not come to pass.
                let _stored = self.store(key, &ahead, hpa.status.clone()).await;
            }
            return;
        };
        report(&conclusion, &autoscaler);
        let now = self.clock.moment();
        let took = now.running.saturating_sub(begun);
        self.observer.reconciled(&Reconciled {
            key,
            hpa: &hpa,
            conclusion: &conclusion,
            took,
            reads: &reads,
        });
        let Conclusion { status, events, history, explanation, scaled_to, error } = conclusion;
        autoscaler.set_history(history, now);
        for event in events {
            self.record(&hpa, event);
        }
        let stored = self.store(key, ahead.as_ref().unwrap_or(&hpa), status::as_stored(status)).await;
        let current = explanation.current_replicas;
        let is_decided = stored && matches!(error, None | Some(ReconcileError::SomeMetrics(_)));
        let error = if stored { error.as_ref().map(ErrorClass::of) } else { Some(ErrorClass::Internal) };
        self.observer.finished(&Finished {
            key,
            scaled: scaled_to.map(|to| if to > current { Direction::Up } else { Direction::Down }),
            desired_replicas: is_decided.then_some(scaled_to.unwrap_or(current)),
            error,
            took: self.clock.moment().running.saturating_sub(begun),
        });
    }

    /// Decides, writes the scale, and decides again while the target's replicas change in between. `None` if the
    /// autoscaler itself changed: then nothing of what was decided holds. With the conclusion comes how long each
    /// metric took to be read. `ahead` is the object as it is stored since a zero was foretold.
    async fn decide_and_scale(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        autoscaler: &Arc<Autoscaler>,
        ahead: &mut Option<HorizontalPodAutoscaler>,
    ) -> Option<(Conclusion, Vec<Duration>)> {
        let mut target = self.read_target(hpa).await;
        if let Ok(target) = &target {
            autoscaler.found(target.read.scale.spec_replicas, self.clock.moment());
        }
        let mut writes_left = MAX_WRITES;
        // The pods as the API server has them, where what is known of them was not to be trusted.
        let mut listed: Option<Vec<Arc<Pod>>> = None;
        loop {
            if target.as_ref().is_err_and(|unread| unread.is_gone) {
                // The pods it had are nobody's now: no other autoscaler is to suffer from them.
                self.selectors.set(key, None);
            }
            let scale = target.as_ref().map(|target| target.read.scale.clone());
            let scale = scale.map_err(|unread| unread.error.clone());
            let was_listed = listed.is_some();
            let plan =
                Plan::new(hpa, scale, &self.settings, |selector| self.select(key, selector, listed.take()));
            let (readings, reads) = self.read_metrics(hpa, &plan).await;
            let now = self.clock.moment();
            let decision = plan.decide(readings, autoscaler.history(now), now.wall);
            let (Some(replicas), Ok(target)) = (decision.scale_to(), &mut target) else {
                return Some((decision.conclude(Ok(()), now.wall), reads));
            };
            if !was_listed && goes_down_for_want_of_pods(&decision, &target.read.scale) {
                match self.list_pods(&key.namespace, &target.read.scale.selector).await {
                    Ok(pods) => {
                        debug!("fewer pods are known than the target has; deciding again on a list of them");
                        listed = Some(pods);
                        continue;
                    }
                    Err(message) => {
                        return Some((decision.conclude(Err(message), self.clock.now()), reads));
                    }
                }
            }
            let is_current = || self.is_current(key, autoscaler, hpa);
            let mut checked = self.confirm(key, hpa).await;
            if checked.is_ok() {
                checked = self.foretell(hpa, &decision, ahead).await;
            }
            let written = match checked {
                Ok(()) => self.write_scale(hpa, target, replicas, &mut writes_left, is_current).await,
                Err(written) => written,
            };
            match written {
                Written::Done(outcome) => {
                    return Some((decision.conclude(outcome, self.clock.now()), reads));
                }
                Written::AutoscalerChanged => return None,
                Written::ReplicasChanged => debug!("the target's replicas changed meanwhile, deciding again"),
            }
        }
    }

    /// The pods that a selector matches, as the API server has them now.
    async fn list_pods(&self, namespace: &str, selector: &str) -> Result<Vec<Arc<Pod>>, String> {
        let api: Api<Watched<Pod>> = Api::namespaced(self.client.clone(), namespace);
        let pods = api.list(&ListParams::default().labels(selector)).await;
        let pods =
            pods.map_err(|error| format!("the pods could not be listed once more: {}", describe(&error)))?;
        Ok(pods.into_iter().filter_map(|pod| pod.into_result().ok()).map(Arc::new).collect())
    }

    /// Makes sure before a scale is written that the autoscaler is what it was decided on: a watch may have been silent
    /// for minutes, and a scale by a spec that is gone would be out of bounds.
    async fn confirm(&self, key: &HpaKey, hpa: &HorizontalPodAutoscaler) -> Result<(), Written> {
        let failed = |message: String| {
            Written::Done(Err(format!("the autoscaler could not be read once more: {message}")))
        };
        match self.api(&key.namespace).get(&key.name).await {
            Ok(latest) => {
                let latest = latest.into_result().map_err(failed)?;
                let is_same = latest.metadata.uid == hpa.metadata.uid && latest.spec == hpa.spec;
                self.autoscalers.apply(key, latest, Seen::Changed);
                if is_same { Ok(()) } else { Err(Written::AutoscalerChanged) }
            }
            // Whether it is gone, or its group is not served for the moment, is for the watch to tell.
            Err(kube::Error::Api(status)) if status.is_not_found() => Err(Written::AutoscalerChanged),
            Err(kube::Error::Api(status)) => Err(failed(status.message)),
            Err(error) => Err(failed(describe(&error))),
        }
    }

    /// Stores ahead of a scale to zero that it is the autoscaler's doing; see [`Decision::status_ahead`].
    async fn foretell(
        &self,
        hpa: &HorizontalPodAutoscaler,
        decision: &Decision<'_>,
        ahead: &mut Option<HorizontalPodAutoscaler>,
    ) -> Result<(), Written> {
        let Some(status) = decision.status_ahead() else { return Ok(()) };
        match self.patch_status(ahead.as_ref().unwrap_or(hpa), &status::as_stored(status)).await {
            Ok(None) => Ok(()),
            Ok(Some(stored)) => {
                *ahead = Some(stored);
                Ok(())
            }
            Err(StatusError::Gone) => Err(Written::AutoscalerChanged),
            Err(StatusError::Failed(message)) => Err(Written::Done(Err(format!(
                "the status that foretells it could not be stored: {message}"
            )))),
        }
    }

    /// Whether the autoscaler still exists and asks for what it asked for.
    fn is_current(&self, key: &HpaKey, autoscaler: &Arc<Autoscaler>, hpa: &HorizontalPodAutoscaler) -> bool {
        let known = self.autoscalers.get(key);
        known.is_some_and(|known| {
            Arc::ptr_eq(&known, autoscaler) && !known.is_suspended() && known.object().spec == hpa.spec
        })
    }

    fn select(&self, key: &HpaKey, selector: &Selector, listed: Option<Vec<Arc<Pod>>>) -> SelectedPods {
        self.selectors.set(key, Some(selector.clone()));
        if self.autoscalers.get(key).is_none() {
            // Deleted meanwhile: what was set is not to outlive it.
            self.selectors.remove(key);
        }
        let pods = listed.unwrap_or_else(|| self.pods.select(&key.namespace, selector));
        let autoscalers = self.selectors.controlling(&key.namespace, &pods);
        SelectedPods { pods, autoscalers: autoscalers.iter().map(ToString::to_string).collect() }
    }

    /// Reads the target's scale, by the first of its kind's resources that serves one of that name.
    async fn read_target(&self, hpa: &HorizontalPodAutoscaler) -> Result<Target, Unread> {
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind).map_err(|error| Unread {
            is_gone: true,
            error: ScaleReadError::InvalidApiVersion(error.to_string()),
        })?;
        let mappings = self.mapper.mappings(&kind).await.map_err(|error| Unread {
            is_gone: matches!(error, MapperError::NoMatch { .. }),
            error: ScaleReadError::UnknownKind(error.to_string()),
        })?;
        match self.scales.find(&hpa.metadata.namespace, &mappings, &target.name).await {
            Ok((read, mapping)) => Ok(Target { mapping: mapping.clone(), read }),
            Err(error) => {
                let is_served = !matches!(error, ScaleError::NotServed(_));
                if !is_served {
                    // Discovery said otherwise earlier.
                    self.mapper.invalidate(&kind.group);
                }
                let is_gone = !is_served || matches!(error, ScaleError::NotFound(_));
                Err(Unread { is_gone, error: ScaleReadError::Read(error.to_string()) })
            }
        }
    }

    /// Asks all that the plan asks, several at once. With the answers comes how long each took.
    async fn read_metrics(
        &self,
        hpa: &HorizontalPodAutoscaler,
        plan: &Plan<'_>,
    ) -> (Vec<Option<Result<Reading, ReadError>>>, Vec<Duration>) {
        let mut readings: Vec<_> = hpa.spec.metrics.iter().map(|_| None).collect();
        let mut reads = vec![Duration::ZERO; readings.len()];
        let Some(selector) = plan.selector() else { return (readings, reads) };
        let namespace = &hpa.metadata.namespace;
        let queries: Vec<_> = plan
            .queries()
            .map(|(index, query)| {
                let reading = self.metrics.read(namespace, selector, query);
                async move {
                    let begun = self.clock.moment().running;
                    let reading = reading.await;
                    (index, reading, self.clock.moment().running.saturating_sub(begun))
                }
            })
            .collect();
        let mut answers = stream::iter(queries).buffer_unordered(QUERIES_AT_ONCE);
        while let Some((index, reading, took)) = answers.next().await {
            if let (Some(slot), Some(read)) = (readings.get_mut(index), reads.get_mut(index)) {
                (*slot, *read) = (Some(reading), took);
            }
        }
        (readings, reads)
    }

    /// Writes the replicas. A conflict over anything but the replicas is no reason to decide anew: it is written
    /// against the newer version. If the replicas are no longer those that were decided on, it is never forced.
    async fn write_scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
        target: &mut Target,
        replicas: i32,
        writes_left: &mut usize,
        is_current: impl Fn() -> bool,
    ) -> Written {
        let (namespace, name) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref.name);
        loop {
            if !is_current() {
                return Written::AutoscalerChanged;
            }
            *writes_left = writes_left.saturating_sub(1);
            let Target { mapping, read } = target;
            let Err(error) = self.scales.update(namespace, mapping, name, read, replicas).await else {
                return Written::Done(Ok(()));
            };
            if !matches!(error, ScaleError::Conflict(_)) || *writes_left == 0 {
                return Written::Done(Err(error.to_string()));
            }
            let Ok(latest) = self.scales.get(namespace, mapping, name).await else {
                return Written::Done(Err(error.to_string()));
            };
            let decided_on = std::mem::replace(read, latest);
            // Another object of the same name is not the one that was decided on.
            if decided_on.scale.spec_replicas != read.scale.spec_replicas || decided_on.uid() != read.uid() {
                return Written::ReplicasChanged;
            }
        }
    }

    /// Stores the status if it differs from what is known to be stored. Whether nothing is left to be done: a status
    /// of an autoscaler that is gone needs no storing.
    async fn store(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        status: HorizontalPodAutoscalerStatus,
    ) -> bool {
        match self.patch_status(hpa, &status).await {
            Ok(None) => {}
            // The next reconcile is not to depend on the watch having caught up.
            Ok(Some(stored)) => _ = self.autoscalers.apply_known(key, stored),
            Err(StatusError::Gone) => debug!("the autoscaler is gone"),
            Err(StatusError::Failed(message)) => {
                warn!(error = message, "failed to update the status");
                let (event_type, reason) = (EventType::Warning, EventReason::FailedUpdateStatus);
                self.record(hpa, Event { event_type, reason, message });
                return false;
            }
        }
        true
    }

    /// Makes `status` of the stored object's status; the object as it is then, `None` if it was so already.
    async fn patch_status(
        &self,
        stored: &HorizontalPodAutoscaler,
        status: &HorizontalPodAutoscalerStatus,
    ) -> Result<Option<HorizontalPodAutoscaler>, StatusError> {
        let failed = |error: &dyn std::fmt::Display| StatusError::Failed(error.to_string());
        let Some(patch) = status::patch(stored, status).map_err(|error| failed(&error))? else {
            return Ok(None);
        };
        let ObjectMeta { namespace, name, .. } = &stored.metadata;
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match self.api(namespace).patch_status(name, &params, &Patch::Merge(patch)).await {
            Ok(stored) => stored.into_result().map(Some).map_err(|error| failed(&error)),
            Err(kube::Error::Api(status)) if is_of_another(&status) => Err(StatusError::Gone),
            Err(kube::Error::Api(status)) => Err(StatusError::Failed(status.message)),
            Err(error) => Err(StatusError::Failed(describe(&error))),
        }
    }

    fn api(&self, namespace: &str) -> Api<Watched<HorizontalPodAutoscaler>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn record(&self, hpa: &HorizontalPodAutoscaler, event: Event) {
        let object = ObjectReference {
            api_version: "autoscaling/v2".into(),
            kind: "HorizontalPodAutoscaler".into(),
            namespace: hpa.metadata.namespace.clone(),
            name: hpa.metadata.name.clone(),
            uid: hpa.metadata.uid.clone(),
            resource_version: hpa.metadata.resource_version.clone(),
        };
        self.events.record(RecordedEvent {
            object: Arc::new(object),
            event_type: event.event_type,
            reason: event.reason.as_str().into(),
            message: event.message,
            at: self.clock.now(),
        });
    }
}

/// Why a status was not stored.
enum StatusError {
    /// The autoscaler is gone, or another of its name is there.
    Gone,
    /// What the API said.
    Failed(String),
}

/// Whether a decision to scale down counted on fewer pods than the target says that it has: a watch of pods that was
/// interrupted looks like that, and usage shared by few pods like a small need.
fn goes_down_for_want_of_pods(decision: &Decision<'_>, scale: &Scale) -> bool {
    let is_down = decision.scale_to().is_some_and(|to| to < scale.spec_replicas);
    let known = |metric: &MetricExplanation| metric.pods.as_ref().map(Census::total);
    let status_replicas = usize::try_from(scale.status_replicas).unwrap_or(0);
    is_down && decision.explanation().metrics.iter().filter_map(known).any(|known| known < status_replicas)
}

/// How a write of the scale went.
enum Written {
    /// Written, or not for the reason given.
    Done(Result<(), String>),
    /// Somebody else changed the replicas.
    ReplicasChanged,
    /// The autoscaler was changed or deleted; nothing was written.
    AutoscalerChanged,
}

/// Whether a status was refused because the autoscaler is gone, or another of its name is there.
fn is_of_another(status: &kube::core::Status) -> bool {
    status.is_not_found() || (status.is_invalid() && status.message.contains("metadata.uid"))
}

/// One line for what changes: a scaling, a failure that begins or reads otherwise than the last, its end. All else at
/// debug.
fn report(conclusion: &Conclusion, autoscaler: &Autoscaler) {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    let failure = autoscaler.set_failure(error.as_ref().map(ToString::to_string));
    match (scaled_to, error, failure) {
        (Some(replicas), ..) => {
            info!(current = explanation.current_replicas, desired = replicas, decision = %explanation, "scaled");
        }
        (None, Some(error), Failure::New) => warn!(%error, decision = %explanation, "reconcile failed"),
        (None, Some(error), _) => debug!(%error, decision = %explanation, "reconcile failed again"),
        (None, None, Failure::Over) => info!(decision = %explanation, "reconcile works again"),
        (None, None, _) => debug!(decision = %explanation, "kept"),
    }
}
