//! The metrics that the metrics APIs and the rules of `--metrics-config` serve.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hpa_calc::{MetricsApi, api::MetricSpec};
use hpa_metrics::{Catalog, ResourceMapper, objects::NoObjects, resource::ApiResources};
use hpa_prometheus::{
    rules::{config::DiscoveryRule, query::example_query},
    source::{RelistError, RuleInspection},
};

use super::queries::QueryMistake;
use crate::{args::RulesFileArguments, rules_source};

pub(super) const RESOURCE: &str = MetricsApi::Resource.group();
pub(super) const CUSTOM: &str = MetricsApi::Custom.group();
pub(super) const EXTERNAL: &str = MetricsApi::External.group();
pub(super) const METRICS_APIS: [&str; 3] = [RESOURCE, CUSTOM, EXTERNAL];
/// The resources that `metrics.k8s.io` serves, whether from metrics-server or from `resourceRules`.
pub(super) const MEASURED_RESOURCES: [&str; 2] = ["cpu", "memory"];

/// The metrics that the metrics APIs or the rules of `--metrics-config` serve.
#[derive(Clone, Debug, Default)]
pub(super) struct ServedMetrics {
    /// Whether these include the metrics of rules.
    pub(super) has_rules: bool,
    /// The groups of the metrics APIs that are served.
    pub(super) groups: BTreeSet<String>,
    /// The errors of the APIs of `groups` that don't answer.
    pub(super) api_errors: BTreeMap<String, String>,
    /// The metrics of `custom.metrics.k8s.io`, such as `pods/http_requests`. `None` if they are
    /// unknown: the API is not served, doesn't answer or lists no metrics.
    pub(super) custom: Option<BTreeSet<String>>,
    /// The metrics of `external.metrics.k8s.io`. `None` as for `custom`.
    pub(super) external: Option<BTreeSet<String>>,
    /// The metrics of rules whose query has a mistake, named as in `custom` and `external`.
    pub(super) query_mistakes: BTreeMap<QueryMistake, BTreeSet<String>>,
    /// The resources of the kinds that Object metrics describe. Empty if the names of `custom` may
    /// be those of an adapter, which may name resources differently.
    pub(super) resources: Arc<ApiResources>,
    /// The rules whose metrics are unknown, because they are refused or their series could not be
    /// listed.
    pub(super) unread_rules: Vec<DiscoveryRule>,
    /// The error if there are such rules.
    pub(super) discovery_error: Option<String>,
}

/// Lists the metrics of `--metrics-config`. `None` without that flag. If Prometheus can't list the
/// series, sets [`ServedMetrics::discovery_error`].
pub(super) async fn read_rules(
    arguments: &RulesFileArguments,
    mapper: Arc<dyn ResourceMapper>,
) -> anyhow::Result<Option<ServedMetrics>> {
    // Metrics are only listed, not read, so no objects are needed.
    let objects = Arc::new(NoObjects);
    let Some(source) = rules_source::create_from_flags(arguments, mapper, objects).await? else {
        return Ok(None);
    };
    let discovery_error = match source.relist().await {
        Err(error @ RelistError::Mapper(_)) => return Err(error.into()),
        outcome => outcome.err().map(|error| format!("{:#}", anyhow::Error::from(error))),
    };
    let groups = source.groups();
    let apis = [MetricsApi::Resource, MetricsApi::Custom, MetricsApi::External];
    let served = apis.into_iter().filter(|api| groups.has(*api));
    let custom = source.custom_metrics().into_iter();
    let external = source.external_metrics().into_iter();
    let rules: Vec<_> =
        source.inspect_custom().into_iter().chain(source.inspect_external()).collect();
    let is_unread =
        |rule: &&RuleInspection| rule.status.error.is_some() || rule.status.last_success.is_none();
    let unread_rules = rules.iter().filter(is_unread).map(|rule| rule.definition.clone());
    Ok(Some(ServedMetrics {
        has_rules: true,
        groups: served.map(|api| api.group().to_owned()).collect(),
        custom: groups
            .custom
            .then(|| custom.map(|one| format!("{}/{}", one.resource, one.metric)).collect()),
        external: groups.external.then(|| external.map(|one| one.metric).collect()),
        query_mistakes: QueryMistake::ALL.map(|one| (one, metrics_with(&rules, one))).into(),
        resources: source.resources(),
        unread_rules: unread_rules.collect(),
        discovery_error,
        ..ServedMetrics::default()
    }))
}

/// The metrics of rules whose query, with the name of the metric's series, has a mistake. They are
/// named as in [`ServedMetrics::custom`] and [`ServedMetrics::external`].
fn metrics_with(rules: &[RuleInspection], mistake: QueryMistake) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rule in rules {
        for metric in rule.metrics.iter().filter(|metric| metric.shadowed_by.is_none()) {
            let query = example_query(&rule.definition.metrics_query, &metric.series);
            if mistake.find(&query).is_some() {
                names.insert(match &metric.resource {
                    Some(resource) => format!("{resource}/{}", metric.metric),
                    None => metric.metric.clone(),
                });
            }
        }
    }
    names
}

impl ServedMetrics {
    /// Assumes that the cluster, which isn't read, serves all metrics APIs. The metrics of an API
    /// that the rules don't serve are unknown.
    pub(super) fn with_unknown_cluster(self) -> Self {
        Self { groups: METRICS_APIS.map(str::to_owned).into(), ..self }
    }

    /// Adds the metrics of rules to those of the cluster's APIs. An API with unknown metrics may
    /// serve any metric, so its metrics stay unknown.
    pub(super) fn add(&mut self, rules: Self) {
        let merge = |names: &mut Option<BTreeSet<String>>, is_served: bool, added| match names {
            Some(names) => names.extend(Option::into_iter(added).flatten()),
            None if is_served => {}
            None => *names = added,
        };
        let serves = |group: &str| self.groups.contains(group);
        let (custom, external) = (serves(CUSTOM), serves(EXTERNAL));
        merge(&mut self.custom, custom, rules.custom);
        merge(&mut self.external, external, rules.external);
        self.groups.extend(rules.groups);
        for (mistake, names) in rules.query_mistakes {
            self.query_mistakes.entry(mistake).or_default().extend(names);
        }
        self.unread_rules = rules.unread_rules;
        self.discovery_error = rules.discovery_error;
        self.has_rules = true;
    }

    /// Whether a rule that is refused, or whose series could not be listed, may have the metric.
    /// Then it is unknown whether the metric is served.
    pub(super) fn may_be_of_unread_rule(&self, metric: &MetricSpec) -> bool {
        if metric.resource.is_some() || metric.container_resource.is_some() {
            return self.discovery_error.is_some();
        }
        self.unread_rules.iter().any(|rule| rule.may_have(metric.metric_name()))
    }
}
