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
    /// The lease of the controller whose debug API accepts the token.
    lease: LeaseKey,
    current: Mutex<IssuedToken>,
}

struct IssuedToken {
    text: String,
    requested_at: Instant,
}

impl DebugToken {
    /// Requests a token for the ServiceAccount of the controller's debug API.
    pub(super) async fn request(client: &Client, lease: &LeaseKey) -> Result<Self, Unavailable> {
        let accounts = Api::namespaced(client.clone(), &lease.namespace);
        let current = Mutex::new(issue(&accounts, lease).await?);
        Ok(Self { accounts, lease: lease.clone(), current })
    }

    /// Returns a valid token.
    pub(super) async fn current(&self) -> Result<String, Unavailable> {
        let mut current = self.current.lock().await;
        if current.requested_at.elapsed() > RENEW_AFTER {
            *current = issue(&self.accounts, &self.lease).await?;
        }
        Ok(current.text.clone())
    }
}

async fn issue(
    accounts: &Api<ServiceAccount>,
    LeaseKey { namespace, name }: &LeaseKey,
) -> Result<IssuedToken, Unavailable> {
    let requested_at = Instant::now();
    let spec = TokenRequestSpec {
        audiences: Some(vec![AUDIENCE.to_owned()]),
        expiration_seconds: Some(LIFETIME.as_secs().cast_signed()),
        ..TokenRequestSpec::default()
    };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let account = format!("{name}-debug");
    let issued = accounts.create_token_request(&account, &PostParams::default(), &request).await;
    let account = format!("{namespace}/{account}");
    let action = format!("create a token for the ServiceAccount {account}");
    let issued = issued.map_err(|error| match error {
        kube::Error::Api(status) if status.is_not_found() => Unavailable::NoAccount { account },
        error => Unavailable::of_kube_error(&action, error),
    })?;
    let text = issued.status.and_then(|status| status.token);
    let text =
        text.ok_or_else(|| Unavailable::Unreachable("the API server issued no token".to_owned()))?;
    Ok(IssuedToken { text, requested_at })
}
