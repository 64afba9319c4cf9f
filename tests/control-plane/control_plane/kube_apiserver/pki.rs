//! One certificate authority and the certificates of one run of the suite.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// A certificate authority whose files are in a directory.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// A certificate and its key, as PEM and as files.
pub(super) struct Identity {
    pub(super) cert_file: PathBuf,
    pub(super) key_file: PathBuf,
    pub(super) cert: rcgen::Certificate,
    pub(super) key: KeyPair,
}

impl Authority {
    pub(super) fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "control-plane-tests");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::write(dir.join("ca.crt"), issuer.pem())?;
        Ok(Self { issuer, dir: dir.to_owned() })
    }

    pub(super) fn cert_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A serving certificate for `names` (DNS names and IP addresses).
    pub(super) fn server(&self, file: &str, names: &[&str]) -> Result<Identity> {
        self.issue(file, names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate whose user is `file`.
    pub(super) fn client(&self, file: &str) -> Result<Identity> {
        self.issue(file, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        file: &str,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?;
        let cert_file = self.dir.join(format!("{file}.crt"));
        fs::write(&cert_file, cert.pem())?;
        let key_file = write_key(&self.dir, file, &key)?;
        Ok(Identity { cert_file, key_file, cert, key })
    }
}

/// A bare key, such as the one that signs the tokens of service accounts: the files of its private and public halves.
pub(super) fn key(dir: &Path, file: &str) -> Result<[PathBuf; 2]> {
    let key = KeyPair::generate()?;
    let public = dir.join(format!("{file}.pub"));
    fs::write(&public, key.public_key_pem())?;
    Ok([write_key(dir, file, &key)?, public])
}

fn write_key(dir: &Path, file: &str, key: &KeyPair) -> Result<PathBuf> {
    let path = dir.join(format!("{file}.key"));
    fs::write(&path, key.serialize_pem()).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
