//! Reads an autoscaler's past from Prometheus.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, anyhow, bail};
use hpa_calc::Quantity;
use hpa_metrics::DiscoveryMapper;
use hpa_prometheus::client::Client;
use hpa_prometheus::rules::Compat;
use hpa_prometheus::source::PrometheusProvider;
use jiff::{SignedDuration, Timestamp};

use super::{
    autoscaler::Autoscaler,
    fetch::Reader,
    metric::{Metric, Source, Target},
    past::{Past, Recorded, Startup},
    query::{Query, TargetRef},
    window::Window,
};
use crate::{
    args::{PastArguments, to_std},
    cached_pods::{CachedPods, FetchedPods},
    rules, rules_provider,
    simulate::progress::Progress,
};

/// The minimum window of rates, in seconds. metrics-server's window is at most a minute.
const SHORTEST_RATE: i64 = 60;
/// The number of scrapes in the window of a rate. One of them may be missing.
const SCRAPES_PER_RATE: f64 = 4.0;
/// The default window of rates if the scrape interval is unknown, in seconds.
const DEFAULT_RATE: i64 = 120;
/// The window in which [`TargetRef::scrapes`] counts samples, in seconds.
const SCRAPES_WINDOW: f64 = 600.0;

/// Reads replicas, metrics, requests and start-up times of the target's pods.
pub(super) async fn read_past(
    arguments: &PastArguments,
    autoscaler: &Autoscaler,
) -> anyhow::Result<Past> {
    let metrics = Metric::all(&autoscaler.hpa, &arguments.ignore_metric)?;
    let load_queries = own_queries(arguments, &metrics)?;
    let given = given_requests(&arguments.request)?;
    let until = arguments.until.unwrap_or_else(Timestamp::now);
    let window = Window::new(arguments.since, until, arguments.step.map(to_std));
    if window.steps < 2 || window.too_many_points() {
        bail!("--since and --step ask for {} points: choose 3 to 200000", window.len());
    }
    let Some(settings) = arguments.rules.prometheus.server(Compat::Off)? else {
        bail!("the URL of Prometheus is required: --prometheus URL");
    };
    let client = Client::new(settings, Arc::new(()))?;
    client.check_files().await?;
    let needs_rules = |metric: &Metric| {
        !matches!(metric.source, Source::Resource { .. })
            && !load_queries.contains_key(&metric.name)
    };
    let provider =
        if metrics.iter().any(needs_rules) { rules(arguments, autoscaler).await? } else { None };
    let target = target(arguments, autoscaler);

    let chunks = window.chunks().count() as f64;
    let progress = Progress::new(chunks * (metrics.len() as f64 * 2.0 + 2.0), "requests");
    let reader = Reader { client: &client, window, progress: Some(&progress) };
    let replicas =
        reader.read_required(&target.replicas(arguments.replicas_query.as_deref())).await?;
    let rate = rate_window(arguments.rate_window, &reader, &target, &metrics).await?;
    let mut recorded = Vec::new();
    let mut requests = given;
    for metric in metrics {
        let query =
            query(&metric, &target, provider.as_deref(), load_queries.get(&metric.name), rate)?;
        let value = reader.read_required(&query).await?;
        read_requests(&metric, &target, &reader, &mut requests).await?;
        recorded.push(Recorded { metric, value });
    }
    let startup = match arguments.pod_startup {
        Some(startup) => Startup::Given(startup.as_secs_f64()),
        None => read_startup(&reader, &target).await?,
    };
    progress.finish();
    let past = Past {
        window,
        requested: window,
        replicas,
        metrics: recorded,
        requests,
        startup,
        capacity: arguments.pod_capacity,
    };
    past.trimmed()
}

fn target(arguments: &PastArguments, autoscaler: &Autoscaler) -> TargetRef {
    let target = TargetRef::of(&autoscaler.hpa);
    let pods = arguments.pods.clone().unwrap_or_else(|| target.pods.clone());
    TargetRef { pods, ..target }
}

/// The queries of `--load-query`, by metric.
pub(super) fn own_queries(
    arguments: &PastArguments,
    metrics: &[Metric],
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut queries = BTreeMap::new();
    for text in &arguments.load_query {
        let named = text.split_once('=').and_then(|(name, query)| {
            let metric = metrics.iter().find(|metric| metric.name == name.trim())?;
            Some((metric.name.clone(), query.to_owned()))
        });
        let known: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        let known = known.join(", ");
        let (name, query) = match (named, metrics, unknown_metric(text)) {
            (Some(named), ..) => named,
            (None, _, Some(name)) => {
                bail!("--load-query {text}: the autoscaler has no metric {name}; it has: {known}")
            }
            (None, [only], None) => (only.name.clone(), text.clone()),
            (None, ..) => bail!("--load-query {text}: must be METRIC=QUERY, of {known}"),
        };
        queries.insert(name, query);
    }
    Ok(queries)
}

