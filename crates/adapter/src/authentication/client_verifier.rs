//! The part of client authentication that belongs to the handshake.

use std::sync::Arc;

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

/// Asks clients for a certificate and checks that they have its key. Who issued it is checked for
/// each request: a client with an unknown certificate may have a valid token, a certificate of one
/// authority must not count for the other, and authorities can change.
#[derive(Debug)]
pub struct RequestedCertificates {
    algorithms: WebPkiSupportedAlgorithms,
}

impl RequestedCertificates {
    /// A verifier for a server.
    pub fn new() -> Arc<Self> {
        let algorithms = default_provider().signature_verification_algorithms;
        Arc::new(Self { algorithms })
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
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
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
