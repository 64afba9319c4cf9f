//! The series of a rule, reduced to names and sets of labels.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::rules::{
    rule::{Naming, Rule},
    string_table::StringTable,
};
use hpa_metrics::resource::{ApiResources, GroupResource};

/// The label with the name of a series.
const NAME_LABEL: &str = "__name__";

/// A series: its name and the names of its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// The name of the metric in Prometheus.
    pub name: String,
    /// The names of the labels.
    pub labels: Vec<String>,
}

#[cfg(test)]
impl Series {
    pub(crate) fn new(name: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { name: name.to_owned(), labels }
    }
}

/// The names, label sets and metrics of a rule's series. The size depends on the number of
/// different names and label sets, not on the number of series. Because there may be hundreds of
/// thousands of names, strings share allocations, and equal label sets and lists are stored once.
///
/// For example, a rule may derive one metric from `http_total{pod="a"}` and `http_sum{pod="a"}`:
/// - `names`: `http_total`, `http_sum`, each with metric 0 and combination 0
/// - `label_sets`: `[pod]`; `combinations`: label set 0 without a previous one
/// - `metrics`: `http`, with the last series 1 (`http_sum`) and resource list 1
/// - `resource_lists`: none, `[pods]`
#[derive(Debug, Default)]
pub struct RuleSeries {
    series_count: usize,
    names: StringTable,
    /// An entry for each of `names`.
    name_entries: Vec<NameEntry>,
    label_sets: Vec<LabelSet>,
    /// Combinations of label sets as linked lists: each item has a label set and the position of
    /// the previous item.
    combinations: Vec<Combination>,
    metrics: StringTable,
    /// An entry for each of `metrics`.
    metric_entries: Vec<MetricEntry>,
    /// Distinct lists of resources.
    resource_lists: Vec<Vec<Arc<GroupResource>>>,
    /// The metrics whose last series differs by resource: by position in `metrics`, the resources
    /// with the position of the series in `names`.
    series_by_resource: HashMap<u32, Vec<(Arc<GroupResource>, u32)>>,
}

#[derive(Clone, Copy, Debug)]
struct NameEntry {
    naming: NamingEntry,
    /// The label sets of the name: a position in `combinations`.
    combination: Option<u32>,
}

/// A [`Naming`] with the position of the metric.
#[derive(Clone, Copy, Debug)]
enum NamingEntry {
    Metric(u32),
    /// The position of the filter.
    Filtered(u32),
    NoMatch,
}

/// The combination at position `previous`, with a label set added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Combination {
    previous: Option<u32>,
    label_set: u32,
}

#[derive(Clone, Copy, Debug)]
struct MetricEntry {
    /// The position in `names` of the last name with the metric, in the order of Prometheus'
    /// response.
    last_series: u32,
    /// The position in `resource_lists` of the resources for which that series is the last one.
    /// Ignored if the metric is in `series_by_resource`.
    resource_list: u32,
}

/// A label set and the resources that its labels name.
#[derive(Debug)]
pub struct LabelSet {
    pub labels: Vec<String>,
    /// The resources that the labels name, without duplicates.
    pub resources: Vec<Arc<GroupResource>>,
}

/// A metric with its last series, which takes precedence.
#[derive(Clone, Copy, Debug)]
pub struct MetricSeries<'s> {
    pub metric: &'s str,
    pub last_series: &'s str,
    /// The resources for which `last_series` is the last one.
    resources: &'s [Arc<GroupResource>],
    /// The resources with the last series of each, if the last series differs by resource.
    /// `resources` is empty then.
    series_by_resource: &'s [(Arc<GroupResource>, u32)],
    names: &'s StringTable,
}

impl<'s> MetricSeries<'s> {
    /// The resources that have the metric, and the last series with a label for each.
    pub fn by_resource(self) -> impl Iterator<Item = (&'s Arc<GroupResource>, &'s str)> {
        let same = self.resources.iter().map(move |resource| (resource, self.last_series));
        let series_by_resource = self.series_by_resource.iter();
        same.chain(
            series_by_resource.map(move |(resource, series)| (resource, self.names.get(*series))),
        )
    }

    /// The last series with a label for the resource.
    pub fn for_resource(self, resource: &GroupResource) -> Option<&'s str> {
        self.by_resource()
            .find(|(candidate, _)| ***candidate == *resource)
            .map(|(_, series)| series)
    }
}

impl RuleSeries {
    /// Creates a builder without series.
    pub fn builder<'a>(rule: &'a Rule, resources: &'a ApiResources) -> RuleSeriesBuilder<'a> {
        RuleSeriesBuilder {
            rule,
            resources,
            series: Self::default(),
            label_sets: HashMap::new(),
            combinations: HashMap::new(),
            known_resources: Vec::new(),
            key: String::new(),
            previous: None,
            pairs: HashSet::new(),
        }
    }

    /// Collects series.
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

    /// The number of series that the rule's `seriesQuery` selected.
    pub fn series_count(&self) -> usize {
        self.series_count
    }

