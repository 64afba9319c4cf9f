//! `hpa rules explain`.

use std::{collections::BTreeMap, fmt::Write};

use anyhow::{Context, bail};
use hpa_calc::{Quantity, Selector};
use hpa_metrics::{
    CustomQuery, ExternalQuery, MetricSource, Objects, describe, resource::GroupResource,
    wire::ItemLabels,
};
use hpa_prometheus::rules::explain::{Explanation, Verdict};
use hpa_prometheus::source::{PrometheusProvider, RelistError, RuleInspection};

use super::{check::chain, provider, read_config, sample};
use crate::args::{ExplainArguments, MetricsApi};

/// The explanation, and whether the metric has a value.
pub(super) async fn explain(arguments: &ExplainArguments) -> anyhow::Result<(String, bool)> {
    let config = read_config(&arguments.config)?;
    let ExplainArguments { prometheus, connect, resources, .. } = arguments;
    let Some(provider) = provider(&config, prometheus, *connect, resources).await? else {
        let is_named = !config.servers.is_empty();
        let connect = if is_named { ", or --connect for the file's servers" } else { "" };
        bail!("series are needed to explain a metric: add --prometheus-url{connect}");
    };
    // Rules that fail are part of the explanation.
    if let Err(error @ RelistError::Mapper(_)) = provider.relist().await {
        bail!("{}", chain(&error));
    }
    let selector = Selector::parse(&arguments.selector);
    let metric_selector = selector.with_context(|| format!("--selector {}", arguments.selector))?;
    let namespace = arguments.namespace.clone().unwrap_or_default();
    let metric = &arguments.metric;
    match arguments.api {
        MetricsApi::Custom => {
            let Some((resource, metric)) = metric.split_once('/') else {
                bail!("{metric} must be RESOURCE/METRIC, for example pods/http_requests");
            };
            let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
            let request = CustomQuery {
                resource: GroupResource::new(group, resource),
                namespace,
                objects: Objects::Selected(Selector::everything()),
                metric: metric.to_owned(),
                metric_selector,
            };
            Ok(custom(&provider, request, &arguments.names).await)
        }
        MetricsApi::External => {
            let request = ExternalQuery { namespace, metric: metric.clone(), metric_selector };
            Ok(external(&provider, &request).await)
        }
    }
}

async fn custom(
    provider: &PrometheusProvider,
    request: CustomQuery,
    names: &[String],
) -> (String, bool) {
    let names = match names {
        [] => known_objects(provider, &request).await,
        names => names.to_vec(),
    };
    // A rule is explained even if there is no object.
    let explained = if names.is_empty() { vec!["NAME".to_owned()] } else { names.clone() };
    let explanation = provider.explain_custom(&request, &explained);
    let inspected = provider.inspect_custom();
    let mut text = rules(provider, "rules", &explanation, &inspected).await;
    if explanation.applied().is_none() {
        return (text, false);
    }
    if names.is_empty() {
        text.push_str("no object has series of the metric");
        if request.is_namespaced() {
            // Writing to a string can't fail.
            let _ = write!(text, " in the namespace {}", request.namespace);
        }
        text.push('\n');
        if let Some(Verdict::Applies { series, .. }) =
            explanation.applied().map(|rule| &rule.verdict)
            && let Some(server) = server_of(&explanation, &inspected)
            && let Some(age) = sample::age(provider, server, series).await
        {
            let _ = writeln!(text, "{age}: check the scrape targets");
        }
        return (text, false);
    }
    let mut found = false;
    for name in &names {
        match provider.read_custom(request.clone().named(name)).await {
            Ok(values) => {
                found = true;
                for item in values.items {
                    let value = Quantity::from(item.value);
                    let _ = writeln!(text, "{name} = {value} at {}", item.timestamp);
                }
            }
            Err(error) => _ = writeln!(text, "{name}: {}", describe(&error)),
        }
    }
    (text, found)
}

/// The server of the rule that applies.
fn server_of<'r>(explanation: &Explanation, rules: &'r [RuleInspection]) -> Option<&'r str> {
    let rule = rules.get(explanation.applied()?.index)?;
    Some(&rule.definition.server)
}

/// The objects that have series of the metric.
async fn known_objects(provider: &PrometheusProvider, request: &CustomQuery) -> Vec<String> {
    let resources = provider.resources();
    let resolved = resources.resolve(&request.resource.group, &request.resource.resource);
    let Ok(resolved) = resolved else {
        return Vec::new();
    };
    let resource = &resolved.group_resource;
    let rules = provider.inspect_custom();
    let found = rules.iter().enumerate().find_map(|(index, rule)| {
        let metric = rule.metrics.iter().find(|metric| {
            metric.metric == request.metric
                && metric.resource.as_ref() == Some(resource)
                && metric.shadowed_by.is_none()
        })?;
        Some((index, rule, metric))
    });
    let Some((index, rule, metric)) = found else {
        return Vec::new();
    };
    let Some(label) = provider.object_label(index, resource) else {
        return Vec::new();
    };
    let namespace_label = provider.object_label(index, &GroupResource::namespaces());
    let namespace = namespace_label.as_deref().map(|label| (label, &*request.namespace));
    let namespace = namespace.filter(|_| request.is_namespaced());
    let server = &rule.definition.server;
    sample::objects(provider, server, &metric.series, namespace, &label).await
}

async fn external(provider: &PrometheusProvider, request: &ExternalQuery) -> (String, bool) {
    let explanation = provider.explain_external(request);
    let inspected = provider.inspect_external();
    let mut text = rules(provider, "externalRules", &explanation, &inspected).await;
    if explanation.applied().is_none() {
        return (text, false);
    }
    match provider.read_external(request.clone()).await {
        Ok(values) => {
            for item in &values.items {
                let labels: BTreeMap<_, _> =
                    item.labels.iter().flat_map(ItemLabels::pairs).collect();
                let _ = writeln!(text, "{labels:?} = {}", Quantity::from(item.value));
            }
            for omitted in &values.omitted {
                let _ = writeln!(text, "{}: {}", omitted.what, omitted.reason);
            }
            if values.items.is_empty() {
                text.push_str("the query has no result: check its labels and the selector\n");
            }
            (text, !values.items.is_empty())
        }
        Err(error) => {
            let _ = writeln!(text, "{}", describe(&error));
            (text, false)
        }
    }
}

/// Each rule with its verdict.
async fn rules(
    provider: &PrometheusProvider,
    list: &str,
    explanation: &Explanation,
    inspected: &[RuleInspection],
) -> String {
    let mut text = String::new();
    if let Some(problem) = &explanation.request_problem {
        let _ = writeln!(text, "{problem}");
    }
    if inspected.is_empty() {
        let _ = writeln!(text, "the file has no {list}");
    }
    for (index, rule) in inspected.iter().enumerate() {
        let position = rule.position.map(|at| format!(" ({at})")).unwrap_or_default();
        let name = format!("{list}[{index}]{position}");
        let report = explanation.rules.iter().find(|report| report.index == index);
        let Some(report) = report else {
            // Its series have never been read.
            let error = rule.status.error.as_deref().unwrap_or("not read");
            let _ = writeln!(text, "{name}: its series can't be read: {error}");
            continue;
        };
        let _ = writeln!(text, "{name}: {}", report.verdict);
        if let Verdict::NoSeries { series_query } = &report.verdict
            && let Some(age) = sample::age(provider, &rule.definition.server, series_query).await
        {
            let _ = writeln!(
                text,
                "  {age}, which is more than the maximum age: check the scrape targets, or raise \
                 --metrics-max-age"
            );
        }
    }
    text
}
