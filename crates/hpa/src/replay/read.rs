//! Reads an autoscaler's past from Prometheus.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use hpa_calc::Quantity;
use hpa_metrics::DiscoveryMapper;
use hpa_prometheus::source::PrometheusSource;
use hpa_simulate::MAX_PODS;
use jiff::{SignedDuration, Timestamp};

use super::{
    autoscaler::Autoscaler,
    fetch::Reader,
    metric::{Metric, Source, Target, select_metrics},
    past::{Past, RecordedMetric},
    query::{Query, TargetRef},
    series::Series,
    window::{MAX_POINTS, Window},
};
use crate::{
    args::{PastArguments, to_std},
    cached_pods::{CachedPods, FetchedPods},
    rules, rules_source,
    simulate::Progress,
};

/// The minimum window of rates, in seconds. metrics-server's window is at most a minute.
const MIN_RATE_WINDOW: i64 = 60;
/// The number of scrapes in the window of a rate. One of them may be missing.
const SCRAPES_PER_RATE: f64 = 4.0;
/// The window of rates if no CPU is read or the scrape interval is unknown, in seconds.
const DEFAULT_RATE_WINDOW: i64 = 120;
/// The window in which [`TargetRef::scrapes_query`] counts samples.
const SCRAPES_WINDOW: Duration = Duration::from_mins(10);
/// One in this many of the counts of samples is ignored, because it may be too low: for example,
/// because Prometheus was down.
const COUNTS_PER_OUTLIER: usize = 20;

/// Reads replicas, metrics, requests and start-up times of the target's pods.
pub(super) async fn read_past(
    arguments: &PastArguments,
    autoscaler: &Autoscaler,
) -> anyhow::Result<Past> {
    let metrics = Metric::used(&autoscaler.hpa, &arguments.ignore_metric)?;
    let load_queries = parse_load_queries(&arguments.load_query, &metrics)?;
    let mut requests = parse_requests(&arguments.request)?;
    let window = requested_window(arguments)?;
    let Some(client) = arguments.rules.prometheus.client(Arc::new(()))? else {
        bail!("the URL of Prometheus is required: --prometheus URL");
    };
    client.check_files().await?;
    let needs_rules =
        |metric: &Metric| metric.resource().is_none() && !load_queries.contains_key(&metric.index);
    let rules = if metrics.iter().any(needs_rules) {
        connect_rules(arguments, autoscaler, window.start).await?
    } else {
        None
    };
    let mut target = TargetRef::new(&autoscaler.hpa);
    target.pods = arguments.pods.clone().unwrap_or(target.pods);

    let chunks = window.chunks().count() as f64;
    // Replicas and start-up times, and for each metric its values and maybe the requests.
    let progress = Progress::new(chunks * (metrics.len() as f64 * 2.0 + 2.0), "requests");
    let reader = Reader { client: &client, window, progress: Some(&progress) };
    let replicas_query = target.replicas_query(arguments.replicas_query.as_deref());
    let replicas = reader.read_required(&replicas_query).await?;
    check_replicas(&window, &replicas, &replicas_query)?;
    let rate = rate_window(arguments.rate_window, &reader, &target, &metrics).await?;
    let mut recorded = Vec::new();
    for metric in metrics {
        let query = if let Some(text) = load_queries.get(&metric.index) {
            let subject = format!("the metric {}", metric.name);
            Query::new(&subject, (*text).to_owned(), "check --load-query")
        } else {
            let query = target.metric_query(&metric, rules.as_deref(), rate);
            query.map_err(anyhow::Error::msg)?
        };
        let value = reader.read_required(&query).await?;
        read_requests(&metric, &target, &reader, &mut requests).await?;
        recorded.push(RecordedMetric { metric, value });
    }
    let startup = match arguments.pod_startup {
        Some(startup) => Some(startup.as_secs_f64()),
        None => reader.read(&target.startup_query()).await?.quantile(0.5),
    };
    progress.finish();
    let past = Past {
        window,
        requested_window: window,
        replicas,
        metrics: recorded,
        pod_requests: requests,
        startup: startup.filter(|seconds| *seconds >= 0.0),
        capacity: arguments.pod_capacity,
    };
    past.trimmed()
}

