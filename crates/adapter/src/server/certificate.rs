//! Serving certificates: read from files and reloaded when they change, or set by the caller.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, CertificateError, RootCertStore, ServerConfig, SupportedProtocolVersion,
        client::verify_server_cert_signed_by_trust_anchor,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem, pem::PemObject},
        server::{ParsedCertificate, danger::ClientCertVerifier},
    },
};
use tracing::{info, warn};

use crate::error::SetupError;

/// The requirements of a TLS handshake.
#[derive(Clone, Default)]
pub struct HandshakeSettings {
    /// Verifies client certificates. `None`: none are requested.
    pub client_verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// The ALPN protocols by preference. Empty disables ALPN.
    pub protocols: Vec<Vec<u8>>,
    /// The TLS versions. Empty means 1.2 and 1.3.
    pub versions: Vec<&'static SupportedProtocolVersion>,
}

/// The serving certificate of a server.
pub struct ServingCertificate {
    handshake: HandshakeSettings,
    files: Option<(PathBuf, PathBuf)>,
    loaded: Mutex<LoadedCertificate>,
}

struct LoadedCertificate {
    acceptor: TlsAcceptor,
    modified: ModificationTimes,
}

/// Modification times of the chain and the key. They also change when the kubelet updates a mounted
/// Secret by replacing a symlink.
type ModificationTimes = (Option<SystemTime>, Option<SystemTime>);

impl ServingCertificate {
    /// Reads a certificate chain and its key from files.
    pub fn from_files(
        chain: PathBuf,
        key: PathBuf,
        handshake: HandshakeSettings,
    ) -> Result<Self, SetupError> {
        let modified = (modification_time(&chain), modification_time(&key));
        let acceptor = load_files(&chain, &key, &handshake)?;
        let loaded = Mutex::new(LoadedCertificate { acceptor, modified });
        Ok(Self { handshake, files: Some((chain, key)), loaded })
    }

    /// Uses a certificate chain and its key in PEM.
    pub fn from_pem(
        chain: &[u8],
        key: &[u8],
        handshake: HandshakeSettings,
    ) -> Result<Self, SetupError> {
        let acceptor = new_acceptor((chain, GIVEN_CHAIN), (key, GIVEN_KEY), &handshake)?;
        let loaded = Mutex::new(LoadedCertificate { acceptor, modified: (None, None) });
        Ok(Self { handshake, files: None, loaded })
    }

    /// Replaces the certificate for new connections.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), SetupError> {
        let acceptor = new_acceptor((chain, GIVEN_CHAIN), (key, GIVEN_KEY), &self.handshake)?;
        self.loaded.lock().acceptor = acceptor;
        Ok(())
    }

    /// Returns an acceptor for the current files, or for the certificate that the caller has set.
    /// If changed files are unusable, keeps the last certificate.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        let Some((chain, key)) = &self.files else { return loaded.acceptor.clone() };
        let modified = (modification_time(chain), modification_time(key));
        if modified != loaded.modified {
            loaded.modified = modified;
            match load_files(chain, key, &self.handshake) {
                Ok(acceptor) => {
                    info!("reloaded the serving certificate");
                    loaded.acceptor = acceptor;
                }
                Err(error) => {
                    let error = hpa_metrics::describe(&error);
                    warn!(error, "unable to reload the serving certificate; keeping the old one");
                }
            }
        }
        loaded.acceptor.clone()
    }
}

fn modification_time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

const GIVEN_CHAIN: &str = "the given chain";
const GIVEN_KEY: &str = "the given key";

/// PEM, and its file or a description.
type Pem<'a> = (&'a [u8], &'a str);

fn load_files(
    chain: &Path,
    key: &Path,
    handshake: &HandshakeSettings,
) -> Result<TlsAcceptor, SetupError> {
    let read = |path: &Path| {
        let unreadable = || format!("unable to read {}", path.display());
        fs::read(path).map_err(|error| SetupError::caused_by(unreadable(), error))
    };
    let (chain_origin, key_origin) = (chain.display().to_string(), key.display().to_string());
    new_acceptor((&read(chain)?, &chain_origin), (&read(key)?, &key_origin), handshake)
}

