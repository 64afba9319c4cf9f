//! Access control of the debug API.

use std::{net::IpAddr, sync::Arc, time::Duration};

use hpa_adapter::metrics_api::{RequestInfo, UrlQuery};
use hpa_adapter::reviews::{
    AccessReviews, AudienceReviews, Authorizer, AuthorizerOptions, Flow, Rate, ReviewError,
    ReviewLimit, TokenAuthenticator, TokenError, TokenReviews, User, bearer_token,
};
use http::{HeaderMap, HeaderName, header, uri::Authority};
use kube::Client;

/// The audience of tokens in [`TOKEN_HEADER`]. The API server doesn't accept tokens with this
/// audience for itself. A pod that pretends to be the controller receives such tokens, but can't
/// send requests to the API server with them.
pub(crate) const AUDIENCE: &str = "debug.hpa-rs.dev";

/// The header of tokens in requests through kube-apiserver, which removes `Authorization`.
pub(crate) const TOKEN_HEADER: HeaderName = HeaderName::from_static("hpa-debug-authorization");

/// The time for which token reviews are cached, and access reviews that allow a request. Access
/// reviews that deny a request are cached for a sixth of it.
const REVIEW_LIFETIME: Duration = Duration::from_secs(60);

/// Limits for the access reviews that run, and for those that wait.
const RUNNING_REVIEWS: usize = 4;
const WAITING_REVIEWS: usize = 28;

/// The rates of access reviews, in total and of a user. Each path needs a review, so a user without
/// rights could otherwise cause any number. [`TokenAuthenticator`] limits reviews of tokens.
const ACCESS_RATE: Rate = Rate { per_second: 40, burst: 400 };
pub(super) const ACCESS_RATE_OF_USER: Rate = Rate { per_second: 10, burst: 200 };

/// The clients that may read the documents.
pub(super) enum Access {
    /// Every client of this machine.
    Local,
    /// Users who may get the path.
    Reviewed(Box<ReviewedAccess>),
}

/// Access for users that the API server authenticates and authorizes.
pub(super) struct ReviewedAccess {
    /// Tokens for the API server, in `Authorization`.
    api_tokens: TokenAuthenticator,
    /// Tokens for [`AUDIENCE`], in [`TOKEN_HEADER`].
    debug_tokens: TokenAuthenticator,
    authorizer: Authorizer,
    limit: ReviewLimit,
}

/// The reason why a request is rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denied {
    #[error("a bearer token is required, in Authorization or Hpa-Debug-Authorization")]
    NoToken,
    #[error("the bearer token is not valid")]
    InvalidToken,
    #[error("user {user} may not get {path}")]
    Forbidden { user: String, path: String },
    #[error("too many requests need a review")]
    Busy,
    /// The reason is only logged, because the client may not be authenticated.
    #[error("the API server does not review the request; the controller's log has the reason")]
    Unreviewed(String),
    /// Protects against web pages whose host name resolves to a loopback address.
    #[error("the host {0:?} is not a name of the loopback interface")]
    ForeignHost(String),
}

impl Access {
    /// Access for users who may get the path according to the API server.
    pub(super) fn reviewed(client: &Client) -> Self {
        let debug_tokens = Arc::new(AudienceReviews::new(client.clone(), AUDIENCE));
        let client = Arc::new(client.clone());
        Self::with_reviews(client.clone(), debug_tokens, client)
    }

    pub(super) fn with_reviews(
        api_tokens: Arc<dyn TokenReviews>,
        debug_tokens: Arc<dyn TokenReviews>,
        access_reviews: Arc<dyn AccessReviews>,
    ) -> Self {
        let options = AuthorizerOptions {
            always_allowed: Vec::new(),
            allowed_lifetime: REVIEW_LIFETIME,
            denied_lifetime: REVIEW_LIFETIME / 6,
        };
        Self::Reviewed(Box::new(ReviewedAccess {
            api_tokens: TokenAuthenticator::new(api_tokens, REVIEW_LIFETIME),
            debug_tokens: TokenAuthenticator::new(debug_tokens, REVIEW_LIFETIME),
            authorizer: Authorizer::new(access_reviews, &options),
            limit: ReviewLimit::new(RUNNING_REVIEWS, WAITING_REVIEWS)
                .with_rate(ACCESS_RATE, ACCESS_RATE_OF_USER),
        }))
    }

    pub(super) async fn authorize(
        &self,
        client: IpAddr,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<(), Denied> {
        match self {
            Self::Local => check_host(headers),
            Self::Reviewed(reviewed) => reviewed.authorize(client, headers, path).await,
        }
    }
}

impl ReviewedAccess {
    async fn authorize(
        &self,
        client: IpAddr,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<(), Denied> {
        let user = self.user(client, headers).await?;
        let request =
            RequestInfo::new("GET", path, &UrlQuery::default()).map_err(Denied::Unreviewed)?;
        let limit = (&self.limit, Flow::of_user(&user));
        let access = self.authorizer.authorize(&user, &request, limit).await?;
        if access.allowed {
            return Ok(());
        }
        Err(Denied::Forbidden { user: user.name, path: path.to_owned() })
    }

    async fn user(&self, client: IpAddr, headers: &HeaderMap) -> Result<User, Denied> {
        let user = if let Some(token) = bearer_token(headers, &TOKEN_HEADER) {
            self.debug_tokens.user_of_token(client, token).await
        } else if let Some(token) = bearer_token(headers, &header::AUTHORIZATION) {
            self.api_tokens.user_of_token(client, token).await
        } else {
            return Err(Denied::NoToken);
        };
        match user {
            Ok(user) => Ok(user.with_authenticated_group()),
            Err(TokenError::Review(error)) => Err(error.into()),
            Err(_) => Err(Denied::InvalidToken),
        }
    }
}

impl From<ReviewError> for Denied {
    fn from(error: ReviewError) -> Self {
        match error {
            ReviewError::TooMany => Self::Busy,
            error => Self::Unreviewed(hpa_metrics::describe(&error)),
        }
    }
}

fn check_host(headers: &HeaderMap) -> Result<(), Denied> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let authority = host.parse::<Authority>().ok();
    let name = authority.as_ref().map_or("", Authority::host);
    match name {
        "localhost" | "127.0.0.1" | "[::1]" => Ok(()),
        _ => Err(Denied::ForeignHost(host.to_owned())),
    }
}