/// The time of `--since` and `--until` in steps of `--step`.
fn requested_window(arguments: &PastArguments) -> anyhow::Result<Window> {
    let now = Timestamp::now();
    let until = arguments.until.unwrap_or(now);
    ensure!(until <= now, "--until {until} is in the future");
    let window = Window::new(arguments.since, until, arguments.step.map(to_std));
    if window.step_count < 2 || window.len() > MAX_POINTS {
        bail!("--since and --step ask for {} points: choose 3 to {MAX_POINTS}", window.len());
    }
    Ok(window)
}

/// Fails if a recorded number of replicas is not between 0 and [`MAX_PODS`], the limit of a
/// simulation.
pub(super) fn check_replicas(
    window: &Window,
    replicas: &Series,
    query: &Query,
) -> anyhow::Result<()> {
    let valid = 0.0..=f64::from(MAX_PODS);
    match window.samples(replicas).find(|(_, value)| !valid.contains(value)) {
        Some((time, value)) => bail!(
            "the query for replicas has the value {value} at {time}, which isn't between 0 and \
             {MAX_PODS}. The query is {}",
            query.text
        ),
        None => Ok(()),
    }
}

/// Parses `--load-query`. Returns the queries by the indices of their metrics.
fn parse_load_queries<'a>(
    texts: &'a [String],
    metrics: &[Metric],
) -> anyhow::Result<BTreeMap<usize, &'a str>> {
    let mut queries = BTreeMap::new();
    for text in texts {
        let (metric, query) = parse_load_query(text, metrics)?;
        if queries.insert(metric.index, query).is_some() {
            bail!("--load-query {text}: the metric {} has another query", metric.name);
        }
    }
    Ok(queries)
}

/// Parses a text of `--load-query`: `METRIC=QUERY`, or only the query if there is a single metric.
/// Fails if the metric is missing, unknown or ambiguous.
pub(super) fn parse_load_query<'m, 't>(
    text: &'t str,
    metrics: &'m [Metric],
) -> anyhow::Result<(&'m Metric, &'t str)> {
    let all_names = || {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        names.join(", ")
    };
    let Some((name, query)) = split_metric(text, metrics) else {
        return match metrics {
            [only] => Ok((only, text)),
            _ => bail!(
                "--load-query {text}: must be METRIC=QUERY, where METRIC is one of {}",
                all_names()
            ),
        };
    };
    let names: Vec<_> = metrics.iter().map(|metric| (metric.index, &*metric.name)).collect();
    let selected = select_metrics(&names, name);
    let selected = metrics.iter().filter(|metric| selected.contains(&metric.index));
    match selected.collect::<Vec<_>>().as_slice() {
        [] => {
            let all_names = all_names();
            bail!("--load-query {text}: the autoscaler has no metric {name}; it has: {all_names}")
        }
        [metric] => Ok((*metric, query)),
        [first, ..] => bail!(
            "--load-query {text}: several metrics have the name {name}: use an index in \
             spec.metrics, such as {}=QUERY",
            first.index
        ),
    }
}

/// Splits `METRIC=QUERY`. `None` for a query without a name: it has `=` only in braces or in
/// operators such as `==`.
fn split_metric<'a>(text: &'a str, metrics: &[Metric]) -> Option<(&'a str, &'a str)> {
    let (name, query) = text.split_once('=')?;
    let name = name.trim();
    let is_plain = |c: char| c.is_alphanumeric() || "_:.-/".contains(c);
    let may_be_name = !name.is_empty() && name.chars().all(is_plain)
        || metrics.iter().any(|metric| metric.name == name);
    let is_operator = query.starts_with(['=', '~']);
    (may_be_name && !is_operator).then_some((name, query))
}

