//! What a reconcile reads: the target's scale, its pods, its metrics.

use std::{fmt, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{
    api::{HorizontalPodAutoscaler, Pod},
    plan::{Plan, ScaleReadError, SelectedPods},
    readings::{ReadError, Reading},
    selector::Selector,
};
use hpa_metrics_client::describe;
use kube::{Api, api::ListParams};
use tracing::{Instrument, debug};

use super::Reconciler;
use crate::{
    k8s::PartialObject,
    key::HpaKey,
    scale_target::{GroupKind, MapperError, Mapping, ScaleError, ScaleObject},
    trace,
    trace::TARGET,
};

/// How many metrics of one autoscaler are asked for at once: one with very many is not to hold up the others.
const QUERIES_AT_ONCE: usize = 8;

/// A target whose scale was read.
pub(super) struct Target {
    pub(super) mapping: Mapping,
    pub(super) read: ScaleObject,
    /// Whether the scale is known from a watch, and not what the API server answered just now.
    pub(super) is_known: bool,
}

/// A target whose scale could not be read.
pub(super) struct ScaleUnavailable {
    pub(super) error: ScaleReadError,
    /// Whether there is no such target, rather than no answer.
    pub(super) is_gone: bool,
}

impl fmt::Display for ScaleUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Reconciler {
    /// The target's scale as a watch told it, if one did.
    pub(super) async fn known_target(&self, hpa: &HorizontalPodAutoscaler) -> Option<Target> {
        let scales = self.scale_informers.as_ref()?;
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind).ok()?;
        let mapping = self.mapper.mappings(&kind).await.ok()?.into_iter().next()?;
        let read = scales.get(&mapping, &hpa.metadata.namespace, &target.name)?;
        Some(Target { mapping, read, is_known: true })
    }

    /// Keeps what the API server answered about a scale, if scales are kept.
    pub(super) fn observe_response(
        &self,
        hpa: &HorizontalPodAutoscaler,
        mapping: &Mapping,
        read: &ScaleObject,
    ) {
        if let Some(scales) = &self.scale_informers {
            scales.observe_response(
                mapping,
                &hpa.metadata.namespace,
                &hpa.spec.scale_target_ref.name,
                read,
            );
        }
    }

    /// Reads the target's scale, by the first of its kind's resources that serves one of that name.
    #[tracing::instrument(
        level = "debug",
        target = TARGET,
        skip_all,
        fields(kind = hpa.spec.scale_target_ref.kind, name = hpa.spec.scale_target_ref.name),
        err(level = "debug")
    )]
    pub(super) async fn read_target(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<Target, ScaleUnavailable> {
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind).map_err(|error| {
            ScaleUnavailable {
                is_gone: true,
                error: ScaleReadError::InvalidApiVersion(error.to_string()),
            }
        })?;
        let mappings = self.mapper.mappings(&kind).await.map_err(|error| ScaleUnavailable {
            is_gone: matches!(error, MapperError::NoMatch { .. }),
            error: ScaleReadError::UnknownKind(error.to_string()),
        })?;
        match self.scales.find(&hpa.metadata.namespace, &mappings, &target.name).await {
            Ok((read, mapping)) => {
                self.observe_response(hpa, mapping, &read);
                Ok(Target { mapping: mapping.clone(), read, is_known: false })
            }
            Err(error) => {
                let is_served = !matches!(error, ScaleError::NotServed(_));
                if !is_served {
                    // Discovery said otherwise earlier.
                    self.mapper.invalidate(&kind.group);
                }
                let is_gone = !is_served || matches!(error, ScaleError::NotFound(_));
                Err(ScaleUnavailable { is_gone, error: ScaleReadError::Read(error.to_string()) })
            }
        }
    }

    /// Registers the selector, and finds the pods that it matches; `listed` are these, where they were asked for.
    pub(super) fn select(
        &self,
        key: &HpaKey,
        selector: &Selector,
        listed: Option<Vec<Arc<Pod>>>,
    ) -> SelectedPods {
        self.selectors.set(key, Some(selector.clone()));
        if self.autoscalers.get(key).is_none() {
            // Deleted meanwhile: what was set is not to outlive it.
            self.selectors.remove(key);
        }
        let pods = listed.unwrap_or_else(|| self.pods.select(&key.namespace, selector));
        let autoscalers = self.selectors.controlling(&key.namespace, &pods);
        SelectedPods { pods, autoscalers: autoscalers.iter().map(ToString::to_string).collect() }
    }

    /// The pods that a selector matches, as the API server has them now.
    #[tracing::instrument(level = "debug", target = TARGET, skip_all, err(level = "debug"))]
    pub(super) async fn list_pods(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Arc<Pod>>, String> {
        let api: Api<PartialObject<Pod>> = Api::namespaced(self.client.clone(), namespace);
        let pods = api.list(&ListParams::default().labels(selector)).await;
        let pods = pods.map_err(|error| {
            format!("the pods could not be listed once more: {}", describe(&error))
        })?;
        Ok(pods.into_iter().filter_map(|pod| pod.decode().ok()).map(Arc::new).collect())
    }

    /// Asks all that the plan asks, several at once. With the answers comes how long each took.
    pub(super) async fn read_metrics(
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
                    let begun = self.clock.instants().monotonic;
                    let reading =
                        async { reading.await.inspect_err(|error| debug!(target: TARGET, %error)) };
                    let reading = reading.instrument(trace::read_metric(query)).await;
                    (index, reading, self.clock.instants().monotonic.saturating_sub(begun))
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
}
