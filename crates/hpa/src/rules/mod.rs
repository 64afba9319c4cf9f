//! `hpa rules`: checks, explains, generates and compares rules for metrics from Prometheus.

pub(crate) mod builtin;
mod check;
mod compare;
mod explain;
mod outcome;
mod resource;
mod selectors;
mod series;
mod servers;
mod short_range;
#[cfg(test)]
mod tests;

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use hpa_controller::k8s::{ClientConfig, ClientSource, Clients};
use hpa_metrics::{DiscoveryMapper, ResourceMapper, objects::NoObjects};
use hpa_prometheus::rules::{Config, config::JSON_SCHEMA, generate::default_rules};
use hpa_prometheus::source::PrometheusSource;

use self::outcome::Outcome;
pub(crate) use self::selectors::equality_matcher;
use crate::{
    args::{LintFormat, RulesCommand, RulesConnection, RulesGenerateArguments},
    kubectl::block_on,
    rules_source::create_source,
    terminal,
};

/// Runs a subcommand. Reports go to standard output.
pub(crate) fn run(command: RulesCommand) -> anyhow::Result<ExitCode> {
    let is_json = matches!(&command, RulesCommand::Check(one) if one.output != LintFormat::Text);
    let (text, outcome) = match command {
        RulesCommand::Check(arguments) => block_on(check::check_rules(&arguments))?,
        RulesCommand::Explain(arguments) => block_on(explain::explain_metric(&arguments))?,
        RulesCommand::Generate(arguments) => (generate(&arguments)?, Outcome::Success),
        RulesCommand::Compare(arguments) => block_on(compare::compare(&arguments))?,
        RulesCommand::Schema => (JSON_SCHEMA.to_owned(), Outcome::Success),
    };
    let print = if is_json { terminal::print_json } else { terminal::print };
    print(&text)?;
    Ok(outcome.exit_code())
}

/// Generates the default rules.
fn generate(arguments: &RulesGenerateArguments) -> anyhow::Result<String> {
    let RulesGenerateArguments { rate_interval, label_prefix } = arguments;
    let interval = hpa_prometheus::rules::config::parse_duration(rate_interval);
    interval.with_context(|| format!("--rate-interval {rate_interval}"))?;
    let text = default_rules(rate_interval, label_prefix);
    // An invalid label prefix makes the file invalid.
    Config::parse(&text).with_context(|| format!("--label-prefix {label_prefix}"))?;
    Ok(text)
}

/// Connects to the cluster of a kubeconfig. `None` unless a flag selects a kubeconfig or a context.
async fn connect_cluster(flags: &RulesConnection) -> anyhow::Result<Option<kube::Client>> {
    let RulesConnection { kubeconfig, context, .. } = flags;
    if kubeconfig.is_none() && context.is_none() {
        return Ok(None);
    }
    let source = ClientSource::Kubeconfig { path: kubeconfig.clone(), context: context.clone() };
    let config = ClientConfig { source, ..ClientConfig::default() };
    Ok(Some(Clients::new(&config).await?.api))
}

/// A mapper of the cluster's resources if a flag selects a cluster, or else of the built-in ones.
async fn resource_mapper(flags: &RulesConnection) -> anyhow::Result<Arc<dyn ResourceMapper>> {
    Ok(match connect_cluster(flags).await? {
        Some(api) => Arc::new(DiscoveryMapper(api)),
        None => builtin::mapper(),
    })
}

/// A source of the file's metrics. `None` if no flag allows connecting to a server.
async fn connect_source(
    config: &Config,
    flags: &RulesConnection,
) -> anyhow::Result<Option<PrometheusSource>> {
    // Requests name their objects, so none are listed from the API server.
    let objects = Arc::new(NoObjects);
    let mapper = resource_mapper(flags).await?;
    create_source(config, &flags.prometheus, flags.connect, mapper, objects).await
}
