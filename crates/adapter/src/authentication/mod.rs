//! Authenticates requests: by front proxy headers, client certificate or token, or as the anonymous
//! user.
//!
//! As in kube-apiserver, the first method that finds a user wins. If no method finds a user and one
//! of them found invalid credentials, the request is refused and not treated as anonymous.

mod der;
mod peer;
#[cfg(test)]
mod tests;
mod trust;
mod trust_source;

use std::sync::Arc;

use crate::reviews::{ReviewError, TokenAuthenticator, TokenError, User};
use hpa_metrics::describe;
use http::HeaderMap;
use parking_lot::RwLock;

pub use peer::{Peer, RequestedCertificates};
pub use trust::{Authority, AuthorityError, FrontProxy, FrontProxyNames, Trust, TrustError};
pub use trust_source::{
    ConfigMapLookup, FrontProxyFlags, TrustSettings, TrustSource, TrustSourceError,
};

/// Determines the user of a request.
pub struct Authenticator {
    trust: RwLock<Arc<Trust>>,
    tokens: Option<TokenAuthenticator>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unauthenticated {
    /// The errors of the credentials, by method.
    #[error("invalid credentials: {}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error("too many tokens wait for a review")]
    Busy,
}

/// The result of authentication by the certificate of the connection.
#[derive(Debug)]
pub struct CertificateResult {
    /// The user, if the certificate or the front proxy names one.
    pub user: Option<User>,
    /// Whether the front proxy named the user.
    pub is_front_proxy: bool,
    problems: Vec<String>,
}

impl Authenticator {
    /// Without `tokens`, tokens in requests are ignored.
    pub fn new(trust: Trust, tokens: Option<TokenAuthenticator>) -> Self {
        Self { trust: RwLock::new(Arc::new(trust)), tokens }
    }

    /// Replaces the trusted certificates and names.
    pub fn set_trust(&self, trust: Trust) {
        *self.trust.write() = Arc::new(trust);
    }

    /// Whether a client is a front proxy.
    pub(crate) fn is_front_proxy(&self, peer: &Peer) -> bool {
        let verified = peer.verify(&self.trust.read().clone());
        verified.is_some_and(|verified| verified.is_front_proxy())
    }

    /// Determines the user of a request, from the certificate of the connection and the headers.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        let by_certificate = self.by_certificate(peer, headers);
        match by_certificate.user {
            Some(user) => Ok(user),
            None => self.by_token(by_certificate, peer, headers).await,
        }
    }

    /// Determines the user by the certificate of the connection.
    pub fn by_certificate(&self, peer: &Peer, headers: &HeaderMap) -> CertificateResult {
        let mut problems = Vec::new();
        let result = |user: Option<User>, is_front_proxy, problems| CertificateResult {
            user: user.map(User::authenticated),
            is_front_proxy,
            problems,
        };
        let Some(verified) = peer.verify(&self.trust.read().clone()) else {
            return result(None, false, problems);
        };
        match verified.front_proxy_user(headers) {
            Ok(None) => {}
            Ok(user) => return result(user, true, problems),
            Err(problem) => problems.push(format!("front proxy: {problem}")),
        }
        match verified.certificate_user() {
            Ok(user) => return result(user, false, problems),
            Err(problem) => problems.push(format!("client certificate: {problem}")),
        }
        result(None, false, problems)
    }

    /// Determines the user of a request by its token, which may need a review by the API server.
    /// Without any credentials, the user is anonymous.
    pub async fn by_token(
        &self,
        by_certificate: CertificateResult,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        let mut problems = by_certificate.problems;
        if let Some(tokens) = &self.tokens {
            match tokens.authenticate(peer.address(), headers).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(TokenError::Review(ReviewError::TooMany)) => {
                    return Err(Unauthenticated::Busy);
                }
                Err(error) => problems.push(format!("token: {}", describe(&error))),
            }
        }
        if problems.is_empty() {
            Ok(User::anonymous())
        } else {
            Err(Unauthenticated::Invalid(problems))
        }
    }
}
