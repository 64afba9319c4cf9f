//! The client of a connection: its address and certificate.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

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
    trust::{Authority, FrontProxy, Trust},
};
use crate::reviews::{LogLimit, User};

/// The lifetime of a verification result. A certificate that expires must end the access of an open
/// connection.
const VERIFIED_LIFETIME: Duration = Duration::from_secs(30);

/// The client of a connection.
pub struct Peer {
    address: IpAddr,
    certificate: Option<ClientCertificate>,
    is_authenticated: AtomicBool,
}

/// The certificate of a client. Only the possession of its key has been verified.
struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// `None` if [`Subject::of_certificate`] can't read it.
    subject: Option<Subject>,
    verified: Mutex<Option<(Arc<VerifiedPeer>, Instant)>>,
}

/// The result of verifying a certificate with the trusted CAs.
pub(super) struct VerifiedPeer {
    trust: Arc<Trust>,
    /// `None` if [`Subject::of_certificate`] can't read it.
    subject: Option<Subject>,
    /// `None` if no front proxy CA is trusted.
    front_proxy: Option<Result<(), String>>,
    client: Option<Result<(), String>>,
}

impl Peer {
    /// A client with the certificate chain of the handshake, which may be empty.
    pub fn new(address: IpAddr, chain: Vec<CertificateDer<'static>>) -> Self {
        let certificate = chain.first().map(|client| ClientCertificate {
            subject: Subject::of_certificate(client),
            verified: Mutex::new(None),
            chain: chain.clone(),
        });
        Self { address, certificate, is_authenticated: AtomicBool::new(false) }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Records that a request had valid credentials.
    pub(crate) fn set_authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }

    /// Verifies the certificate, if there is one.
    pub(super) fn verify(&self, trust: &Arc<Trust>) -> Option<Arc<VerifiedPeer>> {
        Some(self.certificate.as_ref()?.verify(trust))
    }
}

impl ClientCertificate {
    /// Verifies the certificate, or returns a recent result for the same CAs.
    fn verify(&self, trust: &Arc<Trust>) -> Arc<VerifiedPeer> {
        let mut cached = self.verified.lock();
        if let Some((verified, until)) = &*cached
            && Arc::ptr_eq(&verified.trust, trust)
            && Instant::now() < *until
        {
            return verified.clone();
        }
        let verify = |authority: &Authority| {
            authority.verify(&self.chain, UnixTime::now()).map_err(|error| error.to_string())
        };
        let verified = Arc::new(VerifiedPeer {
            subject: self.subject.clone(),
            front_proxy: trust.front_proxy.as_ref().map(|proxy| verify(&proxy.authority)),
            client: trust.client_authority.as_ref().map(verify),
            trust: trust.clone(),
        });
        *cached = Some((verified.clone(), Instant::now() + VERIFIED_LIFETIME));
        verified
    }
}

impl VerifiedPeer {
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
        let (Some(proxy), Some(verified)) = (&self.trust.front_proxy, &self.front_proxy) else {
            return Ok(None);
        };
        verified.clone()?;
        let common_name = &self.subject()?.common_name;
        if !proxy.allows(common_name) {
            return Err(format!("the common name {common_name:?} is not allowed"));
        }
        Ok(Some(proxy))
    }

    pub(super) fn certificate_user(&self) -> Result<Option<User>, String> {
        let Some(verified) = &self.client else { return Ok(None) };
        verified.clone()?;
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

/// Requests a certificate from clients and verifies that they have its key. The handshake doesn't
/// verify the issuer, each request does: a client with an unknown certificate may have a valid
/// token, the CAs of clients and of front proxies are separate, and CAs may change.
#[derive(Debug)]
pub struct RequestedCertificates {
    algorithms: WebPkiSupportedAlgorithms,
    warnings: LogLimit,
}

/// Go accepts certificates of version 1, rustls doesn't.
const VERSION_1_ERROR: &str =
    "the client's certificate has X.509 version 1, which is not supported";

impl RequestedCertificates {
    pub fn new() -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { algorithms, warnings: LogLimit::default() })
    }
}

impl ClientCertVerifier for RequestedCertificates {
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
            if self.warnings.is_due() {
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
