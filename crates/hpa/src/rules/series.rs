//! Reads labels and ages of series from Prometheus: to choose objects for sample queries, and to
//! explain missing series.

use std::collections::{BTreeMap, BTreeSet};

use hpa_calc::{
    explain::list_first,
    go_text::Quoted,
    selector::{Operator, Requirement},
    suggestions::{may_be_meant, most_similar},
};
use hpa_prometheus::{
    client::{InstantQuery, QueryFailure, TimeoutParameter},
    promql::{self, Node, Selector},
    rules::{explain::Warning, results::QueryResult},
    source::RuleInspection,
};
use jiff::{SignedDuration, Timestamp};

use super::{
    outcome::QueryProblem,
    selectors::{label_name, namespace_label, selector, selects_namespace},
    servers::PrometheusServer,
};

/// The maximum number of labels or of their values in a message.
const MAX_LABELS: usize = 20;
/// The maximum number of names that are compared with a mistyped one.
const MAX_COMPARED: usize = 1000;
/// The minimum length of half a mistyped name. Shorter names are not compared with others.
const MIN_HALF_LEN: usize = 4;

pub(super) type Labels = BTreeMap<String, String>;

/// The message about series without the label that selects objects in queries, with advice.
/// `singular` is the name of the objects' resource, and `labels` are those of the series.
pub(super) fn missing_label(
    series: &str,
    label: &str,
    singular: &str,
    labels: &[String],
) -> String {
    let advice = mapping_advice(singular, labels);
    format!("{series} has no label `{label}`, which queries use to select the {singular}: {advice}")
}

/// Advice for a rule that maps no label of its series to a resource.
pub(super) fn mapping_advice(singular: &str, labels: &[String]) -> String {
    let names = labels.iter().map(String::as_str);
    let similar: Vec<&str> = names.filter(|label| label.contains(singular)).collect();
    match similar.as_slice() {
        [] if singular == "namespace" => format!(
            "add it by relabeling, or set `namespaced: false` in an external rule; the labels are \
             {}",
            list_labels(labels)
        ),
        [] => format!(
            "map the label with the object's name, or use externalRules if there is none; the \
             labels are {}",
            list_labels(labels)
        ),
        [label] => format!(
            "the series have the label `{label}`: map it with resources.overrides: {{{label}: \
             {{resource: {singular}}}}}"
        ),
        [first, ..] => format!(
            "map the label of the series that names the {singular} ({}) with resources.overrides, \
             such as {{{first}: {{resource: {singular}}}}}",
            similar.join(", ")
        ),
    }
}

/// Explains why a selector matches no series although `name` has some: the newest series, which has
/// `labels`, lacks a required label, or has another value. `None` if no matcher can be the cause.
fn explain_label_mismatch(name: &str, selector: &Selector<'_>, labels: &Labels) -> Option<String> {
    let matchers = selector.matchers.iter().filter(|matcher| matcher.label != "__name__");
    let required: BTreeSet<&str> =
        matchers.filter(|matcher| !matcher.accepts_empty).map(|matcher| matcher.label).collect();
    let is_missing = |label: &&&str| !labels.contains_key(**label);
    let missing: Vec<&str> = required.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return (!required.is_empty()).then(|| {
            format!(
                "{name} has all labels of seriesQuery, but no series matches it: check the values"
            )
        });
    }
    let is_similar = |label: &&String| missing.iter().any(|required| label.contains(required));
    let similar: Vec<String> = labels.keys().filter(is_similar).cloned().collect();
    let known = if similar.is_empty() { labels.keys().cloned().collect() } else { similar };
    let missing = missing.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    Some(format!(
        "the newest series of {name} has no label {missing}, which seriesQuery requires; it has {}",
        list_labels(&known)
    ))
}

/// The first [`MAX_LABELS`] labels of series as text.
pub(super) fn list_labels(labels: &[String]) -> String {
    if labels.is_empty() { "none".to_owned() } else { list_first(labels, MAX_LABELS, ", ") }
}

/// The labels or values that `wanted` may mean, or else all of them.
fn describe_known(wanted: &[&str], known: &[String], noun: &str) -> String {
    let wanted: Vec<&str> = wanted.iter().copied().filter(|one| !one.is_empty()).collect();
    let is_meant = |one: &&String| wanted.iter().any(|wanted| may_be_meant(wanted, one));
    let similar: Vec<&String> = known.iter().take(MAX_COMPARED).filter(is_meant).collect();
    if similar.is_empty() {
        return format!("the {noun} are {}", list_first(known, MAX_LABELS, ", "));
    }
    format!("similar {noun}: {}", list_first(&similar, MAX_LABELS, ", "))
}

