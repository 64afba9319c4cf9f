//! Custom and external metrics: from a request to a query, and from its result to values.

use std::sync::Arc;

use hpa_calc::Selector;
use hpa_prometheus::{Client, InstantQuery, TimeoutParameter};
use hpa_rules::{
    Compat,
    registry::{self, CustomQuery, ExternalQueryError},
    resource::ApiResource,
    results::{CustomItem, QueryResult, ResultError, Sample, custom_items, external_items},
};

use super::{PrometheusProvider, state::State, timestamp};
use crate::{
    error::{NotFound, ProviderError},
    objects::ListError,
    request::{CustomRequest, ExternalRequest, ObjectKey},
    value::{
        CustomValue, CustomValues, ExternalValue, ExternalValues, ObjectKind, Omitted, Origin,
        Value,
    },
};

/// The samples of a custom metric, and what they mean.
struct CustomResult {
    samples: Vec<Sample>,
    label: String,
    object_kind: ObjectKind,
    origin: Arc<Origin>,
}

impl PrometheusProvider {
    pub(super) async fn read_by_name(
        &self,
        state: &State,
        request: &CustomRequest,
        name: &str,
    ) -> Result<CustomValues, ProviderError> {
        let result = self.read_custom(state, request, &[name.to_owned()]).await?;
        let query = || result.origin.query.clone();
        let no_value = ProviderError::NoValueForObject;
        if result.samples.is_empty() {
            return Err(no_value(NotFound::NoResult { query: query() }));
        }
        let items = custom_items([name], &result.samples, &result.label, self.settings.compat);
        match items.into_iter().next() {
            None => Err(no_value(NotFound::OtherObjects {
                query: query(),
                results: result.samples.len(),
                label: result.label.clone(),
            })),
            Some(CustomItem { value: Err(reason), .. }) => {
                Err(no_value(NotFound::NoValue { query: query(), reason }))
            }
            Some(_) => Ok(self.custom_values(request, &[name.to_owned()], result)),
        }
    }

    pub(super) async fn read_by_selector(
        &self,
        state: &State,
        request: &CustomRequest,
        objects: &Selector,
    ) -> Result<CustomValues, ProviderError> {
        let CustomRequest { resource, namespace, .. } = request;
        if !state.is_compiled() {
            return Err(ProviderError::UnknownMetric(NotFound::NotDiscovered));
        }
        let resolved = state.resources.resolve(&resource.group, &resource.resource);
        let resolved = resolved.map_err(|error| ProviderError::List(ListError::Resource(error)))?;
        let is_known = state.has_custom(resource, request.is_namespaced(), &request.metric);
        // The reference lists objects even for an unknown metric.
        if !is_known && self.settings.compat == Compat::Off {
            return Err(unknown_custom(state, request));
        }
        let names = self.objects.names(resolved, namespace, objects).await;
        let names = names.map_err(ProviderError::List)?;
        let result = self.read_custom(state, request, &names).await?;
        Ok(self.custom_values(request, &names, result))
    }

    async fn read_custom(
        &self,
        state: &State,
        request: &CustomRequest,
        names: &[String],
    ) -> Result<CustomResult, ProviderError> {
        if !state.is_compiled() {
            return Err(ProviderError::UnknownMetric(NotFound::NotDiscovered));
        }
        let compat = self.settings.compat;
        let own_request = request.of_objects(names);
        let query = state.custom_registry.query(&own_request, &state.resources, compat);
        let query = query.map_err(|error| match error {
            registry::CustomQueryError::Unknown { .. } => unknown_custom(state, request),
            error => ProviderError::UnknownMetric(error.into()),
        })?;
        let CustomQuery { query, label, resource, index, series, .. } = query;
        let client = state.custom_client(index);
        let client = client.ok_or_else(|| unknown_custom(state, request))?;
        let origin = origin("rules", index, client, &series, &query);
        let result = self.query(client, query).await?;
        let samples = match &*result {
            QueryResult::Vector(samples) => samples.clone().unwrap_or_default(),
            _ => return Err(ProviderError::fetch(ResultError::UnexpectedType)),
        };
        let object_kind = object_kind(resource);
        Ok(CustomResult { samples, label, object_kind, origin: Arc::new(origin) })
    }

