//! A provider as the controller's source of metrics.

use std::sync::Arc;

use crate::resource::GroupResource;
use crate::{
    FetchError, Items, MetricsSource, ObjectReference, Request, ResourceNames,
    wire::{ContainerMetrics, ExternalMetricValue, ItemLabels, ItemMeta, MetricValue, PodMetrics},
};
use async_trait::async_trait;
use hpa_calc::{Selector, api::ResourceName};
use jiff::SignedDuration;

use crate::provider::{
    error::ProviderError,
    interface::Provider,
    objects::ObjectMetadata,
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{CustomValues, PodUsage},
};

/// Reads the metrics that a provider has from it, and others from the next source. An error of the
/// provider is the answer: it doesn't fall through.
pub struct ProviderSource<S> {
    provider: Arc<dyn Provider>,
    names: Arc<dyn ResourceNames>,
    next: S,
}

impl<S: MetricsSource> ProviderSource<S> {
    /// `names` maps the kinds of objects to resources.
    pub fn new(provider: Arc<dyn Provider>, names: Arc<dyn ResourceNames>, next: S) -> Self {
        Self { provider, names, next }
    }

    /// Before the discovery, it is unknown which metrics the provider has.
    fn check_discovered(&self) -> Result<(), FetchError> {
        let Err(problems) = self.provider.readiness() else {
            return Ok(());
        };
        let separator = if problems.is_empty() { "" } else { ": " };
        let problems = problems.join("; ");
        let message =
            format!("the metrics of Prometheus are not discovered yet{separator}{problems}");
        Err(FetchError::Status { code: 503, message: message.into() })
    }

    async fn pod_metrics(
        &self,
        namespace: &str,
        selector: &Selector,
    ) -> Result<Vec<PodMetrics>, FetchError> {
        let pods = self.provider.objects().running_pods(namespace, selector).await;
        let pods = pods.map_err(|error| fetch_error(&ProviderError::List(error)))?;
        let keys: Vec<ObjectKey> = pods.iter().map(|pod| pod.key.clone()).collect();
        let usage = self.provider.pod_usage(&keys).await;
        if let (true, Some(error)) = (usage.items.is_empty(), usage.failures.first()) {
            return Err(fetch_error(error));
        }
        let mut pods = pods.into_iter();
        // Both are in the order of the pods.
        let items = usage.items.into_iter().filter_map(|item| {
            let pod = pods.find(|pod| pod.key == item.pod)?;
            Some(pod_metrics(&pod, item))
        });
        Ok(items.collect())
    }

    /// The request for an object's metric. `None` if the kind has no resource.
    async fn object_request(
        &self,
        namespace: &str,
        object: &ObjectReference,
        metric: &str,
        metric_selector: &Selector,
    ) -> Option<(CustomRequest, String)> {
        let group = object.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        let request = |resource, namespace: &str| CustomRequest {
            resource,
            namespace: namespace.to_owned(),
            metric: metric.to_owned(),
            metric_selector: as_received(metric_selector),
        };
        // The autoscaler's own namespace, whatever the name is.
        if group.is_empty() && &*object.kind == "Namespace" {
            return Some((request(GroupResource::namespaces(), ""), namespace.to_owned()));
        }
        // The next source reports the error.
        let name = self.names.resource_for(group, &object.kind).await.ok()?;
        let (resource, group) = name.split_once('.').unwrap_or((&name, ""));
        let resource = GroupResource::new(group, resource);
        Some((request(resource, namespace), object.name.to_string()))
    }
}

#[async_trait]
impl<S: MetricsSource> MetricsSource for ProviderSource<S> {
    async fn fetch(&self, request: &Request) -> Result<Items, FetchError> {
        let (provider, groups) = (&self.provider, self.provider.groups());
        match request {
            Request::PodMetrics { namespace, pods } if groups.resource => {
                self.check_discovered()?;
                return self.pod_metrics(namespace, pods).await.map(Items::PodMetrics);
            }
            Request::PodMetrics { .. } => {}
            Request::PodValues { namespace, pods, metric, metric_selector } => {
                let request = CustomRequest {
                    resource: GroupResource::pods(),
                    namespace: namespace.to_string(),
                    metric: metric.to_string(),
                    metric_selector: as_received(metric_selector),
                };
                if provider.has_custom_in(&request) {
                    let values = provider.custom_by_selector(&request, pods).await;
                    return values.map(metric_values).map_err(|error| fetch_error(&error));
                }
                if groups.custom {
                    self.check_discovered()?;
                }
            }
            Request::ObjectValues { namespace, object, metric, metric_selector } => {
                let own = self.object_request(namespace, object, metric, metric_selector).await;
                if let Some((request, name)) = own
                    && provider.has_custom_in(&request)
                {
                    let values = provider.custom_by_name(&request, &name).await;
                    return values.map(metric_values).map_err(|error| fetch_error(&error));
                }
                if groups.custom {
                    self.check_discovered()?;
                }
            }
            Request::ExternalValues { namespace, metric, metric_selector } => {
                let request = ExternalRequest {
                    namespace: namespace.to_string(),
                    metric: metric.to_string(),
                    metric_selector: as_received(metric_selector),
                };
                if provider.has_external_in(&request) {
                    let values = provider.external(&request).await;
                    let values = values.map_err(|error| fetch_error(&error))?;
                    let items = values.items.into_iter().map(|item| ExternalMetricValue {
                        labels: item.labels.into_iter().flatten().collect(),
                        timestamp: item.value.timestamp,
                        value: item.value.quantity.milli_value(),
                    });
                    return Ok(Items::ExternalValues(items.collect()));
                }
                if groups.external {
                    self.check_discovered()?;
                }
            }
        }
        self.next.fetch(request).await
    }
}