fn new_acceptor(
    (chain, chain_origin): Pem<'_>,
    (key, key_origin): Pem<'_>,
    handshake: &HandshakeSettings,
) -> Result<TlsAcceptor, SetupError> {
    let unusable = |origin: &str, error: pem::Error| {
        SetupError::caused_by(format!("unable to use {origin}"), error)
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(chain_origin, error))?;
    if chain.is_empty() {
        return Err(unusable(chain_origin, pem::Error::NoItemsFound));
    }
    if let Some(end) = chain.first().and_then(expired_at) {
        warn!(
            certificate = chain_origin,
            expired_at = %end,
            "the serving certificate has expired, so clients that verify it refuse it"
        );
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(key_origin, error))?;
    let versions = match handshake.versions.as_slice() {
        [] => rustls::DEFAULT_VERSIONS,
        versions => versions,
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .map_err(|error| SetupError::caused_by("the TLS settings are invalid", error))?;
    let builder = match &handshake.client_verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let message = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("{key_origin} does not match {chain_origin}")
            }
            _ => format!("unable to use {key_origin} with {chain_origin}"),
        };
        SetupError::caused_by(message, error)
    })?;
    config.alpn_protocols.clone_from(&handshake.protocols);
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The time at which a certificate expired. `None` if it hasn't.
fn expired_at(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    // The validity is verified first. Without roots, a valid certificate has another error.
    let roots = RootCertStore::empty();
    let now = UnixTime::now();
    let verified =
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], now, algorithms);
    match verified {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => Timestamp::from_second(i64::try_from(not_after.as_secs()).ok()?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{
        CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed,
    };
    use tokio::io::duplex;
    use tokio_rustls::{TlsConnector, rustls::ClientConfig};

    use super::*;

    /// A certificate chain that expired in 2020, and its key.
    fn expired() -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    /// The error of a client that trusts a certificate, if its handshake fails.
    async fn handshake_error(served: &ServingCertificate, trusted: &str) -> Option<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (server_end, client_end) = duplex(64 << 10);
        let connector = TlsConnector::from(Arc::new(config));
        let connect = connector.connect("localhost".try_into().unwrap(), client_end);
        let (_, connected) = tokio::join!(served.acceptor().accept(server_end), connect);
        connected.err().map(|error| error.to_string())
    }

    /// An expired or unusable file must not end the server: the next one may be usable.
    #[tokio::test]
    async fn changed_files_replace_an_expired_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let files = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let mut modified = SystemTime::now();
        let mut write = |(chain, key): &(String, String)| {
            modified += Duration::from_secs(1);
            for (path, text) in [(&files.0, chain), (&files.1, key)] {
                fs::write(path, text).unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
            }
        };
        let (old, new) = (expired(), self_signed());
        write(&old);
        let handshake = HandshakeSettings::default();
        let (chain, key) = files.clone();
        let served = ServingCertificate::from_files(chain, key, handshake).unwrap();
        let error = handshake_error(&served, &old.0).await.unwrap();
        assert!(error.to_lowercase().contains("expired"), "{error}");
        write(&("garbage".to_owned(), "garbage".to_owned()));
        let error = handshake_error(&served, &old.0).await.unwrap();
        assert!(error.to_lowercase().contains("expired"), "the old one stays in use: {error}");
        write(&new);
        assert_eq!(handshake_error(&served, &new.0).await, None);
    }

    /// A certificate chain and its key.
    fn self_signed() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn expired_certificate_is_known_by_its_end() {
        let end = |(chain, _): (String, String)| {
            let certificate = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
            expired_at(&certificate).map(|end| end.to_string())
        };
        assert_eq!(end(expired()).as_deref(), Some("2020-01-01T00:00:00Z"));
        assert_eq!(end(self_signed()), None);
    }

    /// Well-formed PEM whose content is garbage.
    fn garbage_pem(label: &str) -> String {
        format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n")
    }

    #[test]
    fn certificate_and_key_must_match() {
        let (chain, key) = self_signed();
        let (_, other) = self_signed();
        let load = |chain: &str, key: &str| {
            ServingCertificate::from_pem(
                chain.as_bytes(),
                key.as_bytes(),
                HandshakeSettings::default(),
            )
            .map(drop)
            .map_err(|error| error.to_string())
        };
        assert_eq!(load(&chain, &key), Ok(()));
        let mismatch = "the given key does not match the given chain";
        assert_eq!(load(&chain, &other), Err(mismatch.to_owned()));
        let unusable = "unable to use the given key with the given chain";
        let (certificate_garbage, key_garbage) =
            (garbage_pem("CERTIFICATE"), garbage_pem("PRIVATE KEY"));
        assert_eq!(load(&chain, &key_garbage), Err(unusable.to_owned()));
        assert_eq!(load(&certificate_garbage, &key), Err(unusable.to_owned()));
        assert_eq!(load("", &key), Err("unable to use the given chain".to_owned()));
        assert_eq!(load(&chain, ""), Err("unable to use the given key".to_owned()));
    }

    #[test]
    fn missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("tls.crt");
        let loaded = ServingCertificate::from_files(
            missing.clone(),
            missing.clone(),
            HandshakeSettings::default(),
        );
        let error = loaded.err().expect("there is no file").to_string();
        assert_eq!(error, format!("unable to read {}", missing.display()));
    }
}
