//! Bearer tokens, which the API server reviews.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, header};

use crate::{
    reviews::{ReviewError, TokenReviews},
    ttl_cache::TtlCache,
    user::User,
};

const CAPACITY: usize = 512;

/// Longer tokens are refused without a review, so that the cache's memory is bounded.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Determines the users of bearer tokens.
pub struct TokenAuthenticator {
    reviews: Arc<dyn TokenReviews>,
    lifetime: Duration,
    cache: TtlCache<String, Option<User>>,
}

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The API server doesn't know the token.
    #[error("invalid bearer token")]
    Invalid,
    /// There is no review.
    #[error("unable to review the token")]
    Review(#[from] ReviewError),
}

impl TokenAuthenticator {
    /// Caches reviews for a time.
    pub fn new(reviews: Arc<dyn TokenReviews>, lifetime: Duration) -> Self {
        Self { reviews, lifetime, cache: TtlCache::new(CAPACITY) }
    }

    /// The user of the token in the headers. `None` if there is no token.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<User>, TokenError> {
        let Some(token) = bearer_token(headers) else { return Ok(None) };
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::Invalid);
        }
        if let Some(user) = self.cache.get(&token) {
            return user.map(Some).ok_or(TokenError::Invalid);
        }
        let user = self.reviews.review_token(&token).await?;
        self.cache.insert(token, user.clone(), self.lifetime);
        user.map(Some).ok_or(TokenError::Invalid)
    }
}

/// The token of `Authorization: Bearer TOKEN`.
fn bearer_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let (scheme, rest) = value.trim().split_once(' ')?;
    let token = rest.split(' ').next().unwrap_or_default();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty();
    is_bearer.then(|| token.to_owned())
}
