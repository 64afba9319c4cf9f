//! The certificate of a connection's client.

use std::{sync::Arc, time::Duration};

use crate::reviews::User;
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::{front_proxy::FrontProxy, trust::Trust};
use crate::der::Subject;

/// How long a verification holds, so that a certificate that expires ends the access of an open
/// connection.
const LIFETIME: Duration = Duration::from_secs(30);

/// The certificate that a client presented. The client has proven that it has the key, and nothing
/// else.
pub struct Peer {
    chain: Vec<CertificateDer<'static>>,
    /// `None` if the certificate is malformed.
    subject: Option<Subject>,
    verified: Mutex<Option<(Arc<Verified>, Instant)>>,
}

/// Which authorities a certificate is from.
pub(super) struct Verified {
    trust: Arc<Trust>,
    /// `None` if the certificate is malformed.
    subject: Option<Subject>,
    /// `None` without such an authority.
    front_proxy: Option<Result<(), String>>,
    client: Option<Result<(), String>>,
}

impl Peer {
    /// The client with a certificate chain.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        let subject = chain.first().and_then(|client| Subject::of_certificate(client));
        Self { chain, subject, verified: Mutex::new(None) }
    }

    /// Verifies the certificate, unless that was done recently with the same authorities.
    pub(super) fn verify(&self, trust: &Arc<Trust>) -> Arc<Verified> {
        let mut cached = self.verified.lock();
        if let Some((verified, until)) = &*cached
            && Arc::ptr_eq(&verified.trust, trust)
            && Instant::now() < *until
        {
            return verified.clone();
        }
        let verify = |authority: &super::Authority| {
            authority.verify(&self.chain).map_err(|error| error.to_string())
        };
        let verified = Arc::new(Verified {
            subject: self.subject.clone(),
            front_proxy: trust.front_proxy.as_ref().map(|proxy| verify(&proxy.authority)),
            client: trust.client_authority.as_ref().map(verify),
            trust: trust.clone(),
        });
        *cached = Some((verified.clone(), Instant::now() + LIFETIME));
        verified
    }
}

impl Verified {
    /// The user in the headers, if the client is a front proxy.
    pub(super) fn front_proxy_user(&self, headers: &HeaderMap) -> Result<Option<User>, String> {
        let proxy = self.front_proxy()?;
        Ok(proxy.and_then(|proxy| proxy.user(headers)))
    }

    /// Whether the client is a front proxy.
    pub(super) fn is_front_proxy(&self) -> bool {
        matches!(self.front_proxy(), Ok(Some(_)))
    }

    /// What front proxies may say, if the client is one. `None` if there are no front proxies.
    fn front_proxy(&self) -> Result<Option<&FrontProxy>, String> {
        let (Some(proxy), Some(verified)) = (&self.trust.front_proxy, &self.front_proxy) else {
            return Ok(None);
        };
        verified.clone()?;
        let common_name = &self.subject()?.common_name;
        if !proxy.allows(common_name) {
            return Err(format!("the common name {common_name:?} is not allowed"));
        }
        Ok(Some(proxy))
    }

    /// The user that the certificate names.
    pub(super) fn certificate_user(&self) -> Result<Option<User>, String> {
        let Some(verified) = &self.client else { return Ok(None) };
        verified.clone()?;
        let Subject { common_name, organizations } = self.subject()?.clone();
        if common_name.is_empty() {
            return Ok(None);
        }
        Ok(Some(User { name: common_name, groups: organizations, ..User::default() }))
    }

    fn subject(&self) -> Result<&Subject, String> {
        self.subject.as_ref().ok_or_else(|| "the subject is malformed".to_owned())
    }
}