    /// The labels of all series, sorted.
    pub fn labels(&self) -> Vec<String> {
        let labels: BTreeSet<&String> =
            self.label_sets.iter().flat_map(|set| &set.labels).collect();
        labels.into_iter().cloned().collect()
    }

    /// The names of the series, each with the metric that the rule derives from it.
    pub fn names(&self) -> impl Iterator<Item = (&str, Naming)> {
        let entries = (0..).zip(&self.name_entries);
        entries.map(|(position, entry)| (self.names.get(position), self.naming_of(entry)))
    }

    /// The metric that the rule derives from the name of a series. `None` if the rule has no such
    /// series.
    pub fn naming(&self, series: &str) -> Option<Naming> {
        let entry = self.name_entries.get(self.names.position(series)? as usize)?;
        Some(self.naming_of(entry))
    }

    fn naming_of(&self, entry: &NameEntry) -> Naming {
        match entry.naming {
            NamingEntry::Metric(position) => Naming::Metric(self.metrics.get(position).to_owned()),
            NamingEntry::Filtered(filter) => Naming::Filtered(filter as usize),
            NamingEntry::NoMatch => Naming::NoMatch,
        }
    }

    /// The label sets of a metric's series.
    pub fn label_sets(&self, metric: &str) -> impl Iterator<Item = &LabelSet> {
        let searched = self.metrics.position(metric);
        let has_metric = move |entry: &&NameEntry| match entry.naming {
            NamingEntry::Metric(position) => Some(position) == searched,
            NamingEntry::Filtered(_) | NamingEntry::NoMatch => false,
        };
        let names = self.name_entries.iter().filter(has_metric);
        let sets = names.flat_map(|entry| self.label_sets_of(entry.combination));
        sets.filter_map(|position| self.label_sets.get(position as usize))
    }

    /// The positions of the label sets in a combination.
    fn label_sets_of(&self, combination: Option<u32>) -> impl Iterator<Item = u32> {
        let get = |position: u32| self.combinations.get(position as usize).copied();
        let last = combination.and_then(get);
        let items = std::iter::successors(last, move |item| item.previous.and_then(get));
        items.map(|item| item.label_set)
    }

    pub fn metric(&self, metric: &str) -> Option<MetricSeries<'_>> {
        self.metric_at(self.metrics.position(metric)?)
    }

    pub fn metric_count(&self) -> usize {
        self.metrics.len()
    }

    /// The metrics and their series.
    pub fn metrics(&self) -> impl Iterator<Item = MetricSeries<'_>> {
        (0..).map_while(|position| self.metric_at(position))
    }

    /// The metric at a position in [`RuleSeries::metrics`].
    pub(crate) fn metric_at(&self, position: u32) -> Option<MetricSeries<'_>> {
        let entry = self.metric_entries.get(position as usize)?;
        let series_by_resource = self.series_by_resource.get(&position);
        let resources = match series_by_resource {
            Some(_) => None,
            None => self.resource_lists.get(entry.resource_list as usize),
        };
        Some(MetricSeries {
            metric: self.metrics.get(position),
            last_series: self.names.get(entry.last_series),
            resources: resources.map(Vec::as_slice).unwrap_or_default(),
            series_by_resource: series_by_resource.map(Vec::as_slice).unwrap_or_default(),
            names: &self.names,
        })
    }

    /// Records the last name of a metric and of its resources. `metric` and `name` are positions.
    fn set_last(&mut self, metric: u32, name: u32, resources: &[Arc<GroupResource>]) {
        let Some(entry) = self.metric_entries.get_mut(metric as usize) else {
            return;
        };
        let old_list = self.resource_lists.get(entry.resource_list as usize);
        let old_list = old_list.map(Vec::as_slice).unwrap_or_default();
        let series_by_resource = self.series_by_resource.remove(&metric);
        let has_all = || resources.iter().all(|resource| old_list.contains(resource));
        if series_by_resource.is_none() && entry.last_series == name && has_all() {
            return;
        }
        let all_with_last =
            || old_list.iter().map(|resource| (resource.clone(), entry.last_series)).collect();
        let mut by_resource: Vec<(Arc<GroupResource>, u32)> =
            series_by_resource.unwrap_or_else(all_with_last);
        for resource in resources {
            match by_resource.iter_mut().find(|(candidate, _)| candidate == resource) {
                Some((_, last)) => *last = name,
                None => by_resource.push((resource.clone(), name)),
            }
        }
        entry.last_series = name;
        if by_resource.iter().any(|(_, last)| *last != name) {
            self.series_by_resource.insert(metric, by_resource);
            return;
        }
        let list: Vec<_> = by_resource.into_iter().map(|(resource, _)| resource).collect();
        let lists = &mut self.resource_lists;
        let index = lists.iter().position(|other| *other == list).unwrap_or_else(|| {
            lists.push(list);
            lists.len() - 1
        });
        // Can't overflow: there are far fewer lists than metrics.
        entry.resource_list = u32::try_from(index).unwrap_or(u32::MAX);
    }
}

