//! Several providers as one.

use std::sync::Arc;

use crate::resource::GroupResource;
use async_trait::async_trait;
use hpa_calc::Selector;

use crate::provider::{
    error::{NotFound, ProviderError},
    interface::{ApiGroups, Provider},
    objects::{NoObjects, ObjectLister},
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{
        CustomValues, ExternalValues, ListedCustomMetric, ListedExternalMetric, NodeUsage,
        PodUsage, Usage,
    },
};

/// Providers in order: the first one that has a metric answers, also if it fails. The last one with
/// metrics of the API answers requests for metrics that none has, so that its reason is reported.
pub struct RoutedProvider(Vec<Arc<dyn Provider>>);

impl RoutedProvider {
    /// Providers in the order in which they are asked.
    pub fn new(providers: Vec<Arc<dyn Provider>>) -> Self {
        Self(providers)
    }

    fn of_custom(&self, request: &CustomRequest) -> Result<&dyn Provider, ProviderError> {
        self.choose(|provider| provider.has_custom_in(request), |groups| groups.custom)
    }

    fn choose(
        &self,
        has_metric: impl Fn(&dyn Provider) -> bool,
        has_api: impl Fn(ApiGroups) -> bool,
    ) -> Result<&dyn Provider, ProviderError> {
        let mut providers = self.0.iter().map(AsRef::as_ref);
        let mut last = self.0.iter().rev().map(AsRef::as_ref);
        providers
            .find(|provider| has_metric(*provider))
            .or_else(|| last.find(|provider| has_api(provider.groups())))
            .ok_or(ProviderError::UnknownMetric(NotFound::NotConfigured))
    }

    fn of_resources(&self) -> Option<&dyn Provider> {
        self.0.iter().map(AsRef::as_ref).find(|provider| provider.groups().resource)
    }
}

#[async_trait]
impl Provider for RoutedProvider {
    fn groups(&self) -> ApiGroups {
        let groups = self.0.iter().map(|provider| provider.groups());
        groups.fold(ApiGroups::default(), |all, own| ApiGroups {
            custom: all.custom || own.custom,
            external: all.external || own.external,
            resource: all.resource || own.resource,
        })
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        let readiness = self.0.iter().map(|provider| provider.readiness());
        let problems: Vec<Vec<String>> = readiness.filter_map(Result::err).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.concat()) }
    }

    fn has_custom(&self, resource: &GroupResource, is_namespaced: bool, metric: &str) -> bool {
        self.0.iter().any(|provider| provider.has_custom(resource, is_namespaced, metric))
    }

    fn has_external(&self, metric: &str) -> bool {
        self.0.iter().any(|provider| provider.has_external(metric))
    }

    fn has_custom_in(&self, request: &CustomRequest) -> bool {
        self.0.iter().any(|provider| provider.has_custom_in(request))
    }

    fn has_external_in(&self, request: &ExternalRequest) -> bool {
        self.0.iter().any(|provider| provider.has_external_in(request))
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let all = self.0.iter().flat_map(|provider| provider.custom_metrics());
        let mut all: Vec<_> = all.collect();
        all.sort_by(|a, b| (&a.metric, &a.resource).cmp(&(&b.metric, &b.resource)));
        all.dedup();
        all
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        let all = self.0.iter().flat_map(|provider| provider.external_metrics());
        let mut all: Vec<_> = all.collect();
        all.sort();
        all.dedup();
        all
    }

    async fn custom_by_name(
        &self,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError> {
        self.of_custom(request)?.custom_by_name(request, name).await
    }

    async fn custom_by_selector(
        &self,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError> {
        self.of_custom(request)?.custom_by_selector(request, objects).await
    }

    async fn external(&self, request: &ExternalRequest) -> Result<ExternalValues, ProviderError> {
        let has = |provider: &dyn Provider| provider.has_external_in(request);
        self.choose(has, |groups| groups.external)?.external(request).await
    }

    async fn pod_usage(&self, pods: &[ObjectKey]) -> Usage<PodUsage> {
        match self.of_resources() {
            Some(provider) => provider.pod_usage(pods).await,
            None => Usage::default(),
        }
    }

    async fn node_usage(&self, nodes: &[String]) -> Usage<NodeUsage> {
        match self.of_resources() {
            Some(provider) => provider.node_usage(nodes).await,
            None => Usage::default(),
        }
    }

    fn objects(&self) -> &dyn ObjectLister {
        self.of_resources().map_or(&NoObjects as &dyn ObjectLister, |provider| provider.objects())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{
        test_doubles::{FixedProvider, value},
        value::ExternalValue,
    };

    fn provider(metrics: &[(&str, &str)]) -> Arc<dyn Provider> {
        let external = metrics.iter().map(|(metric, quantity)| {
            let value = ExternalValue { labels: None, value: value(quantity) };
            ((*metric).to_owned(), "shop".to_owned(), value)
        });
        let groups = ApiGroups { external: true, ..ApiGroups::default() };
        Arc::new(FixedProvider { groups, external: external.collect(), ..FixedProvider::default() })
    }

    async fn read(routed: &RoutedProvider, metric: &str) -> Result<String, ProviderError> {
        let request = ExternalRequest {
            namespace: "shop".to_owned(),
            metric: metric.to_owned(),
            metric_selector: Selector::everything(),
        };
        let values = routed.external(&request).await?;
        Ok(values.items[0].value.quantity.to_string())
    }

    #[tokio::test]
    async fn first_provider_that_has_a_metric_answers() {
        let first = provider(&[("queue", "1")]);
        let routed = RoutedProvider::new(vec![first, provider(&[("queue", "2"), ("lag", "3")])]);
        assert_eq!(read(&routed, "queue").await.unwrap(), "1");
        assert_eq!(read(&routed, "lag").await.unwrap(), "3");
        let error = read(&routed, "other").await.unwrap_err();
        assert_eq!(error.to_string(), "no such metric: external metric other is not registered");
        let listed: Vec<_> = routed.external_metrics().into_iter().map(|it| it.metric).collect();
        assert_eq!(listed, ["lag", "queue"]);
    }

    #[tokio::test]
    async fn api_without_a_provider_has_no_metrics() {
        let routed = RoutedProvider::new(vec![provider(&[])]);
        let request = CustomRequest {
            resource: GroupResource::pods(),
            namespace: "shop".to_owned(),
            metric: "rps".to_owned(),
            metric_selector: Selector::everything(),
        };
        let error = routed.custom_by_name(&request, "web-0").await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        assert!(!routed.groups().custom && routed.groups().external);
    }
}
