//! Reads custom and external metrics: builds queries, and converts their results.

use std::sync::Arc;

use crate::client::{Client, InstantQuery, RuleQueryFailure, TimeoutParameter};
use crate::rules::{
    Compat,
    query::QueriedObjects,
    registry::{self, FoundMetric},
    results::{CustomItem, ObjectSamples, QueryResult, external_items},
    value::timestamp,
};
use futures::{StreamExt, TryStreamExt, stream};
use hpa_calc::Selector;
use hpa_metrics::{
    CustomQuery, CustomValues, ExternalQuery, ExternalValues, ListError, MetricError, NotFound,
    ObjectKind, Objects, Origin,
    resource::ApiResource,
    values::OmittedSample,
    wire::{ExternalMetricValue, MetricValue},
};

use super::{
    PrometheusSource, name_lists,
    sharing::{ShareableRequest, SharedSamples},
    state::DiscoveryState,
};

/// The samples of a custom metric, with the metadata for their values.
struct CustomResult {
    samples: Arc<ObjectSamples>,
    /// After a shared query, the number of samples of the requested objects. Otherwise, the number
    /// of all samples in the results.
    sample_count: usize,
    /// The label with the names of the objects.
    label: String,
    object_kind: ObjectKind,
    origin: Origin,
}

impl PrometheusSource {
    pub(super) async fn read_custom_metric(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
    ) -> Result<CustomValues, MetricError> {
        match &request.objects {
            Objects::Named(name) => self.read_by_name(state, request, name).await,
            Objects::Selected(selector) => self.read_by_selector(state, request, selector).await,
        }
    }

    async fn read_by_name(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        name: &str,
    ) -> Result<CustomValues, MetricError> {
        let names = [name.to_owned()];
        let requester = self.sharing.requester_id(name);
        let result = self.read_samples(state, request, &names, requester).await?;
        // For error messages: the query for this object, even if a shared query was sent.
        let query = || {
            let query = self.custom_query(state, request, &names);
            query.unwrap_or_else(|_| result.origin.query.clone())
        };
        let no_value = MetricError::NoValueForObject;
        if result.sample_count == 0 {
            return Err(no_value(NotFound::NoResult { query: query() }));
        }
        match result.samples.items([name], self.settings.compat).into_iter().next() {
            None => Err(no_value(NotFound::OtherObjects {
                query: query(),
                results: result.sample_count,
                label: result.label.clone(),
            })),
            Some(CustomItem { value: Err(reason), .. }) => {
                Err(no_value(NotFound::UnusableSample { query: query(), reason }))
            }
            Some(_) => Ok(self.custom_values(&names, result)),
        }
    }

    async fn read_by_selector(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        objects: &Selector,
    ) -> Result<CustomValues, MetricError> {
        let CustomQuery { resource, namespace, .. } = request;
        if !state.is_compiled() {
            return Err(MetricError::UnknownMetric(NotFound::NotDiscovered));
        }
        let resolved = state.resources.resolve(&resource.group, &resource.resource);
        let resolved = resolved.map_err(|error| MetricError::List(ListError::Resource(error)))?;
        let is_known = state.has_custom(resource, request.is_namespaced(), &request.metric);
        // prometheus-adapter lists objects even for an unknown metric.
        if !is_known && self.settings.compat == Compat::Off {
            return Err(unknown_custom(state, request));
        }
        let names = self.objects.names(resolved, namespace, objects).await;
        let names = names.map_err(MetricError::List)?;
        let requester = self.sharing.requester_id(objects);
        let result = self.read_samples(state, request, &names, requester).await?;
        Ok(self.custom_values(&names, result))
    }

    /// Reads the samples of the objects with these names.
    async fn read_samples(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        names: &[String],
        requester: u64,
    ) -> Result<CustomResult, MetricError> {
        if !state.is_compiled() {
            return Err(MetricError::UnknownMetric(NotFound::NotDiscovered));
        }
        let registry = &state.custom_registry;
        let found = registry.find(request, names, &state.resources);
        let found = found.map_err(|error| registry_error(state, request, error))?;
        let client = state.custom_client(found.index);
        let client = client.ok_or_else(|| unknown_custom(state, request))?;
        let parts = self.split_names(state, request, &found, names);
        let CustomQuery { namespace, metric_selector: selector, .. } = request;
        let rule = state.rules.config.rule_name("rules", found.index);
        let query_count = parts.len();
        let shareable =
            ShareableRequest { rule: &rule, namespace, selector, names, requester, query_count };
        let shared = self.sharing.read(shareable, &found, client, &state.resources).await;
        let (samples, sample_count, query) = match shared {
            Some(SharedSamples { samples, query }) => {
                let names = names.iter().map(String::as_str);
                let sample_count = samples.items(names, Compat::Off).len();
                (samples, sample_count, query.to_string())
            }
            None => self.read_parts(state, request, &rule, &found.label, client, &parts).await?,
        };
        let FoundMetric { label, resource, series, .. } = found;
        let origin = origin(rule, client, &series, &query);
        let object_kind = object_kind(resource);
        Ok(CustomResult { samples, sample_count, label, object_kind, origin })
    }

