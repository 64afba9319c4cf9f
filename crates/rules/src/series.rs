//! The series of a rule, reduced to what metrics are made of.

use std::{collections::HashMap, sync::Arc};

use crate::{
    labels::LabelMeaning,
    resource::{ApiResources, GroupResource},
    rule::{Naming, Rule},
};

/// The label with a series' name.
const NAME_LABEL: &str = "__name__";

/// A series: its name and the names of its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// The name of the metric in Prometheus.
    pub name: String,
    /// The names of the labels.
    pub labels: Vec<String>,
}

/// What a rule makes of its series. The size depends on the number of different names and sets of
/// labels, not on the number of series.
#[derive(Debug, Default)]
pub struct RuleSeries {
    seen: usize,
    names: Vec<SeriesName>,
    label_sets: Vec<LabelSet>,
    metrics: Vec<MetricSeries>,
    /// Positions in `names`.
    by_name: HashMap<Arc<str>, usize>,
    /// Positions in `metrics`.
    by_metric: HashMap<Arc<str>, usize>,
}

/// A name of series, and what the rule makes of it.
#[derive(Debug)]
pub struct SeriesName {
    name: Arc<str>,
    /// Why there is no metric.
    refused: Option<Naming>,
    /// The position of the metric.
    metric: Option<usize>,
    /// Positions of the sets of labels with which the name occurs.
    label_sets: Vec<usize>,
}

/// A set of labels that occurs, and the resources in it.
#[derive(Debug)]
pub struct LabelSet {
    /// The names of the labels.
    pub labels: Vec<String>,
    /// The resources that they name, without duplicates.
    pub resources: Vec<Arc<GroupResource>>,
}

/// The series of a metric. If there are several, the last one counts.
#[derive(Debug)]
pub struct MetricSeries {
    /// The name of the metric.
    pub metric: Arc<str>,
    /// The last series with the metric.
    pub last: Arc<str>,
    /// The last series with the metric and a label for the resource.
    by_resource: Vec<(Arc<GroupResource>, Arc<str>)>,
}

impl SeriesName {
    /// The name of the series.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl MetricSeries {
    /// The resources that have the metric, and the series for each.
    pub fn by_resource(&self) -> &[(Arc<GroupResource>, Arc<str>)] {
        &self.by_resource
    }

    /// The series for a resource.
    pub fn for_resource(&self, resource: &GroupResource) -> Option<&Arc<str>> {
        let found = self.by_resource.iter().find(|(own, _)| **own == *resource);
        found.map(|(_, series)| series)
    }

    fn set_last(&mut self, series: &Arc<str>, resources: &[Arc<GroupResource>]) {
        self.last = series.clone();
        for resource in resources {
            match self.by_resource.iter_mut().find(|(own, _)| own == resource) {
                Some((_, last)) => *last = series.clone(),
                None => self.by_resource.push((resource.clone(), series.clone())),
            }
        }
        // A metric rarely gets further resources.
        self.by_resource.shrink_to_fit();
    }
}

impl RuleSeries {
    /// Starts with no series. Add them with [`RuleSeriesBuilder::add`].
    pub fn builder<'a>(rule: &'a Rule, resources: &'a ApiResources) -> RuleSeriesBuilder<'a> {
        RuleSeriesBuilder {
            rule,
            resources,
            series: Self::default(),
            label_sets: HashMap::new(),
            known_resources: Vec::new(),
            key: String::new(),
            previous: None,
            distinct: 0,
        }
    }

    /// What a rule makes of the series.
    pub fn new<'s>(
        rule: &Rule,
        resources: &ApiResources,
        series: impl IntoIterator<Item = &'s Series>,
    ) -> Self {
        let mut builder = Self::builder(rule, resources);
        for series in series {
            builder.add(&series.name, series.labels.iter().map(String::as_str));
        }
        builder.finish()
    }

    /// The number of series that the rule's query selected.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// The names of the series.
    pub fn names(&self) -> &[SeriesName] {
        &self.names
    }

    /// What the rule makes of the name of a series.
    pub fn naming(&self, series: &str) -> Option<Naming> {
        self.names.get(*self.by_name.get(series)?).map(|name| self.naming_of(name))
    }

    /// What the rule makes of a name.
    pub fn naming_of(&self, name: &SeriesName) -> Naming {
        let metric = name.metric.and_then(|position| self.metrics.get(position));
        match (metric, &name.refused) {
            (Some(metric), _) => Naming::Metric(metric.metric.to_string()),
            (None, Some(refused)) => refused.clone(),
            (None, None) => Naming::NoMatch,
        }
    }

    /// The sets of labels with which a metric occurs.
    pub fn label_sets(&self, metric: &str) -> impl Iterator<Item = &LabelSet> {
        let position = self.by_metric.get(metric).copied();
        let names = self.names.iter().filter(move |name| name.metric == position);
        let sets = names.filter(move |_| position.is_some()).flat_map(|name| &name.label_sets);
        sets.filter_map(|position| self.label_sets.get(*position))
    }

    /// The series of a metric.
    pub fn metric(&self, metric: &str) -> Option<&MetricSeries> {
        self.metrics.get(*self.by_metric.get(metric)?)
    }

    /// The metrics and their series.
    pub fn metrics(&self) -> &[MetricSeries] {
        &self.metrics
    }
}

