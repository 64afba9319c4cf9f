//! The trusted CAs of clients, and the front proxies with their headers.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls::{
    self, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};

use crate::{error::SetupError, reviews::User};

/// The trusted certificates and names.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The front proxies, if any.
    pub front_proxy: Option<FrontProxy>,
    /// The CA of client certificates. `None`: client certificates name no user.
    pub client_ca_bundle: Option<CaBundle>,
}

const CLIENT_CA: &str = "client-ca-file";
const FRONT_PROXY_CA: &str = "requestheader-client-ca-file";

impl Trust {
    /// Reads the data of the ConfigMap `kube-system/extension-apiserver-authentication`.
    pub fn from_cluster(data: &BTreeMap<String, String>) -> Result<Self, SetupError> {
        let bundle = |key: &str| {
            let text = data.get(key).filter(|text| !text.trim().is_empty());
            let ca_bundle = text.map(|text| CaBundle::from_pem(text.as_bytes())).transpose();
            ca_bundle.map_err(|error| SetupError::caused_by(format!("{key} is invalid"), error))
        };
        let list = |key: &str| match data.get(key).filter(|text| !text.is_empty()) {
            Some(text) => serde_json::from_str::<Vec<String>>(text).map_err(|error| {
                SetupError::caused_by(format!("{key} is not a JSON list of strings"), error)
            }),
            None => Ok(Vec::new()),
        };
        let front_proxy = match bundle(FRONT_PROXY_CA)? {
            Some(ca_bundle) => {
                let names = FrontProxyNames {
                    allowed: list("requestheader-allowed-names")?,
                    username_headers: list("requestheader-username-headers")?,
                    uid_headers: list("requestheader-uid-headers")?,
                    group_headers: list("requestheader-group-headers")?,
                    extra_header_prefixes: list("requestheader-extra-headers-prefix")?,
                };
                Some(FrontProxy { ca_bundle, names })
            }
            None => None,
        };
        Ok(Self { front_proxy, client_ca_bundle: bundle(CLIENT_CA)? })
    }
}

/// Certificate authorities that issue certificates of clients.
#[derive(Clone, Debug)]
pub struct CaBundle(Arc<dyn ClientCertVerifier>);

impl CaBundle {
    pub fn from_pem(bundle: &[u8]) -> Result<Self, SetupError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            let certificate = certificate
                .map_err(|error| SetupError::caused_by("the bundle is not PEM", error))?;
            roots.add(certificate).map_err(|error| {
                SetupError::caused_by("the bundle has a malformed certificate", error)
            })?;
        }
        if roots.is_empty() {
            return Err(SetupError::new("the bundle has no certificate"));
        }
        let provider = Arc::new(default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = builder
            .build()
            .map_err(|error| SetupError::caused_by("the bundle can't be used", error))?;
        Ok(Self(verifier))
    }

    /// Verifies that a CA of the bundle issued the client's certificate, that it is for client
    /// authentication, and that it is valid at `now`. The first certificate of the chain is that of
    /// the client.
    pub(crate) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let Some((client, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        self.0.verify_client_cert(client, intermediates, now)?;
        Ok(())
    }
}

/// The front proxies, such as kube-apiserver, that are trusted to name users in headers.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// The CA of the proxies' certificates.
    pub ca_bundle: CaBundle,
    pub names: FrontProxyNames,
}

/// The names of front proxies and of their headers.
#[derive(Clone, Debug)]
pub struct FrontProxyNames {
    /// The permitted common names of proxies. If empty, all are permitted.
    pub allowed: Vec<String>,
    /// Headers with the name of the user. The first one that is not empty is used.
    pub username_headers: Vec<String>,
    /// Headers with the UID of the user. The first one that is not empty is used.
    pub uid_headers: Vec<String>,
    /// Headers with one group each.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with extra attributes.
    pub extra_header_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Whether a proxy with this common name is trusted.
    pub(super) fn allows(&self, common_name: &str) -> bool {
        let allowed = &self.names.allowed;
        allowed.is_empty() || allowed.iter().any(|name| name == common_name)
    }

    /// The user in the headers. `None` if there is no name.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let names = &self.names;
        let name = first_value(headers, &names.username_headers)?;
        let groups = names.group_headers.iter().flat_map(|header| values(headers, header));
        Some(User {
            name,
            uid: first_value(headers, &names.uid_headers).unwrap_or_default(),
            groups: groups.filter(|group| !group.is_empty()).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.names.extra_header_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for name in headers.keys() {
                let Some(key) = name.as_str().strip_prefix(&prefix) else { continue };
                let decoded = percent_decode_str(key).decode_utf8();
                let key = decoded.map_or_else(|_| key.to_owned(), Cow::into_owned);
                extra.entry(key).or_default().extend(values(headers, name.as_str()));
            }
        }
        extra
    }
}

/// The first value of the first header that is not empty.
fn first_value(headers: &HeaderMap, names: &[String]) -> Option<String> {
    let first = |name: &String| values(headers, name).next().filter(|value| !value.is_empty());
    names.iter().find_map(first)
}

/// The values of a header. Bytes that are not UTF-8 become U+FFFD, so the value can't equal a valid
/// name by accident.
fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = String> + use<'h> {
    let values = headers.get_all(name).iter();
    values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}
