//! Builds metric families at scrape time, for values that no registry keeps.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use crate::key::{AutoscalerApi, HpaKey};

pub(super) struct Family {
    family: MetricFamily,
    series: Vec<Metric>,
}

impl Family {
    fn new(name: impl Into<String>, kind: MetricType, help: &str) -> Self {
        let mut family = MetricFamily::default();
        family.set_name(name.into());
        family.set_field_type(kind);
        family.set_help(help.to_owned());
        Self { family, series: Vec::new() }
    }

    pub(super) fn gauge(name: impl Into<String>, help: &str) -> Self {
        Self::new(name, MetricType::GAUGE, help)
    }

    pub(super) fn counter(name: impl Into<String>, help: &str) -> Self {
        Self::new(name, MetricType::COUNTER, help)
    }

    /// Adds a series with the labels of an autoscaler. Only autoscalers of the custom API have the
    /// label `hpa_group`, because the core API may have an autoscaler of the same name.
    pub(super) fn add_for(&mut self, key: &HpaKey, labels: &[(&str, &str)], value: f64) {
        let mut labels =
            [labels, &[("hpa_name", &*key.name), ("namespace", &*key.namespace)]].concat();
        if key.api == AutoscalerApi::Custom {
            labels.push(("hpa_group", hpa_calc::crd::GROUP));
        }
        labels.sort_unstable();
        self.add(&labels, value);
    }

    /// Adds a series. The labels must be sorted by name, as the `prometheus` crate sorts its own.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let label = |(name, value): &(&str, &str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut metric = Metric::from_label(labels.iter().map(label).collect());
        if self.family.get_field_type() == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
        }
        self.series.push(metric);
    }

    pub(super) fn with(mut self, labels: &[(&str, &str)], value: f64) -> Self {
        self.add(labels, value);
        self
    }

    pub(super) fn build(mut self) -> MetricFamily {
        self.family.set_metric(self.series);
        self.family
    }
}
