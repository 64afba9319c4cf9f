//! Settings of a Prometheus server.

use std::{num::NonZeroUsize, path::PathBuf, str::FromStr, time::Duration};

use crate::rules::Compat;
use hpa_metrics::url_origin;
use http::{HeaderName, HeaderValue, Uri};

/// [`Settings::series_timeout`] divided by [`Settings::query_timeout`].
const SERIES_TIMEOUT_FACTOR: u32 = 6;
/// The minimum of [`Settings::series_timeout`]: a short limit of queries must not prevent a large
/// discovery.
const MIN_SERIES_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a Prometheus server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the server in messages and metrics.
    pub name: String,
    /// The URL. The API is below its path.
    pub url: Uri,
    /// The method of requests. Requests for metadata are always sent with GET, and requests whose
    /// parameters are too long for a URL always with POST.
    pub verb: Verb,
    /// Headers of all requests. A header can have several values.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The source of the TLS settings and credentials that the other fields don't set. Not used if
    /// there is a `ca_file`.
    pub authentication: Authentication,
    /// The directory with the token and the CA certificate of the pod's service account.
    pub service_account_directory: PathBuf,
    /// The file with the CA certificates that verify the server. `None` for those of
    /// `authentication`, or else of the system.
    pub ca_file: Option<PathBuf>,
    pub client_certificate_file: Option<PathBuf>,
    /// The private key of the client.
    pub client_key_file: Option<PathBuf>,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
    /// The user of basic authentication.
    pub username: Option<String>,
    /// A file with the password of basic authentication.
    pub password_file: Option<PathBuf>,
    /// The time limit of a query. See also [`Self::series_timeout`].
    pub query_timeout: Duration,
    /// The maximum number of concurrent requests.
    pub concurrency: NonZeroUsize,
    /// The maximum length of a query's response. Its decoded samples may be ten times as large.
    pub max_response_bytes: usize,
    /// Whether to send requests and decode samples as prometheus-adapter does.
    pub compat: Compat,
}

/// The method of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// Parameters in the URL. Servers limit its length.
    Get,
    /// Parameters in the body.
    #[default]
    Post,
}

/// A source of TLS settings and credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    #[default]
    None,
    /// The service account of the pod, in [`Settings::service_account_directory`].
    InCluster,
    /// A kubeconfig file. Its server is not used.
    Kubeconfig(PathBuf),
}

/// Invalid settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The URL can't be parsed, or its scheme is neither `http` nor `https`.
    #[error("the URL {url:?} of Prometheus is invalid: {message}")]
    Url {
        /// The URL without credentials and parameters.
        url: String,
        message: String,
    },
    /// The verb is unknown. The text is that of prometheus-adapter.
    #[error("unsupported Prometheus HTTP verb {0:?}; supported verbs: \"GET\" and \"POST\"")]
    Verb(String),
    /// The header can't be parsed.
    #[error("the header {0:?} is invalid: it must be NAME=VALUE")]
    Header(String),
    /// A client certificate without a key, or a key without a certificate.
    #[error("a client certificate needs both a certificate file and a key file")]
    IncompleteClientCertificate,
    /// A user without a password, or a password without a user.
    #[error("basic authentication needs both a user name and a password file")]
    IncompleteBasicAuth,
    /// A token file and basic authentication.
    #[error("a token file and basic authentication exclude each other")]
    ConflictingCredentials,
}

impl SettingsError {
    /// The text after a colon is left out, because it may be a credential.
    pub(crate) fn invalid_header(text: &str) -> Self {
        Self::Header(text.split(':').next().unwrap_or_default().to_owned())
    }
}

impl Settings {
    /// A server with the default limits, and with no credentials but those in the URL.
    pub fn new(name: &str, url: &str) -> Result<Self, SettingsError> {
        // 16, without a conversion that can fail.
        const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(15);
        Ok(Self {
            name: name.to_owned(),
            url: parse_url(url)?,
            verb: Verb::default(),
            headers: Vec::new(),
            authentication: Authentication::default(),
            service_account_directory: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
            ca_file: None,
            client_certificate_file: None,
            client_key_file: None,
            token_file: None,
            username: None,
            password_file: None,
            query_timeout: Duration::from_secs(10),
            concurrency: CONCURRENCY,
            max_response_bytes: 4 << 20,
            compat: Compat::default(),
        })
    }

    /// The time limit of reading the series of a selector: six times [`Self::query_timeout`],
    /// because the server searches and sends much more, but at least a minute.
    #[must_use]
    pub fn series_timeout(&self) -> Duration {
        self.query_timeout.saturating_mul(SERIES_TIMEOUT_FACTOR).max(MIN_SERIES_TIMEOUT)
    }

