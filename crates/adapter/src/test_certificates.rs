//! Client certificates for tests.

use std::collections::BTreeMap;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::authentication::Trust;

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate to issue.
#[derive(Clone)]
pub(crate) struct Leaf {
    pub(crate) common_name: &'static str,
    pub(crate) organizations: &'static [&'static str],
    pub(crate) usages: Vec<ExtendedKeyUsagePurpose>,
    /// The years of the start and the end of the validity.
    pub(crate) years: (i32, i32),
    pub(crate) is_authority: bool,
}

pub(crate) fn leaf(common_name: &'static str) -> Leaf {
    Leaf {
        common_name,
        organizations: &[],
        usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
        years: (2020, 2100),
        is_authority: false,
    }
}

impl Leaf {
    pub(crate) fn issued_by(&self, issuer: &Issuer) -> Vec<CertificateDer<'static>> {
        vec![self.issue(issuer).0]
    }

    /// Issues a certificate. Returns it with its key.
    pub(crate) fn issue(&self, issuer: &Issuer) -> (CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for organization in self.organizations {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        if !self.common_name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, self.common_name);
        }
        params.extended_key_usages.clone_from(&self.usages);
        if self.is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.not_before = date_time_ymd(self.years.0, 1, 1);
        params.not_after = date_time_ymd(self.years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, issuer).unwrap().der().clone(), key)
    }
}

/// The CAs of a cluster, and a CA that it doesn't trust.
pub(crate) struct ClusterCas {
    pub(crate) front_proxy: Issuer,
    pub(crate) clients: Issuer,
    pub(crate) unknown: Issuer,
}

impl ClusterCas {
    pub(crate) fn new() -> Self {
        Self {
            front_proxy: authority("front-proxy-ca"),
            clients: authority("kubernetes"),
            // It has the name of a trusted CA.
            unknown: authority("front-proxy-ca"),
        }
    }

    pub(crate) fn trust(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Trust {
        let list = |names: &[&str]| serde_json::to_string(names).unwrap();
        let mut data: BTreeMap<String, String> = [
            ("requestheader-client-ca-file", self.front_proxy.pem()),
            ("client-ca-file", self.clients.pem()),
            ("requestheader-allowed-names", list(&["front-proxy-client"])),
            ("requestheader-username-headers", list(&["X-Remote-User"])),
            ("requestheader-uid-headers", list(&["X-Remote-Uid"])),
            ("requestheader-group-headers", list(&["X-Remote-Group"])),
            ("requestheader-extra-headers-prefix", list(&["X-Remote-Extra-"])),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        change(&mut data);
        Trust::from_cluster(&data).unwrap()
    }
}
