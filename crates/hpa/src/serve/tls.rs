//! The serving certificate, reloaded when its files change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anyhow::Context;
use parking_lot::Mutex;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring::default_provider,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use tracing::{info, warn};

/// The serving certificate and its files.
pub(super) struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    modified: Modified,
}

/// Modification times of the two files. The kubelet updates a mounted Secret by replacing a
/// symlink, which changes these times too.
type Modified = (Option<SystemTime>, Option<SystemTime>);

impl Certificates {
    pub(super) fn load(chain: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let modified = (modified(&chain), modified(&key));
        let acceptor = acceptor(&chain, &key)?;
        Ok(Self { chain, key, loaded: Mutex::new(Loaded { acceptor, modified }) })
    }

    /// Returns an acceptor for the current files. If they are unusable, keeps the last certificate.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        let modified = (modified(&self.chain), modified(&self.key));
        if modified != loaded.modified {
            loaded.modified = modified;
            match acceptor(&self.chain, &self.key) {
                Ok(acceptor) => {
                    info!("reloaded the serving certificate");
                    loaded.acceptor = acceptor;
                }
                Err(error) => {
                    warn!(
                        error = format!("{error:#}"),
                        "unable to reload the serving certificate; keeping the old one"
                    );
                }
            }
        }
        loaded.acceptor.clone()
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

fn acceptor(certificates: &Path, key: &Path) -> anyhow::Result<TlsAcceptor> {
    let unreadable = |path: &Path| format!("unable to use {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| unreadable(certificates))?;
    let private = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable(key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            let (key, certificates) = (key.display(), certificates.display());
            format!("the key in {key} does not match the certificate in {certificates}")
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
