//! Selects the target's pods, and finds the autoscalers that select the same pods.

use std::sync::Arc;

use anyhow::Context;
use futures::{StreamExt, stream};
use hpa_calc::{
    HorizontalPodAutoscaler, Pod, SelectedPods, Selector,
    api::{ConditionReason, ConditionType, CrossVersionObjectReference},
};
use hpa_controller::{AutoscalerApi, HpaKey, debug::ActingController, scale_target::ScaleObject};
use hpa_metrics::decode_value;
use serde_json::Value;

use super::Cluster;
use crate::{
    autoscaler_name::list_path,
    explain::subject::{may_count, may_name_api, usable_selector},
    kubectl::{self, escape},
    manifests::string_at,
};

/// The maximum number of concurrent reads of scales. Their selectors show which other autoscalers
/// count the same pods.
const MAX_CONCURRENT_READS: usize = 8;

impl Cluster {
    /// The pods that match the selector and, if there is an owner, belong to it. Also the
    /// autoscalers that select any of these pods and that [`may_count`] with this `decider`.
    pub(super) async fn select(
        &self,
        selector: &Selector,
        owner: Option<(&ScaleObject, &CrossVersionObjectReference)>,
        hpa: &HorizontalPodAutoscaler,
        decider: Option<ActingController>,
    ) -> anyhow::Result<SelectedPods> {
        let pods = self.list_pods(selector).await?;
        let selected = match owner {
            Some((target, reference)) => {
                self.owners.only_owned(&self.autoscaler.namespace, pods, target, reference).await
            }
            None => SelectedPods::new(pods),
        };
        let SelectedPods { pods, ownership_error, .. } = selected;
        if ownership_error.is_some() {
            return Ok(SelectedPods { ownership_error, ..SelectedPods::default() });
        }
        if pods.is_empty() {
            return Ok(SelectedPods::default());
        }
        let selected = &pods;
        let own_name = self.full_name();
        let mut others = self.handled_autoscalers(hpa).await?;
        others.retain(|(name, hpa)| *name == own_name || may_count(hpa, &self.policy, decider));
        let others = others.into_iter().map(|(name, hpa)| async move {
            let selector = usable_selector(&self.read_target(&hpa).await.ok()?.scale)?;
            let selects = selected.iter().any(|pod| pod.is_selected_by(&selector));
            selects.then_some(name)
        });
        let others = stream::iter(others).buffer_unordered(MAX_CONCURRENT_READS);
        let mut autoscalers: Vec<String> = others.filter_map(|name| async { name }).collect().await;
        autoscalers.sort();
        Ok(SelectedPods { pods, autoscalers, own_name: Some(own_name), ..SelectedPods::default() })
    }

    /// The autoscalers of the namespace that the controller handles, named as in its conditions.
    async fn handled_autoscalers(
        &self,
        hpa: &HorizontalPodAutoscaler,
    ) -> anyhow::Result<Vec<(String, HorizontalPodAutoscaler)>> {
        let active = hpa.status.condition(&ConditionType::ScalingActive);
        let ambiguous = active.filter(|one| one.reason == ConditionReason::AmbiguousSelector);
        let mut autoscalers = Vec::new();
        for api in AutoscalerApi::ALL {
            let is_same_api = api == self.autoscaler.api;
            // A controller of one API doesn't watch the objects of the other API. It handles both
            // if its message about the ambiguous selector names autoscalers of both.
            let names_api =
                || ambiguous.is_some_and(|condition| may_name_api(&condition.message, api));
            if !is_same_api && !names_api() {
                continue;
            }
            let namespace = self.autoscaler.namespace.as_str();
            let path = list_path(api, Some(namespace));
            let objects = match kubectl::list(&self.client, &path).await {
                Ok(objects) => objects,
                Err(error) if is_same_api => {
                    return Err(error.context("unable to list the autoscalers of the namespace"));
                }
                // The other API may not be served.
                Err(_) => continue,
            };
            autoscalers.extend(objects.into_iter().filter_map(|object| {
                let hpa: HorizontalPodAutoscaler = serde_json::from_value(object).ok()?;
                let key = HpaKey::for_api(api, namespace, hpa.metadata.name.as_str());
                Some((key.to_string(), hpa))
            }));
        }
        Ok(autoscalers)
    }

    async fn list_pods(&self, selector: &Selector) -> anyhow::Result<Vec<Arc<Pod>>> {
        let namespace = escape(&self.autoscaler.namespace);
        let selector = escape(&selector.to_string());
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
        let items = kubectl::list(&self.client, &path).await.context("unable to list pods")?;
        let decode = |item: Value| {
            let name = string_at(&item, "/metadata/name").to_owned();
            let pod = decode_value(item).map(Arc::new);
            pod.with_context(|| {
                format!("unable to decode pod {}/{name}", self.autoscaler.namespace)
            })
        };
        items.into_iter().map(decode).collect()
    }
}
