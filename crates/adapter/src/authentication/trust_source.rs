//! Loads the trusted CAs from files and from a ConfigMap that kube-apiserver writes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use hpa_metrics::{LogLimit, describe, watch_events};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::{Authenticator, CaBundle, FrontProxy, FrontProxyNames, Trust};
use crate::error::SetupError;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// The interval between reads of the files.
const FILE_INTERVAL: Duration = Duration::from_secs(60);

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The sources of the trusted CAs.
#[derive(Clone, Debug)]
pub struct TrustSettings {
    /// The CA of client certificates, instead of that in the ConfigMap.
    pub client_ca_file: Option<PathBuf>,
    /// The front proxies, instead of those in the ConfigMap.
    pub front_proxy: Option<FrontProxyFlags>,
    /// Whether the ConfigMap must be read. Not used if both other fields are set.
    pub lookup: ConfigMapLookup,
}

/// The front proxies that flags set.
#[derive(Clone, Debug)]
pub struct FrontProxyFlags {
    /// The CA of the proxies' certificates.
    pub ca_file: PathBuf,
    pub names: FrontProxyNames,
}

/// The lookup of the ConfigMap with the cluster's CAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigMapLookup {
    /// The server doesn't start if the ConfigMap can't be read.
    Required,
    /// If the ConfigMap can't be read, the server starts without the cluster's CAs, and loads them
    /// once it can be read.
    Optional,
    /// The ConfigMap isn't read.
    Skipped,
}

/// A hint at the role that permits the lookup, if the error is 403.
fn permission_hint(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            "to permit this, bind the role extension-apiserver-authentication-reader; "
        }
        _ => "",
    }
}

/// Loads CAs and keeps them up to date.
pub struct TrustSource {
    settings: TrustSettings,
    client: Client,
    cluster: Trust,
}

impl TrustSource {
    /// Reads the files and, if it is needed, the ConfigMap. Returns the current CAs, and the source
    /// that keeps them up to date.
    pub async fn load(
        settings: TrustSettings,
        client: Client,
    ) -> Result<(Self, Trust), SetupError> {
        let mut source = Self { settings, client, cluster: Trust::default() };
        if source.reads_config_map() {
            match source.look_up().await {
                Ok(trust) => source.cluster = trust,
                Err(error) if source.settings.lookup == ConfigMapLookup::Optional => {
                    warn!(
                        error = describe(&error),
                        "starting without the cluster's certificate authorities"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        let trust = source.combine()?;
        Ok((source, trust))
    }

    /// Whether to read the ConfigMap, which isn't needed if flags set everything.
    fn reads_config_map(&self) -> bool {
        let is_complete =
            self.settings.client_ca_file.is_some() && self.settings.front_proxy.is_some();
        self.settings.lookup != ConfigMapLookup::Skipped && !is_complete
    }

    async fn look_up(&self) -> Result<Trust, SetupError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = timeout(REQUEST_TIMEOUT, maps.get(NAME)).await;
        let map = map.map_err(|_| {
            let seconds = REQUEST_TIMEOUT.as_secs();
            SetupError::new(format!(
                "the API server sent no ConfigMap {NAMESPACE}/{NAME} within {seconds} s"
            ))
        })?;
        let map = map.map_err(|error| {
            let hint = permission_hint(&error);
            let message = format!(
                "unable to read the ConfigMap {NAMESPACE}/{NAME} ({hint}to start without the \
                 ConfigMap, set --authentication-tolerate-lookup-failure)"
            );
            SetupError::caused_by(message, error)
        })?;
        trust_from_cluster(&map.data.unwrap_or_default())
    }

    /// Combines the CAs of the files with those of the cluster. Files take precedence.
    fn combine(&self) -> Result<Trust, SetupError> {
        let mut trust = self.cluster.clone();
        if let Some(path) = &self.settings.client_ca_file {
            trust.client_ca_bundle = Some(read_ca_bundle(path)?);
        }
        if let Some(flags) = &self.settings.front_proxy {
            let (ca_bundle, names) = (read_ca_bundle(&flags.ca_file)?, flags.names.clone());
            trust.front_proxy = Some(FrontProxy { ca_bundle, names });
        }
        Ok(trust)
    }

    /// Updates an authenticator from the ConfigMap when it changes, and from the files every
    /// minute. If the new CAs are invalid, keeps the previous ones.
    pub async fn run(mut self, authenticator: Arc<Authenticator>, stop: CancellationToken) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let named = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let maps = watch_events(maps, named).applied_objects();
        let reads_config_map = self.reads_config_map();
        let warnings = LogLimit::default();
        let mut maps = maps.inspect_err(move |error| log_watch_error(error, &warnings)).boxed();
        let mut files = interval(FILE_INTERVAL);
        files.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is immediate, but the files were just read.
        files.tick().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = files.tick() => self.update(&authenticator, None),
                Some(map) = maps.next(), if reads_config_map => {
                    if let Ok(map) = map {
                        self.update(&authenticator, Some(map.data.unwrap_or_default()));
                    }
                }
            }
        }
    }

    /// Loads the files and, if the ConfigMap has changed, its new `data`.
    fn update(&mut self, authenticator: &Authenticator, data: Option<BTreeMap<String, String>>) {
        let map_changed = data.is_some();
        let loaded = data.map(|data| trust_from_cluster(&data)).transpose();
        let combined = loaded.and_then(|cluster| {
            if let Some(cluster) = cluster {
                self.cluster = cluster;
            }
            self.combine()
        });
        match combined {
            Ok(trust) => {
                authenticator.set_trust(trust);
                if map_changed {
                    info!("loaded the certificate authorities of the cluster");
                }
            }
            Err(error) => warn!(
                error = describe(&error),
                "unable to load the certificate authorities of clients; keeping the old ones"
            ),
        }
    }
}

fn log_watch_error(error: &watcher::Error, warnings: &LogLimit) {
    if warnings.try_acquire() {
        warn!(error = describe(error), "unable to watch the ConfigMap {NAMESPACE}/{NAME}");
    } else {
        debug!(error = describe(error), "unable to watch the ConfigMap {NAMESPACE}/{NAME}");
    }
}

fn trust_from_cluster(data: &BTreeMap<String, String>) -> Result<Trust, SetupError> {
    Trust::from_cluster(data).map_err(|error| {
        SetupError::caused_by(format!("unable to use the ConfigMap {NAMESPACE}/{NAME}"), error)
    })
}

fn read_ca_bundle(path: &Path) -> Result<CaBundle, SetupError> {
    let failed = |action: &str| format!("unable to {action} {}", path.display());
    let bundle =
        std::fs::read(path).map_err(|error| SetupError::caused_by(failed("read"), error))?;
    CaBundle::from_pem(&bundle).map_err(|error| SetupError::caused_by(failed("use"), error))
}
