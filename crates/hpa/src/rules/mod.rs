//! `hpa rules`: checks, explains, generates and compares rules for metrics from Prometheus.

mod builtin;
mod check;
mod compare;
mod explain;
mod sample;
#[cfg(test)]
mod tests;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use hpa_controller::k8s::{ClientConfig, ClientSource, Clients};
use hpa_prometheus::Client;
use hpa_provider::{
    DiscoveryMapper, FixedMapper, PrometheusProvider, ResourceMapper, Servers,
    test_doubles::FixedObjects,
};
use hpa_rules::{Compat, Config, config::JSON_SCHEMA, generate::default_rules};

use crate::args::{GenerateArguments, PrometheusArguments, ResourceArguments, RulesCommand};

/// Runs a subcommand. Reports go to standard output.
pub(crate) fn run(command: RulesCommand) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("unable to start the runtime")?;
    let (text, is_good) = match command {
        RulesCommand::Check(arguments) => runtime.block_on(check::check(&arguments))?,
        RulesCommand::Explain(arguments) => runtime.block_on(explain::explain(&arguments))?,
        RulesCommand::Generate(arguments) => (generate(&arguments)?, true),
        RulesCommand::Compare(arguments) => return compare::run(&arguments),
        RulesCommand::Schema => (JSON_SCHEMA.to_owned(), true),
    };
    let written = std::io::stdout().write_all(text.as_bytes());
    written.context("unable to write to standard output")?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn generate(arguments: &GenerateArguments) -> anyhow::Result<String> {
    let GenerateArguments { rate_interval, label_prefix } = arguments;
    let interval = hpa_rules::config::parse_duration(rate_interval);
    interval.with_context(|| format!("--rate-interval {rate_interval}"))?;
    let text = default_rules(rate_interval, label_prefix);
    // A prefix that no label can have would make an invalid file.
    Config::parse(&text).with_context(|| format!("--label-prefix {label_prefix}"))?;
    Ok(text)
}

fn read_config(path: &Path) -> anyhow::Result<Config> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    Config::parse(&text).with_context(name)
}

async fn mapper(arguments: &ResourceArguments) -> anyhow::Result<Arc<dyn ResourceMapper>> {
    let ResourceArguments { kubeconfig, context } = arguments;
    if kubeconfig.is_none() && context.is_none() {
        return Ok(Arc::new(FixedMapper(builtin::resources())));
    }
    let path: Option<PathBuf> = kubeconfig.clone();
    let source = ClientSource::Kubeconfig { path, context: context.clone() };
    let config = ClientConfig { source, ..ClientConfig::default() };
    Ok(Arc::new(DiscoveryMapper(Clients::new(&config).await?.api)))
}

/// A provider for the file. `None` if there is no server, or if the user hasn't allowed connections
/// to the file's servers, because another person may have written the file.
async fn provider(
    config: &Config,
    prometheus: &PrometheusArguments,
    connect: bool,
    resources: &ResourceArguments,
) -> anyhow::Result<Option<PrometheusProvider>> {
    let server = prometheus.server(Compat::Off)?;
    if server.is_none() && (config.servers.is_empty() || !connect) {
        return Ok(None);
    }
    let client = server.map(|server| Client::new(server, Arc::new(()))).transpose()?;
    let provider = PrometheusProvider::new(
        config.clone(),
        Servers::new(client, Arc::new(())).permitting(prometheus.server_permissions()),
        prometheus.discovery(Compat::Off),
        mapper(resources).await?,
        // Nothing is selected through the API server.
        Arc::new(FixedObjects::default()),
    )?;
    provider.check_files().await?;
    Ok(Some(provider))
}
