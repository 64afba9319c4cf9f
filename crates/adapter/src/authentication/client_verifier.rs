//! The part of client authentication that belongs to the handshake.

use std::sync::Arc;

use crate::reviews::LogLimit;
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

use crate::der::{Subject, has_version_1};

/// Asks clients for a certificate and checks that they have its key. Who issued it is checked for
/// each request: a client with an unknown certificate may have a valid token, a certificate of one
/// authority must not count for the other, and authorities can change.
#[derive(Debug)]
pub struct RequestedCertificates {
    algorithms: WebPkiSupportedAlgorithms,
    warnings: LogLimit,
}

/// Go accepts such certificates, rustls doesn't.
const VERSION_1: &str = "the client's certificate has X.509 version 1, which is not supported";

impl RequestedCertificates {
    /// A verifier for a server.
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
        // The handshake would fail later, with an error that doesn't say what to do.
        if has_version_1(end_entity) == Some(true) {
            if self.warnings.is_due() {
                let subject = Subject::of_certificate(end_entity).unwrap_or_default();
                let name = subject.common_name;
                warn!(name, "{VERSION_1}: issue it with version 3, that is with extensions");
            }
            return Err(Error::General(VERSION_1.to_owned()));
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
