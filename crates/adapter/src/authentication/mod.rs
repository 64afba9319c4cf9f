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

use hpa_metrics::describe;
use http::HeaderMap;
use parking_lot::RwLock;

use crate::reviews::{ReviewError, TokenAuthenticator, TokenError, User};

pub(crate) use peer::KnownClient;
pub use peer::{ClientKeyVerifier, Peer};
pub use trust::{CaBundle, FrontProxy, FrontProxyNames, Trust};
pub use trust_source::{ConfigMapLookup, FrontProxyFlags, TrustSettings, TrustSource};

/// Determines the user of a request.
pub struct Authenticator {
    trust: RwLock<Arc<Trust>>,
    tokens: Option<TokenAuthenticator>,
}

/// The reason that a request has no user, not even the anonymous one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// The errors of the credentials, by method.
    #[error("invalid credentials: {}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error("too many tokens need a review")]
    Busy,
}

/// The user of a request, who may be anonymous.
#[derive(Debug)]
pub struct AuthenticatedUser {
    pub user: User,
    /// Whether a front proxy named the user.
    pub is_proxied: bool,
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
        let verification = peer.verify(&self.trust.read().clone());
        verification.is_some_and(|verification| verification.is_front_proxy())
    }

    /// Determines the user of a request: by the headers, if the client is a front proxy, else by
    /// the client certificate, else by the token, which may need a review by the API server.
    /// Without any credentials, the user is anonymous.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
    ) -> Result<AuthenticatedUser, AuthenticationError> {
        let authenticated = |user: User, is_proxied| {
            let user = user.with_authenticated_group();
            AuthenticatedUser { user, is_proxied }
        };
        let mut problems = Vec::new();
        let verification = peer.verify(&self.trust.read().clone());
        if let Some(verification) = verification {
            match verification.front_proxy_user(headers) {
                Ok(Some(user)) => return Ok(authenticated(user, true)),
                Ok(None) => {}
                Err(problem) => problems.push(format!("front proxy: {problem}")),
            }
            match verification.certificate_user() {
                Ok(Some(user)) => return Ok(authenticated(user, false)),
                Ok(None) => {}
                Err(problem) => problems.push(format!("client certificate: {problem}")),
            }
        }
        if let Some(tokens) = &self.tokens {
            match tokens.authenticate(peer.address(), headers).await {
                Ok(Some(user)) => return Ok(authenticated(user, false)),
                Ok(None) => {}
                Err(TokenError::Review(ReviewError::TooMany)) => {
                    return Err(AuthenticationError::Busy);
                }
                Err(error) => problems.push(format!("token: {}", describe(&error))),
            }
        }
        if problems.is_empty() {
            Ok(AuthenticatedUser { user: User::anonymous(), is_proxied: false })
        } else {
            Err(AuthenticationError::Invalid(problems))
        }
    }
}