    /// Splits a long list of names, if queries for its parts return the same samples as one query.
    fn split_names<'n>(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        found: &FoundMetric<'_>,
        names: &'n [String],
    ) -> Vec<&'n [String]> {
        let FoundMetric { rule, resource, series, .. } = found;
        let resource = &resource.group_resource;
        let objects = QueriedObjects { resource, namespace: &request.namespace, names: &[] };
        let (selector, resources) = (&request.metric_selector, &state.resources);
        let query = rule.custom_query(series, objects, selector, resources, Compat::Off);
        name_lists::split(names, self.settings.compat, || {
            query.render_for_all_if_per_object().is_ok()
        })
    }

    /// Sends a query for each list of names. Returns the samples, their number and the first query.
    async fn read_parts(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        rule: &str,
        label: &str,
        client: &Client,
        parts: &[&[String]],
    ) -> Result<(Arc<ObjectSamples>, usize, String), MetricError> {
        let server = client.settings().name.as_str();
        let queries = parts.iter().map(|names| self.custom_query(state, request, names));
        let queries = queries.collect::<Result<Vec<String>, MetricError>>()?;
        let first = queries.first().cloned().unwrap_or_default();
        let read = |query| async {
            self.sharing.counters.count(rule, server, |counts| &mut counts.single);
            let result = self.send_query(client, query).await?;
            let samples = result.samples().map_err(MetricError::from_fetch_error)?;
            let by_name = ObjectSamples::new(samples, label, self.settings.compat);
            Ok::<_, MetricError>((by_name, samples.len()))
        };
        let add = |(mut all, count): (ObjectSamples, usize), (part, part_count)| async move {
            all.extend(part);
            Ok((all, count + part_count))
        };
        let parts = stream::iter(queries).map(read).buffered(name_lists::CONCURRENCY);
        let (samples, count) = parts.try_fold(Default::default(), add).await?;
        Ok((Arc::new(samples), count, first))
    }

    fn custom_query(
        &self,
        state: &DiscoveryState,
        request: &CustomQuery,
        names: &[String],
    ) -> Result<String, MetricError> {
        let registry = &state.custom_registry;
        let query = registry.query(request, names, &state.resources, self.settings.compat);
        query.map_err(|error| registry_error(state, request, error))
    }

    fn custom_values(&self, names: &[String], result: CustomResult) -> CustomValues {
        let CustomResult { samples, object_kind, origin, .. } = result;
        let names = names.iter().map(String::as_str);
        let mut values =
            CustomValues { object_kind, items: Vec::new(), omitted: Vec::new(), origin };
        for item in samples.items(names, self.settings.compat) {
            match item.value {
                Ok(value) => values.items.push(MetricValue {
                    object: item.name.into(),
                    timestamp: self.custom_timestamp(item.timestamp_ms),
                    window_seconds: None,
                    value,
                }),
                Err(reason) => {
                    values.omitted.push(OmittedSample { subject: item.name.to_owned(), reason });
                }
            }
        }
        values
    }

    pub(super) async fn read_external_metric(
        &self,
        state: &DiscoveryState,
        request: &ExternalQuery,
    ) -> Result<ExternalValues, MetricError> {
        let ExternalQuery { namespace, metric, metric_selector } = request;
        let (compat, resources) = (self.settings.compat, &state.resources);
        let unknown = || {
            MetricError::UnknownMetric(if state.is_discovered() {
                NotFound::External(metric.clone())
            } else {
                NotFound::NotDiscovered
            })
        };
        let found = state.external_registry.metric_rule(metric).ok_or_else(unknown)?;
        let query =
            found.rule.external_query(&found.series, namespace, metric_selector, resources, compat);
        let query = query.map_err(MetricError::from_query_build_error)?;
        let client = state.external_client(found.index).ok_or_else(unknown)?;
        let rule = state.rules.config.rule_name("externalRules", found.index);
        let origin = origin(rule, client, &found.series, &query);
        let result = self.send_query(client, query).await?;
        let mut values = ExternalValues { items: Vec::new(), omitted: Vec::new(), origin };
        for item in external_items(&result, compat).map_err(MetricError::from_conversion_error)? {
            let timestamp = timestamp(item.timestamp_ms);
            match item.value {
                Ok(value) => values.items.push(ExternalMetricValue {
                    labels: item.labels.map(|labels| labels.iter().collect()),
                    timestamp,
                    value,
                }),
                Err(reason) => {
                    let subject = format!("{:?}", item.labels.cloned().unwrap_or_default());
                    values.omitted.push(OmittedSample { subject, reason });
                }
            }
        }
        Ok(values)
    }

    async fn send_query(
        &self,
        client: &Client,
        query: String,
    ) -> Result<Arc<QueryResult>, MetricError> {
        let timeout = match self.settings.compat {
            Compat::Off => TimeoutParameter::Limit,
            Compat::Reference => TimeoutParameter::Empty,
        };
        send_rule_query(client, &InstantQuery { query, timeout }).await
    }
}

/// Sends the query of a rule. The text of an error names the server.
pub(super) async fn send_rule_query(
    client: &Client,
    query: &InstantQuery,
) -> Result<Arc<QueryResult>, MetricError> {
    let result = client.query(query).await;
    result.map_err(|failure| MetricError::from_fetch_error(RuleQueryFailure::new(client, failure)))
}

fn registry_error(
    state: &DiscoveryState,
    request: &CustomQuery,
    error: registry::CustomQueryError,
) -> MetricError {
    match error {
        registry::CustomQueryError::Unknown { .. } => unknown_custom(state, request),
        error => MetricError::UnknownMetric(NotFound::Other(error.to_string())),
    }
}

fn unknown_custom(state: &DiscoveryState, request: &CustomQuery) -> MetricError {
    if !state.is_discovered() {
        return MetricError::UnknownMetric(NotFound::NotDiscovered);
    }
    MetricError::UnknownMetric(NotFound::Custom {
        resource: request.resource.clone(),
        metric: request.metric.clone(),
    })
}

fn object_kind(resource: &ApiResource) -> ObjectKind {
    ObjectKind {
        resource: resource.group_resource.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
    }
}

fn origin(rule: String, client: &Client, series: &str, query: &str) -> Origin {
    Origin {
        rule,
        server: client.settings().name.clone(),
        series: series.to_owned(),
        query: query.to_owned(),
    }
}
