//! Which series a metric is read from.

mod custom;
mod external;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use custom::{
    CustomMetric, CustomQuery, CustomQueryError, CustomRegistry, CustomRequest, FoundMetric,
};
pub use external::{ExternalMetric, ExternalQueryError, ExternalRegistry};

use crate::{rule::Rule, series::RuleSeries};

/// A rule and its series. The series are those of the last successful discovery.
#[derive(Clone, Debug)]
pub struct Source {
    /// The position of the rule in the file.
    pub index: usize,
    /// The rule.
    pub rule: Arc<Rule>,
    /// Its series.
    pub series: Arc<RuleSeries>,
}

/// Where a metric comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The position of the rule in the file.
    pub index: usize,
    /// The rule.
    pub rule: Arc<Rule>,
    /// The name of the series.
    pub series: Arc<str>,
    /// The positions of earlier rules that have the metric, too. The last rule counts.
    pub shadows: Vec<usize>,
}

impl Origin {
    fn new(source: &Source, series: &Arc<str>) -> Self {
        Self {
            index: source.index,
            rule: source.rule.clone(),
            series: series.clone(),
            shadows: Vec::new(),
        }
    }

    /// A later rule has the metric, too.
    fn replace(&mut self, source: &Source, series: &Arc<str>) {
        if self.index != source.index {
            self.shadows.push(self.index);
        }
        self.index = source.index;
        self.rule = source.rule.clone();
        self.series = series.clone();
    }
}
