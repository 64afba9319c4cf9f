//! Several sources as one.

use std::sync::Arc;

use async_trait::async_trait;
use hpa_calc::go_text::truncate;

use crate::{
    CustomValues, ExternalValues, MetricError, MetricSource, NotFound, Origin, Query, UsageList,
    Values,
    source::{ApiGroups, Catalog, ListedCustomMetric, ListedExternalMetric},
};

/// Sources in order: the first one that has a metric answers, even with an error. If none has the
/// metric, the last source that has metrics of the API answers: its error says why. Without such a
/// source, the error is [`NotFound::NotConfigured`].
pub struct Routed(Vec<Arc<dyn MetricSource>>);

impl Routed {
    /// Combines sources. The first one takes precedence.
    pub fn new(sources: Vec<Arc<dyn MetricSource>>) -> Self {
        Self(sources)
    }

    fn catalogs(&self) -> impl Iterator<Item = &dyn Catalog> {
        self.0.iter().map(MetricSource::catalog)
    }
}

impl Catalog for Routed {
    fn groups(&self) -> ApiGroups {
        self.catalogs().map(Catalog::groups).fold(ApiGroups::default(), ApiGroups::union)
    }

    fn readiness(&self) -> Result<(), Vec<String>> {
        let problems: Vec<_> =
            self.catalogs().filter_map(|catalog| catalog.readiness().err()).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems.concat()) }
    }

    fn undiscovered(&self, query: &Query) -> Option<String> {
        let problems: Vec<_> =
            self.catalogs().filter_map(|catalog| catalog.undiscovered(query)).collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    fn has(&self, query: &Query) -> bool {
        self.catalogs().any(|catalog| catalog.has(query))
    }

    fn absence(&self, query: &Query) -> Option<String> {
        let reasons: Vec<_> =
            self.catalogs().filter_map(|catalog| catalog.absence(query)).collect();
        (!reasons.is_empty()).then(|| reasons.join(", and "))
    }

    fn custom_metrics(&self) -> Vec<ListedCustomMetric> {
        let mut all: Vec<_> = self.catalogs().flat_map(Catalog::custom_metrics).collect();
        all.sort_by(|a, b| (&a.metric, &a.resource).cmp(&(&b.metric, &b.resource)));
        all.dedup();
        all
    }

    fn external_metrics(&self) -> Vec<ListedExternalMetric> {
        let mut all: Vec<_> = self.catalogs().flat_map(Catalog::external_metrics).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[async_trait]
impl MetricSource for Routed {
    fn catalog(&self) -> &dyn Catalog {
        self
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let serves_api =
            |source: &&Arc<dyn MetricSource>| source.catalog().groups().has(query.api());
        let source = self.0.iter().find(|source| source.catalog().has(query));
        let source = source.or_else(|| self.0.iter().rev().find(serves_api));
        match source {
            Some(source) => source.read(query).await,
            None => Err(MetricError::UnknownMetric(NotFound::NotConfigured)),
        }
    }
}

/// Reads a metric from the first source if its catalog has the metric, and otherwise from the next
/// source.
///
/// - An error of the first source is the answer.
/// - A metric that the first source may yet discover is not read from the next one: the query fails
///   with status 503.
/// - An error of the next source also has the reason why the first one doesn't have the metric.
/// - If the first source has no value of an external metric, or if its query has no result for any
///   pod, the error is [`MetricError::NoValue`]. An empty list would be reported as that of a
///   metrics API.
pub struct Fallback<S> {
    source: Arc<dyn MetricSource>,
    next: S,
}

impl<S: MetricSource> Fallback<S> {
    /// Metrics that `source` doesn't have are read from `next`.
    pub fn new(source: Arc<dyn MetricSource>, next: S) -> Self {
        Self { source, next }
    }
}

#[async_trait]
impl<S: MetricSource> MetricSource for Fallback<S> {
    fn catalog(&self) -> &dyn Catalog {
        self.next.catalog()
    }

    async fn read(&self, query: &Query) -> Result<Values, MetricError> {
        let catalog = self.source.catalog();
        let has_group = catalog.groups().has(query.api());
        let has_metric = has_group && catalog.has(query);
        // A catalog accepts queries for usage even before discovery.
        let is_usage = matches!(query, Query::PodUsage { .. } | Query::NodeUsage { .. });
        if has_group
            && (is_usage || !has_metric)
            && let Some(message) = catalog.undiscovered(query)
        {
            return Err(MetricError::Status { code: 503, message: message.into() });
        }
        if has_metric {
            return self.source.read(query).await.and_then(require_value);
        }
        self.next.read(query).await.map_err(|error| match catalog.absence(query) {
            Some(absence) => {
                MetricError::Absent { absence: absence.into(), api_error: Box::new(error) }
            }
            None => error,
        })
    }
}

/// The maximum length of a query in the error of a metric of pods.
const MAX_QUERY_CHARS: usize = 300;

/// Fails if an external metric has no value, or if the query of a metric of pods or of their usage
/// has no result. An empty list of pods without a query is accepted: there may be no pods.
fn require_value(values: Values) -> Result<Values, MetricError> {
    match values {
        Values::PodMetrics(UsageList { items, failures, query_without_result: Some(query) })
            if items.is_empty() && failures.is_empty() =>
        {
            let query = truncate(query, MAX_QUERY_CHARS);
            Err(MetricError::NoValue(NotFound::NoResultForPods { query }))
        }
        Values::Custom(CustomValues { items, omitted, origin, .. })
            if items.is_empty() && !origin.query.is_empty() =>
        {
            let query = truncate(origin.query, MAX_QUERY_CHARS);
            Err(MetricError::NoValue(match omitted.first() {
                Some(one) => NotFound::UnusableSample { query, reason: one.reason },
                None => NotFound::NoResultForPods { query },
            }))
        }
        Values::External(ExternalValues { items, omitted, origin }) if items.is_empty() => {
            let Origin { rule, query, .. } = origin;
            Err(MetricError::NoValue(match (query.is_empty(), omitted.first()) {
                (true, _) => {
                    let source = if rule.is_empty() { "the source" } else { &*rule };
                    NotFound::Other(format!("{source} returned none"))
                }
                (false, Some(one)) => NotFound::UnusableSample { query, reason: one.reason },
                (false, None) => NotFound::NoResult { query },
            }))
        }
        values => Ok(values),
    }
}

#[cfg(test)]
mod tests;
