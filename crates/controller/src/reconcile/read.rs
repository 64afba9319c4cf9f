//! Reads the target's scale, its pods and the metrics.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use hpa_calc::{
    api::{HorizontalPodAutoscaler, Pod, Scale},
    plan::{Plan, SelectedPods},
    readings::{ReadError, Readings},
    report::error_texts::DEADLINE_EXCEEDED,
    selector::Selector,
    settings::Settings,
};
use kube::{Api, api::ListParams};
use tokio::time::{Instant, timeout_at};

use super::reconciler::Reconciler;
use crate::{
    k8s::{KubeError, MAX_PAGE_SIZE, PartialObject, pod_resource},
    key::HpaKey,
    scale_target::{GroupKind, Mapping, ScaleObject, ScaleUnavailable, read_scale},
};

/// The maximum number of metrics of one autoscaler that are read at once, so that an autoscaler
/// with many metrics doesn't delay the others.
const MAX_CONCURRENT_QUERIES: usize = 8;

/// A target whose scale was read.
pub(super) struct Target {
    pub(super) mapping: Mapping,
    pub(super) scale_object: ScaleObject,
    /// Whether the scale is from the cache, not from a GET.
    pub(super) is_cached: bool,
}

impl Reconciler {
    /// The target with the scale from the cache, if the cache has it and was listed after
    /// `listed_after`.
    pub(super) async fn cached_target(
        &self,
        hpa: &HorizontalPodAutoscaler,
        listed_after: Option<Instant>,
    ) -> Option<Target> {
        let scales = self.scale_informers.as_ref()?;
        let target = &hpa.spec.scale_target_ref;
        let kind = GroupKind::parse(&target.api_version, &target.kind).ok()?;
        let mapping = self.mapper.preferred_mapping(&kind).await.ok()?;
        let (namespace, name) = (&hpa.metadata.namespace, &target.name);
        let scale_object = scales.get(&mapping, namespace, name, listed_after)?;
        Some(Target { mapping, scale_object, is_cached: true })
    }

    /// Passes a scale from a response of the API server to the scale cache, if there is one.
    pub(super) fn observe_response(
        &self,
        hpa: &HorizontalPodAutoscaler,
        mapping: &Mapping,
        scale_object: &ScaleObject,
    ) {
        let Some(scales) = &self.scale_informers else { return };
        let name = &hpa.spec.scale_target_ref.name;
        scales.observe_response(mapping, &hpa.metadata.namespace, name, scale_object);
    }

    /// Reads the target's scale, from the first resource of its kind that has an object of that
    /// name.
    pub(super) async fn read_target(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> Result<Target, ScaleUnavailable> {
        let (namespace, target) = (&hpa.metadata.namespace, &hpa.spec.scale_target_ref);
        let (scale_object, mapping) =
            read_scale(&self.mapper, &self.scales, namespace, target).await?;
        self.observe_response(hpa, &mapping, &scale_object);
        Ok(Target { mapping, scale_object, is_cached: false })
    }

    /// Plans a decision. Clears the registered selector if the target doesn't exist, or is at zero
    /// replicas and needs no pods there: it must not make other selectors ambiguous.
    pub(super) fn plan<'a>(
        &self,
        key: &HpaKey,
        hpa: &'a HorizontalPodAutoscaler,
        scale: Result<Scale, ScaleUnavailable>,
        settings: &'a Settings,
        select: impl FnOnce(&Selector) -> SelectedPods,
    ) -> Plan<'a> {
        let may_have_pods = match &scale {
            Ok(scale) => scale.spec_replicas != 0,
            Err(unavailable) => !unavailable.is_gone,
        };
        let mut has_selected = false;
        let scale = scale.map_err(|unavailable| unavailable.error);
        let plan = Plan::new(hpa, scale, settings, |selector| {
            has_selected = true;
            select(selector)
        });
        if !may_have_pods && !has_selected {
            self.selectors.set(key, None);
        }
        plan
    }

    /// Registers the selector and returns the pods that it matches: `known_pods` if given, else
    /// those in the cache.
    pub(super) fn select(
        &self,
        key: &HpaKey,
        selector: &Selector,
        known_pods: Option<Vec<Arc<Pod>>>,
    ) -> SelectedPods {
        self.selectors.set(key, Some(selector.clone()));
        if self.autoscalers.get(key).is_none() {
            // The autoscaler was deleted during the reconcile, so its selector must not stay.
            self.selectors.remove(key);
        }
        let pods = known_pods.unwrap_or_else(|| self.pods.select(&key.namespace, selector));
        let autoscalers = self.selectors.controlling(&key.namespace, &pods);
        let autoscalers = autoscalers.iter().map(ToString::to_string).collect();
        SelectedPods { pods, autoscalers, ..SelectedPods::default() }
    }

    /// Lists the pods that a selector matches from the API server, without undecodable ones.
    /// Includes pods that exceed the limits of labels, because the API server has matched them.
    pub(super) async fn list_pods(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Arc<Pod>>, KubeError> {
        let client = self.client.clone();
        let api: Api<PartialObject> = Api::namespaced_with(client, namespace, &pod_resource());
        let mut params = ListParams::default().labels(selector).limit(MAX_PAGE_SIZE);
        let mut pods = Vec::new();
        loop {
            let page = api.list(&params).await?;
            let next = page.metadata.continue_.clone().filter(|token| !token.is_empty());
            pods.extend(page.into_iter().filter_map(|pod| pod.decode::<Pod>().ok()).map(Arc::new));
            match next {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(pods),
            }
        }
    }

    /// Reads the metrics that the plan asks for, several at once. Metrics that are not read within
    /// `limit` have failed. Returns the readings and the duration of each read, by metric index.
    pub(super) async fn read_metrics(
        &self,
        hpa: &HorizontalPodAutoscaler,
        plan: &Plan<'_>,
        limit: Duration,
    ) -> (Readings, Vec<Duration>) {
        let deadline = Instant::now() + limit;
        let mut readings = Readings::new();
        let mut durations = vec![Duration::ZERO; hpa.spec.metrics.len()];
        let Some(selector) = plan.selector() else { return (readings, durations) };
        let namespace = &hpa.metadata.namespace;
        let queries: Vec<_> = plan
            .queries()
            .map(|(index, query)| {
                let reading = self.metrics.read(namespace, selector, query);
                async move {
                    let started = self.clock.instants().monotonic;
                    let reading = reading.await;
                    (index, reading, self.elapsed_since(started))
                }
            })
            .collect();
        let mut completed = stream::iter(queries).buffer_unordered(MAX_CONCURRENT_QUERIES);
        while let Ok(Some((index, reading, duration))) =
            timeout_at(deadline, completed.next()).await
        {
            readings.insert(index, reading);
            if let Some(read_duration) = durations.get_mut(index) {
                *read_duration = duration;
            }
        }
        for (index, query) in plan.queries() {
            if readings.get(index).is_none() {
                let message = format!("{DEADLINE_EXCEEDED}: no time left in this reconcile");
                readings.insert(index, Err(ReadError::fetch(query.api(), message)));
            }
        }
        (readings, durations)
    }
}
