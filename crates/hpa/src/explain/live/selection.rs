//! Selects the target's pods, and finds the autoscalers that select the same pods.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use hpa_calc::{
    HorizontalPodAutoscaler, Pod, SelectedPods, Selector, Settings,
    api::{ConditionReason, ConditionType},
};
use hpa_controller::{
    debug::AutoscalerDetail,
    scale_target::{ScaleObject, scheduling_failures},
};
use hpa_metrics::decode_value;
use serde_json::Value;

use super::Cluster;
use crate::{
    autoscaler_name::list_path,
    explain::subject::{is_reported_ambiguous, may_name_api},
    kubectl::{self, escape},
    listed_autoscalers::ListedAutoscaler,
    manifests::string_at,
};

impl Cluster {
    /// Selects the pods of the target: those that match its selector and that the settings of the
    /// autoscaler count. Also finds the reason why the target can't create more pods, and the
    /// autoscalers that select any of these pods. Leaves out the other autoscalers unless the
    /// controller reports that they prevent the scaling.
    ///
    /// `autoscalers` are those of the namespace, as far as they can be listed. `record` is that of
    /// the controller's debug API.
    pub(super) async fn select(
        &self,
        target: &ScaleObject,
        hpa: &HorizontalPodAutoscaler,
        settings: &Settings,
        autoscalers: &[ListedAutoscaler],
        record: Option<&AutoscalerDetail>,
    ) -> anyhow::Result<SelectedPods> {
        let replica_failure = self.targets.replica_failure(hpa, &target.scale).await;
        let without_pods = SelectedPods { replica_failure, ..SelectedPods::default() };
        let Some(selector) = target.scale.usable_selector() else { return Ok(without_pods) };
        let (pods, scheduling_failures) = self.list_pods(&selector).await?;
        let selected = self.targets.select_pods(hpa, settings, target, pods).await;
        let SelectedPods { pods, ownership_error, .. } = selected;
        if ownership_error.is_some() {
            return Ok(SelectedPods { ownership_error, ..without_pods });
        }
        if pods.is_empty() {
            return Ok(without_pods);
        }
        let own_name = self.name.key.to_string();
        let of_api = autoscalers.iter().filter(|one| one.api == self.name.key.api);
        let of_api = of_api.filter(|one| one.name != own_name).map(|one| &one.hpa);
        let is_ambiguous = is_reported_ambiguous(hpa, &own_name, record, settings.dry_run, of_api);
        let mut others = self.handled_autoscalers(hpa, autoscalers).await?;
        others.retain(|one| is_ambiguous && one.name != own_name);
        let others = others.into_iter().map(|one| (one.name.clone(), &one.hpa)).collect();
        let mut autoscalers = self.targets.selecting_autoscalers(others, &pods).await;
        autoscalers.push(own_name.clone());
        autoscalers.sort();
        Ok(SelectedPods {
            pods,
            autoscalers,
            own_name: Some(own_name),
            scheduling_failures,
            ..without_pods
        })
    }

    /// The autoscalers of the namespace that the controller handles. Fails if those of the API of
    /// the autoscaler can't be listed.
    async fn handled_autoscalers<'a>(
        &self,
        hpa: &HorizontalPodAutoscaler,
        autoscalers: &'a [ListedAutoscaler],
    ) -> anyhow::Result<Vec<&'a ListedAutoscaler>> {
        // Unless listing failed, the list has this autoscaler. Listing again returns the error.
        if !autoscalers.iter().any(|one| one.api == self.name.key.api) {
            let path = list_path(self.name.key.api, Some(&self.name.key.namespace));
            let listed = kubectl::list(&self.client, &path).await;
            listed.context("unable to list the autoscalers of the namespace")?;
        }
        let active = hpa.status.condition(&ConditionType::ScalingActive);
        let ambiguous = active.filter(|one| one.reason == ConditionReason::AmbiguousSelector);
        // A controller of one API doesn't watch the objects of the other API. It handles both if
        // its message about the ambiguous selector names autoscalers of both.
        let is_handled = |one: &&ListedAutoscaler| {
            one.api == self.name.key.api
                || ambiguous.is_some_and(|condition| may_name_api(&condition.message, one.api))
        };
        Ok(autoscalers.iter().filter(is_handled).collect())
    }

    /// Lists the pods that match the selector. Returns them with the reasons why the scheduler
    /// can't place some of them.
    async fn list_pods(
        &self,
        selector: &Selector,
    ) -> anyhow::Result<(Vec<Arc<Pod>>, BTreeMap<String, String>)> {
        let namespace = escape(&self.name.key.namespace);
        let selector = escape(&selector.to_string());
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={selector}");
        let items = kubectl::list(&self.client, &path).await.context("unable to list pods")?;
        let failures = scheduling_failures(&items);
        let decode = |item: Value| {
            let name = string_at(&item, "/metadata/name").to_owned();
            let pod = decode_value(item).map(Arc::new);
            pod.with_context(|| format!("unable to decode pod {}/{name}", self.name.key.namespace))
        };
        let pods = items.into_iter().map(decode).collect::<anyhow::Result<_>>()?;
        Ok((pods, failures))
    }
}
