//! The interface to sources of metrics.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::{readings::MetricsApi, report::error_texts::not_discovered};

use crate::{
    CustomQuery, CustomValues, ExternalQuery, ExternalValues, MetricError, Query, Values,
    resource::GroupResource,
};

/// A source of metrics: the metrics APIs of a cluster, rules for Prometheus, collectors, schedules,
/// or a decorator of another source.
#[async_trait]
pub trait MetricSource: Send + Sync + 'static {
    /// The metrics that the source has. The default is a catalog that accepts every query.
    fn catalog(&self) -> &dyn Catalog {
        &AnyMetric
    }

    /// Reads a metric. The values are in the variant of [`Values`] that belongs to the query.
    async fn read(&self, query: &Query) -> Result<Values, MetricError>;

    /// Reads a custom metric.
    async fn read_custom(&self, query: CustomQuery) -> Result<CustomValues, MetricError> {
        self.read(&Query::Custom(query)).await?.into_custom()
    }

    /// Reads an external metric.
    async fn read_external(&self, query: ExternalQuery) -> Result<ExternalValues, MetricError> {
        self.read(&Query::External(query)).await?.into_external()
    }
}

#[async_trait]
impl MetricSource for Arc<dyn MetricSource> {
    fn catalog(&self) -> &dyn Catalog {
        (**self).catalog()
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        (**self).read(query).await
    }
}

/// The metrics that a source has. None of the methods does I/O.
pub trait Catalog: Send + Sync {
    /// The APIs that the source has metrics for. They don't depend on the discovery of the source's
    /// metrics.
    fn groups(&self) -> ApiGroups;

    /// Fails until the source has discovered its metrics, and the caches that it needs have synced.
    /// The error has the problems that prevent this, for example one for each failed rule.
    fn readiness(&self) -> Result<(), Vec<String>>;

    /// The error of a query whose metric the source may yet discover: a text that names the sources
    /// and the problems. `None` once the metrics are discovered, and if the metric of the query
    /// can't be one of them.
    fn undiscovered(&self, _: &Query) -> Option<String> {
        Some(not_discovered("sources in this process", &self.readiness().err()?))
    }

    /// Whether the source answers a query, possibly with an error.
    fn has(&self, query: &Query) -> bool;

    /// The reason why the source doesn't have the metric of a query, for errors. `None` by default,
    /// and if the source has no metrics of that kind.
    fn absence(&self, _: &Query) -> Option<String> {
        None
    }

    /// The custom metrics that API discovery lists, sorted by metric and resource.
    fn custom_metrics(&self) -> Vec<ListedCustomMetric>;

    /// The external metrics that API discovery lists, sorted by name.
    fn external_metrics(&self) -> Vec<ListedExternalMetric>;
}

/// The catalog of a source that doesn't know its metrics in advance. It lists none and accepts
/// every query.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyMetric;

impl Catalog for AnyMetric {
    fn groups(&self) -> ApiGroups {
        ApiGroups::ALL
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn has(&self, _: &Query) -> bool {
        true
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        Vec::new()
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        Vec::new()
    }
}

/// The metrics APIs that a source has metrics for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiGroups {
    /// `custom.metrics.k8s.io`
    pub custom: bool,
    /// `external.metrics.k8s.io`
    pub external: bool,
    /// `metrics.k8s.io`
    pub resource: bool,
}

impl ApiGroups {
    /// All APIs.
    pub const ALL: Self = Self { custom: true, external: true, resource: true };

    /// Whether there are metrics for an API.
    pub fn has(self, api: MetricsApi) -> bool {
        match api {
            MetricsApi::Resource => self.resource,
            MetricsApi::Custom => self.custom,
            MetricsApi::External => self.external,
        }
    }

    /// The APIs that are in one or both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            custom: self.custom || other.custom,
            external: self.external || other.external,
            resource: self.resource || other.resource,
        }
    }

    /// The APIs that are in both.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self {
            custom: self.custom && other.custom,
            external: self.external && other.external,
            resource: self.resource && other.resource,
        }
    }
}

/// A custom metric as API discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedCustomMetric {
    /// The resource of the objects that have the metric.
    pub resource: GroupResource,
    /// The name of the metric.
    pub metric: String,
    /// Whether queries for the metric must name a namespace.
    pub is_namespaced: bool,
}

/// An external metric as API discovery lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedExternalMetric {
    /// The name of the metric.
    pub metric: String,
    /// Whether the values depend on the namespace. prometheus-adapter lists all external metrics as
    /// namespaced.
    pub is_namespaced: bool,
}