/// Collects the series of a rule one by one.
#[derive(Debug)]
pub struct RuleSeriesBuilder<'a> {
    rule: &'a Rule,
    resources: &'a ApiResources,
    series: RuleSeries,
    /// The positions of sets of labels, which are joined.
    label_sets: HashMap<String, usize>,
    known_resources: Vec<Arc<GroupResource>>,
    key: String,
    /// The positions of the last name and set of labels. Series with the same name are adjacent.
    previous: Option<(usize, usize)>,
    distinct: usize,
}

impl RuleSeriesBuilder<'_> {
    /// Adds a series. The labels can have the series' name among them.
    pub fn add<'l>(&mut self, name: &str, labels: impl IntoIterator<Item = &'l str>) {
        self.series.seen += 1;
        let label_set = self.label_set(labels);
        let position = self.name(name);
        if self.previous.replace((position, label_set)) == Some((position, label_set)) {
            return;
        }
        let RuleSeries { names, label_sets, metrics, .. } = &mut self.series;
        let (Some(name), Some(set)) = (names.get_mut(position), label_sets.get(label_set)) else {
            return;
        };
        if !name.label_sets.contains(&label_set) {
            name.label_sets.push(label_set);
            self.distinct += 1;
        }
        if let Some(metric) = name.metric.and_then(|metric| metrics.get_mut(metric)) {
            metric.set_last(&name.name, &set.resources);
        }
    }

    /// How many different names with sets of labels were added. The memory depends on it.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// All that was added.
    pub fn finish(self) -> RuleSeries {
        self.series
    }

    /// The position of a name.
    fn name(&mut self, name: &str) -> usize {
        if let Some(position) = self.series.by_name.get(name) {
            return *position;
        }
        let name: Arc<str> = name.into();
        let (metric, refused) = match self.rule.naming(&name) {
            Naming::Metric(metric) => (Some(self.metric(&metric, &name)), None),
            refused => (None, Some(refused)),
        };
        let position = self.series.names.len();
        self.series.by_name.insert(name.clone(), position);
        self.series.names.push(SeriesName { name, refused, metric, label_sets: Vec::new() });
        position
    }

    /// The position of a metric.
    fn metric(&mut self, metric: &str, series: &Arc<str>) -> usize {
        if let Some(position) = self.series.by_metric.get(metric) {
            return *position;
        }
        let metric: Arc<str> = metric.into();
        let position = self.series.metrics.len();
        self.series.by_metric.insert(metric.clone(), position);
        let last = series.clone();
        self.series.metrics.push(MetricSeries { metric, last, by_resource: Vec::new() });
        position
    }

    /// The position of a set of labels.
    fn label_set<'l>(&mut self, labels: impl IntoIterator<Item = &'l str>) -> usize {
        self.key.clear();
        for label in labels.into_iter().filter(|label| *label != NAME_LABEL) {
            self.key.push_str(label);
            // No label has this character.
            self.key.push('\0');
        }
        if let Some(position) = self.label_sets.get(&self.key) {
            return *position;
        }
        let labels: Vec<String> = self.key.split_terminator('\0').map(str::to_owned).collect();
        let resources = self.resources_in(&labels);
        let position = self.series.label_sets.len();
        self.series.label_sets.push(LabelSet { labels, resources });
        self.label_sets.insert(self.key.clone(), position);
        position
    }

    /// The resources that labels name. Equal ones are shared.
    fn resources_in(&mut self, labels: &[String]) -> Vec<Arc<GroupResource>> {
        let mut resources: Vec<Arc<GroupResource>> = Vec::new();
        for label in labels {
            let meaning = self.rule.labels().meaning(label, self.resources);
            let LabelMeaning::Resource(resource) = meaning else {
                continue;
            };
            let known = self.known_resources.iter().find(|known| ***known == *resource).cloned();
            let shared = known.unwrap_or_else(|| {
                let shared = Arc::new(resource.clone());
                self.known_resources.push(shared.clone());
                shared
            });
            if !resources.contains(&shared) {
                resources.push(shared);
            }
        }
        resources
    }
}