    /// Checks for incomplete and conflicting credentials.
    pub fn validate(&self) -> Result<(), SettingsError> {
        if self.client_certificate_file.is_some() != self.client_key_file.is_some() {
            return Err(SettingsError::IncompleteClientCertificate);
        }
        if self.username.is_some() != self.password_file.is_some() {
            return Err(SettingsError::IncompleteBasicAuth);
        }
        if self.username.is_some() && self.token_file.is_some() {
            return Err(SettingsError::ConflictingCredentials);
        }
        Ok(())
    }

    /// Scheme, host and port of the URL, for errors that tenants read in conditions.
    pub fn origin(&self) -> String {
        url_origin(&self.url)
    }

    /// The URL without credentials and parameters, for messages to the operator.
    pub fn url_without_credentials(&self) -> String {
        format!("{}{}", self.origin(), self.url.path().trim_end_matches('/'))
    }
}

fn parse_url(text: &str) -> Result<Uri, SettingsError> {
    let error = |message: String| {
        // Credentials are before an `@`, or in parameters.
        let url = text.rsplit('@').next().and_then(|url| url.split('?').next());
        SettingsError::Url { url: url.unwrap_or_default().to_owned(), message }
    };
    let url: Uri =
        text.parse().map_err(|source: http::uri::InvalidUri| error(source.to_string()))?;
    match url.scheme_str() {
        Some("http" | "https") => {}
        _ => return Err(error("it must start with http:// or https://".to_owned())),
    }
    Ok(url)
}

impl FromStr for Verb {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        match text {
            "GET" => Ok(Self::Get),
            "POST" => Ok(Self::Post),
            _ => Err(SettingsError::Verb(text.to_owned())),
        }
    }
}

/// Parses `NAME=VALUE`. Without `=`, the value is empty.
pub fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), SettingsError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let error = || SettingsError::invalid_header(name);
    let name = name.parse().map_err(|_| error())?;
    let mut value: HeaderValue = value.parse().map_err(|_| error())?;
    // Headers often contain credentials.
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::no_scheme("prometheus:9090")]
    #[case::other_scheme("ftp://prometheus")]
    #[case::no_host("http://")]
    #[case::space("http://a b")]
    fn invalid_urls_are_refused(#[case] url: &str) {
        assert!(matches!(Settings::new("p", url), Err(SettingsError::Url { .. })));
    }

    #[test]
    fn credentials_in_a_url_are_not_displayed() {
        let url = "http://user:secret@prometheus:9090/prefix/?tenant=a";
        let settings = Settings::new("p", url).unwrap();
        assert_eq!(settings.url_without_credentials(), "http://prometheus:9090/prefix");
        assert_eq!(settings.origin(), "http://prometheus:9090");
        let url = "ftp://user:secret@prometheus?token=secret";
        let error = Settings::new("p", url).unwrap_err().to_string();
        assert!(error.contains("prometheus") && !error.contains("secret"), "{error}");
    }

    #[rstest]
    #[case::value("X-Scope-OrgID=team", "x-scope-orgid", "team")]
    #[case::equals_sign("X-Tenant=a=b", "x-tenant", "a=b")]
    #[case::no_value("X-Empty", "x-empty", "")]
    fn headers_are_parsed(#[case] text: &str, #[case] name: &str, #[case] value: &str) {
        let header = parse_header(text).unwrap();
        assert_eq!((header.0.as_str(), header.1.to_str().unwrap()), (name, value));
    }

    #[test]
    fn credentials_in_an_invalid_header_are_not_displayed() {
        let error = parse_header("Authorization: Basic c2VjcmV0==").unwrap_err();
        assert_eq!(error, SettingsError::Header("Authorization".to_owned()));
    }

    #[test]
    fn verb_is_get_or_post() {
        assert_eq!("GET".parse(), Ok(Verb::Get));
        let error = "get".parse::<Verb>().unwrap_err().to_string();
        assert_eq!(
            error,
            r#"unsupported Prometheus HTTP verb "get"; supported verbs: "GET" and "POST""#
        );
    }

    #[test]
    fn incomplete_and_conflicting_credentials_are_refused() {
        let settings = || Settings::new("p", "http://p").unwrap();
        let key_only = Settings { client_key_file: Some("key".into()), ..settings() };
        assert_eq!(key_only.validate(), Err(SettingsError::IncompleteClientCertificate));
        let user_only = Settings { username: Some("me".into()), ..settings() };
        assert_eq!(user_only.validate(), Err(SettingsError::IncompleteBasicAuth));
        let token_and_user = Settings {
            token_file: Some("token".into()),
            password_file: Some("p".into()),
            ..user_only
        };
        assert_eq!(token_and_user.validate(), Err(SettingsError::ConflictingCredentials));
    }
}
