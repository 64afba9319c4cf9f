//! Serving certificates: read from files and reloaded when they change, or set by the caller.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use prometheus::IntGauge;
use tokio::time::Instant;
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
    /// The chain and the key. `None` if the caller sets the certificate.
    files: Option<(PathBuf, PathBuf)>,
    state: Mutex<State>,
    not_after_gauge: IntGauge,
}

struct State {
    loaded: LoadedCertificate,
    modified: ModificationTimes,
    /// The time of the last warning that this certificate expires.
    warned_at: Option<Instant>,
}

struct LoadedCertificate {
    acceptor: TlsAcceptor,
    /// The end of the validity.
    not_after: Timestamp,
}

/// Modification times of the chain and the key. They also change when the kubelet updates a mounted
/// Secret by replacing a symlink.
type ModificationTimes = (Option<SystemTime>, Option<SystemTime>);

/// The remaining validity below which a certificate is reported.
const WARNING_PERIOD: SignedDuration = SignedDuration::from_hours(7 * 24);

const WARNING_INTERVAL: Duration = Duration::from_hours(24);

impl ServingCertificate {
    /// Reads a certificate chain and its key from files.
    pub fn from_files(
        chain: PathBuf,
        key: PathBuf,
        handshake: HandshakeSettings,
    ) -> Result<Self, SetupError> {
        let modified = (modification_time(&chain), modification_time(&key));
        let loaded = load_files(&chain, &key, &handshake)?;
        let served = Self::new(handshake, Some((chain, key)), loaded, modified)?;
        served.warn_of_expiry(&mut served.state.lock());
        Ok(served)
    }

    /// Uses a certificate chain and its key in PEM.
    pub fn from_pem(
        chain: &str,
        key: &str,
        handshake: HandshakeSettings,
    ) -> Result<Self, SetupError> {
        let loaded = load_given(chain, key, &handshake)?;
        Self::new(handshake, None, loaded, (None, None))
    }

    fn new(
        handshake: HandshakeSettings,
        files: Option<(PathBuf, PathBuf)>,
        loaded: LoadedCertificate,
        modified: ModificationTimes,
    ) -> Result<Self, SetupError> {
        let not_after_gauge = IntGauge::new(
            "hpa_serving_certificate_not_after_timestamp_seconds",
            "When the serving certificate expires",
        );
        let not_after_gauge = not_after_gauge
            .map_err(|error| SetupError::caused_by("unable to create a metric", error))?;
        not_after_gauge.set(loaded.not_after.as_second());
        let state = Mutex::new(State { loaded, modified, warned_at: None });
        Ok(Self { handshake, files, state, not_after_gauge })
    }

    /// The metric with the end of the current certificate's validity, to be registered.
    pub fn not_after_gauge(&self) -> IntGauge {
        self.not_after_gauge.clone()
    }

    /// Whether the current certificate has expired.
    pub(crate) fn has_expired(&self) -> bool {
        self.state.lock().loaded.not_after < Timestamp::now()
    }

    /// Replaces the certificate for new connections.
    pub fn replace(&self, chain: &str, key: &str) -> Result<(), SetupError> {
        let loaded = load_given(chain, key, &self.handshake)?;
        self.set_loaded(&mut self.state.lock(), loaded);
        Ok(())
    }

    /// Returns an acceptor for the current files, or for the certificate that the caller has set.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock();
        self.reload_changed_files(&mut state);
        self.warn_of_expiry(&mut state);
        state.loaded.acceptor.clone()
    }

    /// Loads the files if they have changed. If they are unusable, keeps the last certificate.
    fn reload_changed_files(&self, state: &mut State) {
        let Some((chain, key)) = &self.files else { return };
        let modified = (modification_time(chain), modification_time(key));
        if modified == state.modified {
            return;
        }
        state.modified = modified;
        match load_files(chain, key, &self.handshake) {
            Ok(loaded) => {
                info!("reloaded the serving certificate");
                self.set_loaded(state, loaded);
            }
            Err(error) => {
                let error = hpa_metrics::describe(&error);
                warn!(error, "unable to reload the serving certificate; keeping the old one");
            }
        }
    }

    fn set_loaded(&self, state: &mut State, loaded: LoadedCertificate) {
        self.not_after_gauge.set(loaded.not_after.as_second());
        state.loaded = loaded;
        state.warned_at = None;
    }

    /// Warns once a day of a certificate that has expired or expires within a week. Each connection
    /// calls this instead of a timer, because the validity only matters to clients.
    fn warn_of_expiry(&self, state: &mut State) {
        let now = Timestamp::now();
        if !state.take_expiry_warning(now) {
            return;
        }
        let not_after = state.loaded.not_after;
        let certificate = self.files.as_ref().map(|(chain, _)| chain.display().to_string());
        if not_after < now {
            warn!(
                certificate,
                %not_after,
                "the serving certificate has expired, so clients that verify it refuse it"
            );
        } else {
            warn!(
                certificate,
                %not_after,
                "the serving certificate expires soon; clients that verify it will refuse it"
            );
        }
    }
}

impl State {
    /// Whether to warn now that the certificate expires. If so, the next warning is due in a day.
    fn take_expiry_warning(&mut self, now: Timestamp) -> bool {
        let is_due = self.loaded.not_after.duration_since(now) < WARNING_PERIOD
            && self.warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            self.warned_at = Some(Instant::now());
        }
        is_due
    }
}

