//! TLS settings of connections.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use hpa_metrics::describe;
use parking_lot::Mutex;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use crate::settings::{SettingsError, read_file};

/// TLS settings with the CAs of the system and of a file. The file is read again when it changes.
pub(crate) struct Tls {
    ca_file: Option<PathBuf>,
    current: Mutex<Option<(FileVersion, Arc<ClientConfig>)>>,
}

/// The modification time and the length of a file. `None` if they can't be read.
type FileVersion = Option<(SystemTime, u64)>;

impl Tls {
    pub(crate) fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, current: Mutex::new(None) }
    }

    /// Returns the settings. If a changed file is invalid, the previous settings stay in use.
    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, SettingsError> {
        let version = self.ca_file.as_deref().and_then(file_version);
        let mut current = self.current.lock();
        if let Some((cached, config)) = &*current
            && *cached == version
        {
            return Ok(config.clone());
        }
        let config = match (client_config(self.ca_file.as_deref()), &*current) {
            (Ok(config), _) => Arc::new(config),
            (Err(error), None) => return Err(error),
            (Err(error), Some((_, previous))) => {
                tracing::warn!(
                    error = describe(&error),
                    "unable to read the changed CA file of collectors, using the previous \
                     certificates"
                );
                previous.clone()
            }
        };
        // Stored also after a failure, so that an invalid file isn't read for each connection.
        *current = Some((version, config.clone()));
        Ok(config)
    }
}

fn file_version(path: &Path) -> FileVersion {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn client_config(ca_file: Option<&Path>) -> Result<ClientConfig, SettingsError> {
    let mut roots = RootCertStore::empty();
    // A system without CAs is valid. Without any CA, handshakes fail.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let file = path.display();
        let unusable = |problem: &dyn std::error::Error| {
            let message = format!("{file} has a certificate that can't be used: {problem}");
            SettingsError::Invalid(message)
        };
        let text = read_file(path)?;
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
            let certificate = certificate.map_err(|error| unusable(&error))?;
            roots.add(certificate).map_err(|error| unusable(&error))?;
            count += 1;
        }
        if count == 0 {
            return Err(SettingsError::Invalid(format!("{file} has no certificate")));
        }
    }
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder
        .map_err(|error| SettingsError::Invalid(format!("unable to set up TLS: {error}")))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
