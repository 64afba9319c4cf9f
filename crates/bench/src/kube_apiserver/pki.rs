//! A certificate authority and its certificates, of one server.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

/// The authority; its certificate is in `ca.crt`.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

/// A certificate and its key.
pub(super) struct Identity {
    pub(super) certificate: Certificate,
    pub(super) key: KeyPair,
    /// The same in files, each with its PEM.
    pub(super) certificate_file: PathBuf,
    pub(super) key_file: PathBuf,
}

impl Authority {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "hpa-bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let authority = Self { issuer, folder: folder.to_owned() };
        write(&authority.certificate_file(), &authority.pem())?;
        Ok(authority)
    }

    pub(super) fn certificate_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// For a server that is called by these names: of DNS, or IP addresses.
    pub(super) fn server(&self, name: &str, names: &[&str]) -> Result<Identity> {
        self.issue(name, names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// For a client of this name.
    pub(super) fn client(&self, name: &str) -> Result<Identity> {
        self.issue(name, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        name: &str,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let names = names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let certificate_file = self.folder.join(format!("{name}.crt"));
        write(&certificate_file, &certificate.pem())?;
        let key_file = self.folder.join(format!("{name}.key"));
        write(&key_file, &key.serialize_pem())?;
        Ok(Identity { certificate, key, certificate_file, key_file })
    }
}

/// Makes a key that signs the tokens of service accounts: the files of its private and of its public half.
pub(super) fn token_key(folder: &Path) -> Result<[PathBuf; 2]> {
    let key = KeyPair::generate()?;
    let files = ["key", "pub"].map(|extension| folder.join(format!("service-account.{extension}")));
    let [private, public] = &files;
    write(private, &key.serialize_pem())?;
    write(public, &key.public_key_pem())?;
    Ok(files)
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
