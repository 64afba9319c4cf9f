//! The metrics that rules serve.

use std::{collections::BTreeSet, sync::Arc};

use hpa_metrics::{Catalog, ResourceMapper, objects::NoObjects};
use hpa_prometheus::source::{PrometheusProvider, RelistError};

use super::workspace::ServedMetrics;
use crate::{args::RulesFileArguments, rules_provider};

pub(super) const RESOURCE: &str = "metrics.k8s.io";
pub(super) const CUSTOM: &str = "custom.metrics.k8s.io";
pub(super) const EXTERNAL: &str = "external.metrics.k8s.io";
pub(super) const METRICS_APIS: [&str; 3] = [RESOURCE, CUSTOM, EXTERNAL];

/// The metrics of `--metrics-config`. `None` without that flag.
pub(super) async fn by_rules(
    arguments: &RulesFileArguments,
    mapper: Arc<dyn ResourceMapper>,
) -> anyhow::Result<Option<ServedMetrics>> {
    // Metrics are only listed, not read, so no objects are needed.
    let objects = Arc::new(NoObjects);
    let Some(provider) = rules_provider::from_flags(arguments, mapper, objects).await? else {
        return Ok(None);
    };
    let undiscovered = match provider.relist().await {
        Err(error @ RelistError::Mapper(_)) => return Err(error.into()),
        other => other.err().map(|error| format!("{:#}", anyhow::Error::from(error))),
    };
    let groups = provider.groups();
    let served =
        [(groups.resource, RESOURCE), (groups.custom, CUSTOM), (groups.external, EXTERNAL)];
    let custom = provider.custom_metrics().into_iter();
    let external = provider.external_metrics().into_iter();
    Ok(Some(ServedMetrics {
        by: "the rules file",
        groups: served
            .into_iter()
            .filter(|(is_served, _)| *is_served)
            .map(|(_, group)| group.to_owned())
            .collect(),
        custom: groups
            .custom
            .then(|| custom.map(|one| format!("{}/{}", one.resource, one.metric)).collect()),
        external: groups.external.then(|| external.map(|one| one.metric).collect()),
        averages: averages(&provider),
        undiscovered,
    }))
}

/// The metrics whose rule computes an average.
fn averages(provider: &PrometheusProvider) -> BTreeSet<String> {
    let rules = provider.inspect_custom().into_iter().chain(provider.inspect_external());
    let metrics = rules
        .filter(|rule| is_average(&rule.definition.metrics_query))
        .flat_map(|rule| rule.metrics)
        .filter(|metric| metric.shadowed_by.is_none());
    metrics
        .map(|metric| match metric.resource {
            Some(resource) => format!("{resource}/{}", metric.metric),
            None => metric.metric,
        })
        .collect()
}

/// Whether the outermost operation of a query is an average or a quantile.
fn is_average(query: &str) -> bool {
    let query = query.trim_start_matches(|letter: char| letter == '(' || letter.is_whitespace());
    let end = query.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let operation = query.get(..end.unwrap_or(query.len())).unwrap_or_default();
    ["avg", "quantile", "histogram_quantile"].contains(&operation)
}

impl ServedMetrics {
    /// The metrics of rules without access to a cluster. Its APIs may serve any metric of the APIs
    /// that the rules don't serve.
    pub(super) fn beside_any_cluster(self) -> Self {
        Self { groups: METRICS_APIS.map(str::to_owned).into(), ..self }
    }

    /// Adds the metrics of rules to those of the cluster's APIs.
    pub(super) fn add(&mut self, rules: Self) {
        // An API whose metrics are not known may serve any.
        let merge = |own: &mut Option<BTreeSet<String>>, is_served: bool, other| match own {
            Some(names) => names.extend(Option::into_iter(other).flatten()),
            None if is_served => {}
            None => *own = other,
        };
        let serves = |group: &str| self.groups.contains(group);
        let (custom, external) = (serves(CUSTOM), serves(EXTERNAL));
        merge(&mut self.custom, custom, rules.custom);
        merge(&mut self.external, external, rules.external);
        self.groups.extend(rules.groups);
        self.averages.extend(rules.averages);
        self.undiscovered = rules.undiscovered;
        self.by = "the cluster or the rules file";
    }
}
