//! A shared query, which reads all objects of a namespace, must have the same results as the single
//! queries for these objects.
//!
//! All queries are evaluated for the same time, so results must be bitwise equal. The series
//! are random: pods without series, series that ended recently or long ago, counters with resets,
//! several series for a pod, NaN and infinite values.

mod recipes;
mod series;
mod templates;

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use hpa_calc::Selector;
use hpa_metrics::resource::{ApiResources, GroupResource};
use hpa_prometheus::client::{Client, InstantQuery, Settings, TimeoutParameter};
use hpa_prometheus::rules::{
    Compat, Config, NotPerObject, Rule,
    query::{ObjectQuery, QueriedObjects},
    results::{ObjectSamples, QueryResult, Sample},
};
use jiff::{SignedDuration, Timestamp};

pub(crate) use recipes::check as check_recipe;

use crate::{
    reader::{Reader, resources},
    server::Server,
};

/// The seed of series and templates.
const SEED: u64 = 20_261_122;
const TEMPLATE_COUNT: usize = 400;
/// The minimum number of random templates whose queries are shared.
const MIN_SHARED: usize = 60;
/// The age of the newest samples, far below the retention time of Prometheus.
const AGE: SignedDuration = SignedDuration::from_hours(4);
/// The label with the name of the pod.
const LABEL: &str = "pod";

/// A server with random series.
pub(crate) struct RandomSeries {
    client: Client,
    _server: Server,
}

impl RandomSeries {
    pub(crate) async fn start() -> Result<Self> {
        let end = Timestamp::now() - AGE;
        let series = series::openmetrics(end.as_second(), &mut Rng::with_seed(SEED));
        let server = Server::start_with_series(&series)?;
        let url = format!("{}/?time={}", server.url, end.as_second());
        Reader::new(&url)?.wait_for_result("sum(inflight)").await?;
        let client = Client::new(Settings::new("random", &url)?, Arc::new(()))?;
        Ok(Self { client, _server: server })
    }

