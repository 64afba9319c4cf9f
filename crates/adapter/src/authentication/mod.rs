//! Who sends a request: a user behind the front proxy, the owner of a client certificate, the owner
//! of a token, or the anonymous user.
//!
//! As in kube-apiserver, each method is tried, and the first one that names a user counts. If
//! none does and any of them has found invalid credentials, the request is refused. It is never
//! taken for an anonymous one.

mod authority;
mod client_verifier;
mod front_proxy;
mod peer;
#[cfg(test)]
mod tests;
mod token;
mod trust;
mod trust_source;

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::RwLock;

pub use authority::{Authority, AuthorityError};
pub use client_verifier::RequestedCertificates;
pub use front_proxy::FrontProxy;
pub use peer::Peer;
pub use token::{TokenAuthenticator, TokenError};
pub use trust::{Trust, TrustError};
pub use trust_source::{FrontProxyFlags, Lookup, TrustSettings, TrustSource, TrustSourceError};

use crate::{describe::describe, user::User};

/// Determines the user of a request.
pub struct Authenticator {
    trust: RwLock<Arc<Trust>>,
    tokens: Option<TokenAuthenticator>,
}

/// The credentials of a request are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid credentials: {}", .problems.join("; "))]
pub struct Unauthenticated {
    /// What is wrong with them, by method.
    pub problems: Vec<String>,
}

impl Authenticator {
    /// An authenticator. Without `tokens`, tokens are not looked at.
    pub fn new(trust: Trust, tokens: Option<TokenAuthenticator>) -> Self {
        Self { trust: RwLock::new(Arc::new(trust)), tokens }
    }

    /// Replaces the certificates and names that are trusted.
    pub fn set_trust(&self, trust: Trust) {
        *self.trust.write() = Arc::new(trust);
    }

    /// Determines the user of a request, from the certificate of the connection and the headers.
    pub async fn authenticate(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<User, Unauthenticated> {
        let mut problems = Vec::new();
        if let Some(peer) = peer {
            let verified = peer.verify(&self.trust.read().clone());
            match verified.front_proxy_user(headers) {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(problem) => problems.push(format!("front proxy: {problem}")),
            }
            match verified.certificate_user() {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(problem) => problems.push(format!("client certificate: {problem}")),
            }
        }
        if let Some(tokens) = &self.tokens {
            match tokens.authenticate(headers).await {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(error) => problems.push(format!("token: {}", describe(&error))),
            }
        }
        if problems.is_empty() { Ok(User::anonymous()) } else { Err(Unauthenticated { problems }) }
    }
}
