//! Tokens for the debug API.
//!
//! The API server's proxy removes the credentials of a request and doesn't forward its user. The
//! debug API therefore needs a separate token. The user's own token would give the pod all
//! permissions of the user. Instead, the client requests a token for a ServiceAccount without other
//! permissions, with an audience that no other server accepts.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, api::PostParams};
use tokio::{sync::Mutex, time::Instant};

use super::{lease_key::LeaseKey, unavailable::Unavailable};
use crate::debug_api::AUDIENCE;

/// The lifetime of tokens: the shortest that the API server accepts.
const LIFETIME: Duration = Duration::from_secs(600);
/// The age at which a token is replaced.
const RENEW_AFTER: Duration = Duration::from_secs(300);

/// A token that is renewed on use, before it expires.
pub(super) struct DebugToken {
    accounts: Api<ServiceAccount>,
    namespace: String,
    account: String,
    /// The token, and the time at which it was requested.
    current: Mutex<(String, Instant)>,
}

impl DebugToken {
    /// Requests a token for the ServiceAccount of the controller's debug API.
    pub(super) async fn request(client: &Client, lease: &LeaseKey) -> Result<Self, Unavailable> {
        let LeaseKey { namespace, name } = lease;
        let token = Self {
            accounts: Api::namespaced(client.clone(), namespace),
            namespace: namespace.clone(),
            account: format!("{name}-debug"),
            current: Mutex::new((String::new(), Instant::now())),
        };
        *token.current.lock().await = token.issue().await?;
        Ok(token)
    }

    /// Returns a valid token.
    pub(super) async fn current(&self) -> Result<String, Unavailable> {
        let mut current = self.current.lock().await;
        if current.1.elapsed() > RENEW_AFTER {
            *current = self.issue().await?;
        }
        Ok(current.0.clone())
    }

    async fn issue(&self) -> Result<(String, Instant), Unavailable> {
        let requested = Instant::now();
        let spec = TokenRequestSpec {
            audiences: Some(vec![AUDIENCE.to_owned()]),
            expiration_seconds: Some(LIFETIME.as_secs().cast_signed()),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let parameters = PostParams::default();
        let issued = self.accounts.create_token_request(&self.account, &parameters, &request).await;
        let account = format!("{}/{}", self.namespace, self.account);
        let action = format!("create a token for the ServiceAccount {account}");
        let issued = issued.map_err(|error| match error {
            kube::Error::Api(status) if status.is_not_found() => Unavailable::NoAccount { account },
            error => Unavailable::of_kube_error(&action, error),
        })?;
        let token = issued.status.and_then(|status| status.token);
        let token = token
            .ok_or_else(|| Unavailable::Unreachable("the API server issued no token".to_owned()))?;
        Ok((token, requested))
    }
}