/// The selector of a metric as a metrics API would receive it. The reference selects nothing if the
/// metric has no selector, but sends the same empty text as for one that selects everything.
fn as_received(selector: &Selector) -> Selector {
    if selector.is_nothing() { Selector::everything() } else { selector.clone() }
}

fn fetch_error(error: &ProviderError) -> FetchError {
    let code = if error.is_not_found() { 404 } else { 500 };
    FetchError::Status { code, message: error.describe().into() }
}

fn metric_values(values: CustomValues) -> Items {
    let items = values.items.into_iter().map(|item| MetricValue {
        object: item.object.name.into(),
        timestamp: item.value.timestamp,
        window_seconds: item.value.window.and_then(|window| window.as_secs().try_into().ok()),
        value: item.value.quantity.milli_value(),
    });
    Items::Values(items.collect())
}

fn pod_metrics(pod: &ObjectMetadata, usage: PodUsage) -> PodMetrics {
    let containers = usage.containers.into_iter().map(|(name, values)| ContainerMetrics {
        name: name.into(),
        usage: [
            (ResourceName::Cpu, values.cpu.milli_value()),
            (ResourceName::Memory, values.memory.milli_value()),
        ]
        .into_iter()
        .collect(),
    });
    PodMetrics {
        metadata: ItemMeta {
            name: pod.key.name.as_str().into(),
            labels: pod.labels.iter().collect::<ItemLabels>(),
        },
        timestamp: usage.timestamp,
        window: SignedDuration::try_from(usage.window).unwrap_or(SignedDuration::MAX),
        containers: containers.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use crate::provider::value::UsageValues;
    use jiff::Timestamp;
    use parking_lot::Mutex;

    use super::*;
    use crate::provider::{
        interface::ApiGroups,
        test_doubles::{FixedObjects, FixedProvider, value},
        value::{ExternalValue, ObjectKind},
    };

    /// Records that it was asked.
    #[derive(Default)]
    struct Next(Arc<Mutex<usize>>);

    #[async_trait]
    impl MetricsSource for Next {
        async fn fetch(&self, _: &Request) -> Result<Items, FetchError> {
            *self.0.lock() += 1;
            Err(FetchError::NoCustomApi)
        }
    }

    struct Names;

    #[async_trait]
    impl ResourceNames for Names {
        async fn resource_for(
            &self,
            group: &str,
            kind: &str,
        ) -> Result<String, Box<dyn Error + Send + Sync>> {
            match (group, kind) {
                ("networking.k8s.io", "Ingress") => Ok("ingresses.networking.k8s.io".to_owned()),
                _ => Err("no such kind".into()),
            }
        }
    }

    fn provider() -> FixedProvider {
        let kind = |group: &str, plural: &str, kind: &str| ObjectKind {
            resource: GroupResource::new(group, plural),
            version: "v1".to_owned(),
            kind: kind.to_owned(),
        };
        let pod = |name: &str, app: &str| {
            let metadata = ObjectMetadata {
                key: ObjectKey::new("shop", name),
                labels: [("app".to_owned(), app.to_owned())].into(),
                creation_timestamp: None,
            };
            (GroupResource::pods(), metadata)
        };
        let custom = |kind, metric: &str, namespace: &str, name: &str, quantity: &str| {
            (kind, metric.to_owned(), ObjectKey::new(namespace, name), value(quantity))
        };
        let usage = UsageValues { cpu: "250m".parse().unwrap(), memory: "1Ki".parse().unwrap() };
        FixedProvider {
            groups: ApiGroups { custom: true, external: true, resource: true },
            custom: vec![
                custom(kind("", "pods", "Pod"), "rps", "shop", "web-0", "1500m"),
                custom(kind("", "pods", "Pod"), "rps", "shop", "api-0", "7"),
                custom(kind("networking.k8s.io", "ingresses", "Ingress"), "rps", "shop", "in", "9"),
                custom(kind("", "namespaces", "Namespace"), "rps", "", "shop", "11"),
            ],
            external: vec![(
                "queue".to_owned(),
                "shop".to_owned(),
                ExternalValue {
                    labels: Some([("q".to_owned(), "mail".to_owned())].into()),
                    value: value("3"),
                },
            )],
            pods: vec![PodUsage {
                pod: ObjectKey::new("shop", "web-0"),
                containers: [("app".to_owned(), usage)].into(),
                timestamp: Timestamp::UNIX_EPOCH,
                window: std::time::Duration::from_secs(60),
            }],
            objects: FixedObjects {
                objects: vec![pod("web-0", "web"), pod("api-0", "api")],
                ..FixedObjects::default()
            },
            ..FixedProvider::default()
        }
    }

    async fn fetch(
        provider: FixedProvider,
        request: Request,
    ) -> (Result<Items, FetchError>, usize) {
        let next = Next::default();
        let asked = next.0.clone();
        let source = ProviderSource::new(Arc::new(provider), Arc::new(Names), next);
        let result = source.fetch(&request).await;
        let asked = *asked.lock();
        (result, asked)
    }

    fn pod_values(metric: &str) -> Request {
        Request::PodValues {
            namespace: "shop".into(),
            pods: Selector::parse("app=web").unwrap(),
            metric: metric.into(),
            metric_selector: Selector::everything(),
        }
    }

    fn object_values(api_version: &str, kind: &str, name: &str) -> Request {
        Request::ObjectValues {
            namespace: "shop".into(),
            object: ObjectReference {
                api_version: api_version.into(),
                kind: kind.into(),
                name: name.into(),
            },
            metric: "rps".into(),
            metric_selector: Selector::everything(),
        }
    }

    #[tokio::test]
    async fn values_of_selected_pods_come_from_the_provider() {
        let (items, asked) = fetch(provider(), pod_values("rps")).await;
        let Items::Values(items) = items.unwrap() else { panic!("other items") };
        assert_eq!((items.len(), &*items[0].object), (1, "web-0"));
        assert_eq!(items[0].value, value("1500m").quantity.milli_value());
        assert_eq!(asked, 0);
    }

    #[tokio::test]
    async fn unknown_metrics_come_from_the_next_source() {
        assert_eq!(fetch(provider(), pod_values("other")).await.1, 1);
        let object = object_values("v1", "Widget", "x");
        assert_eq!(fetch(provider(), object).await.1, 1);
        let without_resource_rules = FixedProvider {
            groups: ApiGroups { resource: false, ..provider().groups },
            ..provider()
        };
        let pods = Selector::everything();
        let request = Request::PodMetrics { namespace: "shop".into(), pods };
        assert_eq!(fetch(without_resource_rules, request).await.1, 1);
    }

    #[tokio::test]
    async fn error_of_the_provider_does_not_fall_through() {
        let error = Some(ProviderError::fetch(std::io::Error::other("refused")));
        let (result, asked) = fetch(FixedProvider { error, ..provider() }, pod_values("rps")).await;
        assert_eq!(result.unwrap_err().to_string(), "unable to fetch metrics: refused");
        assert_eq!(asked, 0);
    }

    #[tokio::test]
    async fn objects_are_found_by_kind_and_namespaces_by_the_request() {
        let ingress = object_values("networking.k8s.io/v1", "Ingress", "in");
        let namespace = object_values("v1", "Namespace", "ignored");
        for (request, expected) in [(ingress, "9"), (namespace, "11")] {
            let (items, _) = fetch(provider(), request).await;
            let Items::Values(items) = items.unwrap() else { panic!("other items") };
            assert_eq!(items[0].value, value(expected).quantity.milli_value());
        }
    }

    #[tokio::test]
    async fn external_values_have_labels_and_pods_their_usage() {
        // Nothing is the selector of a metric that has none.
        for metric_selector in [Selector::everything(), Selector::nothing()] {
            let (namespace, metric) = ("shop".into(), "queue".into());
            let request = Request::ExternalValues { namespace, metric, metric_selector };
            let (items, _) = fetch(provider(), request).await;
            let Items::ExternalValues(items) = items.unwrap() else { panic!("other items") };
            assert_eq!(items[0].labels.pairs().collect::<Vec<_>>(), [("q", "mail")]);
        }

        let request =
            Request::PodMetrics { namespace: "shop".into(), pods: Selector::everything() };
        let (items, _) = fetch(provider(), request).await;
        let Items::PodMetrics(items) = items.unwrap() else { panic!("other items") };
        assert_eq!((items.len(), &*items[0].metadata.name), (1, "web-0"));
        assert_eq!(items[0].metadata.labels.pairs().collect::<Vec<_>>(), [("app", "web")]);
        let cpu = items[0].containers[0].usage.get(&ResourceName::Cpu).unwrap();
        assert_eq!(cpu, value("250m").quantity.milli_value());
    }
}
