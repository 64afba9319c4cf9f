use std::{path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, ValueEnum};
use hpa_prometheus::client::{
    Authentication, Client, RequestObserver, Settings, SettingsError, Verb, parse_header,
};
use hpa_prometheus::rules::Compat;
use hpa_prometheus::source::{PrometheusSettings, ServerPermissions, SharingSettings};
use jiff::SignedDuration;

use super::values::{BOOL, HPA_PREFIX, bytes, duration, positive_duration, to_std};

/// Connection to Prometheus. Flags of prometheus-adapter keep their names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Prometheus (as in prometheus-adapter)")]
pub(crate) struct PrometheusArguments {
    /// URL of Prometheus, or of a server with its API. Can have a path prefix [default of hpa
    /// adapter: https://localhost]
    #[arg(long, alias = "prometheus-server", env = HPA_PREFIX, value_name = "URL")]
    pub(crate) prometheus_url: Option<String>,
    /// HTTP method of queries: GET or POST [default: POST, which doesn't limit the length of a
    /// query; GET with hpa adapter --compat prometheus-adapter]
    #[arg(long, env = HPA_PREFIX, value_name = "METHOD")]
    pub(crate) prometheus_verb: Option<String>,
    /// Header of requests, NAME=VALUE; can be repeated
    #[arg(long = "prometheus-header", env = HPA_PREFIX, value_name = "HEADER")]
    pub(crate) prometheus_headers: Vec<String>,
    /// Authenticate with the service account of this pod
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) prometheus_auth_incluster: bool,
    /// Kubeconfig file with credentials for Prometheus
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_auth_config: Option<PathBuf>,
    /// CAs of the certificate of Prometheus, PEM
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_ca_file: Option<PathBuf>,
    /// Client certificate; reloaded when the file changes
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_client_tls_cert_file: Option<PathBuf>,
    /// Private key of the client certificate
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_client_tls_key_file: Option<PathBuf>,
    /// File with a bearer token; reloaded when it changes
    #[arg(long, alias = "prometheus-server-token-file", env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_token_file: Option<PathBuf>,
    /// User of basic authentication
    #[arg(long, env = HPA_PREFIX, value_name = "NAME")]
    pub(crate) prometheus_username: Option<String>,
    /// File with the password for --prometheus-username
    #[arg(long, env = HPA_PREFIX, value_name = "FILE")]
    pub(crate) prometheus_password_file: Option<PathBuf>,
    /// Timeout of a query. The list of a rule's series may take six times as long, at least 1m
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10s",
        value_parser = positive_duration)]
    pub(crate) prometheus_query_timeout: SignedDuration,
    /// Interval at which the series of the rules are listed; at least 1s
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "10m0s",
        value_parser = duration)]
    metrics_relist_interval: SignedDuration,
    /// Maximum age of the last sample of a listed series [default: --metrics-relist-interval]
    #[arg(long, env = HPA_PREFIX, value_name = "DURATION", default_value = "0s",
        hide_default_value = true, value_parser = duration)]
    pub(crate) metrics_max_age: SignedDuration,
    /// Maximum size of the list of a rule's series, as a number of bytes or a quantity such as 1Gi.
    /// If a list is larger, the rule keeps the series of its last list
    #[arg(long, env = HPA_PREFIX, value_name = "BYTES", default_value = "512Mi",
        value_parser = bytes)]
    pub(crate) metrics_max_series_bytes: u64,
    /// Maximum number of different combinations of a name and label names in the list of a rule's
    /// series, at about 1 KB of memory each. If there are more, the rule keeps the series of its
    /// last list
    #[arg(long, env = HPA_PREFIX, value_name = "COUNT", default_value = "100000",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) metrics_max_series_names: u32,
    /// Directory of the certificates, keys, tokens and passwords that `servers` of the rules file
    /// may use. Other files are not allowed, because the rules file chooses the server that gets
    /// them
    #[arg(long, env = HPA_PREFIX, value_name = "DIRECTORY", default_value = "/etc/hpa/credentials")]
    pub(crate) metrics_config_credentials: PathBuf,
    /// Allow `authInCluster` for `servers` of the rules file. Users who can edit the file can then
    /// send the token of this pod to any URL
    #[arg(long, env = HPA_PREFIX, value_name = BOOL, default_value_t = false)]
    pub(crate) metrics_config_auth_incluster: bool,
}

/// The minimum of --metrics-relist-interval. An interval of zero would list series without a pause.
const MIN_RELIST_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// The default URL of prometheus-adapter.
pub(crate) const DEFAULT_PROMETHEUS_URL: &str = "https://localhost";

