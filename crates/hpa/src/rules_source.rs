//! Reads and checks rules files, and creates metric sources from them. `hpa run` and `hpa adapter`
//! create theirs on their own.

use std::{path::Path, pin::pin, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use hpa_calc::explain::list_first;
use hpa_metrics::{ObjectLister, ResourceMapper};
use hpa_prometheus::rules::{
    Compat, Config, RuleSet,
    config::{ManifestRules, ResourceRules},
    ruleset::InvalidRule,
};
use hpa_prometheus::source::{PrometheusSource, RelistError, Servers};
use tokio::time::timeout;

use crate::{
    args::{PrometheusArguments, RulesFileArguments},
    manifests::{MAX_FILE_SIZE, file_name, read_text},
    terminal,
};

/// A command that waits for series or metrics reports that after this time.
const NOTICE_DELAY: Duration = Duration::from_secs(2);
/// An error names at most this many invalid rules. `hpa rules check` lists all.
const MAX_LISTED: usize = 3;

/// Reads a rules file, or rules in a `ConfigMap` or in Helm values. If there are several, uses the
/// first rules and warns of the others.
pub(crate) fn read_config(path: &Path) -> anyhow::Result<Config> {
    let mut all = read_configs(path)?.into_iter();
    let ManifestRules { place, config } = all.next().context("there are no rules")?;
    let others: Vec<String> = all.map(|rules| rules.place).collect();
    if !others.is_empty() {
        terminal::warn(format_args!(
            "{}: rules of {place} are used, not those of {}",
            file_name(path),
            others.join("; ")
        ));
    }
    config.with_context(|| file_name(path))
}

/// Reads all rules of a file, or of standard input for `-`. Empty input is an error, because it is
/// mostly the output of a command that failed.
pub(crate) fn read_configs(path: &Path) -> anyhow::Result<Vec<ManifestRules>> {
    let text = read_text(path, MAX_FILE_SIZE).with_context(|| file_name(path))?;
    ensure!(!text.trim().is_empty(), "{}: it is empty", file_name(path));
    Config::all_from_manifest(&text).with_context(|| file_name(path))
}

/// Fails if a file has rules that can't be used on any cluster, as `hpa rules check` does.
pub(crate) fn refuse_invalid_rules(config: &Config) -> anyhow::Result<()> {
    let errors = RuleSet::syntax_errors(config);
    let mut errors: Vec<String> = errors.iter().map(InvalidRule::describe).collect();
    let missing = config.resource_rules.as_ref().and_then(ResourceRules::missing_rule);
    errors.extend(missing.map(|path| format!("{path} is missing")));
    if errors.is_empty() { Ok(()) } else { bail!("{}", list_first(&errors, MAX_LISTED, "; ")) }
}

/// Creates a source of the rules' metrics. `None` if there is no server that may be read.
/// `may_connect`: whether the servers of the file may be read without `--prometheus-url`. The user
/// must allow that, because the author of the file may be untrusted.
pub(crate) async fn create_source(
    config: &Config,
    prometheus: &PrometheusArguments,
    may_connect: bool,
    mapper: Arc<dyn ResourceMapper>,
    objects: Arc<dyn ObjectLister>,
) -> anyhow::Result<Option<PrometheusSource>> {
    let client = prometheus.client(Arc::new(()))?;
    if client.is_none() && (config.servers.is_empty() || !may_connect) {
        return Ok(None);
    }
    let source = PrometheusSource::new(
        config.clone(),
        Servers::new(client, Arc::new(())).permitting(prometheus.server_permissions()),
        prometheus.discovery_settings(Compat::Off),
        mapper,
        objects,
    )?;
    source.check_files().await?;
    Ok(Some(source))
}

/// The flags with which [`create_source`] has a server, for advice.
pub(crate) fn server_flags(config: &Config) -> &'static str {
    if config.servers.is_empty() {
        "--prometheus-url"
    } else {
        "--prometheus-url, or --connect for the file's servers"
    }
}

/// Creates the source of `--metrics-config`, which has no metrics until [`relist`]. `None`
/// without the flag.
pub(crate) async fn create_from_flags(
    arguments: &RulesFileArguments,
    mapper: Arc<dyn ResourceMapper>,
    objects: Arc<dyn ObjectLister>,
) -> anyhow::Result<Option<PrometheusSource>> {
    let RulesFileArguments { metrics_config, connect, prometheus } = arguments;
    let Some(path) = metrics_config else { return Ok(None) };
    let name = || format!("--metrics-config {}", path.display());
    let config = read_config(path).with_context(name)?;
    let source = create_source(&config, prometheus, *connect, mapper, objects).await;
    let Some(source) = source.with_context(name)? else {
        bail!("{} needs a server: add {}", name(), server_flags(&config));
    };
    Ok(Some(source))
}

/// Reads the series of all rules. Calls `on_delay` if that takes longer than [`NOTICE_DELAY`].
/// Warns of rules whose series can't be read. Fails if the resources of the API server can't be
/// read.
pub(crate) async fn relist(
    source: &PrometheusSource,
    on_delay: impl FnOnce(),
) -> anyhow::Result<()> {
    match notify_of_delay(source.relist(), on_delay).await {
        Ok(()) => Ok(()),
        Err(error @ RelistError::Mapper(_)) => Err(error.into()),
        Err(error) => {
            terminal::warn(format_args!("{:#}", anyhow::Error::from(error)));
            Ok(())
        }
    }
}

/// Prints on standard error which servers' series [`relist`] waits for.
pub(crate) fn warn_of_delay(source: &PrometheusSource) {
    let servers = source.listed_servers();
    // The queries of `resourceRules` need no series.
    if !servers.is_empty() {
        let servers = servers.join(", ");
        terminal::warn(format_args!("waiting for the series of Prometheus at {servers}"));
    }
}

/// Awaits a future. Calls `on_delay` once if that takes longer than [`NOTICE_DELAY`].
pub(crate) async fn notify_of_delay<T>(
    work: impl Future<Output = T>,
    on_delay: impl FnOnce(),
) -> T {
    let mut work = pin!(work);
    if let Ok(result) = timeout(NOTICE_DELAY, &mut work).await {
        return result;
    }
    on_delay();
    work.await
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::time::sleep;

    use super::*;

    #[test]
    fn error_about_many_invalid_rules_names_the_first() {
        let rule = "{seriesQuery: up, metricsQuery: '<<.Series', resources: {namespaced: false}}";
        let rules = [rule; 5].join(", ");
        let config = Config::parse(&format!("externalRules: [{rules}]")).expect("rules");
        let error = refuse_invalid_rules(&config).expect_err("invalid rules").to_string();
        assert_eq!(error.matches("externalRules[").count(), MAX_LISTED, "{error}");
        assert!(error.ends_with(" and 2 more"), "{error}");
    }

    #[rstest]
    #[case::quick(Duration::from_secs(1), 0)]
    #[case::slow(Duration::from_secs(60), 1)]
    #[tokio::test(start_paused = true)]
    async fn delay_is_reported_once(#[case] duration: Duration, #[case] expected: usize) {
        let mut notices = 0;
        notify_of_delay(sleep(duration), || notices += 1).await;
        assert_eq!(notices, expected);
    }
}