    /// The samples, or the failure as a string.
    async fn query(&self, query: String) -> Result<Vec<Sample>, String> {
        let query = InstantQuery { query, timeout: TimeoutParameter::default() };
        match self.client.query(&query).await.as_deref() {
            Ok(QueryResult::Vector(samples)) => Ok(samples.clone().unwrap_or_default()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Checks that shared random templates have the results of single queries.
pub(crate) async fn check_random(random_series: &RandomSeries) -> Result<()> {
    let mut rng = Rng::with_seed(SEED);
    let (mut shared_count, mut value_count) = (0, 0);
    for _ in 0..TEMPLATE_COUNT {
        let rule = RuleUnderTest::new(&templates::random(&mut rng))?;
        for namespace in series::NAMESPACES {
            let Ok(query) = rule.shared_query(namespace) else { continue };
            let found = rule.compare(random_series, namespace, query, &mut rng).await?;
            let found = found.with_context(|| rule.template.clone())?;
            shared_count += 1;
            value_count += found;
        }
    }
    let min = MIN_SHARED * series::NAMESPACES.len();
    ensure!(shared_count >= min, "only {shared_count} queries are shared");
    ensure!(value_count >= shared_count, "only {value_count} values in {shared_count} queries");
    println!("  {shared_count} shared queries with {value_count} values");
    Ok(())
}

/// Checks that templates whose results would differ are not shared. Also shows that the comparison
/// finds differences.
pub(crate) async fn check_not_shared(random_series: &RandomSeries) -> Result<()> {
    let mut rng = Rng::with_seed(SEED);
    for template in templates::NOT_SHARED {
        let rule = RuleUnderTest::new(template)?;
        let mut is_different = false;
        for namespace in series::NAMESPACES {
            ensure!(rule.shared_query(namespace).is_err(), "{template} is shared");
            let query = rule.unchecked_query(namespace)?;
            let result = rule.compare(random_series, namespace, query, &mut rng).await?;
            is_different |= result.is_err();
        }
        ensure!(is_different, "{template}: the results are equal");
    }
    Ok(())
}

/// A rule whose queries are compared.
struct RuleUnderTest {
    template: String,
    rule: Rule,
    selector: Selector,
    resource: GroupResource,
    resources: ApiResources,
}

impl RuleUnderTest {
    fn new(template: &str) -> Result<Self> {
        let file = format!(
            "rules:\n- seriesQuery: x\n  resources: {{template: <<.Resource>>}}\n  \
             metricsQuery: {}\n",
            serde_json::to_string(template)?
        );
        let config = Config::parse(&file)?;
        let rule = config.rules.first().context("no rule")?;
        let resources = resources();
        Ok(Self {
            template: template.to_owned(),
            rule: Rule::new(rule, &resources)?,
            selector: Selector::everything(),
            resource: GroupResource::pods(),
            resources,
        })
    }

    fn query<'a>(&'a self, namespace: &'a str, names: &'a [String]) -> ObjectQuery<'a> {
        let objects = QueriedObjects { resource: &self.resource, namespace, names };
        self.rule.custom_query("x", objects, &self.selector, &self.resources, Compat::Off)
    }

    fn shared_query(&self, namespace: &str) -> Result<String, NotPerObject> {
        self.query(namespace, &[]).render_shared()
    }

    /// The query that would be shared without a check.
    fn unchecked_query(&self, namespace: &str) -> Result<String> {
        Ok(self.query(namespace, &[]).render_for_all()?)
    }

    /// Compares the results of a shared query with those of queries for one pod and for several
    /// pods. Returns the number of values, or the first difference.
    async fn compare(
        &self,
        random_series: &RandomSeries,
        namespace: &str,
        query: String,
        rng: &mut Rng,
    ) -> Result<Result<usize>> {
        let shared = random_series.query(query).await;
        let pods = series::pods();
        let mut requests: Vec<Vec<String>> = pods.iter().map(|pod| vec![pod.clone()]).collect();
        for _ in 0..3 {
            let mut several = pods.clone();
            rng.shuffle(&mut several);
            several.truncate(rng.usize(2..pods.len()));
            requests.push(several);
        }
        let mut value_count = 0;
        for names in requests {
            let query = self.query(namespace, &names).render()?;
            let single = random_series.query(query.clone()).await;
            match compare_results(&shared, &single, &names) {
                Ok(found) => value_count += found,
                Err(error) => return Ok(Err(error.context(query))),
            }
        }
        Ok(Ok(value_count))
    }
}

/// Compares the results of a shared query with those of a single query for these objects. Returns
/// the number of values.
fn compare_results(
    shared: &Result<Vec<Sample>, String>,
    single: &Result<Vec<Sample>, String>,
    names: &[String],
) -> Result<usize> {
    let (shared, single) = match (shared, single) {
        (Ok(shared), Ok(single)) => (shared, single),
        // If a shared query fails, its result is not used.
        (Err(_), _) => return Ok(0),
        (Ok(_), Err(error)) => bail!("only the single query fails: {error}"),
    };
    let of_objects = |samples: &[Sample]| {
        let mut samples: Vec<(BTreeMap<String, String>, u64, i64)> = samples
            .iter()
            .filter(|sample| sample.labels.get(LABEL).is_some_and(|name| names.contains(name)))
            .map(|sample| (sample.labels.clone(), sample.value.to_bits(), sample.timestamp_ms))
            .collect();
        samples.sort();
        samples
    };
    let (of_shared, of_single) = (of_objects(shared), of_objects(single));
    ensure!(of_shared == of_single, "{names:?}: shared {of_shared:?}, single {of_single:?}");
    ensure!(of_single.len() == single.len(), "{names:?}: further results {single:?}");
    let items = |samples: &[Sample]| {
        let samples = ObjectSamples::new(samples, LABEL, Compat::Off);
        format!("{:?}", samples.items(names.iter().map(String::as_str), Compat::Off))
    };
    ensure!(items(shared) == items(single), "{names:?}: other values");
    Ok(of_single.len())
}
