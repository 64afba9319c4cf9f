//! The clients and settings that collectors share, and what they return.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::Compat;
use hpa_calc::{MilliValue, api::CrossVersionObjectReference};
use hpa_prometheus::client::Client;
use http::Uri;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

#[cfg(any(feature = "zmon", feature = "nakadi"))]
use crate::fetch::settings::ServiceSettings;
#[cfg(feature = "sqs")]
use crate::fetch::sqs::state::Sqs;
use crate::fetch::{
    cluster::Cluster,
    error::FetchError,
    http::{Call, Http, at, url},
    settings::{Credential, Settings, SettingsError},
};

/// Reads values. It keeps none, and does nothing in the background.
pub struct Fetchers {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) compat: Compat,
    pub(crate) http: Http,
    pub(crate) prometheus: Option<Client>,
    pub(crate) prometheus_servers: BTreeMap<String, Client>,
    pub(crate) weight_annotations: Vec<String>,
    pub(crate) influx: Option<Service>,
    pub(crate) influx_org: String,
    #[cfg(feature = "zmon")]
    pub(crate) zmon: Option<Service>,
    #[cfg(feature = "nakadi")]
    pub(crate) nakadi: Option<Service>,
    #[cfg(feature = "sqs")]
    pub(crate) sqs: Sqs,
    credentials: Vec<(Uri, Credential)>,
}

/// A server of the operator.
pub(crate) struct Service {
    pub(crate) url: Uri,
    pub(crate) token: Option<Credential>,
}

impl fmt::Debug for Fetchers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetchers").field("compat", &self.compat).finish_non_exhaustive()
    }
}

/// The autoscaler that a value is read for, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The namespace of the autoscaler.
    pub namespace: &'a str,
    /// Its `scaleTargetRef`.
    pub target: &'a CrossVersionObjectReference,
    /// The time.
    pub now: Timestamp,
}

impl Context<'_> {
    /// The time now, of a collection that started at `start`.
    pub(crate) fn time_since(&self, start: Instant) -> Timestamp {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or_default();
        self.now.checked_add(elapsed).unwrap_or(self.now)
    }
}

/// What was read.
#[derive(Debug, Default)]
pub struct Fetched {
    /// One value for each pod, sorted by name, or one value.
    pub samples: Vec<Sample>,
    /// Pods that have no value, sorted by name.
    pub failures: Vec<PodFailure>,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The pod, if the plan reads pods.
    pub pod: Option<String>,
    /// The value.
    pub value: MilliValue,
    /// When it was measured.
    pub at: Timestamp,
}

/// A pod without a value.
#[derive(Debug)]
pub struct PodFailure {
    /// Its name.
    pub pod: String,
    /// Why it has none.
    pub error: FetchError,
}

impl Fetchers {
    /// Fetchers with these settings.
    pub fn new(settings: Settings, cluster: Arc<dyn Cluster>) -> Result<Self, SettingsError> {
        settings.validate()?;
        let http = Http::new(&settings);
        let origin = |(origin, credential): (String, Credential)| {
            let uri = url::parse(&origin).map_err(|_| SettingsError::Origin(origin))?;
            Ok((uri, credential))
        };
        let org = settings.influx.as_ref().map(|influx| influx.org.clone());
        let influx = settings
            .influx
            .map(|influx| Ok(Service { url: operator_url(&influx.address)?, token: influx.token }));
        Ok(Self {
            cluster,
            compat: settings.compat,
            http,
            prometheus: settings.prometheus,
            prometheus_servers: settings.prometheus_servers,
            weight_annotations: settings.weight_annotations,
            influx: influx.transpose()?,
            influx_org: org.unwrap_or_default(),
            #[cfg(feature = "zmon")]
            zmon: service(settings.zmon)?,
            #[cfg(feature = "nakadi")]
            nakadi: service(settings.nakadi)?,
            #[cfg(feature = "sqs")]
            sqs: Sqs::default(),
            credentials: settings.credentials.into_iter().map(origin).collect::<Result<_, _>>()?,
        })
    }

    #[cfg(test)]
    pub(crate) fn map_http(self, map: impl FnOnce(Http) -> Http) -> Self {
        Self { http: map(self.http), ..self }
    }

    /// Adds the operator's credential for the origin of a tenant's URL, if there is one.
    pub(crate) fn with_credential(&self, call: Call) -> Result<Call, FetchError> {
        self.with_credential_as("Bearer", call)
    }

    pub(crate) fn with_credential_as(&self, scheme: &str, call: Call) -> Result<Call, FetchError> {
        let is_origin = |(origin, _): &&(Uri, _)| url::is_same_origin(origin, &call.uri);
        let Some((_, credential)) = self.credentials.iter().find(is_origin) else {
            return Ok(call);
        };
        authorized(call, scheme, Some(credential))
    }
}

/// Adds a credential, if there is one.
pub(crate) fn authorized(
    call: Call,
    scheme: &str,
    credential: Option<&Credential>,
) -> Result<Call, FetchError> {
    let Some(credential) = credential else { return Ok(call) };
    let (token, uri) = (credential.read()?, call.uri.clone());
    call.authorized(scheme, &token).map_err(|source| at(&uri, source))
}

/// A URL of the operator.
fn operator_url(text: &str) -> Result<Uri, SettingsError> {
    url::parse(text).map_err(|_| {
        // Credentials are before an `@`.
        let url = text.rsplit('@').next().unwrap_or_default().to_owned();
        SettingsError::Url { url, problem: "must start with http:// or https://" }
    })
}

#[cfg(any(feature = "zmon", feature = "nakadi"))]
fn service(settings: Option<ServiceSettings>) -> Result<Option<Service>, SettingsError> {
    settings
        .map(|settings| {
            Ok(Service { url: operator_url(&settings.endpoint)?, token: settings.token })
        })
        .transpose()
}

impl Fetched {
    pub(crate) fn single(value: MilliValue, at: Timestamp) -> Self {
        Self { samples: vec![Sample { pod: None, value, at }], failures: Vec::new() }
    }
}
