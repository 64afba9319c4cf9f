//! The client of a connection: its address and certificate.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use hpa_metrics::LogLimit;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{
        WebPkiSupportedAlgorithms, ring::default_provider, verify_tls12_signature,
        verify_tls13_signature,
    },
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use tracing::warn;

use super::{
    der::{Subject, has_version_1},
    trust::{CaBundle, FrontProxy, Trust},
};
use crate::reviews::{Flow, User};

/// The lifetime of a cached verification. A certificate that expires must end the access of an open
/// connection.
const VERIFICATION_LIFETIME: Duration = Duration::from_secs(30);

/// The client of a connection.
pub struct Peer {
    address: IpAddr,
    certificate: Option<ClientCertificate>,
    known: OnceLock<KnownClient>,
}

/// A client that has sent a request with valid credentials.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KnownClient {
    /// A front proxy, or a member of `system:masters`.
    Trusted,
    /// Any other user.
    User(Flow),
}

/// The certificate of a client. Only the possession of its key has been verified.
struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// `None` if [`Subject::of_certificate`] can't read it.
    subject: Option<Subject>,
    verification: Mutex<Option<(Arc<Verification>, Instant)>>,
}

/// The results of verifying a certificate with the CAs of front proxies and with those of clients.
pub(super) struct Verification {
    trust: Arc<Trust>,
    /// `None` if [`Subject::of_certificate`] can't read it.
    subject: Option<Subject>,
    /// Whether a CA of front proxies issued the certificate. `None` if no such CA is trusted.
    front_proxy_outcome: Option<Result<(), String>>,
    /// Whether a CA of clients issued the certificate. `None` if no such CA is trusted.
    client_outcome: Option<Result<(), String>>,
}

impl Peer {
    /// A client with the certificate chain of the handshake, which may be empty.
    pub fn new(address: IpAddr, chain: Vec<CertificateDer<'static>>) -> Self {
        let certificate = chain.first().map(|client| ClientCertificate {
            subject: Subject::of_certificate(client),
            verification: Mutex::new(None),
            chain: chain.clone(),
        });
        Self { address, certificate, known: OnceLock::new() }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Records that a request had valid credentials. The first one of a connection counts.
    pub(crate) fn set_known(&self, client: KnownClient) {
        self.known.set(client).ok();
    }

    /// `None` if no request had valid credentials yet.
    pub(crate) fn known(&self) -> Option<KnownClient> {
        self.known.get().copied()
    }

    /// Verifies the certificate, if there is one.
    pub(super) fn verify(&self, trust: &Arc<Trust>) -> Option<Arc<Verification>> {
        Some(self.certificate.as_ref()?.verify(trust))
    }
}

impl ClientCertificate {
    /// Verifies the certificate, or returns a recent result for the same CAs.
    fn verify(&self, trust: &Arc<Trust>) -> Arc<Verification> {
        let mut cached = self.verification.lock();
        if let Some((verification, until)) = &*cached
            && Arc::ptr_eq(&verification.trust, trust)
            && Instant::now() < *until
        {
            return verification.clone();
        }
        let verify = |ca_bundle: &CaBundle| {
            ca_bundle.verify(&self.chain, UnixTime::now()).map_err(|error| error.to_string())
        };
        let verification = Arc::new(Verification {
            subject: self.subject.clone(),
            front_proxy_outcome: trust.front_proxy.as_ref().map(|proxy| verify(&proxy.ca_bundle)),
            client_outcome: trust.client_ca_bundle.as_ref().map(verify),
            trust: trust.clone(),
        });
        *cached = Some((verification.clone(), Instant::now() + VERIFICATION_LIFETIME));
        verification
    }
}

impl Verification {
    /// The user in the headers, if the client is a front proxy.
    pub(super) fn front_proxy_user(&self, headers: &HeaderMap) -> Result<Option<User>, String> {
        let proxy = self.front_proxy()?;
        Ok(proxy.and_then(|proxy| proxy.user(headers)))
    }

    /// Whether the client is a front proxy.
    pub(super) fn is_front_proxy(&self) -> bool {
        matches!(self.front_proxy(), Ok(Some(_)))
    }

    /// The trusted front proxies, if the client is one of them. `None` if no front proxies are
    /// trusted. Fails if the certificate is not that of a front proxy.
    fn front_proxy(&self) -> Result<Option<&FrontProxy>, String> {
        let (proxy, outcome) = (&self.trust.front_proxy, &self.front_proxy_outcome);
        let (Some(proxy), Some(outcome)) = (proxy, outcome) else { return Ok(None) };
        outcome.clone()?;
        let common_name = &self.subject()?.common_name;
        if !proxy.allows(common_name) {
            return Err(format!("the common name {common_name:?} is not allowed"));
        }
        Ok(Some(proxy))
    }

    /// The user that the certificate names. `None` if no CA of clients is trusted, or if the common
    /// name is empty. Fails if no trusted CA issued the certificate.
    pub(super) fn certificate_user(&self) -> Result<Option<User>, String> {
        let Some(outcome) = &self.client_outcome else { return Ok(None) };
        outcome.clone()?;
        let Subject { common_name, organizations } = self.subject()?.clone();
        if common_name.is_empty() {
            return Ok(None);
        }
        Ok(Some(User { name: common_name, groups: organizations, ..User::default() }))
    }

    fn subject(&self) -> Result<&Subject, String> {
        self.subject.as_ref().ok_or_else(|| "the subject is malformed".to_owned())
    }
}

/// Requests a certificate from clients and verifies that they have its key. The issuer is verified
/// for each request and not in the handshake: a client with an unknown certificate may have a valid
/// token, the CAs of clients and of front proxies are separate, and CAs may change.
#[derive(Debug)]
pub struct ClientKeyVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// Any client can cause the warning.
    warnings: LogLimit,
}

/// Go accepts certificates of version 1, rustls doesn't.
const VERSION_1_ERROR: &str =
    "the client's certificate has X.509 version 1, which is not supported";

impl ClientKeyVerifier {
    pub fn new() -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { algorithms, warnings: LogLimit::default() })
    }
}

impl ClientCertVerifier for ClientKeyVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // rustls would reject it later, with an unhelpful error.
        if has_version_1(end_entity) == Some(true) {
            if self.warnings.try_acquire() {
                let subject = Subject::of_certificate(end_entity).unwrap_or_default();
                let name = subject.common_name;
                warn!(name, "{VERSION_1_ERROR}: reissue it with version 3 (with extensions)");
            }
            return Err(Error::General(VERSION_1_ERROR.to_owned()));
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