/// Collects the series of a rule one by one.
#[derive(Debug)]
pub struct RuleSeriesBuilder<'a> {
    rule: &'a Rule,
    resources: &'a ApiResources,
    series: RuleSeries,
    /// The positions of label sets, by their joined labels.
    label_sets: HashMap<String, u32>,
    /// The positions of combinations.
    combinations: HashMap<Combination, u32>,
    known_resources: Vec<Arc<GroupResource>>,
    /// A buffer for the joined labels of a series.
    key: String,
    /// The positions of the previous name and label set. Prometheus sorts series, so equal pairs
    /// are mostly adjacent.
    previous: Option<(u32, u32)>,
    /// The different pairs of name and label set, as positions.
    pairs: HashSet<(u32, u32)>,
}

impl RuleSeriesBuilder<'_> {
    /// Adds a series. The labels may include `__name__`.
    pub fn add<'l>(&mut self, name: &str, labels: impl IntoIterator<Item = &'l str>) {
        self.series.series_count += 1;
        // There can't be 2^32 names or label sets, because the size of a response is limited.
        let Some(label_set) = self.intern_label_set(labels) else { return };
        let Some(name_position) = self.intern_name(name) else { return };
        if self.previous.replace((name_position, label_set)) == Some((name_position, label_set)) {
            return;
        }
        self.add_label_set(name_position, label_set);
        let naming = self.series.name_entries.get(name_position as usize).map(|entry| entry.naming);
        let Some(NamingEntry::Metric(metric)) = naming else { return };
        let set = self.series.label_sets.get(label_set as usize);
        let resources = set.map(|set| set.resources.clone()).unwrap_or_default();
        self.series.set_last(metric, name_position, &resources);
    }

    /// The number of different pairs of name and label set. It determines the need for memory.
    pub fn distinct_pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// The collected series.
    pub fn finish(mut self) -> RuleSeries {
        let series = &mut self.series;
        series.names.shrink_to_fit();
        series.metrics.shrink_to_fit();
        series.name_entries.shrink_to_fit();
        series.metric_entries.shrink_to_fit();
        self.series
    }

    /// Returns the position of a name.
    fn intern_name(&mut self, name: &str) -> Option<u32> {
        if let Some(position) = self.series.names.position(name) {
            return Some(position);
        }
        let position = self.series.names.push(name)?;
        let naming = match self.rule.naming(name) {
            Naming::Metric(metric) => NamingEntry::Metric(self.intern_metric(&metric, position)?),
            Naming::Filtered(filter) => {
                NamingEntry::Filtered(u32::try_from(filter).unwrap_or(u32::MAX))
            }
            Naming::NoMatch => NamingEntry::NoMatch,
        };
        self.series.name_entries.push(NameEntry { naming, combination: None });
        Some(position)
    }

    /// Returns the position of a metric. `series` is the position of the name.
    fn intern_metric(&mut self, metric: &str, series: u32) -> Option<u32> {
        if let Some(position) = self.series.metrics.position(metric) {
            return Some(position);
        }
        if self.series.resource_lists.is_empty() {
            self.series.resource_lists.push(Vec::new());
        }
        self.series.metric_entries.push(MetricEntry { last_series: series, resource_list: 0 });
        self.series.metrics.push(metric)
    }

    fn add_label_set(&mut self, name: u32, label_set: u32) {
        if !self.pairs.insert((name, label_set)) {
            return;
        }
        let RuleSeries { name_entries, combinations, .. } = &mut self.series;
        let Some(entry) = name_entries.get_mut(name as usize) else { return };
        let combination = Combination { previous: entry.combination, label_set };
        let position = *self.combinations.entry(combination).or_insert_with(|| {
            combinations.push(combination);
            u32::try_from(combinations.len() - 1).unwrap_or(u32::MAX)
        });
        entry.combination = Some(position);
    }

    /// Returns the position of a label set.
    fn intern_label_set<'l>(&mut self, labels: impl IntoIterator<Item = &'l str>) -> Option<u32> {
        self.key.clear();
        for label in labels.into_iter().filter(|label| *label != NAME_LABEL) {
            self.key.push_str(label);
            // A label name that contains NUL would count as two.
            self.key.push('\0');
        }
        if let Some(position) = self.label_sets.get(&self.key) {
            return Some(*position);
        }
        let labels: Vec<String> = self.key.split_terminator('\0').map(str::to_owned).collect();
        let resources = self.resources_in(&labels);
        let position = u32::try_from(self.series.label_sets.len()).ok()?;
        self.series.label_sets.push(LabelSet { labels, resources });
        self.label_sets.insert(self.key.clone(), position);
        Some(position)
    }

    /// The resources that labels name, without duplicates. Equal resources share an allocation.
    fn resources_in(&mut self, labels: &[String]) -> Vec<Arc<GroupResource>> {
        let mut resources: Vec<Arc<GroupResource>> = Vec::new();
        for label in labels {
            let Some(resource) = self.rule.labels.resource(label, self.resources) else {
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
