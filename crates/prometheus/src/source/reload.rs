//! Reloads the rules file.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use crate::rules::{Compat, Config, ConfigError, RuleSet, config::Finding, ruleset::InvalidRule};
use tokio::time::{Instant, sleep_until};

use super::{PrometheusSource, state::Rules};
use hpa_metrics::describe;

/// The reason why a rules file is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The file can't be parsed.
    #[error("the rules file is invalid")]
    Config(#[from] ConfigError),
    #[error("the rules file has invalid servers")]
    Servers(#[from] Finding),
    /// The file may be incomplete, because a program is writing it.
    #[error("the rules file has no rules")]
    NoRules,
    /// A rule is invalid. With compatibility, all rules must be valid.
    #[error("the rules file has an invalid rule")]
    Rule(#[from] InvalidRule),
    /// The file can't be read, for example because its key of a `ConfigMap` was removed.
    #[error("unable to read the rules file")]
    Read(#[from] io::Error),
}

/// The number of failed reads in a row after which a file counts as unreadable. A single read may
/// fail while the file is replaced.
const FAILED_READS_UNTIL_REPORT: u32 = 2;

impl PrometheusSource {
    /// Replaces the rules. The next discovery uses them. If the text is invalid or has no rules,
    /// the previous rules stay in use, and [`PrometheusSource::problems`] has the reason.
    pub fn reload(&self, text: &str) -> Result<(), ReloadError> {
        self.use_or_refuse(self.try_reload(text))
    }

    /// Waits for a change of the file, and reloads it.
    pub(super) async fn reload_change(&self, file: &mut WatchedFile) -> Result<(), ReloadError> {
        let text = file.wait_for_change().await;
        self.use_or_refuse(text.and_then(|text| self.try_reload(&text)))
    }

    fn use_or_refuse(&self, rules: Result<Rules, ReloadError>) -> Result<(), ReloadError> {
        match rules {
            Ok(rules) => {
                tracing::info!(
                    rules = rules.config.rules.len(),
                    external_rules = rules.config.external_rules.len(),
                    resource_rules = rules.config.resource_rules.is_some(),
                    "loaded the changed rules file"
                );
                self.rules.send_replace(Arc::new(rules));
                *self.rules_file_error.write() = None;
                Ok(())
            }
            Err(error) => {
                let message = describe(&error);
                tracing::warn!(
                    error = message,
                    "refused the changed rules file, previous rules stay in use"
                );
                *self.rules_file_error.write() = Some(message);
                Err(error)
            }
        }
    }

    fn try_reload(&self, text: &str) -> Result<Rules, ReloadError> {
        let config = Config::parse(text)?;
        let compat = self.settings.compat;
        let Config { rules, external_rules, resource_rules, .. } = &config;
        if rules.is_empty() && external_rules.is_empty() && resource_rules.is_none() {
            return Err(ReloadError::NoRules);
        }
        let servers = self.rules.borrow().servers.with_config(&config, compat)?;
        if compat == Compat::Reference {
            let state = self.state();
            // Without resources, each override would be an error.
            let compiled = match state.resources.names().next() {
                Some(_) => RuleSet::compile(&config, &state.resources),
                None => RuleSet::without_overrides(&config),
            };
            if let Some(error) = compiled.first_error() {
                return Err(error.clone().into());
            }
        }
        Ok(Rules { config: Arc::new(config), servers: Arc::new(servers) })
    }
}

/// The path and text of a rules file.
#[derive(Clone, Debug)]
pub struct RulesFile {
    pub path: PathBuf,
    pub text: String,
}

impl RulesFile {
    pub fn read(path: PathBuf) -> io::Result<Self> {
        let text = std::fs::read_to_string(&path)?;
        Ok(Self { path, text })
    }
}

/// Detects changes of a file by reading it regularly, because file system notifications don't
/// follow the links of a mounted `ConfigMap`.
pub(super) struct WatchedFile {
    file: Option<RulesFile>,
    interval: Duration,
    next_check: Instant,
    /// The number of failed reads in a row.
    failed_reads: u32,
}

impl WatchedFile {
    pub(super) fn new(file: Option<RulesFile>, interval: Duration) -> Self {
        Self { file, interval, next_check: Instant::now() + interval, failed_reads: 0 }
    }

    /// Waits for a change, and returns the file's text, or the error of a file that can't be read
    /// any more. Without a file, it never returns. Cancel-safe.
    async fn wait_for_change(&mut self) -> Result<String, ReloadError> {
        let Some(file) = &mut self.file else {
            return std::future::pending().await;
        };
        loop {
            sleep_until(self.next_check).await;
            self.next_check = Instant::now() + self.interval;
            match std::fs::read_to_string(&file.path) {
                Ok(text) => {
                    let was_reported = self.failed_reads >= FAILED_READS_UNTIL_REPORT;
                    self.failed_reads = 0;
                    if was_reported || text != file.text {
                        file.text.clone_from(&text);
                        return Ok(text);
                    }
                }
                Err(error) => {
                    self.failed_reads = self.failed_reads.saturating_add(1);
                    if self.failed_reads == FAILED_READS_UNTIL_REPORT {
                        return Err(error.into());
                    }
                }
            }
        }
    }
}
