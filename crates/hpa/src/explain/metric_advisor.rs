//! Advice about the metrics of a decision, for reports of a cluster.

use std::{collections::BTreeMap, time::Duration};

use hpa_calc::Inputs;
use hpa_prometheus::source::PrometheusSource;
use kube::Client;

use super::{
    collector_advice,
    metrics_api_advice::{self, MetricsApis},
    rule_advice::{self, RuleLookups},
    subject::fill_placeholders,
};
use crate::{args::SourceArguments, collectors::InProcessSources};

/// The time for which facts about a metric are reused. The dashboard asks after each change.
pub(super) const FRESHNESS: Duration = Duration::from_secs(15);

/// Gives advice about metrics, from the sources that flags configure and from the metrics APIs.
pub(crate) struct MetricAdvisor {
    rule_lookups: RuleLookups,
    apis: MetricsApis,
    sources: InProcessSources,
    placeholders: Vec<(&'static str, String)>,
}

impl MetricAdvisor {
    pub(crate) fn new(client: Client, arguments: &SourceArguments) -> Self {
        Self {
            rule_lookups: RuleLookups::default(),
            apis: MetricsApis::new(client),
            sources: InProcessSources::from_flags(arguments),
            placeholders: rule_advice::placeholders(&arguments.rules),
        }
    }

    /// The placeholders in the commands of advice, with the values that the flags have for them.
    pub(super) fn placeholders(&self) -> &[(&'static str, String)] {
        &self.placeholders
    }

    /// Replaces these placeholders in advice.
    pub(crate) fn fill_placeholders(&self, advice: &str) -> String {
        fill_placeholders(advice, &self.placeholders)
    }

    /// Advice about metrics that can't be read, or have a wrong value, by their index. `rules` is
    /// the source of the rules by which `inputs` were read.
    pub(crate) async fn advise(
        &self,
        rules: Option<&PrometheusSource>,
        inputs: &Inputs,
    ) -> BTreeMap<usize, String> {
        let of_controller = inputs.metrics_of_controller_sources();
        let mut advice = match rules {
            Some(rules) => {
                rule_advice::advise(rules, &self.rule_lookups, inputs, &of_controller).await
            }
            None => BTreeMap::new(),
        };
        collector_advice::add(&self.sources, inputs, &mut advice);
        metrics_api_advice::add(&self.apis, inputs, &of_controller, &mut advice).await;
        advice
    }
}
