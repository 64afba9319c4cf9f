//! `hpa rules`: checks, explains, generates and compares rules for metrics from Prometheus.

mod builtin;
mod check;
mod compare;
mod explain;
mod resource;
mod sample;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use hpa_controller::k8s::{ClientConfig, ClientSource, Clients};
use hpa_metrics::{DiscoveryMapper, FixedMapper, ResourceMapper, objects::NoObjects};
use hpa_prometheus::rules::{Config, config::JSON_SCHEMA, generate::default_rules};
use hpa_prometheus::source::PrometheusSource;

use crate::{
    args::{GenerateArguments, PrometheusArguments, ResourceArguments, RulesCommand},
    rules_source::{AllowedServers, create_source},
};

/// Runs a subcommand. Reports go to standard output.
pub(crate) fn run(command: RulesCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    let (text, is_success) = match command {
        RulesCommand::Check(arguments) => runtime.block_on(check::check_rules(&arguments))?,
        RulesCommand::Explain(arguments) => {
            runtime.block_on(explain::explain_metric(&arguments))?
        }
        RulesCommand::Generate(arguments) => (generate(&arguments)?, true),
        RulesCommand::Compare(arguments) => return compare::run(&arguments),
        RulesCommand::Schema => (JSON_SCHEMA.to_owned(), true),
    };
    crate::terminal::print(&text)?;
    Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Generates the default rules.
fn generate(arguments: &GenerateArguments) -> anyhow::Result<String> {
    let GenerateArguments { rate_interval, label_prefix } = arguments;
    let interval = hpa_prometheus::rules::config::parse_duration(rate_interval);
    interval.with_context(|| format!("--rate-interval {rate_interval}"))?;
    let text = default_rules(rate_interval, label_prefix);
    // An invalid label prefix makes the file invalid.
    Config::parse(&text).with_context(|| format!("--label-prefix {label_prefix}"))?;
    Ok(text)
}

/// A mapper that knows only the built-in resources of Kubernetes.
pub(crate) fn builtin_mapper() -> Arc<dyn ResourceMapper> {
    Arc::new(FixedMapper(builtin::resources()))
}

/// Connects to the cluster of a kubeconfig. `None` unless a flag selects a kubeconfig or a context.
async fn connect_cluster(arguments: &ResourceArguments) -> anyhow::Result<Option<kube::Client>> {
    let ResourceArguments { kubeconfig, context } = arguments;
    if kubeconfig.is_none() && context.is_none() {
        return Ok(None);
    }
    let path: Option<PathBuf> = kubeconfig.clone();
    let source = ClientSource::Kubeconfig { path, context: context.clone() };
    let config = ClientConfig { source, ..ClientConfig::default() };
    Ok(Some(Clients::new(&config).await?.api))
}

/// A mapper that asks the cluster if a flag selects one, or else knows the built-in resources.
async fn resource_mapper(arguments: &ResourceArguments) -> anyhow::Result<Arc<dyn ResourceMapper>> {
    Ok(match connect_cluster(arguments).await? {
        Some(api) => Arc::new(DiscoveryMapper(api)),
        None => builtin_mapper(),
    })
}

/// A source of the file's metrics. `None` if no flag allows connecting to a server.
async fn connect_source(
    config: &Config,
    prometheus: &PrometheusArguments,
    allowed: AllowedServers,
    resources: &ResourceArguments,
) -> anyhow::Result<Option<PrometheusSource>> {
    // Requests name their objects, so none are listed from the API server.
    let objects = Arc::new(NoObjects);
    let mapper = resource_mapper(resources).await?;
    create_source(config, prometheus, allowed, mapper, objects).await
}
