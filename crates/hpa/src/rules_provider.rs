//! Creates a metric source from a rules file, for commands that read metrics once.

use std::{path::Path, sync::Arc};

use anyhow::{Context, bail};
use hpa_metrics::{ObjectLister, ResourceMapper};
use hpa_prometheus::client::Client;
use hpa_prometheus::rules::{
    Compat, Config, RuleSet,
    config::{ManifestRules, ResourceRules},
    ruleset::InvalidRule,
};
use hpa_prometheus::source::{PrometheusProvider, RelistError, Servers};

use crate::{
    args::{PrometheusArguments, RulesFileArguments},
    manifests::read_file,
    terminal,
};

/// Reads a rules file, or rules in a `ConfigMap` or in Helm values. Warns of other rules in the
/// file.
pub(crate) fn read_config(path: &Path) -> anyhow::Result<Config> {
    let all = read_configs(path)?;
    let places: Vec<String> = all.iter().map(|one| one.place.clone()).collect();
    if let [used, others @ ..] = places.as_slice()
        && !others.is_empty()
    {
        terminal::warn(format_args!(
            "{}: rules of {used} are used, not those of {}",
            path.display(),
            others.join("; ")
        ));
    }
    let first = all.into_iter().next().context("there are no rules")?;
    first.config.with_context(|| file_name(path))
}

/// Reads all rules of a file, or of standard input for `-`.
pub(crate) fn read_configs(path: &Path) -> anyhow::Result<Vec<ManifestRules>> {
    let text = match path.to_str() {
        Some("-") => read_file(path)?,
        _ => std::fs::read_to_string(path).with_context(|| file_name(path))?,
    };
    Config::all_from_manifest(&text).with_context(|| file_name(path))
}

/// The name of a rules file in messages.
pub(crate) fn file_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
}

/// Fails if a file has rules that can't be used on any cluster, as `hpa rules check` does.
pub(crate) fn refuse_invalid_rules(config: &Config) -> anyhow::Result<()> {
    let errors = RuleSet::syntax_errors(config);
    let mut errors: Vec<String> = errors.iter().map(InvalidRule::describe).collect();
    let missing = config.resource_rules.as_ref().and_then(ResourceRules::missing);
    errors.extend(missing.map(|path| format!("{path} is missing")));
    if errors.is_empty() { Ok(()) } else { bail!("{}", errors.join("; ")) }
}

/// A provider for the file. `None` if there is no server, or if the user hasn't allowed connections
/// to the servers that the file names. Its author may be untrusted.
pub(crate) async fn provider(
    config: &Config,
    prometheus: &PrometheusArguments,
    connect: bool,
    mapper: Arc<dyn ResourceMapper>,
    objects: Arc<dyn ObjectLister>,
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
        mapper,
        objects,
    )?;
    provider.check_files().await?;
    Ok(Some(provider))
}

/// The provider of `--metrics-config`, without metrics until [`relist`]. `None` without the flag.
pub(crate) async fn from_flags(
    arguments: &RulesFileArguments,
    mapper: Arc<dyn ResourceMapper>,
    objects: Arc<dyn ObjectLister>,
) -> anyhow::Result<Option<Arc<PrometheusProvider>>> {
    let RulesFileArguments { metrics_config, connect, prometheus } = arguments;
    let Some(path) = metrics_config else { return Ok(None) };
    let name = || format!("--metrics-config {}", path.display());
    let config = read_config(path).with_context(name)?;
    let provider = provider(&config, prometheus, *connect, mapper, objects).await;
    let Some(provider) = provider.with_context(name)? else {
        let is_named = !config.servers.is_empty();
        let connect = if is_named { ", or --connect for the file's servers" } else { "" };
        bail!("{} needs a server: add --prometheus-url{connect}", name());
    };
    Ok(Some(Arc::new(provider)))
}

/// Reads the series of all rules. Warns of rules that fail; the others work.
pub(crate) async fn relist(provider: &PrometheusProvider) -> anyhow::Result<()> {
    match provider.relist().await {
        Ok(()) => Ok(()),
        Err(error @ RelistError::Mapper(_)) => Err(error.into()),
        Err(error) => {
            terminal::warn(format_args!("{:#}", anyhow::Error::from(error)));
            Ok(())
        }
    }
}
