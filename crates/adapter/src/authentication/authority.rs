//! Certificate authorities of clients.

use std::{fmt, sync::Arc};

use tokio_rustls::rustls::{
    self, RootCertStore,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, UnixTime, pem, pem::PemObject},
    server::{VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
};

/// A bundle of certificate authorities.
#[derive(Clone)]
pub struct Authority {
    verifier: Arc<dyn ClientCertVerifier>,
    count: usize,
}

/// Why a bundle can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorityError {
    /// The text is not PEM.
    #[error("the bundle is not PEM")]
    Pem(#[source] pem::Error),
    /// The bundle has no certificate.
    #[error("the bundle has no certificate")]
    Empty,
    /// A certificate is malformed.
    #[error("the bundle has a malformed certificate")]
    Malformed(#[source] rustls::Error),
    /// The bundle can't be used.
    #[error("the bundle can't be used")]
    Unusable(#[source] VerifierBuilderError),
}

impl Authority {
    /// Reads a bundle in PEM.
    pub fn from_pem(bundle: &[u8]) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            let certificate = certificate.map_err(AuthorityError::Pem)?;
            roots.add(certificate).map_err(AuthorityError::Malformed)?;
        }
        if roots.is_empty() {
            return Err(AuthorityError::Empty);
        }
        let count = roots.len();
        let provider = Arc::new(default_provider());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = builder.build().map_err(AuthorityError::Unusable)?;
        Ok(Self { verifier, count })
    }

    /// Whether a certificate for clients was issued by the authority, and is valid now. The first
    /// certificate is that of the client, further ones lead to the authority.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let Some((client, intermediates)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        self.verifier.verify_client_cert(client, intermediates, UnixTime::now())?;
        Ok(())
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({} certificates)", self.count)
    }
}
