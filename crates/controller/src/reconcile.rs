//! One reconcile: the I/O around the engine's three calls.

use std::sync::Arc;

use futures::future::join_all;
use hpa_calc::{
    api::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus},
    conclude::Conclusion,
    event::{Event, EventReason, EventType},
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::{ReadError, Reading},
    selector::Selector,
    settings::Settings,
};
use hpa_metrics_client::{MetricsClient, describe};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use tracing::{debug, info, warn};

use crate::{
    autoscalers::{Autoscaler, Autoscalers, WatchedAutoscaler},
    events::{EventRecorder, ObjectReference, RecordedEvent},
    pods::Pods,
    selectors::{HpaKey, SelectorIndex},
    status,
    targets::{GroupKind, MapperError, Mapping, ReadScale, RestMapper, ScaleClient, ScaleError},
};

/// How often a decision is made anew because the target's replicas changed under it, or its write is repeated
/// because the target changed otherwise.
const MAX_WRITES: usize = 5;

/// The field manager of our writes.
const FIELD_MANAGER: &str = "hpa-controller";

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
        let Some(autoscaler) = self.autoscalers.get(key) else { return };
        let hpa = autoscaler.object();
        let conclusion = self.decide_and_scale(key, &hpa, &autoscaler).await;
        report(&conclusion);
        let Conclusion { status, events, history, .. } = conclusion;
        autoscaler.set_history(history);
        for event in events {
            self.record(&hpa, event);
        }
        self.store(key, &hpa, status::as_stored(status)).await;
    }

    /// Decides, writes the scale, and decides again while the target's replicas change in between.
    async fn decide_and_scale(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        autoscaler: &Autoscaler,
    ) -> Conclusion {
        let mut target = self.read_target(hpa).await;
        let mut writes_left = MAX_WRITES;
        loop {
            if target.is_err() {
                // Pods that nothing is known to control are nobody's: no other autoscaler is to suffer from them.
                self.selectors.set(key, None);
            }
            let scale = target.as_ref().map(|target| target.read.scale.clone()).map_err(Clone::clone);
            let plan = Plan::new(hpa, scale, &self.settings, |selector| self.select(key, selector));
            let readings = self.read_metrics(hpa, &plan).await;
            let now = Timestamp::now();
            let decision = plan.decide(readings, autoscaler.history(), now);
            let (Some(replicas), Ok(target)) = (decision.scale_to(), &mut target) else {
                return decision.conclude(Ok(()), now);
            };
            match self.write_scale(hpa, target, replicas, &mut writes_left).await {
                Written::Done(outcome) => return decision.conclude(outcome, Timestamp::now()),
                Written::ReplicasChanged => debug!("the target's replicas changed meanwhile, deciding again"),
            }
        }
    }

    fn select(&self, key: &HpaKey, selector: &Selector) -> SelectedPods {
        self.selectors.set(key, Some(selector.clone()));
        let pods = self.pods.select(&key.namespace, selector);
        let autoscalers = self.selectors.controlling(&key.namespace, &pods);
        SelectedPods { pods, autoscalers: autoscalers.iter().map(ToString::to_string).collect() }
    }

    /// Reads the target's scale, by the first of its kind's resources that serves one of that name.
    async fn read_target(&self, hpa: &HorizontalPodAutoscaler) -> Result<Target, ScaleReadError> {
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind)
            .map_err(|error| ScaleReadError::InvalidApiVersion(error.to_string()))?;
        let mappings = self
            .mapper
            .mappings(&kind)
            .await
            .map_err(|error: MapperError| ScaleReadError::UnknownKind(error.to_string()))?;
        match self.scales.find(&hpa.metadata.namespace, &mappings, &target.name).await {
            Ok((read, mapping)) => Ok(Target { mapping: mapping.clone(), read }),
            Err(error) => {
                if matches!(error, ScaleError::NotServed(_)) {
                    // Discovery said otherwise earlier.
                    self.mapper.invalidate(&kind.group);
                }
                Err(ScaleReadError::Read(error.to_string()))
            }
        }
    }

    /// Asks all that the plan asks, at once.
    async fn read_metrics(
        &self,
        hpa: &HorizontalPodAutoscaler,
        plan: &Plan<'_>,
    ) -> Vec<Option<Result<Reading, ReadError>>> {
        let mut readings: Vec<_> = hpa.spec.metrics.iter().map(|_| None).collect();
        let Some(selector) = plan.selector() else { return readings };
        let namespace = &hpa.metadata.namespace;
        let queries = plan.queries().map(|(index, query)| async move {
            (index, self.metrics.read(namespace, selector, query).await)
        });
        for (index, reading) in join_all(queries).await {
            if let Some(slot) = readings.get_mut(index) {
                *slot = Some(reading);
            }
        }
        readings
    }

    /// Writes the replicas. A conflict over anything but the replicas is no reason to decide anew: it is written
    /// against the newer version. If the replicas are no longer those that were decided on, it is never forced.
    async fn write_scale(
        &self,
        hpa: &HorizontalPodAutoscaler,
        target: &mut Target,
        replicas: i32,
        writes_left: &mut usize,
    ) -> Written {
        let (namespace, name) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref.name);
        loop {
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

    /// Stores the status if it differs from what is known to be stored.
    async fn store(
        &self,
        key: &HpaKey,
        hpa: &HorizontalPodAutoscaler,
        status: HorizontalPodAutoscalerStatus,
    ) {
        let patch = match status::patch(hpa, &status) {
            Ok(Some(patch)) => patch,
            Ok(None) => return,
            Err(error) => return warn!(%error, "the status cannot be written as JSON"),
        };
        let api: Api<WatchedAutoscaler> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match api.patch_status(&key.name, &params, &Patch::Merge(patch)).await {
            // The next reconcile is not to depend on the watch having caught up.
            Ok(stored) => drop(self.autoscalers.apply_known(key, stored.into())),
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                let message = match &error {
                    kube::Error::Api(status) => status.message.clone(),
                    error => describe(error),
                };
                warn!(error = message, "failed to update the status");
                self.record(
                    hpa,
                    Event {
                        event_type: EventType::Warning,
                        reason: EventReason::FailedUpdateStatus,
                        message,
                    },
                );
            }
        }
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
            at: Timestamp::now(),
        });
    }
}

/// How a write of the scale went.
enum Written {
    /// Written, or not for the reason given.
    Done(Result<(), String>),
    /// Somebody else changed the replicas.
    ReplicasChanged,
}

/// One line for a decision that changes something or fails; the explanation of any other at debug.
fn report(conclusion: &Conclusion) {
    let Conclusion { explanation, scaled_to, error, .. } = conclusion;
    match (scaled_to, error) {
        (Some(replicas), _) => {
            info!(current = explanation.current_replicas, desired = replicas, decision = %explanation, "scaled");
        }
        (None, Some(error)) => warn!(%error, decision = %explanation, "reconcile failed"),
        (None, None) => debug!(decision = %explanation, "kept"),
    }
}