/// Parses `--request`. Returns CPU in cores and memory in bytes, by resource. Fails if a resource
/// has several requests.
fn parse_requests(texts: &[String]) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut requests = BTreeMap::new();
    for text in texts {
        let (name, quantity) = text.split_once('=').unwrap_or_default();
        let quantity = quantity.parse().map_or(0.0, |quantity: Quantity| quantity.as_f64());
        if !matches!(name, "cpu" | "memory") || quantity <= 0.0 {
            bail!("--request {text}: must be such as cpu=250m or memory=1Gi");
        }
        if requests.insert(name.to_owned(), quantity).is_some() {
            bail!("--request {text}: {name} has another request");
        }
    }
    Ok(requests)
}

/// Reads the rules of `--metrics-config`, and the series that they need. `None` without the flag.
async fn connect_rules(
    arguments: &PastArguments,
    autoscaler: &Autoscaler,
    start: Timestamp,
) -> anyhow::Result<Option<Arc<PrometheusSource>>> {
    let mapper = match &autoscaler.client {
        Some(client) => Arc::new(DiscoveryMapper(client.clone())),
        None => rules::builtin::mapper(),
    };
    let pods = Arc::new(CachedPods(Arc::new(FetchedPods::default())));
    let source = rules_source::create_from_flags(&arguments.rules, mapper, pods).await?;
    let Some(mut source) = source else { return Ok(None) };
    // The newest samples may be as old as the start of the replayed time.
    source.extend_max_age(to_std(Timestamp::now().duration_since(start)));
    rules_source::relist(&source, || rules_source::warn_of_delay(&source)).await?;
    Ok(Some(Arc::new(source)))
}

/// Returns the window of rates in seconds. By default, it covers [`SCRAPES_PER_RATE`] scrapes at
/// the longest scrape interval in the reader's window, without outliers (see
/// [`COUNTS_PER_OUTLIER`]), but at least [`MIN_RATE_WINDOW`]. Without a CPU metric, or if the
/// scrape interval is unknown, it is [`DEFAULT_RATE_WINDOW`].
pub(super) async fn rate_window(
    configured: Option<SignedDuration>,
    reader: &Reader<'_>,
    target: &TargetRef,
    metrics: &[Metric],
) -> anyhow::Result<i64> {
    if let Some(window) = configured {
        return Ok(window.as_secs().max(1));
    }
    if !metrics.iter().any(|metric| metric.resource() == Some("cpu")) {
        return Ok(DEFAULT_RATE_WINDOW);
    }
    let replayed = Duration::from_secs_f64(reader.window.seconds());
    let window = Window::new(replayed, reader.window.end(), Some(SCRAPES_WINDOW));
    let reader = Reader { client: reader.client, window, progress: None };
    Ok(rate_window_for_scrapes(&reader.read(&target.scrapes_query()).await?))
}

/// The window of rates for the numbers of samples in each [`SCRAPES_WINDOW`].
pub(super) fn rate_window_for_scrapes(scrapes: &Series) -> i64 {
    let mut counts: Vec<f64> = scrapes.values().filter(|count| *count >= 2.0).collect();
    counts.sort_by(f64::total_cmp);
    let fewest = counts.get(counts.len() / COUNTS_PER_OUTLIER);
    let window = fewest.map(|count| SCRAPES_PER_RATE * SCRAPES_WINDOW.as_secs_f64() / count);
    window.map_or(DEFAULT_RATE_WINDOW, whole_seconds).max(MIN_RATE_WINDOW)
}

#[allow(clippy::cast_possible_truncation, reason = "`as` saturates")]
fn whole_seconds(seconds: f64) -> i64 {
    seconds.ceil() as i64
}

/// Reads the requests that a target in percent needs, unless `--request` sets them.
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
    let query = target.requests_query(&metric.name, container.as_deref());
    let series = reader.read_required(&query).await?;
    requests.extend(series.quantile(0.5).map(|request| (metric.name.clone(), request)));
    Ok(())
}
