//! A certificate authority and the certificates of one control plane.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// A certificate authority that writes its files to a directory, its own certificate to `ca.crt`.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// A certificate and its key. The files contain PEM.
pub(crate) struct Identity {
    pub(crate) certificate: Certificate,
    pub(crate) key: KeyPair,
    pub(crate) certificate_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

impl Authority {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "hpa-kube-apiserver");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self { issuer, dir: dir.to_owned() };
        write(&authority.certificate_file(), &authority.pem())?;
        Ok(authority)
    }

    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a serving certificate for DNS names and IP addresses. `file` is the stem of its files
    /// and its common name.
    pub(crate) fn issue_serving_certificate(&self, file: &str, names: &[&str]) -> Result<Identity> {
        self.issue(file, names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Issues a client certificate. `file` is the stem of its files and the name of the user.
    pub(crate) fn issue_client_certificate(&self, file: &str) -> Result<Identity> {
        self.issue(file, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        file: &str,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, file);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let certificate_file = self.dir.join(format!("{file}.crt"));
        write(&certificate_file, &certificate.pem())?;
        let key_file = self.dir.join(format!("{file}.key"));
        write(&key_file, &key.serialize_pem())?;
        Ok(Identity { certificate, key, certificate_file, key_file })
    }
}

/// Generates the key that signs service account tokens. Returns the files of its private and public
/// part.
pub(crate) fn service_account_key(dir: &Path) -> Result<[PathBuf; 2]> {
    let key = KeyPair::generate()?;
    let files = ["key", "pub"].map(|extension| dir.join(format!("service-account.{extension}")));
    let [private, public] = &files;
    write(private, &key.serialize_pem())?;
    write(public, &key.public_key_pem())?;
    Ok(files)
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