impl PrometheusServer<'_> {
    /// The labels and values in the result of a query. Empty unless the result is a vector.
    pub(super) async fn samples(&self, query: &str) -> Result<Vec<(Labels, f64)>, QueryProblem> {
        let Some(client) = self.servers.source.client(self.name) else {
            // This can't happen, because server names are checked when the file is loaded.
            return Err(QueryProblem::Mistake(format!("the file has no server {}", self.name)));
        };
        let request = InstantQuery { query: query.to_owned(), timeout: TimeoutParameter::Limit };
        let result = self.send(client.query(&request)).await;
        let result = result.map_err(|failure| QueryProblem::new(&failure, &client))?;
        let QueryResult::Vector(Some(samples)) = &*result else { return Ok(Vec::new()) };
        Ok(samples.iter().map(|sample| (sample.labels.clone(), sample.value)).collect())
    }

    /// Like [`Self::samples`]. Empty also if Prometheus can't execute the query.
    async fn samples_or_none(&self, query: &str) -> Result<Vec<(Labels, f64)>, QueryProblem> {
        match self.samples(query).await {
            Err(QueryProblem::Mistake(_)) => Ok(Vec::new()),
            result => result,
        }
    }

    /// The labels of the series with the newest sample. `None` if there is no current series.
    pub(super) async fn newest_labels(
        &self,
        selector: &str,
    ) -> Result<Option<Labels>, QueryProblem> {
        let query = format!("topk(1, timestamp({selector}))");
        Ok(self.samples(&query).await?.into_iter().next().map(|(labels, _)| labels))
    }

    /// The labels of the series with the newest sample of the last day, to within 5 minutes. `None`
    /// also if Prometheus can't execute the query, which reads many samples.
    pub(super) async fn newest_labels_today(
        &self,
        selector: &str,
    ) -> Result<Option<Labels>, QueryProblem> {
        let query = format!("topk(1, max_over_time(timestamp({selector})[1d:5m]))");
        let samples = self.samples_or_none(&query).await?;
        Ok(samples.into_iter().next().map(|(labels, _)| labels))
    }

    /// Says why no series of a `seriesQuery` is within the maximum age. `None` if the reason isn't
    /// found.
    pub(super) async fn explain_missing_series(
        &self,
        series_query: &str,
    ) -> Result<Option<String>, QueryProblem> {
        match self.describe_age(series_query).await? {
            Some(age) => Ok(Some(format!(
                "no sample is within the maximum age. {age}: check the scrape targets, or raise \
                 --metrics-max-age"
            ))),
            None => self.explain_mismatch(series_query).await,
        }
    }

    /// Says why a `seriesQuery` matches no current series: its name is misspelled, or a matcher
    /// doesn't fit. `None` if it has no name, or if neither is the cause.
    async fn explain_mismatch(&self, series_query: &str) -> Result<Option<String>, QueryProblem> {
        let Ok(expr) = promql::parse(series_query) else { return Ok(None) };
        let Node::Selector(selector) = &expr.node else { return Ok(None) };
        let Some(name) = selector.metric_name() else { return Ok(None) };
        let labels = self.newest_labels(&format!("{{__name__={}}}", Quoted(name))).await?;
        Ok(match labels {
            Some(labels) => explain_label_mismatch(name, selector, &labels),
            None => self.explain_misspelling(name).await,
        })
    }

    /// Names a series that a name without series may mean. `None` also if the names of series are
    /// unknown.
    async fn explain_misspelling(&self, name: &str) -> Option<String> {
        // Without a half of the name, the query would select too many series.
        let (start, end) = name.split_at_checked(name.len() / 2)?;
        let is_simple = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if start.len() < MIN_HALF_LEN || !name.bytes().all(is_simple) {
            return None;
        }
        let selector = format!("{{__name__=~\"{start}.*|.*{end}\"}}");
        let names = self.label_values("__name__", &selector).await.ok()?;
        let similar = most_similar(name, names.iter().map(String::as_str))?;
        Some(format!("no series is named {name} now; similar: {similar}"))
    }

    /// Explains that no current series of an external metric has the label that selects the
    /// namespace. The caller has found no series with the label. `None` if there are no series at
    /// all, or if the query selects no namespace.
    pub(super) async fn explain_missing_namespace(
        &self,
        rule: &RuleInspection,
        series: &str,
    ) -> Result<Option<String>, QueryProblem> {
        if !selects_namespace(rule) {
            return Ok(None);
        }
        let label = namespace_label(rule);
        let all = selector(&rule.definition.series_query, series, &[]);
        Ok(self.newest_labels(&all).await?.map(|labels| {
            let labels: Vec<String> = labels.into_keys().collect();
            missing_label(series, &label, "namespace", &labels)
        }))
    }

    /// Names a requirement of a request's selector that no series of `series_selector` meets, with
    /// similar labels or values. `None` if there are no series, or if each requirement is met by
    /// some.
    pub(super) async fn explain_unmet_requirement(
        &self,
        series_selector: &str,
        requirements: &[Requirement],
    ) -> Result<Option<String>, QueryProblem> {
        use Operator::{DoubleEquals, Equals, Exists, In};
        let needs_label =
            |one: &&Requirement| matches!(one.operator(), In | Equals | DoubleEquals | Exists);
        for requirement in requirements.iter().filter(needs_label) {
            let key = requirement.key();
            let mut values = self.label_values(key, series_selector).await?;
            let wanted: Vec<&str> = requirement.values().collect();
            // As in Prometheus, an empty value matches series without the label.
            if wanted.iter().any(|wanted| values.iter().any(|value| value == wanted)) {
                continue;
            }
            values.retain(|value| !value.is_empty());
            if values.is_empty() {
                let Some(labels) = self.newest_labels(series_selector).await? else {
                    return Ok(None);
                };
                let labels: Vec<String> = labels.into_keys().collect();
                let known = describe_known(&[key], &labels, "labels");
                return Ok(Some(format!(
                    "no series has the label `{key}`, which the selector requires; {known}"
                )));
            }
            if !wanted.is_empty() {
                let known = describe_known(&wanted, &values, "values");
                return Ok(Some(format!("no series has `{requirement}` of the selector; {known}")));
            }
        }
        Ok(None)
    }

    /// The values of a label, sorted. A series without the label has an empty value.
    pub(super) async fn label_values(
        &self,
        label: &str,
        selector: &str,
    ) -> Result<Vec<String>, QueryProblem> {
        let query = format!("group by ({}) ({selector})", label_name(label));
        let groups = self.samples(&query).await?.into_iter();
        let mut values: Vec<String> =
            groups.map(|(mut labels, _)| labels.remove(label).unwrap_or_default()).collect();
        values.sort_unstable();
        Ok(values)
    }

    /// The value of the first sample of a result. `None` if there is none, or if Prometheus can't
    /// execute the query.
    pub(super) async fn first_value(&self, query: &str) -> Result<Option<f64>, QueryProblem> {
        Ok(self.samples_or_none(query).await?.first().map(|(_, value)| *value))
    }

    /// A sentence about the age of the selector's newest sample. `None` if the last day has none.
    pub(super) async fn describe_age(
        &self,
        selector: &str,
    ) -> Result<Option<String>, QueryProblem> {
        // Steps of 5 minutes find each series. Its newest sample may be up to 10 minutes newer than
        // the one that is found: a series that ends between two steps has no value at the later
        // one.
        let coarse = format!("max(max_over_time(timestamp({selector})[1d:5m]))");
        let newest = self.first_value(&format!("max(timestamp({selector})) or {coarse}")).await?;
        if let Some(time) = newest {
            let end = time + 601.0;
            let fine = format!("max(max_over_time(timestamp({selector})[602s:1s] @ {end:.0}))");
            let time = self.first_value(&fine).await?.unwrap_or(time).max(time);
            #[expect(clippy::cast_precision_loss, reason = "an age in seconds")]
            let age = (Timestamp::now().as_second() as f64 - time).max(0.0);
            let age = SignedDuration::try_from_secs_f64(age.round()).ok();
            return Ok(age.map(|age| format!("The newest sample is {age:#} old")));
        }
        // The queries fail if the selector matches series with different names.
        let had_series = self.had_series_today(selector).await?;
        Ok(had_series.then(|| "There were samples within the last day".to_owned()))
    }

    /// Says that the series of a selector have no sample now. `None` if they have one, or had none
    /// within the last day.
    pub(super) async fn explain_missing_samples(
        &self,
        series: &str,
        selector: &str,
    ) -> Result<Option<String>, QueryProblem> {
        if self.newest_labels(selector).await?.is_some() {
            return Ok(None);
        }
        let age = self.describe_age(selector).await?;
        Ok(age.map(|age| format!("{series} has no sample now. {age}: check the scrape targets")))
    }

    /// Whether the selector had series within the last day.
    async fn had_series_today(&self, selector: &str) -> Result<bool, QueryProblem> {
        let day = SignedDuration::from_hours(24);
        let since = Timestamp::now().saturating_sub(day).unwrap_or(Timestamp::UNIX_EPOCH);
        let source = self.servers.source;
        let Some(client) = source.client(self.name) else { return Ok(false) };
        let max_bytes = source.settings().max_series_bytes;
        let read =
            client.read_series(selector, since, max_bytes, |reader| reader.for_each(|_, _| {}));
        match self.send(read).await {
            Ok(count) => Ok(count > 0),
            // A list that is too long has series.
            Err(QueryFailure::TooManySeries(_)) => Ok(true),
            Err(failure) => Err(QueryProblem::new(&failure, &client)),
        }
    }

    /// Removes warnings about a counter without `rate` if the series is a gauge according to
    /// Prometheus's metadata.
    pub(super) async fn remove_gauge_warnings(&self, warnings: &mut Vec<Warning>) {
        let mut verified = Vec::with_capacity(warnings.len());
        for warning in warnings.drain(..) {
            if let Warning::CounterWithoutRate { series } = &warning
                && self.is_gauge(series).await
            {
                continue;
            }
            verified.push(warning);
        }
        *warnings = verified;
    }

    async fn is_gauge(&self, series: &str) -> bool {
        let Some(client) = self.servers.source.client(self.name) else { return false };
        let kind = self.send(client.read_metric_type(series)).await;
        matches!(kind, Ok(Some(kind)) if kind == "gauge")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::one(
        "namespace",
        &["app", "namespace"],
        "the series have the label `namespace`: map it with resources.overrides: {namespace: \
         {resource: namespace}}"
    )]
    #[case::several(
        "pod",
        &["exported_pod", "pod"],
        "map the label of the series that names the pod (exported_pod, pod) with \
         resources.overrides, such as {exported_pod: {resource: pod}}"
    )]
    #[case::no_namespace(
        "namespace",
        &["job", "queue"],
        "add it by relabeling, or set `namespaced: false` in an external rule; the labels are job, \
         queue"
    )]
    #[case::no_object(
        "pod",
        &["job"],
        "map the label with the object's name, or use externalRules if there is none; the labels \
         are job"
    )]
    fn missing_label_has_advice_by_the_labels_of_the_series(
        #[case] singular: &str,
        #[case] labels: &[&str],
        #[case] advice: &str,
    ) {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let expected = format!("m has no label `x`, which queries use to select the {singular}: ");
        assert_eq!(missing_label("m", "x", singular, &labels), expected + advice);
    }

    #[rstest]
    #[case::renamed(
        "m{pod!=\"\",namespace!=\"\",pod=~\"a.*\"}",
        Some(
            "the newest series of m has no label `namespace`, `pod`, which seriesQuery requires; \
             it has exported_namespace, exported_pod"
        )
    )]
    #[case::other(
        "{__name__=\"m\",queue=~\"a.*\",zone!=\"x\"}",
        Some(
            "the newest series of m has no label `queue`, which seriesQuery requires; it has \
             exported_namespace, exported_pod, job"
        )
    )]
    #[case::value(
        "m{job=\"b\"}",
        Some("m has all labels of seriesQuery, but no series matches it: check the values")
    )]
    #[case::name_only("m", None)]
    fn label_mismatch_names_missing_labels(#[case] query: &str, #[case] expected: Option<&str>) {
        let expr = promql::parse(query).unwrap();
        let Node::Selector(selector) = &expr.node else { panic!("{query}") };
        let names = ["exported_namespace", "exported_pod", "job"];
        let labels = names.map(|name| (name.to_owned(), "a".to_owned())).into();
        assert_eq!(explain_label_mismatch("m", selector, &labels).as_deref(), expected);
    }

    #[test]
    fn long_list_of_labels_is_cut() {
        let labels: Vec<String> = (0..MAX_LABELS + 2).map(|index| format!("l{index}")).collect();
        assert!(list_labels(&labels).ends_with("l19 and 2 more"), "{}", list_labels(&labels));
        assert_eq!(list_labels(&[]), "none");
    }
}
