//! The clients and credentials that all collectors share.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
};

use hpa_prometheus::client::Client;
use http::Uri;
use parking_lot::Mutex;

use crate::{
    Compat,
    cluster::Cluster,
    collectors::sqs::credentials::CredentialCache,
    error::FetchError,
    guarded_http::{GuardedHttp, HttpRequest, http_error, policy::parse_host, url},
    settings::{Credential, Limits, Settings, SettingsError},
};

/// The HTTP and Prometheus clients, the access to objects of the cluster, and the operator's
/// credentials.
pub struct Clients {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) compat: Compat,
    pub(crate) http: GuardedHttp,
    pub(crate) prometheus: Option<Client>,
    pub(crate) prometheus_servers: BTreeMap<String, Client>,
    pub(crate) weight_annotations: Vec<String>,
    pub(crate) namespace_label: Option<String>,
    pub(crate) aws_credentials: CredentialCache,
    /// The URLs of SQS queues, by region and name.
    pub(crate) queue_urls: Mutex<HashMap<(String, String), String>>,
    services: BTreeMap<&'static str, OperatorService>,
    credentials: Vec<(Uri, Credential)>,
}

/// A server from [`Settings::services`], with its credential.
pub(crate) struct OperatorService {
    pub(crate) url: Uri,
    pub(crate) token: Option<Credential>,
    pub(crate) org: String,
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("compat", &self.compat).finish_non_exhaustive()
    }
}

impl Clients {
    /// Creates the clients. Fails if a setting is invalid. Files of credentials and certificates
    /// are read later.
    pub fn new(settings: Settings, cluster: Arc<dyn Cluster>) -> Result<Self, SettingsError> {
        settings.validate()?;
        let http = GuardedHttp::new(&settings);
        let credentials = settings
            .credentials
            .into_iter()
            .map(|(origin, credential)| Ok((parse_origin(&origin)?, credential)));
        let services = settings.services.into_iter().map(|(name, service)| {
            let url = operator_url(&service.endpoint)?;
            Ok((name, OperatorService { url, token: service.token, org: service.org }))
        });
        Ok(Self {
            cluster,
            compat: settings.compat,
            http,
            prometheus: settings.prometheus,
            prometheus_servers: settings.prometheus_servers,
            weight_annotations: settings.weight_annotations,
            namespace_label: settings.namespace_label,
            aws_credentials: CredentialCache::default(),
            queue_urls: Mutex::default(),
            services: services.collect::<Result<_, _>>()?,
            credentials: credentials.collect::<Result<_, _>>()?,
        })
    }

    #[cfg(test)]
    pub(crate) fn map_http(self, map: impl FnOnce(GuardedHttp) -> GuardedHttp) -> Self {
        Self { http: map(self.http), ..self }
    }

    pub fn cluster(&self) -> &dyn Cluster {
        &*self.cluster
    }

    pub fn limits(&self) -> &Limits {
        self.http.limits()
    }

    /// A server of [`Settings::services`].
    pub(crate) fn service(&self, name: &str) -> Option<&OperatorService> {
        self.services.get(name)
    }

    /// Adds the operator's credential for the origin of a tenant's URL, if there is one, with a
    /// scheme such as `Bearer`.
    pub(crate) fn with_credential(
        &self,
        request: HttpRequest,
        scheme: &str,
    ) -> Result<HttpRequest, FetchError> {
        let is_origin = |(origin, _): &&(Uri, _)| url::is_same_origin(origin, &request.uri);
        let found = self.credentials.iter().find(is_origin);
        add_credential(request, scheme, found.map(|(_, credential)| credential))
    }
}

/// Adds an `Authorization` header, if there is a credential.
pub(crate) fn add_credential(
    request: HttpRequest,
    scheme: &str,
    credential: Option<&Credential>,
) -> Result<HttpRequest, FetchError> {
    let Some(credential) = credential else { return Ok(request) };
    let (token, uri) = (credential.read()?, request.uri.clone());
    request.with_authorization(scheme, &token).map_err(|source| http_error(&uri, source))
}

/// Parses the key of a credential: a URL with only a scheme, a host and a port.
fn parse_origin(text: &str) -> Result<Uri, SettingsError> {
    let invalid = || SettingsError::Origin(without_credentials(text).to_owned());
    let (_, authority) = text.split_once("://").ok_or_else(invalid)?;
    if parse_host(text).is_err() || authority.contains(['/', '?', '#']) {
        return Err(invalid());
    }
    url::parse(text).map_err(|_| invalid())
}

fn operator_url(text: &str) -> Result<Uri, SettingsError> {
    url::parse(text).map_err(|_| {
        let url = without_credentials(text);
        SettingsError::Invalid(format!("the URL {url:?} must start with http:// or https://"))
    })
}

/// The end of a URL, for errors. Without the credentials, which are before an `@`.
fn without_credentials(url: &str) -> &str {
    url.rsplit('@').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::path("https://a.example/", "https://a.example/")]
    #[case::no_scheme("a.example", "a.example")]
    #[case::user_name("https://user:hunter2@a.example", "a.example")]
    fn error_about_an_origin_has_no_credentials(#[case] text: &str, #[case] displayed: &str) {
        let error = parse_origin(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{displayed:?} is not an origin")), "{error}");
        parse_origin("https://a.example:8443").unwrap();
    }
}
