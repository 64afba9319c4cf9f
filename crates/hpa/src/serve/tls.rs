//! The certificates of the endpoints, read again when their files change.

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

/// The certificates of the endpoints, and their files.
pub(super) struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    acceptor: TlsAcceptor,
    modified: Modified,
}

/// When the two files were changed. A mounted Secret is changed by a new link, which shows here too.
type Modified = (Option<SystemTime>, Option<SystemTime>);

impl Certificates {
    /// Reads the files.
    pub(super) fn load(chain: PathBuf, key: PathBuf) -> anyhow::Result<Self> {
        let modified = (modified(&chain), modified(&key));
        let acceptor = acceptor(&chain, &key)?;
        Ok(Self { chain, key, loaded: Mutex::new(Loaded { acceptor, modified }) })
    }

    /// What accepts connections, by the files as they are now; if those cannot be used, as they were.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock();
        let modified = (modified(&self.chain), modified(&self.key));
        if modified != loaded.modified {
            loaded.modified = modified;
            match acceptor(&self.chain, &self.key) {
                Ok(acceptor) => {
                    info!("the certificates were changed and read again");
                    loaded.acceptor = acceptor;
                }
                Err(error) => {
                    warn!(error = format!("{error:#}"), "keeping the earlier certificates")
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
    let unreadable = |path: &Path| format!("cannot use {}", path.display());
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| unreadable(certificates))?;
    let private = PrivateKeyDer::from_pem_file(key).with_context(|| unreadable(key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| {
            format!("{} and {} do not go together", certificates.display(), key.display())
        })?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