    fn custom_values(
        &self,
        request: &CustomRequest,
        names: &[String],
        result: CustomResult,
    ) -> CustomValues {
        let CustomResult { samples, label, object_kind, origin } = result;
        let names = names.iter().map(String::as_str);
        let mut values =
            CustomValues { object_kind, items: Vec::new(), omitted: Vec::new(), origin };
        for item in custom_items(names, &samples, &label, self.settings.compat) {
            match item.value {
                Ok(quantity) => values.items.push(CustomValue {
                    object: ObjectKey::new(&request.namespace, item.name),
                    value: Value {
                        quantity,
                        timestamp: self.custom_timestamp(item.timestamp_ms),
                        window: None,
                    },
                }),
                Err(reason) => {
                    values.omitted.push(Omitted { what: item.name.to_owned(), reason });
                }
            }
        }
        values
    }

    pub(super) async fn read_external(
        &self,
        state: &State,
        request: &ExternalRequest,
    ) -> Result<ExternalValues, ProviderError> {
        let ExternalRequest { namespace, metric, metric_selector } = request;
        let compat = self.settings.compat;
        let registry = &state.external_registry;
        let unknown = || {
            ProviderError::UnknownMetric(if state.is_discovered() {
                NotFound::External(metric.clone())
            } else {
                NotFound::NotDiscovered
            })
        };
        let found = registry.origin(metric).ok_or_else(unknown)?;
        let query = registry.query(namespace, metric, metric_selector, &state.resources, compat);
        let query = query.map_err(|error| match error {
            ExternalQueryError::Query(error) => ProviderError::NoQuery(error),
            _ => unknown(),
        })?;
        let client = state.external_client(found.index).ok_or_else(unknown)?;
        let origin = origin("externalRules", found.index, client, &found.series, &query);
        let result = self.query(client, query).await?;
        let mut values =
            ExternalValues { items: Vec::new(), omitted: Vec::new(), origin: Arc::new(origin) };
        for item in external_items(&result, compat).map_err(ProviderError::Convert)? {
            let timestamp = timestamp(item.timestamp_ms);
            match item.value {
                Ok(quantity) => values.items.push(ExternalValue {
                    labels: item.labels.cloned(),
                    value: Value { quantity, timestamp, window: None },
                }),
                Err(reason) => {
                    let what = format!("{:?}", item.labels.cloned().unwrap_or_default());
                    values.omitted.push(Omitted { what, reason });
                }
            }
        }
        Ok(values)
    }

    async fn query(
        &self,
        client: &Client,
        query: String,
    ) -> Result<Arc<QueryResult>, ProviderError> {
        let timeout = match self.settings.compat {
            Compat::Off => TimeoutParameter::Limit,
            Compat::PrometheusAdapter => TimeoutParameter::Empty,
        };
        client.query(&InstantQuery { query, timeout }).await.map_err(ProviderError::fetch)
    }
}

fn unknown_custom(state: &State, request: &CustomRequest) -> ProviderError {
    if !state.is_discovered() {
        return ProviderError::UnknownMetric(NotFound::NotDiscovered);
    }
    let error = registry::CustomQueryError::Unknown {
        resource: request.resource.clone(),
        metric: request.metric.clone(),
    };
    ProviderError::UnknownMetric(error.into())
}

fn object_kind(resource: &ApiResource) -> ObjectKind {
    ObjectKind {
        resource: resource.group_resource.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
    }
}

fn origin(list: &str, index: usize, client: &Client, series: &str, query: &str) -> Origin {
    Origin {
        rule: format!("{list}[{index}]"),
        server: client.settings().name.clone(),
        series: series.to_owned(),
        query: query.to_owned(),
    }
}