fn modification_time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// PEM, and its file or a description.
type Pem<'a> = (&'a [u8], &'a str);

fn load_files(
    chain: &Path,
    key: &Path,
    handshake: &HandshakeSettings,
) -> Result<LoadedCertificate, SetupError> {
    let read = |path: &Path| {
        let unreadable = || format!("unable to read {}", path.display());
        fs::read(path).map_err(|error| SetupError::caused_by(unreadable(), error))
    };
    let (chain_origin, key_origin) = (chain.display().to_string(), key.display().to_string());
    load_pem((&read(chain)?, &chain_origin), (&read(key)?, &key_origin), handshake)
}

fn load_given(
    chain: &str,
    key: &str,
    handshake: &HandshakeSettings,
) -> Result<LoadedCertificate, SetupError> {
    let (chain, key) = (chain.as_bytes(), key.as_bytes());
    load_pem((chain, "the given chain"), (key, "the given key"), handshake)
}

fn load_pem(
    (chain, chain_origin): Pem<'_>,
    (key, key_origin): Pem<'_>,
    handshake: &HandshakeSettings,
) -> Result<LoadedCertificate, SetupError> {
    let unusable = |origin: &str, error: pem::Error| {
        SetupError::caused_by(format!("unable to use {origin}"), error)
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(chain_origin, error))?;
    let Some(server) = chain.first().cloned() else {
        return Err(unusable(chain_origin, pem::Error::NoItemsFound));
    };
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
    let not_after = not_after(&server)
        .map_err(|error| SetupError::caused_by(format!("unable to use {chain_origin}"), error))?;
    Ok(LoadedCertificate { acceptor: TlsAcceptor::from(Arc::new(config)), not_after })
}

/// The end of a certificate's validity. rustls has it only in the error for an expired certificate,
/// so the certificate is verified at the latest time. The validity is verified before the issuer.
fn not_after(certificate: &CertificateDer<'_>) -> Result<Timestamp, rustls::Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    let algorithms = default_provider().signature_verification_algorithms.all;
    let roots = RootCertStore::empty();
    let latest = Duration::from_secs(Timestamp::MAX.as_second().unsigned_abs());
    let latest = UnixTime::since_unix_epoch(latest);
    let verified =
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], latest, algorithms);
    let end = match verified {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext {
            not_after,
            ..
        })) => i64::try_from(not_after.as_secs()).ok(),
        Err(rustls::Error::InvalidCertificate(CertificateError::Expired)) => {
            let reason = "the validity of the certificate ends before it starts";
            return Err(rustls::Error::General(reason.to_owned()));
        }
        _ => None,
    };
    // The last second of the year 9999 stands for a certificate that never expires.
    Ok(end.and_then(|end| Timestamp::from_second(end).ok()).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        CertificateParams, CertifiedKey, KeyPair, date_time_ymd, generate_simple_self_signed,
    };
    use tokio::io::duplex;
    use tokio_rustls::{TlsConnector, rustls::ClientConfig};

    use super::*;

    /// A certificate chain that expired in 2020, and its key.
    fn expired() -> (String, String) {
        valid_between(2019, 2020)
    }

    /// A certificate chain that is valid between the starts of two years, and its key.
    fn valid_between(start: i32, end: i32) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = date_time_ymd(start, 1, 1);
        params.not_after = date_time_ymd(end, 1, 1);
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

    fn served((chain, key): &(String, String)) -> ServingCertificate {
        ServingCertificate::from_pem(chain, key, HandshakeSettings::default()).unwrap()
    }

    #[test]
    fn metric_has_the_end_of_the_current_certificate() {
        let served = served(&expired());
        let end = || Timestamp::from_second(served.not_after_gauge().get()).unwrap().to_string();
        assert_eq!(end(), "2020-01-01T00:00:00Z");
        let (chain, key) = self_signed();
        served.replace(&chain, &key).unwrap();
        assert_eq!(end(), "4096-01-01T00:00:00Z");
    }

    #[tokio::test(start_paused = true)]
    async fn expiry_is_reported_a_week_ahead_and_then_once_a_day() {
        let served = served(&expired());
        let is_due = |now: &str| served.state.lock().take_expiry_warning(now.parse().unwrap());
        assert!(!is_due("2019-12-24T23:00:00Z"));
        assert!(is_due("2019-12-25T01:00:00Z") && !is_due("2020-01-02T00:00:00Z"));
        tokio::time::advance(WARNING_INTERVAL).await;
        assert!(is_due("2020-01-02T00:00:00Z"));
        let (chain, key) = expired();
        served.replace(&chain, &key).unwrap();
        assert!(is_due("2020-01-02T00:00:00Z"), "another certificate");
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
            ServingCertificate::from_pem(chain, key, HandshakeSettings::default())
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
    fn certificate_that_is_never_valid_is_refused() {
        let (chain, key) = valid_between(2020, 2019);
        let loaded = ServingCertificate::from_pem(&chain, &key, HandshakeSettings::default());
        let error = loaded.err().expect("an invalid certificate");
        let text = hpa_metrics::describe(&error);
        assert!(text.starts_with("unable to use the given chain: "), "{text}");
        assert!(text.ends_with("the validity of the certificate ends before it starts"), "{text}");
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