/// The name in `METRIC=QUERY`. `None` for a query: it can have `=` only in braces or as a part of an
/// operator, such as `==`.
fn unknown_metric(text: &str) -> Option<&str> {
    let (name, query) = text.split_once('=')?;
    let name = name.trim();
    let is_name = |c: char| c.is_alphanumeric() || "_:.-/".contains(c);
    let is_operator = query.starts_with(['=', '~']);
    (!name.is_empty() && name.chars().all(is_name) && !is_operator).then_some(name)
}

fn given_requests(texts: &[String]) -> anyhow::Result<BTreeMap<String, f64>> {
    let parse = |text: &String| {
        let (name, quantity) = text.split_once('=')?;
        let quantity: Quantity = quantity.parse().ok()?;
        let is_known = matches!(name, "cpu" | "memory");
        (is_known && quantity.as_f64() > 0.0).then(|| (name.to_owned(), quantity.as_f64()))
    };
    let parse = |text| {
        parse(text)
            .with_context(|| format!("--request {text}: must be such as cpu=250m or memory=1Gi"))
    };
    texts.iter().map(parse).collect()
}

async fn rules(
    arguments: &PastArguments,
    autoscaler: &Autoscaler,
) -> anyhow::Result<Option<Arc<PrometheusProvider>>> {
    let mapper = match &autoscaler.client {
        Some(client) => Arc::new(DiscoveryMapper(client.clone())),
        None => rules::builtin_mapper(),
    };
    let pods = Arc::new(CachedPods(Arc::new(FetchedPods::default())));
    let provider = rules_provider::from_flags(&arguments.rules, mapper, pods).await?;
    if let Some(provider) = &provider {
        rules_provider::relist(provider).await?;
    }
    Ok(provider)
}

/// The window of rates in seconds: four scrapes, but at least [`SHORTEST_RATE`].
pub(super) async fn rate_window(
    given: Option<SignedDuration>,
    reader: &Reader<'_>,
    target: &TargetRef,
    metrics: &[Metric],
) -> anyhow::Result<i64> {
    if let Some(window) = given {
        return Ok(window.as_secs().max(1));
    }
    let is_cpu =
        |metric: &Metric| matches!(metric.source, Source::Resource { .. }) && metric.name == "cpu";
    if !metrics.iter().any(is_cpu) {
        return Ok(DEFAULT_RATE);
    }
    let scrapes = reader.read_last(&target.scrapes()).await?.filter(|count| *count >= 2.0);
    let window = scrapes.map(|count| SCRAPES_PER_RATE * SCRAPES_WINDOW / count);
    Ok(window.map_or(DEFAULT_RATE, whole_seconds).max(SHORTEST_RATE))
}

#[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn whole_seconds(seconds: f64) -> i64 {
    seconds.ceil() as i64
}

fn query(
    metric: &Metric,
    target: &TargetRef,
    provider: Option<&PrometheusProvider>,
    load_query: Option<&String>,
    rate: i64,
) -> anyhow::Result<Query> {
    match load_query {
        Some(query) => Ok(Query {
            what: format!("the metric {}", metric.name),
            text: query.clone(),
            advice: "check --load-query".to_owned(),
            client: None,
            delay: 0.0,
        }),
        None => target.metric(metric, provider, rate).map_err(|message| anyhow!(message)),
    }
}

/// Reads the requests that a target in percent needs, unless they are given.
async fn read_requests(
    metric: &Metric,
    target: &TargetRef,
    reader: &Reader<'_>,
    requests: &mut BTreeMap<String, f64>,
) -> anyhow::Result<()> {
    let (Source::Resource { container }, Target::Utilization(_)) = (&metric.source, metric.target)
    else {
        return Ok(());
    };
    if requests.contains_key(&metric.name) {
        return Ok(());
    }
    let query = target.requests(&metric.name, container.as_deref());
    let series = reader.read_required(&query).await?;
    requests.extend(series.quantile(0.5).map(|request| (metric.name.clone(), request)));
    Ok(())
}

async fn read_startup(reader: &Reader<'_>, target: &TargetRef) -> anyhow::Result<Startup> {
    let series = reader.read(&target.startup()).await?;
    let median = series.quantile(0.5).filter(|seconds| *seconds >= 0.0);
    Ok(median.map_or(Startup::Unknown, Startup::Recorded))
}
