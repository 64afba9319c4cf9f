//! Generates self-signed serving certificates.

use std::{
    fmt, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::error::SetupError;

/// The validity of a certificate. [`api_service`](crate::api_service) replaces a certificate when a
/// third of its validity is left.
pub const LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);

/// A certificate chain and its key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedCertificate {
    /// The certificate of the server, then that of its CA.
    pub chain: String,
    pub key: String,
    /// The certificates of trusted CAs: of this CA and, after a renewal, of the previous one.
    pub ca_bundle: String,
}

impl fmt::Debug for GeneratedCertificate {
    /// Omits the private key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedCertificate").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl From<rcgen::Error> for SetupError {
    fn from(error: rcgen::Error) -> Self {
        Self::caused_by("unable to generate a certificate", error)
    }
}

impl GeneratedCertificate {
    /// Generates a CA, and a certificate for DNS names and IP addresses. Both are valid from at
    /// least an hour before `now`, because clocks differ. The CA's key is dropped.
    pub fn generate(names: &[String], now: Timestamp) -> Result<Self, SetupError> {
        let from = now.saturating_sub(SignedDuration::from_hours(1)).unwrap_or(now);
        let until = now.saturating_add(LIFETIME).unwrap_or(now);
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name.push(DnType::CommonName, "hpa-adapter-ca");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        set_validity(&mut authority, from, until);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = CertificateParams::new(names.to_vec())?;
        let name = names.first().map_or("hpa-adapter", String::as_str);
        // Common names have at most 64 characters.
        let name: String = name.chars().take(64).collect();
        server.distinguished_name.push(DnType::CommonName, name);
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_validity(&mut server, from, until);
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?;
        let ca_bundle = issuer.pem();
        let chain = format!("{}{ca_bundle}", certificate.pem());
        Ok(Self { chain, key: key.serialize_pem(), ca_bundle })
    }
}

/// Sets the validity in whole days: rcgen needs another time library for more precision.
fn set_validity(params: &mut CertificateParams, from: Timestamp, until: Timestamp) {
    let date = |at: Timestamp, days: i8| {
        let date = at.to_zoned(TimeZone::UTC).date().saturating_add(Span::new().days(days));
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    params.not_before = date(from, 0);
    params.not_after = date(until, 1);
}

/// Returns the paths of `apiserver.crt` and `apiserver.key` in a directory, the file names of
/// prometheus-adapter. If one doesn't exist, generates both for [`local_names`], and fails if the
/// directory isn't writable, for example on a read-only root file system.
pub fn find_or_generate(
    directory: &Path,
    now: Timestamp,
) -> Result<(PathBuf, PathBuf), SetupError> {
    let (chain, key) = (directory.join("apiserver.crt"), directory.join("apiserver.key"));
    if chain.is_file() && key.is_file() {
        return Ok((chain, key));
    }
    let generated = GeneratedCertificate::generate(&local_names(), now)?;
    let failed = |path: &Path| {
        let message = format!("unable to write {}", path.display());
        move |error: io::Error| SetupError::caused_by(message, error)
    };
    fs::create_dir_all(directory).map_err(failed(directory))?;
    write_private(&key, &generated.key).map_err(failed(&key))?;
    fs::write(&chain, &generated.chain).map_err(failed(&chain))?;
    Ok((chain, key))
}

/// The names in the certificate of a server without a known Service.
pub fn local_names() -> Vec<String> {
    vec!["localhost".to_owned(), "127.0.0.1".to_owned()]
}

/// Writes a file. On Unix, only its owner can read it.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    // A file that existed keeps its permissions.
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_can_read_a_key_file_that_existed() {
        let directory = tempfile::tempdir().unwrap();
        let key = directory.path().join("apiserver.key");
        fs::write(&key, "old").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        find_or_generate(directory.path(), Timestamp::now()).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&key).unwrap().contains("PRIVATE KEY"));
    }
}