impl PrometheusArguments {
    /// A client of the server for rules that don't name one; `None` without a URL.
    pub(crate) fn client(
        &self,
        observer: Arc<dyn RequestObserver>,
    ) -> anyhow::Result<Option<Client>> {
        let Some(url) = &self.prometheus_url else { return Ok(None) };
        Ok(Some(Client::new(self.settings(url, Compat::Off)?, observer)?))
    }

    /// Settings for listing series.
    pub(crate) fn discovery_settings(&self, compat: Compat) -> PrometheusSettings {
        PrometheusSettings {
            compat,
            relist_interval: to_std(self.relist_interval()),
            max_age: to_std(self.max_age()),
            max_series_bytes: self.metrics_max_series_bytes,
            max_series_names: usize::try_from(self.metrics_max_series_names).unwrap_or(usize::MAX),
            ..PrometheusSettings::default()
        }
    }

    /// The credentials that the rules file may use.
    pub(crate) fn server_permissions(&self) -> ServerPermissions {
        ServerPermissions {
            directory: Some(self.metrics_config_credentials.clone()),
            service_account: self.metrics_config_auth_incluster,
        }
    }

    /// The interval at which series are listed.
    pub(crate) fn relist_interval(&self) -> SignedDuration {
        self.metrics_relist_interval.max(MIN_RELIST_INTERVAL)
    }

    /// Logs a warning if --metrics-relist-interval is below the minimum.
    pub(crate) fn warn_of_relist_interval(&self) {
        let interval = self.relist_interval();
        if interval != self.metrics_relist_interval {
            tracing::warn!("--metrics-relist-interval is too short; using {interval:#}");
        }
    }

    /// The maximum age of the last sample of a listed series.
    pub(crate) fn max_age(&self) -> SignedDuration {
        if self.metrics_max_age.is_zero() { self.relist_interval() } else { self.metrics_max_age }
    }

    /// The settings of a client for `url`.
    pub(crate) fn settings(&self, url: &str, compat: Compat) -> Result<Settings, SettingsError> {
        let default_verb = match compat {
            Compat::Off => Verb::Post,
            Compat::Reference => Verb::Get,
        };
        let verb = self.prometheus_verb.as_deref().map_or(Ok(default_verb), str::parse)?;
        // An empty environment variable results in a header without a name.
        let headers = self
            .prometheus_headers
            .iter()
            .filter(|header| header.split('=').next().is_some_and(|name| !name.is_empty()));
        let authentication = match &self.prometheus_auth_config {
            Some(path) => Authentication::Kubeconfig(path.clone()),
            None if self.prometheus_auth_incluster => Authentication::InCluster,
            None => Authentication::None,
        };
        Ok(Settings {
            verb,
            headers: headers.map(|header| parse_header(header)).collect::<Result<_, _>>()?,
            authentication,
            ca_file: self.prometheus_ca_file.clone(),
            client_certificate_file: self.prometheus_client_tls_cert_file.clone(),
            client_key_file: self.prometheus_client_tls_key_file.clone(),
            token_file: self.prometheus_token_file.clone(),
            username: self.prometheus_username.clone(),
            password_file: self.prometheus_password_file.clone(),
            query_timeout: to_std(self.prometheus_query_timeout),
            compat,
            ..Settings::new("prometheus", url)?
        })
    }
}

/// Metrics by the rules of `hpa run --metrics-config`.
#[derive(Args, Debug)]
#[command(
    next_help_heading = "Metrics from Prometheus in the controller (hpa run --metrics-config)"
)]
pub(crate) struct RulesFileArguments {
    /// Read metrics by the rules of this file. All others come from the metrics APIs, as with hpa
    /// run --metrics-config
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_config: Option<PathBuf>,
    /// Connect to the `servers` of the rules file. Implied by --prometheus-url
    #[arg(long, value_name = BOOL, default_value_t = false)]
    pub(crate) connect: bool,
    // Last: a group's heading applies to all flags after it.
    #[command(flatten)]
    pub(crate) prometheus: PrometheusArguments,
}

/// Sharing of queries to Prometheus.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SharingArguments {
    /// Share a query to Prometheus among autoscalers with the same metric in a namespace. A shared
    /// query reads all objects of the namespace, and its result is used for a third of a sync
    /// period. hpa rules check lists the rules that allow sharing
    #[arg(long, env = HPA_PREFIX, value_name = "MODE", default_value = "auto",
        help_heading = "Metrics")]
    pub(crate) share_queries: ShareQueries,
}

/// The condition for sharing queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShareQueries {
    /// If the result is the same and fewer queries are needed
    Auto,
    /// Never
    Never,
}

impl SharingArguments {
    /// The settings for a sync period; `None` if queries are never shared.
    pub(crate) fn settings(self, sync_period: Duration) -> Option<SharingSettings> {
        match self.share_queries {
            ShareQueries::Auto => Some(SharingSettings::for_sync_period(sync_period)),
            ShareQueries::Never => None,
        }
    }
}
