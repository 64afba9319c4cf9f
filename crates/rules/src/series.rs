//! The series of a rule, reduced to what metrics are made of.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

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
    names: BTreeMap<Arc<str>, SeriesName>,
    label_sets: Vec<LabelSet>,
    metrics: BTreeMap<Arc<str>, MetricSeries>,
}

/// The series of a metric. If there are several, the last one counts.
#[derive(Debug)]
pub struct MetricSeries {
    /// The last series with the metric.
    pub last: Arc<str>,
    /// The last series with the metric and a label for the resource.
    pub by_resource: BTreeMap<GroupResource, Arc<str>>,
}

/// A name of series, and what the rule makes of it.
#[derive(Debug)]
pub struct SeriesName {
    /// The metric, or why there is none.
    pub naming: Naming,
    name: Arc<str>,
    /// Positions of the sets of labels with which the name occurs.
    label_sets: BTreeSet<usize>,
}

/// A set of labels that occurs, and the resources in it.
#[derive(Debug)]
pub struct LabelSet {
    /// The names of the labels.
    pub labels: Vec<String>,
    /// The resources that they name.
    pub resources: BTreeSet<GroupResource>,
}

impl RuleSeries {
    /// Starts with no series. Add them with [`RuleSeriesBuilder::add`].
    pub fn builder<'a>(rule: &'a Rule, resources: &'a ApiResources) -> RuleSeriesBuilder<'a> {
        RuleSeriesBuilder {
            rule,
            resources,
            series: Self::default(),
            label_sets: HashMap::new(),
            key: String::new(),
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

    /// The names of the series, and what the rule makes of them.
    pub fn names(&self) -> impl Iterator<Item = (&str, &SeriesName)> {
        self.names.iter().map(|(name, series)| (&**name, series))
    }

    /// The sets of labels with which a name occurs.
    pub fn label_sets<'a>(&'a self, name: &'a SeriesName) -> impl Iterator<Item = &'a LabelSet> {
        name.label_sets.iter().filter_map(|position| self.label_sets.get(*position))
    }

    /// The series of a metric.
    pub fn metric(&self, metric: &str) -> Option<&MetricSeries> {
        self.metrics.get(metric)
    }

    /// The metrics and their series.
    pub fn metrics(&self) -> impl Iterator<Item = (&Arc<str>, &MetricSeries)> {
        self.metrics.iter()
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
    key: String,
}

impl RuleSeriesBuilder<'_> {
    /// Adds a series. The labels can have the series' name among them.
    pub fn add<'l>(&mut self, name: &str, labels: impl IntoIterator<Item = &'l str>) {
        self.series.seen += 1;
        let label_set = self.label_set(labels);
        let RuleSeries { names, label_sets, metrics, .. } = &mut self.series;
        if !names.contains_key(name) {
            let name: Arc<str> = name.into();
            let naming = self.rule.naming(&name);
            let named = SeriesName { naming, name: name.clone(), label_sets: BTreeSet::new() };
            names.insert(name, named);
        }
        let (Some(named), Some(set)) = (names.get_mut(name), label_sets.get(label_set)) else {
            return;
        };
        named.label_sets.insert(label_set);
        if let Naming::Metric(metric) = &named.naming {
            add_metric(metrics, metric, &set.resources, &named.name);
        }
    }

    /// All that was added.
    pub fn finish(self) -> RuleSeries {
        self.series
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
        let meanings = labels.iter().map(|label| self.rule.labels().meaning(label, self.resources));
        let resources = meanings.filter_map(|meaning| match meaning {
            LabelMeaning::Resource(resource) => Some(resource.clone()),
            _ => None,
        });
        let set = LabelSet { resources: resources.collect(), labels };
        let position = self.series.label_sets.len();
        self.series.label_sets.push(set);
        self.label_sets.insert(self.key.clone(), position);
        position
    }
}

fn add_metric(
    metrics: &mut BTreeMap<Arc<str>, MetricSeries>,
    metric: &str,
    resources: &BTreeSet<GroupResource>,
    series: &Arc<str>,
) {
    if !metrics.contains_key(metric) {
        let by_resource = BTreeMap::new();
        metrics.insert(metric.into(), MetricSeries { last: series.clone(), by_resource });
    }
    let Some(known) = metrics.get_mut(metric) else {
        return;
    };
    known.last = series.clone();
    for resource in resources {
        match known.by_resource.get_mut(resource) {
            Some(last) => *last = series.clone(),
            None => {
                known.by_resource.insert(resource.clone(), series.clone());
            }
        }
    }
}
